#pragma once
// The loops of BasicWorld. Part of throng/world.hpp; do not include alone.
#include "throng/world_inline.hpp"

namespace throng {

/// A row in each_row. Good inside the call.
template <class T, u32 MaxC = default_max_components>
class Row {
public:
    Row(BasicWorld<MaxC>& world, Pool<T>& pool, u32 dense, u32 owner, bool shared)
        : world_(&world), pool_(&pool), dense_(dense), owner_(owner), shared_(shared) {}
    const T& operator*() const { return static_cast<const Pool<T>&>(*pool_)[dense_]; }
    const T* operator->() const { return &**this; }
    /// Writable; marks the row changed.
    T& mut() const
        requires(!is_immutable<T>)
    {
        if (shared_)
            pool_->mark_changed_shared(dense_);
        else
            pool_->mark_changed(dense_);
        return (*pool_)[dense_];
    }
    u32 dense() const { return dense_; }
    u32 entity_idx() const { return owner_; }
    Entity entity() const { return world_->entity_at(owner_); }

private:
    BasicWorld<MaxC>* world_;
    Pool<T>* pool_;
    u32 dense_;
    u32 owner_;
    bool shared_; // other workers mark rows of the same pool
};

namespace detail {

/// Holds pools against structural change for the time of a loop.
class IterationGuard {
public:
    /// Null pools are skipped.
    IterationGuard(const PoolBase* const* pools, u32 count) : pools_(pools), count_(count) {
        for (u32 i = 0; i < count_; ++i)
            if (pools_[i])
                pools_[i]->begin_iteration();
    }
    IterationGuard(const IterationGuard&) = delete;
    IterationGuard& operator=(const IterationGuard&) = delete;
    ~IterationGuard() {
        for (u32 i = 0; i < count_; ++i)
            if (pools_[i])
                pools_[i]->end_iteration();
    }

private:
    const PoolBase* const* pools_;
    u32 count_;
};

/// Counts a parallel loop for its time. Loops that only read may run on several threads at once.
struct FreezeGuard {
    u32& frozen;
    explicit FreezeGuard(u32& counter) : frozen(counter) { __atomic_fetch_add(&frozen, 1u, __ATOMIC_RELAXED); }
    FreezeGuard(const FreezeGuard&) = delete;
    ~FreezeGuard() { __atomic_fetch_sub(&frozen, 1u, __ATOMIC_RELAXED); }
};

/// A loop body that wants to know the pieces of its loop: piece(worker, first row) is called as each begins, and the
/// result is called in its place. Pieces run in parallel where the loop does; they cover the rows in any order.
template <class F>
concept PieceBody = requires(F& f) {
    f.piece(0u, 0u);
};
template <class F>
decltype(auto) body_of_piece(F& f, u32 worker, u32 begin) {
    if constexpr (PieceBody<F>)
        return f.piece(worker, begin);
    else
        return (f);
}

/// Calls the body in the form it takes. Arguments are references, or pointers for Maybe.
template <class... Arguments, u32 MaxC, class F>
void call_body(const BasicWorld<MaxC>& world, F& f, u32 owner, Arguments... arguments) {
    if constexpr (std::is_invocable_v<F&, Entity, Arguments...>) {
        f(world.entity_at(owner), arguments...);
    } else if constexpr (std::is_invocable_v<F&, BasicLazyEntity<MaxC>, Arguments...>) {
        f(BasicLazyEntity<MaxC>(world, owner), arguments...);
    } else if constexpr (std::is_invocable_v<F&, u32, Arguments...>) {
        f(owner, arguments...);
    } else {
        static_assert(std::is_invocable_v<F&, Arguments...>,
                      "a loop body takes (Entity, rows...), (LazyEntity, rows...), (u32 entity_idx, rows...) or (rows...)");
        f(arguments...);
    }
}

/// Whether the body wants to know the entity at all; if not, the owner column is not read.
template <u32 MaxC, class F, class... Arguments>
inline constexpr bool wants_owner =
    std::is_invocable_v<F&, Entity, Arguments...> || std::is_invocable_v<F&, BasicLazyEntity<MaxC>, Arguments...> ||
    std::is_invocable_v<F&, u32, Arguments...>;

/// Row k of a column; null stays null.
template <class T>
typename Term<T>::Row* column_row(typename Term<T>::Row* first, u32 k) {
    if constexpr (Term<T>::optional)
        if (!first)
            return nullptr;
    return &Pool<typename Term<T>::Component>::element(first, k);
}

/// Straight through the columns, each given from the run's first row on. In line, so that the compiler sees how many there are.
template <class... Ts, u32 MaxC, class F>
[[gnu::always_inline]] inline void call_run(const BasicWorld<MaxC>& world, F& f, const u32* owners, u32 count,
                                            typename Term<Ts>::Row*... columns) {
    for (u32 i = 0; i < count; ++i) {
        if constexpr (wants_owner<MaxC, F, typename Term<Ts>::Argument...>)
            call_body<typename Term<Ts>::Argument...>(world, f, owners[i], Term<Ts>::argument(column_row<Ts>(columns, i))...);
        else
            f(Term<Ts>::argument(column_row<Ts>(columns, i))...);
    }
}

/// Brings 64 rows of a pool into the cache, some way ahead of the row that a loop is at. What the processor fetches by itself stops
/// where a block ends and the rows go on somewhere else, and takes a while to start again. Not beyond `end`: that may be another worker's.
/// Where all that the loop visits, LoopBytes a row, stays in the lower caches from one loop to the next, only the start of the next block
/// is fetched: within blocks the processor is as good, and spares the steps.
template <class T, u32 LoopBytes>
[[gnu::always_inline]] inline void fetch_ahead(const PoolBase& pool, u32 dense, u32 end) {
    using Component = typename Term<T>::Component;
    constexpr u32 line_bytes = 64, distance_bytes = 8192, step = 64;
    if constexpr (!is_tag<Component> && sizeof(Component) <= line_bytes) { // a loop may use little of what is larger
        constexpr u32 distance = distance_bytes / u32(sizeof(Component)) / step * step;
        constexpr u32 cached_rows = (u32(7) << 19) / LoopBytes;
        if (end - dense <= distance || (pool.size() < cached_rows && pool.block_of(dense + distance) == pool.block_of(dense)))
            return;
        const std::byte* const rows = static_cast<const std::byte*>(pool.row(dense + distance));
        for (u32 at = 0; at < step * sizeof(Component); at += line_bytes) {
            if constexpr (Term<T>::writes)
                prefetch_write(rows + at);
            else
                prefetch(rows + at);
        }
    }
}

/// The same for what the body's first argument is made of: the owners, and for a handle their slots. `owners` is the step's own.
template <class F, class... Arguments, u32 MaxC>
[[gnu::always_inline]] inline void fetch_owners_ahead(const BasicWorld<MaxC>& world, const u32* owners, u32 left) {
    constexpr u32 step = 64, distance = 4096 / sizeof(u32), slots_distance = 32, line_owners = 64 / sizeof(u32);
    if constexpr (wants_owner<MaxC, F, Arguments...>)
        for (u32 i = distance; i < distance + step && distance + step <= left; i += line_owners)
            prefetch(owners + i);
    if constexpr (std::is_invocable_v<F&, Entity, Arguments...>)
        for (u32 i = slots_distance; i < slots_distance + step && slots_distance + step <= left; ++i)
            world.prefetch(owners[i]);
}

/// call_run for rows [begin, begin + count) of pools whose columns are given, of a loop that goes on to `end`.
template <class... Ts, u32 MaxC, class F, std::size_t... I>
void call_block(const BasicWorld<MaxC>& world, F& f, const PoolBase* const* pools, u32 begin, u32 end, const u32* owners, u32 count,
                std::index_sequence<I...>, typename Term<Ts>::Row*... columns) {
    constexpr u32 step = 64;
    constexpr u32 row_bytes = (u32(sizeof(typename Term<Ts>::Component)) + ...);
    const auto fetch = [&](u32 done) {
        ((columns ? fetch_ahead<Ts, row_bytes>(*pools[I], begin + done, end) : void()), ...);
        fetch_owners_ahead<F, typename Term<Ts>::Argument...>(world, owners + done, count - done);
    };
    u32 done = 0;
    for (; count - done >= step; done += step) { // a number of rows that the compiler knows
        fetch(done);
        call_run<Ts...>(world, f, owners + done, step, column_row<Ts>(columns, done)...);
    }
    if (done < count) {
        fetch(done);
        call_run<Ts...>(world, f, owners + done, count - done, column_row<Ts>(columns, done)...);
    }
}

template <bool Writes, bool Shared>
void mark_run(PoolBase& pool, u32 begin, u32 end) {
    if constexpr (Writes && Shared)
        pool.mark_range_shared(begin, end);
    else if constexpr (Writes)
        pool.mark_range(begin, end);
}

template <bool Writes, bool Shared>
void mark_one(PoolBase& pool, u32 dense) {
    if constexpr (Writes && Shared)
        pool.mark_changed_shared(dense);
    else if constexpr (Writes)
        pool.mark_changed(dense);
}

/// Row `dense` of a pool as a term's row. Writing terms come from a non-const world.
template <class T>
typename Term<T>::Row* term_row(PoolBase& pool, u32 dense) {
    return &static_cast<Pool<typename Term<T>::Component>&>(pool)[dense];
}

/// Loop over one pool, nothing to filter: rows [begin, end), begin at a multiple of 64.
template <bool Shared, class T, u32 MaxC, class F>
void visit_one(const BasicWorld<MaxC>& world, PoolBase& pool, u32 begin, u32 end, F& f) {
    while (begin < end) {
        const u32 k = pool.place_of(begin);
        const u32 room = pool.block_rows() - k;
        const u32 count = end - begin < room ? end - begin : room;
        if (Term<T>::writes && count < end - begin)
            pool.prefetch_changes(pool.block_of(begin) + 1);
        mark_run<Term<T>::writes, Shared>(pool, begin, begin + count);
        const PoolBase* const pools[] = {&pool};
        call_block<T>(world, f, pools, begin, end, pool.owners(pool.block_of(begin)) + k, count, std::index_sequence<0>(),
                      term_row<T>(pool, begin));
        begin += count;
    }
}

/// The pools of a loop: those of its list, then those it filters by.
template <u32 MaxC, u32 Count>
struct Selection {
    PoolBase* pools[Count]; // null: of a Maybe, and nobody has one
    u32 ids[Count];
    u32 driver; // the smallest of the pools an entity must be in
    Signature<MaxC> include;
    Signature<MaxC> exclude;
    bool excludes;

