#include "bench/program/setup.hpp"
#include <algorithm>
#include <cstdio>

namespace bench {

Plan plan_of(const Options& options) {
    const scenarios::Scenario& s = *options.scenario;
    Plan plan;
    plan.warmup_ticks = options.quick ? s.quick_warmup_ticks : s.warmup_ticks;
    const u32 measured = options.quick ? s.quick_measured_ticks : s.measured_ticks;
    plan.windows = std::max(1u, std::min(options.repeat, measured / 4));
    plan.window_ticks = measured / plan.windows;
    return plan;
}

throng::ExecutorHandle make_executor(const std::string& kind, u32 workers) {
    if (kind == "threads")
        return throng::make_threads_executor(workers);
    if (kind == "tbb")
        return throng::make_tbb_executor(workers);
    return throng::make_serial_executor();
}

u32 client_count(const Options& options) {
    return options.clients ? options.clients : options.scenario->clients;
}

throng::LinkConfig link_of(const Options& options, u32 client) {
    throng::LinkConfig link;
    link.loss_percent = options.scenario->loss_percent;
    // A message sent at tick t is looked at in whole ticks: half a tick less, so that the round trip is the scenario's.
    const u32 rtt = scenarios::rtt_ticks(*options.scenario, options.seed, client);
    const u32 tick = static_cast<u32>(tick_us(*options.scenario));
    link.delay_us = rtt * tick / 2 > tick / 4 ? rtt * tick / 2 - tick / 4 : 0;
    return link;
}

throng::LoopbackConfig network_of(const Options& options) {
    throng::LoopbackConfig config;
    config.seed = options.seed;
    config.client_max = client_count(options);
    config.unreliable.queue_messages_max = 4096;
    config.unreliable.queue_bytes_max = 1u << 23;
    return config;
}

std::unique_ptr<scenarios::Motion> make_motion(const Options& options, scenarios::Trace& trace) {
    const scenarios::Scenario& s = *options.scenario;
    if (s.source == scenarios::Source::synthetic)
        return std::make_unique<scenarios::SyntheticMotion>(s, options.seed);
    const std::string problem = options.traces.empty() ? "no traces directory (--traces DIR, $THRONG_TRACES or ../shared/data)"
                                                       : scenarios::load_trace(options.traces + "/" + s.trace_file, trace);
    if (!problem.empty()) {
        std::fprintf(stderr, "%s: %s\n", s.name, problem.c_str());
        return nullptr;
    }
    return std::make_unique<scenarios::TraceMotion>(trace, scenarios::TiledConfig{.entity_count = s.entities, .seed = options.seed},
                                                    s.tick_hz);
}

void describe(scenarios::Run& run, const Options& options, const char* engine) {
    run.scenario = options.scenario->name;
    run.executor = options.executor;
    run.engine = engine;
    run.workers = options.workers;
    run.seed = options.seed;
    run.quick = options.quick;
    run.repeat = plan_of(options).windows;
}

} // namespace bench
