// Several worlds over one set of connections, each replicated on a thread of its own.
#include "src/server/state.hpp"
#include "tests/conformance/state_support.hpp"
#include "throng/messenger.hpp"
#include "throng/multiplexer.hpp"
#include <atomic>
#include <thread>

using namespace throng;
using conformance::setting;
using conformance::state::Health;
using conformance::state::make_state_protocol;
using conformance::state::Name;
using conformance::state::StateNet;
using conformance::state::Workers;

namespace {

enum class Turns { together, first_first, second_first };

/// Two worlds and their clients. What is odd lives in the second.
struct Realms {
    static constexpr u32 count = 2;
    struct Player {
        ClientId connection = 0;
        std::unique_ptr<ClientMultiplexer> mux;
        World world[count] = {World(WorldOptions{.block_rows = 64}), World(WorldOptions{.block_rows = 64})};
        std::unique_ptr<Client> client[count];
    };

    explicit Realms(Turns chosen = Turns::together, const LoopbackConfig& links = {}, const MultiplexerConfig& config = {})
        : turns(chosen), network(links), mux(network.server(), config) {
        for (u32 k = 0; k < count; ++k)
            start(k);
    }
    void start(u32 k) {
        ServerConfig config;
        config.executor = workers[k].executor.get();
        config.heartbeat_ticks = 0;
        server[k] = std::make_unique<Server>(world[k], *protocol, mux.open(k), config);
        REQUIRE(server[k]->valid() == Error::none);
    }
    void stop(u32 k) {
        server[k].reset();
        mux.close(k);
    }
    Player& connect(const LinkConfig& link = StateNet::link()) {
        Player& player = *players.emplace_back(std::make_unique<Player>());
        player.connection = network.connect(link);
        player.mux = std::make_unique<ClientMultiplexer>(network.client(player.connection));
        return player;
    }
    void enter(Player& player, u32 k) {
        ClientBackend* const backend = player.mux->join(k);
        REQUIRE(backend);
        if (!player.client[k])
            player.client[k] = std::make_unique<Client>(player.world[k], *protocol, *backend);
    }
    void serve(u32 k) {
        if (!server[k])
            return;
        server[k]->receive(now);
        server[k]->tick(now);
    }
    void step() {
        now += 50'000;
        mux.poll(now);
        if (turns == Turns::together) {
            std::thread other([&] { serve(1); });
            serve(0);
            other.join();
        } else {
            serve(turns == Turns::second_first);
            serve(turns != Turns::second_first);
        }
        mux.flush(now);
        for (const auto& player : players) {
            player->mux->poll(now);
            for (const auto& client : player->client)
                if (client) {
                    const Error error = client->receive(now);
                    errors += error != Error::none && error != Error::unauthorized;
                    errors += client->send(now) != Error::none;
                }
            player->mux->flush(now);
        }
    }
    template <class Condition>
    bool until(Condition&& condition) {
        for (int i = 0; i < 300 && !condition(); ++i)
            step();
        return condition();
    }
    void steps(int n) {
        for (int i = 0; i < n; ++i)
            step();
    }
    ClientId seat(const Player& player, u32 k) const { return mux.client(k, player.connection); }
    bool joined(const Player& player, u32 k) const {
        const ClientId id = seat(player, k);
        return id != ServerMultiplexer::nobody && server[k]->joined(id) && player.client[k]->joined();
    }
    Entity spawn(u32 k, int hp) { return world[k].spawn(Health{hp, k == 1}, Replicated{}); }
    /// -1: not shown.
    int hp(const Player& player, u32 k, Entity entity) const {
        const Entity there = player.client[k]->entity(server[k]->net_id(entity));
        const Health* const health = player.world[k].alive(there) ? player.world[k].get<Health>(there) : nullptr;
        return health ? health->hp : -1;
    }
    /// All who are in a world have what is there.
    void agree() {
        steps(3);
        REQUIRE(until([&] {
            for (const auto& player : players)
                for (u32 k = 0; k < count; ++k)
                    if (player->client[k] && player->mux->is_in(k) && !(joined(*player, k) && server[k]->settled(seat(*player, k))))
                        return false;
            return true;
        }));
        for (const auto& player : players)
            for (u32 k = 0; k < count; ++k)
                if (player->client[k] && player->mux->is_in(k)) {
                    throng_verify::Verifier verifier(*protocol, world[k], *server[k]);
                    const auto difference = verifier.check(seat(*player, k), player->world[k], *player->client[k], 0);
                    CHECK_MESSAGE(!difference, difference.text);
                }
        CHECK(errors == 0);
        CHECK(mux.stats().malformed == 0);
    }

