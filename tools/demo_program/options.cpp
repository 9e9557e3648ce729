#include "tools/demo_program/options.hpp"
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace demo {
namespace {

constexpr u32 workers_max = 256;

u32 core_count() { return std::clamp(std::thread::hardware_concurrency(), 1u, workers_max); }

/// A decimal number that is the whole text, in [low, high].
bool parse_real(const char* text, double low, double high, double& out) {
    char* end = nullptr;
    errno = 0;
    const double value = std::strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !std::isfinite(value) || value < low || value > high)
        return false;
    out = value;
    return true;
}

bool parse_whole(const char* text, u64 low, u64 high, u64& out) {
    char* end = nullptr;
    errno = 0;
    const u64 value = std::strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value < low || value > high)
        return false;
    out = value;
    return true;
}

std::string out_of_range(const std::string& name, const char* text, double low, double high) {
    char line[256];
    std::snprintf(line, sizeof line, "%s takes a number from %.9g to %.9g, not '%.60s'", name.c_str(), low, high, text);
    return line;
}

struct WholeOption {
    const char* name;
    u64 low, high;
    u32 Options::*member;
};
constexpr WholeOption whole_options[] = {
    {"--entities", 1, 1'000'000, &Options::entities},
    {"--clients", 1, 10'000, &Options::clients},
    {"--workers", 1, workers_max, &Options::workers},
};

struct RealOption {
    const char* name;
    double low, high;
    double Options::*member;
};
constexpr RealOption real_options[] = {
    {"--seconds", 0.05, 86'400, &Options::seconds}, {"--loss", 0, 50, &Options::loss_percent},
    {"--rtt", 0, 2000, &Options::rtt_ms},           {"--jitter", 0, 1000, &Options::jitter_ms},
    {"--radius", 10, 1000, &Options::radius_m},
};

/// Empty, or the problem. `known` is false when there is no such option.
std::string apply(const std::string& name, const char* value, Options& out, bool& known) {
    for (const WholeOption& option : whole_options)
        if (name == option.name) {
            u64 number = 0;
            if (!parse_whole(value, option.low, option.high, number))
                return out_of_range(name, value, static_cast<double>(option.low), static_cast<double>(option.high));
            out.*option.member = static_cast<u32>(number);
            return {};
        }
    for (const RealOption& option : real_options)
        if (name == option.name)
            return parse_real(value, option.low, option.high, out.*option.member) ? std::string()
                                                                                  : out_of_range(name, value, option.low, option.high);
    if (name == "--seed")
        return parse_whole(value, 0, ~u64(0), out.seed)
                   ? std::string()
                   : "--seed takes a whole number of at most 64 bits, not '" + std::string(value) + "'";
    if (name == "--executor") {
        for (const ExecutorKind kind : {ExecutorKind::serial, ExecutorKind::threads, ExecutorKind::tbb})
            if (std::strcmp(value, to_string(kind)) == 0) {
                out.executor = kind;
                return {};
            }
        return "--executor is serial, threads or tbb, not '" + std::string(value) + "'";
    }
    if (name == "--sabotage") {
        out.sabotage = throng_verify::sabotage_kind(value);
        return out.sabotage != throng_verify::Kind::none
                   ? std::string()
                   : "--sabotage is value, ghost, missing, reference or stale, not '" + std::string(value) + "'";
    }
    if (name == "--trace" || name == "--json") {
        (name == "--trace" ? out.trace_path : out.json_path) = value;
        return *value ? std::string() : name + " takes a file name";
    }
    known = false;
    return "unknown option '" + name + "' (--help lists them)";
}

bool takes_value(const std::string& name) {
    Options scratch;
    bool known = true;
    (void)apply(name, "", scratch, known);
    return known;
}

} // namespace

const char* to_string(ExecutorKind kind) {
    constexpr const char* names[] = {"serial", "threads", "tbb"};
    return names[static_cast<u32>(kind)];
}

std::string parse_options(int count, const char* const* arguments, Options& out) {
    for (int i = 1; i < count; ++i) {
        std::string name = arguments[i];
        if (name == "--help" || name == "-h") {
            out.help = true;
            return {};
        }
        if (name == "--plain") {
            out.plain = true;
            continue;
        }
        const char* value = nullptr;
        if (const std::size_t equals = name.find('='); equals != std::string::npos && name.rfind("--", 0) == 0) {
            value = arguments[i] + equals + 1;
            name.resize(equals);
        }
        if (!value && takes_value(name)) {
            if (i + 1 == count)
                return name + " takes a value";
            value = arguments[++i];
        }
        bool known = true;
        if (std::string problem = apply(name, value ? value : "", out, known); !problem.empty())
            return problem;
    }
    if (out.executor == ExecutorKind::serial) {
        if (out.workers > 1)
            return "--executor serial has one worker";
        out.workers = 1;
    }
    if (out.workers == 0)
        out.workers = core_count();
    return {};
}

std::string help_text() {
    return R"(usage: throng_demo [option ...]

Replicates a recording of city traffic, tiled to many vehicles, from one server to many clients over simulated lossy links,
in this process. Each client follows a vehicle and sees what is near it. It runs at 20 ticks a second in real time where the
machine can, else as fast as it can. At the end the links become perfect and the world stands still until everything has
arrived; then the world of every client is compared with the server's, component by component. Passengers get on and off the
vehicles that they are related to; what an owner earns only the owner sees; horns are heard by all who see the vehicle; a tenth
of the clients joins in the middle.

  --entities N      vehicles at a time (100000)
  --clients N       (300)
  --seconds S       simulated seconds (45)
  --radius M        what a client sees around its vehicle, in metres (60)
  --loss PERCENT    of packets, each way (2)
  --rtt MS          round trip time (100)
  --jitter MS       each packet is late by up to so much more (20)
  --workers N       threads (one a core)
  --executor KIND   serial, threads or tbb (tbb)
  --seed N          of the tiles, labels and link faults (1)
  --trace FILE      another recording: SUMO FCD XML, CSV (id,time,x,y[,z,heading,speed]), .throngtrace, ...; also with zstd
  --json FILE       writes the run's figures, in the form of bench/bench.schema.json
  --sabotage KIND   spoils a client, to show that the check finds it: value, ghost, missing, reference, stale
  --plain           plain lines, also on a terminal
  --help

The last line is "VERIFIED ..." or "FAILED name: first difference". Exit codes: 0 verified, 1 a check failed, 2 bad options,
an unreadable or malformed recording, or no way to write the JSON file (one line on stderr). Ctrl-C ends the run early: what
was run is still checked, and the exit code is that of the check (1 if nothing was run yet). A second Ctrl-C kills.

The figures. pairs: (client, vehicle) with news, per tick. ns a pair: CPU time of all workers in all stages of the server.
shared: payload bytes that came from an encoding used by several clients. zstd: payload bytes that zstd made. compression:
13.1 bytes, the plain bit-packed state of a vehicle without label and leader, to bytes a pair. baseline age: how old, in
ticks, the acknowledged states are that changes are sent against.
)";
}

} // namespace demo
