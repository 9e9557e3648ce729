// An entity that is shown gets components.
#include "tests/conformance/rules_support.hpp"

using namespace throng;
using namespace conformance::state;

namespace {
struct Motto {
    using immutable = void;
    std::string text;
};
u32 write_motto(const void* object, std::span<std::byte> out) {
    const Name name{static_cast<const Motto*>(object)->text};
    return throng_test::write_name(&name, out);
}
Error read_motto(void* object, std::span<const std::byte> in) {
    static_cast<Motto*>(object)->text.assign(reinterpret_cast<const char*>(in.data()), in.size());
    return Error::none;
}
} // namespace

TEST_CASE("insertion/table_storage") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Replicated{});
    net.settle();
    const Entity there = net.shown(peer, e);
    REQUIRE(peer.world->alive(there));
    REQUIRE_FALSE(peer.world->has<Health>(there));
    net.world.add<Health>(e, Health{7, false});
    net.settle();
    CHECK(net.hp(peer, e) == 7);
    CHECK(net.shown(peer, e) == there);
}

TEST_CASE("insertion/mapped_existing_entity") {
    StateNet net;
    auto& peer = net.join();
    const Entity target = net.world.spawn(Replicated{});
    const Entity e = net.world.spawn(Replicated{});
    net.settle();
    net.world.add<Link>(e, Link{target});
    net.settle();
    REQUIRE(net.value<Link>(peer, e));
    CHECK(net.value<Link>(peer, e)->target == net.shown(peer, target));
    CHECK(peer.world->alive(net.value<Link>(peer, e)->target));
}

TEST_CASE("insertion/mapped_new_entity") {
    StateNet net;
    auto& peer = net.join();
    const Entity target = net.world.spawn(Health{9, false});
    const Entity e = net.world.spawn(Replicated{});
    net.settle();
    net.world.add<Link>(e, Link{target});
    net.settle();
    REQUIRE(net.value<Link>(peer, e));
    CHECK_FALSE(net.value<Link>(peer, e)->target);
    CHECK(peer.world->entity_count() == 1);
    net.world.add<Replicated>(target);
    net.settle();
    CHECK(net.hp(peer, target) == 9);
    CHECK(net.value<Link>(peer, e)->target == net.shown(peer, target));
}

TEST_CASE("insertion/multiple_components") {
    StateNet net;
    HeldBack held(net);
    const Entity e = net.world.spawn(Replicated{});
    net.settle();
    const u64 moves = held.peer.client->stats().structural_moves, single_inserts = held.peer.world->index_insert_count();
    int hooks = 0;
    held.peer.world->on_add<Health>([&](World& w, Entity there, Health&) { hooks += w.has<Speed>(there); });
    held.peer.world->on_add<Speed>([&](World& w, Entity there, Speed&) { hooks += w.has<Health>(there); });
    net.world.add<Health>(e, Health{7, false});
    net.world.add<Speed>(e, Speed{2, 0});
    net.settle();
    CHECK(net.hp(held.peer, e) == 7);
    CHECK(net.value<Speed>(held.peer, e));
    CHECK(held.peer.client->stats().structural_moves == moves + 1);
    CHECK(held.peer.world->index_insert_count() == single_inserts);
    CHECK(hooks == 2);
}

TEST_CASE("insertion/multiple_components_sequential") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Replicated{});
    net.settle();
    net.world.add<Health>(e, Health{7, false});
    net.settle();
    CHECK(net.hp(peer, e) == 7);
    CHECK_FALSE(net.value<Speed>(peer, e));
    net.world.add<Speed>(e, Speed{2, 0});
    net.settle();
    CHECK(net.hp(peer, e) == 7);
    REQUIRE(net.value<Speed>(peer, e));
    CHECK(net.value<Speed>(peer, e)->x == doctest::Approx(2).epsilon(0.01));
}

