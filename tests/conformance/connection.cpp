// Who may take part. See also protocol.cpp.
#include "src/registry/message.hpp"
#include "src/server/state.hpp"
#include "tests/conformance/state_support.hpp"

using namespace throng;
using namespace conformance;
using conformance::state::Health;
using conformance::state::make_state_protocol;
using conformance::state::StateNet;
using conformance::state::Workers;

namespace {
MessageWorldOptions asks_host() {
    MessageWorldOptions options;
    options.server.authorization = Authorization::custom;
    return options;
}
} // namespace

TEST_CASE("connection/protocol_mismatch") {
    StateNet net;
    net.world.spawn(Health{7, false}, Replicated{});
    Protocol other;
    other.component<Health>("health").field(&Health::hp, Range{0, 9, 1}); // an integer at the server
    REQUIRE(other.finish() == Error::none);
    auto& peer = net.meet();
    peer.left = true; // it is stepped here
    Client client(*peer.world, other, net.network.client(peer.id));
    int refusals = 0;
    for (int i = 0; i < 300 && (refusals == 0 || client.connected()); ++i) {
        net.step();
        const bool before = client.problem()[0] != 0;
        (void)client.receive(net.now_us);
        (void)client.send(net.now_us);
        refusals += !before && client.problem()[0] != 0;
        CHECK_FALSE(net.server.joined(peer.id));
    }
    CHECK(refusals == 1);
    CHECK(std::string(client.problem()) == "component \"health\", field \"0\": another kind or type");
    CHECK_FALSE(client.joined());
    CHECK_FALSE(client.connected());
    CHECK(peer.world->entity_count() == 0);
}

TEST_CASE("connection/client_connect_disconnect") {
    Net net;
    auto& peer = net.connect();
    CHECK(net.joins.empty());
    REQUIRE(net.until([&] { return peer.client->joined(); }));
    CHECK(net.joins == std::vector{peer.id});
    CHECK(net.server.joined(peer.id));
    net.network.disconnect(peer.id);
    peer.left = true;
    net.step();
    CHECK(net.leaves == std::vector{peer.id});
    CHECK_FALSE(net.server.joined(peer.id));
    CHECK_FALSE(net.server.client_report(peer.id).connected);
}

TEST_CASE("connection/server_start_stop") {
    const std::unique_ptr<Protocol> protocol = make_state_protocol();
    const Workers workers;
    World world, there(WorldOptions{.block_rows = 64});
    LoopbackNetwork network{LoopbackConfig{}};
    ServerConfig config;
    config.executor = workers.executor.get();
    TimeUs now = 0;
    std::unique_ptr<Server> server;
    std::unique_ptr<Client> client;
    ClientId id = 0;
    const auto play = [&](int ticks) {
        for (int i = 0; i < ticks; ++i) {
            now += 50'000;
            server->receive(now);
            server->tick(now);
            (void)client->receive(now);
            CHECK(client->send(now) == Error::none);
        }
    };
    const Entity e = world.spawn(Health{7, false}, Replicated{});
    for (int hp = 1; hp <= 2; ++hp) {
        server = std::make_unique<Server>(world, *protocol, network.server(), config);
        CHECK(server->current_tick() == 0);
        CHECK_FALSE(server->joined(id));
        CHECK_FALSE(server->net_id(e));
        world.mut<Health>(e)->hp = hp;
        id = network.connect(StateNet::link());
        client = std::make_unique<Client>(there, *protocol, network.client(id));
        play(100);
        CHECK(server->current_tick() == 100);
        REQUIRE(server->joined(id));
        REQUIRE(there.alive(client->entity(server->net_id(e))));
        CHECK(there.get<Health>(client->entity(server->net_id(e)))->hp == hp);
        network.server().disconnect(id);
        server.reset();
        now += 50'000;
        (void)client->receive(now);
        CHECK_FALSE(client->connected());
        client->clear();
        CHECK(world.alive(e)); // the world is the game's
    }
}

