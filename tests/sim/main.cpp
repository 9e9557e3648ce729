// throng_sim: the seeded simulator of replication. See --help.
#include "src/base/seeded_bug.hpp"
#include "tests/sim/simulation.hpp"
#include "throng/assert.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

using namespace throng;
using namespace throng_sim;

namespace {

constexpr const char* usage = R"(usage: throng_sim [options]

Runs random worlds over bad networks, one per seed, lets them heal, and checks that every client shows what it should.

  --seeds N          number of seeds (default 200)
  --first K          first seed (default 0)
  --seed N           this seed only
  --trace            tell what happens (with --seed)
  --executor KIND    serial (default), threads, tbb
  --workers N        of threads and tbb (default 2)
  --same-bytes N     run every Nth seed again with each executor (serial, and threads and tbb with 1, 2 and 4 workers) and compare
                     all bytes sent (default 0: never); without tbb if THRONG_NO_TBB is set
  --ticks N          of the fault phase (default 120)
  --sabotage KIND    damage a client at the end: value, ghost, missing, reference, stale; must fail with that name
  --bug NAME         switch on a defect (only in builds with -Dseeded_bugs=true; "list" lists them); a seed must fail
  --help             this text

Exit codes: 0 all seeds passed, 1 a seed failed (the command that repeats it is printed), 2 bad options.
)";

constexpr const char* bug_names[] = {"none",
                                     "ack_before_apply",
                                     "lost_gone",
                                     "reused_lane",
                                     "promotion_without_changed",
                                     "off_by_one_baseline",
                                     "dropped_limbo_lane",
                                     "resurrected_entity",
                                     "wrong_reference",
                                     "torn_cluster",
                                     "overtaking_message",
                                     "early_message",
                                     "forgotten_exception"};
static_assert(std::size(bug_names) == static_cast<std::size_t>(SeededBug::count));

struct Arguments {
    u64 first = 0, count = 200;
    bool single = false;
    std::string executor = "serial";
    u32 workers = 2, same_bytes = 0;
    std::string sabotage, bug;
    Options options;
};

[[noreturn]] void bad_option(const char* what, const char* value) {
    std::fprintf(stderr, "throng_sim: %s '%s' (see --help)\n", what, value);
    std::exit(2);
}

u64 number(const char* text, u64 most) {
    char* end = nullptr;
    const u64 value = std::strtoull(text, &end, 10);
    if (!*text || *end || *text == '-' || value > most)
        bad_option("not a number in range:", text);
    return value;
}

void switch_on(const std::string& name) {
#ifdef THRONG_SEEDED_BUGS
    for (u32 i = 1; i < static_cast<u32>(SeededBug::count); ++i) {
        if (name == "list")
            std::puts(bug_names[i]);
        if (name == bug_names[i]) {
            active_seeded_bug = static_cast<SeededBug>(i);
            return;
        }
    }
    if (name == "list")
        std::exit(0);
    bad_option("unknown bug", name.c_str());
#else
    bad_option("this build has no bugs to switch on (meson -Dseeded_bugs=true):", name.c_str());
#endif
}

