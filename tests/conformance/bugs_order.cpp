// Bugs that were reported against other systems, by number (docs/conformance.md): spawns and ends, and messages that overtake each other.
#include "tests/conformance/rules_support.hpp"
#include <cmath>
#include <map>

using namespace throng;
using namespace conformance::state;

TEST_CASE("bug/45_the_client_destroyed_it") {
    for (const bool ends : {true, false}) {
        StateNet net;
        auto& peer = net.join();
        const Entity e = net.world.spawn(Health{0, false}, Replicated{});
        const Entity other = net.world.spawn(Health{0, false}, Replicated{});
        net.agree();
        const NetId id = net.server.net_id(e);
        peer.world->destroy(net.shown(peer, e));
        for (int tick = 0; tick < (ends ? 3 : 100); ++tick) {
            net.world.mut<Health>(e)->hp++;
            net.world.mut<Health>(other)->hp++;
            net.step();
        }
        if (ends) {
            net.world.remove<Health>(e);
            net.step();
            net.world.destroy(e);
        }
        net.settle();
        CHECK(peer.world->entity_count() == 1);
        CHECK_FALSE(peer.world->alive(peer.client->entity(id)));
        CHECK(net.hp(peer, other) == net.world.get<Health>(other)->hp);
        if (ends)
            CHECK_FALSE(peer.client->entity(id));
    }
}

TEST_CASE("bug/46_spawned_and_ended_at_once") {
    StateNet net;
    auto& peer = net.join();
    const Entity lasting = net.world.spawn(Health{1, false}, Replicated{});
    net.agree();
    for (int tick = 0; tick < 5; ++tick) {
        for (int i = 0; i < 200; ++i)
            net.world.destroy(net.world.spawn(Health{10, false}, Replicated{}));
        CHECK(net.state_bytes(1) == 0);
    }
    for (int i = 0; i < 10; ++i) { // one tick later, and that of the spawn is lost
        net.script_loss(peer, 100, 0);
        const Entity brief = net.world.spawn(Health{10, false}, Replicated{});
        net.step();
        net.restore_link(peer);
        net.world.destroy(brief);
        net.step();
    }
    net.agree();
    CHECK(peer.client->stats().spawns == 1);
    CHECK(net.hp(peer, lasting) == 1);
}

TEST_CASE("bug/47_insertions_and_removals_in_one_tick") {
    for (const bool first_is_lost : {false, true}) {
        StateNet net;
        auto& peer = net.join();
        const Entity e = net.world.spawn(Health{1, false}, Replicated{});
        int speeds_added = 0, healths_removed = 0;
        peer.world->on_add<Speed>([&](World&, Entity, Speed&) { ++speeds_added; });
        peer.world->on_remove<Health>([&](World&, Entity, Health&) { ++healths_removed; });
        net.agree();
        const auto tick = [&] {
            if (first_is_lost)
                net.script_loss(peer, 100, 0);
            net.step();
            net.restore_link(peer);
            net.agree();
        };
        net.world.remove<Health>(e);
        net.world.add<Health>(e, Health{2, false});
        tick();
        CHECK(net.hp(peer, e) == 2);
        CHECK(healths_removed == 1);
        net.world.add<Speed>(e, Speed{1, 0});
        net.world.remove<Speed>(e);
        tick();
        CHECK(speeds_added == 0);
        const Entity f = net.world.spawn(Health{3, false}, Speed{1, 0}, Replicated{});
        net.world.remove<Speed>(f);
        tick();
        CHECK(net.hp(peer, f) == 3);
        CHECK_FALSE(net.value<Speed>(peer, f));
        CommandQueue queue(net.world); // by another system
        Commands commands = queue.commands();
        net.world.remove<Health>(f);
        commands.add<Health>(f, Health{4, false});
        queue.apply();
        tick();
        CHECK(net.hp(peer, f) == 4);
        const u64 removes = peer.client->stats().component_removes;
        net.world.remove<Health>(e);
        net.world.destroy(e);
        tick();
        CHECK(peer.client->stats().component_removes == removes); // only the end
        CHECK(peer.client->stats().despawns == 1);
    }
}

