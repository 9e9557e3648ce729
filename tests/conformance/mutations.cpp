// Components of an entity that is shown change.
#include "tests/conformance/rules_support.hpp"

using namespace throng;
using namespace conformance::state;

TEST_CASE("mutations/small_component") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    REQUIRE(net.hp(peer, e) == 1);
    net.world.mut<Health>(e)->hp = 2;
    net.settle();
    CHECK(net.hp(peer, e) == 2);
}

TEST_CASE("mutations/package_size_component") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Name{"short"}, Replicated{});
    net.settle();
    const std::string noise = words(1200, 1);
    net.world.mut<Name>(e)->text = noise; // with what is around it, larger than a packet
    net.settle();
    REQUIRE(net.value<Name>(peer, e));
    CHECK(net.value<Name>(peer, e)->text == noise);
}

TEST_CASE("mutations/many_components") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Link{}, Replicated{});
    net.settle();
    net.world.mut<Health>(e)->hp = 2;
    net.world.mut<Link>(e)->target = e;
    REQUIRE(net.until([&] { return net.hp(peer, e) == 2; }));
    CHECK(net.value<Link>(peer, e)->target == net.shown(peer, e)); // together
}

TEST_CASE("mutations/receive_fns") {
    Ruled r;
    REQUIRE(r.rules.write_if_different<Health>() == Error::none);
    auto& peer = r.join();
    const Entity e = r.net.world.spawn(Health{1, false}, Replicated{});
    r.net.settle();
    const Entity there = r.net.shown(peer, e);
    int changes = 0;
    r.there().on_change<Health>([&](World&, Entity, Health&) { ++changes; });
    const auto marked = [&] {
        return r.there().pool_of(component_id<Health>())->changed(r.there().dense_index(there.entity_idx, component_id<Health>()));
    };
    r.there().mut<Health>(there)->hp = 2; // foreseen
    r.there().clear_changes();
    r.net.world.mut<Health>(e)->hp = 2;
    r.net.settle();
    CHECK(r.net.hp(peer, e) == 2);
    CHECK_FALSE(marked());
    CHECK(changes == 0);
    r.net.world.mut<Health>(e)->hp = 3;
    r.net.settle();
    CHECK(r.net.hp(peer, e) == 3);
    CHECK(marked());
    CHECK(changes == 1);
}

TEST_CASE("mutations/marker_with_replace") {
    Ruled r;
    REQUIRE(r.rules.marker<Local>() == Error::none);
    REQUIRE((r.rules.functions_for<Local, Health>(Ruled::replace, Ruled::drop_replaced)) == Error::none);
    auto& peer = r.join();
    const Entity e = r.net.world.spawn(Health{1, false}, Replicated{});
    r.net.settle();
    r.there().add<Local>(r.net.shown(peer, e));
    r.net.world.mut<Health>(e)->hp = 2;
    r.net.settle();
    REQUIRE(r.replaced(e));
    CHECK(r.replaced(e)->value == 2);
    CHECK(r.net.hp(peer, e) == 1); // as it was before the marker
}

