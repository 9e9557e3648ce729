// Which entities have a component on the wire, and under which name.
#include "tests/conformance/rules_support.hpp"

using namespace throng;
using namespace conformance::state;

TEST_CASE("rules/highest_priority") {
    StateNet net = make_net([](Protocol& p) {
        rough_speed(p).when({}, 10);
        speed(p).when(with<Important>); // 2, and so less
    });
    auto& peer = net.join();
    const Entity e = net.world.spawn(Speed{1.26f, 0}, Important{}, Replicated{});
    net.agree();
    CHECK(net.value<Speed>(peer, e)->x == 1);
}

TEST_CASE("rules/default_priority") {
    StateNet net = make_net([](Protocol& p) {
        rough_speed(p);                                    // 1
        speed(p).when(with<Important> && without<Asleep>); // 3
        p.component<Speed>("still").when(with<Important>); // 2, without fields
    });
    auto& peer = net.join();
    const Entity plain = net.world.spawn(Speed{1.26f, 0}, Replicated{});
    const Entity important = net.world.spawn(Speed{1.26f, 0}, Important{}, Replicated{});
    const Entity asleep = net.world.spawn(Speed{1.26f, 0}, Important{}, Asleep{}, Replicated{});
    net.agree();
    CHECK(net.value<Speed>(peer, plain)->x == 1);
    CHECK(net.value<Speed>(peer, important)->x == doctest::Approx(1.26).epsilon(0.001));
    CHECK(net.value<Speed>(peer, asleep)->x == 0);
}

TEST_CASE("rules/same_priority") {
    StateNet net = make_net([](Protocol& p) {
        rough_speed(p).when(with<Important>);
        speed(p).when(with<Asleep>);
    });
    auto& peer = net.join();
    const Entity both = net.world.spawn(Speed{1.26f, 0}, Important{}, Asleep{}, Replicated{});
    const Entity second = net.world.spawn(Speed{1.26f, 0}, Asleep{}, Replicated{});
    const Entity none = net.world.spawn(Speed{1.26f, 0}, Replicated{});
    net.agree();
    CHECK(net.value<Speed>(peer, both)->x == 1); // registered first
    CHECK(net.value<Speed>(peer, second)->x == doctest::Approx(1.26).epsilon(0.001));
    CHECK_FALSE(net.value<Speed>(peer, none));
}

TEST_CASE("rules/filters") {
    struct Case {
        EntityFilter filter;
        bool plain, important, asleep, both;
    };
    const Case cases[] = {{{}, true, true, true, true},
                          {with<Important>, false, true, false, true},
                          {with<Important, Asleep>, false, false, false, true},
                          {without<Important>, true, false, true, false},
                          {without<Important, Asleep>, true, false, false, false},
                          {any_of<Important, Asleep>, false, true, true, true},
                          {with<Important> && without<Asleep>, false, true, false, false},
                          {any_of<Important, Asleep> && without<Asleep>, false, true, false, false},
                          {with<Asleep> && any_of<Important, Link>, false, false, false, true},
                          {EntityFilter(with<Asleep>) && with<Important>, false, false, false, true}};
    for (const Case& c : cases) {
        StateNet net = make_net([&](Protocol& p) { health(p).when(c.filter); });
        auto& peer = net.join();
        const Entity plain = net.world.spawn(Health{7, false}, Replicated{});
        const Entity important = net.world.spawn(Health{7, false}, Important{}, Replicated{});
        const Entity asleep = net.world.spawn(Health{7, false}, Asleep{}, Replicated{});
        const Entity both = net.world.spawn(Health{7, false}, Important{}, Asleep{}, Replicated{});
        net.agree();
        CHECK(net.hp(peer, plain) == (c.plain ? 7 : -1));
        CHECK(net.hp(peer, important) == (c.important ? 7 : -1));
        CHECK(net.hp(peer, asleep) == (c.asleep ? 7 : -1));
        CHECK(net.hp(peer, both) == (c.both ? 7 : -1));
    }
}

TEST_CASE("rules/alternatives") {
    StateNet net = make_net([&](Protocol& p) { health(p).when(with<Important>).when(with<Asleep> && without<Link>); });
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{7, false}, Asleep{}, Replicated{});
    net.agree();
    CHECK(net.hp(peer, e) == 7);
    net.world.add<Link>(e);
    net.agree();
    CHECK(net.hp(peer, e) == -1);
    net.world.add<Important>(e);
    net.agree();
    CHECK(net.hp(peer, e) == 7);
}

TEST_CASE("rules/bundle_beside_a_component") {
    StateNet net = make_net([](Protocol& p) {
        health(p).when({});
        speed(p);
        p.bundle<Health, Speed>();
    });
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{7, false}, Replicated{});
    const Entity fast = net.world.spawn(Speed{1, 0}, Replicated{});
    net.agree();
    CHECK(net.hp(peer, e) == 7);               // its own rule
    CHECK_FALSE(net.value<Speed>(peer, fast)); // has the bundle's only
    net.world.add<Speed>(e, Speed{2, 0});
    net.world.add<Health>(fast, Health{8, false});
    net.agree();
    CHECK(net.value<Speed>(peer, e));
    CHECK(net.hp(peer, fast) == 8);
    CHECK(net.value<Speed>(peer, fast));
}

