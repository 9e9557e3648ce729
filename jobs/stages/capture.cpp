// Capture: fresh rows become the mirror's. Lanes that structure touched are looked up and quantised first, the others mark has done. A
// lane is dirty only if a quantised value, its presence, its insert counter or its occupant differs; a chunk where nothing differs opens
// no version. One worker a chunk.
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
    u64 rebound = 0;                                                         // lanes that hold another entity now
    u64 looked_at = 0;                                                       // lanes that are touched or fresh
    u32 header_changes = 0;                                                  // bit c: headers[c] is new
    BlockHeader headers[Protocol::component_count_max];
    u64 lanes_with[Protocol::component_count_max] = {};                      // of the touched lanes, those that have the component
    const std::byte* rows_of[Protocol::component_count_max][lane_count];     // their rows in the world, by rank in lanes_with

    std::byte* new_row(u32 lane) const { return state.fresh_row(chunk.number * lane_count + lane); }
    void occupants();
    void find_rows(u32 index, u64 lanes);
    void component(u32 index, u64 lanes);
    void fields(const LayoutComponent& component, u32 index, u64 lanes);
    u64 opaque(const LayoutComponent& component, u32 index, u64& present, const std::byte* const* rows, u64 inserted);
    [[gnu::noinline]] std::span<const Bytes> find_ops(u32 index, u32 lane, Bytes now);
    void references(const FieldInfo& field, u32 component_index, u64 lanes, const std::byte* const* rows, i64* out);
    [[gnu::always_inline]] inline void place_lanes(u64 lanes);
    [[gnu::noinline]] void place_clusters(u64 lanes);
    void compare_rows();
    void note_scopes();
    u32 changed_components(u32 lane) const;
    void store();
};

void Capture::occupants() {
    const u64 lanes = chunk.structural;
    chunk.structural = 0;
    OccupantBlock& block = *chunk.occupants;
    for (u64 left = lanes; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        const bool alive = chunk.alive >> lane & 1;
        const NetId now = alive ? state.slots[chunk.entity_idx[lane]].net_id : NetId{};
        if (block.net_id[lane] != now)
            rebound |= u64(1) << lane;
        block.net_id[lane] = now;
    }
    block.alive = chunk.alive;
    dirty |= rebound;
}

void Capture::references(const FieldInfo& field, u32 component_index, u64 lanes, const std::byte* const* rows, i64* out) {
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

template <class T>
void put_elements(const i64* values, u32 count, std::byte* const* rows, u32 offset_bytes) {
    for (u32 i = 0; i < count; ++i) {
        const T value = static_cast<T>(values[i]);
        std::memcpy(rows[i] + offset_bytes, &value, sizeof value);
    }
}

/// Quantises a component of `lanes` into their new rows.
void Capture::fields(const LayoutComponent& component, u32 index, u64 lanes) {
    i64 values[lane_count];
    std::byte* to[lane_count];
    u32 count = 0;
    for (u64 left = lanes; left; left &= left - 1)
        to[count++] = new_row(static_cast<u32>(std::countr_zero(left)));
    const std::byte* const* rows = rows_of[index];
    std::byte* objects[lane_count];
    if (component.converted) [[unlikely]] {
        worker.wire_objects.write(component.info->form, rows, count, objects);
        rows = objects;
    }
    for (u32 f = 0; f < component.column_count; ++f) {
        const Column& column = state.layout.columns[component.first_column + f];
        const FieldInfo& field = component.info->fields[f];
        if (field.kind == FieldKind::reference)
            references(field, index, lanes, rows, values);
        else if (read_field(field, column, rows, count, values))
            worker.counts.limits |= limit_position;
        if (column.spatial_axis >= 0) {
            const i64 origin = chunk.origin[column.spatial_axis];
            const i64 reach = column.element_bytes == 2 ? 32767 : 2147483647;
            for (u32 i = 0; i < count; ++i)
                values[i] = std::clamp<i64>(values[i] - origin, -reach, reach);
        }
        switch (column.element_bytes) {
        case 2: put_elements<i16>(values, count, to, column.row_offset_bytes); break;
        case 4: put_elements<i32>(values, count, to, column.row_offset_bytes); break;
        default: put_elements<i64>(values, count, to, column.row_offset_bytes);
        }
    }
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
        const Bytes now{worker.opaque.data(), bytes};
        std::span<const Bytes> ops;
        if ((state.layout.diffs >> index & 1) && !(inserted & bit)) [[unlikely]]
            ops = find_ops(index, lane, now);
        if (state.mirror.store_opaque(chunk, index, lane, now, inserted >> lane & 1, state.tick, ops))
            differs |= bit;
    }
    return differs;
}