namespace {
/// A client whose entities with Speed write down each Health they are given.
struct WithHistory : Ruled {
    std::vector<int> values;
    Entity e;
    explicit WithHistory(u32 max_late_ticks = 32) {
        REQUIRE(rules.marker<Speed>({.history = true}) == Error::none);
        REQUIRE((rules.functions_for<Speed, Health>(
                    [](const Received& received, const Health& health) {
                        static_cast<std::vector<int>*>(received.context)->push_back(received.older ? -health.hp : health.hp);
                    },
                    nullptr, &values)) == Error::none);
        join(Reason::holds_back, {.ring_versions_max = 64, .max_late_ticks = max_late_ticks});
        e = net.world.spawn(Health{1, false}, Speed{1, 0}, Link{}, Replicated{});
        net.settle();
        REQUIRE(values == std::vector<int>{1});
    }
    /// A message with `late` is so many ticks older than the one with `next`, which comes before it.
    void overtake(u32 ticks, int late, int next) {
        net.script_packets(held->peer, Direction::down, {{.packet = 0, .action = ScriptAction::delay, .value = (ticks + 1) * 50'000}});
        net.world.mut<Health>(e)->hp = late;
        net.steps(int(ticks));
        net.world.mut<Health>(e)->hp = next;
        net.step();
        REQUIRE(values.back() == next);
    }
};
} // namespace

TEST_CASE("mutations/marker_with_history") {
    WithHistory h;
    h.held->gate.closed = true;
    h.held->gate.newest_first = true;
    h.net.world.mut<Health>(h.e)->hp = 2;
    h.net.step();
    h.net.world.mut<Health>(h.e)->hp = 3;
    h.net.steps(2);
    h.held->gate.closed = false;
    h.net.settle();
    CHECK(h.values == std::vector<int>{1, 3, -2}); // the first, the newest, then the older one
}

TEST_CASE("mutations/marker_with_history_consume") {
    WithHistory h;
    auto& peer = h.held->peer;
    h.held->gate.closed = true;
    h.held->gate.newest_first = true;
    const Entity brief = h.net.world.spawn(); // not replicated
    h.net.world.mut<Health>(h.e)->hp = 2;
    h.net.world.mut<Link>(h.e)->target = brief;
    h.net.step();
    h.net.world.mut<Health>(h.e)->hp = 3;
    h.net.world.mut<Link>(h.e)->target = h.e;
    h.net.steps(2);
    h.held->gate.closed = false;
    h.net.settle();
    CHECK(h.values == std::vector<int>{1, 3, -2});
    CHECK(h.net.value<Link>(peer, h.e)->target == h.net.shown(peer, h.e)); // without functions: the newest alone
    CHECK(peer.world->entity_count() == 1);
}

TEST_CASE("mutations/marker_with_history_old_update") {
    for (const u32 ticks : {10u, 63u, 64u, 70u}) {
        WithHistory h(200);
        const u64 old_lanes = h.held->peer.client->stats().old_lanes;
        h.overtake(ticks, 2, 3);
        h.net.settle();
        CHECK(h.held->peer.client->stats().old_lanes == old_lanes + 1); // it did come
        CHECK(h.values.back() == (ticks < 64 ? -2 : 3));
        CHECK(std::count(h.values.begin(), h.values.end(), -2) == (ticks < 64));
    }
}

TEST_CASE("mutations/many_entities") {
    StateNet net;
    auto& peer = net.join();
    std::vector<Entity> all;
    for (int i = 0; i < 300; ++i)
        all.push_back(net.world.spawn(Health{i, false}, Replicated{}));
    net.settle();
    REQUIRE(peer.world->entity_count() == 300);
    const auto changed = [](int i) { return int(u32(i + 1) * 2654435761u >> 1); };
    for (int i = 0; i < 300; ++i)
        net.world.mut<Health>(all[u32(i)])->hp = changed(i);
    CHECK(net.step().messages > 1); // more than one holds
    net.settle();
    int right = 0;
    for (int i = 0; i < 300; ++i)
        right += net.hp(peer, all[u32(i)]) == changed(i);
    CHECK(right == 300);
}

TEST_CASE("mutations/with_insertion") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    net.world.mut<Health>(e)->hp = 2;
    net.world.add<Speed>(e, Speed{2, 0});
    REQUIRE(net.until([&] { return net.hp(peer, e) == 2 || net.value<Speed>(peer, e); }));
    CHECK(net.hp(peer, e) == 2); // the first that comes is both
    CHECK(net.value<Speed>(peer, e));
}

TEST_CASE("mutations/with_removal") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Speed{2, 0}, Replicated{});
    net.settle();
    REQUIRE(net.value<Speed>(peer, e));
    net.world.mut<Health>(e)->hp = 2;
    net.world.remove<Speed>(e);
    REQUIRE(net.until([&] { return net.hp(peer, e) == 2 || !net.value<Speed>(peer, e); }));
    CHECK(net.hp(peer, e) == 2);
    CHECK_FALSE(net.value<Speed>(peer, e));
}

TEST_CASE("mutations/with_despawn") {
    StateNet net;
    HeldBack held(net, Reason::holds_back);
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    const Entity there = net.shown(held.peer, e);
    REQUIRE(held.peer.world->alive(there));
    held.gate.closed = true;
    net.world.mut<Health>(e)->hp = 2;
    net.step();
    net.world.destroy(e);
    net.steps(2);
    CHECK(held.peer.world->alive(there)); // has heard of neither
    held.gate.closed = false;
    net.settle(); // acknowledges both
    CHECK_FALSE(held.peer.world->alive(there));
    CHECK(held.peer.world->entity_count() == 0);
    CHECK(net.state_bytes(5) == 0);
}

