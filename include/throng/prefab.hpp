#pragma once
// A recipe of components that World::instantiate turns into entities in one go.
#include "throng/pool.hpp"

namespace throng {

namespace detail {
/// What prefabs of any MaxC share: values by id, ids ascending.
class PrefabValues {
public:
    u32 size() const { return static_cast<u32>(entries_.size()); }
    /// Ids ascend with i < size().
    ComponentId component(u32 i) const { return entries_[i].id; }
    const ComponentOps& ops(u32 i) const { return *entries_[i].ops; }
    const void* value(u32 i) const { return entries_[i].value; }

protected:
    explicit PrefabValues(Allocator allocator) : entries_(allocator) {}
    PrefabValues(PrefabValues&&) noexcept = default;
    PrefabValues& operator=(PrefabValues&& other) noexcept;
    ~PrefabValues();

    /// Null if there is none.
    const void* find(ComponentId id) const {
        const u32 position = lower_bound(id);
        return position < entries_.size() && entries_[position].id == id ? entries_[position].value : nullptr;
    }
    bool remove_value(ComponentId id);
    void copy_from(const PrefabValues& other);

    template <class Component, class T>
    bool add_value(ComponentId id, T&& value) {
        const u32 position = lower_bound(id);
        if (position < entries_.size() && entries_[position].id == id)
            return false;
        entries_.reserve_extra(1);
        Storage storage{entries_.allocator(), component_ops<Component>};
        ::new (storage.memory) Component(std::forward<T>(value));
        insert(position, {id, &component_ops<Component>, std::exchange(storage.memory, nullptr)});
        return true;
    }

private:
    struct Entry {
        ComponentId id;
        const ComponentOps* ops;
        void* value;
    };
    /// Memory of one value, freed unless taken.
    struct Storage {
        const Allocator& allocator;
        const ComponentOps& ops;
        void* memory;
        Storage(const Allocator& a, const ComponentOps& o) : allocator(a), ops(o), memory(a.allocate(o.size, o.alignment)) {}
        Storage(const Storage&) = delete;
        ~Storage() { allocator.free(memory, ops.size, ops.alignment); }
    };
    u32 lower_bound(ComponentId id) const;
    void insert(u32 position, Entry entry);
    void destroy_values();

    Array<Entry> entries_;
};
} // namespace detail

/// Values of components, one per type, kept in id order, so that an instance sets its signature once and writes its row
/// numbers in order, without an insertion. Needs copyable types. Move only; independent of any one world, for all worlds of MaxC.
/// Thread rule: as a plain value; many threads may read it.
template <u32 MaxC>
class BasicPrefab : public detail::PrefabValues {
public:
    explicit BasicPrefab(Allocator allocator = default_allocator()) : PrefabValues(allocator), children_(allocator) {}
    BasicPrefab(BasicPrefab&&) noexcept = default;
    BasicPrefab& operator=(BasicPrefab&& other) noexcept {
        if (this != &other) {
            end_children();
            PrefabValues::operator=(std::move(other));
            children_ = std::move(other.children_);
        }
        return *this;
    }
    ~BasicPrefab() { end_children(); }

    /// A prefab of these values, in any order. The types must differ.
    template <class... Ts>
    static BasicPrefab of(Ts&&... values) {
        BasicPrefab prefab;
        const bool added = (prefab.add(std::forward<Ts>(values)) && ... && true);
        THRONG_ASSERT(added && "a component type appears twice in a prefab");
        (void)added;
        return prefab;
    }
    /// Adds a component; false, and no change, when the type is there already.
    template <class T>
    bool add(T&& value) {
        using Component = std::remove_cvref_t<T>;
        static_assert(std::is_copy_constructible_v<Component>, "a prefab copies its components");
        return add_value<Component>(component_id<Component, MaxC>(), std::forward<T>(value));
    }
    /// Adds a component, or puts the value in the place of the one that is there: an override.
    template <class T>
    void set(T&& value) {
        using Component = std::remove_cvref_t<T>;
        Component copy(std::forward<T>(value)); // it may be our own
        remove<Component>();
        add(std::move(copy));
    }
    /// False if there is none.
    template <class T>
    bool remove() {
        return remove_value(component_id<T, MaxC>());
    }
    /// Null if there is none.
    template <class T>
    const T* get() const {
        return static_cast<const T*>(find(component_id<T, MaxC>()));
    }
    /// A copy, children and all, to make a variant of. Its memory comes from the same allocator.
    BasicPrefab clone() const {
        BasicPrefab copy(children_.allocator());
        copy.copy_from(*this);
        for (const BasicPrefab* child : children_)
            copy.add_child(child->clone());
        return copy;
    }

    /// A nested prefab: each instance of this one has an instance of the child as its last child (ChildOf), and so on. The returned one
    /// stays where it is for the life of this prefab's tree, to override its values. An empty child is an entity of ChildOf alone.
    BasicPrefab& add_child(BasicPrefab child) {
        children_.reserve_extra(1);
        const Allocator& allocator = children_.allocator();
        void* const memory = allocator.allocate(sizeof(BasicPrefab), alignof(BasicPrefab));
        children_.push_back(::new (memory) BasicPrefab(std::move(child)));
        return *children_.back();
    }
    u32 child_count() const { return children_.size(); }
    /// `i` < child_count(), in the order of add_child.
    BasicPrefab& child(u32 i) { return *children_[i]; }
    const BasicPrefab& child(u32 i) const { return *children_[i]; }
    /// Entities of an instance: itself and all nested. O(result).
    u32 entity_count() const {
        u32 count = 1;
        for (const BasicPrefab* child : children_)
            count += child->entity_count();
        return count;
    }

private:
    void end_children() {
        for (BasicPrefab* child : children_) {
            child->~BasicPrefab();
            children_.allocator().free(child, sizeof(BasicPrefab), alignof(BasicPrefab));
        }
        children_.clear();
    }
    Array<BasicPrefab*> children_;
};
using Prefab = BasicPrefab<default_max_components>;

} // namespace throng
