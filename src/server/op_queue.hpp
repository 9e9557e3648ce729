#pragma once
// Ops that Server::apply_diff has done since the last tick, by entity, in the order in which they were done. Between ticks the calling
// thread writes; capture reads, and then they are forgotten: those that a lane keeps are in its log (src/registry/op_log.hpp).
#include "throng/array.hpp"
#include "throng/protocol_rule.hpp"
#include <span>

namespace throng {

class OpQueue {
public:
    explicit OpQueue(Allocator allocator) : entities_(allocator), ops_(allocator), bytes_(allocator), used_(allocator) {}

    void add(u32 entity_idx, ComponentId component, const DiffFunctions& diffs, std::span<const std::byte> op) {
        if (entity_idx >= entities_.size())
            entities_.resize(entity_idx + 1);
        List& list = entities_[entity_idx];
        const u32 number = ops_.size() + 1;
        if (list.first == 0)
            used_.push_back(entity_idx);
        (list.first == 0 ? list.first : ops_[list.last - 1].next) = number;
        list.last = number;
        ops_.push_back({&diffs, bytes_.size(), static_cast<u32>(op.size()), 0, component});
        bytes_.append(op.data(), op.size());
    }
    bool any(u32 entity_idx) const { return entity_idx < entities_.size() && entities_[entity_idx].first != 0; }
    /// Calls f(bytes) for the ops of a component of an entity that has some, as far as they were registered with the same functions.
    template <class F>
    void each(u32 entity_idx, ComponentId component, const DiffFunctions& diffs, F&& f) const {
        for (u32 number = entities_[entity_idx].first; number != 0; number = ops_[number - 1].next) {
            const Op& op = ops_[number - 1];
            if (op.component == component && alike(*op.diffs, diffs))
                f(std::span<const std::byte>{bytes_.data() + op.at, op.bytes});
        }
    }
    u64 bytes() const { return bytes_.size() + ops_.size() * sizeof(Op); }
    void clear() {
        for (const u32 entity_idx : used_)
            entities_[entity_idx] = {};
        used_.clear();
        ops_.clear();
        bytes_.clear();
    }

private:
    struct List { // of ops: number + 1, or 0
        u32 first = 0, last = 0;
    };
    struct Op {
        const DiffFunctions* diffs;
        u32 at, bytes; // in bytes_
        u32 next;
        ComponentId component;
    };
    static bool alike(const DiffFunctions& a, const DiffFunctions& b) {
        return a.serialize == b.serialize && a.deserialize == b.deserialize && a.apply == b.apply;
    }
    Array<List> entities_; // by entity_idx
    Array<Op> ops_;
    Array<std::byte> bytes_;
    Array<u32> used_;
};

} // namespace throng
