#include "tools/demo_program/display.hpp"
#include "bench/figures.hpp"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

using namespace throng;

namespace demo {
namespace {

constexpr double raw_bytes = 13.1; // the bit-packed state of a vehicle, without label and leader

/// What the table shows, worked out.
struct Figures {
    double tick_ms = 0, pairs = 0, bytes_per_client_s = 0, bytes_per_pair = 0, ns_per_pair = 0;
    double shared = 0, zstd = 0, compression = 0, loss_down = 0, loss_up = 0, baseline_age = 0, real_time = 0;
};

double loss_of(const LinkCounters& link) { return 100 * ratio(link.lost, link.sent + link.duplicated + link.retransmitted); }

Figures figures_of(const Options& options, const Window& window) {
    const Sums& sums = window.sums;
    Figures f;
    f.tick_ms = sums.per_tick(sums.wall_ns) / 1e6;
    f.pairs = sums.per_tick(sums.pairs);
    f.bytes_per_client_s = sums.per_tick(sums.bytes) * tick_hz / options.clients;
    f.bytes_per_pair = ratio(sums.bytes, sums.pairs);
    f.ns_per_pair = ratio(sums.cpu_ns, sums.pairs);
    f.shared = 100 * ratio(sums.shared_bytes, sums.payload_bytes);
    f.zstd = 100 * ratio(sums.zstd_bytes, sums.payload_bytes);
    f.compression = f.bytes_per_pair > 0 ? raw_bytes / f.bytes_per_pair : 0;
    f.loss_down = loss_of(window.down);
    f.loss_up = loss_of(window.up);
    f.baseline_age = ratio(sums.baseline_age, sums.delta_sections);
    f.real_time = window.wall_s > 0 ? std::min(100.0, 100 * window.simulated_s / window.wall_s) : 0;
    if (f.real_time > 99)
        f.real_time = 100; // the window's ends do not fall on ticks
    return f;
}

u32 terminal_columns() {
    winsize size{};
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 10 ? size.ws_col : 100;
}

} // namespace

std::string grouped(double value) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.0f", std::max(value, 0.0));
    const std::size_t size = std::strlen(digits);
    std::string text;
    for (std::size_t i = 0; i < size; ++i) {
        if (i > 0 && (size - i) % 3 == 0)
            text += ',';
        text += digits[i];
    }
    return text;
}

Display::Display(bool plain) {
    const char* const terminal = std::getenv("TERM");
    in_place_ = !plain && isatty(STDOUT_FILENO) && terminal && std::strcmp(terminal, "dumb") != 0;
}

void Display::begin_step(const std::string& name) {
    step_ = name;
    step_start_ns_ = wall_ns();
    passing(name + " ...");
}

void Display::end_step(const std::string& result) {
    const double seconds = static_cast<double>(wall_ns() - step_start_ns_) / 1e9;
    line(text_of("%s: %s (%.1f s)", step_.c_str(), result.c_str(), seconds));
}

void Display::passing(const std::string& text) {
    if (!in_place_)
        return;
    std::printf("\r\x1b[K%s", text.substr(0, terminal_columns() - 1).c_str());
    std::fflush(stdout);
    passing_shown_ = true;
}

void Display::line(const std::string& text) {
    std::printf("%s%s\n", passing_shown_ ? "\r\x1b[K" : "", text.c_str());
    std::fflush(stdout);
    passing_shown_ = false;
}

void Display::begin_table(const Options& options) {
    if (in_place_)
        return;
    line(text_of("each line, of %u clients: simulated time, percent of real time, wall ms of a server tick [of each stage], averages",
                 options.clients));
}

void Display::update(const Options& options, const Session& session, const Window& window) {
    if (window.sums.ticks == 0)
        return;
    if (in_place_)
        table(options, session, window);
    else
        plain_line(options, session, window);
}