TEST_CASE("connection/custom_auth") {
    Net net(asks_host());
    const Entity e = net.spawn();
    auto& peer = net.connect();
    net.verdict = [](ClientId, const ClientHello& hello) {
        CHECK(hello.same_protocol);
        CHECK(hello.data.empty());
        return Verdict::later;
    };
    REQUIRE(net.until([&] { return net.server.waiting(peer.id); }));
    net.settle();
    CHECK(peer.client->connected());
    CHECK_FALSE(peer.client->joined());
    CHECK_FALSE(net.server.joined(peer.id));
    CHECK(net.server.client_report(peer.id).connected);
    CHECK(net.server.why(e, peer.id).reason == WhyReason::not_joined);
    CHECK(net.joins.empty());
    CHECK(net.network.counters(peer.id, Direction::down).sent == 0);
    REQUIRE(net.server.accept(peer.id) == Error::none);
    CHECK(net.joins == std::vector{peer.id});
    net.settle();
    CHECK(net.until([&] { return peer.world.alive(net.shown(peer, e)); }));
    CHECK(net.server.accept(peer.id) == Error::no_connection); // it has its verdict
    CHECK(net.server.refuse(peer.id) == Error::no_connection);
    CHECK(net.server.joined(peer.id));
    CHECK(net.withdrawals.empty());

    World world;
    LoopbackNetwork network{LoopbackConfig{}};
    const Server nobody_to_ask(world, *net.protocol, network.server(), {.authorization = Authorization::custom});
    CHECK(nobody_to_ask.valid() == Error::bad_value);
    CHECK(std::string(nobody_to_ask.problem()) == "authorization: custom needs ServerEvents::on_hello");
}

TEST_CASE("connection/disabled_auth") {
    for (const bool looked_at : {true, false}) {
        CAPTURE(looked_at);
        StateNet net({.authorization = looked_at ? Authorization::protocol : Authorization::none, .heartbeat_ticks = 0});
        auto other = std::make_unique<Protocol>(); // the same in all that travels, and more
        other->component<Health>("health").field(&Health::hp).field(&Health::angry);
        other->custom("of another shop");
        REQUIRE(other->finish() == Error::none);
        auto ours = std::make_unique<Protocol>();
        ours->component<Health>("health").field(&Health::hp).field(&Health::angry);
        REQUIRE(ours->finish() == Error::none);
        REQUIRE(ours->hash() != other->hash());
        World world, there(WorldOptions{.block_rows = 64});
        LoopbackNetwork network{LoopbackConfig{}};
        Server server(world, *ours, network.server(), net.server.state().config);
        const ClientId id = network.connect(StateNet::link());
        Client client(there, *other, network.client(id));
        const Entity e = world.spawn(Health{7, true}, Replicated{});
        for (int i = 0; i < 100; ++i) {
            const TimeUs now = TimeUs(i + 1) * 50'000;
            server.receive(now);
            server.tick(now);
            (void)client.receive(now);
            (void)client.send(now);
        }
        CHECK(server.joined(id) == !looked_at);
        CHECK(client.joined() == !looked_at);
        CHECK(there.entity_count() == u32(!looked_at));
        if (looked_at)
            continue;
        REQUIRE(there.alive(client.entity(server.net_id(e))));
        CHECK(there.get<Health>(client.entity(server.net_id(e)))->hp == 7);
        CHECK(server.settled(id));
    }
}

