#pragma once
// What the engines' runs of the bench program have in common: options, executors, links, motion.
#include "bench/figures.hpp"
#include "bench/scenarios.hpp"
#include "throng/loopback.hpp"
#include <memory>
#include <string>
#include <vector>

namespace bench {

using throng::u32;
using throng::u64;

struct Options {
    const scenarios::Scenario* scenario = nullptr;
    u32 workers = 1;
    std::string executor = "serial";
    std::string engine = "throng";
    u32 repeat = 5;
    u64 seed = 1;
    bool quick = false;
    bool baselines = true;          // also the naive engine and, with several workers, one worker
    bool hash = false;              // output_hash; costs time in the flush stage
    u32 clients = 0;                // 0: the scenario's
    double cell_m = 0;              // 0: the scenario's
    u32 history_ticks = 16;
    std::string compression = "automatic";
    std::string traces;             // directory
    throng::Bytes dictionary = {};
};

/// Ticks of a run. The measured ticks are split into `repeat` windows of one warmed run; medians are over windows.
struct Plan {
    u32 warmup_ticks = 200, window_ticks = 20, windows = 5;
};
Plan plan_of(const Options& options);

throng::ExecutorHandle make_executor(const std::string& kind, u32 workers);
u32 client_count(const Options& options);
/// Both directions of one client's links: half of its round trip each way, and the scenario's loss.
throng::LinkConfig link_of(const Options& options, u32 client);
throng::LoopbackConfig network_of(const Options& options);

/// Null, with a line on stderr, when a trace is not there or is malformed. The motion refers to the trace.
std::unique_ptr<scenarios::Motion> make_motion(const Options& options, scenarios::Trace& trace);

inline constexpr throng::TimeUs tick_us(const scenarios::Scenario& scenario) { return 1'000'000 / scenario.tick_hz; }

/// Fills in what a run was made with.
void describe(scenarios::Run& run, const Options& options, const char* engine);

/// The chosen engine's run, and after it, if options.baselines, the naive engine's on the same ticks. Figures are medians over windows,
/// ratios medians of those in each window. Prints what is wrong to stderr and sets `failed`; empty if nothing could run.
std::vector<scenarios::Run> run_engines(const Options& options, bool& failed);

} // namespace bench