TEST_CASE("rules/another_name_is_one_write") {
    StateNet net = make_net([](Protocol& p) {
        rough_speed(p);
        speed(p).when(with<Important>);
    });
    auto& peer = net.join();
    const Entity e = net.world.spawn(Speed{1.26f, 0}, Replicated{});
    net.agree();
    int added = 0, changed = 0, removed = 0;
    peer.world->on_add<Speed>([&](World&, Entity, Speed&) { ++added; });
    peer.world->on_change<Speed>([&](World&, Entity, Speed&) { ++changed; });
    peer.world->on_remove<Speed>([&](World&, Entity, Speed&) { ++removed; });
    const u64 moves = peer.client->stats().structural_moves;
    net.world.add<Important>(e);
    net.agree();
    CHECK(net.value<Speed>(peer, e)->x == doctest::Approx(1.26).epsilon(0.001));
    net.world.mut<Speed>(e)->x = 3.42f;
    net.world.remove<Important>(e);
    net.agree();
    CHECK(net.value<Speed>(peer, e)->x == 3);
    CHECK(added == 0);
    CHECK(removed == 0);
    CHECK(changed >= 2);
    CHECK(peer.client->stats().structural_moves == moves);
    CHECK(net.state_bytes(10) == 0);
    net.world.remove<Speed>(e);
    net.agree();
    CHECK(removed == 1);
}

TEST_CASE("rules/what_is_kept_away_is_never_sent") {
    StateNet net = make_net([](Protocol& p) { health(p).when(with<Important>); });
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{7, false}, Replicated{});
    net.agree();
    for (int i = 0; i < 10; ++i) {
        net.world.mut<Health>(e)->hp = i;
        CHECK(net.state_bytes(1) == 0);
    }
    net.world.add<Important>(e);
    net.agree();
    CHECK(net.hp(peer, e) == 9);
}

TEST_CASE("rules/once_travels_with_the_entity") {
    StateNet net = make_net([](Protocol& p) {
        const Range map{-1000, 1000, 0.01};
        p.component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
        health(p).once();
        p.opaque<Name>("name", 100, throng_test::write_name, throng_test::read_name).once();
    });
    const Entity e = net.world.spawn(Place{0, 0}, Health{7, false}, Name{"first"}, Replicated{});
    net.step(); // nobody looks yet
    net.world.mut<Health>(e)->hp = 8;
    net.world.mut<Name>(e)->text = "second";
    auto& early = net.join();
    net.server.view(early.id).look_at(0, 0, {.radius = 300});
    net.settle();
    for (const float x : {100.0f, 200.0f, 30.0f}) { // other cells
        net.world.mut<Place>(e)->x = x;
        net.world.mut<Health>(e)->hp += 1;
        net.settle();
        CHECK(net.hp(early, e) == 7);
        REQUIRE(net.value<Name>(early, e));
        CHECK(net.value<Name>(early, e)->text == "first");
    }
    auto& late = net.join();
    net.server.view(late.id).look_at(0, 0, {.radius = 300});
    net.settle();
    CHECK(net.hp(late, e) == 7);
    CHECK(net.value<Name>(late, e)->text == "first");
    CHECK(net.world.get<Health>(e)->hp == 11);
}

TEST_CASE("rules/once_is_given_again") {
    StateNet net = make_net([](Protocol& p) { health(p).when(without<Asleep>).once(); });
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    net.world.mut<Health>(e)->hp = 2;
    net.settle();
    CHECK(net.hp(peer, e) == 1);
    net.world.remove<Health>(e); // and given again in the same tick
    net.world.add<Health>(e, Health{3, false});
    net.settle();
    CHECK(net.hp(peer, e) == 3);
    net.world.remove<Health>(e);
    net.settle();
    CHECK(net.hp(peer, e) == -1);
    net.world.add<Health>(e, Health{4, false});
    net.settle();
    CHECK(net.hp(peer, e) == 4);
    net.world.add<Asleep>(e);
    net.settle();
    CHECK(net.hp(peer, e) == -1);
    net.world.mut<Health>(e)->hp = 5;
    net.world.remove<Asleep>(e);
    net.settle();
    CHECK(net.hp(peer, e) == 5);
    net.world.mut<Health>(e)->hp = 6;
    CHECK(net.state_bytes(20) == 0);
}