    std::unique_ptr<Protocol> protocol = make_state_protocol();
    Turns turns;
    LoopbackNetwork network;
    ServerMultiplexer mux;
    Workers workers[count];
    World world[count];
    std::unique_ptr<Server> server[count];
    std::vector<std::unique_ptr<Player>> players;
    TimeUs now = 0;
    int errors = 0;
};

/// Some of everything in both worlds, while clients come and go. Returns what went over the links.
OutputHash play(Turns turns) {
    OutputHash output;
    LoopbackConfig links;
    links.trace = output.hook();
    Realms realms(turns, links);
    std::vector<Entity> all[2];
    for (int i = 0; i < 12; ++i)
        realms.connect();
    u64 random = 7;
    const auto draw = [&](u64 below) { return (random = random * 6364136223846793005u + 1442695040888963407u) >> 33 % below; };
    for (int tick = 0; tick < 150; ++tick) {
        for (u32 k = 0; k < 2; ++k) {
            if (all[k].size() < 150)
                all[k].push_back(realms.world[k].spawn(Health{tick, k == 1}, Name{std::string(draw(40) % 60, 'n')}, Replicated{}));
            for (int i = 0; i < 5; ++i)
                if (Health* const health = realms.world[k].mut<Health>(all[k][draw(100) % all[k].size()]))
                    health->hp += 3;
            if (tick % 7 == 3) {
                realms.world[k].destroy(all[k].back());
                all[k].pop_back();
            }
        }
        Realms::Player& player = *realms.players[static_cast<std::size_t>(draw(100) % 12)];
        const u32 k = static_cast<u32>(draw(10) % 2);
        if (player.mux->is_in(k) && tick % 3 == 0)
            player.mux->leave(k);
        else
            realms.enter(player, k);
        realms.step();
    }
    for (const auto& player : realms.players)
        for (u32 k = 0; k < 2; ++k)
            realms.enter(*player, k);
    realms.agree();
    return output;
}

} // namespace

TEST_CASE("worlds/two_at_once") {
    Realms realms;
    auto &a = realms.connect(), &b = realms.connect();
    realms.enter(a, 0);
    realms.enter(b, 1);
    const Entity in_first = realms.spawn(0, 1), in_second = realms.spawn(1, 2);
    REQUIRE(realms.until([&] { return realms.joined(a, 0) && realms.joined(b, 1); }));
    realms.agree();
    CHECK(realms.hp(a, 0, in_first) == 1);
    CHECK(realms.hp(b, 1, in_second) == 2);
    CHECK(realms.seat(a, 0) == 0); // each world numbers its own
    CHECK(realms.seat(b, 1) == 0);
    CHECK(realms.seat(a, 1) == ServerMultiplexer::nobody);
    CHECK(realms.mux.connection(1, 0) == b.connection);
    CHECK(realms.server[0]->client_report(0).input.messages > 0);
    CHECK(a.world[0].entity_count() == 1);
    CHECK(b.world[1].entity_count() == 1);
}

