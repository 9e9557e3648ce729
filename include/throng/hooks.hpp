#pragma once
// Functions that a world calls when components come, change and go. Part of throng/world.hpp; the calls are BasicWorld::on_add,
// on_change, on_remove and on_destroy.
#include "throng/array.hpp"
#include "throng/entity.hpp"

namespace throng {

/// Names a hook, for BasicWorld::unhook. 0: none.
using HookId = u32;

namespace detail {

enum class HookKind : u8 { add, change, remove, destroy };

struct Hook {
    void (*call)(void* closure, void* world, Entity entity, void* row); // null: taken off, not yet out of the list
    void (*end)(void* closure, const Allocator& allocator);
    void* closure;
    HookId id;
    u32 key;
    u32 closure_bytes;
};

/// The hooks of one world. Lists change only between calls: what is hooked or unhooked inside a hook waits until the outermost
/// call returns (an unhooked one is not called any more).
class HookTable {
public:
    explicit HookTable(const Allocator& allocator) : hooks_(allocator), waiting_(allocator) {}
    HookTable(const HookTable&) = delete;
    HookTable& operator=(const HookTable&) = delete;
    ~HookTable();

    static u32 key_of(HookKind kind, u32 component) { return component << 2 | static_cast<u32>(kind); }
    /// Room for one more, so that add does not fail.
    void reserve() {
        hooks_.reserve_extra(waiting_.size() + std::size_t(1));
        waiting_.reserve_extra(1);
    }
    HookId add(Hook hook);
    /// The key it had, or no_row.
    u32 remove(HookId id);
    bool any(u32 key) const;
    /// The hooks of a key are [first, end).
    u32 first(u32 key) const;
    u32 end_of(u32 key) const { return first(key + 1); }
    const Hook& operator[](u32 i) const { return hooks_[i]; }
    const Allocator& allocator() const { return hooks_.allocator(); }

    /// Of the lists and of the closures.
    u64 memory_bytes() const;
    u32 depth() const { return depth_; }
    void enter() { ++depth_; }
    void leave() {
        if (--depth_ == 0 && stale_)
            settle();
    }

private:
    void insert(Hook hook);
    void settle();

    Array<Hook> hooks_;   // by key, then in order of registration
    Array<Hook> waiting_; // registered inside a hook
    u32 depth_ = 0;
    HookId last_id_ = 0;
    bool stale_ = false; // something waits, or was taken off
};

/// A hook that waits for BasicWorld::announce. A kind that is `remove` is spent.
struct Unannounced {
    Entity entity;
    u32 component;
    HookKind kind;
    u32 next; // of those in the same chain, the one before
};

/// The hooks that wait, in order, and chains by slot and component: all look-ups are O(1).
class WaitingHooks {
public:
    explicit WaitingHooks(const Allocator& allocator) : entries_(allocator), chains_(allocator) {}

    u32 size() const { return entries_.size(); }
    bool empty() const { return entries_.empty(); }
    const Unannounced& operator[](u32 i) const { return entries_[i]; }
    /// It waits no more, but keeps its place.
    void spend(u32 i) { entries_[i].kind = HookKind::remove; }
    /// Room for `count` more, so that push does not fail. May throw what the allocator throws; nothing has changed then.
    void reserve_extra(u32 count);
    void push(Entity entity, u32 component, HookKind kind) {
        u32& chain = chains_[chain_of(entity, component)];
        entries_.push_back({entity, component, kind, std::exchange(chain, entries_.size())});
    }
    /// Number of the last one that waits for the component; no_row if none does.
    u32 find(Entity entity, u32 component) const {
        u32 i = entries_.empty() ? no_row : chains_[chain_of(entity, component)];
        while (i != no_row && !(entries_[i].entity == entity && entries_[i].component == component && entries_[i].kind != HookKind::remove))
            i = entries_[i].next;
        return i;
    }
    /// O(size()). Keeps the memory.
    void clear();
    u64 memory_bytes() const { return u64(entries_.capacity()) * sizeof(Unannounced) + u64(chains_.capacity()) * sizeof(u32); }

private:
    u32 chain_of(Entity entity, u32 component) const { return (entity.entity_idx * 0x9e3779b1u + component * 0x85ebca6bu) >> shift_; }
    Array<Unannounced> entries_;
    Array<u32> chains_; // the last entry of each; a power of two of them, as many as entries at least
    u32 shift_ = 31;    // 32 - log2 of how many
};

/// Stack of what a world is removing right now, so that a hook that removes the same again does nothing.
struct Removal {
    u64 entity_id;
    u32 component;
};

} // namespace detail
} // namespace throng