TEST_CASE("bug/49_the_next_one_in_the_same_slot") {
    StateNet net;
    auto& peer = net.join();
    const LinkConfig rough{.loss_percent = 20, .jitter_us = 250'000}; // overtaken by up to five later ones
    for (const Direction direction : {Direction::down, Direction::up})
        net.network.set_link(peer.id, direction, rough);
    std::map<u64, std::string> names; // by net id
    Entity now;
    int shown = 0;
    for (int i = 0; i < 1000; ++i) {
        if (now)
            net.world.destroy(now);
        now = net.world.spawn(Name{std::to_string(i)}, Replicated{});
        net.step();
        names[net.server.net_id(now).value] = net.world.get<Name>(now)->text;
        peer.world->each<Name>([&](Entity there, const Name& name) {
            ++shown;
            CHECK(names.at(peer.client->net_id(there).value) == name.text);
        });
    }
    CHECK(shown > 100);
    net.restore_link(peer);
    net.agree();
    CHECK(peer.world->entity_count() == 1);
    CHECK(net.value<Name>(peer, now)->text == "999");
}

TEST_CASE("bug/50_entities_without_components") {
    StateNet net;
    const Entity empty = net.world.spawn(Replicated{});
    const Entity emptied = net.world.spawn(Health{1, false}, Replicated{});
    net.steps(5);
    net.world.remove<Health>(emptied);
    net.steps(5);
    auto& peer = net.join();
    net.agree();
    CHECK(peer.world->entity_count() == 2);
    CHECK_FALSE(net.value<Health>(peer, emptied));
    net.world.add<Health>(empty, Health{2, false});
    net.agree();
    CHECK(net.hp(peer, empty) == 2);
}

TEST_CASE("bug/52_components_that_come_on_different_ticks") {
    StateNet net;
    auto& early = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.agree();
    net.world.add<Speed>(e, Speed{1, 0});
    net.step();
    auto& later = net.join();
    net.agree();
    CHECK(net.value<Speed>(early, e));
    CHECK(net.value<Speed>(later, e));
    net.world.remove<Health>(e);
    net.step();
    auto& last = net.join();
    net.agree();
    for (const auto* peer : {&early, &later, &last})
        CHECK_FALSE(net.value<Health>(*peer, e));
    net.world.add<Health>(e, Health{2, false});
    net.agree();
    for (const auto* peer : {&early, &later, &last})
        CHECK(net.hp(*peer, e) == 2);

    // The same where they are a bundle: both or neither, for each of the clients.
    StateNet pairs = make_net([](Protocol& p) {
        health(p), speed(p);
        p.bundle<Health, Speed>();
    });
    auto& first = pairs.join();
    const Entity f = pairs.world.spawn(Health{1, false}, Replicated{});
    pairs.agree();
    CHECK_FALSE(pairs.value<Health>(first, f));
    auto& second = pairs.join();
    pairs.world.add<Speed>(f, Speed{1, 0});
    pairs.step();
    auto& third = pairs.join();
    pairs.agree();
    for (const auto* peer : {&first, &second, &third}) {
        CHECK(pairs.hp(*peer, f) == 1);
        CHECK(pairs.value<Speed>(*peer, f));
    }
}

TEST_CASE("bug/53_the_first_position_is_a_real_one") {
    StateNet net;
    auto& peer = net.join();
    net.server.view(peer.id).look_at(0, 0, {.radius = 60});
    net.settle();
    net.script_packets(peer, Direction::down, {{.packet = 1, .action = ScriptAction::drop}});
    std::vector<float> shown;
    peer.world->on_add<Place>([&](World&, Entity, Place& place) { shown.push_back(place.z); });
    const Entity e = net.world.spawn(Place{3, 4}, Replicated{});
    net.world.mut<Place>(e)->z = 5;
    for (int tick = 0; tick < 6; ++tick) {
        net.step();
        if (const Place* place = net.value<Place>(peer, e))
            shown.push_back(place->z);
        net.world.mut<Place>(e)->z += 1;
    }
    net.agree();
    REQUIRE(shown.size() > 2);
    float before = 5;
    for (const float z : shown) {
        CHECK(z == doctest::Approx(std::round(z)));
        CHECK(z >= before - 0.01f);
        before = z;
    }
    CHECK(before < 12);
    CHECK(net.value<Place>(peer, e)->z == doctest::Approx(11));
}

TEST_CASE("bug/54_ends_that_come_twice_and_crosswise") {
    StateNet net;
    auto& peer = net.join();
    std::vector<Entity> all;
    for (int i = 0; i < 500; ++i)
        all.push_back(net.world.spawn(Health{i, false}, Replicated{}));
    net.agree();
    net.network.set_link(peer.id, Direction::down,
                         {.jitter_us = 200'000, .reorder_percent = 30, .reorder_extra_us = 300'000, .duplicate_percent = 100});
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (i % 2)
            net.server.view(peer.id).hide(all[i]);
        net.world.destroy(all[i]);
    }
    net.steps(20);
    net.agree();
    CHECK(peer.client->stats().despawns == 500);
    CHECK(peer.client->stats().duplicates > 0);
    CHECK(peer.world->entity_count() == 0);
}