TEST_CASE("worlds/in_both") {
    Realms realms;
    auto& player = realms.connect();
    realms.enter(player, 0);
    realms.enter(player, 1);
    const Entity in_first = realms.spawn(0, 1), in_second = realms.spawn(1, 2);
    realms.agree();
    for (int i = 0; i < 30; ++i) {
        realms.world[0].mut<Health>(in_first)->hp = 10 + i;
        realms.world[1].mut<Health>(in_second)->hp = 20 + i;
        realms.step();
    }
    realms.agree();
    CHECK(realms.hp(player, 0, in_first) == 39);
    CHECK(realms.hp(player, 1, in_second) == 49);
    CHECK(player.mux->stats().malformed == 0);
}

TEST_CASE("worlds/network_ids") {
    Realms realms;
    Realms::Player& ann = realms.connect();
    Realms::Player& bob = realms.connect();
    constexpr u64 ann_id = 1'000'001, bob_id = 1'000'002;
    realms.network.set_network_id(ann.connection, ann_id);
    realms.network.set_network_id(bob.connection, bob_id);
    realms.enter(ann, 0);
    realms.enter(bob, 0);
    realms.enter(bob, 1); // client 0 there, and 1 in the other world
    REQUIRE(realms.until([&] { return realms.joined(ann, 0) && realms.joined(bob, 0) && realms.joined(bob, 1); }));
    for (u32 k = 0; k < 2; ++k) {
        CHECK(realms.server[k]->client_of(bob_id) == realms.seat(bob, k));
        CHECK(realms.server[k]->network_id(realms.seat(bob, k)) == bob_id);
    }
    CHECK(realms.server[0]->client_of(ann_id) == realms.seat(ann, 0));
    CHECK(realms.server[1]->client_of(ann_id) == Server::nobody);
    bob.mux->leave(0);
    bob.client[0].reset();
    REQUIRE(realms.until([&] { return realms.server[0]->client_of(bob_id) == Server::nobody; }));
    CHECK(realms.server[1]->client_of(bob_id) == realms.seat(bob, 1));
}

TEST_CASE("worlds/moves_to_and_fro") {
    Realms realms;
    auto& player = realms.connect();
    auto& resident = realms.connect();
    realms.enter(resident, 0);
    realms.enter(resident, 1);
    Entity entity[2] = {realms.spawn(0, 5), realms.spawn(1, 6)};
    for (u32 visit = 0; visit < 6; ++visit) {
        const u32 k = visit % 2;
        realms.enter(player, k);
        REQUIRE(realms.until([&] { return realms.joined(player, k); }));
        REQUIRE(realms.until([&] { return realms.hp(player, k, entity[k]) == realms.world[k].get<Health>(entity[k])->hp; }));
        player.mux->leave(k); // with messages under way
        ++realms.world[k].mut<Health>(entity[k])->hp;
        realms.step();
        CHECK_FALSE(player.client[k]->connected());
        REQUIRE(realms.until([&] { return realms.seat(player, k) == ServerMultiplexer::nobody; }));
        CHECK(realms.joined(resident, 0));
    }
    realms.agree();
    CHECK(realms.errors == 0);
}

TEST_CASE("worlds/one_stops") {
    Realms realms;
    auto& player = realms.connect();
    for (const u32 k : {0u, 1u})
        realms.enter(player, k);
    const Entity in_first = realms.spawn(0, 1);
    realms.spawn(1, 2);
    realms.agree();
    realms.stop(1);
    CHECK_FALSE(realms.mux.is_open(1));
    REQUIRE(realms.until([&] { return !player.client[1]->connected(); }));
    CHECK_FALSE(player.mux->is_in(1));
    realms.world[0].mut<Health>(in_first)->hp = 11;
    realms.agree();
    CHECK(realms.hp(player, 0, in_first) == 11);
    realms.enter(player, 1); // nobody opens
    REQUIRE(realms.until([&] { return !player.mux->is_in(1); }));
    CHECK_FALSE(player.client[1]->connected());
    realms.start(1);
    const Entity in_second = realms.spawn(1, 3);
    realms.enter(player, 1);
    REQUIRE(realms.until([&] { return realms.joined(player, 1); }));
    realms.agree();
    CHECK(realms.hp(player, 1, in_second) == 3);
    CHECK(realms.joined(player, 0));
}

