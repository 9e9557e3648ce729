// Messages and events from the server to its clients. "Messages" have handlers in an object, "events" plain functions; else they are one.
#include "tests/conformance/state_support.hpp"

using namespace conformance;

namespace {

void regular(Style style) {
    Net net;
    auto& peer = net.join();
    hear(*peer.client, peer.ear, style);
    CHECK(net.server.send_message(To::all(), Hit{{}, 1}) == Error::none);
    CHECK(net.server.send_message(To::client(local_player), Hit{{}, 2}) == Error::no_connection); // nobody plays at the server
    CHECK(net.server.send_message(To::client(peer.id), Hit{{}, 3}) == Error::none);
    CHECK(net.server.send_message(To::all_except(local_player), Hit{{}, 4}) == Error::none);
    CHECK(net.server.send_message(To::all_except(peer.id), Hit{{}, 5}) == Error::none);
    net.settle();
    CHECK(peer.ear.values("hit") == Values{1, 3, 4});
}

void mapped(Style style) {
    Net net;
    auto& peer = net.join();
    hear(*peer.client, peer.ear, style);
    const Entity old = net.spawn();
    net.settle();
    const Entity fresh = net.spawn(); // in the tick of the message
    CHECK(net.server.send_message(To::all(), Hit{old, 1}) == Error::none);
    CHECK(net.server.send_message(To::all(), Hit{fresh, 2}) == Error::none);
    net.settle();
    REQUIRE(peer.ear.values("hit") == Values{1, 2});
    CHECK(peer.ear.heard[0].entity == net.shown(peer, old));
    CHECK(peer.ear.heard[1].entity == net.shown(peer, fresh));
    CHECK(peer.world.alive(peer.ear.heard[0].entity));
    CHECK(peer.world.alive(peer.ear.heard[1].entity));
}

/// Neither half needs the other in its process, nor a Messenger: this is all a client and a server share.
void without_plugins(Style style) {
    const auto server_protocol = make_protocol(), client_protocol = make_protocol();
    LoopbackNetwork network({});
    World world, client_world;
    Server server(world, *server_protocol, network.server());
    const ClientId id = network.connect(state::StateNet::link());
    Client client(client_world, *client_protocol, network.client(id));
    Ear ear;
    hear(client, ear, style);
    bool sent = false;
    for (TimeUs now = 50'000; now < 10'000'000; now += 50'000) {
        server.receive(now);
        if (!sent && server.joined(id)) {
            CHECK(server.send_message(To::all(), Hit{{}, 1}) == Error::none);
            sent = true;
        }
        server.tick(now);
        CHECK(client.receive(now) == Error::none);
        CHECK(client.send(now) == Error::none);
    }
    CHECK(ear.values("hit") == Values{1});
}

void local_sending(Style style) {
    const auto protocol = make_protocol();
    Messenger messages(*protocol, {.local_player = true});
    Ear ear;
    const MessageHandler function = plain<Hit>(ear);
    REQUIRE((style == Style::object ? messages.set_client_handlers(client_handlers(ear)) : messages.set_client_handlers({&function, 1})) ==
            Error::none);
    CHECK(messages.to_clients(To::all(), Hit{{}, 1}) == Error::none);
    CHECK(messages.to_clients(To::client(local_player), Hit{{}, 2}) == Error::none);
    CHECK(messages.to_clients(To::client(1), Hit{{}, 3}) == Error::no_connection);
    CHECK(messages.to_clients(To::all_except(local_player), Hit{{}, 4}) == Error::none);
    CHECK(messages.to_clients(To::all_except(1), Hit{{}, 5}) == Error::none);
    CHECK(messages.dispatch() == 3);
    CHECK(ear.values("hit") == Values{1, 2, 5});
    CHECK(messages.dispatch() == 0); // drained
}

void independent(Style style) {
    Net net;
    auto& peer = net.join();
    hear(*peer.client, peer.ear, style);
    const Entity hidden = net.spawn();
    net.server.view(peer.id).hide(hidden);
    CHECK(net.server.send_message(To::all(), Alarm{hidden, 1}) == Error::none);
    CHECK(net.server.send_message(To::client(peer.id), Alarm{hidden, 2}) == Error::none);
    CHECK(net.server.send_message(To::all_except(local_player), Alarm{{}, 3}) == Error::none);
    CHECK(net.server.send_message(To::all_except(peer.id), Alarm{{}, 4}) == Error::none);
    CHECK(net.server.send_message(To::all(), Hit{hidden, 5}) == Error::none); // this one waits
    net.settle();
    CHECK(peer.ear.values("alarm") == Values{1, 2, 3});
    CHECK(peer.ear.count("hit") == 0);
    for (const Heard& h : peer.ear.heard)
        CHECK(h.entity == Entity{});
}

} // namespace

