// Capture: touched lanes are quantised once into mirror columns. A lane is dirty only if a quantised value, its presence, its insert
// counter or its occupant differs; a chunk where nothing differs opens no version. One worker a chunk.
#include "jobs/stages/stages.hpp"
#include "src/base/seeded_bug.hpp"
#include "src/registry/field_io.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <bit>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace throng {
namespace {

struct Capture {
    Capture(ServerState& s, WorkerState& w, Chunk& c) : state(s), worker(w), chunk(c) {}
    ServerState& state;
    WorkerState& worker;
    Chunk& chunk;
    u64 dirty = 0;
    u64 lanes_with[Protocol::component_count_max] = {};                      // of the touched lanes, those that have the component
    const std::byte* rows_of[Protocol::component_count_max][lane_count];     // their rows, by rank in lanes_with

    void occupants();
    void find_rows(u32 index, u64 lanes, u64 marked);
    void component(u32 index, u64 lanes);
    u64 fields(const LayoutComponent& component, u32 index, u64 lanes, const std::byte* const* rows, u64 changed_structure);
    u64 opaque(const LayoutComponent& component, u32 index, u64& present, const std::byte* const* rows, u64 inserted);
    void references(const Column& column, const FieldInfo& field, u32 component_index, u64 lanes, const std::byte* const* rows, i64* out);
    void place_lanes(u64 lanes);
};

void Capture::occupants() {
    const u64 lanes = chunk.structural;
    chunk.structural = 0;
    if (!lanes)
        return;
    state.mirror.open_version(chunk, state.tick);
    auto* block = reinterpret_cast<OccupantBlock*>(state.mirror.writable(chunk, state.layout.component_count));
    u64 rebound = 0;
    for (u64 left = lanes; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        const bool alive = chunk.alive >> lane & 1;
        const NetId now = alive ? state.slots[chunk.entity_idx[lane]].net_id : NetId{};
        if (block->net_id[lane] != now)
            rebound |= u64(1) << lane;
        block->net_id[lane] = now;
    }
    block->alive = chunk.alive;
    chunk.version_rebound[chunk.newest] |= rebound;
    chunk.rebound = rebound;
    dirty |= rebound;
}

void Capture::references(const Column&, const FieldInfo& field, u32 component_index, u64 lanes, const std::byte* const* rows, i64* out) {
    u32 i = 0;
    for (u64 left = lanes; left; left &= left - 1, ++i) {
        Entity target;
        std::memcpy(&target, rows[i] + field.offset_bytes, sizeof target);
        out[i] = 0;
        if (!target.entity_id)
            continue;
        if (seeded_bug(SeededBug::wrong_reference) && target.entity_idx < state.slots.size() && state.slots[target.entity_idx].entity_id)
            target.entity_id = state.slots[target.entity_idx].entity_id;
        if (const Slot* slot = state.slot_of(target))
            out[i] = static_cast<i64>(slot->net_id.value);
        else if (state.world.entity_at(target.entity_idx).entity_id == target.entity_id)
            worker.dangling.push_back({target.entity_id, target.entity_idx,
                                       chunk.number * lane_count + static_cast<u32>(std::countr_zero(left)), component_index});
    }
}

/// Stores `n` values into the lanes of a column and returns the lanes that differed.
template <class T>
u64 compare_column(const T* column, u64 lanes, const i64* values) {
    u64 differs = 0;
    u32 i = 0;
    for (u64 left = lanes; left; left &= left - 1, ++i) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        differs |= u64(column[lane] != static_cast<T>(values[i])) << lane;
    }
    return differs;
}
template <class T>
void store_column(T* column, u64 lanes, const i64* values) {
    u32 i = 0;
    for (u64 left = lanes; left; left &= left - 1, ++i)
        column[std::countr_zero(left)] = static_cast<T>(values[i]);
}

/// Lanes of a block that is not there hold 0.
alignas(64) constexpr std::byte zero_column[lane_count * 8] = {};

