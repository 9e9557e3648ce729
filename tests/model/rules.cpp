#include "tests/model/rules.hpp"

namespace model {

namespace {
constexpr Rule none = Rule::count;
} // namespace

const RuleInfo rule_table[rule_count] = {
    {Rule::r1_explicit_mask, "R1-explicit-mask", "a section carries every occupied lane, whatever its mask says",
     Proof::fails, none, 200, ""},
    {Rule::r1_together, "R1-together", "the unacked slots of an entity may go in separate messages", Proof::fails, none, 400, ""},
    {Rule::r1_appear_whole, "R1-appear-whole",
     "a late message shows the part of a new entity that nothing newer has overtaken", Proof::fails,
     none, 2000, ""},
    {Rule::r2_gone_until_acked, "R2-gone-until-acked", "'gone' is sent once and forgotten", Proof::fails, none, 200, ""},
    {Rule::r2_insert_counter, "R2-insert-counter", "remove and insert in one tick look like a changed value", Proof::fails, none, 400, ""},
    {Rule::r2_absolute, "R2-absolute", "a delta is encoded without comparing the occupants of then and now", Proof::redundant, none, 1000,
     "R4 keeps a lane in limbo until its present occupant is acked, so no delta ever spans two occupants: an assertion"},
    {Rule::r3_newest, "R3-newest", "an entity is where the last packet to arrive put it", Proof::fails, none, 400, ""},
    {Rule::r3_tombstone, "R3-tombstone", "a client forgets at once what was taken away", Proof::fails, none, 400, ""},
    {Rule::r3_late_drop, "R3-late-drop", "sections that are older than the tombstones are applied", Proof::fails, none, 3000, ""},
    {Rule::r3_shadow_unapplied, "R3-shadow-unapplied", "a section stopped by a tombstone is acked", Proof::fails, none, 600, ""},
    {Rule::r4_changed, "R4-changed", "changed() forgets the versions that the ring has dropped", Proof::fails, none, 600, ""},
    {Rule::r4_struct, "R4-struct", "an ack from before a structural change takes lanes out of limbo", Proof::fails, none, 400, ""},
    {Rule::r4_struct_gain, "R4-struct-gain", "gaining a lane does not count as a structural change", Proof::fails, none, 2000, ""},
    {Rule::r4_rebind, "R4-rebind", "another occupant in a lane that stays visible goes unnoticed", Proof::fails, none, 400, ""},
    {Rule::r4_strand, "R4-strand", "the baseline follows every newer ack", Proof::efficiency, none, 1000,
     "which baseline is kept decides how much goes out in full, never what is right"},
    {Rule::r4_promote, "R4-promote", "an idle chunk keeps its old baseline", Proof::efficiency, none, 1000,
     "an old baseline is served in full once the ring has dropped it"},
    {Rule::r5_unapplied_limbo, "R5-unapplied-limbo", "sections that could not be applied are acked as if they were",
     Proof::fails, none, 400, ""},
    {Rule::r5_superseded, "R5-superseded",
     "superseded means older than the lane's newest state, not than its oldest one kept", Proof::fails, none,
     400, ""}, // some seed in ten thousand; the scenario overtaken_delta is made for it
    {Rule::r6_loss, "R6-loss", "a lost message makes nothing pending", Proof::fails, none, 400, ""},
    {Rule::r6_wrap, "R6-wrap", "a record that the record ring overwrites makes nothing pending", Proof::covered, Rule::r6_stall, 1000,
     "R6-stall finds the chunk without a record in flight one tick later"},
    {Rule::r6_stall, "R6-stall", "a chunk with unacked lanes and nothing in flight stays as it is", Proof::fails, none, 400, ""},
    {Rule::r7_patch, "R7-patch", "a late section changes only the version of its own tick", Proof::fails, none, 600, ""},
    {Rule::r7_floor, "R7-floor", "below the oldest version kept, that version is used", Proof::fails, none, 600, ""},
    {Rule::r7_copy, "R7-copy", "a version has only the lanes that it carried", Proof::fails, none, 200, ""},
    {Rule::r7_unlisted, "R7-unlisted", "components that a delta does not list keep their live value", Proof::fails, none, 2000, ""},
    {Rule::r8_per_lane, "R8-per-lane", "a section older than the newest of its chunk is skipped and acked", Proof::fails, none, 400, ""},
    {Rule::r8_old, "R8-old", "what arrives last wins", Proof::fails, none, 200, ""},
    {Rule::r9_settled, "R9-settled", "the settled tick overlooks what is sent and not acked", Proof::fails, none, 200, ""},
    {Rule::r13_accepted, "R13-accepted", "a refused message counts as sent", Proof::covered, Rule::r6_stall, 1000,
     "a refused message leaves no record, so R6-stall sends its lanes again"},
    {Rule::r14_serve, "R14-serve", "the oldest version stands in for one that the ring has dropped", Proof::fails, none, 600, ""},
    {Rule::split_rebound, "split-rebound", "struct-split: changes of occupants since the acked tick are not looked up",
     Proof::fails, none, 600, ""},
    {Rule::split_private, "split-private", "struct-split: private changes of visibility are not recorded", Proof::fails, none, 600, ""},
    {Rule::mask_encode, "mask-encode", "a section has the components that the client does not see", Proof::fails, none, 400, ""},
    {Rule::mask_baseline, "mask-baseline", "a section is encoded against what the client does not see", Proof::fails, none, 400, ""},
    {Rule::mask_private, "mask-private", "a change of what a client sees of an entity is sent as a change of values", Proof::fails, none,
     400, ""},
    {Rule::mask_struct, "mask-struct", "an ack from before a change of what a client sees takes the lane out of limbo", Proof::fails, none,
     2000, ""},
    {Rule::mask_quiet, "mask-quiet", "what a client does not see counts as changed for it", Proof::efficiency, none, 1000,
     "such lanes are sent without need, and say only that something has changed"},
    {Rule::kept_hold, "kept-hold", "a client takes a hidden component away that it is told to keep", Proof::fails, none, 400, ""},
    {Rule::kept_compare, "kept-compare", "the first full state of a lane that kept a component is compared with the state before",
     Proof::fails, none, 2000, ""},
    {Rule::kept_blind, "kept-blind", "a client is told to keep what the entity has, not what its rule says", Proof::fails, none, 400, ""},
    {Rule::pause_value, "pause-value", "a paused entity is captured", Proof::fails, none, 400, ""},
    {Rule::pause_sight, "pause-sight", "a paused entity is hidden from those that see it", Proof::fails, none, 400, ""},
    {Rule::pause_nobody_else, "pause-nobody-else", "a paused entity is shown to those that come into its sight", Proof::fails, none, 400,
     ""},
    {Rule::pause_lane, "pause-lane", "the lane of an entity that ended while it was paused is free at once", Proof::fails, none, 400, ""},
};

const RuleInfo* find_rule(std::string_view name) {
    for (const RuleInfo& info : rule_table)
        if (info.name == name)
            return &info;
    return nullptr;
}

const VariantInfo variant_table[variant_count] = {
    {"struct-split", "changes of occupants are looked up in the mirror's ring, struct_tick is for private changes of visibility"},
    {"lazy-promote", "a baseline is promoted when its chunk is next visited"},
    {"prune-pending", "pending lanes whose state is acked already are not sent"},
    {"tick-loss", "a message is lost once one of two or more ticks later is acked"},
    {"no-sidecars", "no owner-only components"},
    {"move-together", "the lane left and the lane entered by a move travel in one message"},
    {"stall-events", "stalled lanes are looked for when their chunk is visited and when a record is resolved"},
    {"withdraw", "a structural change takes its lanes out of the records in flight, in place of struct_tick"},
    {"lane-drops", "of versions that the ring has dropped, the newest change of each lane is kept"},
    {"held-back-end", "a baseline is held back for a bounded time, and what the refused ack gained is sent again"},
};

bool Variants::switch_on(std::string_view name) {
    if (name == "engine") {
        for (const Variant variant : {Variant::struct_split, Variant::lazy_promote, Variant::prune_pending, Variant::tick_loss,
                                      Variant::withdraw, Variant::lane_drops, Variant::held_back_end})
            switch_on(variant);
        return true;
    }
    for (int i = 0; i < variant_count; ++i) {
        if (variant_table[i].name == name) {
            switch_on(Variant(i));
            return true;
        }
    }
    return false;
}

} // namespace model