TEST_CASE("connection/network_id_map") {
    Net net;
    constexpr u64 ann = 0x8000'0000'0000'0001, bob = 7;
    const auto come = [&](u64 network_id) -> auto& {
        auto& peer = net.connect();
        net.network.set_network_id(peer.id, network_id);
        return peer;
    };
    const auto leave = [&](auto& peer) {
        net.network.disconnect(peer.id);
        peer.left = true;
        net.step();
    };
    auto& first = come(ann);
    auto& second = come(bob);
    CHECK(net.server.client_of(ann) == Server::nobody); // not connected yet
    CHECK(net.server.network_id(first.id) == Server::no_network_id);
    net.step();
    CHECK(net.server.client_of(ann) == first.id); // joined or not
    CHECK(net.server.client_of(bob) == second.id);
    CHECK(net.server.network_id(first.id) == ann);
    CHECK(net.server.network_id(second.id) == bob);
    REQUIRE(net.until([&] { return net.server.joined(first.id) && net.server.joined(second.id); }));
    CHECK(net.server.client_of(ann) == first.id);
    CHECK(net.server.client_of(ann - 1) == Server::nobody);

    auto& plain = net.join(); // of a backend that knows no more
    CHECK(net.server.network_id(plain.id) == plain.id);
    CHECK(net.server.client_of(plain.id) == plain.id);

    leave(second); // it goes with the client
    CHECK(net.server.client_of(bob) == Server::nobody);
    CHECK(net.server.network_id(second.id) == Server::no_network_id);
    auto& third = come(ann); // in the slot of the second: somebody else's, and the first one's id
    REQUIRE(third.id == second.id);
    net.step();
    CHECK(net.server.client_of(ann) == third.id); // the newest of two that live
    CHECK(net.server.client_of(bob) == Server::nobody);
    CHECK(net.server.network_id(first.id) == ann);
    leave(third);
    CHECK(net.server.client_of(ann) == first.id); // and the older is there still
    auto& fourth = come(ann);
    net.step();
    leave(first);
    CHECK(net.server.client_of(ann) == fourth.id);
    net.server.disconnect(fourth.id); // by the server
    CHECK(net.server.client_of(ann) == Server::nobody);
    CHECK(net.server.network_id(fourth.id) == Server::no_network_id);
    net.server.disconnect(fourth.id);
    CHECK(net.server.client_of(plain.id) == plain.id);
}

TEST_CASE("connection/hello_data") {
    Net net(asks_host());
    std::vector<std::byte> ticket(hello_data_bytes_max + 1, std::byte{7});
    auto& peer = net.connect();
    CHECK(peer.client->set_hello_data(ticket) == Error::too_large);
    ticket.pop_back();
    REQUIRE(peer.client->set_hello_data(ticket) == Error::none);
    std::vector<std::byte> heard;
    net.verdict = [&](ClientId id, const ClientHello& hello) {
        CHECK(id == peer.id);
        heard.assign(hello.data.begin(), hello.data.end());
        return Verdict::yes;
    };
    REQUIRE(net.until([&] { return peer.client->joined(); }));
    CHECK(heard == ticket);
    CHECK(net.joins == std::vector{peer.id});
}

TEST_CASE("connection/refused") {
    for (const bool at_once : {true, false}) {
        CAPTURE(at_once);
        Net net(asks_host());
        net.spawn();
        auto& peer = net.connect();
        int asked = 0;
        net.verdict = [&](ClientId, const ClientHello&) { return ++asked, at_once ? Verdict::no : Verdict::later; };
        if (!at_once) {
            REQUIRE(net.until([&] { return net.server.waiting(peer.id); }));
            REQUIRE(net.server.refuse(peer.id, "the ticket is of yesterday") == Error::none);
            CHECK(net.server.accept(peer.id) == Error::no_connection);
        }
        Error told = Error::none;
        REQUIRE(net.until([&] {
            if (const Error error = peer.client->receive(net.now_us); error != Error::none)
                told = error;
            return told != Error::none;
        }));
        CHECK(told == Error::unauthorized);
        CHECK(std::string(peer.client->problem()) == (at_once ? "not authorized" : "the ticket is of yesterday"));
        CHECK(std::string(to_string(told)) == "unauthorized");
        REQUIRE(net.until([&] { return !peer.client->connected(); }));
        CHECK(asked == 1);
        CHECK(net.joins.empty());
        CHECK(net.leaves.empty());
        CHECK(net.withdrawals.empty()); // the host has decided itself
        CHECK(peer.world.entity_count() == 0);
    }
}

