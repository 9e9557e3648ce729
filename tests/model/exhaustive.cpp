#include "tests/model/exhaustive.hpp"

namespace model {

namespace {

constexpr int late_ticks = 3, very_late_ticks = 8;
constexpr Tick heal_limit_ticks = 60;
constexpr Tick quiet_ticks = 3;

/// Follows a path, and extends it by "now" where it ends.
class PathEnvironment final : public Environment {
public:
    PathEnvironment(Path& path, int deviations, bool refusals) : path_(path), deviations_left_(deviations), refusals_(refusals) {}
    bool window_open = false;

    Deliveries deliveries(Direction direction) override {
        Deliveries out;
        switch (choose(direction == Direction::to_client ? 5 : 3)) {
        case 0: out.add(1); break;
        case 1: break; // dropped
        case 2: out.add(late_ticks); break;
        case 3: out.add(very_late_ticks); break;
        default:
            out.add(1);
            out.add(late_ticks);
        }
        return out;
    }
    bool backend_refuses() override { return refusals_ && choose(2) == 1; }
    bool budget_skips() override { return false; }
    int pick(int n) override { return n - 1; }

private:
    int choose(int of) {
        if (!window_open || deviations_left_ == 0)
            return 0;
        if (at_ == path_.size())
            path_.push_back({0, of});
        const int taken = path_[at_++].taken;
        deviations_left_ -= taken != 0;
        return taken;
    }

    Path& path_;
    std::size_t at_ = 0;
    int deviations_left_;
    bool refusals_;
};

Outcome run(const Scenario& scenario, Path& path, Rules rules, Variants variants, bool tracing) {
    Setting setting;
    setting.rules = rules;
    setting.variants = variants;
    setting.clients = scenario.clients;
    setting.mirror_depth = scenario.mirror_depth;
    setting.client_ring = scenario.client_ring;
    setting.record_ring = scenario.record_ring;
    setting.messages_per_tick = 1;
    setting.max_late_ticks = 3;
    setting.loss_timeout_ticks = 4;
    PathEnvironment environment(path, scenario.deviations, scenario.refusals);
    Simulation simulation(setting, environment, tracing);
    Outcome outcome;
    try {
        Tick quiet = 0;
        const Tick heal = scenario.last_faulty_tick + very_late_ticks;
        for (Tick tick = 1; tick <= heal + heal_limit_ticks && quiet < quiet_ticks; ++tick) {
            environment.window_open = tick >= first_faulty_tick && tick <= scenario.last_faulty_tick;
            simulation.run_tick([&] {
                if (tick <= heal)
                    scenario.script(tick, simulation);
            });
            quiet = tick > heal && simulation.difference().empty() ? quiet + 1 : 0;
        }
        outcome.why = simulation.difference();
        simulation.counters().heal_ticks = simulation.tick() - heal - quiet;
        simulation.counters().worst_heal_ticks = simulation.counters().heal_ticks;
    } catch (const Violation& violation) {
        outcome.why = violation.what();
    }
    outcome.counters = simulation.counters();
    return outcome;
}

/// The next path in depth-first order; false after the last one.
bool advance(Path& path) {
    while (!path.empty() && path.back().taken + 1 == path.back().of)
        path.pop_back();
    if (path.empty())
        return false;
    ++path.back().taken;
    return true;
}

} // namespace

std::string path_text(const Path& path) {
    std::string out;
    for (const Choice& choice : path) {
        if (!out.empty())
            out += ',';
        out += std::to_string(choice.taken);
    }
    return out;
}

Exploration explore(const Scenario& scenario, Rules rules, Variants variants, long max_paths, bool stop_at_failure) {
    Exploration result;
    Path path;
    do {
        if (result.paths == max_paths || (result.failures && stop_at_failure)) {
            result.complete = false;
            break;
        }
        const Outcome outcome = run(scenario, path, rules, variants, false);
        ++result.paths;
        result.counters.add(outcome.counters);
        if (outcome.failed() && result.failures++ == 0) {
            result.first_failure = path;
            result.why = outcome.why;
        }
    } while (advance(path));
    return result;
}

Outcome run_path(const Scenario& scenario, const std::vector<int>& taken, Rules rules, Variants variants, bool tracing) {
    Path path;
    for (const int choice : taken)
        path.push_back({choice, choice + 1});
    return run(scenario, path, rules, variants, tracing);
}

} // namespace model
