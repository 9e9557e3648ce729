#pragma once
// Exhaustive mode: short scripted worlds for the critical cases. Within a window of ticks, each packet may arrive now,
// late, very late, twice or never, and the backend may refuse; every combination with at most so many deviations from
// "now, accepted" is run. Each path is then healed and must converge.
#include "tests/model/simulation.hpp"

namespace model {

struct Scenario {
    const char* name;
    const char* what;
    int clients;
    int mirror_depth;
    int client_ring;
    int record_ring;
    Tick last_faulty_tick; // the window begins at `first_faulty_tick`
    int deviations;
    bool refusals; // does the backend refuse, too?
    void (*script)(Tick tick, Simulation& simulation);
};
constexpr Tick first_faulty_tick = 5; // until then the clients have what they should

extern const std::vector<Scenario> scenarios;
const Scenario* find_scenario(const std::string& name);

/// One choice of a path: which of how many.
struct Choice {
    int taken = 0;
    int of = 1;
};
using Path = std::vector<Choice>;
std::string path_text(const Path& path); // "0,3,0,1"

struct Exploration {
    long paths = 0;
    bool complete = true; // false: stopped at `max_paths`, or at the first failure
    long failures = 0;
    Path first_failure;
    std::string why; // of the first failure
    Counters counters;
};

/// Runs all paths. `max_paths` is a safety net, not a sample.
Exploration explore(const Scenario& scenario, Rules rules, Variants variants, long max_paths, bool stop_at_failure);
/// Runs one path; choices beyond its end are "now".
Outcome run_path(const Scenario& scenario, const std::vector<int>& path, Rules rules, Variants variants, bool tracing);

} // namespace model
