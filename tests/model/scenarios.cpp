// The scripted worlds of the exhaustive mode. Each has its plain beginning in tick 1 and its critical case from
// `first_faulty_tick` on. A script runs once a tick, before the server's.
#include "tests/model/exhaustive.hpp"

namespace model {

namespace {

constexpr NetId first(int index) { return {index, 1}; }
constexpr NetId second(int index) { return {index, 2}; }
constexpr Tick t0 = first_faulty_tick;

/// An entity beside the action that changes afterwards, so that there is something to ack, to settle and to be late for.
void bystander(Tick tick, World& world) {
    if (tick == 1)
        world.spawn(7, {0, 3}, -1);
    if (tick >= t0 + 5 && tick < t0 + 12)
        world.set(first(7), vel, tick);
}

void move_back_and_die(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    bystander(tick, world);
    if (tick == 1)
        world.spawn(0, {0, 0}, -1);
    if (tick == t0)
        world.move(first(0), {1, 0});
    if (tick == t0 + 1)
        world.move(first(0), {0, 0});
    if (tick == t0 + 2)
        world.despawn(first(0));
}

void move_on(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    bystander(tick, world);
    if (tick == 1)
        world.spawn(0, {0, 0}, -1);
    if (tick == t0)
        world.move(first(0), {1, 0});
    if (tick == t0 + 1)
        world.move(first(0), {0, 1});
    if (tick == t0 + 2)
        world.set(first(0), pos, 9);
    if (tick == t0 + 4)
        world.move(first(0), {1, 0});
}

void lane_reuse(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    bystander(tick, world);
    if (tick == 1)
        world.spawn(0, {0, 0}, -1);
    if (tick == t0)
        world.despawn(first(0));
    if (tick == t0 + 1)
        world.spawn(1, {0, 0}, -1);
    if (tick == t0 + 2)
        world.set(first(1), pos, 5);
    if (tick == t0 + 3) {
        world.despawn(first(1));
        world.spawn(0, {0, 0}, -1);
    }
}

void rebind_in_one_tick(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    bystander(tick, world);
    if (tick == 1)
        world.spawn(0, {0, 0}, -1);
    if (tick == t0)
        world.set(first(0), pos, 3);
    if (tick == t0 + 1) {
        world.despawn(first(0));
        world.spawn(0, {0, 0}, -1);
    }
    if (tick == t0 + 2)
        world.set(second(0), vel, 4);
    if (tick == t0 + 3) {
        world.despawn(second(0));
        world.spawn(1, {0, 0}, -1);
    }
}

void hide_and_enter_again(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    bystander(tick, world);
    if (tick == 1)
        world.spawn(0, {0, 0}, -1);
    if (tick == t0 || tick == t0 + 2)
        world.toggle_hidden(first(0), 0);
    if (tick == t0 + 1)
        world.set(first(0), pos, 6);
    if (tick == t0 + 4)
        world.set(first(0), vel, 2);
}

void hide_twice(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    bystander(tick, world);
    if (tick == 1)
        world.spawn(0, {0, 0}, -1);
    if (tick >= t0 && tick < t0 + 5)
        world.toggle_hidden(first(0), 0);
}

void lost_gone(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    bystander(tick, world);
    if (tick == 1) {
        world.spawn(0, {0, 0}, -1);
        world.spawn(1, {1, 0}, -1);
    }
    if (tick == t0) {
        world.despawn(first(0));
        world.toggle_hidden(first(1), 0);
    }
    if (tick == t0 + 3)
        world.set(first(1), pos, 8);
}

void ring_overflow(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    if (tick == 1)
        for (int i = 0; i < 3; ++i)
            world.spawn(i, {0, i}, -1);
    if (tick >= t0 && tick < t0 + 5) {
        world.set(first(0), pos, tick);
        world.set(first((tick - t0) % 3), vel, tick);
    }
}

void overtaken_delta(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    if (tick == 1)
        for (int i = 0; i < 3; ++i)
            world.spawn(i, {0, i}, -1);
    if (tick >= t0 && tick < t0 + 6)
        world.set(first(0), pos, tick);
    if (tick == t0 + 1)
        for (int i = 0; i < 3; ++i)
            world.set(first(i), vel, tick);
    if (tick == t0 + 5)
        world.set(first(1), vel, tick);
}

void two_components(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    if (tick == 1)
        for (int i = 0; i < 2; ++i)
            world.spawn(i, {0, i}, -1);
    if (tick == t0 || tick == t0 + 3)
        world.set(first(0), pos, tick);
    if (tick == t0 + 1 || tick == t0 + 4)
        world.set(first(0), vel, tick);
    if (tick == t0 + 2)
        world.set(first(1), pos, tick);
}

void insert_and_remove(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    bystander(tick, world);
    if (tick == 1)
        world.spawn(0, {0, 0}, -1);
    if (tick == t0)
        world.insert(first(0), vel, 0); // removed and inserted again, with the value it had
    if (tick == t0 + 1)
        world.remove(first(0), vel);
    if (tick == t0 + 2)
        world.insert(first(0), vel, 0);
    if (tick == t0 + 3) {
        world.insert(first(0), pos, 5);
        world.remove(first(0), pos);
    }
}

void refused_send(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    bystander(tick, world);
    if (tick == 1)
        world.spawn(0, {0, 0}, -1);
    if (tick == t0)
        world.spawn(1, {0, 1}, -1);
    if (tick == t0 + 1)
        world.despawn(first(0));
    if (tick == t0 + 2)
        world.set(first(1), pos, 4);
}

void owner_slot(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    bystander(tick, world);
    if (tick == 1)
        world.spawn(0, {0, 0}, 0);
    if (tick == t0)
        world.insert(first(0), hp, 5);
    if (tick == t0 + 1)
        world.toggle_hidden(first(0), 0);
    if (tick == t0 + 2) {
        world.toggle_hidden(first(0), 0);
        world.set(first(0), hp, 4);
    }
    if (tick == t0 + 3)
        world.remove(first(0), hp);
}

void spawn_with_owner_slot(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    bystander(tick, world);
    if (tick == t0) {
        world.spawn(0, {0, 0}, 0);
        world.insert(first(0), hp, 5);
    }
    if (tick == t0 + 1)
        world.move(first(0), {1, 0});
    if (tick == t0 + 2)
        world.set(first(0), hp, 4);
    if (tick == t0 + 3)
        world.despawn(first(0));
}

void brief_life(Tick tick, Simulation& simulation) { // and enough traffic afterwards for its tombstone to expire
    World& world = simulation.world();
    if (tick == 1)
        world.spawn(7, {1, 3}, -1);
    if (tick == t0)
        world.spawn(0, {0, 0}, -1);
    if (tick == t0 + 1)
        world.despawn(first(0));
    if (tick > t0 && tick < t0 + 9)
        world.set(first(7), vel, tick);
}

void leave_and_enter(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    bystander(tick, world);
    if (tick == 1)
        world.spawn(0, {0, 0}, -1);
    if (tick == t0 || tick == t0 + 2)
        world.toggle_interest(0, 0);
    if (tick == t0 + 1)
        world.move(first(0), {0, 1});
    if (tick == t0 + 3)
        world.set(first(0), pos, 3);
}

void two_clients_one_key(Tick tick, Simulation& simulation) {
    World& world = simulation.world();
    if (tick == 1)
        for (int i = 0; i < 2; ++i)
            world.spawn(i, {0, i}, -1);
    if (tick == t0)
        world.toggle_hidden(first(0), 0);
    if (tick == t0 + 1) {
        world.set(first(0), pos, 1);
        world.set(first(1), pos, 1);
    }
    if (tick == t0 + 2) {
        world.despawn(first(0));
        world.spawn(2, {0, 0}, -1);
        world.toggle_hidden(first(2), 1);
    }
}

} // namespace

//   name, what it is about, clients, mirror ring, client ring, record ring, last faulty tick, deviations, refusals, script
const std::vector<Scenario> scenarios = {
    {"move_back_and_die", "A -> B -> A, then death: the late B must not revive it", 1, 4, 3, 8, t0 + 4, 4, false, move_back_and_die},
    {"move_on", "A -> B -> C -> B: the late B must not move it back", 1, 4, 3, 8, t0 + 4, 4, false, move_on},
    {"lane_reuse", "a lane with three occupants in four ticks", 1, 4, 3, 8, t0 + 4, 4, false, lane_reuse},
    {"rebind_in_one_tick", "a lane that stays visible while its occupant is exchanged", 1, 4, 3, 8, t0 + 4, 4, false, rebind_in_one_tick},
    {"hide_and_enter_again", "hidden, changed while hidden, shown again", 1, 4, 3, 8, t0 + 4, 4, false, hide_and_enter_again},
    {"hide_twice", "hidden and shown in turn, tick by tick", 1, 4, 3, 8, t0 + 4, 4, false, hide_twice},
    {"lost_gone", "one dies and one is hidden, and the news may be lost", 1, 4, 3, 8, t0 + 4, 4, false, lost_gone},
    {"ring_overflow", "more versions than either ring holds", 1, 2, 2, 8, t0 + 4, 4, false, ring_overflow},
    {"overtaken_delta", "a delta of many lanes overtaken by deltas of one of them", 1, 8, 2, 8, t0 + 5, 3, false, overtaken_delta},
    {"two_components", "a late delta has the component that the newer one lacks", 1, 4, 3, 8, t0 + 4, 4, false, two_components},
    {"insert_and_remove", "components removed and inserted in one tick, and the other way round", 1, 4, 3, 8, t0 + 4,
     4, false, insert_and_remove},
    {"refused_send", "the backend refuses messages, and the network loses others", 1, 4, 3, 8, t0 + 4, 4, true, refused_send},
    {"record_wrap", "more messages in flight than the record ring holds", 1, 4, 3, 2, t0 + 4, 4, false, lane_reuse},
    {"owner_slot", "an owner-only component comes and goes while its entity is hidden and shown", 1, 4, 3, 8, t0 + 4, 4, false, owner_slot},
    {"spawn_with_owner_slot", "two slots that must appear together, one of them moving", 1, 4, 3, 8, t0 + 4, 4, false,
     spawn_with_owner_slot},
    {"brief_life", "an entity whose tombstone expires while its spawn is still under way", 1, 8, 3, 8, t0 + 4, 3, false, brief_life},
    {"leave_and_enter", "the client leaves a chunk and comes back", 1, 4, 3, 8, t0 + 4, 4, false, leave_and_enter},
    {"two_clients_one_key", "two clients with different hidden lanes share payloads", 2, 4, 3, 8, t0 + 3, 3, false, two_clients_one_key},
};

const Scenario* find_scenario(const std::string& name) {
    for (const Scenario& scenario : scenarios)
        if (name == scenario.name)
            return &scenario;
    return nullptr;
}

} // namespace model
