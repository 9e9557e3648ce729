// How builds meet: the table is told once, what differs is named, and who cannot agree leaves.
#include "tests/versions/play.hpp"
#include <doctest/doctest.h>

using namespace throng;
using namespace versions_test;

namespace {
/// Kinds of the messages that were delivered.
struct Kinds {
    std::vector<int> down, up;
    static void record(void* context, const TraceRecord& record) {
        if (record.fate != Fate::delivered)
            return;
        auto& kinds = *static_cast<Kinds*>(context);
        (record.direction == Direction::down ? kinds.down : kinds.up).push_back(static_cast<int>(record.message[0]));
    }
    static long count(const std::vector<int>& of, int kind) { return std::count(of.begin(), of.end(), kind); }
};
constexpr int hello = 1, welcome = 2, reject = 3, table = 8;
} // namespace

TEST_SUITE("versions") {
    TEST_CASE("equal builds meet without a table") {
        Kinds kinds;
        const BuildProtocol<Newer> same;
        Play<Newer> play({}, {.trace = {&Kinds::record, &kinds}});
        auto& peer = play.connect(same.protocol);
        REQUIRE(play.until([&] { return peer.client->joined(); }));
        CHECK(Kinds::count(kinds.down, table) == 0);
        CHECK(Kinds::count(kinds.up, hello) == 1);
    }

    TEST_CASE("builds that agree: one table, a second hello") {
        Kinds kinds;
        const BuildProtocol<Older> older;
        Play<Newer> play({}, {.trace = {&Kinds::record, &kinds}});
        auto& peer = play.connect(older.protocol);
        REQUIRE(play.until([&] { return peer.client->joined() && play.server.joined(peer.id); }));
        play.steps(30);
        CHECK(Kinds::count(kinds.down, table) == 1);
        CHECK(Kinds::count(kinds.up, hello) == 2);
        CHECK(Kinds::count(kinds.down, welcome) == 1);
        CHECK(Kinds::count(kinds.down, reject) == 0);
        CHECK(peer.last == Error::none);
        CHECK(peer.client->problem()[0] == 0);
    }

    TEST_CASE("builds that do not: the client knows the name, and is disconnected") {
        for (const double loss : {0.0, 5.0, 30.0}) {
            CAPTURE(loss);
            Protocol other;
            other.component<Older::Hit>("health").field(&Older::Hit::damage, Range{0, 9, 1}, "hp");
            REQUIRE(other.finish() == Error::none);
            Play<Newer> play;
            play.world.spawn(Newer::Position{}, Replicated{});
            auto& peer = play.connect(other, {.loss_percent = loss, .delay_us = loss > 0 ? 30'000u : 0u});
            REQUIRE(play.until([&] { return peer.last == Error::wrong_protocol; }));
            CHECK(std::string(peer.client->problem()) == "component \"health\", field \"hp\": another kind or type");
            REQUIRE(play.until([&] { return !peer.client->connected(); }));
            CHECK_FALSE(play.server.joined(peer.id));
            CHECK(peer.world.entity_count() == 0);
            CHECK(play.malformed == 1); // the hello that says so
            CHECK(std::string(peer.client->problem()) == "component \"health\", field \"hp\": another kind or type");
        }
    }

    TEST_CASE("a table beyond the backend's largest message is not told") {
        const BuildProtocol<Older> older;
        Play<Newer> play({}, {.reliable_bytes_max = 200});
        auto& peer = play.connect(older.protocol);
        REQUIRE(play.until([&] { return peer.last == Error::wrong_protocol; }));
        CHECK(std::string(peer.client->problem()) == "another protocol, and the table is too large to tell");
        CHECK(play.until([&] { return !peer.client->connected(); }));
    }

    TEST_CASE("a client goes from a server of one build to one of another, and back") {
        Play<Newer> newer;
        Play<Older> older;
        Newer::Health health;
        health.hp = 5;
        const Entity a = newer.world.spawn(Newer::Position{1, 9, 2}, health, Newer::Aura{}, Replicated{});
        const Entity b = older.world.spawn(Older::Position{3, 4}, Older::Health{6, false, Mood::calm}, Replicated{});
        /// Goes on behind another connection.
        struct Switch final : ClientBackend {
            ClientBackend* behind = nullptr;
            void poll(TimeUs now, ClientBackendSink& sink) override { behind->poll(now, sink); }
            SendResult send(Channel channel, Bytes message) override { return behind->send(channel, message); }
            void flush(TimeUs now) override { behind->flush(now); }
            u32 message_bytes_max(Channel channel) const override { return behind->message_bytes_max(channel); }
        } backend;
        const BuildProtocol<Older> build;
        World world;
        std::unique_ptr<Client> client;
        const auto visit = [&](auto& play, Entity entity, i32 hp) {
            const ClientId id = play.network.connect({}, {});
            backend.behind = &play.network.client(id);
            if (!client)
                client = std::make_unique<Client>(world, build.protocol, backend);
            const auto shown = [&] { return client->entity(play.server.net_id(entity)); };
            for (int i = 0; i < 20; ++i) {
                play.step();
                CHECK(client->receive(play.now) == Error::none);
                CHECK(client->send(play.now) == Error::none);
            }
            REQUIRE(client->joined());
            REQUIRE(world.alive(shown()));
            CHECK(world.entity_count() == 1);
            CHECK(world.get<Older::Health>(shown())->hp == hp);
            CHECK(play.server.settled(id));
            CHECK(play.equal > 0);
            CHECK(play.different == 0);
            play.server.disconnect(id);
            play.step();
            CHECK(client->receive(play.now) == Error::none);
            CHECK_FALSE(client->connected());
            CHECK(world.entity_count() == 1); // what it had stays
            CHECK(client->confirmed_tick(shown()) != 0);
        };
        for (int round = 0; round < 2; ++round) {
            visit(newer, a, 5);
            visit(older, b, 6);
        }
    }
}