TEST_CASE("worlds/let_out_of_one") {
    Realms realms;
    auto& player = realms.connect();
    for (const u32 k : {0u, 1u})
        realms.enter(player, k);
    realms.spawn(0, 1);
    realms.agree();
    realms.server[0]->disconnect(realms.seat(player, 0));
    CHECK(realms.until([&] { return !player.client[0]->connected(); }));
    CHECK_FALSE(player.mux->is_in(0));
    CHECK(realms.seat(player, 0) == ServerMultiplexer::nobody);
    CHECK(realms.joined(player, 1));
    CHECK(realms.network.connected(player.connection)); // the connection stays
    realms.enter(player, 0);
    CHECK(realms.until([&] { return realms.joined(player, 0); }));
    realms.agree();
    realms.mux.disconnect(player.connection); // and now it does not
    realms.step();
    for (const u32 k : {0u, 1u}) {
        CHECK_FALSE(player.client[k]->connected());
        CHECK(player.mux->is_in(k)); // it would come back with another connection
        CHECK(realms.seat(player, k) == ServerMultiplexer::nobody);
        CHECK_FALSE(realms.server[k]->joined(0));
    }
}

TEST_CASE("worlds/connection_is_lost") {
    Realms realms;
    auto& player = realms.connect();
    for (const u32 k : {0u, 1u})
        realms.enter(player, k);
    realms.agree();
    realms.network.disconnect(player.connection);
    realms.step();
    for (const u32 k : {0u, 1u}) {
        CHECK_FALSE(realms.server[k]->joined(0));
        CHECK(realms.mux.connection(k, 0) == ServerMultiplexer::nobody);
    }
    realms.players.clear();
    auto& next = realms.connect();
    realms.enter(next, 1);
    CHECK(realms.until([&] { return realms.joined(next, 1); }));
    CHECK(realms.seat(next, 1) == 0); // the seat is used again
}

TEST_CASE("worlds/same_bytes_whoever_is_faster") {
    const OutputHash together = play(Turns::together);
    CHECK(together == play(Turns::first_first));
    CHECK(together == play(Turns::second_first));
    CHECK_FALSE(together == OutputHash{});
}

TEST_CASE("worlds/no_step_of_an_earlier_stay") {
    // What was under way when the client left comes late, after it has come back.
    Realms realms;
    auto& player = realms.connect({.delay_us = 20'000, .jitter_us = 400'000});
    const Entity entity = realms.spawn(0, 0);
    realms.enter(player, 0);
    REQUIRE(realms.until([&] { return realms.joined(player, 0); }));
    for (int stay = 0; stay < 10; ++stay) {
        for (int i = 0; i < 12; ++i) {
            ++realms.world[0].mut<Health>(entity)->hp;
            realms.step();
        }
        player.mux->leave(0);
        realms.enter(player, 0);
        REQUIRE(realms.until([&] { return realms.joined(player, 0); }));
    }
    realms.agree();
    CHECK(player.mux->stats().stale > 0);
    for (const u64 malformed : player.client[0]->stats().malformed)
        CHECK(malformed == 0);
    CHECK(realms.server[0]->client_report(realms.seat(player, 0)).input.malformed_messages == 0);
}

