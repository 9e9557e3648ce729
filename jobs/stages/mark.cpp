// Mark: changed rows of the world's pools are quantised, in pool order, into the fresh rows of their lanes, and entities that have left
// their cell are found. What this writes for a lane that the structure stage then changes is void: such a lane is touched, and capture
// quantises it again (R14: a teleport is never captured relative to its old cell).
#include "jobs/stages/stages.hpp"
#include "src/registry/field_io.hpp"
#include <algorithm>
#include <bit>
#include <cstring>

namespace throng {
namespace {

constexpr u32 rows_a_piece = 4096;

/// The changed rows of one word of marks.
struct Batch {
    u32 count = 0;
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

void mark_block(ServerState& state, u32 index, PoolBase& pool, u32 block, WorkerState& worker) {
    const u64 summary = pool.change_summary(block);
    if (!summary)
        return;
    const LayoutComponent& component = state.layout.components[index];
    u64* words = pool.change_words(block);
    const u32* owners = pool.owners(block);
    const u32 first = block * pool.block_rows();
    const u32 components = state.layout.component_count, slot_count = state.slots.size();
    const bool look_up = component.opaque || component.references; // these cannot be quantised before structure is known
    Batch batch;
    for (u64 left = summary; left; left &= left - 1) {
        const u32 word = static_cast<u32>(std::countr_zero(left));
        batch.count = 0;
        for (u64 bits = words[word]; bits; bits &= bits - 1) {
            const u32 row = word * 64 + static_cast<u32>(std::countr_zero(bits));
            if (first + row >= pool.size())
                break;
            const u32 owner = owners[row];
            if (owner >= slot_count || state.slots[owner].place == no_slot)
                continue;
            const u32 place = state.slots[owner].place;
            const u32 chunk = place / lane_count;
            state.touch_chunk(chunk);
            worker.marked = true;
            if (look_up) {
                __atomic_fetch_or(&state.touched[chunk * components + index], u64(1) << place % lane_count, __ATOMIC_RELAXED);
                continue;
            }
            __atomic_store_n(&state.fresh[place], u8(1), __ATOMIC_RELAXED);
            batch.to[batch.count] = state.fresh_row(place);
            __builtin_prefetch(batch.to[batch.count], 1);
            batch.rows[batch.count] = static_cast<const std::byte*>(pool.row(first + row));
            batch.dense[batch.count] = first + row;
            batch.owners[batch.count] = owner;
            ++batch.count;
        }
        if (batch.count)
            quantise(state, component, batch, worker);
        words[word] = 0;
    }
    pool.end_changes(block);
}

} // namespace

void run_mark_stage(ServerState& state) {
    struct Piece {
        PoolBase* pool;
        u32 component;
        u32 first_piece;
        u32 blocks_a_piece;
    };
    Piece pieces[Protocol::component_count_max];
    u32 pool_count = 0, piece_count = 0;
    for (u32 c = 0; c < state.layout.component_count; ++c) {
        state.world.sync_changes(state.layout.components[c].info->id);
        PoolBase* pool = state.world.pool_of(state.layout.components[c].info->id);
        if (!pool || pool->size() == 0)
            continue;
        const u32 blocks_a_piece = rows_a_piece > pool->block_rows() ? rows_a_piece / pool->block_rows() : 1;
        pieces[pool_count++] = {pool, c, piece_count, blocks_a_piece};
        const u32 used = (pool->size() + pool->block_rows() - 1) / pool->block_rows();
        piece_count += (used + blocks_a_piece - 1) / blocks_a_piece;
    }
    const u32 grain = piece_count / (state.executor->worker_count() * 8) + 1;
    parallel_stage(state, Stage::mark, piece_count, grain, [&](u32 begin, u32 end, WorkerState& worker, u32) {
        for (u32 piece = begin; piece < end; ++piece) {
            u32 p = pool_count - 1;
            while (pieces[p].first_piece > piece)
                --p;
            PoolBase& pool = *pieces[p].pool;
            const u32 used = (pool.size() + pool.block_rows() - 1) / pool.block_rows();
            const u32 first = (piece - pieces[p].first_piece) * pieces[p].blocks_a_piece;
            for (u32 block = first; block < first + pieces[p].blocks_a_piece && block < used; ++block)
                mark_block(state, pieces[p].component, pool, block, worker);
        }
    });
}

} // namespace throng
