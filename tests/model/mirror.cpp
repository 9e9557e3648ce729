#include "tests/model/mirror.hpp"

namespace model {

Mirror::Captured Mirror::capture(Tick tick, const Lanes& lanes) {
    Version fresh;
    fresh.tick = tick;
    fresh.lanes = lanes;
    for (int lane = 0; lane < lane_count; ++lane) {
        const LaneValue& before = ring_.back().lanes[lane];
        if (!same_on_wire(before, lanes[lane]))
            fresh.dirty |= bit(lane);
        if (before.occupant != lanes[lane].occupant)
            fresh.rebound |= bit(lane);
        for (int i = 0; i < 2; ++i)
            if (!same_on_wire(before.cells[i], lanes[lane].cells[i]))
                fresh.cells[i] |= bit(lane);
    }
    if (fresh.dirty) {
        ring_.push_back(fresh);
        if (int(ring_.size()) > depth_) {
            newest_dropped_ = ring_.front().tick;
            for (int lane = 0; lane < lane_count; ++lane)
                if (has(ring_.front().dirty, lane))
                    lane_dropped_[lane] = newest_dropped_;
            ring_.erase(ring_.begin());
        }
    }
    return {fresh.dirty, fresh.rebound};
}

Mask Mirror::changed(Tick after, Tick until, const std::array<Mask, 2>& unseen) const {
    if (forgotten(after) && !context_.variants(Variant::lane_drops))
        return all_lanes;
    Mask mask = forgotten(after) ? dropped_since(after) : 0;
    for (const Version& version : ring_)
        if (version.tick > after && version.tick <= until)
            mask |= version.rebound | (version.cells[0] & ~unseen[0]) | (version.cells[1] & ~unseen[1]);
    return mask;
}

Mask Mirror::rebound(Tick after, Tick until) const {
    if (forgotten(after) && !context_.variants(Variant::lane_drops))
        return all_lanes;
    Mask mask = forgotten(after) ? dropped_since(after) : 0;
    for (const Version& version : ring_)
        if (version.tick > after && version.tick <= until)
            mask |= version.rebound;
    return mask;
}

Mask Mirror::dropped_since(Tick after) const {
    Mask mask = 0;
    for (int lane = 0; lane < lane_count; ++lane)
        if (lane_dropped_[lane] > after)
            mask |= bit(lane);
    return mask;
}

const Version* Mirror::serving(Tick baseline) const {
    const Version* found = nullptr;
    for (const Version& version : ring_)
        if (version.tick <= baseline)
            found = &version;
    if (!found && !context_.rules(Rule::r14_serve))
        found = &ring_.front();
    return found;
}

} // namespace model