TEST_CASE("worlds/steady_play_takes_no_memory") {
    static std::atomic<u64> allocations; // workers stage
    MultiplexerConfig config;
    config.allocator.allocate_fn = [](void*, std::size_t bytes, std::size_t alignment) {
        ++allocations;
        return default_allocator().allocate(bytes, alignment);
    };
    config.allocator.free_fn = [](void*, void* memory, std::size_t bytes, std::size_t alignment) {
        default_allocator().free(memory, bytes, alignment);
    };
    Realms realms(Turns::first_first, {}, config);
    std::vector<Entity> all[2];
    for (u32 k = 0; k < 2; ++k)
        for (int i = 0; i < 300; ++i)
            all[k].push_back(realms.spawn(k, i));
    for (int i = 0; i < 4; ++i)
        for (const u32 k : {0u, 1u})
            realms.enter(realms.connect({}), k);
    realms.agree();
    u64 before = 0;
    for (int tick = 0; tick < 100; ++tick) { // several packets a client and tick
        if (tick == 50)
            before = allocations.load();
        for (u32 k = 0; k < 2; ++k)
            for (const Entity e : all[k])
                realms.world[k].mut<Health>(e)->hp = (tick * 7919 + static_cast<int>(e.entity_id)) % 1'000'000;
        realms.step();
    }
    CHECK(before > 0);
    CHECK(allocations == before);
    realms.agree();
}

TEST_CASE("worlds/malformed") {
    Realms realms;
    auto& player = realms.connect({});
    realms.enter(player, 0);
    const Entity entity = realms.spawn(0, 1);
    realms.agree();
    const ClientId id = realms.network.connect(); // says what no multiplexer says
    ClientBackend& backend = realms.network.client(id);
    const auto say = [&](Channel channel, std::initializer_list<int> values) {
        std::vector<std::byte> message;
        for (const int value : values)
            message.push_back(static_cast<std::byte>(value));
        CHECK(backend.send(channel, message) == SendResult::accepted);
        backend.flush(realms.now);
        realms.steps(2);
    };
    using Counts = std::pair<u64, u64>;
    const auto counts = [&] { return Counts(realms.mux.stats().malformed, realms.mux.stats().stale); };
    const auto after = [&](Channel channel, std::initializer_list<int> values) {
        const Counts before = counts();
        say(channel, values);
        return Counts(counts().first - before.first, counts().second - before.second);
    };
    const Counts is_malformed{1, 0}, is_stale{0, 1}, is_fine{0, 0};
    CHECK(after(Channel::ordered, {}) == is_malformed);
    CHECK(after(Channel::unreliable, {3, 1, 2}) == is_stale);
    CHECK(after(Channel::ordered, {255}) == is_malformed);
    CHECK(after(Channel::ordered, {255, 1, 0}) == is_malformed);
    CHECK(after(Channel::ordered, {255, 3, 0, 0}) == is_malformed);
    CHECK(after(Channel::ordered, {255, 1, 255, 0}) == is_malformed);
    CHECK(after(Channel::ordered, {255, 1, 0, 0, 0}) == is_malformed);
    CHECK(after(Channel::unreliable, {255, 1, 0, 0}) == is_malformed);
    CHECK(after(Channel::ordered, {255, 2, 7}) == is_stale);
    CHECK(after(Channel::ordered, {255, 1, 0, 200}) == is_fine); // a world that is not there: it is told
    CHECK(realms.mux.client(0, id) == ServerMultiplexer::nobody);
    CHECK(after(Channel::ordered, {255, 1, 1, 0}) == is_fine);
    CHECK(realms.mux.client(0, id) == 1);
    CHECK(after(Channel::ordered, {255, 1, 1, 1}) == is_malformed); // the stream is in use
    CHECK(after(Channel::ordered, {255, 1, 2, 0}) == is_malformed); // it is in that world
    CHECK(after(Channel::ordered, {1, 77}) == is_fine);             // the server's to judge
    CHECK(realms.server[0]->client_report(1).input.malformed_messages == 1);
    CHECK(after(Channel::ordered, {255, 2, 1}) == is_fine);
    CHECK(realms.mux.client(0, id) == ServerMultiplexer::nobody);
    CHECK(realms.hp(player, 0, entity) == 1);
    CHECK(realms.joined(player, 0));
}

