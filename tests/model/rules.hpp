#pragma once
// The rules that can be switched off, and the variants that can be switched on.
//
// The model asks `rules(Rule::x)` at the one place where rule x acts. What goes wrong without it is in the table
// `rule_table`; the ablation test holds each entry to its word.
#include <cstdint>
#include <string_view>
#include <vector>

namespace model {

enum class Rule : std::uint8_t {
    r1_explicit_mask,
    r1_together,
    r1_appear_whole,
    r2_gone_until_acked,
    r2_insert_counter,
    r2_absolute,
    r3_newest,
    r3_tombstone,
    r3_late_drop,
    r3_shadow_unapplied,
    r4_changed,
    r4_struct,
    r4_struct_gain,
    r4_rebind,
    r4_strand,
    r4_promote,
    r5_unapplied_limbo,
    r5_superseded,
    r6_loss,
    r6_wrap,
    r6_stall,
    r7_patch,
    r7_floor,
    r7_copy,
    r7_unlisted,
    r8_per_lane,
    r8_old,
    r9_settled,
    r13_accepted,
    r14_serve,
    split_rebound,
    split_private,
    mask_encode,
    mask_baseline,
    mask_private,
    mask_struct,
    mask_quiet,
    kept_hold,
    kept_compare,
    kept_blind,
    pause_value,
    pause_sight,
    pause_nobody_else,
    pause_lane,
    count
};
constexpr int rule_count = int(Rule::count);

/// What the ablation demands of a rule that is switched off.
enum class Proof : std::uint8_t {
    fails,      // some run must fail
    covered,    // off together with `partner`, some run must fail in a way that `partner` alone never does
    efficiency, // no run may fail; what it saves shows in the counters
    redundant,  // no run may fail; with the rule on, it must never have had anything to do
};

struct RuleInfo {
    Rule rule;
    std::string_view name;
    std::string_view without; // what is done wrong when it is off
    Proof proof;
    Rule partner;           // of Proof::covered
    int seeds;              // how many seeds the ablation may need
    std::string_view reason; // why it is not Proof::fails
};
extern const RuleInfo rule_table[rule_count]; // in the order of Rule
const RuleInfo* find_rule(std::string_view name);

/// Which rules are in force.
class Rules {
public:
    bool operator()(Rule rule) const { return (off_ >> int(rule) & 1u) == 0; }
    void switch_off(Rule rule) { off_ |= std::uint64_t(1) << int(rule); }
    Rules without(Rule rule) const {
        Rules rules = *this;
        rules.switch_off(rule);
        return rules;
    }

private:
    std::uint64_t off_ = 0;
};

enum class Variant : std::uint8_t {
    struct_split,  // R4: occupant changes are looked up in the mirror's ring; struct_tick is for private changes only
    lazy_promote,  // R4: the baseline is promoted when the chunk is next visited, not every tick
    prune_pending, // R6: what is acked already is not sent
    tick_loss,     // R6: a message is lost when one of two or more ticks later is acked
    no_sidecars,   // R1: no owner-only components
    move_together, // R3: the lane that an entity leaves and the one it enters travel in one message
    stall_events,  // R6: stalled lanes are looked for on visits and when a record is resolved, not every tick
    withdraw,      // R4: a structural change takes its lanes out of the records in flight; no struct_tick
    lane_drops,    // R4: changed() beyond the ring tells lanes that have not changed since from those that have
    held_back_end, // R4: B is held back for some ticks at most, and what such an ack gained is sent again
    count
};
constexpr int variant_count = int(Variant::count);

struct VariantInfo {
    std::string_view name;
    std::string_view what;
};
extern const VariantInfo variant_table[variant_count];

class Variants {
public:
    bool operator()(Variant variant) const { return (on_ >> int(variant) & 1u) != 0; }
    void switch_on(Variant variant) { on_ |= 1u << int(variant); }
    bool any() const { return on_ != 0; }
    /// False when the name is unknown. "engine" names what the engine does, all together.
    bool switch_on(std::string_view name);

private:
    unsigned on_ = 0;
};

} // namespace model
