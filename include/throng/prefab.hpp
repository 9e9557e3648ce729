#pragma once
// A recipe of components that World::instantiate turns into entities in one go.
#include "throng/pool.hpp"

namespace throng {

/// Values of components, one per type, kept in id order, so that an instance sets its signature once and writes its row
/// numbers in order, without an insertion. Needs copyable types. Move only; independent of any world, and of any limit of
/// component types until it is instantiated. Thread rule: as a plain value; many threads may read it.
class Prefab {
public:
    explicit Prefab(Allocator allocator = default_allocator()) : entries_(allocator) {}
    Prefab(Prefab&&) noexcept = default;
    Prefab& operator=(Prefab&& other) noexcept;
    ~Prefab();

    /// A prefab of these values, in any order. The types must differ.
    template <class... Ts>
    static Prefab of(Ts&&... values) {
        Prefab prefab;
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
        const ComponentId id = component_id<Component>();
        const u32 position = lower_bound(id);
        if (position < entries_.size() && entries_[position].id == id)
            return false;
        entries_.reserve_extra(1);
        Storage storage{entries_.allocator(), component_ops<Component>};
        ::new (storage.memory) Component(std::forward<T>(value));
        insert(position, {id, &component_ops<Component>, std::exchange(storage.memory, nullptr)});
        return true;
    }

    u32 size() const { return static_cast<u32>(entries_.size()); }
    /// Ids ascend with i < size().
    ComponentId component(u32 i) const { return entries_[i].id; }
    const ComponentOps& ops(u32 i) const { return *entries_[i].ops; }
    const void* value(u32 i) const { return entries_[i].value; }

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

} // namespace throng