TEST_CASE("worlds/limits") {
    MultiplexerConfig config;
    config.unreliable_bytes_max = 100;
    config.reliable_bytes_max = 50;
    config.inbox_bytes_max = 200;
    LoopbackNetwork network{LoopbackConfig{}};
    ServerMultiplexer mux(network.server(), config);
    ServerBackend& server = mux.open(3);
    CHECK(&mux.open(3) == &server);
    CHECK(server.message_bytes_max(Channel::unreliable) == network.server().message_bytes_max(Channel::unreliable) - 1);
    const ClientId id = network.connect();
    ClientMultiplexer client_mux(network.client(id), config);
    ClientBackend& client = *client_mux.join(3);
    struct Sink final : ServerBackendSink, ClientBackendSink {
        int connects = 0, disconnects = 0;
        std::size_t bytes = 0;
        void on_connect(ClientId) override { ++connects; }
        void on_disconnect(ClientId) override { ++disconnects; }
        void on_message(ClientId, Channel, Bytes message) override { bytes += message.size(); }
        void on_connect() override { ++connects; }
        void on_disconnect() override { ++disconnects; }
        void on_message(Channel, Bytes message) override { bytes += message.size(); }
    } at_server, at_client;
    TimeUs now = 0;
    const std::vector<std::byte> message(40);
    const auto exchange = [&] {
        client_mux.flush(now);
        now += 1000;
        mux.poll(now);
        mux.flush(now);
        client_mux.poll(now);
    };
    CHECK(client.send(Channel::ordered, message) == SendResult::refused); // not connected
    exchange();
    client.poll(now, at_client);
    CHECK(at_client.connects == 1);
    CHECK(client.send(Channel::unordered, message) == SendResult::refused); // the world has said nothing
    exchange();
    server.poll(now, at_server);
    REQUIRE(at_server.connects == 1);

    CHECK(server.send(0, Channel::unreliable, message) == SendResult::accepted);
    CHECK(server.send(0, Channel::unreliable, message) == SendResult::accepted);
    CHECK(server.send(0, Channel::unreliable, message) == SendResult::refused);
    CHECK(server.room_in_place(0, 90).empty());
    CHECK(server.send(0, Channel::ordered, message) == SendResult::accepted);
    CHECK(server.send(0, Channel::unordered, message) == SendResult::refused);
    exchange();
    exchange();
    client.poll(now, at_client);
    CHECK(at_client.bytes == 120);
    const std::span<std::byte> room = server.room_in_place(0, 90);
    REQUIRE(room.size() == 90);
    CHECK(server.send_in_place(0, 17) == SendResult::accepted); // less than the room
    exchange();
    exchange();
    client.poll(now, at_client);
    CHECK(at_client.bytes == 137);

    // A world that does not poll: unreliable ones are dropped, a reliable one ends the stay.
    for (int i = 0; i < 5; ++i) {
        CHECK(client.send(Channel::unreliable, message) == SendResult::accepted);
        exchange();
    }
    CHECK(mux.stats().overflowed > 0);
    CHECK(mux.client(3, id) == 0);
    CHECK(client.send(Channel::ordered, message) == SendResult::accepted);
    exchange();
    exchange();
    client.poll(now, at_client);
    server.poll(now, at_server);
    CHECK(mux.client(3, id) == ServerMultiplexer::nobody);
    CHECK(at_client.disconnects == 1);
    CHECK(at_server.disconnects == 1);
    CHECK(server.send(0, Channel::unreliable, message) == SendResult::refused);
    CHECK_FALSE(client_mux.is_in(3));
}

/// A world behind multiplexers on one connection, and what came through.
struct Passage final : ServerBackendSink, ClientBackendSink {
    LoopbackNetwork network;
    ServerMultiplexer mux;
    ServerBackend& server;
    ClientMultiplexer client_mux;
    ClientBackend& client;
    std::vector<int> ordered, unreliable; // first bytes, at the client
    TimeUs now = 0;