u64 Capture::fields(const LayoutComponent& component, u32 index, u64 lanes, const std::byte* const* rows, u64 changed_structure) {
    i64 values[ComponentInfo::fields_max][lane_count];
    const u32 count = static_cast<u32>(std::popcount(lanes));
    const std::byte* before = state.mirror.newest_block(chunk, index);
    u64 differs = changed_structure;
    for (u32 f = 0; f < component.column_count; ++f) {
        const Column& column = state.layout.columns[component.first_column + f];
        const FieldInfo& field = component.info->fields[f];
        if (field.kind == FieldKind::reference)
            references(column, field, index, lanes, rows, values[f]);
        else if (read_field(field, column, rows, count, values[f]))
            worker.counts.limits |= limit_position;
        if (column.spatial_axis >= 0) {
            const i64 origin = chunk.origin[column.spatial_axis];
            const i64 reach = column.element_bytes == 2 ? 32767 : 2147483647;
            for (u32 i = 0; i < count; ++i)
                values[f][i] = std::clamp<i64>(values[f][i] - origin, -reach, reach);
        }
        const std::byte* data = before ? before + column.offset_bytes : zero_column;
        switch (column.element_bytes) {
        case 2: differs |= compare_column(reinterpret_cast<const i16*>(data), lanes, values[f]); break;
        case 4: differs |= compare_column(reinterpret_cast<const i32*>(data), lanes, values[f]); break;
        default: differs |= compare_column(reinterpret_cast<const i64*>(data), lanes, values[f]);
        }
    }
    if (!differs)
        return 0;
    state.mirror.open_version(chunk, state.tick);
    std::byte* block = state.mirror.writable(chunk, index);
    for (u32 f = 0; f < component.column_count; ++f) {
        const Column& column = state.layout.columns[component.first_column + f];
        switch (column.element_bytes) {
        case 2: store_column(column_data<i16>(block, column), lanes, values[f]); break;
        case 4: store_column(column_data<i32>(block, column), lanes, values[f]); break;
        default: store_column(column_data<i64>(block, column), lanes, values[f]);
        }
    }
    return differs;
}

u64 Capture::opaque(const LayoutComponent& component, u32 index, u64& present, const std::byte* const* rows, u64 inserted) {
    const u32 limit = component.info->opaque_bytes_max;
    worker.opaque.resize(limit);
    u64 differs = 0;
    u32 i = 0;
    for (u64 left = present; left; left &= left - 1, ++i) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        const u64 bit = u64(1) << lane;
        const u32 bytes = component.info->serialize(rows[i], {worker.opaque.data(), limit});
        if (bytes > limit) {
            worker.counts.limits |= limit_opaque;
            present &= ~bit;
            continue;
        }
        if (state.mirror.store_opaque(chunk, index, lane, {worker.opaque.data(), bytes}, inserted >> lane & 1, state.tick))
            differs |= bit;
    }
    return differs;
}

template <class T>
void zero_lanes(T* column, u64 lanes) {
    for (u64 left = lanes; left; left &= left - 1)
        column[std::countr_zero(left)] = 0;
}

/// Finds the rows of all touched lanes first, so that their cache misses overlap. The mark stage left the rows of `marked` lanes.
void Capture::find_rows(u32 index, u64 lanes, u64 marked) {
    const ComponentId id = state.layout.components[index].info->id;
    const PoolBase* pool = state.world.pool_of(id);
    u32* marked_rows = state.marked_rows.data() + (chunk.number * state.layout.component_count + index) * lane_count;
    u32 count = 0;
    for (u64 left = pool ? lanes & chunk.alive : 0; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        const u32 dense = marked >> lane & 1 ? marked_rows[lane] - 1 : state.world.dense_index(chunk.entity_idx[lane], id);
        if (dense == no_row)
            continue;
        rows_of[index][count] = static_cast<const std::byte*>(pool->row(dense));
        __builtin_prefetch(rows_of[index][count]);
        ++count;
        lanes_with[index] |= u64(1) << lane;
    }
    std::memset(marked_rows, 0, lane_count * sizeof(u32));
}

