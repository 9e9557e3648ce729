// State larger than a packet, on an Ordered channel that is slower than what goes there, and takes all of it.
#include "tests/support/replication_world.hpp"
#include "throng/multiplexer.hpp"
#include <doctest/doctest.h>

using namespace throng;
using namespace throng_test;

namespace {

/// That no compression makes smaller than a packet.
std::string long_text(u32 seed) {
    std::string text(300, ' ');
    for (char& letter : text) {
        seed = seed * 1664525 + 1013904223;
        letter = static_cast<char>(seed >> 24);
    }
    return text;
}

/// Two messages of a kind a flush; the multiplexer takes any number.
struct Narrow {
    explicit Narrow(ServerConfig config)
        : network({.reliable_bytes_max = 8192, .unreliable = {2400, 2}, .ordered = {8192, 2}}), worlds(network.server()),
          protocol(make_protocol()), server(world, *protocol, worlds.open(0), config) {
        id = network.connect();
        rooms = std::make_unique<ClientMultiplexer>(network.client(id));
        ClientConfig at_client;
        at_client.max_late_ticks = 4;
        client = std::make_unique<Client>(shown, *protocol, *rooms->join(0), at_client);
    }
    const TickReport& step() {
        worlds.poll(now += 50'000);
        server.receive(now);
        const TickReport& report = server.tick(now);
        worlds.flush(now);
        rooms->poll(now);
        CHECK(client->receive(now) == Error::none);
        CHECK(client->send(now) == Error::none);
        rooms->flush(now);
        return report;
    }
    LoopbackNetwork network;
    ServerMultiplexer worlds;
    std::unique_ptr<Protocol> protocol;
    World world, shown;
    Server server;
    ClientId id = 0;
    std::unique_ptr<ClientMultiplexer> rooms;
    std::unique_ptr<Client> client;
    TimeUs now = 0;
};

} // namespace

TEST_SUITE("server") {
    TEST_CASE("large state: a slow channel gets free again once the world is still") {
        Narrow net({.message_bytes_max = 200, .loss_timeout_ticks = 4});
        for (int i = 0; i < 10; ++i)
            net.step();
        REQUIRE(net.server.joined(0));
        std::vector<Entity> all;
        for (int i = 0; i < 40; ++i)
            all.push_back(net.world.spawn(Name{long_text(static_cast<u32>(i))}, Replicated{}));
        bool waited = false;
        for (int i = 0; i < 120; ++i) { // far more than the channel can carry
            for (const Entity e : all)
                net.world.mut<Name>(e)->text = long_text(static_cast<u32>(i) * 64 + e.entity_idx);
            net.step();
            waited |= net.server.why(all[39], 0).cause == WhyReason::ordered_busy;
        }
        CHECK(waited);
        int ticks = 0;
        while (!net.server.settled(0) && ++ticks < 300)
            net.step();
        CHECK(ticks < 150);
        for (const Entity e : all) {
            const Name* const there = net.shown.get<Name>(net.client->entity(net.server.net_id(e)));
            REQUIRE(there);
            CHECK((there->text == net.world.get<Name>(e)->text));
        }
        CHECK(net.step().messages == 0); // idle again
    }

    TEST_CASE("large state: more messages a tick than records_max, of which most are dropped") {
        Narrow net({.records_max = 16, .message_bytes_max = 200});
        for (int i = 0; i < 10; ++i)
            net.step();
        REQUIRE(net.server.joined(0));
        std::vector<Entity> all;
        for (int i = 0; i < 60; ++i) // a packet each
            all.push_back(net.world.spawn(Name{long_text(static_cast<u32>(i)).substr(0, 120)}, Replicated{}));
        CHECK((net.step().limits & limit_records) != 0);
        u64 lost = 0;
        int ticks = 0;
        while (!net.server.settled(0) && ++ticks < 600)
            lost += net.step().lost_messages;
        CHECK(ticks < 120);
        CHECK(lost < 60); // once it is known how many go, few more are sent
        CHECK(net.shown.entity_count() == 60);
    }

    TEST_CASE("large state: what went beyond a budget is paid off in quiet ticks, too") {
        ReplicationWorld net({.budget_bytes = 100});
        const auto& peer = net.connect();
        net.steps(5);
        const Entity large = net.world.spawn(Name{long_text(1) + long_text(2) + long_text(3) + long_text(4)}, Replicated{});
        const Entity slow = net.world.spawn(Health{1, false}, Replicated{});
        net.steps(30); // 1200 bytes are 12 ticks' share
        REQUIRE(net.server.settled(peer.id));
        net.world.mut<Name>(large)->text = long_text(5) + long_text(6) + long_text(7) + long_text(8);
        net.steps(30);
        REQUIRE(net.server.settled(peer.id));
        net.world.mut<Health>(slow)->hp = 2;
        CHECK(net.step().limits == 0);
        CHECK(peer.world->get<Health>(peer.client->entity(net.server.net_id(slow)))->hp == 2);
    }

    TEST_CASE("large state: a fast channel is not held up") {
        ReplicationWorld net({.message_bytes_max = 200});
        const auto& peer = net.connect();
        net.steps(5);
        REQUIRE(net.server.joined(peer.id));
        for (int i = 0; i < 60; ++i)
            net.world.spawn(Name{long_text(static_cast<u32>(i))}, Replicated{});
        net.step(); // the first ones go at once, and each that has arrived makes room for two
        net.steps(3);
        CHECK(peer.world->entity_count() == 60);
    }
}
