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
};

/// Stack of what a world is removing right now, so that a hook that removes the same again does nothing.
struct Removal {
    u64 entity_id;
    u32 component;
};

} // namespace detail
} // namespace throng
