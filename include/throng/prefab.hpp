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
    explicit BasicPrefab(Allocator allocator = default_allocator()) : PrefabValues(allocator) {}

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
};
using Prefab = BasicPrefab<default_max_components>;

} // namespace throng