TEST_CASE("connection/no_verdict_in_time") {
    MessageWorldOptions options = asks_host();
    options.server.verdict_wait_ms = 1000;
    Net net(options);
    auto& peer = net.connect();
    net.verdict = [](ClientId, const ClientHello&) { return Verdict::later; };
    REQUIRE(net.until([&] { return net.server.waiting(peer.id); }));
    net.steps(20);
    CHECK(net.server.waiting(peer.id)); // one second, and not more
    net.step();
    CHECK_FALSE(net.server.waiting(peer.id));
    CHECK(net.withdrawals == std::vector{peer.id});
    CHECK(net.server.accept(peer.id) == Error::no_connection);
    REQUIRE(net.until([&] { return !peer.client->connected(); }));
    CHECK(std::string(peer.client->problem()) == "no verdict in time");
    CHECK(net.leaves.empty());
}

TEST_CASE("connection/leaves_while_it_waits") {
    Net net(asks_host());
    std::vector<ClientId> asked;
    net.verdict = [&](ClientId id, const ClientHello&) { return asked.push_back(id), Verdict::later; };
    auto& peer = net.connect();
    REQUIRE(net.until([&] { return net.server.waiting(peer.id); }));
    net.network.disconnect(peer.id);
    peer.left = true;
    net.step();
    CHECK(net.withdrawals == std::vector{peer.id});
    CHECK(net.leaves.empty());
    CHECK_FALSE(net.server.waiting(peer.id));
    CHECK(net.server.accept(peer.id) == Error::no_connection);
    CHECK(net.server.refuse(peer.id) == Error::no_connection);
    CHECK(net.server.accept(4711) == Error::no_connection);
    auto& next = net.connect(); // in the same slot: it is asked for anew
    REQUIRE(next.id == peer.id);
    REQUIRE(net.until([&] { return net.server.waiting(next.id); }));
    CHECK(asked == std::vector{peer.id, next.id});
    REQUIRE(net.server.accept(next.id) == Error::none);
    REQUIRE(net.until([&] { return next.client->joined(); }));
    CHECK(net.server.state().in_review.empty());
}

TEST_CASE("connection/calls_in_on_hello") {
    enum Call { accept_it, refuse_it, disconnect_it, close_it };
    for (const Call call : {accept_it, refuse_it, disconnect_it, close_it})
        for (const Verdict verdict : {Verdict::yes, Verdict::no, Verdict::later}) {
            CAPTURE(int(call));
            CAPTURE(int(verdict));
            Net net(asks_host());
            auto& peer = net.connect();
            int asked = 0;
            net.verdict = [&](ClientId id, const ClientHello&) {
                ++asked;
                CHECK(net.server.send_message(To::client(id), Alarm{{}, 1}) == Error::none);
                CHECK(net.server.send_message(To::client(id), Hit{{}, 1}) == Error::no_connection);
                if (call == accept_it)
                    CHECK(net.server.accept(id) == Error::none);
                else if (call == refuse_it)
                    CHECK(net.server.refuse(id, "no") == Error::none);
                else if (call == disconnect_it)
                    net.server.disconnect(id);
                else
                    net.server.disconnect_after_flush(id);
                return verdict;
            };
            net.steps(100);
            CHECK(asked == 1);
            const bool decided = call != close_it; // until it is closed, it may still be let in
            const bool joins = call == accept_it || (!decided && verdict == Verdict::yes);
            CHECK(net.joins.size() == std::size_t(joins));
            CHECK(peer.client->connected() == (call == accept_it));
            CHECK(net.server.joined(peer.id) == (call == accept_it));
            if (call == refuse_it)
                CHECK(std::string(peer.client->problem()) == "no");
            CHECK(net.server.state().in_review.empty());
        }
}

TEST_CASE("connection/hello_again") {
    Net net(asks_host());
    int asked = 0;
    net.verdict = [&](ClientId, const ClientHello&) { return ++asked, Verdict::later; };
    const ClientId id = net.network.connect(); // spoken over by hand: hellos are counted
    ClientBackend& backend = net.network.client(id);
    std::byte hello[hello_bytes];
    write_hello(hello, {wire_format_version, net.protocol->hash()});
    const auto say = [&] {
        CHECK(backend.send(Channel::ordered, hello) == SendResult::accepted);
        backend.flush(net.now_us);
        net.server_step();
        net.server_step();
    };
    say();
    CHECK(asked == 1);
    const u64 malformed = net.server.client_report(id).input.malformed_messages;
    say(); // while it waits
    CHECK(asked == 1);
    CHECK(net.server.waiting(id));
    CHECK(net.server.client_report(id).input.malformed_messages == malformed + 1);
    REQUIRE(net.server.accept(id) == Error::none);
    say(); // when it has joined
    CHECK(asked == 1);
    CHECK(net.server.joined(id));
    CHECK(net.joins.size() == 1);
    CHECK(net.server.client_report(id).input.malformed_messages == malformed + 2);
}

