// throng_bench: one program for all scenarios and engines. docs/tuning.md says how to read it.
#include "bench/program/run_ecs.hpp"
#ifdef THRONG_BENCH_MIMALLOC
#include <mimalloc.h>
#endif
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace {

using bench::Options;
using throng::u32;
using throng::u64;

const char* const usage =
    "usage: throng_bench [options]\n"
    "  --scenario NAME        which scenario (--list names them); default: dispersed\n"
    "  --workers N            1 to 64 (default 1)\n"
    "  --executor KIND        serial, threads or tbb (default: serial for one worker, tbb for more)\n"
    "  --engine NAME          throng (default) or naive\n"
    "  --repeat R             windows that the measured ticks are split into; the median is reported (default 5)\n"
    "                         ECS scenarios: rounds in which each case runs once\n"
    "  --case TEXT            of an ECS scenario only the cases whose names contain TEXT\n"
    "  --quick                100 + 20 ticks instead of 200 + 100; ECS scenarios: fewer entities\n"
    "  --no-baselines         only this engine: no naive_ratio, no speedup\n"
    "  --seed N               default 1\n"
    "  --clients N, --cell M, --history N, --compression automatic|never|always    override the scenario's\n"
    "  --dictionary FILE      zstd dictionary of the protocol, or none (default: bench/data/motion.zdict in synthetic scenarios)\n"
    "  --traces DIR           where recordings are; else $THRONG_TRACES, else ../shared/data beside the source root\n"
    "  --json FILE, --csv FILE\n"
    "  --hash FILE            compare the output hash with the one in FILE; a missing FILE is written. Exit 1 on a difference\n"
    "  --list, --help\n";

[[noreturn]] void refuse(const std::string& what) {
    std::fprintf(stderr, "throng_bench: %s\n", what.c_str());
    std::exit(2);
}

u64 number(const char* option, const char* text, u64 low, u64 high) {
    char* end = nullptr;
    const unsigned long long value = std::strtoull(text, &end, 10);
    if (!*text || *end || *text == '-' || value < low || value > high)
        refuse(std::string(option) + " takes a whole number from " + std::to_string(low) + " to " + std::to_string(high) + ", not \"" +
               text + "\"");
    return value;
}

void list() {
    for (const scenarios::Scenario& s : scenarios::all_scenarios())
        std::printf("%-18s %7u entities, %u %% moving, %5u clients, radius %g m\n", s.name, s.entities, s.moving_percent, s.clients,
                    static_cast<double>(s.radius_m));
    for (const char* name : bench::ecs_scenarios())
        std::printf("%-18s %s\n", name, std::strcmp(name, "ecs") == 0 ? "all of the ECS scenarios" : "cases of the ECS, one run each");
}

/// One line a case.
void print_ecs(const std::vector<scenarios::Run>& runs) {
    for (const scenarios::Run& run : runs) {
        const double* bytes = run.get("bytes_per_entity");
        const double* ns = run.get("ns_per_op"); // one of the two is there
        const double* ratio = run.get("ratio_to_vector");
        std::printf("%-12s %-32s ", run.scenario.c_str(), run.bench_case.c_str());
        std::printf("%10.4g %s", *(bytes ? bytes : ns), bytes ? "bytes an entity" : "ns");
        if (ratio)
            std::printf(", %.2f x a plain loop", *ratio);
        std::printf("%s\n", run.cache == "cold" ? ", cold" : "");
    }
}

void print(const scenarios::Run& run) {
    std::printf("%s, %s, %u worker%s (%s)\n", run.scenario.c_str(), run.engine.c_str(), run.workers, run.workers == 1 ? "" : "s",
                run.executor.c_str());
    for (const auto& [name, value] : run.figures)
        std::printf("  %-24s %.6g\n", name.c_str(), value);
    for (const scenarios::StageFigure& stage : run.stages)
        std::printf("  stage %-18s %.1f us cpu, %.1f us wall a tick\n", stage.name.c_str(), stage.cpu_ns / 1e3, stage.wall_ns / 1e3);
    if (!run.output_hash.empty())
        std::printf("  output_hash              %s\n", run.output_hash.c_str());
    std::fflush(stdout);
}

std::string contents(const std::string& path) {
    std::error_code ignored;
    std::ifstream file(path, std::ios::binary);
    if (!file || std::filesystem::is_directory(path, ignored)) // one can be opened, but not read
        refuse("cannot read " + path);
    return std::string((std::istreambuf_iterator<char>(file)), {});
}

/// The output hash in a file; empty if there is no such file. Asked for before the run, so that a bad file is refused at once.
std::string stored_hash(const std::string& path) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored))
        return {};
    std::string text = contents(path);
    text.erase(text.find_last_not_of(" \r\n") + 1);
    if (text.size() != 32 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
        refuse(path + ": not an output hash (32 hexadecimal digits)");
    return text;
}

/// Compares with the stored hash, or writes the file. False on a difference.
bool check_hash(const std::string& path, const std::string& stored, const scenarios::Run& run) {
    if (stored.empty() && !scenarios::write_file(path, run.output_hash + "\n"))
        refuse("cannot write " + path);
    if (stored.empty() || stored == run.output_hash)
        return true;
    std::fprintf(stderr, "throng_bench: %s: output_hash is %s, and %s says %s\n", run.scenario.c_str(), run.output_hash.c_str(),
                 path.c_str(), stored.c_str());
    return false;
}

