// Messages and events from a client to the server, in both directions, and such as their sender hears too.
#include "tests/conformance/state_support.hpp"

using namespace conformance;

namespace {

void regular(Style style) {
    Net net;
    hear(net.server, net.ear, style);
    auto& peer = net.join();
    CHECK(peer.client->send_message(Attack{{}, 1}) == Error::none);
    net.settle();
    REQUIRE(net.ear.values("attack") == Values{1});
    CHECK(net.ear.heard[0].sender.origin == Sender::Origin::client);
    CHECK(net.ear.heard[0].sender.client == peer.id);
}

void mapped(Style style) {
    Net net;
    hear(net.server, net.ear, style);
    auto& peer = net.join();
    const Entity e = net.spawn();
    REQUIRE(net.until([&] { return bool(net.shown(peer, e)); }));
    peer.world.spawn();
    CHECK(peer.client->send_message(Attack{net.shown(peer, e), 1}) == Error::none);
    CHECK(peer.client->send_message(Attack{peer.world.spawn(), 2}) == Error::bad_value); // the server knows no such entity
    net.settle();
    REQUIRE(net.ear.values("attack") == Values{1});
    CHECK(net.ear.heard[0].entity == e);
}

void without_plugins(Style style) {
    const auto server_protocol = make_protocol(), client_protocol = make_protocol();
    LoopbackNetwork network({});
    World world, client_world;
    Server server(world, *server_protocol, network.server());
    Client client(client_world, *client_protocol, network.client(network.connect(state::StateNet::link())));
    Ear ear;
    hear(server, ear, style);
    bool sent = false;
    for (TimeUs now = 50'000; now < 10'000'000; now += 50'000) {
        server.receive(now);
        server.tick(now);
        CHECK(client.receive(now) == Error::none);
        if (!sent && client.joined()) {
            CHECK(client.send_message(Attack{{}, 1}) == Error::none);
            sent = true;
        }
        CHECK(client.send(now) == Error::none);
    }
    CHECK(ear.values("attack") == Values{1});
}

template <class Send>
void local(Style style, Send&& send) {
    const auto protocol = make_protocol();
    Messenger messages(*protocol, {.local_player = true});
    Ear ear;
    const MessageHandler function = plain<Attack>(ear);
    REQUIRE((style == Style::object ? messages.set_server_handlers(server_handlers(ear)) : messages.set_server_handlers({&function, 1})) ==
            Error::none);
    CHECK(send(messages, Attack{{}, 1}) == Error::none);
    CHECK(ear.heard.empty());
    CHECK(messages.dispatch() == 1);
    REQUIRE(ear.values("attack") == Values{1});
    CHECK(ear.heard[0].sender.is_local());
    CHECK(messages.dispatch() == 0);
}
constexpr auto to_server = [](Messenger& messages, const Attack& attack) { return messages.to_server(attack); };
constexpr auto shared = [](Messenger& messages, const Attack& attack) { return messages.shared(attack); };

/// A client and its Messenger on a Net.
struct Player {
    MessageWorld::Peer& peer;
    Messenger messages;
    Ear ear; // what its own process hears as if it were the server
    Player(Net& net, Style style) : peer(net.join()), messages(*net.protocol, {.client = peer.client.get()}) {
        const MessageHandler function = plain<Attack>(ear);
        REQUIRE((style == Style::object ? messages.set_server_handlers(server_handlers(ear))
                                        : messages.set_server_handlers({&function, 1})) == Error::none);
    }
};

void with_disconnect(Style style) {
    Net net;
    hear(net.server, net.ear, style);
    Player player(net, style);
    CHECK(player.messages.to_server(Attack{{}, 1}) == Error::none);
    net.server.disconnect(player.peer.id);
    net.settle();
    REQUIRE_FALSE(player.peer.client->connected());
    CHECK(player.messages.to_server(Attack{{}, 2}) == Error::no_connection);
    CHECK(player.messages.dispatch() == 0);
    CHECK(player.ear.heard.empty());
    CHECK(net.ear.heard.empty());
    CHECK(player.peer.client->stats().typed.dropped_disconnect == 1);
}

void shared_regular(Style style) {
    Net net;
    hear(net.server, net.ear, style);
    Player player(net, style);
    CHECK(player.messages.shared(Attack{{}, 1}) == Error::none);
    CHECK(player.messages.dispatch() == 1); // at once here
    REQUIRE(player.ear.values("attack") == Values{1});
    CHECK(player.ear.heard[0].sender.is_local());
    net.settle();
    REQUIRE(net.ear.values("attack") == Values{1});
    CHECK(net.ear.heard[0].sender.client == player.peer.id);
    CHECK(player.messages.dispatch() == 0);
}

void shared_mapped(Style style) {
    Net net;
    hear(net.server, net.ear, style);
    Player player(net, style);
    const Entity e = net.spawn();
    REQUIRE(net.until([&] { return bool(net.shown(player.peer, e)); }));
    const Entity shown = net.shown(player.peer, e);
    CHECK(player.messages.shared(Attack{shown, 1}) == Error::none);
    CHECK(player.messages.dispatch() == 1);
    net.settle();
    REQUIRE(player.ear.heard.size() == 1);
    REQUIRE(net.ear.heard.size() == 1);
    CHECK(player.ear.heard[0].entity == shown);
    CHECK(net.ear.heard[0].entity == e);
}

void shared_with_disconnect(Style style) {
    Net net;
    hear(net.server, net.ear, style);
    Player player(net, style);
    CHECK(player.messages.shared(Attack{{}, 1}) == Error::none);
    CHECK(player.messages.dispatch() == 1);
    net.server.disconnect(player.peer.id);
    net.settle();
    CHECK(player.messages.dispatch() == 0); // not a second time
    CHECK(player.messages.shared(Attack{{}, 2}) == Error::no_connection);
    CHECK(player.messages.dispatch() == 0);
    CHECK(player.ear.values("attack") == Values{1});
    CHECK(net.ear.heard.empty());
}

/// One type both ways, on a listen server.
void both_ways(Style style) {
    Net net;
    auto& peer = net.join();
    hear(*peer.client, peer.ear, style);
    Messenger messages(*net.protocol, {.server = &net.server, .local_player = true});
    Ear as_client;
    const MessageHandler up = plain<Chat>(net.ear), down = plain<Chat>(as_client);
    REQUIRE(messages.set_server_handlers({&up, 1}) == Error::none);
    REQUIRE(messages.set_client_handlers({&down, 1}) == Error::none);
    CHECK(messages.to_clients(To::all(), Chat{{}, "down"}) == Error::none);
    CHECK(messages.to_server(Chat{{}, "own"}) == Error::none);
    CHECK(peer.client->send_message(Chat{{}, "up"}) == Error::none);
    CHECK(messages.dispatch() == 2);
    net.settle();
    CHECK(peer.ear.count("chat down") == 1);
    CHECK(as_client.count("chat down") == 1);
    CHECK(net.ear.count("chat own") == 1);
    CHECK(net.ear.count("chat up") == 1);
    CHECK(peer.ear.heard.size() == 1);
    CHECK(as_client.heard.size() == 1);
    CHECK(net.ear.heard.size() == 2);
}

} // namespace