void Capture::component(u32 index, u64 lanes) {
    const LayoutComponent& component = state.layout.components[index];
    u64 have = lanes_with[index];
    const std::byte* before = state.mirror.newest_block(chunk, index);
    if (!before && !have)
        return;
    const BlockHeader old = before ? header(before) : BlockHeader{};
    u64 counter_changed = 0;
    for (u32 plane = 0; plane < 2; ++plane)
        counter_changed |= (chunk.counters[index][plane] ^ old.counter[plane]) & lanes;
    const u64 rebound = chunk.dirty_tick == state.tick ? chunk.rebound : 0;
    const u64 structure = ((old.present ^ have) & lanes) | counter_changed;
    const u64 inserted = have & (structure | rebound);
    u64 differs = structure;
    if (component.opaque) {
        differs |= opaque(component, index, have, rows_of[index], inserted);
        differs |= (old.present ^ have) & lanes;
    } else if (have)
        differs |= fields(component, index, have, rows_of[index], structure & have);
    if (!differs)
        return;
    dirty |= differs;
    state.mirror.open_version(chunk, state.tick);
    if (!structure && !((old.present ^ have) & lanes))
        return; // the fields wrote what changed
    std::byte* block = state.mirror.writable(chunk, index);
    BlockHeader& now = header(block);
    now.present = (now.present & ~lanes) | have;
    for (u32 plane = 0; plane < 2; ++plane)
        now.counter[plane] = (now.counter[plane] & ~lanes) | (chunk.counters[index][plane] & lanes & have);
    const u64 absent = lanes & ~have;
    for (u32 f = 0; absent && f < component.column_count; ++f) {
        const Column& column = state.layout.columns[component.first_column + f];
        switch (column.element_bytes) {
        case 2: zero_lanes(column_data<i16>(block, column), absent); break;
        case 4: zero_lanes(column_data<i32>(block, column), absent); break;
        default: zero_lanes(column_data<i64>(block, column), absent);
        }
    }
}

/// Holds or renews the places of lanes inside the cell, which interest reads.
void Capture::place_lanes(u64 lanes) {
    const LayoutComponent& component = state.layout.components[state.layout.spatial_component];
    const std::byte* block = state.mirror.newest_block(chunk, static_cast<u32>(state.layout.spatial_component));
    if (!block)
        return;
    for (u32 axis = 0; axis < 2; ++axis) {
        const Column& column = state.layout.columns[component.first_column + static_cast<u32>(component.info->spatial_fields[axis])];
        u8* places = axis == 0 ? chunk.places.a : chunk.places.b;
        for (u64 left = lanes & chunk.alive; left; left &= left - 1) {
            const u32 lane = static_cast<u32>(std::countr_zero(left));
            const i32 relative = column.element_bytes == 2 ? column_data<i16>(block, column)[lane] : column_data<i32>(block, column)[lane];
            const u8 place = state.grid.place(relative, places[lane]);
            if (place != places[lane]) {
                places[lane] = place;
                chunk.view_tick = state.tick;
            }
        }
    }
}

/// Lanes that the mark stage left a row for.
u64 marked_lanes(const ServerState& state, u32 set) {
    const u32* rows = state.marked_rows.data() + set * lane_count;
    u64 lanes = 0;
#if defined(__SSE2__)
    const __m128i zero = _mm_setzero_si128();
    for (u32 lane = 0; lane < lane_count; lane += 16) {
        const auto* at = reinterpret_cast<const __m128i*>(rows + lane);
        const auto empty = [&](u32 i) { return _mm_cmpeq_epi32(_mm_loadu_si128(at + i), zero); };
        const __m128i bytes = _mm_packs_epi16(_mm_packs_epi32(empty(0), empty(1)), _mm_packs_epi32(empty(2), empty(3)));
        lanes |= u64(~static_cast<u32>(_mm_movemask_epi8(bytes)) & 0xffffu) << lane;
    }
#else
    for (u32 lane = 0; lane < lane_count; ++lane)
        lanes |= u64(rows[lane] != 0) << lane;
#endif
    return lanes;
}