Arguments parse(int count, char** values) {
    Arguments out;
    for (int i = 1; i < count; ++i) {
        const std::string option = values[i];
        if (option == "--help" || option == "-h") {
            std::fputs(usage, stdout);
            std::exit(0);
        }
        if (option == "--trace") {
            out.options.trace = true;
            continue;
        }
        if (i + 1 == count)
            bad_option("unknown option, or one without its value:", values[i]);
        const char* value = values[++i];
        if (option == "--seeds")
            out.count = number(value, 1u << 30);
        else if (option == "--first")
            out.first = number(value, ~u64(0));
        else if (option == "--seed") {
            out.first = number(value, ~u64(0));
            out.count = 1;
            out.single = true;
        } else if (option == "--ticks")
            out.options.fault_ticks = static_cast<u32>(number(value, 100'000));
        else if (option == "--workers")
            out.workers = static_cast<u32>(number(value, 64));
        else if (option == "--same-bytes")
            out.same_bytes = static_cast<u32>(number(value, 1u << 30));
        else if (option == "--executor")
            out.executor = value;
        else if (option == "--bug") {
            out.bug = value;
            switch_on(out.bug);
        } else if (option == "--sabotage") {
            out.sabotage = value;
            out.options.sabotage = throng_verify::sabotage_kind(value);
            if (out.options.sabotage == throng_verify::Kind::none)
                bad_option("unknown sabotage", value);
        } else
            bad_option("unknown option", option.c_str());
    }
    if (out.workers == 0)
        bad_option("not a number in range:", "0");
    return out;
}

ExecutorHandle make_executor(const Arguments& arguments) {
    if (arguments.executor == "serial")
        return make_serial_executor();
    if (arguments.executor == "threads")
        return make_threads_executor(arguments.workers);
    if (arguments.executor == "tbb")
        return make_tbb_executor(arguments.workers);
    bad_option("unknown executor", arguments.executor.c_str());
}

void on_assert(const char* expression, const char* file, int line) {
    const char* slash = std::strrchr(file, '/');
    throw std::runtime_error(std::string("assertion ") + expression + " at " + (slash ? slash + 1 : file) + ":" + std::to_string(line));
}

/// The executors that must all send the same bytes.
struct Variant {
    const char* kind;
    u32 workers;
    ExecutorHandle executor;
};
std::vector<Variant> make_variants() {
    std::vector<Variant> out;
    out.push_back({"serial", 1, make_serial_executor()});
    for (const u32 workers : {1u, 2u, 4u}) {
        out.push_back({"threads", workers, make_threads_executor(workers)});
        if (!std::getenv("THRONG_NO_TBB"))
            out.push_back({"tbb", workers, make_tbb_executor(workers)});
    }
    return out;
}

Outcome run_seed(const Protocol& protocol, u64 seed, const Options& options) {
    Outcome outcome;
    try {
        outcome = Simulation(protocol, seed, options).run();
    } catch (const std::exception& error) {
        outcome.failure = error.what();
    }
    return outcome;
}

/// What is wrong with one of the variants: it fails, or sends other bytes than `first`.
std::string different(const Protocol& protocol, u64 seed, Options options, const Outcome& first, const std::vector<Variant>& variants) {
    for (const Variant& variant : variants) {
        options.executor = variant.executor.get();
        const Outcome again = run_seed(protocol, seed, options);
        if (!again.failure.empty() || again.output != first.output)
            return (again.failure.empty() ? "other bytes were sent" : again.failure) + " with the executor " + variant.kind + ", " +
                   std::to_string(variant.workers) + " workers";
    }
    return {};
}

} // namespace

int main(int count, char** values) {
    const Arguments arguments = parse(count, values);
    if (arguments.executor == "tbb" && std::getenv("THRONG_NO_TBB")) {
        std::puts("skipped: THRONG_NO_TBB is set");
        return 77;
    }
    set_assert_handler(on_assert);
    const auto protocol = make_protocol(Build{});
    const ExecutorHandle executor = make_executor(arguments);
    const std::vector<Variant> variants = arguments.same_bytes ? make_variants() : std::vector<Variant>{};
    u64 same = 0, failures = 0, messages = 0, checks = 0, compared = 0, unapplied = 0, lost = 0, hashes = 0, malformed = 0, limit_drops = 0;
    u32 heal_max = 0;
    Tally tally;
    for (u64 seed = arguments.first; seed != arguments.first + arguments.count; ++seed) {
        Options options = arguments.options;
        options.executor = executor.get();
        Outcome outcome = run_seed(*protocol, seed, options);
        if (outcome.failure.empty() && arguments.same_bytes && seed % arguments.same_bytes == 0) {
            outcome.failure = different(*protocol, seed, options, outcome, variants);
            ++same;
        }
        tally += outcome.tally;
        messages += outcome.messages;
        checks += outcome.checks;
        compared += outcome.compared;
        unapplied += outcome.unapplied;
        lost += outcome.lost;
        hashes += outcome.hashes_equal;
        malformed += outcome.malformed;
        limit_drops += outcome.limit_drops;
        heal_max = std::max(heal_max, outcome.heal_ticks);
        if (outcome.failure.empty())
            continue;
        ++failures;
        if (failures <= 10)
            std::printf("FAILED seed %llu: %s\n    repeat: %s --seed %llu --executor %s --workers %u --ticks %u --trace%s%s%s%s%s\n",
                        static_cast<unsigned long long>(seed), outcome.failure.c_str(), values[0], static_cast<unsigned long long>(seed),
                        arguments.executor.c_str(), arguments.workers, arguments.options.fault_ticks,
                        arguments.sabotage.empty() ? "" : " --sabotage ", arguments.sabotage.c_str(),
                        arguments.bug.empty() ? "" : " --bug ", arguments.bug.c_str(), arguments.same_bytes ? " --same-bytes 1" : "");
        std::fflush(stdout);
        if (!arguments.bug.empty())
            break; // one is enough
    }
    std::printf("%llu seeds, %llu failed; %llu messages, %llu lost, %llu sections unapplied, %llu entity checks, %llu fields compared, "
                "%llu hashes equal, %llu times malformed, %llu drops at limits, slowest heal %u ticks\n",
                static_cast<unsigned long long>(arguments.count), static_cast<unsigned long long>(failures),
                static_cast<unsigned long long>(messages), static_cast<unsigned long long>(lost),
                static_cast<unsigned long long>(unapplied), static_cast<unsigned long long>(checks),
                static_cast<unsigned long long>(compared), static_cast<unsigned long long>(hashes),
                static_cast<unsigned long long>(malformed), static_cast<unsigned long long>(limit_drops), heal_max);
    if (!variants.empty())
        std::printf("%llu seeds with %zu executors each\n", static_cast<unsigned long long>(same), variants.size());
    for (u32 i = 0; i < happening_count; ++i)
        std::printf("%s%llu %s%s", i ? ", " : "", static_cast<unsigned long long>(tally.of[i]), happening_names[i],
                    i + 1 < happening_count ? "" : "\n");
    for (u32 i = 0; i < happening_count && arguments.count >= 200 && !failures; ++i)
        if (tally.of[i] == 0) {
            std::printf("NEVER: %s\n", happening_names[i]);
            ++failures;
        }
    return failures ? 1 : 0;
}