TEST_CASE("insertion/receive_fns") {
    Ruled r;
    REQUIRE(r.rules.functions<Health>(Ruled::replace, Ruled::drop_replaced) == Error::none);
    auto& peer = r.join();
    const Entity e = r.net.world.spawn(Replicated{});
    r.net.settle();
    r.net.world.add<Health>(e, Health{7, false});
    r.net.settle();
    CHECK_FALSE(r.net.value<Health>(peer, e));
    REQUIRE(r.replaced(e));
    CHECK(r.replaced(e)->value == 7);
}

TEST_CASE("insertion/marker") {
    Ruled r;
    REQUIRE(r.rules.marker<Local>() == Error::none);
    REQUIRE((r.rules.functions_for<Local, Health>(Ruled::replace, Ruled::drop_replaced)) == Error::none);
    auto& peer = r.join();
    const Entity marked = r.net.world.spawn(Replicated{}), other = r.net.world.spawn(Replicated{});
    r.net.settle();
    r.there().add<Local>(r.net.shown(peer, marked));
    r.net.world.add<Health>(marked, Health{7, false});
    r.net.world.add<Health>(other, Health{8, false});
    r.net.settle();
    CHECK_FALSE(r.net.value<Health>(peer, marked));
    REQUIRE(r.replaced(marked));
    CHECK(r.replaced(marked)->value == 7);
    CHECK(r.net.hp(peer, other) == 8);
    CHECK_FALSE(r.replaced(other));
}

TEST_CASE("insertion/marker_from_same_update") {
    Ruled r;
    REQUIRE(r.rules.marker<Speed>() == Error::none); // replicated, and registered after what it is a marker for
    REQUIRE((r.rules.functions_for<Speed, Health>(Ruled::replace, Ruled::drop_replaced)) == Error::none);
    auto& peer = r.join();
    const Entity e = r.net.world.spawn(Replicated{});
    r.net.settle();
    r.net.world.add<Health>(e, Health{7, false});
    r.net.world.add<Speed>(e, Speed{2, 0});
    r.net.settle();
    CHECK(r.net.value<Speed>(peer, e));
    CHECK_FALSE(r.net.value<Health>(peer, e));
    REQUIRE(r.replaced(e));
    CHECK(r.replaced(e)->value == 7);
    const Entity f = r.net.world.spawn(Health{9, false}, Speed{2, 0}, Replicated{}); // spawned with it
    r.net.settle();
    CHECK_FALSE(r.net.value<Health>(peer, f));
    REQUIRE(r.replaced(f));
    CHECK(r.replaced(f)->value == 9);
}

TEST_CASE("insertion/after_pause") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    const Entity there = net.shown(peer, e);
    net.world.remove<Replicated>(e);
    net.world.add<Speed>(e, Speed{1, 0});
    CHECK(net.state_bytes(10) == 0);
    CHECK_FALSE(net.value<Speed>(peer, e));
    net.world.add<Replicated>(e);
    net.agree();
    CHECK(net.shown(peer, e) == there);
    REQUIRE(net.value<Speed>(peer, e));
    CHECK(net.value<Speed>(peer, e)->x == doctest::Approx(1));
}

TEST_CASE("insertion/with_client_despawn") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    const NetId id = net.server.net_id(e);
    peer.world->destroy(net.shown(peer, e));
    CHECK_FALSE(peer.client->entity(id));
    net.world.add<Speed>(e, Speed{1, 0});
    net.settle();
    CHECK(peer.world->entity_count() == 0); // no half an entity
    net.server.view(peer.id).hide(e);
    net.settle();
    net.server.view(peer.id).show(e);
    net.agree(); // shown anew, and whole
    CHECK(net.hp(peer, e) == 1);
    CHECK(net.value<Speed>(peer, e));
}

TEST_CASE("insertion/not_replicated") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Replicated{});
    net.settle();
    net.world.add<Local>(e, Local{1});
    CHECK(net.state_bytes(10) == 0);
    CHECK(peer.world->alive(net.shown(peer, e)));
    CHECK_FALSE(net.value<Local>(peer, e));
}