TEST_CASE("connection/verdict_before_the_table") {
    for (const Verdict verdict : {Verdict::yes, Verdict::no, Verdict::later}) {
        CAPTURE(int(verdict));
        Net net(asks_host());
        auto& peer = net.connect();
        peer.left = true; // it is stepped here
        Protocol older;   // of another build, that can read by the table
        older.component<Place>("place").field(&Place::x, Range{-9, 9, 1}).field(&Place::z, Range{-9, 9, 1});
        REQUIRE(older.finish() == Error::none);
        Client client(peer.world, older, net.network.client(peer.id));
        const std::byte ticket[] = {std::byte{1}, std::byte{2}};
        REQUIRE(client.set_hello_data(ticket) == Error::none);
        int asked = 0;
        net.verdict = [&](ClientId, const ClientHello& hello) {
            ++asked;
            CHECK_FALSE(hello.same_protocol);
            CHECK(hello.data.size() == 2);
            return verdict;
        };
        const auto steps = [&] {
            for (int i = 0; i < 60; ++i) {
                net.step();
                (void)client.receive(net.now_us);
                (void)client.send(net.now_us);
            }
        };
        steps();
        CHECK(asked == 1);
        CHECK(net.server.joined(peer.id) == (verdict == Verdict::yes));
        if (verdict == Verdict::later) {
            CHECK(net.network.counters(peer.id, Direction::down).sent == 0); // no table either
            REQUIRE(net.server.accept(peer.id) == Error::none);
            CHECK_FALSE(net.server.joined(peer.id)); // it reads the table first
            steps();
        }
        CHECK(asked == 1);
        CHECK(client.joined() == (verdict != Verdict::no));
        CHECK(net.server.joined(peer.id) == (verdict != Verdict::no));
    }
}

TEST_CASE("connection/backend_that_refuses_the_answer") {
    /// Takes nothing for a while.
    struct Full final : ServerBackend {
        explicit Full(ServerBackend& b) : behind(b) {}
        ServerBackend& behind;
        bool full = true;
        void poll(TimeUs now, ServerBackendSink& sink) override { behind.poll(now, sink); }
        SendResult send(ClientId client, Channel channel, Bytes message) override {
            return full ? SendResult::refused : behind.send(client, channel, message);
        }
        void flush(TimeUs now) override { behind.flush(now); }
        void disconnect(ClientId client) override { behind.disconnect(client); }
        u32 message_bytes_max(Channel channel) const override { return behind.message_bytes_max(channel); }
    };
    const std::unique_ptr<Protocol> ours = make_state_protocol();
    Protocol older;
    older.component<Health>("health").field(&Health::hp).field(&Health::angry);
    REQUIRE(older.finish() == Error::none);
    for (const Protocol* theirs : {static_cast<const Protocol*>(ours.get()), static_cast<const Protocol*>(&older)}) {
        World world, there(WorldOptions{.block_rows = 64});
        LoopbackNetwork network{LoopbackConfig{}};
        Full backend(network.server());
        Server server(world, *ours, backend);
        const ClientId id = network.connect(StateNet::link());
        Client client(there, *theirs, network.client(id));
        TimeUs now = 0;
        const auto steps = [&] {
            for (int i = 0; i < 60; ++i) {
                now += 50'000;
                server.receive(now);
                server.tick(now);
                (void)client.receive(now);
                (void)client.send(now);
            }
        };
        steps();
        CHECK_FALSE(server.joined(id));
        CHECK(server.client_report(id).input.malformed_messages == 0);
        backend.full = false;
        steps();
        CHECK(server.joined(id));
        CHECK(client.joined());
    }
}