    u32 rows() const { return pools[driver]->size(); }
};

/// Rows of a run of at most 64 entities, by direct indexes alone, all found and fetched before any is used.
template <class... Ts>
struct DirectRun {
    static constexpr u32 count = sizeof...(Ts);
    u32 rows[count][64];
    void* places[count][64];
    u64 complete; ///< entities that have all Ts

    /// Row numbers, but for the pool that leads: its rows are `begin` and on.
    void find(const PoolBase* const* pools, u32 driver, const u32* owners, u32 run) {
        complete = ~u64(0) >> (64 - run);
        for (u32 i = 0; i < count; ++i) {
            if (i == driver)
                continue;
            u64 there = 0;
            for (u32 k = 0; k < run; ++k) {
                rows[i][k] = pools[i]->direct_row_at(owners[k]);
                there |= u64(rows[i][k] != no_row) << k;
            }
            complete &= there;
        }
    }
    /// Marks and fetches the rows of one pool that the loop will be at.
    template <bool Shared, class T>
    void place(PoolBase& pool, u32 i, bool leads, u32 begin) {
        if (complete == 0)
            return; // nothing is marked for a run that the loop passes over
        if (leads) {
            if constexpr (Term<T>::writes && Shared)
                pool.mark_word_shared(pool.block_of(begin), pool.place_of(begin) >> 6, complete);
            else if constexpr (Term<T>::writes)
                pool.mark_word(pool.block_of(begin), pool.place_of(begin) >> 6, complete);
            return;
        }
        for (u64 left = complete; left != 0; left &= left - 1) {
            const auto k = static_cast<u32>(std::countr_zero(left));
            places[i][k] = const_cast<std::remove_const_t<typename Term<T>::Row>*>(term_row<T>(pool, rows[i][k]));
            prefetch(places[i][k]);
            mark_one<Term<T>::writes, Shared>(pool, rows[i][k]);
        }
    }
    template <class T>
    typename Term<T>::Row* row(PoolBase& pool, u32 i, bool leads, u32 begin, u32 k) const {
        return leads ? term_row<T>(pool, begin + k) : static_cast<typename Term<T>::Row*>(places[i][k]);
    }
};

/// Calls visit_range(begin, end, worker, shared) over all rows, in pieces of whole words of 64 when there is an executor.
template <class F>
void visit_pieces(Executor* executor, u32 rows, F&& visit_range) {
    if (!executor) {
        visit_range(0, rows, 0, std::false_type{});
        return;
    }
    // A piece is at most 16,384 rows, fewer when that would leave workers without one.
    constexpr u32 words_max = 256;
    const u32 words = rows / 64 + (rows % 64 != 0);
    const u32 fair = words / (executor->worker_count() * 4) + 1;
    for_ranges(*executor, words, fair < words_max ? fair : words_max,
               [&](u32 begin, u32 end, u32 worker) { visit_range(begin * 64, end < words ? end * 64 : rows, worker, std::true_type{}); });
}

} // namespace detail

template <u32 MaxC>
template <class... Ts, class... Ws, class... Xs>
bool BasicWorld<MaxC>::select(Filter<With<Ws...>, Without<Xs...>>, detail::Selection<MaxC, sizeof...(Ts) + sizeof...(Ws)>& out) const {
    constexpr u32 count = sizeof...(Ts) + sizeof...(Ws);
    static_assert((!detail::Term<Ts>::optional || ...) || sizeof...(Ws) > 0, "a loop needs a type that its entities must have");
    static_assert(detail::all_different<typename detail::Term<Ts>::Component..., Ws...>, "a component type appears twice");
    static_assert((!(detail::Term<Ts>::writes && is_immutable<typename detail::Term<Ts>::Component>) && ...),
                  "an immutable component is not written: name it const, or use each");
    constexpr bool optional[count] = {detail::Term<Ts>::optional...}; // those of the filter come last, and are not
    out = {{pool_or_null<typename detail::Term<Ts>::Component>()..., pool_or_null<Ws>()...},
           {detail::known_component_id<typename detail::Term<Ts>::Component, MaxC>()..., detail::known_component_id<Ws, MaxC>()...},
           count,
           {},
           {},
           false};
    for (u32 i = 0; i < count; ++i) {
        if (optional[i])
            continue;
        if (!out.pools[i])
            return false;
        out.include.set(out.ids[i]);
        if (out.driver == count || out.pools[i]->size() < out.pools[out.driver]->size())
            out.driver = i;
    }
    const u32 excluded[sizeof...(Xs) + 1] = {component_id<Xs, MaxC>()..., no_row}; // one whose first row the body adds counts, too
    for (const u32 id : excluded)
        if (id < MaxC)
            out.exclude.set(id);
    out.excludes = out.exclude.any();
    return true;
}

// Rows are visited in runs: whole blocks where the entities sit at the same row numbers in all pools, which is usual for types that
// are made and destroyed together (sort_as brings it about), else up to 64, for which one comparison of owner columns is tried.
template <u32 MaxC>
template <class... Ts, class... Ws, class... Xs, class F>
void BasicWorld<MaxC>::visit(Executor* executor, Filter<With<Ws...>, Without<Xs...>> filter, F& f) const {
    constexpr u32 count = sizeof...(Ts) + sizeof...(Ws);
    detail::Selection<MaxC, count> s;
    if (!select<Ts...>(filter, s))
        return;
    const detail::IterationGuard guard(s.pools, count);

    const auto visit_range = [&]<bool Shared, std::size_t... I>(u32 begin, u32 end, u32 worker, std::bool_constant<Shared>,
                                                                std::index_sequence<I...>) {
        auto&& body = detail::body_of_piece(f, worker, begin);
        if constexpr (count == 1 && sizeof...(Ts) == 1) {
            if (!s.excludes) {
                (detail::visit_one<Shared, Ts>(*this, *s.pools[I], begin, end, body), ...);
                return;
            }
        }
        constexpr bool optional[count] = {detail::Term<Ts>::optional...};
        constexpr bool all_direct =
            sizeof...(Ws) == 0 && ((direct_index<typename detail::Term<Ts>::Component> && !detail::Term<Ts>::optional) && ...);
        const PoolBase& lead = *s.pools[s.driver];
        u32 apart_until = begin; // rows before this are known not to be in step
        while (begin < end) {
            const u32 block = lead.block_of(begin);
            const u32 place = lead.place_of(begin);
            const u32* const owners = lead.owners(block) + place;
            // Where the run's rows of each pool are: at the lead's row numbers, nowhere, or to be looked up one by one.
            bool same[count];
            const auto compare = [&](auto&& in_step) {
                bool straight = !s.excludes;
                for (u32 i = 0; i < count; ++i) {
                    const PoolBase* const pool = s.pools[i];
                    same[i] = i == s.driver || (pool && in_step(*pool));
                    straight = straight && (same[i] || (optional[i] && (!pool || pool->size() == 0)));
                }
                return straight;
            };
            u32 run = lead.block_rows() - place < end - begin ? lead.block_rows() - place : end - begin;
            bool straight = begin >= apart_until && !s.excludes &&
                            compare([&](const PoolBase& pool) { return lead.in_step(pool, block, orders_); });
            if (!straight) {
                apart_until = begin < apart_until ? apart_until : begin + run;
                run = run < 64 ? run : 64;
                straight = compare([&](const PoolBase& pool) {
                    return begin + run <= pool.size() && std::memcmp(owners, pool.owners(block) + place, run * sizeof(u32)) == 0;
                });
            }
            if (straight) {
                if (place == 0 && run < end - begin)
                    ((same[I] && detail::Term<Ts>::writes ? s.pools[I]->prefetch_changes(block + 1) : void()), ...);
                ((same[I] ? detail::mark_run<detail::Term<Ts>::writes, Shared>(*s.pools[I], begin, begin + run) : void()), ...);
                detail::call_block<Ts...>(*this, body, s.pools, begin, end, owners, run, std::index_sequence<I...>(),
                                          (same[I] ? detail::term_row<Ts>(*s.pools[I], begin) : nullptr)...);
            } else if (all_direct && !s.excludes) {
                detail::DirectRun<Ts...> found;
                found.find(s.pools, s.driver, owners, run);
                (found.template place<Shared, Ts>(*s.pools[I], I, I == s.driver, begin), ...);
                for (u64 left = found.complete; left != 0; left &= left - 1) {
                    const auto k = static_cast<u32>(std::countr_zero(left));
                    detail::call_body<typename detail::Term<Ts>::Argument...>(
                        *this, body, owners[k],
                        detail::Term<Ts>::argument(found.template row<Ts>(*s.pools[I], I, I == s.driver, begin, k))...);
                }
            } else {
                for (u32 k = 0; k < run; ++k) {
                    if (k + 8 < run)
                        detail::prefetch(&meta(owners[k + 8]));
                    const Meta& m = meta(owners[k]);
                    if (!m.signature.contains(s.include) || (s.excludes && m.signature.intersects(s.exclude)))
                        continue;
                    const u32* const list = m.list();
                    const auto find_row = [&](u32 i) {
                        if (same[i])
                            return begin + k;
                        return !optional[i] || (s.pools[i] && m.signature.test(s.ids[i])) ? list[m.signature.rank(s.ids[i])] : no_row;
                    };
                    const u32 dense[sizeof...(Ts) + 1] = {find_row(I)..., 0};
                    ((dense[I] != no_row ? detail::mark_one<detail::Term<Ts>::writes, Shared>(*s.pools[I], dense[I]) : void()), ...);
                    detail::call_body<typename detail::Term<Ts>::Argument...>(
                        *this, body, owners[k],
                        detail::Term<Ts>::argument(dense[I] != no_row ? detail::term_row<Ts>(*s.pools[I], dense[I]) : nullptr)...);
                }
            }
            begin += run;
        }
    };
    detail::visit_pieces(executor, s.rows(), [&](u32 begin, u32 end, u32 worker, auto shared) {
        constexpr bool marks = (detail::Term<Ts>::writes || ...);
        visit_range(begin, end, worker, std::bool_constant<marks&& decltype(shared)::value>{}, std::index_sequence_for<Ts...>{});
    });
}

template <u32 MaxC>
template <class T, class... Ts, class F>
void BasicWorld<MaxC>::each(F&& f) const {
    visit<typename detail::Term<T>::ReadOnly, typename detail::Term<Ts>::ReadOnly...>(nullptr, detail::NoFilter{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, detail::IsFilter Q, class F>
void BasicWorld<MaxC>::each(Q, F&& f) const {
    visit<typename detail::Term<T>::ReadOnly, typename detail::Term<Ts>::ReadOnly...>(nullptr, detail::FilterOf<Q>{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, class F>
void BasicWorld<MaxC>::each(Executor& executor, F&& f) const {
    each<T, Ts...>(executor, detail::NoFilter{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, detail::IsFilter Q, class F>
void BasicWorld<MaxC>::each(Executor& executor, Q, F&& f) const {
    const detail::FreezeGuard freeze(frozen_);
    visit<typename detail::Term<T>::ReadOnly, typename detail::Term<Ts>::ReadOnly...>(&executor, detail::FilterOf<Q>{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, class F>
void BasicWorld<MaxC>::each_mut(F&& f) {
    visit<T, Ts...>(nullptr, detail::NoFilter{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, detail::IsFilter Q, class F>
void BasicWorld<MaxC>::each_mut(Q, F&& f) {
    visit<T, Ts...>(nullptr, detail::FilterOf<Q>{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, class F>
void BasicWorld<MaxC>::each_mut(Executor& executor, F&& f) {
    each_mut<T, Ts...>(executor, detail::NoFilter{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, detail::IsFilter Q, class F>
void BasicWorld<MaxC>::each_mut(Executor& executor, Q, F&& f) {
    const detail::FreezeGuard freeze(frozen_);
    visit<T, Ts...>(&executor, detail::FilterOf<Q>{}, f);
}

template <u32 MaxC>
template <class T, class F>
void BasicWorld<MaxC>::visit_rows(Executor* executor, const detail::SlotFilter<MaxC>& filter, F& f) {
    Pool<T>* const pool = static_cast<Pool<T>*>(pool_or_null<T>());
    if (!pool)
        return;
    const PoolBase* const guarded[] = {pool};
    const detail::IterationGuard guard(guarded, 1);
    detail::visit_pieces(executor, pool->size(), [&](u32 begin, u32 end, u32 worker, auto shared) {
        auto&& body = detail::body_of_piece(f, worker, begin);
        for (u32 dense = begin; dense < end; ++dense)
            if (filter.trivial || filter.passes(meta(pool->owner(dense)).signature))
                body(Row<T, MaxC>(*this, *pool, dense, pool->owner(dense), shared.value));
    });
}

template <u32 MaxC>
template <class T, class F>
void BasicWorld<MaxC>::each_row(F&& f) {
    each_row<T>(detail::NoFilter{}, f);
}

template <u32 MaxC>
template <class T, detail::IsFilter Q, class F>
void BasicWorld<MaxC>::each_row(Q, F&& f) {
    visit_rows<T>(nullptr, detail::SlotFilter<MaxC>(detail::FilterOf<Q>{}), f);
}

template <u32 MaxC>
template <class T, class F>
void BasicWorld<MaxC>::each_row(Executor& executor, F&& f) {
    each_row<T>(executor, detail::NoFilter{}, f);
}

template <u32 MaxC>
template <class T, detail::IsFilter Q, class F>
void BasicWorld<MaxC>::each_row(Executor& executor, Q, F&& f) {
    const detail::FreezeGuard freeze(frozen_);
    visit_rows<T>(&executor, detail::SlotFilter<MaxC>(detail::FilterOf<Q>{}), f);
}

} // namespace throng
