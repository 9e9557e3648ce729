#pragma once
// R14: the captured columns of one chunk, a ring of earlier versions, and what is encoded from them.
#include "tests/model/setting.hpp"

namespace model {

/// What a chunk was from `tick` on, and how that differed from before.
struct Version {
    Tick tick = 0;
    Lanes lanes{};
    Mask dirty = 0;   // lanes that differ from the version before
    Mask rebound = 0; // of these: another occupant, or one instead of none, or none instead of one
    std::array<Mask, 2> cells{}; // of these, those in which the component differs
};

class Mirror {
public:
    Mirror(Context context, int depth) : context_(context), depth_(depth), ring_(1) {}

    struct Captured {
        Mask dirty = 0;
        Mask rebound = 0;
    };
    /// Opens a version if anything differs from the newest one.
    Captured capture(Tick tick, const Lanes& lanes);

    /// Lanes that changed in (after, until]. All of them when the ring has dropped a version from after `after`, because then nobody
    /// knows (R4); with lane-drops those that changed in a dropped version after it, at whatever tick.
    /// What changed in components that are `unseen`, by component the lanes in which one is, does not count.
    Mask changed(Tick after, Tick until, const std::array<Mask, 2>& unseen) const;
    /// Lanes whose occupant changed in (after, until], with the same caution.
    Mask rebound(Tick after, Tick until) const;

    /// The version that was current at the baseline: valid from its tick until the next version opened. Null when it
    /// has been dropped (R14).
    const Version* serving(Tick baseline) const;
    const Version& newest() const { return ring_.back(); }

    /// A payload. It depends on the mirror and the arguments alone, so that it can be shared (R1). `seen(lane, value)`: the value as those
    /// see it that get the payload.
    template <class Seen>
    Section encode(int chunk, Tick baseline, Mask mask, Seen&& seen) const;

private:
    static std::array<Tick, lane_count> never_dropped() {
        std::array<Tick, lane_count> ticks;
        ticks.fill(-1);
        return ticks;
    }
    Mask dropped_since(Tick after) const;
    bool forgotten(Tick after) const { return newest_dropped_ > after && context_.rules(Rule::r4_changed); }

    Context context_;
    int depth_;
    std::vector<Version> ring_; // oldest first, never empty
    Tick newest_dropped_ = -1;
    std::array<Tick, lane_count> lane_dropped_ = never_dropped(); // newest change of each lane in a dropped version
};

template <class Seen>
Section Mirror::encode(int chunk, Tick baseline, Mask mask, Seen&& seen) const {
    Lanes now = newest().lanes;
    for (int lane = 0; lane < lane_count && context_.rules(Rule::mask_encode); ++lane)
        now[lane] = seen(lane, now[lane]);
    if (!context_.rules(Rule::r1_explicit_mask))
        for (int lane = 0; lane < lane_count; ++lane)
            if (now[lane].occupant)
                mask |= bit(lane);
    Section section;
    section.chunk = chunk;
    section.baseline = baseline;
    section.mask = mask;
    for (int lane = 0; lane < lane_count; ++lane) {
        if (!has(mask, lane))
            continue;
        LanePayload& out = section.lanes[lane];
        if (section.limbo()) {
            out.full = now[lane];
            continue;
        }
        out.base_used = serving(baseline)->lanes[lane];
        if (context_.rules(Rule::mask_baseline))
            out.base_used = seen(lane, out.base_used);
        for (int i = 0; i < component_count(scope_of(chunk)); ++i) {
            const Cell& to = now[lane].cells[i];
            const Cell& from = out.base_used.cells[i];
            CellChange& change = out.changes[i];
            change.present = to.present;
            change.difference = to.value - from.value;
            change.counter = context_.rules(Rule::r2_insert_counter) ? to.counter : from.counter;
            change.sequence = to.sequence;
            change.changed = to.present != from.present || change.difference != 0 || change.counter != from.counter;
        }
    }
    return section;
}

} // namespace model
