#pragma once
// What was done to one opaque lane (R15): ops by tick, newest last, and how they stand in a section (docs/wire.md 2). The cursor of a
// client is the baseline that its section names, so the log knows nothing of clients.
#include "src/registry/layout.hpp"
#include "throng/array.hpp"
#include "throng/wire.hpp"
#include <span>

namespace throng {

/// Bounded: the oldest ticks are dropped whole. Its arrays keep their memory.
class OpLog {
public:
    explicit OpLog(Allocator allocator) : ops_(allocator), bytes_(allocator) {}

    /// The lane has changed otherwise: nothing leads from before to now.
    void clear();
    /// The ops of `tick`, which is newer than all others, and that made what the lane has been since `before` into what it is now. Keeps at
    /// most `history` ops, and bytes_max bytes of them: more would cost more than what they make.
    void append(Tick tick, Tick before, std::span<const std::span<const std::byte>> ops, u32 history, u32 bytes_max);
    /// Bytes that the ops after `baseline` take in a section of tick `now`. 0: not all of them are kept, or there are none.
    u32 size_after(Tick baseline, Tick now) const;
    /// Writes them, where size_after is not 0. `out` is aligned.
    void write_after(Tick baseline, Tick now, BitWriter& out) const;

    u32 count() const { return ops_.size() - first_; }

private:
    struct Op {
        Tick tick;
        u32 end; // in bytes_
    };
    u32 first_after(Tick baseline) const;
    u32 begin_of(u32 op) const { return op == 0 ? 0 : ops_[op - 1].end; }
    void drop_oldest_tick();
    void compact();

    Array<Op> ops_; // those before first_ are dropped
    Array<std::byte> bytes_;
    u32 first_ = 0;
    Tick since_ = 0; // the ops that are kept lead from the state of this tick to the present one
};

/// Reads ops of a section, whatever the bytes are.
class OpReader {
public:
    OpReader(std::span<const std::byte> in, u32 baseline_age) : left_(in), age_(baseline_age) {}

    /// The next op, and how many ticks before the section's it was done. False: there is none, or what comes makes no sense.
    bool next(std::span<const std::byte>& op, u32& age);
    /// none after the last one.
    Error error() const { return error_; }

private:
    std::span<const std::byte> left_;
    u32 age_;
    bool more_ = false; // of the same tick
    Error error_ = Error::none;
};

} // namespace throng
