// Typed messages beyond the listed cases: targets, gates, order, limits, and bugs that others had.
#include "tests/conformance/support.hpp"
#include <limits>

using namespace conformance;

TEST_CASE("message/all_except_a_set") {
    Net net;
    MessageWorld::Peer* peers[4];
    for (auto*& peer : peers)
        peer = &net.join();
    const ClientId two[] = {peers[2]->id, peers[0]->id};
    CHECK(net.server.send_message(To::all_except(two), Hit{{}, 1}) == Error::none);
    CHECK(net.server.send_message(To::all_except(std::span<const ClientId>()), Hit{{}, 2}) == Error::none);
    net.settle();
    for (const u32 i : {0u, 2u})
        CHECK(peers[i]->ear.values("hit") == Values{2});
    for (const u32 i : {1u, 3u})
        CHECK(peers[i]->ear.values("hit") == Values{1, 2});
}

TEST_CASE("message/group") {
    Net net;
    auto& in = net.join();
    auto& out = net.join();
    const GroupId group = net.server.make_group(), other = net.server.make_group();
    net.server.add_to_group(group, in.id);
    net.server.add_to_group(other, out.id);
    CHECK(net.server.send_message(To::group(group), Hit{{}, 1}) == Error::none);
    net.settle();
    net.server.disconnect(in.id);
    CHECK_FALSE(net.server.in_group(group, in.id)); // whoever gets the slot next is not in it
    net.settle();
    auto& next = net.join();
    CHECK(net.server.send_message(To::group(group), Hit{{}, 2}) == Error::none);
    net.server.add_to_group(group, out.id); // members are those of the tick
    net.settle();
    CHECK(in.ear.values("hit") == Values{1});
    CHECK(next.ear.heard.empty());
    CHECK(out.ear.values("hit") == Values{2});
}

TEST_CASE("message/layers") {
    Net net;
    auto& red = net.join();
    auto& both = net.join();
    net.join(); // in none
    constexpr u64 reds = 1, blues = u64(1) << 63;
    net.server.view(red.id).set_layers(reds);
    net.server.view(both.id).set_layers(reds | blues);
    CHECK(net.server.send_message(To::layers(reds), Hit{{}, 1}) == Error::none);
    CHECK(net.server.send_message(To::layers(blues), Hit{{}, 2}) == Error::none);
    CHECK(net.server.send_message(To::layers(0), Hit{{}, 3}) == Error::none);
    CHECK(net.server.send_message(To::layers(reds), Hit{{}, 4}) == Error::none);
    net.server.view(red.id).set_layers(blues); // those of the tick count
    net.settle();
    CHECK(red.ear.values("hit") == Values{2});
    CHECK(both.ear.values("hit") == Values{1, 2, 4});
    CHECK(net.peers[2]->ear.heard.empty());
    Messenger messages(*net.protocol, {.local_player = true, .local_layers = reds});
    Ear local;
    REQUIRE(messages.set_client_handlers(client_handlers(local)) == Error::none);
    CHECK(messages.to_clients(To::layers(reds), Hit{{}, 5}) == Error::none);
    CHECK(messages.to_clients(To::layers(blues), Hit{{}, 6}) == Error::none);
    CHECK(messages.dispatch() == 1);
    CHECK(local.values("hit") == Values{5});
}

TEST_CASE("message/observers") {
    Net net;
    auto& west = net.join();
    auto& east = net.join();
    net.server.view(west.id).look_at(-300, 0, {.radius = 60});
    net.server.view(east.id).look_at(300, 0, {.radius = 60});
    const Entity left = net.world.spawn(Place{-300, 0}, Replicated{}), everywhere = net.spawn();
    CHECK(net.server.send_message(To::observers(left), Hit{left, 1}) == Error::none);
    CHECK(net.server.send_message(To::observers(everywhere), Hit{everywhere, 2}) == Error::none);
    net.settle();
    CHECK(west.ear.values("hit") == Values{1, 2});
    CHECK(east.ear.values("hit") == Values{2});
    net.server.view(west.id).hide(everywhere);
    CHECK(net.server.send_message(To::observers(everywhere), Hit{{}, 3}) == Error::none);
    net.settle();
    CHECK(west.ear.count("hit") == 2);
    CHECK(east.ear.values("hit") == Values{2, 3});
}

TEST_CASE("message/observers_of_the_departed") {
    Net net;
    auto& sees = net.join();
    auto& blind = net.join();
    const Entity ends = net.spawn(), withdrawn = net.spawn();
    net.server.view(blind.id).hide(ends);
    net.server.view(blind.id).hide(withdrawn);
    net.settle();
    CHECK(net.server.send_message(To::observers(ends), Hit{{}, 1}) == Error::none);
    CHECK(net.server.send_message(To::observers(withdrawn), Hit{{}, 2}) == Error::none);
    net.world.destroy(ends);
    CHECK(net.server.end_replication(withdrawn));
    net.settle();
    CHECK(sees.ear.values("hit") == Values{1, 2});
    CHECK(blind.ear.heard.empty());
}

