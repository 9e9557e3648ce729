#pragma once
// Prefab instances, clones and bulk spawns of BasicWorld. Part of throng/world.hpp; do not
// include alone.
#include "throng/world_each.hpp"
#include "throng/world_inline.hpp"

namespace throng {
namespace detail {
template <class T>
void value_initialise_rows(void* rows, u32 count) {
    if constexpr (!is_tag<T>) {
        BuiltRows<T> built{static_cast<T*>(rows)};
        for (; built.built < count; ++built.built)
            ::new (static_cast<void*>(built.first + built.built)) T();
        built.keep = true;
    }
}
} // namespace detail

template <u32 MaxC>
void BasicWorld<MaxC>::reserve_batch(PoolBase* const* pools, u32 count, u32 logged, u32 instances) {
    for (u32 i = 0; i < count; ++i) {
        pools[i]->reserve_rows(instances);
        pools[i]->reserve_direct(u64(arena_.slots()) + instances);
    }
    arena_.reserve(instances);
    log_.reserve_extra(std::size_t(logged) * instances);
    if (const u32 log2 = overflow_log2_for(count); log2 != 0)
        lists_.prime(log2, instances);
}

template <u32 MaxC>
void BasicWorld<MaxC>::place_batch(PoolBase* const* pools, u32 count, const Signature<MaxC>& signature, u32 logged,
                                   std::span<Entity> entities) {
    const u32 instances = static_cast<u32>(entities.size());
    const u32 log2 = overflow_log2_for(count);
    u32 rows[MaxC] = {};
    for (u32 i = 0; i < count; ++i)
        rows[i] = pools[i]->size();
    constexpr u32 few = 8;
    const bool in_one = log2 == 0 && count <= few && inline_capacity_ >= few; // what lies beyond `count` in a list means nothing
    for (u32 k = 0; k < instances; ++k) {
        entities[k] = occupy_slot(signature, log2);
        Meta& m = meta(entities[k].entity_idx);
        if (log2 != 0)
            m.set_overflow_list(lists_.take(log2));
        if (in_one) {
            u32* const list = m.inline_list();
            for (u32 i = 0; i < few; ++i)
                list[i] = rows[i] + k;
        } else {
            u32* const list = m.list();
            for (u32 i = 0; i < count; ++i)
                list[i] = rows[i] + k;
        }
        if (logged != 0)
            for (u32 i = 0; i < count; ++i)
                if (logged_.test(pools[i]->component()))
                    log_entry(entities[k], pools[i]->component(), StructureEvent::Kind::added);
    }
    // In pieces, so that the handles are read from memory once and not for each pool.
    constexpr u32 piece = 1024;
    u32 owners[piece];
    for (u32 begin = 0; begin < instances; begin += piece) {
        const u32 part = instances - begin < piece ? instances - begin : piece;
        for (u32 k = 0; k < part; ++k)
            owners[k] = entities[begin + k].entity_idx;
        for (u32 i = 0; i < count; ++i)
            pools[i]->own_uncommitted(begin, owners, part);
    }
    for (u32 i = 0; i < count; ++i) {
        pools[i]->index_uncommitted(entities.data(), instances);
        pools[i]->commit_rows(instances);
    }
}

/// Instances of the prefab alone, without its children and without hooks; entity k becomes a child of parents[k] unless null.
template <u32 MaxC>
bool BasicWorld<MaxC>::instantiate_quietly(const BasicPrefab<MaxC>& prefab, std::span<Entity> entities, const Entity* parents) {
    const u32 instances = static_cast<u32>(entities.size());
    PoolBase* pools[MaxC + 1];
    const void* values[MaxC + 1]; // null: links to the parents
    pools[0] = nullptr;
    if (refuse_entity_change())
        return false;
    u32 count = 0;
    const u32 link = parents ? component_id<ChildOf, MaxC>() : no_row;
    for (u32 i = 0; i <= prefab.size(); ++i) {
        const u32 id = i < prefab.size() ? prefab.component(i) : no_row;
        if (parents && link <= id && (count == 0 || pools[count - 1]->component() < link)) {
            values[count] = nullptr;
            pools[count++] = try_pool<ChildOf>();
            THRONG_ASSERT(pools[count - 1] && "more component types than the world's MaxC");
            if (!pools[count - 1])
                return false;
        }
        if (id == no_row || id == link)
            continue;
        values[count] = prefab.value(i);
        pools[count++] = ensure_pool(static_cast<ComponentId>(id), prefab.ops(i));
        THRONG_ASSERT(pools[count - 1] && "more component types than the world's MaxC");
        if (!pools[count - 1])
            return false;
    }
    Signature<MaxC> signature;
    u32 logged = 0;
    for (u32 i = 0; i < count; ++i) {
        if (refuse_change(*pools[i]))
            return false;
        signature.set(pools[i]->component());
        logged += logged_.test(pools[i]->component());
    }
    reserve_batch(pools, count, logged, instances);
    detail::PendingRows pending{pools, instances};
    for (; pending.built < count; ++pending.built) {
        PoolBase& pool = *pools[pending.built];
        if (values[pending.built]) {
            pool.build_copies(values[pending.built], instances);
            continue;
        }
        for (u32 k = 0; k < instances; ++k)
            ::new (pool.row(pool.size() + k)) ChildOf{parents[k]};
    }
    pending.keep = true;
    place_batch(pools, count, signature, logged, entities);
    return true;
}

/// fill() writes into the roots before anybody hears of them.
template <u32 MaxC>
template <class F>
bool BasicWorld<MaxC>::instantiate_filled(const BasicPrefab<MaxC>& prefab, std::span<Entity> entities, F&& fill) {
    const std::size_t instances = entities.size();
    if (!has_room(u64(prefab.entity_count()) * instances)) // for all, so that nothing is made in vain
        return false;
    Array<Entity> below(options_.allocator); // child by child, depth first
    if (prefab.child_count() != 0)
        below.reserve((prefab.entity_count() - std::size_t(1)) * instances);
    if (!instantiate_quietly(prefab, entities, nullptr))
        return false;
    struct Undo {
        BasicWorld& world;
        std::span<Entity> roots;
        Array<Entity>& below;
        bool done = false;
        ~Undo() {
            if (!done) {
                world.destroy_batch_now({below.data(), below.size()});
                world.destroy_batch_now(roots);
            }
        }
    } undo{*this, entities, below};
    const auto nest = [&](const auto& self, const BasicPrefab<MaxC>& parent, const Entity* parents) -> bool {
        for (u32 i = 0; i < parent.child_count(); ++i) {
            const u32 first = below.size();
            below.resize(first + instances);
            if (!instantiate_quietly(parent.child(i), {below.data() + first, instances}, parents)) {
                below.resize(first);
                return false;
            }
            if (!self(self, parent.child(i), below.data() + first))
                return false;
        }
        return true;
    };
    if (!nest(nest, prefab, entities.data()))
        return false;
    fill();
    undo.done = true;
    const auto tell = [&](std::span<const Entity> all) {
        for (const Entity entity : all) // a hook may end some of them
            if (const Meta* const m = find(entity))
                if (const Signature<MaxC> types = m->signature; types.intersects(hooked_))
                    notify_added(types, {&entity, 1});
    };
    if (hooked_.any()) {
        tell(entities);
        tell({below.data(), below.size()});
    }
    return true;
}

template <u32 MaxC>
bool BasicWorld<MaxC>::instantiate_n(const BasicPrefab<MaxC>& prefab, std::span<Entity> entities) {
    return instantiate_filled(prefab, entities, [] {});
}

template <u32 MaxC>
template <class... Ts, class F>
requires(sizeof...(Ts) > 0) bool BasicWorld<MaxC>::instantiate_n(const BasicPrefab<MaxC>& prefab, std::span<Entity> entities, F&& f) {
    const bool known = (prefab.template get<Ts>() && ...);
    THRONG_ASSERT(known && "the prefab lacks a type that is to be overridden");
    if (!known)
        return false;
    return instantiate_filled(prefab, entities, [&] {
        for (u32 i = 0; i < entities.size(); ++i)
            f(i, const_cast<Ts&>(*get<Ts>(entities[i]))...);
    });
}

template <u32 MaxC>
template <class... Ts>
requires(sizeof...(Ts) > 0) Entity BasicWorld<MaxC>::instantiate(const BasicPrefab<MaxC>& prefab, Ts&&... values) {
    Entity entity;
    const auto put = [&](auto&& value) {
        using Component = std::remove_cvref_t<decltype(value)>;
        if (const Component* const found = get<Component>(entity))
            const_cast<Component&>(*found) = std::forward<decltype(value)>(value);
    };
    if (!instantiate_filled(prefab, {&entity, 1}, [&] { (put(std::forward<Ts>(values)), ...); }))
        return {};
    const auto add_missing = [&](auto&& value) {
        using Component = std::remove_cvref_t<decltype(value)>;
        if (!prefab.template get<Component>())
            add<Component>(entity, std::forward<decltype(value)>(value));
    };
    (add_missing(std::forward<Ts>(values)), ...);
    return entity;
}

template <u32 MaxC>
bool BasicWorld<MaxC>::clone_n(Entity entity, std::span<Entity> copies) {
    const Signature<MaxC> types = this->signature(entity);
    if (!clone_quietly(entity, copies))
        return false;
    if (types.intersects(hooked_)) [[unlikely]]
        notify_added(types, copies);
    return true;
}

template <u32 MaxC>
bool BasicWorld<MaxC>::clone_quietly(Entity entity, std::span<Entity> copies) {
    const Meta* const m = find(entity);
    if (!m || refuse_entity_change() || !has_room(copies.size()))
        return false;
    const Signature<MaxC> signature = m->signature;
    PoolBase* pools[MaxC];
    pools[0] = nullptr; // an entity may have no component
    u32 count = 0;
    u32 logged = 0;
    bool possible = true;
    signature.for_each([&](u32 id) {
        pools[count++] = pools_[id];
        logged += logged_.test(id);
        possible = possible && pools_[id]->ops().copyable && !refuse_change(*pools_[id]);
    });
    if (!possible)
        return false;
    const u32 instances = static_cast<u32>(copies.size());
    reserve_batch(pools, count, logged, instances);
    detail::PendingRows pending{pools, instances};
    for (; pending.built < count; ++pending.built) // neither rows nor slots move meanwhile
        pools[pending.built]->build_copies(pools[pending.built]->row(m->list()[pending.built]), instances);
    pending.keep = true;
    place_batch(pools, count, signature, logged, copies);
    return true;
}

/// build(pool, which of Ts, first row to build, how many, where): constructs
/// rows that lie side by side.
template <u32 MaxC>
template <class Build, class... Ts>
bool BasicWorld<MaxC>::spawn_built(std::span<Entity> entities, Build&& build) {
    constexpr u32 count = sizeof...(Ts);
    static_assert(detail::all_different<Ts...>, "a component type appears twice");
    if (refuse_entity_change() || !has_room(entities.size()))
        return false;
    PoolBase* pools[count] = {ensure_pool(component_id<Ts, MaxC>(), component_ops<Ts>)...};
    u32 which[count];
    Signature<MaxC> signature;
    u32 logged = 0;
    for (u32 i = 0; i < count; ++i) {
        THRONG_ASSERT(pools[i] && "more component types than the world's MaxC");
        if (!pools[i] || refuse_change(*pools[i]))
            return false;
        which[i] = i;
        signature.set(pools[i]->component());
        logged += logged_.test(pools[i]->component());
    }
    for (u32 i = 1; i < count; ++i) // by id: the order of an entity's row numbers
        for (u32 k = i; k > 0 && pools[k]->component() < pools[k - 1]->component(); --k) {
            std::swap(pools[k], pools[k - 1]);
            std::swap(which[k], which[k - 1]);
        }
    const u32 instances = static_cast<u32>(entities.size());
    reserve_batch(pools, count, logged, instances);
    detail::PendingRows pending{pools, instances};
    for (; pending.built < count; ++pending.built) {
        PoolBase& pool = *pools[pending.built];
        struct Undo { // of the pool under way
            PoolBase& pool;
            u32 built = 0;
            bool done = false;
            ~Undo() {
                if (!done)
                    pool.drop_uncommitted(built);
            }
        } undo{pool};
        while (undo.built < instances) {
            const u32 room = pool.block_rows() - pool.place_of(pool.size() + undo.built);
            const u32 part = instances - undo.built < room ? instances - undo.built : room;
            build(which[pending.built], undo.built, part, pool.row(pool.size() + undo.built));
            undo.built += part;
        }
        undo.done = true;
    }
    pending.keep = true;
    place_batch(pools, count, signature, logged, entities);
    return true;
}

template <u32 MaxC>
template <class... Ts, class F>
bool BasicWorld<MaxC>::spawn_n(std::span<Entity> entities, F&& f) {
    static_assert(sizeof...(Ts) > 0 && (std::is_default_constructible_v<Ts> && ...));
    using Fill = void (*)(void*, u32);
    constexpr Fill fills[] = {&detail::value_initialise_rows<Ts>...};
    const auto build = [&](u32 type, u32, u32 count, void* rows) { fills[type](rows, count); };
    if (!spawn_built<decltype(build)&, Ts...>(entities, build))
        return false;
    const u32 instances = static_cast<u32>(entities.size());
    const auto call = [&](Pool<Ts>&... pools) {
        const PoolBase* const guarded[] = {&pools...};
        const detail::IterationGuard guard(guarded, sizeof...(Ts));
        for (u32 i = 0; i < instances; ++i)
            f(i, pools[pools.size() - instances + i]...);
    };
    call(static_cast<Pool<Ts>&>(*pools_[component_id<Ts, MaxC>()])...);
    notify_spawned<Ts...>(entities);
    return true;
}

template <u32 MaxC>
template <class... Ts>
requires(sizeof...(Ts) > 0) bool BasicWorld<MaxC>::spawn_columns(std::span<Entity> entities, std::span<const Ts>... columns) {
    static_assert((std::is_copy_constructible_v<Ts> && ...));
    const bool equal = ((columns.size() == entities.size()) && ...);
    THRONG_ASSERT(equal && "a column for each entity");
    if (!equal)
        return false;
    const void* const first[] = {columns.data()...};
    constexpr u32 strides[] = {component_ops<Ts>.stride...};
    using Copy = void (*)(void*, const void*, u32);
    constexpr Copy copies[] = {component_ops<Ts>.copy...};
    const auto build = [&](u32 type, u32 from, u32 count, void* rows) {
        copies[type](rows, static_cast<const std::byte*>(first[type]) + std::size_t(from) * strides[type], count);
    };
    if (!spawn_built<decltype(build)&, Ts...>(entities, build))
        return false;
    notify_spawned<Ts...>(entities);
    return true;
}

} // namespace throng