TEST_CASE("mutations/buffering") {
    // What comes before the news that it builds on. A change carries all that the client has not acknowledged, so it need not wait for it;
    // where it cannot be read without, it is not applied, and comes again in full.
    StateNet net;
    HeldBack held(net, Reason::holds_back);
    auto& peer = held.peer;
    const auto late = [&](u32 ticks) {
        net.script_packets(peer, Direction::down, {{.packet = 0, .action = ScriptAction::delay, .value = ticks * 50'000 - 25'000}});
    };
    const Entity known = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    const ClientStats before = peer.client->stats();

    late(4); // a spawn; its change comes first
    const Entity e = net.world.spawn(Health{1, true}, Name{"whole"}, Replicated{});
    net.step();
    CHECK_FALSE(net.shown(peer, e));
    net.world.mut<Health>(e)->hp = 2;
    net.world.mut<Health>(known)->hp = 2; // in the same chunk, against a baseline
    net.step();
    REQUIRE(net.shown(peer, e)); // whole, and newest
    CHECK(net.hp(peer, e) == 2);
    CHECK(net.value<Name>(peer, e)->text == "whole");
    CHECK(net.hp(peer, known) == 2);
    net.steps(4); // now the spawn has come
    CHECK(peer.client->stats().old_lanes > before.old_lanes);
    CHECK(peer.client->stats().spawns == before.spawns + 1);
    CHECK(net.hp(peer, e) == 2);

    late(4); // an insertion; its change comes first
    net.world.add<Speed>(e, Speed{1, 0});
    net.step();
    CHECK_FALSE(net.value<Speed>(peer, e));
    net.world.mut<Speed>(e)->x = 2;
    net.step();
    REQUIRE(net.value<Speed>(peer, e));
    CHECK(net.value<Speed>(peer, e)->x == 2);
    net.steps(4);
    CHECK(net.value<Speed>(peer, e)->x == 2);
    CHECK(peer.client->stats().component_inserts == before.component_inserts + 3); // Health, Name, Speed: once each

    late(4); // what a reference names
    const Entity target = net.world.spawn(Place{5, 5}, Replicated{});
    net.server.view(peer.id).look_at(0, 0, {.radius = 60});
    net.step();
    net.world.add<Link>(e, Link{target});
    net.step();
    REQUIRE(net.value<Link>(peer, e));
    CHECK_FALSE(net.value<Link>(peer, e)->target);
    CHECK_FALSE(net.shown(peer, target));
    net.steps(4);
    REQUIRE(net.shown(peer, target));
    CHECK(net.value<Link>(peer, e)->target == net.shown(peer, target));
    net.agree();
}

TEST_CASE("mutations/buffering_of_what_cannot_be_read") {
    StateNet net;
    HeldBack held(net, Reason::holds_back, {.ring_versions_max = 2}); // soon without the baselines of changes
    const Entity e = net.world.spawn(Health{0, false}, Replicated{}), other = net.world.spawn(Health{0, false}, Replicated{});
    net.settle();
    const u64 unapplied = held.peer.client->stats().unapplied_baseline;
    net.script_loss(held.peer, 0, 100);
    int newest = 0;
    for (int tick = 1; tick <= 8; ++tick) { // each is told against what was acknowledged before
        net.world.mut<Health>(tick % 2 ? e : other)->hp = tick;
        net.step();
        const int hp = net.hp(held.peer, e);
        CHECK(hp >= newest); // as it was, or right: nothing between
        CHECK((hp == 0 || hp % 2 == 1));
        CHECK(hp <= tick);
        newest = hp;
    }
    CHECK(held.peer.client->stats().unapplied_baseline > unapplied);
    CHECK(net.hp(held.peer, other) < 8);
    net.script_loss(held.peer, 0, 0);
    net.agree(); // in full
    CHECK(net.hp(held.peer, e) == 7);
    CHECK(net.hp(held.peer, other) == 8);
}