TEST_CASE("message/encoded_once") {
    Net net;
    for (int i = 0; i < 10; ++i)
        net.connect();
    REQUIRE(net.until([&] { return net.joins.size() == 10; }));
    const Entity e = net.spawn();
    net.settle();
    for (i32 i = 0; i < 7; ++i)
        CHECK(net.server.send_message(i % 2 ? To::all() : To::observers(e), Hit{e, i}) == Error::none);
    net.step();
    CHECK(net.report->typed.encoded == 7);
    CHECK(net.report->typed.deliveries == 70);
    net.settle();
    for (auto& peer : net.peers)
        CHECK(peer->ear.values("hit") == Values{0, 1, 2, 3, 4, 5, 6}); // in the order of sending, whatever the target
}

TEST_CASE("message/ordered_type_waits_other_types_pass") {
    Net net;
    auto& peer = net.join();
    const Entity e = net.spawn();
    net.server.view(peer.id).hide(e);
    net.settle();
    CHECK(net.server.send_message(To::all(), Hit{{}, 0}) == Error::none);
    CHECK(net.server.send_message(To::all(), Hit{e, 1}) == Error::none);
    CHECK(net.server.send_message(To::all(), Hit{{}, 2}) == Error::none);
    CHECK(net.server.send_message(To::all(), Shout{{}, 3, 0}) == Error::none);
    CHECK(net.server.send_message(To::all(), Rumour{e, 4}) == Error::none);
    CHECK(net.server.send_message(To::all(), Rumour{{}, 5}) == Error::none);
    net.settle();
    CHECK(peer.ear.values("hit") == Values{0});
    CHECK(peer.ear.values("shout") == Values{3});
    CHECK(peer.ear.values("rumour") == Values{5});
    net.server.view(peer.id).show(e);
    net.settle();
    CHECK(peer.ear.values("hit") == Values{0, 1, 2});
    CHECK(peer.ear.values("rumour") == Values{5, 4});
}

TEST_CASE("message/hidden_entity") {
    MessageWorldOptions options;
    options.client.typed_wait_ms = 1000;
    Net net(options);
    auto& peer = net.join();
    const Entity e = net.spawn();
    net.server.view(peer.id).hide(e);
    net.settle();
    CHECK(net.server.send_message(To::all(), Hit{e, 1}) == Error::none);
    CHECK(net.server.send_message(To::all(), Hit{{}, 2}) == Error::none);
    net.steps(80);
    CHECK(peer.ear.values("hit") == Values{2});
    CHECK(peer.client->stats().typed.dropped_wait == 1);
    net.server.view(peer.id).show(e); // too late
    net.settle();
    CHECK(peer.ear.values("hit") == Values{2});
}

TEST_CASE("message/before_the_spawn") {
    Net net;
    Gated gated(net);
    gated.gate->closed = true;
    const Entity e = net.spawn();
    CHECK(net.server.send_message(To::all(), Hit{e, 1}) == Error::none);
    CHECK(net.server.send_message(To::all(), Alarm{e, 2}) == Error::none);
    net.steps(10); // 500 ms
    if (setting().loss_percent == 0)
        CHECK(gated.peer.ear.values("alarm") == Values{2}); // independent ones pass at once
    CHECK(gated.peer.ear.count("hit") == 0);
    gated.gate->closed = false;
    net.settle();
    REQUIRE(gated.peer.ear.values("hit") == Values{1}); // once
    for (const Heard& h : gated.peer.ear.heard)
        CHECK((h.what != "hit" || gated.peer.world.alive(h.entity)));
    CHECK(gated.peer.ear.values("alarm") == Values{2});
}

TEST_CASE("message/despawned_before_arrival") {
    MessageWorldOptions options;
    options.client.typed_wait_ms = 1000;
    Net net(options);
    Gated gated(net);
    const Entity e = net.spawn();
    net.settle();
    gated.gate->closed = true;
    const Entity never_shown = net.spawn();
    net.step();
    CHECK(net.server.send_message(To::all(), Hit{never_shown, 1}) == Error::none);
    net.step();
    net.world.destroy(never_shown);
    net.step();
    CHECK(net.server.send_message(To::all(), Hit{e, 2}) == Error::none);
    net.steps(4);
    gated.gate->closed = false;
    net.steps(80);
    // The first names an entity that, for this client, may never have been; where a late message still showed it, it was delivered then.
    CHECK(gated.peer.ear.values("hit").back() == 2);
    CHECK(gated.peer.ear.count("hit") + gated.peer.client->stats().typed.dropped_wait == 2);
    CHECK(net.client_errors == 0);
}