/// The ops of this tick, if they make the new bytes of a lane from those that the mirror has: what a client would do is done here first, so
/// that a change by other means, or an op that depends on something else, is noticed. Good until the next call.
std::span<const Bytes> Capture::find_ops(u32 index, u32 lane, Bytes now) {
    const u32 entity_idx = chunk.entity_idx[lane];
    const Bytes before = opaque_bytes(chunk, index, lane);
    if (!state.ops.any(entity_idx) || !before.data() ||
        (before.size() == now.size() && std::memcmp(before.data(), now.data(), now.size()) == 0))
        return {};
    const ComponentInfo& info = *state.layout.components[index].info;
    worker.ops.clear();
    std::size_t op_bytes = 0;
    state.ops.each(entity_idx, info.id, info.diffs, [&](Bytes op) {
        worker.ops.push_back(op);
        op_bytes += op.size();
    });
    if (worker.ops.empty() || worker.ops.size() > info.diffs.history || op_bytes >= now.size())
        return {};
    const ComponentOps& type = state.world.pool_of(info.id)->ops();
    const std::size_t room = reinterpret_cast<std::size_t>(worker.replay_object.data());
    void* const object = worker.replay_object.data() + ((~room + 1) & (replay_alignment - 1));
    type.construct(object);
    bool same = info.deserialize(object, before) == Error::none;
    for (u32 i = 0; same && i < worker.ops.size(); ++i)
        same = info.diffs.apply_bytes(info.diffs, object, worker.ops[i]) == Error::none;
    if (same) {
        const u32 bytes = info.serialize(object, {worker.replayed.data(), info.opaque_bytes_max});
        same = bytes == now.size() && std::memcmp(worker.replayed.data(), now.data(), bytes) == 0;
    }
    if (type.destroy)
        type.destroy(object, 1);
    return {worker.ops.data(), same ? worker.ops.size() : 0};
}

/// Finds the rows of all touched lanes first, so that their cache misses overlap.
void Capture::find_rows(u32 index, u64 lanes) {
    const ComponentId id = state.layout.components[index].info->id;
    const PoolBase* pool = state.world.pool_of(id);
    u32 count = 0;
    if (state.layout.ruled >> index & 1)
        lanes &= ~state.denied[chunk.number * state.layout.component_count + index];
    for (u64 left = pool ? lanes & chunk.alive : 0; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        const u32 dense = state.world.dense_index(chunk.entity_idx[lane], id);
        if (dense == no_row)
            continue;
        rows_of[index][count] = static_cast<const std::byte*>(pool->row(dense));
        detail::prefetch(rows_of[index][count]);
        ++count;
        lanes_with[index] |= u64(1) << lane;
    }
}

void Capture::component(u32 index, u64 lanes) {
    const LayoutComponent& component = state.layout.components[index];
    u64 have = lanes_with[index];
    const BlockHeader& old = chunk.headers[index];
    u64 structure = (old.present ^ have) & lanes;
    for (u32 plane = 0; plane < 2; ++plane)
        structure |= ((chunk.counters[index][plane] & have) ^ old.counter[plane]) & lanes;
    if (state.layout.once >> index & 1) { // structure has taken the value
        if (component.opaque)
            state.mirror.renew_opaque(chunk, index, have & (structure | rebound), state.tick);
    } else if (component.opaque) {
        dirty |= opaque(component, index, have, rows_of[index], have & (structure | rebound));
        structure |= (old.present ^ have) & lanes;
    } else if (have) {
        fields(component, index, have);
    }
    // Even where the component was not there before: mark may have written for an entity that got it and left the lane in one tick.
    for (u64 left = lanes & ~have; left; left &= left - 1) {
        std::byte* row = new_row(static_cast<u32>(std::countr_zero(left)));
        for (u32 f = 0; f < component.column_count; ++f)
            set_row_element(row, state.layout.columns[component.first_column + f], 0);
    }
    if (!structure)
        return;
    dirty |= structure;
    header_changes |= u32(1) << index;
    BlockHeader& now = headers[index];
    now.present = (old.present & ~lanes) | have;
    for (u32 plane = 0; plane < 2; ++plane)
        now.counter[plane] = (old.counter[plane] & ~lanes) | (chunk.counters[index][plane] & lanes & have);
}