TEST_CASE("mutations/buffering_of_what_comes_before_the_welcome") {
    StateNet net;
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    auto& peer = net.connect();
    net.script_packets(peer, Direction::down, {{.packet = 0, .action = ScriptAction::delay, .value = 175'000}});
    REQUIRE(net.until([&] { return net.server.joined(peer.id); }));
    REQUIRE(net.until([&] { return peer.client->stats().early_drops > 0; }));
    CHECK_FALSE(peer.client->joined());
    CHECK(peer.world->entity_count() == 0);
    net.world.mut<Health>(e)->hp = 2;
    REQUIRE(net.until([&] { return peer.client->joined(); }));
    net.agree();
    CHECK(net.hp(peer, e) == 2);
}

TEST_CASE("mutations/old_ignored") {
    StateNet net;
    HeldBack held(net, Reason::holds_back);
    const Entity e = net.world.spawn(Health{1, false}, Link{}, Replicated{});
    net.settle();
    held.gate.closed = true;
    held.gate.newest_first = true;
    const Entity brief = net.world.spawn();
    net.world.mut<Health>(e)->hp = 2;
    net.world.mut<Link>(e)->target = brief;
    net.step();
    net.world.mut<Health>(e)->hp = 3;
    net.world.mut<Link>(e)->target = e;
    net.steps(2);
    REQUIRE(net.hp(held.peer, e) == 1);
    const u64 old_before = held.peer.client->stats().old_lanes;
    held.gate.closed = false;
    net.settle();
    CHECK(net.hp(held.peer, e) == 3);
    CHECK(net.value<Link>(held.peer, e)->target == net.shown(held.peer, e));
    CHECK(held.peer.client->stats().old_lanes == old_before + 1);
    CHECK(held.peer.world->entity_count() == 1);
}

TEST_CASE("mutations/acknowledgment") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    net.script_loss(peer, 0, 100);
    net.world.mut<Health>(e)->hp = 2;
    CHECK(net.state_bytes(1) > 0);
    net.step();
    CHECK(net.hp(peer, e) == 2);
    CHECK(net.state_bytes(60) > 0); // again, since nobody has said that it arrived
    CHECK_FALSE(net.server.settled(peer.id));
    net.script_loss(peer, 0, 0);
    net.settle();
    CHECK(net.state_bytes(60) == 0);
    CHECK(net.hp(peer, e) == 2);
}

TEST_CASE("mutations/before_acknowledgement") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    net.script_loss(peer, 0, 100);
    net.world.mut<Health>(e)->hp = 2;
    net.steps(2);
    CHECK(net.hp(peer, e) == 2);
    net.world.mut<Health>(e)->hp = 3;
    net.steps(2);
    CHECK(net.hp(peer, e) == 3);
    CHECK_FALSE(net.server.settled(peer.id));
}

TEST_CASE("mutations/confirm_history") {
    StateNet net;
    Told told;
    HeldBack held(net, Reason::counts_ticks, told.config());
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    const Entity there = net.shown(held.peer, e);
    told.carried.clear();
    net.world.mut<Health>(e)->hp = 2;
    net.step();
    const Tick tick = net.server.current_tick();
    net.settle();
    CHECK(held.peer.client->confirm_history(there)->carried(tick));
    CHECK(held.peer.client->confirmed(there, tick));
    CHECK(told.only(there, tick));
}

TEST_CASE("mutations/after_disconnect") {
    StateNet net;
    auto& leaver = net.join();
    auto& expelled = net.join();
    auto& other = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    net.world.mut<Health>(e)->hp = 2;
    net.server_step(); // on its way to all three
    net.network.disconnect(leaver.id);
    net.server.disconnect(expelled.id);
    leaver.left = expelled.left = true;
    net.world.mut<Health>(e)->hp = 3;
    net.settle();
    CHECK_FALSE(net.server.joined(leaver.id));
    CHECK_FALSE(net.server.joined(expelled.id));
    CHECK(net.hp(other, e) == 3);
}

TEST_CASE("mutations/after_pause") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    const Entity there = net.shown(peer, e);
    net.world.remove<Replicated>(e);
    net.world.mut<Health>(e)->hp = 2;
    CHECK(net.state_bytes(5) == 0);
    net.world.mut<Health>(e)->hp = 3;
    CHECK(net.state_bytes(5) == 0);
    CHECK(net.hp(peer, e) == 1);
    net.world.add<Replicated>(e);
    net.agree();
    CHECK(net.hp(peer, e) == 3);
    CHECK(net.shown(peer, e) == there);
}