TEST_CASE("insertion/after_removal") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    int removals = 0;
    peer.world->on_remove<Health>([&](World&, Entity, Health&) { ++removals; });
    net.world.remove<Health>(e);
    net.world.add<Health>(e, Health{2, false});
    net.settle();
    CHECK(net.hp(peer, e) == 2);
    CHECK(removals == 1);
}

TEST_CASE("insertion/confirm_history") {
    StateNet net;
    Told told;
    HeldBack held(net, Reason::counts_ticks, told.config());
    const Entity e = net.world.spawn(Replicated{});
    net.settle();
    const Entity there = net.shown(held.peer, e);
    REQUIRE(held.peer.client->confirm_history(there));
    told.carried.clear();
    net.world.add<Health>(e, Health{7, false});
    net.step();
    const Tick tick = net.server.current_tick();
    net.settle();
    CHECK(held.peer.client->confirm_history(there)->carried(tick));
    CHECK(held.peer.client->confirmed(there, tick));
    CHECK(told.only(there, tick));
}

TEST_CASE("insertion/hidden_entity") {
    StateNet net;
    auto& peer = net.join();
    const Hidden hidden(net, peer);
    net.settle();
    for (const Entity e : hidden.all)
        net.world.add<Name>(e, Name{"secret"});
    CHECK(net.state_bytes(10) == 0);
    CHECK(peer.world->entity_count() == Hidden::sent);
    for (int i = 0; i < Hidden::sent; ++i)
        CHECK_FALSE(net.value<Name>(peer, hidden.all[Hidden::unsent + i]));
}

TEST_CASE("insertion/sparse_set_storage") {
    StateNet net = make_net([](Protocol& p) { p.component<Indexed>("indexed").field(&Indexed::value); });
    auto& peer = net.join();
    const Entity e = net.world.spawn(Replicated{});
    net.settle();
    net.world.add<Indexed>(e, Indexed{7});
    net.agree();
    REQUIRE(net.value<Indexed>(peer, e));
    CHECK(net.value<Indexed>(peer, e)->value == 7);
}

TEST_CASE("insertion/group") {
    StateNet net = make_net([](Protocol& p) {
        health(p), speed(p);
        p.bundle<Health, Speed>();
    });
    auto& peer = net.join();
    const Entity e = net.world.spawn(Replicated{});
    net.agree();
    net.world.add<Health>(e, Health{7, false});
    net.world.add<Speed>(e, Speed{2, 0});
    net.agree();
    CHECK(net.hp(peer, e) == 7);
    CHECK(net.value<Speed>(peer, e));
}

TEST_CASE("insertion/rule_split_across_ticks") {
    StateNet net = make_net([](Protocol& p) {
        health(p), speed(p);
        p.bundle<Health, Speed>();
    });
    auto& peer = net.join();
    const Entity e = net.world.spawn(Replicated{});
    net.agree();
    net.world.add<Health>(e, Health{7, false});
    CHECK(net.state_bytes(10) == 0);
    CHECK_FALSE(net.value<Health>(peer, e));
    net.world.add<Speed>(e, Speed{2, 0});
    net.agree();
    CHECK(net.hp(peer, e) == 7);
    CHECK(net.value<Speed>(peer, e));
}

