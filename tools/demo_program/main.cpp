// throng_demo: see help_text() in options.cpp.
#include "bench/traces/trace.hpp"
#include "tools/demo_program/display.hpp"
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>

using namespace throng;

namespace demo {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void on_signal(int) { interrupted = 1; }

/// Ctrl-C and SIGTERM once; the second one has its default effect.
void catch_signals() {
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

int bad_input(const std::string& problem) {
    std::fprintf(stderr, "throng_demo: %s\n", problem.c_str());
    return 2;
}

ExecutorHandle make_executor(const Options& options) {
    switch (options.executor) {
    case ExecutorKind::serial: return make_serial_executor();
    case ExecutorKind::threads: return make_threads_executor(options.workers);
    default: return make_tbb_executor(options.workers);
    }
}

void sleep_until(u64 at_ns) {
    timespec time{};
    time.tv_sec = static_cast<time_t>(at_ns / 1'000'000'000);
    time.tv_nsec = static_cast<long>(at_ns % 1'000'000'000);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR && !interrupted) {
    }
}

double seconds_between(u64 from_ns, u64 until_ns) { return static_cast<double>(until_ns - from_ns) / 1e9; }

LinkCounters since(LinkCounters now, const LinkCounters& before) {
    now.sent -= before.sent, now.lost -= before.lost, now.duplicated -= before.duplicated, now.retransmitted -= before.retransmitted;
    return now;
}

/// The run itself: real time where the machine can. Returns the figures of all of it.
Window run(const Options& options, Session& session, Display& display) {
    const u64 tick_ns = tick_us * 1000;
    const u64 ticks = std::max<u64>(1, static_cast<u64>(std::llround(options.seconds * tick_hz)));
    const u64 start_ns = wall_ns();
    u64 due_ns = start_ns, shown_ns = start_ns;
    LinkCounters down_before, up_before;
    Window window;
    display.begin_table(options);
    for (u64 tick = 0; tick < ticks && !interrupted; ++tick) {
        if (options.sabotage == throng_verify::Kind::stale && tick == ticks / 2)
            session.cut_off();
        if (tick == ticks / 2)
            session.connect_late();
        window.sums += session.step();
        due_ns += tick_ns;
        u64 now_ns = wall_ns();
        // A tick that comes late is not made up for by a burst beyond a quarter of a second.
        due_ns = std::max(due_ns, now_ns > 5 * tick_ns ? now_ns - 5 * tick_ns : 0);
        if (due_ns > now_ns && tick + 1 < ticks)
            sleep_until(due_ns);
        now_ns = wall_ns();
        if (now_ns - shown_ns < 1'000'000'000 && tick + 1 < ticks && !interrupted)
            continue;
        window.simulated_s = static_cast<double>(window.sums.ticks) / tick_hz;
        window.wall_s = seconds_between(shown_ns, now_ns);
        const LinkCounters down = session.link_totals(Direction::down), up = session.link_totals(Direction::up);
        window.down = since(down, down_before), window.up = since(up, up_before);
        display.update(options, session, window);
        down_before = down, up_before = up;
        shown_ns = now_ns;
        window = {};
    }
    display.end_table();
    Window whole;
    whole.sums = session.totals();
    whole.simulated_s = static_cast<double>(whole.sums.ticks) / tick_hz;
    whole.wall_s = seconds_between(start_ns, wall_ns());
    whole.down = session.link_totals(Direction::down), whole.up = session.link_totals(Direction::up);
    return whole;
}

/// What the tiles have to remember, in vehicles of the recording: four bytes each.
constexpr double tile_cells_max = 5e8;
double tile_cells(const Options& options, const scenarios::Trace& trace) {
    return std::ceil(options.entities / std::max(scenarios::extent(trace).mean_present, 0.5)) * trace.entity_count;
}

int failed(Display& display, const std::string& name, const std::string& text) {
    display.line("FAILED " + name + ": " + text);
    return 1;
}

int demo_main(const Options& options) {
    Display display(options.plain);
    const std::string path = options.trace_path.empty() ? THRONG_DEMO_TRACE : options.trace_path;
    display.begin_step("recording " + path.substr(path.rfind('/') + 1));
    scenarios::Trace trace;
    if (const std::string problem = scenarios::load_trace(path, trace); !problem.empty()) {
        display.passing("");
        return bad_input(problem);
    }
    if (trace.sample_count() == 0) {
        display.passing("");
        return bad_input(path + ": the recording is empty");
    }
    if (const double cells = tile_cells(options, trace); cells > tile_cells_max) {
        display.passing("");
        return bad_input(path + text_of(": too sparse to be tiled to so many vehicles: %.0f tiles of %u vehicles",
                                        cells / trace.entity_count, trace.entity_count));
    }
    display.end_step(text_of("%s, %s vehicles, %s positions, %.0f s", trace.source.c_str(), grouped(trace.entity_count).c_str(),
                             grouped(trace.sample_count()).c_str(), trace.duration_s()));

    const ExecutorHandle executor = make_executor(options);
    if (interrupted)
        return failed(display, "interrupted", "nothing was run");
    display.begin_step(text_of("tiling to %s vehicles", grouped(options.entities).c_str()));
    Session session(options, trace, *executor);
    display.end_step(text_of("%s tiles, %.1f km square, each at another time of the recording",
                             grouped(session.traffic().tile_count()).c_str(), session.traffic().edge_m() / 1000));
    if (interrupted)
        return failed(display, "interrupted", "nothing was run");
    display.begin_step("world");
    session.populate();
    display.end_step(text_of("%s vehicles", grouped(session.entities()).c_str()));
    if (interrupted)
        return failed(display, "interrupted", "nothing was run");
    display.begin_step("server and clients");
    if (const std::string problem = session.open(); !problem.empty())
        return bad_input(problem);
    const std::string late = grouped(options.clients - session.clients());
    display.end_step(text_of("%s clients and %s later, loss %.3g %%, round trip %.3g ms, jitter %.3g ms, radius %.3g m, %s, %u worker%s",
                             grouped(session.clients()).c_str(), late.c_str(), options.loss_percent, options.rtt_ms, options.jitter_ms,
                             options.radius_m, to_string(options.executor), options.workers, options.workers == 1 ? "" : "s"));

    const Window whole = run(options, session, display);
    if (interrupted)
        display.line(text_of("interrupted after %.1f of %.1f s; the verdict is on what was run", whole.simulated_s, options.seconds));
    display.summary(options, session, whole);
    if (whole.sums.ticks == 0)
        return failed(display, "interrupted", "nothing was run");

    display.begin_step("loss off, world still");
    u32 drain_ticks = 0;
    const bool drained = session.drain([&](u32 tick) {
        drain_ticks = tick;
        display.passing(text_of("loss off, world still: tick %u, %u of %u clients settled ...", tick, session.settled_clients(),
                                session.clients()));
        return true;
    });
    display.end_step(
        text_of("%s clients settled after %u ticks", grouped(session.settled_clients()).c_str(), drain_ticks + (drained ? 1 : 0)));
    display.begin_step("check");
    const Verdict verdict = session.verify(drained);
    display.end_step("every client's world against the server's");
    if (!options.json_path.empty() && !write_json(options, session, whole))
        return bad_input("cannot write " + options.json_path);
    if (!verdict)
        return failed(display, verdict.name, verdict.text);
    const auto number = [](u64 value) { return static_cast<unsigned long long>(value); };
    display.line(text_of("VERIFIED clients=%u entities=%llu components=%llu ticks=%llu", session.clients(), number(verdict.entities),
                         number(verdict.components), number(whole.sums.ticks)));
    return 0;
}

} // namespace
} // namespace demo

int main(int count, char** arguments) {
    demo::Options options;
    if (const std::string problem = demo::parse_options(count, arguments, options); !problem.empty())
        return demo::bad_input(problem);
    if (options.help) {
        std::fputs(demo::help_text().c_str(), stdout);
        return 0;
    }
    if (!options.json_path.empty()) { // find out now, not after a minute
        std::FILE* const file = std::fopen(options.json_path.c_str(), "ab");
        if (!file)
            return demo::bad_input("cannot write " + options.json_path);
        std::fclose(file);
    }
    demo::catch_signals();
    return demo::demo_main(options);
}
