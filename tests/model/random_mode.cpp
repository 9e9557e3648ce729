#include "tests/model/random_mode.hpp"

namespace model {

namespace {

constexpr Tick fault_ticks = 60, heal_ticks = 90;
constexpr Tick echo_ticks = 20;  // longest delay of a packet and of its answer: nothing of the fault phase is under way
constexpr Tick quiet_ticks = 12; // it must stay converged so long

/// Chances per mille.
struct Odds {
    int drop = 0, late = 0, skip = 0;
    int twice = 100, refuse = 80;
    int worst_delay = 6;
    int calm = 1; // how much rarer structural changes are than changes of values
};

class RandomEnvironment final : public Environment {
public:
    RandomEnvironment(Random& random, const Odds& odds) : random_(random), odds_(odds) {}
    bool faulty = true;

    Deliveries deliveries(Direction) override {
        Deliveries out;
        if (!faulty) {
            out.add(random_.between(1, 2));
            return out;
        }
        for (int copies = random_.chance(odds_.twice) ? 2 : 1; copies > 0; --copies)
            if (!random_.chance(odds_.drop))
                out.add(random_.between(1, random_.chance(odds_.late) ? odds_.worst_delay : 2));
        return out;
    }
    bool backend_refuses() override { return faulty && random_.chance(odds_.refuse); }
    bool budget_skips() override { return faulty && random_.chance(odds_.skip); }
    int pick(int n) override { return random_.below(n); }

private:
    Random& random_;
    Odds odds_;
};

/// Does things to the world.
class Director {
public:
    Director(Random& random, std::uint64_t seed, Simulation& simulation, const Setting& setting, const Odds& odds)
        : random_(random), masks_(seed ^ 0x3a5c), simulation_(simulation), world_(simulation.world()), setting_(setting), odds_(odds),
          mask_chance_(masks_.one_of({0, 100, 300})), pause_chance_(masks_.one_of({0, 0, 100, 300})) {}

    void step() {
        const int actions = random_.one_of({0, 1, 1, 2, 3}) * (odds_.calm > 1 ? 2 : 1);
        for (int i = 0; i < actions; ++i)
            act();
        if (masks_.chance(mask_chance_))
            mask();
        if (masks_.chance(pause_chance_))
            pause();
    }

private:
    enum Action { spawning, setting_value, despawning, toggling, reinserting, moving, hiding, leaving, silencing, action_count };

    Action choose() {
        const int weights[action_count] = {40, 90 * odds_.calm, 20, 20 * odds_.calm, 10 * odds_.calm, 30, 30, 15, 4};
        int total = 0;
        for (const int weight : weights)
            total += weight;
        int at = random_.below(total);
        int action = 0;
        while (at >= weights[action])
            at -= weights[action++];
        return Action(action);
    }

    int free_lane(int chunk) {
        const Mask mask = world_.free_lanes(chunk);
        if (!mask)
            return -1;
        for (int skip = random_.below(count(mask)), lane = 0;; ++lane)
            if (has(mask, lane) && skip-- == 0)
                return lane;
    }

    void spawn(Slot at) {
        const int index = random_.below(8);
        if (world_.index_in_use(index))
            return;
        const int owner = random_.between(-1, setting_.clients - 1);
        const NetId id = world_.spawn(index, at, owner);
        for (const Component component : {pos, vel}) {
            world_.set(id, component, random_.below(4));
            if (random_.chance(200))
                world_.remove(id, component);
        }
        if (random_.chance(800))
            insert(id, hp);
        simulation_.trace().line("world   spawn %s at %d:%d owner %d", text(id).c_str(), at.chunk, at.lane, owner);
    }

    void insert(NetId id, Component component) {
        int side_lane = 0;
        const Entity& entity = *world_.find(id);
        if (component == hp && !entity.side) {
            if (entity.owner < 0)
                return;
            side_lane = free_lane(sidecar_of(entity.owner));
            if (side_lane < 0)
                return;
        }
        world_.insert(id, component, random_.below(4), side_lane);
    }

    /// A client sees other components of an entity.
    void mask() {
        if (world_.entities().empty())
            return;
        const NetId id = world_.entities()[masks_.below(int(world_.entities().size()))].id;
        const int client = masks_.below(setting_.clients);
        const Mask unseen = Mask(masks_.below(4)), keeps = Mask(masks_.below(4));
        world_.hide_component(id, client, unseen, keeps);
        simulation_.trace().line("world   %s hides %s from client %d, which keeps %s", text(id).c_str(), lanes_text(unseen).c_str(), client,
                                 lanes_text(keeps).c_str());
    }

