// An entity that is shown loses components.
#include "tests/conformance/rules_support.hpp"

using namespace throng;
using namespace conformance::state;

TEST_CASE("removal/single") {
    Ruled r;
    REQUIRE((r.rules.require<Health, Local>()) == Error::none);
    auto& peer = r.join();
    const Entity e = r.net.world.spawn(Health{1, false}, Speed{2, 0}, Replicated{});
    r.net.settle();
    REQUIRE(r.net.value<Health>(peer, e));
    REQUIRE(r.net.value<Local>(peer, e)); // came along
    r.net.world.remove<Health>(e);
    r.net.settle();
    REQUIRE(peer.world->alive(r.net.shown(peer, e)));
    CHECK_FALSE(r.net.value<Health>(peer, e));
    CHECK(r.net.value<Local>(peer, e)); // stays
    CHECK(r.net.value<Speed>(peer, e));
}

TEST_CASE("removal/receive_fns") {
    Ruled r;
    REQUIRE((r.rules.require<Health, Local>(ReceiveRules::OnRemoval::remove)) == Error::none);
    auto& peer = r.join();
    const Entity e = r.net.world.spawn(Health{1, false}, Speed{2, 0}, Replicated{});
    r.net.settle();
    REQUIRE(r.net.value<Local>(peer, e));
    const u64 moves = peer.client->stats().structural_moves;
    r.net.world.remove<Health>(e);
    r.net.settle();
    CHECK_FALSE(r.net.value<Health>(peer, e));
    CHECK_FALSE(r.net.value<Local>(peer, e));
    CHECK(r.net.value<Speed>(peer, e));
    CHECK(peer.client->stats().structural_moves == moves + 1);
}

TEST_CASE("removal/marker") {
    Ruled r;
    REQUIRE(r.rules.marker<Local>() == Error::none);
    REQUIRE((r.rules.functions_for<Local, Health>(nullptr, [](const Received& received) {
        received.world.remove<Health>(received.entity);
        received.world.remove<Replaced>(received.entity);
    })) == Error::none);
    auto& peer = r.join();
    const Entity marked = r.net.world.spawn(Health{1, false}, Replicated{}), other = r.net.world.spawn(Health{1, false}, Replicated{});
    r.net.settle();
    for (const Entity e : {marked, other})
        r.there().add<Replaced>(r.net.shown(peer, e));
    r.there().add<Local>(r.net.shown(peer, marked));
    r.net.world.remove<Health>(marked);
    r.net.world.remove<Health>(other);
    r.net.settle();
    CHECK_FALSE(r.net.value<Health>(peer, marked));
    CHECK_FALSE(r.replaced(marked));
    CHECK_FALSE(r.net.value<Health>(peer, other));
    CHECK(r.replaced(other));
}

TEST_CASE("removal/multiple") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Speed{2, 0}, Replicated{});
    net.settle();
    REQUIRE(net.value<Speed>(peer, e));
    const u64 moves = peer.client->stats().structural_moves;
    net.world.remove<Health>(e);
    net.world.remove<Speed>(e);
    REQUIRE(net.until([&] { return !net.value<Health>(peer, e) || !net.value<Speed>(peer, e); }));
    CHECK_FALSE(net.value<Health>(peer, e)); // both at a time
    CHECK_FALSE(net.value<Speed>(peer, e));
    CHECK(peer.world->alive(net.shown(peer, e)));
    CHECK(peer.client->stats().structural_moves == moves + 1);
}

TEST_CASE("removal/not_replicated") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Local{1}, Replicated{});
    net.settle();
    peer.world->add<Local>(net.shown(peer, e), Local{5});
    net.world.remove<Local>(e);
    CHECK(net.state_bytes(10) == 0);
    REQUIRE(net.value<Local>(peer, e));
    CHECK(net.value<Local>(peer, e)->value == 5);
}

TEST_CASE("removal/after_insertion") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    REQUIRE(net.value<Health>(peer, e));
    net.world.set(e, Health{2, false});
    net.world.remove<Health>(e);
    net.settle();
    REQUIRE(peer.world->alive(net.shown(peer, e)));
    CHECK_FALSE(net.value<Health>(peer, e));
}

TEST_CASE("removal/after_spawn") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Speed{2, 0}, Replicated{});
    net.world.remove<Health>(e);
    net.settle();
    REQUIRE(peer.world->alive(net.shown(peer, e)));
    CHECK_FALSE(net.value<Health>(peer, e));
    CHECK(net.value<Speed>(peer, e));
}

TEST_CASE("removal/confirm_history") {
    StateNet net;
    Told told;
    HeldBack held(net, Reason::counts_ticks, told.config());
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    const Entity there = net.shown(held.peer, e);
    told.carried.clear();
    net.world.remove<Health>(e);
    net.step();
    const Tick tick = net.server.current_tick();
    net.settle();
    CHECK_FALSE(net.value<Health>(held.peer, e));
    CHECK(held.peer.client->confirm_history(there)->carried(tick));
    CHECK(held.peer.client->confirmed(there, tick));
    CHECK(told.only(there, tick));
}

TEST_CASE("removal/after_pause") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Speed{1, 0}, Name{"a"}, Replicated{});
    net.settle();
    const Entity there = net.shown(peer, e);
    net.world.remove<Replicated>(e);
    net.world.remove<Health>(e);
    net.world.remove<Speed>(e);
    net.world.add<Speed>(e, Speed{2, 0});
    CHECK(net.state_bytes(10) == 0);
    CHECK(net.hp(peer, e) == 1);
    net.world.add<Replicated>(e);
    net.agree(); // the state counts, not when it came about
    CHECK(net.shown(peer, e) == there);
    CHECK_FALSE(net.value<Health>(peer, e));
    CHECK(net.value<Speed>(peer, e)->x == doctest::Approx(2));
    CHECK(net.value<Name>(peer, e)->text == "a");
}

