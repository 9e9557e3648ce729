// Ticks of which a client has everything, and ticks of which an entity's state has come (R9).
#include "tests/conformance/state_support.hpp"

using namespace throng;
using namespace conformance::state;

TEST_CASE("mutate_ticks/without_changes") {
    StateNet net({.heartbeat_ticks = 1});
    Told told;
    HeldBack held(net, Reason::counts_ticks, told.config());
    net.settle();
    REQUIRE(told.settled.size() >= 1); // of the connection
    for (int i = 0; i < 5; ++i) {
        told.settled.clear();
        net.step();
        CHECK(told.settled == std::vector<Tick>{net.server.current_tick()}); // each idle tick
        CHECK(held.peer.client->confirmed(net.server.current_tick()));
        CHECK_FALSE(held.peer.client->confirmed(net.server.current_tick() + 1));
    }
}

TEST_CASE("mutate_ticks/one_message") {
    StateNet net({.heartbeat_ticks = 1});
    Told told;
    HeldBack held(net, Reason::counts_ticks, told.config());
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    told.settled.clear();
    net.world.mut<Health>(e)->hp = 2;
    net.step();
    const Tick tick = net.server.current_tick();
    CHECK(net.hp(held.peer, e) == 2);
    CHECK(told.settled.empty()); // nobody has said that it arrived
    CHECK_FALSE(held.peer.client->confirmed(tick));
    net.step();
    CHECK(told.settled == std::vector<Tick>{tick + 1}); // once: with it, the tick before
    CHECK(held.peer.client->confirmed(tick));
    CHECK(held.peer.client->settled_tick() == tick + 1);
}

TEST_CASE("mutate_ticks/multiple_messages") {
    StateNet net({.heartbeat_ticks = 1});
    Told told;
    HeldBack held(net, Reason::counts_ticks, told.config());
    std::vector<Entity> all;
    for (int i = 0; i < 300; ++i)
        all.push_back(net.world.spawn(Health{i, false}, Replicated{}));
    net.settle();
    told.settled.clear();
    told.carried.clear();
    for (int i = 0; i < 300; ++i)
        net.world.mut<Health>(all[u32(i)])->hp = int(u32(i + 1) * 2654435761u >> 1);
    REQUIRE(net.step().messages > 1);
    const Tick tick = net.server.current_tick();
    net.step();
    CHECK(told.settled == std::vector<Tick>{tick + 1});
    CHECK(held.peer.client->confirmed(tick));
    CHECK(told.carried.size() == 300); // each entity once
}

TEST_CASE("mutate_ticks/one_of_several_messages_is_lost") {
    StateNet net({.heartbeat_ticks = 1});
    Told told;
    HeldBack held(net, Reason::holds_back, told.config());
    std::vector<Entity> all;
    for (int i = 0; i < 300; ++i)
        all.push_back(net.world.spawn(Health{i, false}, Replicated{}));
    net.settle();
    told.settled.clear();
    told.carried.clear();
    net.script_packets(held.peer, Direction::down, {{.packet = 0, .action = ScriptAction::drop}});
    for (int i = 0; i < 300; ++i)
        net.world.mut<Health>(all[u32(i)])->hp = int(u32(i + 1) * 2654435761u >> 1);
    net.step();
    const Tick tick = net.server.current_tick();
    const std::size_t first = told.carried.size();
    CHECK(first > 0);
    CHECK(first < 300);
    for (int i = 0; i < 3; ++i) {
        net.step();
        CHECK(told.settled.empty());
        CHECK_FALSE(held.peer.client->confirmed(tick));
    }
    net.settle();
    net.step();
    CHECK(held.peer.client->confirmed(tick));
    CHECK(told.settled.size() >= 1);
    CHECK(told.carried.size() == 300);
    u32 of_the_tick = 0;
    for (const auto& [entity, carried] : told.carried) {
        of_the_tick += carried == tick;
        CHECK(held.peer.client->confirm_history(entity)->carried(tick) == (carried == tick)); // what was lost never came
        CHECK(held.peer.client->confirmed(entity, tick));                                     // but is settled
    }
    CHECK(of_the_tick == first);
}

TEST_CASE("mutate_ticks/gap_of_64_ticks") {
    for (const int gap : {63, 64, 65, 128, 200}) {
        StateNet net;
        Told told;
        HeldBack held(net, Reason::counts_ticks, told.config());
        const Entity e = net.world.spawn(Health{1, false}, Replicated{});
        net.settle();
        const Entity there = net.shown(held.peer, e);
        net.world.mut<Health>(e)->hp = 2;
        net.step();
        const Tick before = net.server.current_tick();
        net.steps(gap - 1);
        net.world.mut<Health>(e)->hp = 3;
        net.step();
        const Tick after = net.server.current_tick();
        REQUIRE(after - before == Tick(gap));
        const ConfirmHistory& history = *held.peer.client->confirm_history(there);
        CHECK(history.newest() == after);
        CHECK(history.carried(before) == (gap < 64));
        CHECK_FALSE(history.carried(before + 1)); // nothing came then
        CHECK_FALSE(history.carried_any(before + 1, after - 1));
        CHECK(held.peer.client->confirmed(there, after));
    }
}