/// Holds or renews the places of lanes inside the cell, which interest reads.
inline void Capture::place_lanes(u64 lanes) {
    const LayoutComponent& component = state.layout.components[state.layout.spatial_component];
    for (u32 axis = 0; axis < 2; ++axis) {
        const Column& column = state.layout.columns[component.first_column + static_cast<u32>(component.info->spatial_fields[axis])];
        u8* places = axis == 0 ? chunk.places.a : chunk.places.b;
        for (u64 left = lanes & chunk.alive; left; left &= left - 1) {
            const u32 lane = static_cast<u32>(std::countr_zero(left));
            const u8 place = state.grid.place(static_cast<i32>(row_element(new_row(lane), column)), places[lane]);
            if (place != places[lane]) {
                places[lane] = place;
                chunk.view_tick = state.tick;
            }
        }
    }
}

/// Of the lanes of a cluster it is the root's place that counts.
void Capture::place_clusters(u64 lanes) {
    const ChunkClusters& clusters = *chunk.clusters;
    place_lanes(lanes & ~clusters.followers);
    for (u64 left = clusters.tied & together(clusters, lanes); left;) {
        const u32 root = clusters.root[std::countr_zero(left)];
        const u64 mates = clusters.mates[root];
        for (u64 m = mates; m; m &= m - 1) {
            const u32 lane = static_cast<u32>(std::countr_zero(m));
            if (chunk.places.a[lane] == chunk.places.a[root] && chunk.places.b[lane] == chunk.places.b[root])
                continue;
            chunk.places.a[lane] = chunk.places.a[root];
            chunk.places.b[lane] = chunk.places.b[root];
            chunk.view_tick = state.tick;
        }
        left &= ~mates;
    }
}

void Capture::compare_rows() {
    const u32 row_bytes = state.layout.row_bytes;
    for (u64 left = looked_at; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        const std::byte *now = new_row(lane), *before = state.mirror.row(chunk, lane);
        u64 differs = 0;
        for (u32 at = 0; at < row_bytes; at += 8) {
            u64 a, b;
            std::memcpy(&a, now + at, 8);
            std::memcpy(&b, before + at, 8);
            differs |= a ^ b;
        }
        dirty |= u64(differs != 0) << lane;
    }
}

/// Components that a dirty lane has got or lost, or that have another value now. The mirror still has the old ones.
u32 Capture::changed_components(u32 lane) const {
    const u64 bit = u64(1) << lane;
    const std::byte *now = new_row(lane), *before = state.mirror.row(chunk, lane);
    u32 changed = 0;
    for (u32 c = 0; c < state.layout.component_count; ++c) {
        const LayoutComponent& component = state.layout.components[c];
        bool differs = component.opaque && chunk.opaque[c] && chunk.opaque[c]->changed[lane] == state.tick;
        if (header_changes >> c & 1) {
            const BlockHeader &old = chunk.headers[c], &new_header = headers[c];
            differs |= (((old.present ^ new_header.present) | (old.counter[0] ^ new_header.counter[0]) |
                         (old.counter[1] ^ new_header.counter[1])) &
                        bit) != 0;
        }
        for (u32 i = component.first_column; (looked_at & bit) && i < component.first_column + component.column_count; ++i)
            differs |= row_element(now, state.layout.columns[i]) != row_element(before, state.layout.columns[i]);
        changed |= u32(differs) << c;
    }
    return changed;
}

/// Which lanes not all clients see alike, and what of them has changed. Before the version is opened.
[[gnu::noinline]] void Capture::note_scopes() {
    const Layout& layout = state.layout;
    u64 special = 0; // lanes with a component that has an audience
    for (u32 left = layout.of_owner | layout.of_others | layout.of_group; left; left &= left - 1) {
        const u32 c = static_cast<u32>(std::countr_zero(left));
        special |= (header_changes >> c & 1 ? headers[c] : chunk.headers[c]).present;
    }
    special &= dirty;
    if (!chunk.scoped_any && !special)
        return;
    ChunkScopes& scopes = state.mirror.scopes(chunk);
    scopes.scoped &= ~rebound | scopes.ruled;
    if ((special | rebound) & ~(scopes.scoped & ~rebound))
        chunk.view_tick = state.tick;
    scope_lanes(chunk, scopes, special, state.tick);
    const u32 version = chunk.version_count ? (chunk.newest + 1u) % history_max : chunk.newest; // that store opens
    for (u64 left = scopes.scoped & dirty; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        if (rebound >> lane & 1) {
            scopes.reset(lane, state.tick);
            continue;
        }
        const u32 changed = changed_components(lane);
        scopes.changed_in[version][lane] = changed;
        if (changed & layout.plain())
            scopes.plain_changed[lane] = state.tick;
        for (u32 some = changed; some; some &= some - 1)
            scopes.changed_of(lane)[std::countr_zero(some)] = state.tick;
    }
}