void Display::plain_line(const Options& options, const Session& session, const Window& window) {
    const Figures f = figures_of(options, window);
    const double simulated_s = static_cast<double>(session.totals().ticks) / tick_hz;
    std::string text = text_of("%6.1f s %3.0f%% tick %.1f ms [", simulated_s, f.real_time, f.tick_ms);
    for (u32 s = 0; s < stage_count; ++s)
        text += text_of("%s%s %.2f", s ? " " : "", to_string(static_cast<Stage>(s)),
                        window.sums.per_tick(window.sums.stages[s].wall_ns) / 1e6);
    text += text_of("] entities %u clients %u pairs %.0f bytes/client/s %.0f bytes/pair %.2f ns/pair %.0f ", session.entities(),
                    session.joined_clients(), f.pairs, f.bytes_per_client_s, f.bytes_per_pair, f.ns_per_pair);
    text += text_of("shared %.0f%% zstd %.0f%% compression %.1fx loss %.1f%%/%.1f%% baseline age %.1f", f.shared, f.zstd, f.compression,
                    f.loss_down, f.loss_up, f.baseline_age);
    line(text);
}

void Display::table(const Options& options, const Session& session, const Window& window) {
    const Figures f = figures_of(options, window);
    const Sums& sums = window.sums;
    const auto ms = [&](u64 ns) { return sums.per_tick(ns) / 1e6; };
    std::vector<std::string> lines;
    lines.push_back(text_of("throng  %.1f of %.0f s, %.0f %% of real time, %s with %u worker%s",
                            static_cast<double>(session.totals().ticks) / tick_hz, options.seconds, f.real_time,
                            to_string(options.executor), options.workers, options.workers == 1 ? "" : "s"));
    lines.push_back("");
    lines.push_back(text_of("%-12s%10s%10s%10s", "ms a tick", "wall", "cpu", "busiest"));
    u64 busiest_ns = 0;
    for (u32 s = 0; s < stage_count; ++s) {
        const StageTime& stage = sums.stages[s];
        busiest_ns += stage.cpu_max_ns;
        lines.push_back(text_of("%-12s%10.2f%10.2f%10.2f", to_string(static_cast<Stage>(s)), ms(stage.wall_ns), ms(stage.cpu_ns),
                                ms(stage.cpu_max_ns)));
    }
    lines.push_back(text_of("%-12s%10.2f%10.2f%10.2f", "server", ms(sums.wall_ns), ms(sums.cpu_ns), ms(busiest_ns)));
    lines.push_back(text_of("%-12s%10.2f", "world", ms(sums.world_wall_ns)));
    lines.push_back(text_of("%-12s%10.2f%10.2f", "clients", ms(sums.clients_wall_ns), ms(sums.clients_cpu_ns)));

    // A second column of figures beside the stages.
    const std::string beside[] = {
        text_of("entities       %10s", grouped(session.entities()).c_str()),
        text_of("clients        %10s", grouped(session.joined_clients()).c_str()),
        text_of("pairs a tick   %10s", grouped(f.pairs).c_str()),
        text_of("bytes/client/s %10s", grouped(f.bytes_per_client_s).c_str()),
        text_of("bytes a pair   %10.2f", f.bytes_per_pair),
        text_of("ns a pair      %10.0f", f.ns_per_pair),
        text_of("shared         %8.0f %%", f.shared),
        text_of("zstd           %8.0f %%", f.zstd),
        text_of("compression    %9.1fx", f.compression),
        text_of("loss down      %8.1f %%", f.loss_down),
        text_of("loss up        %8.1f %%", f.loss_up),
        text_of("baseline age   %10.1f ticks", f.baseline_age),
    };
    for (std::size_t i = 0; i < std::size(beside); ++i) {
        std::string& left = lines[i + 3 < lines.size() ? i + 3 : lines.size() - 1];
        left.resize(std::max<std::size_t>(left.size(), 48), ' ');
        left += beside[i];
    }

    const u32 columns = terminal_columns();
    std::string out = passing_shown_ ? "\r\x1b[K" : "";
    passing_shown_ = false;
    if (table_lines_ > 0)
        out += text_of("\x1b[%uA", table_lines_);
    for (const std::string& text : lines)
        out += text.substr(0, columns - 1) + "\x1b[K\n";
    table_lines_ = static_cast<u32>(lines.size());
    std::fputs(out.c_str(), stdout);
    std::fflush(stdout);
}

void Display::end_table() { table_lines_ = 0; }