TEST_CASE("server_message/regular") {
    regular(Style::object);
}
TEST_CASE("server_message/mapped") {
    mapped(Style::object);
}
TEST_CASE("server_message/without_plugins") {
    without_plugins(Style::object);
}
TEST_CASE("server_message/local_sending") {
    local_sending(Style::object);
}
TEST_CASE("server_message/independent") {
    independent(Style::object);
}
TEST_CASE("server_event/regular") {
    regular(Style::functions);
}
TEST_CASE("server_event/mapped") {
    mapped(Style::functions);
}
TEST_CASE("server_event/without_plugins") {
    without_plugins(Style::functions);
}
TEST_CASE("server_event/local_sending") {
    local_sending(Style::functions);
}
TEST_CASE("server_event/independent") {
    independent(Style::functions);
}

TEST_CASE("server_message/server_buffering") {
    Net net;
    auto& peer = net.join();
    net.settle();
    CHECK(net.server.send_message(To::all(), Hit{{}, 1}) == Error::none);
    for (int i = 0; i < 20; ++i) { // time passes, but no tick
        net.now_us += net.tick_us;
        net.server.receive(net.now_us);
        net.network.server().flush(net.now_us);
        net.client_step(peer);
    }
    CHECK(peer.ear.heard.empty());
    net.settle();
    CHECK(peer.ear.values("hit") == Values{1});
}

TEST_CASE("server_message/client_queue") {
    Net net;
    Gated gated(net);
    gated.gate->closed = true;
    CHECK(net.server.send_message(To::all(), Round{1}) == Error::none);
    net.step();
    const Tick sent = net.server.current_tick();
    net.settle();
    CHECK(tick_newer(sent, gated.peer.client->newest_tick())); // no state of that tick or later is here
    CHECK(gated.peer.ear.heard.empty());
    gated.gate->closed = false;
    net.spawn(); // so that state goes on
    net.settle();
    CHECK(gated.peer.ear.values("round") == Values{1});
}

TEST_CASE("server_message/client_queue_and_mapping") {
    Net net;
    Gated gated(net);
    gated.gate->closed = true;
    const Entity e = net.spawn();
    CHECK(net.server.send_message(To::all(), Hit{e, 1}) == Error::none);
    net.settle();
    CHECK(gated.peer.ear.heard.empty());
    gated.gate->closed = false;
    net.settle();
    REQUIRE(gated.peer.ear.values("hit") == Values{1});
    CHECK(gated.peer.ear.heard[0].entity == net.shown(gated.peer, e));
    CHECK(gated.peer.world.alive(gated.peer.ear.heard[0].entity));
}

TEST_CASE("server_message/multiple_client_queues") {
    Net net;
    Gated gated(net);
    gated.gate->closed = true;
    const Entity e = net.spawn();
    CHECK(net.server.send_message(To::all(), Hit{e, 1}) == Error::none);
    CHECK(net.server.send_message(To::all(), Shout{e, 2, 0}) == Error::none);
    net.settle();
    CHECK(gated.peer.ear.heard.empty());
    gated.gate->closed = false;
    net.settle();
    CHECK(gated.peer.ear.values("hit") == Values{1});
    CHECK(gated.peer.ear.values("shout") == Values{2});
}

