// throng_model: the protocol model's command line. See `help_text`.
#include "tests/model/ablation.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

using namespace model;

constexpr const char* help_text = R"(throng_model: an executable model of the replication protocol

  throng_model [--seeds N] [--first K]        random mode: N seeds (default 1000) from K (default 0)
  throng_model --seed N [--trace]             one seed, with what happens in each tick
  throng_model --exhaustive                   all network fates of the scripted scenarios
  throng_model --scenario NAME [--path A,B,... [--trace]]
                                              one scenario, or one path of it (0 = now, 1 = dropped, 2 = late,
                                              3 = very late, 4 = twice; for the backend: 1 = refused)
  throng_model --ablate [--seeds N]           each rule off in turn: how many of N seeds (default 400) fail
  throng_model --prove [RULE...]              each rule off in turn must fail, within the seeds of the table
  throng_model --list                         rules, variants, scenarios
  throng_model --help

  --without RULE...     switches rules off
  --variant VARIANT...  switches variants on; "engine" = struct-split lazy-promote prune-pending tick-loss

Exit code: 0 all as it should be, 1 some run failed (or a rule could not be proved), 2 wrong arguments.
)";

[[noreturn]] void refuse(const std::string& why) {
    std::fprintf(stderr, "throng_model: %s (try --help)\n", why.c_str());
    std::exit(2);
}

struct Arguments {
    enum class Mode { random, one_seed, exhaustive, ablate, prove, list, help } mode = Mode::random;
    Options options;
    std::string options_text; // as typed, to print commands that repeat a failure
    long seeds = -1, first = 0;
    std::string scenario;
    std::vector<int> path;
    bool one_path = false;
    bool trace = false;
    std::vector<const RuleInfo*> chosen; // --prove

    Arguments(int argc, char** argv);
};

long number(const std::string& option, const char* text) {
    char* end = nullptr;
    const long value = text ? std::strtol(text, &end, 10) : -1;
    if (!text || *text == 0 || *end || value < 0)
        refuse(option + " needs a number");
    return value;
}

Arguments::Arguments(int argc, char** argv) {
    const auto next = [&](int& i) -> const char* { return i + 1 < argc ? argv[++i] : nullptr; };
    const auto more = [&](int i) { return i + 1 < argc && std::strncmp(argv[i + 1], "--", 2) != 0; };
    for (int i = 1; i < argc; ++i) {
        const std::string option = argv[i];
        if (option == "--seeds") {
            seeds = number(option, next(i));
        } else if (option == "--first") {
            first = number(option, next(i));
        } else if (option == "--seed") {
            first = number(option, next(i));
            mode = Mode::one_seed;
        } else if (option == "--trace") {
            trace = true;
        } else if (option == "--exhaustive") {
            mode = Mode::exhaustive;
        } else if (option == "--scenario") {
            const char* name = next(i);
            if (!name || !find_scenario(name))
                refuse("--scenario needs the name of a scenario");
            scenario = name;
            mode = Mode::exhaustive;
        } else if (option == "--path") {
            one_path = true;
            std::string text = more(i) ? next(i) : "";
            for (std::size_t at = 0; at < text.size(); ++at) {
                const std::size_t comma = std::min(text.find(',', at), text.size());
                path.push_back(int(number(option, text.substr(at, comma - at).c_str())));
                at = comma;
            }
        } else if (option == "--without") {
            options_text += " --without";
            while (more(i)) {
                const RuleInfo* info = find_rule(next(i));
                if (!info)
                    refuse(std::string("unknown rule ") + argv[i]);
                options.rules.switch_off(info->rule);
                options_text += std::string(" ") + argv[i];
            }
        } else if (option == "--variant") {
            options_text += " --variant";
            while (more(i)) {
                if (!options.variants.switch_on(next(i)))
                    refuse(std::string("unknown variant ") + argv[i]);
                options_text += std::string(" ") + argv[i];
            }
        } else if (option == "--ablate") {
            mode = Mode::ablate;
        } else if (option == "--prove") {
            mode = Mode::prove;
            while (more(i)) {
                chosen.push_back(find_rule(next(i)));
                if (!chosen.back())
                    refuse(std::string("unknown rule ") + argv[i]);
            }
        } else if (option == "--list") {
            mode = Mode::list;
        } else if (option == "--help") {
            mode = Mode::help;
        } else {
            refuse("unknown argument " + option);
        }
    }
    if (one_path && scenario.empty())
        refuse("--path needs --scenario");
}

void print(const Counters& c, long runs) {
    std::printf("  lanes: full %ld, delta %ld, gone %ld; sections %ld, messages %ld, bytes about %ld\n", c.lanes_full, c.lanes_delta,
                c.lanes_gone, c.sections, c.messages, c.bytes());
    std::printf("  flickers %ld; lanes refused by acks %ld, acks held back %ld; pending lanes pruned %ld\n", c.flickers, c.ack_refused,
                c.held_back, c.pruned_pending);
    std::printf("  unapplied sections acked %ld; at the client: baseline not held %ld (a newer one was named: %ld), tombstone %ld,\n"
                "  entity in part %ld; lanes superseded %ld; deltas that R2-absolute stopped %ld\n",
                c.unapplied, c.baseline_not_held, c.named_pruned, c.shadowed, c.overtaken, c.superseded, c.absolute_needed);
    std::printf("  settled ticks compared %ld; heal ticks: mean %.2f, worst %ld\n", c.settled_checks,
                double(c.heal_ticks) / double(std::max(1L, runs)), c.worst_heal_ticks);
}