    void pause() {
        if (world_.entities().empty())
            return;
        const Entity entity = world_.entities()[masks_.below(int(world_.entities().size()))];
        if (entity.paused)
            world_.resume(entity.id);
        else if (world_.can_pause(entity.id))
            world_.pause(entity.id);
        else
            return;
        simulation_.trace().line("world   %s %s", text(entity.id).c_str(), entity.paused ? "goes on" : "is paused");
    }

    void act() {
        const Action action = choose();
        if (action == spawning) {
            const int chunk = random_.below(home_chunk_count);
            if (const int lane = free_lane(chunk); lane >= 0)
                spawn({chunk, lane});
            return;
        }
        if (action == leaving || action == silencing) {
            const int client = random_.below(setting_.clients), chunk = random_.below(home_chunk_count);
            if (action == silencing)
                simulation_.network().silence(client, simulation_.tick() + random_.between(5, 19));
            else
                world_.toggle_interest(client, chunk);
            if (action == silencing)
                simulation_.trace().line("world   client %d falls silent", client);
            else
                simulation_.trace().line("world   client %d enters or leaves chunk %d", client, chunk);
            return;
        }
        if (world_.entities().empty())
            return;
        const Entity entity = world_.entities()[random_.below(int(world_.entities().size()))];
        const Component component = Component(random_.below(all_components));
        const bool present = entity.cells[component].present;
        const char* what = "nothing";
        if (action == setting_value && present) {
            world_.set(entity.id, component, random_.below(4));
            what = "changes";
        } else if (action == despawning) {
            if (entity.paused)
                world_.leave_behind(entity.id, setting_.rules(Rule::pause_lane));
            else
                world_.despawn(entity.id);
            what = "dies";
            if (random_.chance(400) && world_.is_free(entity.home)) // the lane is reused at once
                spawn(entity.home);
        } else if (action == toggling && !(entity.paused && component == hp)) { // its slots stay as they are
            if (present)
                world_.remove(entity.id, component);
            else
                insert(entity.id, component);
            what = present ? "loses a component" : "gains a component";
        } else if (action == reinserting && present) {
            world_.insert(entity.id, component, random_.below(4));
            what = "loses and gains a component";
        } else if (action == moving && !entity.paused) {
            const int chunk = random_.below(home_chunk_count);
            if (const int lane = free_lane(chunk); lane >= 0) {
                world_.move(entity.id, {chunk, lane});
                what = "moves";
            }
        } else if (action == hiding) {
            world_.toggle_hidden(entity.id, random_.below(setting_.clients));
            what = "hides or shows";
        }
        simulation_.trace().line("world   %s %s (component %d)", text(entity.id).c_str(), what, int(component));
    }

    Random& random_;
    Random masks_; // of its own
    Simulation& simulation_;
    World& world_;
    const Setting& setting_;
    Odds odds_;
    int mask_chance_, pause_chance_;
};

} // namespace

Outcome run_seed(std::uint64_t seed, Rules rules, Variants variants, bool tracing) {
    Random random(seed);
    Setting setting;
    setting.rules = rules;
    setting.variants = variants;
    setting.clients = random.one_of({2, 2, 3});
    setting.mirror_depth = random.one_of({3, 4, 8, 16});
    setting.client_ring = random.one_of({2, 3, 8, 16});
    setting.record_ring = random.one_of({5, 8, 16});
    setting.messages_per_tick = random.one_of({1, 2, 3});
    setting.max_late_ticks = random.one_of({4, 9}); // shorter than some delays, so that some are dropped for their age
    Odds odds;
    odds.skip = random.one_of({0, 200, 500});
    odds.calm = random.one_of({1, 3, 12, 60});
    odds.drop = random.one_of({50, 200, 500});
    odds.late = random.one_of({50, 200, 500});
    odds.worst_delay = random.one_of({6, 12, 18});

    RandomEnvironment environment(random, odds);
    Simulation simulation(setting, environment, tracing);
    Director director(random, seed, simulation, setting, odds);
    Outcome outcome;
    try {
        Tick quiet = 0; // ticks for which all has been well
        for (Tick tick = 1; tick <= fault_ticks + heal_ticks && (quiet < quiet_ticks || tick <= fault_ticks + echo_ticks); ++tick) {
            environment.faulty = tick <= fault_ticks;
            if (!environment.faulty)
                simulation.network().end_silence();
            simulation.run_tick([&] {
                if (environment.faulty)
                    director.step();
            });
            quiet = !environment.faulty && simulation.difference().empty() ? quiet + 1 : 0;
        }
        outcome.why = simulation.difference();
        simulation.counters().heal_ticks = simulation.tick() - fault_ticks - quiet;
        simulation.counters().worst_heal_ticks = simulation.counters().heal_ticks;
    } catch (const Violation& violation) {
        outcome.why = violation.what();
    }
    outcome.counters = simulation.counters();
    return outcome;
}

} // namespace model
