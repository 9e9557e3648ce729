#pragma once
// Relations: components that lead to another entity, such as ChildOf. The world keeps, for each relation type, the way back: the
// sources of a target, in the order in which they came.
#include "throng/array.hpp"
#include "throng/entity.hpp"
#include <concepts>

namespace throng {

/// What becomes of the sources when their target is destroyed (flecs: OnDeleteTarget).
enum class OnTargetDestroy : u8 {
    remove,  ///< they lose the relation
    destroy, ///< they are destroyed, too, and theirs, to any depth, together and without recursion
    keep     ///< they keep the component, with a handle that is dead
};

/// A component type with a member `Entity target` and a `static constexpr OnTargetDestroy on_target_destroy`. Exclusive: an entity
/// has one target a type. `static constexpr bool acyclic = true` says that no way along targets leads back.
template <class T>
concept Relation = requires(T& value) {
    { value.target } -> std::same_as<Entity&>;
    requires std::is_same_v<std::remove_cv_t<decltype(T::on_target_destroy)>, OnTargetDestroy>;
};
template <class T>
inline constexpr bool is_acyclic = false;
template <class T>
requires requires {
    requires T::acyclic;
}
inline constexpr bool is_acyclic<T> = true;

/// The hierarchy: who is destroyed takes its children along.
struct ChildOf {
    Entity target;
    static constexpr OnTargetDestroy on_target_destroy = OnTargetDestroy::destroy;
    static constexpr bool acyclic = true;
};

namespace detail {

/// What the world does with the rows of a relation type that it does not know.
struct RelationOps {
    OnTargetDestroy on_target_destroy;
    bool acyclic;
    Entity (*target)(const void* row);
    void (*retarget)(void* row, Entity target);
};
template <class R>
inline constexpr RelationOps relation_ops{R::on_target_destroy, is_acyclic<R>,
                                          [](const void* row) { return static_cast<const R*>(row)->target; },
                                          [](void* row, Entity target) { static_cast<R*>(row)->target = target; }};

/// The place of an entity among the sources of its target, and its own sources. Slots; no_row: none.
struct RelationLinks {
    u32 target = no_row;
    u32 previous = no_row;
    u32 next = no_row;
    u32 first = no_row;
    u32 last = no_row;
    u32 count = 0;

    /// Out of the list of its target; its own sources stay.
    void leave() { target = previous = next = no_row; }
};

/// The links of one relation type, by slot, in pages that appear when first used. All linked slots hold entities that live: the world
/// takes the links away before an entity ends.
class RelationTable {
public:
    static constexpr u32 page_slots = 1024;
    static constexpr std::size_t page_bytes = page_slots * sizeof(RelationLinks);

    RelationTable(const Allocator& allocator, ComponentId component, const RelationOps& ops)
        : pages_(allocator), touched_(allocator), ops_(&ops), component_(component) {}
    RelationTable(RelationTable&&) noexcept = default;
    RelationTable& operator=(RelationTable&&) = delete;
    ~RelationTable();

    ComponentId component() const { return component_; }
    const RelationOps& ops() const { return *ops_; }
    RelationLinks links(u32 slot) const {
        const u32 page = slot / page_slots;
        return page < pages_.size() && pages_.data()[page] ? pages_.data()[page][slot % page_slots] : RelationLinks{};
    }
    /// Room for the links of a slot. May throw what the allocator throws.
    void reserve(u32 slot);
    /// Puts the source at the end of the target's list. Room for both is there; the source has no target.
    void link(u32 source, u32 target);
    /// Nothing if it has no target.
    void unlink(u32 source);
    /// unlink, and the same for all its sources. O(1 + sources).
    void drop(u32 slot);
    /// The way along targets from `from` comes by `to`, or is longer than `limit`.
    bool leads_to(u32 from, u32 to, u32 limit) const;
    // For rollback: pages, as they are written.
    u32 page_count() const { return pages_.size(); }
    /// Null before its first use.
    const RelationLinks* page(u32 index) const { return pages_.data()[index]; }
    /// The links become those of a copy of the page; null: none.
    void set_page(u32 index, const void* copy);
    bool touched(u32 page) const { return touched_.data()[page] != 0; }
    void set_touched(u32 page, bool to) { touched_.data()[page] = u8(to); }
    void copy_from(const RelationTable& other);
    /// Forgets all links, keeps the memory.
    void clear();
    u64 memory_bytes() const;

private:
    RelationLinks& at(u32 slot) { // for writing
        touched_.data()[slot / page_slots] = 1;
        return pages_.data()[slot / page_slots][slot % page_slots];
    }

    Array<RelationLinks*> pages_;
    Array<u8> touched_; // by page
    const RelationOps* ops_;
    ComponentId component_;
};

} // namespace detail
} // namespace throng
