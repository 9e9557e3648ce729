// Mark: changed rows of the world's pools become touched lanes of chunks, and entities that have left their cell are found
// (R14: structure comes before quantising, so that a teleport is never captured relative to its old cell).
#include "jobs/stages/stages.hpp"
#include "src/registry/field_io.hpp"
#include <bit>

namespace throng {
namespace {

constexpr u32 rows_a_piece = 4096;

struct SpatialFields {
    const FieldInfo* a = nullptr;
    const FieldInfo* b = nullptr;
    const Column* column_a = nullptr;
    const Column* column_b = nullptr;
};

SpatialFields spatial_fields(const Layout& layout) {
    const LayoutComponent& component = layout.components[layout.spatial_component];
    const u32 a = static_cast<u32>(component.info->spatial_fields[0]), b = static_cast<u32>(component.info->spatial_fields[1]);
    return {&component.info->fields[a], &component.info->fields[b], &layout.columns[component.first_column + a],
            &layout.columns[component.first_column + b]};
}

/// Appends the entities of `rows` that are out of their cell by more than the margin.
void find_moves(ServerState& state, const SpatialFields& fields, PoolBase& pool, const u32* dense, u32 count, WorkerState& worker) {
    const std::byte* rows[64];
    i64 a[64], b[64];
    for (u32 i = 0; i < count; ++i)
        rows[i] = static_cast<const std::byte*>(pool.row(dense[i]));
    bool outside = read_field(*fields.a, *fields.column_a, rows, count, a);
    outside |= read_field(*fields.b, *fields.column_b, rows, count, b);
    if (outside)
        worker.counts.limits |= limit_position;
    const i32 edge = state.grid.cell_steps(), margin = state.grid.cell_margin_steps();
    for (u32 i = 0; i < count; ++i) {
        const u32 owner = pool.owner(dense[i]);
        const Slot& slot = state.slots[owner];
        const i64 relative_a = a[i] - i64(slot.cell_a) * edge, relative_b = b[i] - i64(slot.cell_b) * edge;
        if (!slot.spatial || relative_a < -margin || relative_a >= edge + margin || relative_b < -margin || relative_b >= edge + margin)
            worker.moves.push_back({dense[i], owner});
    }
}

void mark_block(ServerState& state, u32 component, const SpatialFields* fields, PoolBase& pool, u32 block, WorkerState& worker) {
    u64& summary = pool.change_summary(block);
    if (!summary)
        return;
    u64* words = pool.change_words(block);
    const u32* owners = pool.owners(block);
    const u32 first = block * pool.block_rows();
    const u32 components = state.layout.component_count, slot_count = state.slots.size();
    u32 moved_rows[64];
    for (u64 left = summary; left; left &= left - 1) {
        const u32 word = static_cast<u32>(std::countr_zero(left));
        u32 moved_count = 0;
        for (u64 bits = words[word]; bits; bits &= bits - 1) {
            const u32 row = word * 64 + static_cast<u32>(std::countr_zero(bits));
            if (first + row >= pool.size())
                break;
            const u32 owner = owners[row];
            if (owner >= slot_count || state.slots[owner].place == no_slot)
                continue;
            const u32 place = state.slots[owner].place;
            const u32 chunk = place / lane_count;
            state.marked_rows[(chunk * components + component) * lane_count + place % lane_count] = first + row + 1;
            state.touch_chunk(chunk);
            if (fields)
                moved_rows[moved_count++] = first + row;
        }
        if (moved_count)
            find_moves(state, *fields, pool, moved_rows, moved_count, worker);
        words[word] = 0;
    }
    summary = 0;
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
    const SpatialFields fields = state.layout.spatial_component >= 0 ? spatial_fields(state.layout) : SpatialFields{};
    const u32 grain = piece_count / (state.executor->worker_count() * 8) + 1;
    parallel_stage(state, Stage::mark, piece_count, grain, [&](u32 begin, u32 end, WorkerState& worker, u32) {
        for (u32 piece = begin; piece < end; ++piece) {
            u32 p = pool_count - 1;
            while (pieces[p].first_piece > piece)
                --p;
            PoolBase& pool = *pieces[p].pool;
            const u32 used = (pool.size() + pool.block_rows() - 1) / pool.block_rows();
            const u32 first = (piece - pieces[p].first_piece) * pieces[p].blocks_a_piece;
            const bool spatial = static_cast<i32>(pieces[p].component) == state.layout.spatial_component;
            for (u32 block = first; block < first + pieces[p].blocks_a_piece && block < used; ++block)
                mark_block(state, pieces[p].component, spatial ? &fields : nullptr, pool, block, worker);
        }
    });
}

} // namespace throng
