// What a game gets through its backend, from the connection to its end.
#include "tests/conformance/state_support.hpp"

using namespace throng;
using namespace conformance;
using conformance::state::Health;
using conformance::state::StateNet;

TEST_CASE("backend/connect_disconnect") {
    Net net;
    auto& stays = net.join();
    auto& goes = net.connect();
    CHECK_FALSE(goes.client->connected());
    CHECK_FALSE(net.server.client_report(goes.id).connected);
    net.step();
    CHECK(goes.client->connected());
    CHECK(net.server.client_report(goes.id).connected);

    SUBCASE("the client leaves") {
        net.network.disconnect(goes.id); // the game knows: it ends its Client
        net.step();
    }
    SUBCASE("the server closes it") {
        net.server.disconnect(goes.id);
        net.step();
        CHECK_FALSE(goes.client->connected());
    }
    CHECK_FALSE(net.server.client_report(goes.id).connected);
    CHECK_FALSE(net.network.connected(goes.id));
    CHECK(stays.client->connected());
    CHECK(net.server.joined(stays.id));
    goes.left = true;
    const auto& next = net.join(); // a backend has room for the next one
    CHECK(net.server.joined(next.id));
    CHECK(next.client->connected());
}

TEST_CASE("backend/disconnect_request") {
    Net net;
    auto& peer = net.join();
    const Entity e = net.spawn();
    CHECK(net.server.send_message(To::client(peer.id), Chat{{}, "the last word"}) == Error::none);
    net.server.disconnect_after_flush(peer.id);
    CHECK(net.server.send_message(To::all(), Chat{{}, "not any more"}) == Error::none);
    REQUIRE(net.until([&] { return !peer.client->connected(); }));
    CHECK_FALSE(net.server.joined(peer.id));
    CHECK(peer.ear.count("chat the last word") == 1);
    CHECK(peer.ear.heard.size() == 1);
    CHECK(peer.world.entity_count() == 1); // and the last state
    CHECK(peer.world.alive(net.shown(peer, e)));
    CHECK(net.leaves.empty());
}

TEST_CASE("backend/server_stop") {
    StateNet net;
    auto& peer = net.join();
    const Entity before = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    const Entity there = net.shown(peer, before);

    net.world.mut<Health>(before)->hp = 2;
    net.world.spawn(Health{3, false}, Replicated{});
    net.server_step(); // under way when the server stops
    REQUIRE(net.network.counters(peer.id, Direction::down).in_flight > 0);
    net.server.disconnect(peer.id);
    const u64 sent = net.network.counters(peer.id, Direction::down).sent;
    net.world.spawn(Health{4, false}, Replicated{});
    net.server_step();               // and after that
    CHECK(peer.client->connected()); // it has not looked yet
    for (int i = 0; i < 20; ++i) {
        net.now_us += 50'000;
        (void)peer.client->receive(net.now_us);
        (void)peer.client->send(net.now_us);
    }
    peer.left = true;
    CHECK_FALSE(peer.client->connected());
    CHECK_FALSE(peer.client->joined());
    CHECK(net.network.counters(peer.id, Direction::down).sent == sent);
    REQUIRE(peer.world->alive(there)); // as it was
    CHECK(peer.world->get<Health>(there)->hp == 1);
    CHECK(peer.world->entity_count() == 1);
}

TEST_CASE("backend/replication") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.agree();
    REQUIRE(net.shown(peer, e));
    CHECK(net.hp(peer, e) == 1);
    net.world.mut<Health>(e)->hp = 2;
    net.agree();
    CHECK(net.hp(peer, e) == 2);
    const Entity there = net.shown(peer, e);
    net.world.destroy(e);
    net.agree();
    CHECK_FALSE(peer.world->alive(there));
    CHECK(peer.world->entity_count() == 0);
}

TEST_CASE("backend/server_message") {
    Net net;
    auto& peer = net.join();
    CHECK(net.server.send_message(To::all(), Hit{{}, 1}) == Error::none);
    CHECK(net.server.send_message(To::all(), Rumour{{}, 2}) == Error::none);
    net.settle();
    CHECK(peer.ear.values("hit") == Values{1});
    CHECK(peer.ear.values("rumour") == Values{2});
}

TEST_CASE("backend/client_message") {
    Net net;
    auto& peer = net.join();
    Values expected;
    for (i32 i = 0; i < 30; ++i) {
        CHECK(peer.client->send_message(Attack{{}, i}) == Error::none);
        expected.push_back(i);
        net.step();
    }
    net.settle();
    CHECK(net.ear.values("attack") == expected);
}