namespace {
bool refuse_third = false;
Error read_some(void* component, std::span<const std::byte> in) {
    if (refuse_third && !in.empty() && in[0] == std::byte{'3'})
        return Error::bad_value;
    return throng_test::read_name(component, in);
}
} // namespace

TEST_CASE("bug/56_one_value_that_cannot_be_read") {
    auto protocol = std::make_unique<Protocol>();
    protocol->component<Health>("health").field(&Health::hp).field(&Health::angry);
    protocol->opaque<Name>("name", 100, throng_test::write_name, read_some);
    protocol->component<Speed>("speed").field(&Speed::x, Range{-20, 20, 0.01}).field(&Speed::z, Range{-20, 20, 0.01});
    REQUIRE(protocol->finish() == Error::none);
    StateNet net({.heartbeat_ticks = 0}, {}, std::move(protocol));
    auto& peer = net.join();
    refuse_third = true;
    std::vector<Entity> all;
    for (int i = 0; i < 10; ++i)
        all.push_back(net.world.spawn(Health{i, false}, Name{std::to_string(i)}, Speed{1, 0}, Replicated{}));
    net.steps(30);
    CHECK(peer.client->stats().unapplied_opaque > 0);
    CHECK_FALSE(net.server.settled(peer.id));
    peer.world->each<Health>([&](Entity there, const Health&) { // whole, or not at all
        CHECK(peer.world->has<Name>(there));
        CHECK(peer.world->has<Speed>(there));
    });
    refuse_third = false;
    net.agree();
    CHECK(peer.world->entity_count() == 10);
}

namespace {
/// Four packets of one entity's news, the first and last of them structural, in each of the 24 orders of arrival; calls look(entity) after
/// each tick.
struct EveryOrder {
    StateNet net;
    StateNet::Peer& peer = net.join();