void Display::summary(const Options& options, const Session& session, const Window& whole) {
    const Figures f = figures_of(options, whole);
    if (whole.sums.ticks == 0)
        return;
    line(text_of("run: %llu ticks, %.0f %% of real time, server tick %.1f ms (p99 %.1f ms of CPU on the busiest worker)",
                 static_cast<unsigned long long>(whole.sums.ticks), f.real_time, f.tick_ms,
                 scenarios::percentile(session.tick_ms(), 0.99)));
    line(text_of("     %s pairs a tick, %.1f entities at a client, %s bytes/client/s, %.2f bytes and %.0f ns a pair",
                 grouped(f.pairs).c_str(), session.mean_visible(), grouped(f.bytes_per_client_s).c_str(), f.bytes_per_pair, f.ns_per_pair));
    line(text_of("     shared %.0f %%, zstd %.0f %%, compression %.1fx, loss %.1f %% down %.1f %% up, baseline age %.1f ticks", f.shared,
                 f.zstd, f.compression, f.loss_down, f.loss_up, f.baseline_age));
    const Horn horn = session.horn();
    const auto number = [](u64 value) { return static_cast<unsigned long long>(value); };
    line(text_of("     %u passengers in %llu rides, %u owners see what they earn; horns: %llu sent, %llu heard by the server, ",
                 session.passengers().riding(), number(session.passengers().rides()), session.purses_seen(), number(horn.sent),
                 number(horn.heard_by_server)) +
         text_of("%llu by clients", number(horn.heard_by_clients)));
    static constexpr const char* limit_names[] = {"chunks",        "records", "backend_refused", "budget",  "opaque",
                                                  "oversize",      "net_ids", "position",        "clients", "typed_backlog",
                                                  "typed_receive", "lasting", "clusters"};
    std::string reached;
    for (u32 bit = 0; bit < std::size(limit_names); ++bit)
        if (whole.sums.limits >> bit & 1)
            reached += text_of(" %s", limit_names[bit]);
    if (!reached.empty())
        line("     limits reached:" + reached);
}

bool write_json(const Options& options, Session& session, const Window& whole) {
    const Sums& sums = whole.sums;
    const Figures f = figures_of(options, whole);
    scenarios::Run run;
    run.scenario = "demo";
    run.executor = to_string(options.executor);
    run.workers = options.workers;
    run.seed = options.seed;
    run.machine = scenarios::machine_description();
    run.set("ticks", static_cast<double>(sums.ticks));
    if (sums.ticks > 0) {
        run.set("pairs", f.pairs);
        run.set("sent_lanes", sums.per_tick(sums.sent_lanes));
        run.set("bytes_per_tick", sums.per_tick(sums.bytes));
        run.set("kbps", f.bytes_per_client_s * 8 / 1000);
        run.set("encodes", sums.per_tick(sums.encodes));
        run.set("distinct_keys", sums.per_tick(sums.keys));
        run.set("client_bytes_max", sums.client_bytes_max);
        run.set("tick_ms_p50", scenarios::percentile(session.tick_ms(), 0.5));
        run.set("tick_ms_p99", scenarios::percentile(session.tick_ms(), 0.99));
        run.set("tick_ms_max", scenarios::percentile(session.tick_ms(), 1));
    }
    if (sums.pairs > 0) {
        run.set("bytes_per_pair", f.bytes_per_pair);
        run.set("ns_per_pair", f.ns_per_pair);
    }
    if (sums.payload_bytes > 0) {
        run.set("shared_share", f.shared / 100);
        run.set("zstd_share", f.zstd / 100);
    }
    const ServerMemory memory = session.server().memory();
    run.set("bytes_per_client_chunk", static_cast<double>(memory.client_chunk_bytes));
    run.set("bytes_side_tables", static_cast<double>(memory.side_table_bytes));
    run.set("peak_rss_mib", scenarios::peak_rss_mib());
    for (u32 s = 0; s < stage_count && sums.ticks > 0; ++s)
        run.stages.push_back({to_string(static_cast<Stage>(s)), sums.per_tick(sums.stages[s].cpu_ns), sums.per_tick(sums.stages[s].wall_ns),
                              sums.stages[s].cpu_max_ns < sums.stages[s].cpu_ns});
    return scenarios::write_file(options.json_path, scenarios::to_json({run}));
}

} // namespace demo