TEST_CASE("rules/once_names_entities_that_come_later") {
    StateNet net = make_net([](Protocol& p) { p.component<Link>("link").field(&Link::target).once(); });
    auto& peer = net.join();
    const Entity target = net.world.create(), other = net.world.spawn(Replicated{});
    const Entity e = net.world.spawn(Link{target}, Replicated{});
    net.settle();
    REQUIRE(net.value<Link>(peer, e));
    CHECK_FALSE(net.value<Link>(peer, e)->target);
    net.world.add<Replicated>(target);
    net.settle();
    CHECK(net.value<Link>(peer, e)->target == net.shown(peer, target));
    net.world.mut<Link>(e)->target = other;
    net.settle();
    CHECK(net.value<Link>(peer, e)->target == net.shown(peer, target));
    // In one tick with its target, the later of the two.
    const Entity holder = net.world.spawn(Link{}, Replicated{}), made = net.world.spawn(Replicated{});
    net.world.mut<Link>(holder)->target = made;
    net.settle();
    CHECK(net.value<Link>(peer, holder)->target == net.shown(peer, made));
}

TEST_CASE("rules/once_too_large_is_absent") {
    StateNet net = make_net([](Protocol& p) { p.opaque<Name>("name", 8, throng_test::write_name, throng_test::read_name).once(); });
    auto& peer = net.join();
    const Entity e = net.world.spawn(Name{"longer than eight"}, Replicated{});
    const TickReport& report = net.step();
    CHECK((report.limits & limit_opaque) != 0);
    net.settle();
    CHECK_FALSE(net.value<Name>(peer, e));
    net.world.remove<Name>(e);
    net.world.add<Name>(e, Name{"short"});
    net.settle();
    REQUIRE(net.value<Name>(peer, e));
    CHECK(net.value<Name>(peer, e)->text == "short");
}

namespace {
template <class F>
std::string problem_of(F registrations) {
    Protocol p;
    registrations(p);
    CHECK(p.finish() == Error::bad_value);
    return p.problem();
}
struct Alert { // a message
    int number = 0;
};
struct Order {};
} // namespace

TEST_CASE("rules/registered_twice") {
    const char* const twice = "component \"again\": registered twice, and no rule tells the two apart";
    const char* const same_rule = "component \"health\": two rules let the same entities through";
    CHECK(problem_of([](Protocol& p) { health(p), health(p, "again"); }) == twice);
    CHECK(problem_of([](Protocol& p) { weather(p), p.resource<Weather>("again").field(&Weather::wind); }) == twice);
    CHECK(problem_of([](Protocol& p) { health(p), p.component<Link>("health").field(&Link::target); }) ==
          "component \"health\": the name is taken");
    CHECK(problem_of([](Protocol& p) { health(p).when(with<Important>).when(without<Asleep>).when(with<Important>, 7); }) == same_rule);
    CHECK(problem_of([](Protocol& p) { health(p).when(with<Link> && without<Asleep>).when(without<Asleep> && with<Link>); }) == same_rule);
    CHECK(problem_of([](Protocol& p) { health(p), speed(p), p.bundle<Health, Speed>(), p.bundle<Speed, Health>(); }) == same_rule);
    CHECK(problem_of([](Protocol& p) { p.message<Alert>("alert"), p.message<Alert>("alarm"); }) == "message \"alarm\": registered twice");
    CHECK(problem_of([](Protocol& p) { p.message<Alert>("alert"), p.message<Order>("alert"); }) == "message \"alert\": the name is taken");
    const StateNet net = make_net([](Protocol& p) { // messages have names of their own
        health(p).when(with<Important>).when(without<Asleep>);
        p.message<Alert>("health");
    });
    CHECK(net.protocol->components().size() == 1);
}

TEST_CASE("rules/wrong_registrations") {
    const auto place = [](Protocol& p) -> ComponentBuilder<Place> {
        const Range map{-1000, 1000, 0.01};
        return p.component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
    };
    CHECK(problem_of([](Protocol& p) { health(p).when(with<Important>), health(p, "again").when(with<Important>, 5); }) ==
          "component \"again\": registered twice, and no rule tells the two apart");
    CHECK(problem_of([&](Protocol& p) { place(p).when(with<Important>); }) ==
          "component \"place\": the spatial component and Lasting have no rules, and are sent on change");
    CHECK(problem_of([&](Protocol& p) { place(p).once(); }) ==
          "component \"place\": the spatial component and Lasting have no rules, and are sent on change");
    CHECK(problem_of([&](Protocol& p) { place(p), p.component<Place>("far").when(with<Important>); }) ==
          "component \"far\": registered twice: the spatial component and Lasting have one registration");
    CHECK(problem_of([](Protocol& p) { p.component<Lasting>("lasting").when(with<Important>); }) ==
          "component \"lasting\": the spatial component and Lasting have no rules, and are sent on change");
    CHECK(problem_of([](Protocol& p) { health(p).when(any_of<Important, Link> && any_of<Asleep>); }) ==
          "component \"health\": a rule has one any_of");
    CHECK(problem_of([](Protocol& p) { health(p), p.bundle<Health, Speed>(); }) ==
          "component \"\": a bundle names a type that was not registered before it");
    CHECK(problem_of([](Protocol& p) {
              auto builder = health(p);
              for (i32 i = 0; i < 9; ++i)
                  builder.when(with<Important>, i);
          }) == "component \"health\": more than 8 rules");
}