/// Makes the new rows and headers the present ones.
void Capture::store() {
    state.mirror.open_version(chunk, state.tick, dirty, rebound, header_changes);
    for (u32 left = header_changes; left; left &= left - 1) {
        const u32 index = static_cast<u32>(std::countr_zero(left));
        chunk.headers[index] = headers[index];
    }
    const u32 row_bytes = state.layout.row_bytes;
    for (u64 left = dirty & looked_at; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        const std::byte* from = new_row(lane);
        std::byte* to = state.mirror.row(chunk, lane);
        for (u32 at = 0; at < row_bytes; at += 8)
            std::memcpy(to + at, from + at, 8);
    }
}

} // namespace

void take_once_value(ServerState& state, u32 place, u32 component) {
    Chunk& chunk = state.mirror.chunk(place / lane_count);
    Capture capture(state, state.workers[0], chunk);
    const u64 lane = u64(1) << place % lane_count;
    capture.find_rows(component, lane);
    u64 present = capture.lanes_with[component];
    if (!present)
        return;
    const LayoutComponent& info = state.layout.components[component];
    if (!info.opaque)
        return capture.fields(info, component, present);
    (void)capture.opaque(info, component, present, capture.rows_of[component], present);
    if (!present) // too large: as if rules kept it away
        state.denied[chunk.number * state.layout.component_count + component] |= lane;
}

namespace {

/// Lanes that the mark stage has written.
u64 fresh_lanes(const ServerState& state, u32 chunk) {
    const u8* flags = state.fresh.data() + chunk * lane_count;
    u64 lanes = 0;
#if defined(__SSE2__)
    for (u32 lane = 0; lane < lane_count; lane += 16) {
        const __m128i zero = _mm_cmpeq_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(flags + lane)), _mm_setzero_si128());
        lanes |= u64(~static_cast<u32>(_mm_movemask_epi8(zero)) & 0xffffu) << lane;
    }
#else
    for (u32 lane = 0; lane < lane_count; ++lane)
        lanes |= u64(flags[lane] != 0) << lane;
#endif
    return lanes;
}

/// Slow lanes whose period is over in this tick, and those that are slow no longer.
u64 due_lanes(const Chunk& chunk, Tick tick) {
    u64 due = ~chunk.slow;
    for (u32 p = 1; p <= update_period_log2_max && period_is_over(chunk, tick, p); ++p)
        due |= chunk.periods[p - 1];
    return due;
}

/// R16: which of the changed lanes clients are told of now. All clients of a chunk wait for the same ticks, so payloads stay shared.
void announce(Chunk& chunk, Tick tick, u64 dirty, u64 rebound) {
    if (chunk.scoped_any)
        chunk.scopes->waited = 0;
    if (!chunk.slow_any) {
        chunk.announced = dirty;
        return;
    }
    const u64 news = dirty | chunk.waiting;
    u64 now = news & (due_lanes(chunk, tick) | rebound);
    if (chunk.clusters) // the first of a cluster that is due takes the others along
        now |= news & together(*chunk.clusters, now);
    if (chunk.scoped_any)
        chunk.scopes->waited = chunk.waiting & now;
    chunk.announced = now;
    chunk.waiting = news & ~now;
    chunk.slow_any = (chunk.slow | chunk.waiting) != 0;
}

/// Returns whether the chunk changed.
bool capture_chunk(ServerState& state, WorkerState& worker, Chunk& chunk) {
    Capture capture(state, worker, chunk);
    const u32 components = state.layout.component_count;
    u64* touched = state.touched.data() + chunk.number * components;
    capture.looked_at = fresh_lanes(state, chunk.number);
    std::memset(state.fresh.data() + chunk.number * lane_count, 0, lane_count);
    for (u32 c = 0; c < components; ++c)
        if (touched[c]) {
            capture.find_rows(c, touched[c]);
            capture.looked_at |= touched[c];
        }
    capture.occupants();
    for (u32 c = 0; c < components; ++c)
        if (const u64 lanes = touched[c]) {
            touched[c] = 0;
            capture.component(c, lanes);
        }
    if (chunk.spatial) {
        if (chunk.clusters) [[unlikely]]
            capture.place_clusters(capture.looked_at);
        else
            capture.place_lanes(capture.looked_at);
    }
    capture.compare_rows();
    if (!capture.dirty)
        return false;
    if (chunk.scoped_any || (state.layout.of_owner | state.layout.of_others | state.layout.of_group))
        capture.note_scopes();
    capture.store();
    announce(chunk, state.tick, capture.dirty, capture.rebound);
    ++worker.counts.chunks_dirty;
    worker.counts.lanes_dirty += static_cast<u32>(std::popcount(capture.dirty));
    return true;
}