TEST_CASE("client_message/regular") {
    regular(Style::object);
}
TEST_CASE("client_message/mapped") {
    mapped(Style::object);
}
TEST_CASE("client_message/without_plugins") {
    without_plugins(Style::object);
}
TEST_CASE("client_message/local_sending") {
    local(Style::object, to_server);
}
TEST_CASE("client_message/with_disconnect") {
    with_disconnect(Style::object);
}
TEST_CASE("client_event/regular") {
    regular(Style::functions);
}
TEST_CASE("client_event/mapped") {
    mapped(Style::functions);
}
TEST_CASE("client_event/without_plugins") {
    without_plugins(Style::functions);
}
TEST_CASE("client_event/local_sending") {
    local(Style::functions, to_server);
}
TEST_CASE("client_event/with_disconnect") {
    with_disconnect(Style::functions);
}

TEST_CASE("shared_message/regular") {
    shared_regular(Style::object);
}
TEST_CASE("shared_message/mapped") {
    shared_mapped(Style::object);
}
TEST_CASE("shared_message/without_plugins") {
    without_plugins(Style::object);
}
TEST_CASE("shared_message/local_sending") {
    local(Style::object, shared);
}
TEST_CASE("shared_message/with_disconnect") {
    shared_with_disconnect(Style::object);
}
TEST_CASE("shared_event/regular") {
    shared_regular(Style::functions);
}
TEST_CASE("shared_event/mapped") {
    shared_mapped(Style::functions);
}
TEST_CASE("shared_event/without_plugins") {
    without_plugins(Style::functions);
}
TEST_CASE("shared_event/local_sending") {
    local(Style::functions, shared);
}
TEST_CASE("shared_event/with_disconnect") {
    shared_with_disconnect(Style::functions);
}

TEST_CASE("bidirectional_event/message") {
    both_ways(Style::object);
}
TEST_CASE("bidirectional_event/event") {
    both_ways(Style::functions);
}
