#pragma once
// The demo's command line.
#include "bench/verify.hpp"
#include "throng/base.hpp"
#include <string>

namespace demo {

using throng::u32;
using throng::u64;

enum class ExecutorKind : throng::u8 { serial, threads, tbb };
const char* to_string(ExecutorKind kind);

struct Options {
    u32 entities = 100'000;
    u32 clients = 300;
    double seconds = 45; // simulated
    double loss_percent = 2;
    double rtt_ms = 100;
    double jitter_ms = 20; // each way: every packet takes rtt / 2 + [0, jitter]
    u32 workers = 0;       // 0: as many as the machine has cores
    ExecutorKind executor = ExecutorKind::tbb;
    u64 seed = 1;
    std::string trace_path = {}; // empty: the project's own recording
    double radius_m = 60;
    std::string json_path = {};
    throng_verify::Kind sabotage = throng_verify::Kind::none;
    bool plain = false;
    bool help = false;
};

/// Empty, or one line that says what is wrong. `workers` is never 0 afterwards.
std::string parse_options(int count, const char* const* arguments, Options& out);
std::string help_text();

} // namespace demo