/// Capture's misses, a few chunks ahead: first what says where things are, then the rows and columns themselves. `i` starts before the
/// piece, and nothing beyond it is looked at: others write there.
constexpr u32 chunks_ahead = 4;
void prefetch_ahead(ServerState& state, i64 i, u32 begin, u32 end) {
    const u32 components = state.layout.component_count;
    const auto chunk_at = [&](i64 index) -> const Chunk& { return state.mirror.chunk(state.touched_list[static_cast<u32>(index)]); };
    const auto in_piece = [&](i64 index) { return index >= begin && index < end; };
    if (in_piece(i + chunks_ahead)) {
        const Chunk& later = chunk_at(i + chunks_ahead);
        state.mirror.prefetch(later.number);
        detail::prefetch(&later.structural);
        detail::prefetch(&later.rows);
        detail::prefetch_write(&state.fresh[later.number * lane_count]);
        for (u32 at = 0; at < components; at += 8)
            detail::prefetch_write(&state.touched[later.number * components + at]);
    }
    if (in_piece(i + 1)) {
        const Chunk& next = chunk_at(i + 1);
        const u64 lanes = fresh_lanes(state, next.number);
        for (u64 left = lanes; left; left &= left - 1)
            detail::prefetch(state.fresh_row(next.number * lane_count + static_cast<u32>(std::countr_zero(left))));
        state.mirror.prefetch_rows(next, lanes);
        if (next.undo)
            for (u32 line = 0; line < 512; line += 64)
                detail::prefetch_write(next.undo + next.undo_end + line);
    }
}

} // namespace

void run_capture_stage(ServerState& state) {
    state.touched_list.clear();
    for (u32 word = 0; word < state.touched_chunks.size(); ++word) {
        u64 waiting = 0; // nobody would look at them
        for (u64 left = state.touched_chunks[word]; left; left &= left - 1) {
            const u32 number = word * 64 + static_cast<u32>(std::countr_zero(left));
            if (state.viewers[number])
                state.touched_list.push_back(number);
            else
                waiting |= left & (~left + 1);
        }
        state.touched_chunks[word] = waiting;
        state.dirty_chunks[word] = 0;
    }
    const u32 count = state.touched_list.size();
    state.touched_dirty.resize(count);
    parallel_stage(state, Stage::capture, count, 32, [&](u32 begin, u32 end, WorkerState& worker, u32) {
        for (i64 i = i64(begin) - chunks_ahead; i < end; ++i) {
            prefetch_ahead(state, i, begin, end);
            if (i >= begin) {
                const u32 at = static_cast<u32>(i);
                state.touched_dirty[at] = capture_chunk(state, worker, state.mirror.chunk(state.touched_list[at]));
            }
        }
    });
    // Here and not in capture_chunk: an atomic OR waits for all that was written before it.
    for (u32 i = 0; i < count; ++i)
        state.dirty_chunks[state.touched_list[i] / 64] |= u64(state.touched_dirty[i]) << state.touched_list[i] % 64;
    state.any_dirty = false;
    for (WorkerState& worker : state.workers) {
        state.any_dirty |= worker.counts.chunks_dirty > 0;
        for (const WorkerState::Dangling& reference : worker.dangling)
            state.dangling.push_back(reference);
        worker.dangling.clear();
    }
    // Chunks that rest, but have something to say that has waited.
    for (const u32 number : state.slow_chunks) {
        Chunk& chunk = state.mirror.chunk(number);
        u64& word = state.dirty_chunks[number / 64];
        const u64 bit = u64(1) << number % 64;
        if ((word & bit) || !(chunk.waiting & due_lanes(chunk, state.tick)))
            continue;
        announce(chunk, state.tick, 0, 0);
        word |= bit;
        state.any_dirty = true;
    }
}

} // namespace throng
