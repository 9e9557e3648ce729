#pragma once
// The loops of BasicWorld. Part of throng/world.hpp; do not include alone.
#include "throng/world.hpp"

namespace throng {
namespace detail {

/// Holds a pool against structural change for the time of a loop.
class IterationGuard {
public:
    IterationGuard(const PoolBase* const* pools, u32 count) : pools_(pools), count_(count) {
        for (u32 i = 0; i < count_; ++i)
            pools_[i]->begin_iteration();
    }
    IterationGuard(const IterationGuard&) = delete;
    IterationGuard& operator=(const IterationGuard&) = delete;
    ~IterationGuard() {
        for (u32 i = 0; i < count_; ++i)
            pools_[i]->end_iteration();
    }

private:
    const PoolBase* const* pools_;
    u32 count_;
};

/// Counts a parallel loop for its time.
struct FreezeGuard {
    u32& frozen;
    explicit FreezeGuard(u32& counter) : frozen(counter) { ++frozen; }
    FreezeGuard(const FreezeGuard&) = delete;
    ~FreezeGuard() { --frozen; }
};

template <class World, class F, class... Rows>
void call_with_rows(const World& world, F& f, u32 owner, Rows&... rows) {
    if constexpr (std::is_invocable_v<F&, Entity, Rows&...>) {
        f(world.entity_at(owner), rows...);
    } else if constexpr (std::is_invocable_v<F&, u32, Rows&...>) {
        f(owner, rows...);
    } else {
        static_assert(std::is_invocable_v<F&, Rows&...>, "a loop body takes (Entity, rows...), (u32 entity_idx, rows...) or (rows...)");
        f(rows...);
    }
}

/// Whether f wants to know the entity at all; if not, the owner column is not read.
template <class F, class... Rows>
inline constexpr bool wants_owner = std::is_invocable_v<F&, Entity, Rows&...> || std::is_invocable_v<F&, u32, Rows&...>;

/// Straight through the columns, each given from the run's first row on.
template <class... Ts, class World, class F>
void call_run(const World& world, F& f, const u32* owners, u32 count, Ts*... columns) {
    for (u32 i = 0; i < count; ++i) {
        if constexpr (wants_owner<F, Ts...>)
            call_with_rows(world, f, owners[i], Pool<std::remove_const_t<Ts>>::element(columns, i)...);
        else
            f(Pool<std::remove_const_t<Ts>>::element(columns, i)...);
    }
}

template <bool Marks, bool Shared>
void mark_run(PoolBase& pool, u32 begin, u32 end, bool exclusive_words) {
    if constexpr (Marks && Shared)
        pool.mark_range_shared(begin, end, exclusive_words);
    else if constexpr (Marks)
        pool.mark_range(begin, end);
}

template <bool Marks, bool Shared>
void mark_one(PoolBase& pool, u32 dense) {
    if constexpr (Marks && Shared)
        pool.mark_changed_shared(dense);
    else if constexpr (Marks)
        pool.mark_changed(dense);
}

/// Loop over one pool, no exclusions: rows [begin, end), begin at a multiple of 64.
template <bool Marks, bool Shared, class T, class World, class F>
void visit_one(const World& world, Pool<std::remove_const_t<T>>& pool, u32 begin, u32 end, F& f) {
    while (begin < end) {
        const u32 k = pool.place_of(begin);
        const u32 room = pool.block_rows() - k;
        const u32 count = end - begin < room ? end - begin : room;
        mark_run<Marks, Shared>(pool, begin, begin + count, true);
        call_run<T>(world, f, pool.owners(pool.block_of(begin)) + k, count, static_cast<T*>(&pool[begin]));
        begin += count;
    }
}

} // namespace detail

// Rows are visited in runs of up to 64. When the run's entities sit at the same row numbers in all listed pools, which is
// usual for types that are made and destroyed together, one comparison of owner columns replaces 64 lookups.
template <u32 MaxC>
template <bool Marks, class... Ts, class... Xs, class F>
void BasicWorld<MaxC>::visit(Executor* executor, Without<Xs...>, F& f) const {
    constexpr u32 count = sizeof...(Ts);
    PoolBase* pools[count] = {pool_or_null<std::remove_const_t<Ts>>()...};
    u32 driver = 0;
    Signature<MaxC> include;
    Signature<MaxC> exclude;
    for (u32 i = 0; i < count; ++i) {
        if (!pools[i])
            return;
        include.set(pools[i]->component());
        if (pools[i]->size() < pools[driver]->size())
            driver = i;
    }
    const u32 excluded[sizeof...(Xs) + 1] = {detail::known_component_id<Xs>()..., no_row};
    for (const u32 id : excluded)
        if (id < MaxC)
            exclude.set(id);
    const bool excludes = exclude.any();
    const detail::IterationGuard guard(pools, count);
    const u32 rows = pools[driver]->size();

    const auto visit_range = [&]<bool Shared, std::size_t... I>(u32 begin, u32 end, std::bool_constant<Shared>, std::index_sequence<I...>) {
        if constexpr (count == 1) {
            if (!excludes) {
                (detail::visit_one<Marks, Shared, Ts>(*this, static_cast<Pool<std::remove_const_t<Ts>>&>(*pools[I]), begin, end, f), ...);
                return;
            }
        }
        const PoolBase& lead = *pools[driver];
        while (begin < end) {
            const u32 run = end - begin < 64 ? end - begin : 64;
            const u32 block = lead.block_of(begin);
            const u32 place = lead.place_of(begin);
            const u32* const owners = lead.owners(block) + place;
            bool aligned = !excludes;
            for (u32 i = 0; i < count && aligned; ++i)
                aligned = i == driver || (begin + run <= pools[i]->size() &&
                                          std::memcmp(owners, pools[i]->owners(block) + place, run * sizeof(u32)) == 0);
            if (aligned) {
                (detail::mark_run<Marks, Shared>(*pools[I], begin, begin + run, I == driver), ...);
                detail::call_run<Ts...>(*this, f, owners, run,
                                        static_cast<Ts*>(&static_cast<Pool<std::remove_const_t<Ts>>&>(*pools[I])[begin])...);
            } else {
                for (u32 k = 0; k < run; ++k) {
                    if (k + 8 < run)
                        __builtin_prefetch(&meta(owners[k + 8]));
                    const Meta& m = meta(owners[k]);
                    if (!m.signature.contains(include) || (excludes && m.signature.intersects(exclude)))
                        continue;
                    const u32* const list = m.list();
                    const u32 dense[count] = {list[m.signature.rank(pools[I]->component())]...};
                    (detail::mark_one<Marks, Shared>(*pools[I], dense[I]), ...);
                    detail::call_with_rows(*this, f, owners[k],
                                           static_cast<Ts&>(static_cast<Pool<std::remove_const_t<Ts>>&>(*pools[I])[dense[I]])...);
                }
            }
            begin += run;
        }
    };
    constexpr auto sequence = std::index_sequence_for<Ts...>{};
    if (!executor) {
        visit_range(0, rows, std::false_type{}, sequence);
        return;
    }
    // A piece is at most 4096 rows, fewer when that would leave workers without one, always whole words of 64.
    const u32 words = rows / 64 + (rows % 64 != 0);
    const u32 fair = words / (executor->worker_count() * 4) + 1;
    for_ranges(*executor, words, fair < 64 ? fair : 64, [&](u32 begin, u32 end, u32) {
        visit_range(begin * 64, end < words ? end * 64 : rows, std::true_type{}, sequence);
    });
}

template <u32 MaxC>
template <class T, class... Ts, class F>
void BasicWorld<MaxC>::each(F&& f) const {
    visit<false, const T, const Ts...>(nullptr, Without<>{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, class... Xs, class F>
void BasicWorld<MaxC>::each(Without<Xs...> excluded, F&& f) const {
    visit<false, const T, const Ts...>(nullptr, excluded, f);
}

template <u32 MaxC>
template <class T, class... Ts, class F>
void BasicWorld<MaxC>::each_mut(F&& f) {
    visit<true, T, Ts...>(nullptr, Without<>{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, class... Xs, class F>
void BasicWorld<MaxC>::each_mut(Without<Xs...> excluded, F&& f) {
    visit<true, T, Ts...>(nullptr, excluded, f);
}

template <u32 MaxC>
template <class T, class... Ts, class F>
void BasicWorld<MaxC>::each_mut(Executor& executor, F&& f) {
    const detail::FreezeGuard freeze(frozen_);
    visit<true, T, Ts...>(&executor, Without<>{}, f);
}

template <u32 MaxC>
template <class T, class F>
void BasicWorld<MaxC>::each_row(F&& f) {
    const u32 id = detail::known_component_id<T>();
    if (id >= MaxC || !pools_[id])
        return;
    Pool<T>& pool = static_cast<Pool<T>&>(*pools_[id]);
    const PoolBase* const guarded[] = {&pool};
    const detail::IterationGuard guard(guarded, 1);
    for (u32 dense = 0; dense < pool.size(); ++dense)
        f(Row<T, MaxC>(*this, pool, dense, pool.owner(dense)));
}

} // namespace throng
