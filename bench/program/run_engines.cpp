#include "bench/program/engine.hpp"
#include <algorithm>
#include <span>

namespace bench {
namespace {

struct Side {
    Options options;
    const char* name;
    std::unique_ptr<Engine> engine = nullptr;
    std::vector<scenarios::Run> windows = {};
};

/// Every engine is the first one equally often: who follows another engine's clients finds other caches.
void tick_together(std::span<Side> sides, u32 turn) {
    const auto each = [&](auto&& f) {
        for (std::size_t i = 0; i < sides.size(); ++i)
            f(*sides[(i + turn) % sides.size()].engine);
    };
    each([](Engine& engine) { engine.move_world(); });
    each([](Engine& engine) { engine.serve(); });
    each([](Engine& engine) { engine.drive_clients(); });
}

/// The median over the windows that both have of how many times `figure` of `other` is that of `first`.
double ratio(const Side& other, const Side& first, const char* figure) {
    std::vector<double> ratios;
    for (std::size_t back = 1; back <= other.windows.size(); ++back) {
        const double *above = other.windows[other.windows.size() - back].get(figure);
        const double* below = first.windows[first.windows.size() - back].get(figure);
        if (above && below && *below > 0)
            ratios.push_back(*above / *below);
    }
    return ratios.empty() ? 0 : scenarios::median(std::move(ratios));
}

/// How many times as long a tick takes on one worker. Ticks are whole ones, the world and the clients included, in blocks that begin with
/// some that do not count: what another core has touched last is dear to fetch, and one worker alone would be blamed for it.
double speedup(Engine& engine) {
    constexpr u32 blocks = 6, block_ticks = 5, uncounted = 2;
    std::vector<double> ms[2]; // by several workers, by one
    for (u32 block = 0; block < blocks; ++block) {
        engine.work_alone(block % 2 != 0);
        for (u32 i = 0; i < block_ticks; ++i) {
            engine.open_window(1);
            engine.tick();
            const scenarios::Run run = engine.close_window();
            if (i >= uncounted)
                ms[block % 2].push_back(*run.get("tick_ms_p50"));
        }
    }
    return scenarios::median(std::move(ms[1])) / scenarios::median(std::move(ms[0]));
}

bool add(std::vector<Side>& sides, const char* name, const Options& options) {
    Side side{options, name};
    sides.push_back(std::move(side)); // engines refer to their options
    Side& made = sides.back();
    made.engine = made.options.engine == "naive" ? make_naive_engine(made.options) : make_throng_engine(made.options);
    return made.engine != nullptr;
}

} // namespace

std::vector<scenarios::Run> run_engines(const Options& options, bool& failed) {
    const scenarios::Scenario& scenario = *options.scenario;
    std::vector<Side> sides;
    sides.reserve(2);
    bool ready = add(sides, options.engine.c_str(), options);
    Side& first = sides[0];
    scenarios::Run whole;
    if (ready && first.engine->run_whole(whole, failed)) {
        first.engine->finish(whole, failed);
        describe(whole, options, first.name);
        return {whole};
    }
    const Plan plan = plan_of(options);
    const auto warm_up = [&](Side& side, u32 ticks) {
        side.engine->connect();
        for (u32 i = 0; i < ticks; ++i)
            side.engine->tick();
    };
    Side* naive = nullptr;
    u32 compared = 0; // the windows at the end that the naive engine takes part in: at least so many ticks
    if (ready) {
        warm_up(first, plan.warmup_ticks);
        const bool rests = scenario.source == scenarios::Source::synthetic && scenario.moving_percent == 0;
        if (options.baselines && options.engine != "naive" && !scenario.budget_bytes && !rests) {
            Options other = options;
            other.hash = false;
            other.engine = "naive";
            ready = add(sides, "naive", other);
            naive = &sides.back();
            compared = std::min(plan.windows, (scenario.quick_measured_ticks + plan.window_ticks - 1) / plan.window_ticks);
        }
    }
    for (u32 w = 0; ready && w < plan.windows; ++w) {
        const bool alone = !naive || w + compared < plan.windows;
        if (!alone && naive->windows.empty())
            warm_up(*naive, std::min(plan.warmup_ticks, scenario.quick_warmup_ticks));
        const std::span<Side> together(sides.data(), alone ? 1 : sides.size());
        for (Side& side : together)
            side.engine->open_window(plan.window_ticks);
        for (u32 i = 0; i < plan.window_ticks; ++i)
            tick_together(together, w * plan.window_ticks + i);
        for (Side& side : together)
            side.windows.push_back(side.engine->close_window());
    }
    failed |= !ready;
    if (!ready)
        return {};
    scenarios::Run run = scenarios::median_run(first.windows);
    first.engine->finish(run, failed); // before ticks that other runs do not have
    if (options.baselines && options.engine != "naive" && options.workers > 1)
        run.set("speedup", speedup(*first.engine));
    describe(run, first.options, first.name);
    std::vector<scenarios::Run> runs;
    if (naive) {
        run.set("naive_ratio", ratio(*naive, first, "ns_per_pair"));
        run.set("naive_bytes_ratio", ratio(*naive, first, "bytes_per_pair"));
        runs.push_back(scenarios::median_run(naive->windows));
        describe(runs.back(), naive->options, naive->name);
    }
    runs.insert(runs.begin(), std::move(run));
    return runs;
}

} // namespace bench
