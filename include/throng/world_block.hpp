#pragma once
// The block form of the loops: spans of rows instead of rows. Part of throng/world.hpp; do not include alone.
#include "throng/world_each.hpp"
#include <span>

namespace throng {
namespace detail {

/// How many of the first `limit` numbers of a and b are equal, from the first on.
inline u32 common_prefix(const u32* a, const u32* b, u32 limit) {
    u32 n = 0;
    while (limit - n >= 64 && std::memcmp(a + n, b + n, 64 * sizeof(u32)) == 0)
        n += 64;
    while (n < limit && a[n] == b[n])
        ++n;
    return n;
}

template <class... Ts, class F>
void call_spans(F& f, const u32* owners, u32 count, typename Term<Ts>::Row*... columns) {
    if constexpr (std::is_invocable_v<F&, std::span<const u32>, std::span<typename Term<Ts>::Row>...>) {
        f(std::span<const u32>(owners, count), std::span<typename Term<Ts>::Row>(columns, columns ? count : 0)...);
    } else {
        static_assert(std::is_invocable_v<F&, std::span<typename Term<Ts>::Row>...>,
                      "a block body takes (std::span<T>...) or (std::span<const u32> owners, std::span<T>...)");
        f(std::span<typename Term<Ts>::Row>(columns, columns ? count : 0)...);
    }
}

} // namespace detail

// From the lead's row on, the run is as long as every pool goes on with the same owners: its rows may be at other numbers, as
// long as they are consecutive. Entities are looked up only where a pool is not at the lead's row number, and, for filters and
// for a Maybe that is absent, one by one.
template <u32 MaxC>
template <class... Ts, class... Ws, class... Xs, class F>
void BasicWorld<MaxC>::visit_blocks(Executor* executor, Filter<With<Ws...>, Without<Xs...>> filter, F& f) const {
    static_assert((!is_tag<typename detail::Term<Ts>::Component> && ...), "a tag has no rows to span: filter by it, with<Tag>");
    constexpr u32 count = sizeof...(Ts) + sizeof...(Ws);
    constexpr bool optional[count] = {detail::Term<Ts>::optional...};
    detail::Selection<MaxC, count> s;
    if (!select<Ts...>(filter, s))
        return;
    const detail::IterationGuard guard(s.pools, count);
    const PoolBase& lead = *s.pools[s.driver];

    const auto visit_range = [&]<bool Shared, std::size_t... I>(u32 begin, u32 end, u32 worker, std::bool_constant<Shared>,
                                                                std::index_sequence<I...>) {
        auto&& body = detail::body_of_piece(f, worker, begin);
        while (begin < end) {
            const u32* const owners = lead.owners(lead.block_of(begin)) + lead.place_of(begin);
            const Meta* m = nullptr; // of the first entity, when something has to be looked up
            u32 dense[count];
            bool selected = true, absent = false;
            for (u32 i = 0; i < count && selected; ++i) {
                const PoolBase* const pool = s.pools[i];
                dense[i] = begin;
                if (i == s.driver || (pool && begin < pool->size() && pool->owner(begin) == *owners))
                    continue;
                dense[i] = no_row;
                if (pool && pool->size() > 0) {
                    m = &meta(*owners);
                    if (m->signature.test(s.ids[i]))
                        dense[i] = m->list()[m->signature.rank(s.ids[i])];
                    else
                        absent = true;
                }
                selected = dense[i] != no_row || optional[i];
            }
            if (!selected || (s.excludes && meta(*owners).signature.intersects(s.exclude))) {
                ++begin;
                continue;
            }
            const u32 lead_room = lead.block_rows() - lead.place_of(begin);
            u32 run = end - begin < lead_room ? end - begin : lead_room;
            for (u32 i = 0; i < count; ++i) {
                if (i == s.driver || dense[i] == no_row)
                    continue;
                const PoolBase& pool = *s.pools[i];
                const u32 room = pool.block_rows() - pool.place_of(dense[i]), left = pool.size() - dense[i];
                const u32 limit = room < left ? room : left;
                run = detail::common_prefix(owners, pool.owners(pool.block_of(dense[i])) + pool.place_of(dense[i]),
                                            run < limit ? run : limit);
            }
            if (s.excludes || absent) {
                const auto goes_on = [&](const Meta& next) {
                    bool same = !s.excludes || !next.signature.intersects(s.exclude);
                    for (u32 i = 0; i < count; ++i)
                        same = same && (dense[i] != no_row || !s.pools[i] || !next.signature.test(s.ids[i]));
                    return same;
                };
                u32 k = 1;
                while (k < run && goes_on(meta(owners[k])))
                    ++k;
                run = k;
            }
            ((dense[I] != no_row ? detail::mark_run<detail::Term<Ts>::writes, Shared>(*s.pools[I], dense[I], dense[I] + run) : void()),
             ...);
            detail::call_spans<Ts...>(body, owners, run, (dense[I] != no_row ? detail::term_row<Ts>(*s.pools[I], dense[I]) : nullptr)...);
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
void BasicWorld<MaxC>::each_block(F&& f) const {
    each_block<T, Ts...>(detail::NoFilter{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, detail::IsFilter Q, class F>
void BasicWorld<MaxC>::each_block(Q, F&& f) const {
    visit_blocks<typename detail::Term<T>::ReadOnly, typename detail::Term<Ts>::ReadOnly...>(nullptr, detail::FilterOf<Q>{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, class F>
void BasicWorld<MaxC>::each_block(Executor& executor, F&& f) const {
    each_block<T, Ts...>(executor, detail::NoFilter{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, detail::IsFilter Q, class F>
void BasicWorld<MaxC>::each_block(Executor& executor, Q, F&& f) const {
    const detail::FreezeGuard freeze(frozen_);
    visit_blocks<typename detail::Term<T>::ReadOnly, typename detail::Term<Ts>::ReadOnly...>(&executor, detail::FilterOf<Q>{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, class F>
void BasicWorld<MaxC>::each_block_mut(F&& f) {
    each_block_mut<T, Ts...>(detail::NoFilter{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, detail::IsFilter Q, class F>
void BasicWorld<MaxC>::each_block_mut(Q, F&& f) {
    visit_blocks<T, Ts...>(nullptr, detail::FilterOf<Q>{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, class F>
void BasicWorld<MaxC>::each_block_mut(Executor& executor, F&& f) {
    each_block_mut<T, Ts...>(executor, detail::NoFilter{}, f);
}

template <u32 MaxC>
template <class T, class... Ts, detail::IsFilter Q, class F>
void BasicWorld<MaxC>::each_block_mut(Executor& executor, Q, F&& f) {
    const detail::FreezeGuard freeze(frozen_);
    visit_blocks<T, Ts...>(&executor, detail::FilterOf<Q>{}, f);
}

} // namespace throng
