#pragma once
// How often changes of an entity are sent, for those that matter less.
#include "throng/base.hpp"

namespace throng {

/// Component of a replicated entity: changes of it go to clients every 1 / value ticks, rounded up to a power of two of at most
/// update_period_max; what changed in between goes then, as it is then. 1, and above: every tick, as without this component; 0 and below,
/// and not a number: every update_period_max ticks. For one client View::set_priority counts instead.
///
///     world.add<UpdatePriority>(tree, {0.25f}); // every fourth tick
///
/// Only changes wait: that an entity appears or is gone is said at once, and what was lost goes again at once. Entities of one place wait
/// for the same ticks, so that payloads stay shared. Change it through marking accessors (mut, add, each_mut). It is not sent.
struct UpdatePriority {
    float value = 1;
};

inline constexpr u32 update_period_log2_max = 6, update_period_max = 1u << update_period_log2_max; // ticks

/// log2 of the ticks between two sends: 0..update_period_log2_max.
constexpr u32 update_period_log2(float priority) {
    u32 period = 0;
    while (period < update_period_log2_max && !(priority * static_cast<float>(1u << period) >= 1))
        ++period;
    return period;
}

} // namespace throng