TEST_CASE("insertion/immutable") {
    StateNet net = make_net([](Protocol& p) {
        p.component<Team>("team").field(&Team::number);
        p.component<Team>("team in tens").field(&Team::number, Range{-1000, 1000, 10}).when(with<Important>);
    });
    HeldBack held(net, Reason::holds_back);
    std::vector<int> seen; // added: positive, removed: negative
    held.peer.world->on_add<Team>([&](World&, Entity, const Team& team) { seen.push_back(team.number); });
    held.peer.world->on_remove<Team>([&](World&, Entity, const Team& team) { seen.push_back(-team.number); });
    held.peer.world->on_change<Team>([&](World&, Entity, const Team&) { seen.push_back(0); });
    const Entity e = net.world.spawn(Replicated{});
    net.settle();
    net.world.add<Team>(e, Team{1});
    net.agree();
    net.world.set(e, Team{2});
    net.agree();
    CHECK(net.value<Team>(held.peer, e)->number == 2);
    CHECK(seen == std::vector<int>{1, -1, 2});
    held.gate.closed = true; // four that it hears of at once: the insert counter is where it was
    for (const int number : {3, 4, 5, 16}) {
        net.world.set(e, Team{number});
        net.step();
    }
    held.gate.closed = false;
    held.gate.newest_first = true;
    net.agree();
    CHECK(net.value<Team>(held.peer, e)->number == 16);
    CHECK(seen == std::vector<int>{1, -1, 2, -2, 16});
    net.world.add<Important>(e); // another name: another value, and so another component
    net.agree();
    CHECK(net.value<Team>(held.peer, e)->number == 20);
    CHECK(seen == std::vector<int>{1, -1, 2, -2, 16, -16, 20});
    CHECK(net.state_bytes(10) == 0);
}

TEST_CASE("insertion/immutable_with_functions") {
    StateNet net = make_net([](Protocol& p) { p.opaque<Motto>("motto", 100, write_motto, read_motto); });
    HeldBack held(net, Reason::holds_back);
    std::vector<std::string> seen;
    held.peer.world->on_add<Motto>([&](World&, Entity, const Motto& motto) { seen.push_back("+" + motto.text); });
    held.peer.world->on_remove<Motto>([&](World&, Entity, const Motto& motto) { seen.push_back("-" + motto.text); });
    held.peer.world->on_change<Motto>([&](World&, Entity, const Motto& motto) { seen.push_back("=" + motto.text); });
    const Entity e = net.world.spawn(Motto{"a"}, Replicated{});
    net.agree();
    held.gate.closed = true;
    for (const char* text : {"b", "c", "d", "e"}) {
        net.world.set(e, Motto{text});
        net.step();
    }
    held.gate.closed = false;
    held.gate.newest_first = true;
    net.agree();
    CHECK(net.value<Motto>(held.peer, e)->text == "e");
    CHECK(seen == std::vector<std::string>{"+a", "-a", "+e"});
}

TEST_CASE("insertion/hidden_component") { // on entities that are shown already: of no lifetime
    StateNet net;
    auto& peer = net.join();
    const HiddenComponents hidden(net, false);
    net.settle();
    for (const Entity e : hidden.of) {
        net.world.add<Health>(e, Health{7, false});
        net.world.add<Name>(e, Name{"secret"});
    }
    CHECK(net.state_bytes(10) == 0);
    CHECK(hidden.shown(net, peer) == "-- -- -- ");
    for (const Entity e : hidden.of)
        CHECK(net.value<Speed>(peer, e));
    net.agree();
}

TEST_CASE("insertion/hidden_all_except") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(ScopedTo(Scope::all_except<Health>(), {.any_of = 2}), Replicated{});
    net.settle();
    net.world.add<Health>(e, Health{7, false});
    net.world.add<Speed>(e, Speed{1, 0});
    net.agree();
    CHECK(net.hp(peer, e) == 7);
    CHECK_FALSE(net.value<Speed>(peer, e));
}

TEST_CASE("insertion/visibility_gain") {
    StateNet net;
    auto& peer = net.join();
    const HiddenComponents hidden(net);
    net.agree();
    CHECK(hidden.shown(net, peer) == "-- -- 1a ");
    for (const Entity e : hidden.of)
        CHECK(net.value<Speed>(peer, e));
    hidden.set(net, 8, "b"); // not told, and right when it comes
    CHECK(net.state_bytes(10) == 0);
    CHECK(hidden.shown(net, peer) == "-- -- 1a ");
    net.server.view(peer.id).set_layers(2);
    net.agree();
    CHECK(hidden.shown(net, peer) == "8b 8b 8b ");
    CHECK(peer.client->stats().spawns == 3);
    hidden.set(net, 9, "c"); // and goes on
    net.agree();
    CHECK(hidden.shown(net, peer) == "9c 9c 9c ");
}
