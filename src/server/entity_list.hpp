#pragma once
// A set of entities of a world, for one client, with a number for each: a sorted array, since most clients have none, and some have few.
#include "throng/array.hpp"
#include "throng/entity.hpp"
#include <algorithm>

namespace throng {

class EntityList {
public:
    struct Entry {
        u32 entity_idx = 0;
        u32 number = 0;
        u64 entity_id = 0;
    };
    explicit EntityList(Allocator allocator) : entries_(allocator) {}

    /// Returns false if it is there already with this number. Takes the place of an entity that had the same slot before.
    bool add(Entity entity, u32 number = 0) {
        Entry* const at = lower_bound(entity.entity_idx);
        if (at != entries_.end() && at->entity_idx == entity.entity_idx) {
            const bool there = at->entity_id == entity.entity_id && at->number == number;
            at->entity_id = entity.entity_id;
            at->number = number;
            return !there;
        }
        const u32 index = static_cast<u32>(at - entries_.begin());
        entries_.push_back({});
        std::copy_backward(entries_.begin() + index, entries_.end() - 1, entries_.end());
        entries_[index] = {entity.entity_idx, number, entity.entity_id};
        return true;
    }
    /// Returns false if it is not there.
    bool remove(Entity entity) {
        if (!has(entity.entity_idx, entity.entity_id))
            return false;
        Entry* const at = lower_bound(entity.entity_idx);
        std::copy(at + 1, entries_.end(), at);
        entries_.pop_back();
        return true;
    }
    template <class F>
    void remove_if(F&& f) {
        entries_.resize(static_cast<u32>(std::remove_if(entries_.begin(), entries_.end(), f) - entries_.begin()));
    }
    bool has(u32 entity_idx, u64 entity_id) const {
        const Entry* const at = const_cast<EntityList*>(this)->lower_bound(entity_idx);
        return at != entries_.end() && at->entity_idx == entity_idx && at->entity_id == entity_id;
    }
    void clear() { entries_.clear(); }
    bool empty() const { return entries_.empty(); }
    u32 size() const { return entries_.size(); }
    const Entry* begin() const { return entries_.begin(); }
    const Entry* end() const { return entries_.end(); }
    u64 capacity_bytes() const { return u64(entries_.capacity()) * sizeof(Entry); }

private:
    Entry* lower_bound(u32 entity_idx) {
        return std::lower_bound(entries_.begin(), entries_.end(), entity_idx, [](const Entry& e, u32 idx) { return e.entity_idx < idx; });
    }
    Array<Entry> entries_; // ascending by entity_idx
};

} // namespace throng
