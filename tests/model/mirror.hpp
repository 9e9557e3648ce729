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
    Mask changed(Tick after, Tick until) const;
    /// Lanes whose occupant changed in (after, until], with the same caution.
    Mask rebound(Tick after, Tick until) const;

    /// The version that was current at the baseline: valid from its tick until the next version opened. Null when it
    /// has been dropped (R14).
    const Version* serving(Tick baseline) const;
    const Version& newest() const { return ring_.back(); }

    /// A payload. It depends on the mirror and the three arguments alone, so that it can be shared (R1).
    Section encode(int chunk, Tick baseline, Mask mask) const;

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

} // namespace model
