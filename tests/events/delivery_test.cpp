// From the server to its clients and back: who gets what, in what order, how often it is encoded, and what happens at the limits.
#include "tests/allocation_count.hpp"
#include "tests/support/message_world.hpp"
#include "throng/executor.hpp"
#include <doctest/doctest.h>

using namespace throng;
using namespace message_test;

namespace {
using Values = std::vector<i64>;

MessageWorldOptions near_sighted() {
    MessageWorldOptions options;
    options.server.heartbeat_ticks = 0;
    return options;
}
} // namespace

TEST_SUITE("events") {
    TEST_CASE("each target reaches whom it names, and a message is encoded once for all of them") {
        MessageWorld net;
        std::vector<MessageWorld::Peer*> peers;
        for (int i = 0; i < 5; ++i)
            peers.push_back(&net.join());
        const GroupId group = net.server.make_group();
        for (const u32 member : {4u, 1u, 3u, 1u})
            net.server.add_to_group(group, peers[member]->id);
        net.server.remove_from_group(group, peers[3]->id);
        const ClientId two[] = {peers[3]->id, peers[0]->id};
        CHECK(net.server.send_message(To::all(), Hit{{}, 1}) == Error::none);
        CHECK(net.server.send_message(To::client(peers[2]->id), Hit{{}, 2}) == Error::none);
        CHECK(net.server.send_message(To::all_except(two), Hit{{}, 3}) == Error::none);
        CHECK(net.server.send_message(To::all_except(peers[1]->id), Hit{{}, 4}) == Error::none);
        CHECK(net.server.send_message(To::group(group), Hit{{}, 5}) == Error::none);
        net.step();
        CHECK(peers[0]->ear.values("hit") == Values{1, 4});
        CHECK(peers[1]->ear.values("hit") == Values{1, 3, 5});
        CHECK(peers[2]->ear.values("hit") == Values{1, 2, 3, 4});
        CHECK(peers[3]->ear.values("hit") == Values{1, 4});
        CHECK(peers[4]->ear.values("hit") == Values{1, 3, 4, 5});
        CHECK(net.report->typed.sent == 5);
        CHECK(net.report->typed.encoded == 5);
        CHECK(net.report->typed.deliveries == 5 + 1 + 3 + 4 + 2);
        CHECK(net.report->typed.bundles == 5); // one a client: all fit a packet
        net.server.drop_group(group);
        CHECK(net.server.send_message(To::group(group), Hit{}) == Error::bad_value);
        CHECK(net.server.send_message(To::client(77), Hit{}) == Error::no_connection);
        net.step();
        CHECK(net.report->typed.deliveries == 0);
        CHECK(net.client_errors == 0);
    }

    TEST_CASE("a group that is dropped before the tick takes its messages along, though another one gets its id") {
        MessageWorld net;
        auto& before = net.join();
        auto& after = net.join();
        const GroupId group = net.server.make_group();
        net.server.add_to_group(group, before.id);
        CHECK(net.server.send_message(To::group(group), Hit{{}, 1}) == Error::none);
        net.server.drop_group(group);
        REQUIRE(net.server.make_group() == group);
        net.server.add_to_group(group, after.id);
        CHECK(net.server.send_message(To::group(group), Hit{{}, 2}) == Error::none);
        net.steps(2);
        CHECK(before.ear.count("hit") == 0);
        CHECK(after.ear.values("hit") == Values{2});
    }

    TEST_CASE("a message that overtakes the welcome waits for it, however long that takes") {
        MessageWorldOptions options;
        options.client.typed_wait_ms = 500;
        MessageWorld net(options);
        const ScriptStep late_welcome{0, ScriptAction::delay, 2'000'000};
        LinkConfig down;
        down.script = {&late_welcome, 1};
        auto& peer = net.connect(down, {});
        REQUIRE(net.until([&] { return net.server.joined(peer.id); }));
        const Entity e = net.spawn();
        CHECK(net.server.send_message(To::all(), Rumour{{}, 1}) == Error::none);
        CHECK(net.server.send_message(To::all(), Rumour{e, 2}) == Error::none);
        net.steps(20);
        CHECK_FALSE(peer.client->joined());
        CHECK(peer.client->stats().typed.waited == 2);
        REQUIRE(net.until([&] { return peer.client->joined(); }));
        net.steps(3);
        CHECK(peer.ear.values("rumour") == Values{1, 2});
        CHECK(peer.client->stats().typed.dropped_wait == 0);
    }

    TEST_CASE("observers are those who see the entity after this tick's interest") {
        MessageWorld net(near_sighted());
        auto& west = net.join();
        auto& east = net.join();
        net.server.view(west.id).look_at(-300, 0, {.radius = 60});
        net.server.view(east.id).look_at(300, 0, {.radius = 60});
        const Entity left = net.world.spawn(Place{-300, 0}, Replicated{}), right = net.world.spawn(Place{300, 0}, Replicated{});
        // Spawned in this tick, and so seen in it.
        CHECK(net.server.send_message(To::observers(left), Hit{left, 1}) == Error::none);
        CHECK(net.server.send_message(To::observers(right), Hit{right, 2}) == Error::none);
        net.steps(3);
        CHECK(west.ear.values("hit") == Values{1});
        CHECK(east.ear.values("hit") == Values{2});
        REQUIRE(west.ear.heard.size() == 1);
        CHECK(west.ear.heard[0].entity == net.shown(west, left));
        net.server.view(west.id).hide(left); // as of this tick it does not see it
        CHECK(net.server.send_message(To::observers(left), Hit{{}, 3}) == Error::none);
        net.world.mut<Place>(right)->x = -300; // and this one comes over
        CHECK(net.server.send_message(To::observers(right), Hit{right, 4}) == Error::none);
        net.steps(3);
        CHECK(west.ear.values("hit") == Values{1, 4});
        CHECK(east.ear.values("hit") == Values{2});
    }

    TEST_CASE("those who saw an entity hear of its end, before it ends for them") {
        MessageWorld net;
        auto& peer = net.join();
        auto& blind = net.join();
        const Entity e = net.spawn(), stays = net.spawn();
        net.server.view(blind.id).hide(e);
        net.steps(3);
        const Entity shown = net.shown(peer, e);
        REQUIRE(peer.world.alive(shown));
        CHECK(net.server.send_message(To::observers(e), Hit{e, 1}) == Error::none);
        CHECK(net.server.send_message(To::observers(stays), Hit{stays, 2}) == Error::none);
        net.world.destroy(e);
        net.steps(3);
        CHECK(peer.ear.values("hit") == Values{1, 2});
        CHECK(peer.ear.heard[0].entity == shown); // it was there while the handler ran
        CHECK_FALSE(peer.world.alive(shown));
        CHECK(blind.ear.values("hit") == Values{2});
        CHECK(net.server.send_message(To::observers(e), Hit{}) == Error::bad_value);
        // Never replicated: nobody sees it.
        const Entity secret = net.world.spawn();
        CHECK(net.server.send_message(To::observers(secret), Hit{{}, 9}) == Error::none);
        net.steps(2);
        CHECK(peer.ear.count("hit") == 2);
    }

    TEST_CASE("a message waits for the entity that it names; others of its type behind it, other types not") {
        MessageWorld net;
        auto& peer = net.join();
        const Entity e = net.spawn();
        net.server.view(peer.id).hide(e);
        net.steps(2);
        CHECK(net.server.send_message(To::all(), Hit{e, 1}) == Error::none);
        CHECK(net.server.send_message(To::all(), Hit{{}, 2}) == Error::none);
        CHECK(net.server.send_message(To::all(), Shout{{}, 3, 0}) == Error::none);
        CHECK(net.server.send_message(To::all(), Alarm{e, 4}) == Error::none);
        CHECK(net.server.send_message(To::all(), Rumour{e, 5}) == Error::none);
        CHECK(net.server.send_message(To::all(), Rumour{{}, 6}) == Error::none);
        net.steps(3);
        CHECK(peer.ear.count("hit") == 0);
        CHECK(peer.ear.values("shout") == Values{3});
        CHECK(peer.ear.values("alarm") == Values{4}); // independent: at once, the reference is null
        CHECK(peer.ear.values("rumour") == Values{6});
        net.server.view(peer.id).show(e);
        net.steps(3);
        CHECK(peer.ear.values("hit") == Values{1, 2});
        CHECK(peer.ear.values("rumour") == Values{6, 5});
        for (const Heard& h : peer.ear.heard)
            CHECK(h.entity == (h.what == "hit" && h.value == 1 ? net.shown(peer, e) : h.value == 5 ? net.shown(peer, e) : Entity{}));
        CHECK(peer.client->stats().typed.waited == 3);
        CHECK(peer.client->stats().typed.null_references == 1);
    }

    TEST_CASE("an entity that the client's game has destroyed reads as null where nothing is waited for, and else is waited for") {
        MessageWorldOptions options;
        options.client.typed_wait_ms = 500;
        MessageWorld net(options);
        auto& peer = net.join();
        const Entity e = net.spawn();
        net.steps(3);
        peer.world.destroy(net.shown(peer, e));
        CHECK(net.server.send_message(To::all(), Alarm{e, 1}) == Error::none);
        CHECK(net.server.send_message(To::all(), Hit{e, 2}) == Error::none);
        net.steps(15);
        REQUIRE(peer.ear.values("alarm") == Values{1});
        CHECK(peer.ear.heard[0].entity == Entity{});
        CHECK(peer.client->stats().typed.null_references == 1);
        CHECK(peer.ear.count("hit") == 0);
        CHECK(peer.client->stats().typed.dropped_wait == 1);
    }

    TEST_CASE("what waits in vain is dropped after its time, and lets those behind it go") {
        MessageWorldOptions options;
        options.client.typed_wait_ms = 500;
        MessageWorld net(options);
        auto& peer = net.join();
        const Entity e = net.spawn();
        net.server.view(peer.id).hide(e);
        net.steps(2);
        CHECK(net.server.send_message(To::all(), Hit{e, 1}) == Error::none);
        CHECK(net.server.send_message(To::all(), Hit{{}, 2}) == Error::none);
        net.steps(10); // arrives in the first of them
        CHECK(peer.ear.count("hit") == 0);
        net.step();
        CHECK(peer.ear.values("hit") == Values{2});
        CHECK(peer.client->stats().typed.dropped_wait == 1);
        net.server.view(peer.id).show(e);
        net.steps(3);
        CHECK(peer.ear.values("hit") == Values{2});
    }

    TEST_CASE("named limits of what waits") {
        MessageWorldOptions options;
        options.client.typed_waiting_max = 3;
        options.client.typed_waiting_unreliable_max = 2;
        MessageWorld net(options);
        auto& peer = net.join();
        const Entity e = net.spawn();
        net.server.view(peer.id).hide(e);
        net.steps(2);
        for (i32 i = 0; i < 5; ++i) {
            CHECK(net.server.send_message(To::all(), Hit{e, i}) == Error::none);
            CHECK(net.server.send_message(To::all(), Spark{e, i}) == Error::none);
        }
        net.steps(2);
        CHECK(peer.client->stats().typed.dropped_limit == 2 + 3);
        net.server.view(peer.id).show(e);
        net.steps(3);
        CHECK(peer.ear.values("hit") == Values{2, 3, 4});
        CHECK(peer.ear.values("spark") == Values{3, 4});
    }

    TEST_CASE("a message that waits for its tick comes with it, also in an idle world") {
        MessageWorld net(near_sighted());
        auto& peer = net.join();
        net.steps(5);
        const Tick before = peer.client->newest_tick();
        CHECK(net.server.send_message(To::all(), Round{7}) == Error::none);
        net.step();
        CHECK(net.report->heartbeats == 1); // nothing else says that this tick was
        CHECK(peer.ear.values("round") == Values{7});
        CHECK(peer.client->newest_tick() == net.server.current_tick());
        CHECK(tick_newer(peer.client->newest_tick(), before));
        net.step();
        CHECK(net.report->heartbeats == 0);
    }

    TEST_CASE("a reference to what is not replicated reads as null, and nothing waits for it") {
        MessageWorld net;
        auto& peer = net.join();
        const Entity secret = net.world.spawn(), short_lived = net.spawn();
        CHECK(net.server.send_message(To::all(), Hit{secret, 1}) == Error::none);
        CHECK(net.server.send_message(To::all(), Hit{short_lived, 2}) == Error::none);
        net.world.destroy(short_lived); // before any tick saw it
        net.step();
        CHECK(peer.ear.values("hit") == Values{1, 2});
        CHECK(peer.ear.heard[0].entity == Entity{});
        CHECK(peer.ear.heard[1].entity == Entity{});
        CHECK(net.report->typed.null_references == 2);
    }

    TEST_CASE("a message names a Lasting entity that has lost its lane and is paused now, as those who keep it know it") {
        MessageWorldOptions options = near_sighted();
        options.server.chunks_max = 1;
        MessageWorld net(options);
        auto& peer = net.join();
        net.server.view(peer.id).look_at(0, 0, {.radius = 60});
        const Entity tower = net.world.spawn(Place{1, 1}, Lasting{}, Replicated{});
        const Entity stays = net.world.spawn(Place{2, 2}, Replicated{}); // keeps the one chunk
        net.steps(3);
        const Entity shown = net.shown(peer, tower);
        REQUIRE(shown);
        net.world.mut<Place>(tower)->x = 500;
        net.steps(3);
        REQUIRE_FALSE(net.server.net_id(tower));
        REQUIRE(peer.client->frozen(shown));
        CHECK(net.server.send_message(To::all(), Hit{tower, 1}) == Error::none);
        net.world.remove<Replicated>(tower);
        net.steps(2);
        REQUIRE(peer.ear.values("hit") == Values{1});
        CHECK(peer.ear.heard[0].entity == shown);
        CHECK(net.shown(peer, stays));
    }

    TEST_CASE("sizes: an error at the sender, and large messages alone in their bundle") {
        MessageWorld net;
        auto& peer = net.join();
        const std::string largest(3000 - 10, 'x');
        CHECK(net.server.send_message(To::all(), Chat{{}, largest + "x"}) == Error::too_large);
        CHECK(net.server.send_message(To::all(), Chat{{}, "a"}) == Error::none);
        CHECK(net.server.send_message(To::all(), Chat{{}, largest}) == Error::none);
        CHECK(net.server.send_message(To::all(), Chat{{}, "b"}) == Error::none);
        net.step();
        CHECK(net.report->typed.bundles == 3);
        REQUIRE(peer.ear.heard.size() == 3);
        CHECK(peer.ear.heard[0].what == "chat a");
        CHECK(peer.ear.heard[1].value == static_cast<i64>(largest.size()));
        CHECK(peer.ear.heard[2].what == "chat b");
        CHECK(peer.client->send_message(Chat{{}, largest + "x"}) == Error::too_large);
        CHECK(peer.client->send_message(Chat{{}, largest}) == Error::none);
        net.steps(2);
        CHECK(net.ear.count("chat " + largest) == 1);
        CHECK(net.client_errors == 0);
    }

    TEST_CASE("a message to a packet-sized channel only") {
        MessageWorldOptions options;
        options.network.reliable_bytes_max = 2000;
        options.network.ordered.queue_bytes_max = options.network.unordered.queue_bytes_max = 4000;
        MessageWorld net(options);
        auto& peer = net.join();
        CHECK(net.server.send_message(To::all(), Chat{{}, std::string(1990, 'x')}) == Error::too_large);
        CHECK(peer.client->send_message(Chat{{}, std::string(1990, 'x')}) == Error::too_large);
        CHECK(net.server.send_message(To::all(), Chat{{}, std::string(1950, 'x')}) == Error::none);
        net.step();
        CHECK(peer.ear.heard.size() == 1);
    }

    TEST_CASE("refused reliable messages are tried again in order, refused unreliable ones dropped, both counted") {
        MessageWorldOptions options;
        options.network.ordered.queue_messages_max = 2;
        options.network.unreliable.queue_messages_max = 3;
        MessageWorld net(options);
        auto& peer = net.join();
        net.network.set_link(peer.id, Direction::down, {.delay_us = 200'000});
        Values expected;
        i32 sparks = 0;
        for (i32 round = 0; round < 10; ++round) {
            for (i32 i = 0; i < 30; ++i) {
                expected.push_back(round * 30 + i);
                CHECK(net.server.send_message(To::all(), Hit{{}, round * 30 + i}) == Error::none);
            }
            for (i32 i = 0; i < 1000; ++i, ++sparks)
                CHECK(net.server.send_message(To::all(), Spark{{}, i}) == Error::none);
            net.step();
            CHECK((net.report->limits & limit_backend_refused) != 0);
        }
        CHECK(net.typed.backlogged > 0);
        CHECK(net.until([&] { return peer.ear.count("hit") == expected.size(); }));
        CHECK(peer.ear.values("hit") == expected);
        CHECK(net.typed.refused > 0);
        CHECK(peer.ear.count("spark") + net.typed.refused == static_cast<u32>(sparks));
        CHECK(net.leaves.empty());
    }

    TEST_CASE("a client whose reliable messages pile up is disconnected at the named limit") {
        MessageWorldOptions options;
        options.network.ordered.queue_messages_max = 2;
        options.server.typed_backlog_bytes_max = 5000;
        MessageWorld net(options);
        auto& slow = net.join();
        auto& fine = net.join();
        const Blackout dark[] = {{}};
        net.network.set_link(slow.id, Direction::down, {.blackouts = dark});
        u32 limits = 0;
        for (i32 i = 0; i < 40 && net.leaves.empty(); ++i) {
            CHECK(net.server.send_message(To::all(), Chat{{}, std::string(600, 'x')}) == Error::none);
            net.step();
            limits |= net.report->limits;
        }
        CHECK((limits & limit_typed_backlog) != 0);
        CHECK(net.leaves == std::vector<ClientId>{slow.id});
        CHECK_FALSE(net.server.joined(slow.id));
        CHECK(net.server.joined(fine.id));
        net.steps(3);
        CHECK(fine.ear.heard.size() == net.typed.sent);
    }

    TEST_CASE("the arena of a tick has a named limit") {
        MessageWorldOptions options;
        options.server.typed_tick_bytes_max = 20'000;
        MessageWorld net(options);
        auto& peer = net.join();
        u32 sent = 0;
        while (sent < 1000 && net.server.send_message(To::all(), Hit{{}, 1}) == Error::none)
            ++sent;
        CHECK(sent < 1000);
        CHECK(net.server.send_message(To::all(), Hit{{}, 1}) == Error::limit_reached);
        net.step();
        CHECK(net.server.send_message(To::all(), Hit{{}, 1}) == Error::none);
        net.step();
        CHECK(peer.ear.count("hit") == sent + 1);
    }

    TEST_CASE("late and early: who has not joined gets independent messages only, who came later none of before") {
        MessageWorld net;
        auto& peer = net.connect();
        net.server_step(); // connected, no hello yet
        CHECK(net.server.send_message(To::client(peer.id), Hit{{}, 1}) == Error::no_connection);
        CHECK(net.server.send_message(To::client(peer.id), Alarm{{}, 2}) == Error::none);
        CHECK(net.server.send_message(To::all(), Hit{{}, 3}) == Error::none);
        CHECK(net.server.send_message(To::all(), Alarm{{}, 4}) == Error::none);
        net.server_step();
        (void)peer.client->receive(net.now_us);
        CHECK_FALSE(peer.client->joined());
        CHECK(peer.ear.values("alarm") == Values{2, 4});
        CHECK(peer.ear.count("hit") == 0);
        // Sent between its hello's departure and arrival: the server knew no such client.
        (void)peer.client->send(net.now_us);
        CHECK(net.server.send_message(To::all(), Hit{{}, 5}) == Error::none);
        auto& later = net.connect();
        CHECK(net.server.send_message(To::all(), Alarm{{}, 6}) == Error::none); // it has not been heard of
        net.joined = [](MessageWorld& w, ClientId id) { CHECK(w.server.send_message(To::client(id), Hit{{}, 7}) == Error::none); };
        net.until([&] { return later.client->joined(); });
        net.steps(2);
        CHECK(peer.ear.values("hit") == Values{7});
        CHECK(later.ear.values("hit") == Values{7});
        CHECK(later.ear.count("alarm") == 0);
        CHECK(peer.ear.values("alarm") == Values{2, 4, 6});
    }

    TEST_CASE("independent messages before the welcome are dropped by a client of another protocol") {
        MessageWorld net;
        Protocol other;
        other.message<Alarm>("something", {.independent = true});
        REQUIRE(other.finish() == Error::none);
        World world;
        const ClientId id = net.network.connect();
        Client client(world, other, net.network.client(id));
        net.server_step();
        CHECK(net.server.send_message(To::client(id), Alarm{{}, 1}) == Error::none);
        net.server_step();
        CHECK(client.receive(net.now_us) == Error::none);
        CHECK(client.stats().typed.wrong_protocol == 1);
        CHECK(client.stats().typed.received == 0);
    }

    TEST_CASE("reliable messages that overtake the welcome wait for it") {
        MessageWorld net;
        const ScriptStep late[] = {{.packet = 0, .action = ScriptAction::delay, .value = 300'000}};
        auto& peer = net.connect({.script = late}, {});
        net.joined = [](MessageWorld& w, ClientId) {
            CHECK(w.server.send_message(To::all(), Rumour{{}, 1}) == Error::none);
            CHECK(w.server.send_message(To::all(), Spark{{}, 2}) == Error::none);
        };
        net.steps(4);
        REQUIRE(net.server.joined(peer.id));
        CHECK_FALSE(peer.client->joined());
        CHECK(peer.ear.heard.empty());
        net.steps(6);
        CHECK(peer.client->joined());
        CHECK(peer.ear.values("rumour") == Values{1});
        CHECK(peer.ear.values("spark") == Values{2});
    }

    TEST_CASE("clients name what they see; anything else is dropped and counted") {
        MessageWorld net;
        auto& peer = net.join();
        auto& other = net.join();
        const Entity seen = net.spawn(), hidden = net.spawn(), dies = net.spawn();
        net.steps(3);
        const Entity shown = net.shown(peer, seen), was_shown = net.shown(peer, hidden), dying = net.shown(peer, dies);
        REQUIRE(peer.world.alive(was_shown));
        CHECK(peer.client->send_message(Attack{shown, 1}) == Error::none);
        CHECK(peer.client->send_message(Attack{{}, 2}) == Error::none);
        CHECK(peer.client->send_message(Attack{was_shown, 3}) == Error::none);
        CHECK(peer.client->send_message(Attack{dying, 4}) == Error::none);
        CHECK(peer.client->send_message(Attack{peer.world.spawn(), 5}) == Error::bad_value); // the client's own
        CHECK(peer.client->send_message(Attack{Entity{1234567, 0, 0}, 6}) == Error::bad_value);
        CHECK(other.client->send_message(Attack{net.shown(other, seen), 7}) == Error::none);
        CHECK(peer.client->send(net.now_us) == Error::none);
        CHECK(other.client->send(net.now_us) == Error::none);
        net.server.view(peer.id).hide(hidden);
        net.world.destroy(dies);
        net.server.tick(net.now_us); // as of this tick they are out of sight
        net.step();
        CHECK(net.ear.values("attack") == Values{1, 2, 7});
        CHECK(net.ear.heard[0].entity == seen);
        CHECK(net.ear.heard[0].sender.client == peer.id);
        CHECK(net.ear.heard[0].sender.origin == Sender::Origin::client);
        CHECK(net.ear.heard[2].sender.client == other.id);
        CHECK(net.report->typed.received == 3);
        CHECK(net.report->typed.unseen_references == 1);
        CHECK(net.report->typed.dead_references == 1);
        CHECK(net.report->malformed_messages == 0);
    }

    TEST_CASE("a flood is cut at a named count") {
        MessageWorldOptions options;
        options.server.typed_receive_max = 10;
        MessageWorld net(options);
        auto& peer = net.join();
        for (i32 i = 0; i < 25; ++i)
            CHECK(peer.client->send_message(Attack{{}, i}) == Error::none);
        net.step(); // the client sends
        net.step();
        CHECK(net.ear.count("attack") == 10);
        CHECK(net.report->typed.flooded == 15);
        CHECK((net.report->limits & limit_typed_receive) != 0);
        CHECK(peer.client->send_message(Attack{{}, 99}) == Error::none);
        net.steps(2);
        CHECK(net.ear.values("attack").back() == 99);
    }

    TEST_CASE("what a client sends is queued within a named limit, in order, and dropped with the connection") {
        MessageWorldOptions options;
        options.network.ordered.queue_messages_max = 1;
        options.client.typed_outgoing_bytes_max = 2000;
        MessageWorld net(options);
        auto& peer = net.join();
        const Blackout dark[] = {{.from_us = net.now_us, .until_us = net.now_us + 1'000'000}};
        net.network.set_link(peer.id, Direction::up, {.blackouts = dark});
        CHECK(peer.client->send_message(Attack{{}, 0}) == Error::none);
        net.step(); // fills the backend's queue
        i32 next = 1;
        while (peer.client->send_message(Attack{{}, next}) == Error::none)
            ++next;
        CHECK(next > 100);
        CHECK(peer.client->send_message(Attack{{}, 0}) == Error::limit_reached);
        net.step();
        CHECK(net.client_errors > 0); // send says that something was refused
        CHECK(net.until([&] { return net.ear.count("attack") == static_cast<u32>(next); }));
        Values expected;
        for (i64 i = 0; i < next; ++i)
            expected.push_back(i);
        CHECK(net.ear.values("attack") == expected);
        // Unsent with the connection's end: gone and counted, not for the next session.
        CHECK(peer.client->send_message(Attack{{}, 5}) == Error::none);
        net.server.disconnect(peer.id);
        (void)peer.client->receive(net.now_us);
        CHECK(peer.client->send_message(Attack{{}, 6}) == Error::no_connection);
        CHECK(peer.client->stats().typed.dropped_disconnect == 1);
        CHECK(net.ear.count("attack") == static_cast<u32>(next));
    }

    TEST_CASE("disconnect after a flush: what was said before arrives, what is said after does not") {
        MessageWorldOptions options;
        options.link = {.loss_percent = 20, .delay_us = 20'000};
        MessageWorld net(options);
        auto& peer = net.join();
        auto& other = net.join();
        const ClientId id = peer.id;
        const Entity e = net.spawn();
        CHECK(net.server.send_message(To::client(id), Chat{{}, "kicked"}) == Error::none);
        net.server.disconnect_after_flush(id);
        net.server.disconnect_after_flush(id); // once is enough
        CHECK(net.server.send_message(To::client(id), Chat{{}, "more"}) == Error::no_connection);
        CHECK(net.server.send_message(To::all(), Hit{e, 1}) == Error::none);
        CHECK(net.server.joined(id));
        net.steps(Server::closing_ticks);
        CHECK(peer.ear.count("chat kicked") == 1);
        CHECK(peer.world.alive(net.shown(peer, e))); // the last state too
        CHECK(net.server.joined(id));
        net.steps(2);
        CHECK_FALSE(net.server.joined(id));
        CHECK_FALSE(peer.client->connected());
        CHECK(net.leaves.empty());
        CHECK(peer.ear.heard.size() == 1);
        CHECK(other.ear.values("hit") == Values{1});
    }

    TEST_CASE("a handler may disconnect its client") {
        static MessageWorld* world = nullptr;
        MessageWorld net;
        world = &net;
        auto& peer = net.join();
        const MessageHandler kick = handler<Attack>([](void*, const Attack& attack, const Sender& sender) {
            world->ear.handle(attack, sender);
            world->server.disconnect(sender.client);
        });
        REQUIRE(net.server.set_handlers({&kick, 1}) == Error::none);
        for (i32 i = 0; i < 3; ++i)
            CHECK(peer.client->send_message(Attack{{}, i}) == Error::none);
        net.steps(2);
        CHECK(net.ear.values("attack") == Values{0});
        CHECK_FALSE(net.server.joined(peer.id));
        net.steps(2);
        CHECK_FALSE(peer.client->connected());
    }

    TEST_CASE("a message that its function refuses is dropped alone") {
        MessageWorld net;
        auto& peer = net.join();
        for (const char* text : {"a", "!", "b"}) {
            CHECK(net.server.send_message(To::all(), Chat{{}, text}) == Error::none);
            CHECK(peer.client->send_message(Chat{{}, text}) == Error::none);
        }
        net.steps(2);
        CHECK(net.ear.count("chat a") + net.ear.count("chat b") == 2);
        CHECK(net.ear.heard.size() == 2);
        CHECK(peer.ear.heard.size() == 2);
        CHECK(peer.client->stats().malformed[static_cast<u32>(Error::bad_value)] == 1);
        CHECK(net.report->malformed_messages == 1);
    }

    TEST_CASE("the wrong way, or without a handler") {
        MessageWorld net;
        auto& peer = net.join();
        CHECK(net.server.send_message(To::all(), Attack{}) == Error::bad_value);
        CHECK(peer.client->send_message(Hit{}) == Error::bad_value);
        World world;
        const ClientId id = net.network.connect();
        Client mute(world, *net.protocol, net.network.client(id));
        CHECK(std::string(mute.missing_handler()) == "hit");
        for (int i = 0; i < 4; ++i) {
            net.step();
            CHECK(mute.receive(net.now_us) == Error::none);
            CHECK(mute.send(net.now_us) == Error::none);
        }
        CHECK(net.server.send_message(To::client(id), Hit{}) == Error::none);
        net.step();
        CHECK(mute.receive(net.now_us) == Error::none);
        CHECK(mute.stats().typed.unhandled == 1);
    }

    TEST_CASE("the same bytes for any number of workers") {
        const auto run = [](Executor* executor) {
            OutputHash hash;
            MessageWorldOptions options;
            options.server.executor = executor;
            options.network.trace = hash.hook();
            options.network.ordered.queue_messages_max = 3;
            options.link = {.loss_percent = 10, .delay_us = 60'000, .jitter_us = 50'000};
            MessageWorld net(options);
            std::vector<Entity> entities;
            for (int i = 0; i < 40; ++i)
                entities.push_back(net.world.spawn(Place{float(i) * 10, 0}, Replicated{}));
            for (int i = 0; i < 24; ++i)
                net.connect();
            net.steps(10);
            for (auto& peer : net.peers)
                if (net.server.joined(peer->id))
                    net.server.view(peer->id).look_at(double(peer->id) * 16, 0, {.radius = 80});
            const GroupId group = net.server.make_group();
            for (ClientId id = 0; id < 24; id += 3)
                net.server.add_to_group(group, id);
            u32 heard = 0;
            for (i32 t = 0; t < 40; ++t) {
                for (i32 i = 0; i < 10; ++i) {
                    const Entity e = entities[static_cast<u32>(t * 7 + i * 3) % entities.size()];
                    (void)net.server.send_message(To::observers(e), Hit{e, i});
                    (void)net.server.send_message(To::group(group), Chat{e, std::string(static_cast<u32>(i) * 20, 'c')});
                    (void)net.server.send_message(To::all_except(static_cast<ClientId>(i)), Spark{e, t});
                    (void)net.server.send_message(To::client(static_cast<ClientId>(t % 24)), Rumour{e, t});
                }
                if (t % 5 == 0) {
                    net.world.destroy(entities.back());
                    entities.pop_back();
                }
                net.step();
            }
            for (auto& peer : net.peers)
                heard += static_cast<u32>(peer->ear.heard.size());
            return std::pair(hash, heard);
        };
        const auto serial = run(nullptr);
        CHECK(serial.second > 1000);
        for (const u32 workers : {2u, 4u}) {
            const ExecutorHandle threads = make_threads_executor(workers);
            CHECK(run(threads.get()) == serial);
        }
    }

    TEST_CASE("no allocation in steady state, and nothing where nothing is sent" * doctest::skip(!tests::counts_allocations)) {
        MessageWorld net;
        std::vector<MessageWorld::Peer*> peers;
        for (int i = 0; i < 4; ++i)
            peers.push_back(&net.join());
        const Entity e = net.spawn();
        const auto quiet = handler<Hit>([](void* context, const Hit&, const Sender&) { ++*static_cast<u32*>(context); });
        u32 heard = 0;
        const auto quiet_attack =
            handler<Attack>([](void* context, const Attack&, const Sender&) { ++*static_cast<u32*>(context); }, &heard);
        MessageHandler to_client = quiet;
        to_client.context = &heard;
        for (auto* peer : peers)
            REQUIRE(peer->client->set_handlers({&to_client, 1}) == Error::none);
        REQUIRE(net.server.set_handlers({&quiet_attack, 1}) == Error::none);
        const auto round = [&] {
            for (i32 i = 0; i < 20; ++i) {
                (void)net.server.send_message(To::all(), Hit{e, i});
                (void)net.server.send_message(To::observers(e), Hit{e, i});
                (void)net.server.send_message(To::client(peers[1]->id), Hit{e, i});
            }
            for (auto* peer : peers)
                (void)peer->client->send_message(Attack{net.shown(*peer, e), 1});
            net.step();
        };
        for (int i = 0; i < 50; ++i)
            round();
        heard = 0;
        const u64 before = tests::allocation_count();
        for (int i = 0; i < 50; ++i)
            round();
        CHECK(tests::allocation_count() == before);
        CHECK(heard == 50 * (20 * 9 + 4));
        net.steps(3);
        CHECK(net.report->typed.bytes == 0);
        CHECK(net.report->typed.bundles == 0);
    }
}
