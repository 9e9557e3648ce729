#pragma once
// Row order: sort and sort_as. Part of throng/world.hpp; do not include alone.
#include "throng/world_each.hpp"

namespace throng {
namespace detail {

/// Merge sort of row numbers: stable, so the order is the same with every standard library. `scratch` has as many entries.
/// Leaves the result in `rows`. If less throws, `rows` and `scratch` hold any order.
template <class Less>
void merge_sort(u32* rows, u32* scratch, u32 count, Less&& less) {
    constexpr u32 insertion = 16;
    for (u32 first = 0; first < count; first += insertion) {
        const u32 end = count - first < insertion ? count : first + insertion;
        for (u32 i = first + 1; i < end; ++i) {
            const u32 row = rows[i];
            u32 k = i;
            for (; k > first && less(row, rows[k - 1]); --k)
                rows[k] = rows[k - 1];
            rows[k] = row;
        }
    }
    u32* from = rows;
    u32* to = scratch;
    for (u64 width = insertion; width < count; width *= 2) {
        for (u64 first = 0; first < count; first += 2 * width) {
            u32 a = static_cast<u32>(first);
            const u32 a_end = static_cast<u32>(first + width < count ? first + width : count);
            u32 b = a_end;
            const u32 b_end = static_cast<u32>(first + 2 * width < count ? first + 2 * width : count);
            for (u32 k = a; k < b_end; ++k)
                to[k] = a < a_end && (b == b_end || !less(from[b], from[a])) ? from[a++] : from[b++];
        }
        u32* const sorted = to;
        to = from;
        from = sorted;
    }
    if (from != rows)
        std::memcpy(rows, from, std::size_t(count) * sizeof(u32));
}

} // namespace detail

template <u32 MaxC>
void BasicWorld<MaxC>::reorder_rows(PoolBase& pool, u32* from) {
    constexpr u32 ahead = 16;
    const u32 id = pool.component(), rows = pool.size();
    for (u32 i = 0; i < rows; ++i) {
        if (i + ahead < rows)
            detail::prefetch_write(&meta(pool.owner(from[i + ahead])));
        if (from[i] != i)
            row_moved(pool.owner(from[i]), id, i);
    }
    pool.permute_rows(from);
}

template <u32 MaxC>
template <class T, class Less>
void BasicWorld<MaxC>::sort(Less less) {
    PoolBase* const base = pool_or_null<T>();
    if (!base || refuse_change(*base))
        return;
    const Pool<T>& pool = static_cast<const Pool<T>&>(*base);
    const u32 rows = pool.size();
    base->reserve_rows(1);
    sort_order_.resize(std::size_t(rows) * 2);
    for (u32 i = 0; i < rows; ++i)
        sort_order_[i] = i;
    {
        const detail::IterationGuard guard(&base, 1);
        detail::merge_sort(sort_order_.data(), sort_order_.data() + rows, rows, [&](u32 a, u32 b) { return bool(less(pool[a], pool[b])); });
    }
    reorder_rows(*base, sort_order_.data());
}

template <u32 MaxC>
template <class T, class... Ts>
void BasicWorld<MaxC>::sort_as() {
    static_assert(sizeof...(Ts) > 0 && detail::all_different<T, Ts...>, "sort_as brings two or more different types into step");
    PoolBase* const pools[] = {pool_or_null<T>(), pool_or_null<Ts>()...};
    align_pools(pools, 1 + sizeof...(Ts));
}

template <u32 MaxC>
void BasicWorld<MaxC>::align_pools(PoolBase* const* pools, u32 count) {
    Signature<MaxC> all;
    u32 most = 0;
    for (u32 i = 0; i < count; ++i) {
        if (!pools[i] || refuse_change(*pools[i]))
            return;
        pools[i]->reserve_rows(1);
        all.set(pools[i]->component());
        most = pools[i]->size() > most ? pools[i]->size() : most;
    }
    const PoolBase& lead = *pools[0];
    sort_order_.resize(std::size_t(lead.size()) + most);
    u32* const owners = sort_order_.data();
    u32* const from = owners + lead.size();
    const auto in_all = [&](const PoolBase& pool, u32 row) {
        constexpr u32 ahead = 16;
        if (row + ahead < pool.size())
            detail::prefetch(&meta(pool.owner(row + ahead)));
        return meta(pool.owner(row)).signature.contains(all);
    };
    u32 common = 0;
    for (u32 row = 0; row < lead.size(); ++row)
        if (in_all(lead, row))
            owners[common++] = lead.owner(row);
    for (u32 i = 0; i < count; ++i) {
        PoolBase& pool = *pools[i];
        for (u32 k = 0; k < common; ++k)
            from[k] = dense_index(owners[k], pool.component());
        u32 next = common;
        for (u32 row = 0; row < pool.size(); ++row)
            if (!in_all(pool, row))
                from[next++] = row;
        reorder_rows(pool, from);
    }
}

} // namespace throng
