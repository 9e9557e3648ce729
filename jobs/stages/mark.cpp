// Mark: changed rows of the world's pools are quantised, in pool order, into the fresh rows of their lanes, and entities that have left
// their cell are found. What this writes for a lane that the structure stage then changes is void: such a lane is touched, and capture
// quantises it again (R14: a teleport is never captured relative to its old cell).
#include "jobs/stages/stages.hpp"
#include "src/registry/field_io.hpp"
#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

namespace throng {
namespace {

constexpr u32 rows_a_piece = 4096;

/// The changed rows of 64 rows.
struct Batch {
    u64 marks = 0;
    u32 first = 0;                     // of the 64, dense index
    u32 count = 0;                     // of those that are replicated
    const std::byte* rows[lane_count]; // in the pool
    std::byte* to[lane_count];         // fresh rows
    u32 dense[lane_count];
    u32 owners[lane_count];
};

/// Makes values relative to the cells of their entities. Returns, as bits, which entities are out of their cell by more than the margin.
u64 make_relative(const ServerState& state, const Batch& batch, const Column& column, i32* values) {
    const i64 edge = state.grid.cell_steps(), margin = state.grid.cell_margin_steps();
    const i64 reach = column.element_bytes == 2 ? 32767 : 2147483647;
    u64 out = 0;
    for (u32 i = 0; i < batch.count; ++i) {
        const Slot& slot = state.slots[batch.owners[i]];
        const i64 relative = values[i] - (column.spatial_axis == 0 ? slot.cell_a : slot.cell_b) * edge;
        out |= u64(!slot.spatial || relative < -margin || relative >= edge + margin) << i;
        values[i] = static_cast<i32>(std::clamp<i64>(relative, -reach, reach));
    }
    return out;
}

template <class T, class Value>
void put_elements(const Batch& batch, const Column& column, const Value* values) {
    for (u32 i = 0; i < batch.count; ++i) {
        const T value = static_cast<T>(values[i]);
        std::memcpy(batch.to[i] + column.row_offset_bytes, &value, sizeof value);
    }
}

/// Quantises the rows of a component into the fresh rows of their lanes.
void quantise(const ServerState& state, const LayoutComponent& component, const Batch& batch, WorkerState& worker) {
    u64 out_of_cell = 0;
    for (u32 f = 0; f < component.column_count; ++f) {
        const Column& column = state.layout.columns[component.first_column + f];
        const FieldInfo& field = component.info->fields[f];
        if (column.element_bytes == 8) {
            i64 values[lane_count];
            if (read_field(field, column, batch.rows, batch.count, values))
                worker.counts.limits |= limit_position;
            put_elements<i64>(batch, column, values);
            continue;
        }
        i32 values[lane_count];
        if (read_field(field, column, batch.rows, batch.count, values))
            worker.counts.limits |= limit_position;
        if (column.spatial_axis >= 0)
            out_of_cell |= make_relative(state, batch, column, values);
        if (column.element_bytes == 2)
            put_elements<i16>(batch, column, values);
        else
            put_elements<i32>(batch, column, values);
    }
    for (; out_of_cell; out_of_cell &= out_of_cell - 1) {
        const u32 i = static_cast<u32>(std::countr_zero(out_of_cell));
        worker.moves.push_back({batch.dense[i], batch.owners[i]});
    }
}

/// A pool of a replicated component.
struct MarkedPool {
    PoolBase* pool;
    u32 component;   // the first one of its type
    u32 block_count; // in use