void write_outputs(const std::vector<scenarios::Run>& runs, const std::string& json, const std::string& csv) {
    if (!json.empty() && !scenarios::write_file(json, scenarios::to_json(runs)))
        refuse("cannot write " + json);
    if (!csv.empty() && !scenarios::write_file(csv, scenarios::to_csv(runs)))
        refuse("cannot write " + csv);
}

} // namespace

int main(int argc, char** argv) {
#ifdef THRONG_BENCH_MIMALLOC
    // The program interposes malloc itself (bench/alloc_count.cpp): without a name of mimalloc's own the linker would leave it out.
    if (mi_version() <= 0)
        return 2;
#endif
    Options options;
    std::string scenario = "dispersed", filter, json, csv, hash, executor, dictionary_path;
    options.traces = "";
    std::vector<std::byte> dictionary;
    for (int i = 1; i < argc; ++i) {
        const std::string option = argv[i];
        const auto value = [&]() -> const char* {
            if (i + 1 >= argc)
                refuse(option + " needs a value");
            return argv[++i];
        };
        const auto one_of = [&](std::initializer_list<const char*> allowed) {
            const std::string text = value();
            if (std::none_of(allowed.begin(), allowed.end(), [&](const char* a) { return text == a; }))
                refuse(option + " does not know \"" + text + "\"");
            return text;
        };
        if (option == "--help")
            return std::fputs(usage, stdout), 0;
        else if (option == "--list")
            return list(), 0;
        else if (option == "--scenario")
            scenario = value();
        else if (option == "--case")
            filter = value();
        else if (option == "--workers")
            options.workers = static_cast<u32>(number("--workers", value(), 1, 64));
        else if (option == "--executor")
            executor = one_of({"serial", "threads", "tbb"});
        else if (option == "--engine")
            options.engine = one_of({"throng", "naive"});
        else if (option == "--repeat")
            options.repeat = static_cast<u32>(number("--repeat", value(), 1, 25));
        else if (option == "--quick")
            options.quick = true;
        else if (option == "--no-baselines")
            options.baselines = false;
        else if (option == "--seed")
            options.seed = number("--seed", value(), 0, ~u64(0));
        else if (option == "--clients")
            options.clients = static_cast<u32>(number("--clients", value(), 1, 16384));
        else if (option == "--cell")
            options.cell_m = static_cast<double>(number("--cell", value(), 2, 300));
        else if (option == "--history")
            options.history_ticks = static_cast<u32>(number("--history", value(), 2, 16));
        else if (option == "--compression")
            options.compression = one_of({"automatic", "never", "always"});
        else if (option == "--dictionary")
            dictionary_path = value();
        else if (option == "--traces")
            options.traces = value();
        else if (option == "--json")
            json = value();
        else if (option == "--csv")
            csv = value();
        else if (option == "--hash")
            hash = value();
        else
            refuse("unknown option \"" + option + "\" (--help lists them)");
    }
    options.hash = !hash.empty();
    if (options.hash && (bench::is_ecs_scenario(scenario) || options.engine != "throng"))
        refuse("--hash is of what the engine throng sends");
    const std::string stored = options.hash ? stored_hash(hash) : "";
    if (bench::is_ecs_scenario(scenario)) {
        std::vector<scenarios::Run> runs = bench::run_ecs(options, scenario, filter);
        if (runs.empty())
            refuse("no case of " + scenario + " has \"" + filter + "\" in its name");
        print_ecs(runs);
        for (scenarios::Run& run : runs)
            run.machine = scenarios::machine_description();
        write_outputs(runs, json, csv);
        return 0;
    }
    options.scenario = scenarios::find_scenario(scenario.c_str());
    if (!options.scenario)
        refuse("no scenario \"" + scenario + "\" (--list names them)");
    options.executor = !executor.empty() ? executor : options.workers > 1 ? "tbb" : "serial";
    if (options.executor == "serial" && options.workers > 1)
        refuse("the serial executor has one worker");
    options.traces = scenarios::traces_directory(options.traces, THRONG_SOURCE_ROOT);
    const std::string own_dictionary = THRONG_SOURCE_ROOT "/bench/data/motion.zdict";
    if (dictionary_path.empty() && options.scenario->source == scenarios::Source::synthetic && std::ifstream(own_dictionary))
        dictionary_path = own_dictionary;
    if (!dictionary_path.empty() && dictionary_path != "none") {
        const std::string bytes = contents(dictionary_path);
        dictionary.resize(bytes.size());
        std::memcpy(dictionary.data(), bytes.data(), bytes.size());
        options.dictionary = dictionary;
    }
    if (options.scenario->source == scenarios::Source::trace && options.traces.empty()) {
        std::printf("%s: skipped, no traces directory\n", scenario.c_str());
        return 0;
    }

    bool failed = false;
    std::vector<scenarios::Run> runs = bench::run_engines(options, failed);
    if (runs.empty())
        return 1;
    for (scenarios::Run& run : runs) {
        run.machine = scenarios::machine_description();
        print(run);
    }
    write_outputs(runs, json, csv);
    if (options.hash && !check_hash(hash, stored, runs[0]))
        failed = true;
    return failed ? 1 : 0;
}