    explicit Passage(const LoopbackConfig& links, const MultiplexerConfig& at_server = {}, const MultiplexerConfig& at_client = {})
        : network(links), mux(network.server(), at_server), server(mux.open(0)), client_mux(network.client(network.connect()), at_client),
          client(*client_mux.join(0)) {}
    void exchange(int times = 1) {
        for (; times > 0; --times) {
            client_mux.flush(now);
            now += 1000;
            mux.poll(now);
            server.poll(now, *this);
            mux.flush(now);
            client_mux.poll(now);
            client.poll(now, *this);
        }
    }
    void on_connect(ClientId) override {}
    void on_disconnect(ClientId) override {}
    void on_message(ClientId, Channel, Bytes) override {}
    void on_connect() override {}
    void on_disconnect() override {}
    void on_message(Channel channel, Bytes message) override {
        (channel == Channel::ordered ? ordered : unreliable).push_back(std::to_integer<int>(message[0]));
    }
};

TEST_CASE("worlds/backend_that_refuses") {
    // Reliable messages stay in line, unreliable ones are dropped and counted.
    LoopbackConfig links;
    links.unreliable = {2000, 2};
    links.ordered = {70'000, 2};
    Passage passage(links);
    ServerBackend& server = passage.server;
    passage.exchange(2);
    for (int i = 0; i < 9; ++i)
        for (const Channel channel : {Channel::ordered, Channel::unreliable}) {
            const std::byte message[] = {static_cast<std::byte>(i)};
            CHECK(server.send(0, channel, message) == SendResult::accepted);
        }
    passage.exchange(12);
    CHECK(passage.ordered == std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8});
    CHECK(passage.unreliable == std::vector{0, 1});
    CHECK(passage.mux.stats().refused == 7);

    // What waits is no room for more: until the backend has taken it, the world hears that it refuses.
    const std::byte message[] = {std::byte{9}};
    for (int i = 0; i < 5; ++i)
        CHECK(server.send(0, Channel::ordered, message) == SendResult::accepted);
    passage.exchange();
    CHECK(server.send(0, Channel::ordered, message) == SendResult::refused);
    CHECK(server.send(0, Channel::unordered, message) == SendResult::refused);
    CHECK(server.send(0, Channel::unreliable, message) == SendResult::accepted);
    passage.exchange(6);
    CHECK(server.send(0, Channel::ordered, message) == SendResult::accepted);
    passage.exchange(3);
    CHECK(passage.ordered.size() == 9 + 6);

    // Nor are more unreliable ones taken than the backend took: one beyond that at times, to see whether it takes more by now.
    const u64 refused = passage.mux.stats().refused;
    const auto taken = [&] {
        int count = 0;
        while (count < 100 && server.send(0, Channel::unreliable, message) == SendResult::accepted)
            ++count;
        passage.exchange();
        return count;
    };
    for (int i = 0; i < 6; ++i)
        CHECK(taken() == 2 + i % 2);
    CHECK(passage.mux.stats().refused == refused + 3);
    server.disconnect(0); // of the next stay nothing is known
    passage.exchange(2);
    REQUIRE(passage.client_mux.join(0));
    passage.exchange(3);
    CHECK(taken() == 100);
}

TEST_CASE("worlds/first_words_take_no_memory") {
    // A client in a world may have nothing to say for long: then it must not cost memory.
    struct Count {
        u64 calls = 0;
        Allocator allocator() {
            return {
                [](void* self, std::size_t bytes, std::size_t alignment) {
                    ++static_cast<Count*>(self)->calls;
                    return default_allocator().allocate(bytes, alignment);
                },
                [](void*, void* memory, std::size_t bytes, std::size_t alignment) { default_allocator().free(memory, bytes, alignment); },
                this};
        }
    } at_server, at_client;
    MultiplexerConfig server_config, client_config;
    server_config.allocator = at_server.allocator();
    client_config.allocator = at_client.allocator();
    Passage passage({}, server_config, client_config);
    passage.exchange(3);
    REQUIRE(passage.mux.client(0, 0) == 0);
    const u64 before[] = {at_server.calls, at_client.calls};
    std::byte message[1000] = {};
    CHECK(passage.server.send(0, Channel::unreliable, message) == SendResult::accepted);
    CHECK(passage.client.send(Channel::unreliable, message) == SendResult::accepted);
    CHECK(at_server.calls == before[0]);
    CHECK(at_client.calls == before[1]);
}

