#pragma once
// Many runs at once, and the demand that each rule is needed.
#include "tests/model/exhaustive.hpp"
#include "tests/model/random_mode.hpp"

namespace model {

struct Options {
    Rules rules;
    Variants variants;
};

constexpr long max_paths = 1'000'000; // of a scenario: a safety net, the scenarios have a few ten thousand

/// Failures by the kind of promise that was broken.
using Kinds = std::map<std::string, long>;
std::string kinds_text(const Kinds& kinds);

struct Sample {
    long runs = 0, failures = 0;
    Kinds kinds;
    std::vector<std::pair<std::uint64_t, std::string>> first_failures; // a few: seed and why
    Counters counters;
};
Sample run_seeds(const Options& options, std::uint64_t first, long seeds, bool stop_at_failure);

/// False for rules of a variant that is off.
bool applies(const RuleInfo& info, Variants variants);

struct Verdict {
    bool proved = false;
    std::string text;
};
/// Switches the rule off and holds the table to its word: see Proof.
Verdict prove(const RuleInfo& info, const Options& options);

} // namespace model