TEST_CASE("message/spawn_and_despawn_in_one_tick") {
    Net net;
    auto& peer = net.join();
    for (int tick = 0; tick < 5; ++tick) {
        for (i32 i = 0; i < 200; ++i) {
            const Entity e = net.spawn();
            CHECK(net.server.send_message(To::all(), Hit{e, tick * 200 + i}) == Error::none);
            net.world.destroy(e);
        }
        net.step();
    }
    net.settle();
    // The client never hears of the entities; the messages come without them.
    CHECK(peer.ear.count("hit") == 1000);
    CHECK(std::all_of(peer.ear.heard.begin(), peer.ear.heard.end(), [](const Heard& h) { return !h.entity; }));
    CHECK(peer.world.entity_count() == 0);
    CHECK(net.typed.null_references == 1000);
}

TEST_CASE("message/client_destroyed_the_entity_itself") {
    Net net;
    auto& peer = net.join();
    const Entity e = net.spawn();
    REQUIRE(net.until([&] { return bool(net.shown(peer, e)); }));
    peer.world.destroy(net.shown(peer, e)); // it must not, but may do so by mistake
    CHECK(net.server.send_message(To::all(), Hit{e, 1}) == Error::none);
    CHECK(net.server.send_message(To::all(), Shout{{}, 2, 0}) == Error::none);
    net.settle();
    CHECK(peer.ear.count("hit") == 0); // a handler never gets a dead entity
    CHECK(peer.ear.values("shout") == Values{2});
}

TEST_CASE("message/late_joiner") {
    Net net;
    auto& early = net.join();
    CHECK(net.server.send_message(To::all(), Hit{{}, 1}) == Error::none);
    CHECK(net.server.send_message(To::all(), Alarm{{}, 2}) == Error::none);
    auto& late = net.connect(); // heard of in the same receive
    REQUIRE(net.until([&] { return late.client->joined(); }));
    CHECK(net.server.send_message(To::all(), Hit{{}, 3}) == Error::none);
    net.settle();
    CHECK(early.ear.values("hit") == Values{1, 3});
    CHECK(early.ear.values("alarm") == Values{2});
    CHECK(late.ear.values("hit") == Values{3});
    CHECK(late.ear.count("alarm") == 0);
}

TEST_CASE("message/size_limit") {
    Net net;
    auto& peer = net.join();
    CHECK(net.server.send_message(To::all(), Chat{{}, std::string(2990, 'x')}) == Error::none);
    CHECK(net.server.send_message(To::all(), Chat{{}, std::string(2991, 'x')}) == Error::too_large);
    CHECK(peer.client->send_message(Chat{{}, std::string(2990, 'y')}) == Error::none);
    CHECK(peer.client->send_message(Chat{{}, std::string(2991, 'y')}) == Error::too_large);
    net.settle();
    CHECK(peer.ear.count("chat " + std::string(2990, 'x')) == 1);
    CHECK(net.ear.count("chat " + std::string(2990, 'y')) == 1);
    CHECK(peer.ear.heard.size() == 1);
    CHECK(net.ear.heard.size() == 1);
}

TEST_CASE("message/slow_consumer") {
    Net net;
    auto& peer = net.join();
    Values expected;
    for (i32 i = 0; i < 100; ++i) { // the client looks every fifth tick only
        CHECK(net.server.send_message(To::all(), Hit{{}, i}) == Error::none);
        CHECK(net.server.send_message(To::all(), Shout{{}, u64(i), 0}) == Error::none);
        net.server_step();
        if (i % 5 == 0)
            net.client_step(peer);
        expected.push_back(i);
    }
    net.settle();
    CHECK(peer.ear.values("hit") == expected);
    CHECK(peer.ear.values("shout") == expected);
}