TEST_CASE("worlds/many_streams_in_turn") {
    Realms realms;
    auto& player = realms.connect({});
    std::vector<u32> seats;
    for (int stay = 0; stay < 600; ++stay) { // more than there are numbers
        realms.enter(player, 1);
        realms.step();
        player.mux->leave(1);
        if (stay % 100 == 0)
            realms.step();
    }
    realms.enter(player, 0);
    realms.enter(player, 1);
    CHECK(realms.until([&] { return realms.joined(player, 0) && realms.joined(player, 1); }));
    realms.agree();
    CHECK(realms.server[1]->state().clients.size() <= 2); // seats are used again
}

TEST_CASE("worlds/four_set_ups_in_each") {
    using namespace message_test;
    const std::unique_ptr<Protocol> protocol = make_protocol();
    LoopbackNetwork network{LoopbackConfig{}};
    ServerMultiplexer mux(network.server());
    World world[2], there[2];
    std::unique_ptr<Server> server[2];
    std::unique_ptr<Messenger> host[2], guest[2];
    std::unique_ptr<Client> client[2];
    Ear at_host[2], at_local[2], at_guest[2];
    ClientMultiplexer client_mux(network.client(network.connect(StateNet::link())));
    for (u32 k = 0; k < 2; ++k) { // the second is a listen server
        server[k] = std::make_unique<Server>(world[k], *protocol, mux.open(k));
        MessengerConfig of_host;
        of_host.server = server[k].get();
        of_host.local_player = k == 1;
        host[k] = std::make_unique<Messenger>(*protocol, of_host);
        REQUIRE(host[k]->set_server_handlers(server_handlers(at_host[k])) == Error::none);
        if (k == 1)
            REQUIRE(host[k]->set_client_handlers(client_handlers(at_local[k])) == Error::none);
        client[k] = std::make_unique<Client>(there[k], *protocol, *client_mux.join(k));
        MessengerConfig of_guest;
        of_guest.client = client[k].get();
        guest[k] = std::make_unique<Messenger>(*protocol, of_guest);
        REQUIRE(guest[k]->set_client_handlers(client_handlers(at_guest[k])) == Error::none);
    }
    TimeUs now = 0;
    const auto steps = [&](int count) {
        for (int i = 0; i < count; ++i) {
            now += 50'000;
            mux.poll(now);
            for (u32 k = 0; k < 2; ++k) {
                server[k]->receive(now);
                host[k]->dispatch();
                server[k]->tick(now);
            }
            mux.flush(now);
            client_mux.poll(now);
            for (u32 k = 0; k < 2; ++k) {
                CHECK(client[k]->receive(now) == Error::none);
                CHECK(client[k]->send(now) == Error::none);
            }
            client_mux.flush(now);
        }
    };
    steps(100);
    for (u32 k = 0; k < 2; ++k) {
        REQUIRE(client[k]->joined());
        CHECK(host[k]->to_clients(To::all(), Hit{{}, static_cast<i32>(10 + k)}) == Error::none);
        CHECK(guest[k]->to_server(Attack{{}, static_cast<i32>(20 + k)}) == Error::none);
    }
    steps(100);
    for (u32 k = 0; k < 2; ++k) {
        CHECK(at_guest[k].values("hit") == std::vector<i64>{10 + k});
        CHECK(at_host[k].values("attack") == std::vector<i64>{20 + k});
        CHECK(at_local[k].values("hit") == (k == 1 ? std::vector<i64>{11} : std::vector<i64>{}));
    }
}