int random_seeds(const Arguments& arguments, const char* program) {
    const long seeds = arguments.seeds < 0 ? 1000 : arguments.seeds;
    const Sample sample = run_seeds(arguments.options, std::uint64_t(arguments.first), seeds, false);
    for (const auto& [seed, why] : sample.first_failures)
        std::printf("seed %llu: %s\n    %s --seed %llu --trace%s\n", static_cast<unsigned long long>(seed), why.c_str(), program,
                    static_cast<unsigned long long>(seed), arguments.options_text.c_str());
    std::printf("%ld seeds, %ld failures%s\n", sample.runs, sample.failures, kinds_text(sample.kinds).c_str());
    print(sample.counters, sample.runs);
    return sample.failures ? 1 : 0;
}

int one_seed(const Arguments& arguments) {
    const Outcome outcome = run_seed(std::uint64_t(arguments.first), arguments.options.rules, arguments.options.variants, arguments.trace);
    std::printf("seed %ld: %s\n", arguments.first, outcome.failed() ? outcome.why.c_str() : "ok");
    print(outcome.counters, 1);
    return outcome.failed() ? 1 : 0;
}

int exhaustive(const Arguments& arguments, const char* program) {
    if (arguments.one_path) {
        const Outcome outcome = run_path(*find_scenario(arguments.scenario), arguments.path, arguments.options.rules,
                                         arguments.options.variants, arguments.trace);
        std::printf("%s: %s\n", arguments.scenario.c_str(), outcome.failed() ? outcome.why.c_str() : "ok");
        return outcome.failed() ? 1 : 0;
    }
    long paths = 0, failures = 0;
    Counters counters;
    bool complete = true;
    for (const Scenario& scenario : scenarios) {
        if (!arguments.scenario.empty() && arguments.scenario != scenario.name)
            continue;
        const Exploration found = explore(scenario, arguments.options.rules, arguments.options.variants, max_paths, false);
        std::printf("%-24s %7ld paths of up to %d deviations%s, %ld failures, settled within %ld ticks\n", scenario.name, found.paths,
                    scenario.deviations, found.complete ? "" : " (not all: limit reached)", found.failures,
                    found.counters.worst_heal_ticks);
        if (found.failures)
            std::printf("    %s\n    %s --scenario %s --path %s --trace%s\n", found.why.c_str(), program, scenario.name,
                        path_text(found.first_failure).c_str(), arguments.options_text.c_str());
        paths += found.paths;
        failures += found.failures;
        complete &= found.complete;
        counters.add(found.counters);
    }
    std::printf("%ld paths explored, %ld failures%s\n", paths, failures, complete ? "" : "; NOT complete");
    print(counters, paths);
    return failures || !complete ? 1 : 0;
}

int list() {
    std::printf("rules (what is done wrong without them):\n");
    for (const RuleInfo& info : rule_table) {
        std::printf("  %-20s %s\n", std::string(info.name).c_str(), std::string(info.without).c_str());
        if (info.proof == Proof::covered)
            std::printf("  %-20s   shows only together with %s: %s\n", "", std::string(rule_table[int(info.partner)].name).c_str(),
                        std::string(info.reason).c_str());
        else if (!info.reason.empty())
            std::printf("  %-20s   never fails: %s\n", "", std::string(info.reason).c_str());
    }
    std::printf("variants:\n");
    for (const VariantInfo& info : variant_table)
        std::printf("  %-20s %s\n", std::string(info.name).c_str(), std::string(info.what).c_str());
    std::printf("  %-20s the first four of these\nscenarios:\n", "engine");
    for (const Scenario& scenario : scenarios)
        std::printf("  %-20s %s\n", scenario.name, scenario.what);
    return 0;
}

int prove_rules(const Arguments& arguments) {
    int unproved = 0;
    for (const RuleInfo& info : rule_table) {
        const auto& chosen = arguments.chosen;
        if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), &info) == chosen.end())
            continue;
        const Verdict verdict = prove(info, arguments.options);
        std::printf("%-20s %s  %s\n", std::string(info.name).c_str(), verdict.proved ? "ok  " : "FAIL", verdict.text.c_str());
        std::fflush(stdout);
        unproved += !verdict.proved;
    }
    std::printf("%d rules not proved\n", unproved);
    return unproved ? 1 : 0;
}

int ablate(const Arguments& arguments) {
    const long seeds = arguments.seeds < 0 ? 400 : arguments.seeds;
    for (const RuleInfo& info : rule_table) {
        if (!applies(info, arguments.options.variants))
            continue;
        Options options = arguments.options;
        options.rules.switch_off(info.rule);
        std::string name(info.name);
        if (info.proof == Proof::covered) {
            options.rules.switch_off(info.partner);
            name += " + " + std::string(rule_table[int(info.partner)].name);
        }
        const Sample sample = run_seeds(options, std::uint64_t(arguments.first), seeds, false);
        std::printf("%-24s %5ld of %ld seeds fail%s", name.c_str(), sample.failures, sample.runs, kinds_text(sample.kinds).c_str());
        if (!sample.first_failures.empty())
            std::printf(", first %llu", static_cast<unsigned long long>(sample.first_failures.front().first));
        std::printf("\n");
        std::fflush(stdout);
    }
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    const Arguments arguments(argc, argv);
    switch (arguments.mode) {
    case Arguments::Mode::random: return random_seeds(arguments, argv[0]);
    case Arguments::Mode::one_seed: return one_seed(arguments);
    case Arguments::Mode::exhaustive: return exhaustive(arguments, argv[0]);
    case Arguments::Mode::ablate: return ablate(arguments);
    case Arguments::Mode::prove: return prove_rules(arguments);
    case Arguments::Mode::list: return list();
    case Arguments::Mode::help: std::fputs(help_text, stdout); return 0;
    }
    return 2;
}