    template <class Look>
    void run(Look&& look) {
        net.settle();
        u32 order[] = {0, 1, 2, 3};
        int rounds = 0;
        do {
            net.script_loss(peer, 0, 0);
            const Entity e = net.world.spawn(Health{0, false}, Replicated{});
            net.agree();
            std::vector<ScriptStep> script;
            for (u32 packet = 0; packet < 4; ++packet) // each leaves 50 ms after the one before
                script.push_back({.packet = packet, .action = ScriptAction::delay, .value = (4 + order[packet] - packet) * 50'000});
            net.script_packets(peer, Direction::down, script);
            for (int tick = 1; tick <= 12; ++tick) {
                if (tick == 1)
                    net.world.add<Speed>(e, Speed{1, 0});
                if (tick == 4)
                    net.world.add<Link>(e, Link{e});
                if (tick <= 4)
                    net.world.mut<Health>(e)->hp = tick;
                net.step();
                look(e);
            }
            net.agree();
            CHECK(net.hp(peer, e) == 4);
            ++rounds;
        } while (std::next_permutation(std::begin(order), std::end(order)));
        CHECK(rounds == 24);
        CHECK(peer.client->stats().old_lanes > 0); // some came too late
    }
};
} // namespace

TEST_CASE("bug/57_every_order_of_arrival") {
    EveryOrder orders;
    Entity last;
    int hp = 0;
    orders.run([&](Entity e) {
        const int now = orders.net.hp(orders.peer, e);
        CHECK((e != last || now >= hp));
        last = e;
        hp = now;
    });
}

TEST_CASE("bug/58_confirmed_ticks_do_not_go_back") {
    EveryOrder orders;
    Tick settled = 0, newest = 0, confirmed = 0;
    orders.run([&](Entity e) {
        const Client& client = *orders.peer.client;
        const Tick confirms = client.confirmed_tick(orders.net.shown(orders.peer, e)); // of a later entity later than of those before
        CHECK_FALSE(tick_newer(confirmed, confirms));
        CHECK_FALSE(tick_newer(settled, client.settled_tick()));
        CHECK_FALSE(tick_newer(newest, client.newest_tick()));
        confirmed = confirms;
        settled = client.settled_tick();
        newest = client.newest_tick();
    });
}

TEST_CASE("bug/59_confirmed_means_applied") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{0, false}, Speed{0, 0}, Replicated{});
    net.agree();
    int wrong = 0, in_hooks = 0;
    const auto confirmed = [&] { return peer.client->confirmed_tick(net.shown(peer, e)); };
    peer.world->on_change<Speed>([&](World&, Entity, Speed&) { // all values are in place, and not confirmed yet
        wrong += !tick_newer(static_cast<Tick>(net.hp(peer, e)), confirmed());
        ++in_hooks;
    });
    for (int i = 0; i < 100; ++i) {
        net.world.mut<Speed>(e)->x = float(i % 20);
        net.world.mut<Health>(e)->hp = static_cast<int>(net.server.current_tick()) + 1;
        net.step();
        wrong += in_hooks && static_cast<Tick>(net.hp(peer, e)) != confirmed();
    }
    CHECK(wrong == 0);
    CHECK(in_hooks > 30);
    net.agree();
}

TEST_CASE("bug/63_what_does_not_change_stays") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Speed{0, 0}, Name{"stays"}, Replicated{});
    net.agree();
    for (int i = 0; i < 50; ++i) {
        net.world.mut<Speed>(e)->x = float(i % 20);
        if (i == 25)
            net.world.mut<Health>(e)->hp = 2;
        net.step();
        CHECK(net.hp(peer, e) > 0);
        CHECK(net.value<Name>(peer, e));
    }
    net.agree();
    CHECK(net.hp(peer, e) == 2);
    CHECK(peer.client->stats().component_removes == 0);
}

TEST_CASE("bug/65_an_older_position_after_a_leap") {
    StateNet net;
    auto& peer = net.join();
    net.server.view(peer.id).look_at(0, 0, {.radius = 900});
    const Entity e = net.world.spawn(Place{0, 0}, Replicated{});
    net.agree();
    // 17 to 19 arrive after 20, the leap; 21 is lost.
    net.script_loss(peer, 0, 0);
    std::vector<ScriptStep> script;
    for (u32 packet = 0; packet < 3; ++packet)
        script.push_back({.packet = packet, .action = ScriptAction::delay, .value = 300'000});
    script.push_back({.packet = 4, .action = ScriptAction::drop});
    net.script_packets(peer, Direction::down, script);
    bool leapt = false;
    for (int tick = 17; tick < 40; ++tick) {
        net.world.mut<Place>(e)->x = tick < 20 ? float(tick - 16) : float(300 + tick);
        net.step();
        const Place* place = net.value<Place>(peer, e);
        REQUIRE(place); // a leap into another cell is no end
        leapt |= place->x > 300;
        CHECK((!leapt || place->x > 300));
    }
    CHECK(leapt);
    net.agree();
    CHECK(peer.client->stats().despawns == 0);
}