TEST_CASE("server_message/before_started_replication") {
    for (const bool says_hello : {false, true}) {
        CAPTURE(says_hello);
        MessageWorldOptions options;
        if (says_hello)
            options.server.authorization = Authorization::custom;
        Net net(options);
        net.verdict = [](ClientId, const ClientHello&) { return Verdict::later; };
        auto& peer = net.connect();
        net.server_step(); // connected; it has not said hello
        if (says_hello)
            REQUIRE(net.until([&] { return net.server.waiting(peer.id); }));
        REQUIRE_FALSE(net.server.joined(peer.id));
        CHECK(net.server.send_message(To::all(), Hit{{}, 1}) == Error::none);
        CHECK(net.server.send_message(To::all_except(local_player), Hit{{}, 2}) == Error::none);
        CHECK(net.server.send_message(To::client(peer.id), Hit{{}, 3}) == Error::no_connection);
        net.settle();
        if (says_hello)
            REQUIRE(net.server.accept(peer.id) == Error::none);
        REQUIRE(net.until([&] { return peer.client->joined(); }));
        net.settle();
        CHECK(peer.ear.heard.empty());
    }
}

TEST_CASE("server_message/independent_before_started_replication") {
    Net net;
    auto& peer = net.connect();
    net.server_step();
    REQUIRE_FALSE(net.server.joined(peer.id));
    CHECK(net.server.send_message(To::all(), Hit{{}, 1}) == Error::none);
    CHECK(net.server.send_message(To::all(), Alarm{{}, 2}) == Error::none);
    CHECK(net.server.send_message(To::client(peer.id), Alarm{{}, 3}) == Error::none);
    net.server_step();
    for (int i = 0; i < 40; ++i) { // it hears of them without ever saying hello
        net.now_us += net.tick_us;
        (void)peer.client->receive(net.now_us);
    }
    CHECK_FALSE(peer.client->joined());
    CHECK(peer.ear.values("alarm") == Values{2, 3});
    CHECK(peer.ear.count("hit") == 0);

    MessageWorldOptions options; // and while the host thinks about its hello
    options.server.authorization = Authorization::custom;
    Net asks(options);
    asks.verdict = [](ClientId, const ClientHello&) { return Verdict::later; };
    auto& waits = asks.connect();
    REQUIRE(asks.until([&] { return asks.server.waiting(waits.id); }));
    CHECK(asks.server.send_message(To::all(), Hit{{}, 1}) == Error::none);
    CHECK(asks.server.send_message(To::all(), Alarm{{}, 2}) == Error::none);
    CHECK(asks.server.send_message(To::client(waits.id), Alarm{{}, 3}) == Error::none);
    asks.settle();
    CHECK(waits.ear.values("alarm") == Values{2, 3});
    CHECK(waits.ear.count("hit") == 0);
    CHECK(waits.client->send_message(Stir{1}) == Error::no_connection);
    CHECK_FALSE(asks.server.joined(waits.id));
}

TEST_CASE("server_message/different_ticks") {
    Net net;
    auto& first = net.join();
    const Entity e = net.spawn();
    net.settle();
    auto& second = net.join(); // has heard of other ticks than the first
    CHECK(net.server.send_message(To::all(), Round{1}) == Error::none);
    CHECK(net.server.send_message(To::all(), Hit{e, 2}) == Error::none);
    net.step();
    CHECK(net.report->typed.encoded == 2); // the same bytes for both
    net.settle();
    for (auto* peer : {&first, &second}) {
        CHECK(peer->ear.values("round") == Values{1});
        CHECK(peer->ear.values("hit") == Values{2});
    }
}
