#include "tests/model/ablation.hpp"

namespace model {

namespace {

constexpr std::size_t failures_kept = 5;

/// The first failure among the scenarios: its scenario and path, or nothing.
std::string first_failing_path(const Options& options) {
    for (const Scenario& scenario : scenarios) {
        const Exploration found = explore(scenario, options.rules, options.variants, max_paths, true);
        if (found.failures)
            return std::string(scenario.name) + " path " + path_text(found.first_failure) + ": " + found.why;
    }
    return {};
}

Verdict must_fail(const RuleInfo& info, const Options& options) {
    const Sample sample = run_seeds(options, 0, info.seeds, true);
    if (sample.failures)
        return {true, "seed " + std::to_string(sample.first_failures.front().first) + ": " + sample.first_failures.front().second};
    if (const std::string path = first_failing_path(options); !path.empty())
        return {true, path};
    return {false, "nothing fails without it in " + std::to_string(sample.runs) + " seeds and all scenarios"};
}

/// The rule and its partner off must break a promise that the partner's absence alone leaves intact.
Verdict must_fail_with_partner(const RuleInfo& info, const Options& options) {
    Options partner = options;
    partner.rules = options.rules.without(info.rule).without(info.partner);
    Options partner_alone = options;
    partner_alone.rules.switch_off(info.partner);
    Options rule_alone = options;
    rule_alone.rules.switch_off(info.rule);
    if (const Sample alone = run_seeds(rule_alone, 0, info.seeds, true); alone.failures)
        return {false, "fails alone, against the table: " + alone.first_failures.front().second};
    const Kinds known = run_seeds(partner_alone, 0, info.seeds, false).kinds;
    const Kinds found = run_seeds(partner, 0, info.seeds, false).kinds;
    for (const auto& [kind, times] : found)
        if (!known.count(kind))
            return {true, "with its partner off:" + kinds_text(found) + "; partner alone:" + kinds_text(known)};
    return {false, "with its partner off no new kind of failure:" + kinds_text(found)};
}

Verdict must_not_fail(const RuleInfo& info, const Options& with, const Options& without) {
    const Sample sample = run_seeds(without, 0, info.seeds, false);
    if (sample.failures)
        return {false, "fails, against the table: " + sample.first_failures.front().second};
    const Counters on = run_seeds(with, 0, info.seeds, false).counters;
    if (info.proof == Proof::redundant)
        return {on.absolute_needed == 0, "never fails; with it on it had to act " + std::to_string(on.absolute_needed) + " times"};
    const auto ratio = [](long a, long b) { return std::to_string(100 * a / std::max(1L, b)) + " %"; };
    return {true, "never fails; without it: full lanes " + ratio(sample.counters.lanes_full, on.lanes_full) + ", bytes " +
                      ratio(sample.counters.bytes(), on.bytes()) + ", unapplied " + ratio(sample.counters.unapplied, on.unapplied)};
}

} // namespace

std::string kinds_text(const Kinds& kinds) {
    std::string out;
    for (const auto& [kind, times] : kinds)
        out += (out.empty() ? " (" : ", ") + std::to_string(times) + " " + kind;
    return out.empty() ? out : out + ")";
}

Sample run_seeds(const Options& options, std::uint64_t first, long seeds, bool stop_at_failure) {
    Sample sample;
    for (long i = 0; i < seeds && !(stop_at_failure && sample.failures); ++i) {
        const std::uint64_t seed = first + std::uint64_t(i);
        const Outcome outcome = run_seed(seed, options.rules, options.variants, false);
        ++sample.runs;
        sample.counters.add(outcome.counters);
        if (!outcome.failed())
            continue;
        ++sample.failures;
        ++sample.kinds[kind_of(outcome.why)];
        if (sample.first_failures.size() < failures_kept)
            sample.first_failures.emplace_back(seed, outcome.why);
    }
    return sample;
}

bool applies(const RuleInfo& info, Variants variants) {
    if (info.rule == Rule::split_rebound || info.rule == Rule::split_private)
        return variants(Variant::struct_split);
    return !(info.rule == Rule::r1_together && variants(Variant::no_sidecars));
}

/// With these three variants every lane that is unacked is unsent or in a message whose ack still counts, so that nothing stalls.
Proof proof_of(const RuleInfo& info, Variants variants) {
    const bool exact = variants(Variant::withdraw) && variants(Variant::lane_drops) && variants(Variant::held_back_end);
    return info.rule == Rule::r6_stall && exact ? Proof::efficiency : info.proof;
}

Verdict prove(const RuleInfo& info, const Options& options) {
    if (!applies(info, options.variants))
        return {true, "not used by these variants"};
    Options without = options;
    without.rules.switch_off(info.rule);
    switch (proof_of(info, options.variants)) {
    case Proof::fails: return must_fail(info, without);
    case Proof::covered: return must_fail_with_partner(info, options);
    case Proof::efficiency:
    case Proof::redundant: return must_not_fail(info, options, without);
    }
    return {};
}

} // namespace model