TEST_CASE("mutations/with_client_despawn") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    const Entity other = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    peer.world->destroy(net.shown(peer, e));
    net.world.mut<Health>(e)->hp = 2;
    net.world.mut<Health>(other)->hp = 3;
    net.settle();
    CHECK(peer.world->entity_count() == 1);
    CHECK_FALSE(net.shown(peer, e));
    CHECK(net.hp(peer, other) == 3);
    net.world.destroy(e);
    net.agree();
}

TEST_CASE("mutations/hidden_entity") {
    StateNet net;
    auto& peer = net.join();
    const Hidden hidden(net, peer);
    const Entity open = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    u64 bytes = 0;
    for (int i = 0; i < 10; ++i) {
        for (const Entity e : hidden.all)
            net.world.mut<Health>(e)->hp = 10 + i;
        bytes += net.state_bytes(1);
    }
    CHECK(bytes == 0);
    CHECK(peer.world->entity_count() == 1 + Hidden::sent);
    for (int i = 0; i < Hidden::sent; ++i)
        CHECK(net.hp(peer, hidden.all[Hidden::unsent + i]) == 1);
    net.world.mut<Health>(open)->hp = 2; // one that is not hidden, to compare
    CHECK(net.state_bytes(1) > 0);
}

TEST_CASE("mutations/once") {
    StateNet net = make_net([](Protocol& p) { health(p).once(); });
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{7, false}, Replicated{});
    net.settle();
    net.world.mut<Health>(e)->hp = 8;
    CHECK(net.state_bytes(20) == 0);
    CHECK(net.hp(peer, e) == 7);
    auto& late = net.join();
    net.settle();
    CHECK(net.hp(late, e) == 7);
    net.world.remove<Health>(e);
    net.settle();
    CHECK(net.hp(peer, e) == -1);
    CHECK(net.hp(late, e) == -1);
}

TEST_CASE("mutations/filtered") {
    StateNet net = make_net([](Protocol& p) { health(p).when(without<Asleep>); });
    auto& peer = net.join();
    const Entity awake = net.world.spawn(Health{1, false}, Replicated{});
    const Entity asleep = net.world.spawn(Health{1, false}, Asleep{}, Replicated{});
    net.agree();
    net.world.mut<Health>(awake)->hp = 2;
    net.world.mut<Health>(asleep)->hp = 2;
    net.agree();
    CHECK(net.hp(peer, awake) == 2);
    CHECK(peer.world->alive(net.shown(peer, asleep)));
    CHECK(net.hp(peer, asleep) == -1);
}

TEST_CASE("mutations/resource") {
    StateNet net = make_net([](Protocol& p) { weather(p); });
    auto& peer = net.join();
    net.world.resources().emplace<Weather>(Weather{7, {}});
    net.agree();
    const u32 version = peer.world->resources().version<Weather>();
    net.world.resources().mut<Weather>()->wind = 8;
    net.agree();
    CHECK(wind(peer) == 8);
    CHECK(peer.world->resources().version<Weather>() != version);
    net.world.resources().mut<Weather>(); // and nothing
    CHECK(net.state_bytes(10) == 0);
}

TEST_CASE("mutations/hidden_component") {
    StateNet net;
    auto& peer = net.join();
    const HiddenComponents hidden(net);
    net.settle();
    for (int i = 0; i < 40; ++i) { // beyond what the server keeps of the past
        hidden.set(net, 2 + i, i % 2 ? "b" : "bb");
        CHECK(net.state_bytes(1) == 0);
    }
    net.world.mut<Speed>(hidden.of[1])->x = 2;
    net.agree();
    CHECK(net.value<Speed>(peer, hidden.of[1])->x == 2);
    CHECK(hidden.shown(net, peer) == "-- -- 1a ");
    net.server.view(peer.id).set_layers(2);
    net.agree();
    net.server.view(peer.id).set_layers(0); // now it has two of them
    net.agree();
    CHECK(hidden.shown(net, peer) == "-- 41b 41b ");
    for (int i = 0; i < 40; ++i) {
        hidden.set(net, 2 + i, "c");
        CHECK(net.state_bytes(1) == 0);
    }
    net.world.mut<Speed>(hidden.of[2])->x = 2;
    net.agree();
    CHECK(hidden.shown(net, peer) == "-- 41b 41b ");
}