TEST_CASE("message/reconnect") {
    Net net;
    Gated gated(net);
    MessageWorld::Peer& peer = gated.peer;
    const Entity hidden = net.spawn();
    net.server.view(peer.id).hide(hidden);
    net.settle();
    const Blackout dark[] = {{}};
    CHECK(net.server.send_message(To::all(), Hit{hidden, 1}) == Error::none); // waits at the client
    net.settle();
    net.network.set_link(peer.id, Direction::up, {.blackouts = dark});
    net.network.set_link(peer.id, Direction::down, {.blackouts = dark});
    for (i32 i = 0; i < 10; ++i) {
        CHECK(peer.client->send_message(Attack{{}, i}) == Error::none);
        CHECK(net.server.send_message(To::all(), Hit{{}, 100 + i}) == Error::none);
    }
    net.steps(5);
    CHECK(peer.client->send_message(Attack{{}, 10}) == Error::none); // never left
    net.server.disconnect(peer.id);
    net.steps(2);
    CHECK_FALSE(peer.client->connected());
    CHECK(peer.client->stats().typed.dropped_disconnect == 2);
    peer.id = net.network.connect(net.options.link, net.options.link);
    gated.gate->reconnect(net.network.client(peer.id));
    REQUIRE(net.until([&] { return peer.client->joined(); }));
    net.settle();
    CHECK(peer.ear.heard.empty());
    CHECK(net.ear.heard.empty());
    CHECK(net.server.send_message(To::all(), Hit{{}, 7}) == Error::none);
    CHECK(peer.client->send_message(Attack{{}, 8}) == Error::none);
    net.settle();
    CHECK(peer.ear.values("hit") == Values{7});
    CHECK(net.ear.values("attack") == Values{8});
}

TEST_CASE("message/peer_not_reading") {
    MessageWorldOptions options;
    options.network.ordered = {.queue_bytes_max = 70'000, .queue_messages_max = 16};
    options.server.typed_backlog_bytes_max = 50'000;
    Net net(options);
    auto& stuck = net.join();
    auto& fine = net.join();
    const Blackout dark[] = {{}};
    net.network.set_link(stuck.id, Direction::down, {.blackouts = dark});
    i32 sent = 0, ticks = 0;
    for (; ticks < 200 && net.leaves.empty(); ++ticks) {
        for (int i = 0; i < 200; ++i)
            CHECK(net.server.send_message(To::all(), Hit{{}, sent++}) == Error::none);
        net.step();
    }
    CHECK(net.leaves == std::vector<ClientId>{stuck.id}); // bounded, then disconnected
    CHECK(net.until([&] { return fine.ear.count("hit") == static_cast<u32>(sent); }));
    CHECK(net.server.joined(fine.id));
}

TEST_CASE("message/foreign_entities") {
    Net net;
    auto& peer = net.join();
    auto& other = net.join();
    const Entity seen = net.spawn(), hidden = net.spawn();
    REQUIRE(net.until([&] { return bool(net.shown(peer, seen)) && bool(net.shown(peer, hidden)) && bool(net.shown(other, seen)); }));
    CHECK(peer.client->send_message(Attack{net.shown(peer, seen), 1}) == Error::none);
    CHECK(other.client->send_message(Attack{net.shown(other, seen), 2}) == Error::none);
    CHECK(peer.client->send_message(Attack{net.shown(peer, hidden), 3}) == Error::none);
    // Hidden by the tick before the message comes. Nothing tells the client that there is such an entity.
    net.server.view(peer.id).hide(hidden);
    net.server_step();
    net.settle();
    CHECK(net.ear.count("attack") == 2);
    CHECK(net.typed.unseen_references == 1);
    for (const Heard& h : net.ear.heard) {
        CHECK(h.entity == seen);
        CHECK(h.sender.client == (h.value == 1 ? peer.id : other.id)); // the connection says who speaks, not the message
    }
    CHECK(net.server.joined(peer.id));
}

TEST_CASE("message/unreliable") {
    Net net;
    auto& peer = net.join();
    for (i32 i = 0; i < 50; ++i) {
        CHECK(net.server.send_message(To::all(), Spark{{}, i}) == Error::none);
        CHECK(peer.client->send_message(Stir{i}) == Error::none);
        net.step();
    }
    net.settle();
    if (setting().loss_percent == 0) {
        CHECK(peer.ear.count("spark") == 50);
        CHECK(net.ear.count("stir") == 50);
    } else {
        CHECK(peer.ear.count("spark") > 10);
        CHECK(peer.ear.count("spark") <= 50);
        CHECK(net.ear.count("stir") > 10);
    }
    CHECK(net.client_errors == 0);
}

TEST_CASE("message/nothing_sent_costs_nothing") {
    MessageWorldOptions options;
    options.server.heartbeat_ticks = 0;
    Net net(options);
    auto& peer = net.join();
    net.spawn();
    net.steps(2);
    REQUIRE(net.until([&] { return net.server.settled(peer.id); }));
    net.settle();
    const u64 heard = peer.client->stats().messages;
    const LinkCounters before = net.network.counters(peer.id, Direction::down);
    for (int i = 0; i < 20; ++i) {
        net.step();
        CHECK(net.report->typed.bytes == 0);
        CHECK(net.report->messages == 0);
    }
    CHECK(peer.client->stats().messages == heard);
    CHECK(net.network.counters(peer.id, Direction::down).sent == before.sent);
}
