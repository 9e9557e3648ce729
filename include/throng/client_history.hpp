#pragma once
// At which ticks the state of one entity has come to a client (docs/guide.md 5). A value; any thread.
#include "throng/base.hpp"

namespace throng {

class ConfirmHistory {
public:
    /// Ticks remembered: the newest one and those before it.
    static constexpr u32 window = 64;

    ConfirmHistory() = default;
    /// Of an entity that is shown from `tick` on, and was carried then.
    explicit ConfirmHistory(Tick tick) : carried_(1), newest_(tick), since_(tick) {}

    /// The entity's state of `tick` has come. Ticks may come in any order; those older than the window are forgotten.
    void confirm(Tick tick) {
        const u32 ahead = tick - newest_;
        if (tick_newer(tick, newest_)) {
            carried_ = ahead < window ? carried_ << ahead | 1 : 1;
            newest_ = tick;
        } else if (newest_ - tick < window) {
            carried_ |= u64(1) << (newest_ - tick);
        }
    }
    /// The entity is seen again from `tick` on, after it was not.
    void restart(Tick tick) { since_ = tick; }

    /// Newest tick of which the state has come.
    Tick newest() const { return newest_; }
    /// Since when it is shown, or seen again.
    Tick since() const { return since_; }
    /// Bit i: the state of tick newest() - i has come.
    u64 mask() const { return carried_; }
    /// Whether the state of this very tick has come. False for ticks older than the window.
    bool carried(Tick tick) const {
        return !tick_newer(tick, newest_) && newest_ - tick < window && (carried_ >> (newest_ - tick) & 1);
    }
    /// The same for any tick of first..last. An empty range has none.
    bool carried_any(Tick first, Tick last) const {
        if (tick_newer(first, last) || tick_newer(first, newest_))
            return false;
        const u32 from = tick_newer(last, newest_) ? 0 : newest_ - last, to = newest_ - first;
        if (from >= window)
            return false;
        const u64 up_to = to < window - 1 ? (u64(2) << to) - 1 : ~u64(0);
        return (carried_ & up_to) >> from != 0;
    }

private:
    u64 carried_ = 0;
    Tick newest_ = 0, since_ = 0;
};

} // namespace throng