void capture_chunk(ServerState& state, WorkerState& worker, Chunk& chunk) {
    Capture capture(state, worker, chunk);
    chunk.rebound = 0;
    const Tick last_dirty = chunk.dirty_tick;
    chunk.dirty_tick = state.tick;
    capture.occupants();
    const u32 components = state.layout.component_count;
    u64* touched = state.touched.data() + chunk.number * components;
    u64 lanes_of[Protocol::component_count_max];
    for (u32 c = 0; c < components; ++c) {
        const u64 marked = marked_lanes(state, chunk.number * components + c);
        lanes_of[c] = touched[c] | marked;
        if (lanes_of[c])
            capture.find_rows(c, lanes_of[c], marked & ~touched[c]);
        touched[c] = 0;
    }
    u64 spatial = 0;
    for (u32 c = 0; c < components; ++c) {
        const u64 lanes = lanes_of[c];
        if (!lanes)
            continue;
        capture.component(c, lanes);
        if (static_cast<i32>(c) == state.layout.spatial_component)
            spatial = lanes;
    }
    if (chunk.spatial && spatial)
        capture.place_lanes(spatial);
    if (!capture.dirty) {
        chunk.dirty_tick = last_dirty;
        return;
    }
    THRONG_ASSERT(chunk.version_count && chunk.ticks[chunk.newest] == state.tick);
    chunk.dirty = capture.dirty;
    chunk.version_dirty[chunk.newest] |= capture.dirty;
    __atomic_fetch_or(&state.dirty_chunks[chunk.number / 64], u64(1) << chunk.number % 64, __ATOMIC_RELAXED);
    ++worker.counts.chunks_dirty;
    worker.counts.lanes_dirty += static_cast<u32>(std::popcount(capture.dirty));
}

/// Capture's misses, a few chunks ahead: first what says where things are, then the rows and columns themselves.
void prefetch_ahead(const ServerState& state, u32 i, u32 end) {
    const u32 components = state.layout.component_count;
    if (i + 4 < end) {
        const Chunk& later = state.mirror.chunk(state.touched_list[i + 4]);
        state.mirror.prefetch(later.number);
        __builtin_prefetch(&later.structural);
        const u32* rows = &state.marked_rows[later.number * components * lane_count];
        for (u32 at = 0; at < components * lane_count; at += 16)
            __builtin_prefetch(rows + at);
    }
    if (i + 2 < end) {
        const Chunk& next = state.mirror.chunk(state.touched_list[i + 2]);
        if (next.version_count)
            state.mirror.prefetch_table(next, next.newest);
    }
    if (i + 1 < end) {
        const Chunk& next = state.mirror.chunk(state.touched_list[i + 1]);
        for (u32 c = 0; c < components; ++c)
            if (const u64 lanes = marked_lanes(state, next.number * components + c)) {
                const PoolBase& pool = *state.world.pool_of(state.layout.components[c].info->id);
                const u32* rows = &state.marked_rows[(next.number * components + c) * lane_count];
                for (u64 left = lanes; left; left &= left - 1)
                    __builtin_prefetch(pool.row(rows[std::countr_zero(left)] - 1));
            }
        if (next.version_count)
            state.mirror.prefetch_version(next, next.newest);
    }
}

} // namespace

void run_capture_stage(ServerState& state) {
    state.touched_list.clear();
    for (u32 word = 0; word < state.touched_chunks.size(); ++word) {
        for (u64 left = state.touched_chunks[word]; left; left &= left - 1)
            state.touched_list.push_back(word * 64 + static_cast<u32>(std::countr_zero(left)));
        state.touched_chunks[word] = 0;
        state.dirty_chunks[word] = 0;
    }
    parallel_stage(state, Stage::capture, state.touched_list.size(), 16, [&](u32 begin, u32 end, WorkerState& worker, u32) {
        for (u32 i = begin; i < end; ++i) {
            prefetch_ahead(state, i, end); // not beyond: those chunks are being written by others
            capture_chunk(state, worker, state.mirror.chunk(state.touched_list[i]));
        }
    });
    state.any_dirty = false;
    for (WorkerState& worker : state.workers) {
        state.any_dirty |= worker.counts.chunks_dirty > 0;
        for (const WorkerState::Dangling& reference : worker.dangling)
            state.dangling.push_back(reference);
        worker.dangling.clear();
    }
}

} // namespace throng
