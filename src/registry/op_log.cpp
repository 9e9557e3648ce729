#include "src/registry/op_log.hpp"
#include <cstring>

namespace throng {
namespace {
constexpr u32 compact_min = 32; // ops that are dropped before the rest moves to the front

/// An op's length, and whether another one of its tick follows.
u32 code_of(u32 bytes, bool more) {
    return bytes << 1 | static_cast<u32>(more);
}
} // namespace

void OpLog::clear() {
    ops_.clear();
    bytes_.clear();
    first_ = 0;
}

void OpLog::append(Tick tick, Tick before, std::span<const std::span<const std::byte>> ops, u32 history, u32 bytes_max) {
    if (count() == 0) {
        clear();
        since_ = before;
    }
    u32 added = 0;
    for (const std::span<const std::byte> op : ops)
        added += static_cast<u32>(op.size());
    if (ops.size() > history || added > bytes_max)
        return clear();
    while (count() > 0 && (count() + ops.size() > history || bytes_.size() - begin_of(first_) + added > bytes_max))
        drop_oldest_tick();
    if (first_ >= compact_min && first_ >= count())
        compact();
    for (const std::span<const std::byte> op : ops) {
        bytes_.append(op.data(), op.size());
        ops_.push_back({tick, bytes_.size()});
    }
}

void OpLog::drop_oldest_tick() {
    since_ = ops_[first_].tick;
    while (first_ < ops_.size() && ops_[first_].tick == since_)
        ++first_;
}

void OpLog::compact() {
    const u32 dropped = begin_of(first_), kept = count();
    std::memmove(bytes_.data(), bytes_.data() + dropped, bytes_.size() - dropped);
    bytes_.resize(bytes_.size() - dropped);
    for (u32 i = 0; i < kept; ++i)
        ops_[i] = {ops_[first_ + i].tick, ops_[first_ + i].end - dropped};
    ops_.resize(kept);
    first_ = 0;
}

u32 OpLog::first_after(Tick baseline) const {
    u32 op = ops_.size();
    while (op > first_ && tick_newer(ops_[op - 1].tick, baseline))
        --op;
    return op;
}

u32 OpLog::size_after(Tick baseline, Tick now) const {
    if (count() == 0 || tick_newer(since_, baseline))
        return 0;
    u32 bytes = 0;
    for (u32 op = first_after(baseline); op < ops_.size(); ++op) {
        const u32 size = ops_[op].end - begin_of(op);
        if (bytes == 0 || ops_[op].tick != ops_[op - 1].tick)
            bytes += varint_bytes(now - ops_[op].tick);
        bytes += varint_bytes(code_of(size, false)) + size;
    }
    return bytes;
}

void OpLog::write_after(Tick baseline, Tick now, BitWriter& out) const {
    const u32 first = first_after(baseline);
    const auto put = [&](u32 value) {
        std::byte bytes[varint_bytes_max];
        out.put_bytes(bytes, write_varint(bytes, value));
    };
    for (u32 op = first; op < ops_.size(); ++op) {
        const u32 begin = begin_of(op), size = ops_[op].end - begin;
        if (op == first || ops_[op].tick != ops_[op - 1].tick)
            put(now - ops_[op].tick);
        put(code_of(size, op + 1 < ops_.size() && ops_[op + 1].tick == ops_[op].tick));
        out.put_bytes(bytes_.data() + begin, size);
    }
}

bool OpReader::next(std::span<const std::byte>& op, u32& age) {
    if (error_ != Error::none || (left_.empty() && !more_))
        return false;
    if (!more_) {
        u32 value = 0;
        error_ = read_varint(left_, value);
        if (error_ == Error::none && value >= age_)
            error_ = Error::bad_value; // not after the baseline, or not after the one before
        age_ = value;
    }
    u32 code = 0;
    if (error_ == Error::none)
        error_ = read_varint(left_, code);
    if (error_ == Error::none && code >> 1 > left_.size())
        error_ = Error::truncated;
    if (error_ != Error::none)
        return false;
    more_ = (code & 1) != 0;
    op = left_.first(code >> 1);
    left_ = left_.subspan(code >> 1);
    age = age_;
    return true;
}

} // namespace throng
