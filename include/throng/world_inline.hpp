#pragma once
// Definitions of BasicWorld that depend on MaxC or component types. Part of throng/world.hpp; do not include alone.
#include "throng/world_class.hpp"

namespace throng {

namespace detail {
/// Rows built but not committed while a spawn is under way; destroyed again unless it ends well.
struct PendingRows {
    PoolBase* const* pools;
    u32 count_per_pool;
    u32 built = 0;
    bool keep = false;
    ~PendingRows() {
        if (!keep)
            while (built > 0)
                pools[--built]->drop_uncommitted(count_per_pool);
    }
};
template <class T, class... Ts>
inline constexpr bool all_different = (!std::is_same_v<T, Ts> && ...) && all_different<Ts...>;
template <class T>
inline constexpr bool all_different<T> = true;

/// What entities made of Ts have in common, worked out at the first use in the process. A local static would be guarded by a lock; here
/// threads that come at the same time write the same numbers.
template <u32 MaxC, class... Ts>
class Shape {
public:
    /// Whether all ids are below MaxC; the rest may be read then.
    bool fits() { return __atomic_load_n(&state_, __ATOMIC_ACQUIRE) == known || work_out(); }
    Signature<MaxC> signature() const {
        struct Words {
            u64 words[Signature<MaxC>::word_count];
        } copy;
        for (u32 w = 0; w < Signature<MaxC>::word_count; ++w)
            copy.words[w] = __atomic_load_n(&words_[w], __ATOMIC_RELAXED);
        return std::bit_cast<Signature<MaxC>>(copy);
    }
    /// Of the row number of type i in the list.
    u32 position(u32 i) const { return __atomic_load_n(&positions_[i], __ATOMIC_RELAXED); }

private:
    [[gnu::noinline]] bool work_out() {
        const u32 ids[] = {component_id<Ts, MaxC>()...};
        Signature<MaxC> signature;
        for (const u32 id : ids) {
            if (id >= MaxC)
                return false;
            signature.set(id);
        }
        for (u32 w = 0; w < Signature<MaxC>::word_count; ++w)
            __atomic_store_n(&words_[w], signature.word(w), __ATOMIC_RELAXED);
        for (u32 i = 0; i < sizeof...(Ts); ++i)
            __atomic_store_n(&positions_[i], signature.rank(ids[i]), __ATOMIC_RELAXED);
        __atomic_store_n(&state_, known, __ATOMIC_RELEASE);
        return true;
    }
    static constexpr u32 known = 1;
    u64 words_[Signature<MaxC>::word_count] = {};
    u32 positions_[sizeof...(Ts)] = {};
    u32 state_ = 0;
};
template <u32 MaxC, class... Ts>
inline constinit Shape<MaxC, Ts...> shape_of;
} // namespace detail

template <u32 MaxC>
BasicWorld<MaxC>::BasicWorld(WorldOptions options) : State(options) {
    THRONG_ASSERT(std::has_single_bit(options.block_rows) && options.block_rows >= 64 && options.block_rows <= 4096);
    THRONG_ASSERT(options.inline_indices <= MaxC);
}

template <u32 MaxC>
BasicWorld<MaxC>::~BasicWorld() {
    THRONG_ASSERT(!has_rollback_ && "a rollback ring outlives its world");
    THRONG_ASSERT(ended_.readers == 0 && "a destroy reader outlives its world");
    for (PoolBase* pool : pools_)
        if (pool) {
            if (pool->change_stream())
                end_change_stream(*pool);
            pool->~PoolBase();
            options_.allocator.free(pool, sizeof(PoolBase), alignof(PoolBase));
        }
}

template <u32 MaxC>
PoolBase* BasicWorld<MaxC>::make_pool(ComponentId id, const ComponentOps& ops) {
    if (id >= MaxC || refuse_entity_change())
        return nullptr;
    if (ops.relation)
        relations_.reserve_extra(1);
    void* memory = options_.allocator.allocate(sizeof(PoolBase), alignof(PoolBase));
    ops.create_pool(memory, id, options_.allocator, options_.block_rows);
    if (ops.relation) {
        relations_.emplace_back(options_.allocator, id, *ops.relation);
        related_.set(id);
        hooked_.set(id);
        any_hooks_ = true;
    }
    pools_[id] = static_cast<PoolBase*>(memory);
    update_watch(id);
    return pools_[id];
}

template <u32 MaxC>
void BasicWorld<MaxC>::update_watch(u32 id) {
    if (pools_[id])
        pools_[id]->set_watch(static_cast<u8>((logged_.test(id) ? PoolBase::watch_logged : 0) |
                                              (streamed_.test(id) ? PoolBase::watch_streamed : 0) |
                                              (hooked_.test(id) ? PoolBase::watch_hooked : 0)));
}

template <u32 MaxC>
u32 BasicWorld<MaxC>::overflow_log2_for(u32 count) const {
    if (count <= inline_capacity_)
        return 0;
    const u32 log2 = static_cast<u32>(std::bit_width(count - 1));
    return log2 < IndexPool::min_log2 ? IndexPool::min_log2 : log2;
}

template <u32 MaxC>
void BasicWorld<MaxC>::grow_list(Meta& m, u32 count) {
    const u32 log2 = overflow_log2_for(count);
    u32* const list = lists_.take(log2);
    std::memcpy(list, m.list(), m.count() * sizeof(u32));
    if (m.overflow_log2 != 0)
        lists_.give(m.overflow_list(), m.overflow_log2);
    m.set_overflow_list(list);
    m.overflow_log2 = static_cast<u8>(log2);
}

template <u32 MaxC>
bool BasicWorld<MaxC>::refuse_change(const Signature<MaxC>& signature) const {
    bool refused = refuse_entity_change();
    signature.for_each([&](u32 id) { refused = refused || (pools_[id] && refuse_change(*pools_[id])); });
    return refused;
}

template <u32 MaxC>
bool BasicWorld<MaxC>::refuse_end(std::span<const Entity> entities) const {
    Signature<MaxC> touched;
    for (const Entity entity : entities)
        if (const Meta* const m = find(entity); m && !m->dying) // one that ends already has been asked
            touched |= m->signature;
    return refuse_change(touched);
}

template <u32 MaxC>
inline Entity BasicWorld<MaxC>::occupy_slot(const Signature<MaxC>& signature, u32 overflow_log2) {
    const u32 idx = arena_.acquire();
    Meta& m = meta(idx);
    m.entity_id = ++last_entity_id_;
    m.overflow_log2 = static_cast<u8>(overflow_log2);
    m.dying = 0;
    m.signature = signature;
    ++entity_count_;
    return {m.entity_id, idx, m.gen};
}

template <u32 MaxC>
void BasicWorld<MaxC>::free_slot(u32 entity_idx) {
    Meta& m = meta(entity_idx);
    if (m.overflow_log2 != 0)
        lists_.give(m.overflow_list(), m.overflow_log2);
    m.entity_id = 0;
    ++m.gen; // after the rows are gone, so that no owner check in between fails
    m.overflow_log2 = 0;
    m.dying = 0;
    m.signature.clear();
    --entity_count_;
    arena_.release(entity_idx);
}

template <u32 MaxC>
Entity BasicWorld<MaxC>::create() {
    if (refuse_entity_change() || !has_room(1)) [[unlikely]]
        return {};
    arena_.reserve(1);
    return occupy_slot({}, 0);
}

template <u32 MaxC>
template <class... Ts>
Entity BasicWorld<MaxC>::spawn(Ts&&... values) {
    if constexpr (sizeof...(Ts) == 0) {
        return create();
    } else {
        constexpr u32 count = sizeof...(Ts);
        static_assert(detail::all_different<std::remove_cvref_t<Ts>...>, "a component type appears twice");
        auto& shape = detail::shape_of<MaxC, std::remove_cvref_t<Ts>...>;
        const bool fits = shape.fits();
        THRONG_ASSERT(fits && "more component types than the world's MaxC");
        if (!fits || refuse_entity_change() || !has_room(1)) [[unlikely]]
            return {};
        PoolBase* const pools[count] = {
            ensure_pool(component_id<std::remove_cvref_t<Ts>, MaxC>(), component_ops<std::remove_cvref_t<Ts>>)...};
        u32 watch = 0;
        for (PoolBase* pool : pools) {
            if (refuse_change(*pool))
                return {};
            watch |= pool->watch();
            pool->reserve_rows(1);
        }
        ((direct_index<std::remove_cvref_t<Ts>> ? reserve_slot_index(component_id<std::remove_cvref_t<Ts>, MaxC>()) : void()), ...);
        arena_.reserve(1);
        const bool logged = (watch & PoolBase::watch_logged) != 0;
        if (logged) [[unlikely]]
            log_.reserve_extra(count);
        const u32 log2 = overflow_log2_for(count);
        if (log2 != 0)
            lists_.prime(log2, 1);
        u32 next = 0;
        detail::PendingRows pending{pools, 1};
        ((static_cast<Pool<std::remove_cvref_t<Ts>>*>(pools[next++])->build_next(std::forward<Ts>(values)), ++pending.built), ...);
        pending.keep = true;

        const Entity entity = occupy_slot(shape.signature(), log2);
        Meta& m = meta(entity.entity_idx);
        if (log2 != 0)
            m.set_overflow_list(lists_.take(log2));
        u32* const list = m.list();
        next = 0;
        ((list[shape.position(next)] =
              static_cast<Pool<std::remove_cvref_t<Ts>>*>(pools[next])->commit_next(entity.entity_idx, entity.entity_id),
          ++next),
         ...);
        if (logged) [[unlikely]]
            for (PoolBase* pool : pools)
                if (logged_.test(pool->component()))
                    log_entry(entity, pool->component(), StructureEvent::Kind::added);
        if ((watch & PoolBase::watch_hooked) != 0) [[unlikely]]
            notify_spawned_one(shape.signature(), entity);
        return entity;
    }
}

template <u32 MaxC>
template <class T, class... A>
detail::Made<T>* BasicWorld<MaxC>::add(Entity entity, A&&... args) {
    const ComponentId id = component_id<T, MaxC>();
    Meta* const m = find(entity);
    if (!m || id >= MaxC)
        return nullptr;
    Pool<T>* const pool = static_cast<Pool<T>*>(ensure_pool(id, component_ops<T>));
    const u32 position = m->signature.rank(id);
    if (m->signature.test(id))
        return &(*pool)[m->list()[position]];
    if (!pool || m->dying || refuse_change(*pool))
        return nullptr;
    // Everything that can fail comes first.
    pool->reserve_rows(1);
    if constexpr (direct_index<T>)
        pool->reserve_direct(arena_.slots());
    ensure_list(*m, m->count() + 1u);
    const bool watched = pool->watch() != 0;
    if (watched) [[unlikely]]
        log_.reserve_extra(1);
    T* const value = pool->build_next(std::forward<A>(args)...);
    arena_.touch(entity.entity_idx);
    insert_index_at(*m, id, position, pool->commit_next(entity.entity_idx, entity.entity_id));
    if (watched) [[unlikely]] {
        if (logged_.test(id))
            log_entry(entity, id, StructureEvent::Kind::added);
        if (hooked_.test(id)) {
            notify(detail::HookKind::add, id, entity);
            return const_cast<T*>(get<T>(entity));
        }
    }
    return value;
}

template <u32 MaxC>
template <class T>
bool BasicWorld<MaxC>::remove(Entity entity) {
    const u32 id = detail::known_component_id<T, MaxC>();
    Meta* const m = find(entity);
    const std::size_t position = m ? m->signature.find(id) : Signature<MaxC>::no_rank;
    if (position == Signature<MaxC>::no_rank)
        return false;
    PoolBase& pool = *pools_[id];
    if (refuse_change(pool))
        return false;
    if (pool.watch() != 0) [[unlikely]]
        return remove_row(*m, entity, id);
    arena_.touch(entity.entity_idx);
    take_row(*m, id, static_cast<u32>(position), [&](u32 dense) { return erase_row<T>(pool, dense); });
    return true;
}

template <u32 MaxC>
void* BasicWorld<MaxC>::add_erased(Entity entity, ComponentId id) {
    return add_value_initialised(entity, id, true);
}

template <u32 MaxC>
void* BasicWorld<MaxC>::add_unannounced(Entity entity, ComponentId id) {
    return add_value_initialised(entity, id, false);
}

template <u32 MaxC>
void* BasicWorld<MaxC>::add_value_initialised(Entity entity, ComponentId id, bool announced) {
    Meta* const m = find(entity);
    if (!m)
        return nullptr;
    PoolBase* const pool = pool_of(id);
    THRONG_ASSERT(pool && "add_erased needs the pool to exist");
    if (!pool)
        return nullptr;
    if (m->signature.test(id))
        return pool->row(m->list()[m->signature.rank(id)]);
    THRONG_ASSERT(pool->ops().construct && "add_erased needs a default constructor");
    if (!pool->ops().construct || m->dying || refuse_change(*pool))
        return nullptr;
    pool->reserve_rows(1);
    pool->reserve_direct(arena_.slots());
    ensure_list(*m, m->count() + 1u);
    if (logged_.test(id))
        log_.reserve_extra(1);
    if (!announced && hooked_.test(id))
        unannounced_.reserve_extra(1);
    void* const value = pool->next_row();
    pool->ops().construct(value);
    arena_.touch(entity.entity_idx);
    insert_index(*m, id, pool->commit_row(entity.entity_idx, entity.entity_id));
    if (logged_.test(id))
        log_entry(entity, id, StructureEvent::Kind::added);
    if (any_hooks_ && hooked_.test(id)) [[unlikely]] {
        if (!announced) {
            unannounced_.push(entity, id, detail::HookKind::add);
            return value;
        }
        notify(detail::HookKind::add, id, entity);
        const u32 row = entity_at(entity.entity_idx) == entity ? dense_index(entity.entity_idx, id) : no_row;
        return row != no_row ? pool->row(row) : nullptr;
    }
    return value;
}

template <u32 MaxC>
bool BasicWorld<MaxC>::remove_row(Meta& m, Entity entity, u32 id) {
    PoolBase& pool = *pools_[id];
    if (refuse_change(pool))
        return false;
    if (any_hooks_ && hooked_.test(id)) [[unlikely]] {
        if (!notify_removing(entity, id))
            return false;
        if (m.entity_id != entity.entity_id || !m.signature.test(id))
            return true; // a hook has destroyed the entity
        if (related_.test(id))
            relation_table(id)->unlink(entity.entity_idx);
    }
    if (logged_.test(id))
        log_.reserve_extra(1);
    arena_.touch(entity.entity_idx);
    take_row(m, id, m.signature.rank(id), [&](u32 dense) { return pool.erase_any(dense); });
    if (logged_.test(id))
        log_entry(entity, id, StructureEvent::Kind::removed);
    if (streamed_.test(id))
        pool.change_stream()->push_removal({entity, false});
    return true;
}

template <u32 MaxC>
bool BasicWorld<MaxC>::destroy(Entity entity) {
    if (any_hooks_) [[unlikely]]
        return destroy_hooked({&entity, 1}) != 0;
    return destroy_now(entity);
}

template <u32 MaxC>
bool BasicWorld<MaxC>::destroy_now(Entity entity) {
    Meta* const m = find(entity);
    if (!m || refuse_entity_change())
        return false;
    PoolBase* pools[MaxC];
    const u32* const list = m->list();
    const Signature<MaxC> signature = m->signature;
    u32 watch = 0, count = 0;
    bool looping = false;
    u32 apart = 0; // 0: all rows have one number in pools of one size, and a copy of bytes moves them
    signature.for_each([&](u32 id) {
        PoolBase& pool = *pools_[id];
        THRONG_ASSERT_SLOW(pool.owner(list[count]) == entity.entity_idx && "a row of another entity");
        pools[count] = &pool;
        looping |= pool.iterating();
        watch |= pool.watch();
        apart |= u32(!pool.trivial()) | (list[count] ^ list[0]) | (pool.size() ^ pools[0]->size());
        ++count;
    });
    // The rows are anywhere in their pools, as are the slots of those that move: all are fetched at once, not one after the other.
    const u32 dense = list[0];
    const bool in_step = count != 0 && apart == 0 && dense + 1 != pools[0]->size();
    if (in_step) {
        PoolBase::prefetch_in_step(pools, count, dense);
        detail::prefetch_write(&meta(pools[0]->owner(pools[0]->size() - 1)));
    } else {
        for (u32 i = 0; i < count; ++i) {
            pools[i]->prefetch_row(list[i]);
            detail::prefetch_write(&meta(pools[i]->owner(pools[i]->size() - 1)));
        }
    }
    if (looping && refuse_change(signature))
        return false;
    if (watch != 0) [[unlikely]] {
        if ((watch & PoolBase::watch_logged) != 0) {
            log_.reserve_extra(1);
            log_entry(entity, no_component, StructureEvent::Kind::destroyed);
        }
        if ((watch & PoolBase::watch_streamed) != 0)
            stream_removal(entity, signature, true);
    }
    if (ended_.readers != 0) [[unlikely]]
        ended_.ended.push(entity);
    if (in_step) {
        u32 owners[MaxC];
        PoolBase::erase_in_step(pools, count, dense, owners);
        // Usually one entity had the last rows of all these pools, and has the same types: its slot is looked up once, and ranks are known.
        u32 others = 0;
        for (u32 i = 1; i < count; ++i)
            others |= owners[i] ^ owners[0];
        Meta& other = meta(owners[0]);
        if (others == 0 && other.signature == signature) {
            THRONG_ASSERT_SLOW(other.entity_id != 0 && "a row of an entity that has ended");
            arena_.touch(owners[0]);
            u32* const moved = other.list();
            for (u32 i = 0; i < count; ++i)
                moved[i] = dense;
        } else {
            for (u32 i = 0; i < count; ++i)
                row_moved(owners[i], pools[i]->component(), dense);
        }
    } else {
        for (u32 i = 0; i < count; ++i)
            row_moved(pools[i]->erase_any(list[i]), pools[i]->component(), list[i]);
    }
    free_slot(entity.entity_idx);
    return true;
}

template <u32 MaxC>
u32 BasicWorld<MaxC>::destroy_batch(std::span<const Entity> entities) {
    return any_hooks_ ? destroy_hooked(entities) : destroy_batch_now(entities);
}

template <u32 MaxC>
Signature<MaxC> BasicWorld<MaxC>::types_with_rows() const {
    Signature<MaxC> types;
    for (u32 id = 0; id < MaxC; ++id)
        if (pools_[id] && pools_[id]->size() != 0)
            types.set(id);
    return types;
}

namespace detail {
/// How many entities of a batch are worked on at a time, so that their slots and those of the rows that move stay in the cache from pool
/// to pool.
inline u32 batch_piece(std::size_t count) {
    return count < PoolBase::erase_rows_max ? static_cast<u32>(count) : PoolBase::erase_rows_max;
}
} // namespace detail

template <u32 MaxC>
void BasicWorld<MaxC>::reserve_batch_end(const Signature<MaxC>& types, std::size_t count) {
    const u32 piece = detail::batch_piece(count);
    reserve_end_log(count);
    doomed_rows_.resize(std::size_t(types.count()) * piece);
    row_moves_.resize(piece);
    moved_owners_.resize(std::size_t(2) * piece);
}

template <u32 MaxC>
u32 BasicWorld<MaxC>::destroy_batch_now(std::span<const Entity> entities) {
    const Signature<MaxC> all = types_with_rows();
    bool looping = false;
    all.for_each([&](u32 id) { looping = looping || pools_[id]->iterating(); });
    if (looping ? refuse_end(entities) : refuse_entity_change()) // only in a loop it matters which types the entities have
        return 0;
    reserve_batch_end(all, entities.size());
    const u32 largest = detail::batch_piece(entities.size());
    u32 destroyed = 0;
    for (std::size_t begin = 0; begin < entities.size(); begin += largest) {
        const std::size_t left = entities.size() - begin;
        destroyed += destroy_piece(entities.subspan(begin, left < largest ? left : largest), all, largest);
    }
    return destroyed;
}

/// Writes back where the rows of moved owners are now, in the pools of all `types`, which each of them has.
template <u32 MaxC>
void BasicWorld<MaxC>::rows_moved(const RowMove* moves, const u32* owners, u32 count, const Signature<MaxC>& types) {
    constexpr u32 ahead = 12;
    Signature<MaxC> last; // of the owner before: entities that move together have the same types, as a rule
    u32 positions[MaxC];
    u32 position_count = 0;
    for (u32 i = 0; i < count; ++i) {
        if (i + ahead < count)
            detail::prefetch_write(&meta(owners[i + ahead]));
        Meta& m = meta(owners[i]);
        THRONG_ASSERT_SLOW(m.entity_id != 0 && m.signature.contains(types) && "a row of an entity that has ended, or lacks the type");
        arena_.touch(owners[i]);
        if (m.signature != last) {
            last = m.signature;
            position_count = 0;
            types.for_each([&](u32 id) { positions[position_count++] = last.rank(id); });
        }
        u32* const list = m.list();
        for (u32 k = 0; k < position_count; ++k)
            list[positions[k]] = moves[i].hole;
    }
}

// Nothing here can fail. The row numbers are gathered type by type, so that each pool is then worked on alone.
template <u32 MaxC>
u32 BasicWorld<MaxC>::destroy_piece(std::span<const Entity> entities, const Signature<MaxC>& all, u32 column_rows) {
    constexpr std::size_t ahead = 12;
    u32* columns[MaxC]; // where the next row number of a type goes
    u32* column = doomed_rows_.data();
    all.for_each([&](u32 id) {
        columns[id] = column;
        column += column_rows;
    });
    for (std::size_t i = 0; i < entities.size(); ++i) {
        if (i + ahead < entities.size() && entities[i + ahead].entity_idx < arena_.slots())
            detail::prefetch_write(&meta(entities[i + ahead].entity_idx));
        Meta* const m = find(entities[i]);
        if (!m || m->dying)
            continue;
        m->dying = 1;
        if (m->signature.intersects(logged_))
            log_entry(entities[i], no_component, StructureEvent::Kind::destroyed);
        if (m->signature.intersects(streamed_))
            stream_removal(entities[i], m->signature, true);
        if (ended_.readers != 0) [[unlikely]]
            ended_.ended.push(entities[i]);
        const u32* list = m->list();
        m->signature.for_each([&](u32 id) { *columns[id]++ = *list++; });
    }
    // Types that are made and destroyed together have the same rows, and move the same entities to the same places: then moves are
    // planned once, and slots written once for all of them.
    u32* owners = moved_owners_.data();
    u32* next_owners = owners + column_rows;
    const u32* planned = nullptr;
    u32 count = 0, rows = 0, moves = 0;
    Signature<MaxC> alike; // the types of which `owners` moved
    column = doomed_rows_.data();
    all.for_each([&](u32 id) {
        const u32* const doomed = column;
        column += column_rows;
        const u32 next_count = static_cast<u32>(columns[id] - doomed);
        if (next_count == 0)
            return;
        PoolBase& pool = *pools_[id];
        const bool same_plan = next_count == count && pool.size() == rows && std::memcmp(doomed, planned, count * sizeof(u32)) == 0;
        if (!same_plan) {
            rows_moved(row_moves_.data(), owners, moves, alike);
            alike.clear();
            planned = doomed;
            count = next_count;
            rows = pool.size();
            moves = PoolBase::plan_moves(rows, doomed, count, row_moves_.data());
        }
        pool.ops().erase_rows(pool, doomed, count, row_moves_.data(), moves, next_owners);
        if (!same_plan || std::memcmp(owners, next_owners, moves * sizeof(u32)) != 0) {
            rows_moved(row_moves_.data(), owners, same_plan ? moves : 0, alike);
            alike.clear();
            std::swap(owners, next_owners);
        }
        alike.set(id);
    });
    rows_moved(row_moves_.data(), owners, moves, alike);
    u32 destroyed = 0;
    for (const Entity entity : entities)
        if (find(entity)) {
            free_slot(entity.entity_idx);
            ++destroyed;
        }
    return destroyed;
}

template <u32 MaxC>
void BasicWorld<MaxC>::clear_changes() {
    for (PoolBase* pool : pools_)
        if (pool)
            pool->clear_changes();
}

extern template class BasicWorld<default_max_components>;

} // namespace throng