TEST_CASE("removal/with_client_despawn") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Speed{1, 0}, Replicated{});
    net.settle();
    peer.world->destroy(net.shown(peer, e));
    net.world.remove<Health>(e);
    net.settle();
    CHECK(peer.world->entity_count() == 0);
    CHECK_FALSE(net.shown(peer, e));
    net.world.destroy(e);
    net.agree();
}

TEST_CASE("removal/hidden_entity") {
    StateNet net;
    auto& peer = net.join();
    const Hidden hidden(net, peer);
    net.settle();
    for (const Entity e : hidden.all)
        net.world.remove<Health>(e);
    CHECK(net.state_bytes(10) == 0);
    CHECK(peer.world->entity_count() == Hidden::sent);
    for (int i = 0; i < Hidden::sent; ++i)
        CHECK(net.hp(peer, hidden.all[Hidden::unsent + i]) == 1);
}

TEST_CASE("removal/group") {
    StateNet net = make_net([](Protocol& p) {
        health(p), speed(p);
        p.bundle<Health, Speed>();
    });
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{7, false}, Speed{2, 0}, Replicated{}),
                 f = net.world.spawn(Health{8, false}, Speed{2, 0}, Replicated{});
    net.agree();
    const u64 moves = peer.client->stats().structural_moves;
    net.world.remove<Health>(e);
    net.world.remove<Speed>(e);
    net.agree();
    CHECK_FALSE(net.value<Health>(peer, e));
    CHECK_FALSE(net.value<Speed>(peer, e));
    CHECK(peer.client->stats().structural_moves == moves + 1);
    net.world.remove<Health>(f); // one of them: the other has no rule any more
    net.agree();
    CHECK_FALSE(net.value<Health>(peer, f));
    CHECK_FALSE(net.value<Speed>(peer, f));
    CHECK(net.world.has<Speed>(f));
}

namespace {
/// Which of Health, Speed and Name a client has of an entity.
std::string components(const StateNet& net, const StateNet::Peer& peer, Entity e) {
    std::string has;
    has += net.value<Health>(peer, e) ? 'h' : '-';
    has += net.value<Speed>(peer, e) ? 's' : '-';
    has += net.value<Name>(peer, e) ? 'n' : '-';
    return has;
}
/// The components that are left when the client, which was on layer 2, leaves it.
std::string left_by(const ScopedTo& scoped) {
    StateNet net;
    auto& peer = net.join();
    net.server.view(peer.id).set_layers(2);
    const Entity e = net.world.spawn(Health{1, false}, Speed{1, 0}, Name{"n"}, ScopedTo(scoped), Replicated{});
    net.agree();
    CHECK(components(net, peer, e) == "hsn");
    net.server.view(peer.id).set_layers(0);
    net.agree();
    CHECK(peer.client->stats().despawns == 0);
    return components(net, peer, e);
}
constexpr VisibleTo on_two{.any_of = 2};
} // namespace

TEST_CASE("removal/hidden_component") {
    StateNet net;
    auto& peer = net.join();
    net.server.view(peer.id).set_layers(2);
    const HiddenComponents hidden(net);
    net.agree();
    net.server.view(peer.id).set_layers(0);
    net.agree();
    CHECK(hidden.shown(net, peer) == "-- 1a 1a ");
    hidden.remove(net);
    CHECK(net.state_bytes(10) == 0);
    CHECK(hidden.shown(net, peer) == "-- 1a 1a ");
    net.server.view(peer.id).set_layers(2); // what is no more goes when that may be seen
    net.agree();
    CHECK(hidden.shown(net, peer) == "-- -- -- ");
    for (const Entity e : hidden.of)
        CHECK(net.value<Speed>(peer, e));
}

TEST_CASE("removal/hidden_all_except") {
    CHECK(left_by({Scope::all_except<Health>(), on_two}) == "h--");
}

TEST_CASE("removal/multiple_hidden_all_except") {
    CHECK(left_by(ScopedTo(Scope::all_except<Health>(), on_two).also(Scope::all_except<Speed>(), on_two)) == "---");
}

TEST_CASE("removal/hidden_component_and_all_expect") {
    CHECK(left_by(ScopedTo(Scope::of<Health>(), on_two).also(Scope::all_except<Speed>(), on_two)) == "-s-");
    StateNet net; // hidden twice, removed once
    auto& peer = net.join();
    net.server.view(peer.id).set_layers(2);
    const Entity e = net.world.spawn(
        Health{1, false}, ScopedTo(Scope::of<Health>(), on_two).also(Scope::all_except<Speed>(), on_two), Replicated{});
    net.agree();
    ChangeReader<Health> changes(*peer.world);
    net.server.view(peer.id).set_layers(0);
    net.agree();
    int removed = 0;
    changes.each_removed([&](const Removal& removal) { removed += !removal.destroyed; });
    CHECK(removed == 1);
    CHECK(net.shown(peer, e));
}

TEST_CASE("removal/visibility_lose") {
    CHECK(left_by({Scope::of<Health>(), on_two}) == "-sn");
    CHECK(left_by({Scope::of<Health, Name>(), on_two}) == "-s-");
    for (const Lifetime lifetime : {Lifetime::after_first, Lifetime::always}) {
        CHECK(left_by({Scope::of<Health, Name>(), on_two, lifetime}) == "hsn");
        CHECK(left_by(ScopedTo(Scope::of<Health, Name>(), on_two, lifetime).also(Scope::of<Health>(), on_two)) == "-sn");
    }
}