    u64 summary(u32 block) const { return block < block_count ? pool->change_summary(block) : 0; }
};

/// Entities made together have the same rows in all pools: then what a batch found for the pool before holds for this one.
bool same_entities(const Batch& batch, u64 marks, u32 first, const u32* owners) {
    if (batch.marks != marks || batch.first != first || batch.count != static_cast<u32>(std::popcount(marks)))
        return false;
    u32 differs = 0;
    for (u32 i = 0; i < batch.count; ++i)
        differs |= owners[batch.dense[i] - first] ^ batch.owners[i];
    return differs == 0;
}

/// Finds the lanes of the marked rows, touches their chunks, and flags their fresh rows as written. Ruled: leaves out lanes that the rules
/// keep from having the component, as of the last tick, for structure touches what it lets through now.
template <bool Ruled>
void find_lanes(ServerState& state, u32 component, u64 marks, u32 first, const u32* owners, Batch& batch, WorkerState& worker) {
    const u32 slot_count = state.slots.size();
    const Slot* slots = state.slots.data();
    batch.marks = marks;
    batch.first = first;
    batch.count = 0;
    for (; marks; marks &= marks - 1) {
        const u32 row = static_cast<u32>(std::countr_zero(marks));
        const u32 owner = owners[row];
        if (owner >= slot_count || slots[owner].place == no_slot)
            continue;
        const u32 place = slots[owner].place;
        if (Ruled && state.denies(component, place))
            continue;
        state.touch_chunk(place / lane_count);
        __atomic_store_n(&state.fresh[place], u8(1), __ATOMIC_RELAXED);
        batch.to[batch.count] = state.fresh_row(place);
        detail::prefetch_write(batch.to[batch.count]);
        batch.dense[batch.count] = first + row;
        batch.owners[batch.count] = owner;
        ++batch.count;
    }
    worker.marked |= batch.count != 0;
}

/// Components that capture has to read: these cannot be quantised before structure is known.
void touch_lanes(ServerState& state, u32 component, u64 marks, const u32* owners, WorkerState& worker) {
    const bool related = state.layout.related_components >> component & 1;
    for (; marks; marks &= marks - 1) {
        const u32 owner = owners[std::countr_zero(marks)];
        if (related && owner < state.slots.size() && state.slots[owner].entity_id)
            worker.relinked.push_back(owner);
        if (owner >= state.slots.size() || state.slots[owner].place == no_slot || state.denies(component, state.slots[owner].place))
            continue;
        const u32 place = state.slots[owner].place, chunk = place / lane_count;
        state.touch_chunk(chunk);
        __atomic_fetch_or(&state.touched[chunk * state.layout.component_count + component], u64(1) << place % lane_count, __ATOMIC_RELAXED);
        worker.marked = true;
    }
}

/// The marked rows of one of the components of the pool's type.
template <bool Ruled>
[[gnu::always_inline]] inline void mark_rows(ServerState& state, PoolBase& pool, u32 index, u64 marks, u32 first, const u32* owners,
                                             Batch& batch, WorkerState& worker) {
    const LayoutComponent& component = state.layout.components[index];
    if (component.opaque || component.references || component.converted)
        return touch_lanes(state, index, marks, owners, worker);
    if (Ruled || !same_entities(batch, marks, first, owners))
        find_lanes<Ruled>(state, index, marks, first, owners, batch, worker);
    const auto* rows = static_cast<const std::byte*>(pool.row(first));
    for (u32 i = 0; i < batch.count; ++i)
        batch.rows[i] = rows + (batch.dense[i] - first) * pool.row_stride();
    if (batch.count)
        quantise(state, component, batch, worker);
}

/// The same of all components of the type, of which rules choose for each entity.
[[gnu::noinline]] void mark_ruled_rows(ServerState& state, PoolBase& pool, u32 index, u64 marks, u32 first, const u32* owners, Batch& batch,
                                       WorkerState& worker) {
    for (i32 c = static_cast<i32>(index); c >= 0; c = state.layout.next_of_type[c])
        if (!(state.layout.once >> c & 1))
            mark_rows<true>(state, pool, static_cast<u32>(c), marks, first, owners, batch, worker);
}

/// 64 rows of a block. `batch` is what the pool before had there.
void mark_word(ServerState& state, const MarkedPool& marked, u32 block, u32 word, Batch& batch, WorkerState& worker) {
    PoolBase& pool = *marked.pool;
    const u32 first = block * pool.block_rows() + word * 64;
    const u32* owners = pool.owners(block) + word * 64;
    const u64 marks = std::exchange(pool.change_words(block)[word], 0);
    if (state.layout.ruled >> marked.component & 1) [[unlikely]]
        mark_ruled_rows(state, pool, marked.component, marks, first, owners, batch, worker);
    else
        mark_rows<false>(state, pool, marked.component, marks, first, owners, batch, worker);
}

/// A block of all pools. Entities made together have the same rows everywhere: 64 rows of one pool after those of another find
/// their slots and fresh rows in the cache.
void mark_block(ServerState& state, std::span<const MarkedPool> pools, u32 block, WorkerState& worker) {
    u64 any = 0;
    for (const MarkedPool& marked : pools)
        any |= marked.summary(block);
    Batch batch;
    for (; any; any &= any - 1) {
        const u32 word = static_cast<u32>(std::countr_zero(any));
        for (const MarkedPool& marked : pools)
            if (marked.summary(block) >> word & 1)
                mark_word(state, marked, block, word, batch, worker);
    }
    for (const MarkedPool& marked : pools)
        if (marked.summary(block))
            marked.pool->end_changes(block);
}

} // namespace

void run_mark_stage(ServerState& state) {
    MarkedPool pools[Protocol::component_count_max];
    u32 pool_count = 0, block_count = 0;
    for (u32 c = 0; c < state.layout.component_count; ++c) {
        if (!state.layout.is_first_of_type(c))
            continue;
        state.world.sync_changes(state.layout.components[c].info->id);
        PoolBase* pool = state.world.pool_of(state.layout.components[c].info->id);
        if (!pool || pool->size() == 0)
            continue;
        const u32 used = (pool->size() + pool->block_rows() - 1) / pool->block_rows();
        pools[pool_count++] = {pool, c, used};
        block_count = std::max(block_count, used);
    }
    if (pool_count == 0)
        return;
    const u32 blocks_a_piece = std::max(1u, rows_a_piece / pools[0].pool->block_rows());
    const u32 piece_count = (block_count + blocks_a_piece - 1) / blocks_a_piece;
    const u32 grain = piece_count / (state.executor->worker_count() * 8) + 1;
    parallel_stage(state, Stage::mark, piece_count, grain, [&](u32 begin, u32 end, WorkerState& worker, u32) {
        const u32 last = std::min(end * blocks_a_piece, block_count);
        for (u32 block = begin * blocks_a_piece; block < last; ++block)
            mark_block(state, {pools, pool_count}, block, worker);
    });
}

} // namespace throng
