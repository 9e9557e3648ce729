// Encode: every key of the tick once, into the worker's arena. A payload larger than a packet is split by lanes into self-contained
// parts (R13); a single lane that is larger goes by the Ordered channel, in assemble.
#include "jobs/stages/stages.hpp"
#include "src/base/seeded_bug.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace throng {
namespace {

struct Encoder {
    Encoder(ServerState& s, WorkerState& w, Key& k, const Chunk& c) : state(s), worker(w), key(k), chunk(c) {}
    ServerState& state;
    WorkerState& worker;
    Key& key;
    const Chunk& chunk;
    EncodeInput input;
    PastRows baseline;
    u32 part_count = 0;
    Part parts[lane_count]; // the first part_count of them

    /// Leaves out what those who get the key do not see, as if the lanes did not have it.
    void leave_out_unseen();
    /// Encodes `lanes` as one part, or as several if it comes out larger than a packet.
    void encode(u64 lanes);
    u64 first_part(u64 lanes) const;
    [[gnu::noinline]] bool in_one_cluster(u64 lanes) const { return (lanes & ~together(*chunk.clusters, lanes & (~lanes + 1))) == 0; }
};

/// The lower half of the set bits.
u64 lower_half(u64 lanes) {
    u64 low = 0;
    for (u32 left = static_cast<u32>(std::popcount(lanes)) / 2; left > 0; --left) {
        const u64 bit = lanes & (~lanes + 1);
        low |= bit;
        lanes &= ~bit;
    }
    return low;
}

/// The lower half, about, so that no cluster is in both.
u64 Encoder::first_part(u64 lanes) const {
    u64 low = lower_half(lanes);
    if (!chunk.clusters)
        return low;
    low = together(*chunk.clusters, low) & lanes;
    return low != lanes ? low : together(*chunk.clusters, lanes & (~lanes + 1)) & lanes;
}

/// What only some clients see is in the rows, too, and a column may be predicted from one of another component. So the encoder gets
/// copies without it, where there is any.
[[gnu::cold, gnu::noinline]] void Encoder::leave_out_unseen() {
    const Layout& layout = state.layout;
    u64 unseen[Protocol::component_count_max] = {}; // lanes
    u32 kept = 0;
    const auto leave_out = [&](u64 lanes, u64 sees) {
        for (u32 left = layout.all & ~seen_of(sees); left; left &= left - 1)
            unseen[std::countr_zero(left)] |= lanes;
        if (!key.full || !kept_of(sees))
            return;
        if (!kept)
            std::fill_n(worker.kept_lanes, layout.component_count, 0);
        kept |= kept_of(sees);
        for (u32 left = kept_of(sees); left; left &= left - 1)
            worker.kept_lanes[std::countr_zero(left)] |= lanes;
    };
    if (const u32 viewer = viewer_of(key.sees)) {
        const ClientState& client = state.clients[viewer - 1];
        each_mask(state, client, *find_client_chunk(const_cast<ClientState&>(client), key.chunk, 0), key.lanes, leave_out);
    } else
        leave_out(key.lanes, key.sees);
    input.kept = kept ? worker.kept_lanes : nullptr;
    u32 there = 0;
    for (u32 c = 0; c < layout.component_count; ++c) {
        const u64 before = input.baseline ? baseline.headers[c]->present : 0;
        there |= u32(((input.current.headers[c].present | before) & unseen[c]) != 0) << c;
    }
    if (!there)
        return;
    BlockHeader(&headers)[2][Protocol::component_count_max] = worker.masked_headers;
    const auto without = [](const BlockHeader& header, u64 lanes) {
        return BlockHeader{header.present & ~lanes, {header.counter[0] & ~lanes, header.counter[1] & ~lanes}, 0};
    };
    for (u32 c = 0; c < layout.component_count; ++c) {
        headers[0][c] = without(input.current.headers[c], unseen[c]);
        if (!input.baseline)
            continue;
        const bool same = baseline.headers[c] == input.current.headers + c;
        if (!same && (there >> c & 1))
            headers[1][c] = without(*baseline.headers[c], unseen[c]);
        if (same || (there >> c & 1))
            baseline.headers[c] = &headers[same ? 0 : 1][c];
    }
    const u32 bytes = layout.row_bytes;
    worker.masked_rows.resize(2 * lane_count * bytes + 64); // the encoder reads beyond the end of a row
    std::byte* const rows = worker.masked_rows.data();
    const auto copy = [&](std::byte* to, const std::byte* from, u32 lane) {
        std::memcpy(to, from, bytes);
        for (u32 left = there; left; left &= left - 1) {
            const u32 c = static_cast<u32>(std::countr_zero(left));
            const LayoutComponent& component = layout.components[c];
            for (u32 i = component.first_column; (unseen[c] >> lane & 1) && i < component.first_column + component.column_count; ++i)
                set_row_element(to, layout.columns[i], 0);
        }
    };
    for (u64 left = key.lanes; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        copy(rows + lane * bytes, input.current.row(layout, lane), lane);
        if (input.baseline) {
            std::byte* const past = rows + (lane_count + lane) * bytes;
            copy(past, baseline.rows[lane], lane);
            baseline.rows[lane] = past;
        }
    }
    input.current = {rows, headers[0]};
}

void Encoder::encode(u64 lanes) {
    const bool lane = std::has_single_bit(lanes);
    const bool single = lane || (chunk.clusters && in_one_cluster(lanes));
    const u32 limit = single ? state.ordered_bytes : state.payload_bytes;
    input.lanes = lanes;
    std::span<std::byte> out = worker.arena.room(1u << 14);
    EncodeResult result = encode_section(input, state.config.compression, *worker.scratch, out);
    if (result.bytes == 0 && out.size() < section_bytes_max) {
        out = worker.arena.room(section_bytes_max);
        result = encode_section(input, state.config.compression, *worker.scratch, out);
    }
    if (result.bytes == 0 || result.bytes > limit) {
        if (lane) {
            worker.counts.limits |= limit_oversize;
            return;
        }
        if (single)
            worker.counts.limits |= limit_clusters; // larger than any message: its parts go apart
        const u64 low = single ? lower_half(lanes) : first_part(lanes);
        encode(low);
        encode(lanes & ~low);
        return;
    }
    worker.arena.take(result.bytes);
    const u32* const bits = worker.scratch->component_bits;
    for (u32 c = 0; c < state.layout.component_count; ++c)
        worker.component_bits[c] += bits[c];
    for (u32 c = 0; c < state.layout.component_count; ++c)
        worker.component_sections[c] += bits[c] > 1; // one bit says that there is nothing
    parts[part_count++] = {out.data(), result.bytes, result.packed_bytes ? result.packed_bytes : result.bytes, lanes};
    key.zstd |= result.zstd;
}

void encode_key(ServerState& state, WorkerState& worker, Key& key) {
    Chunk& chunk = state.mirror.chunk(key.chunk);
    Encoder encoder(state, worker, key, chunk);
    EncodeInput& input = encoder.input;
    input.layout = &state.layout;
    input.occupants = chunk.occupants;
    input.current = state.mirror.present(chunk);
    if (!key.full) {
        state.mirror.past(chunk, key.baseline + seeded_bug(SeededBug::off_by_one_baseline), key.lanes, encoder.baseline);
        input.baseline = &encoder.baseline;
    }
    input.opaque = chunk.opaque;
    input.tick = state.tick;
    input.baseline_tick = key.baseline;
    input.spatial = chunk.spatial;
    input.origin[0] = chunk.origin[0];
    input.origin[1] = chunk.origin[1];
    input.cell_steps = static_cast<u32>(state.layout.spatial_component >= 0 ? state.grid.cell_steps() : 0);
    key.zstd = false;
    if (key.sees != state.layout.all)
        encoder.leave_out_unseen();
    encoder.encode(key.lanes);
    ++worker.counts.encodes;
    key.part_count = encoder.part_count;
    if (encoder.part_count == 0)
        return;
    key.first = encoder.parts[0];
    key.parts = &key.first;
    u32 bytes = key.first.bytes;
    if (encoder.part_count > 1) {
        const u32 table_bytes = encoder.part_count * static_cast<u32>(sizeof(Part)) + alignof(Part);
        std::byte* room = worker.arena.room(table_bytes).data();
        worker.arena.take(table_bytes);
        room += -reinterpret_cast<std::uintptr_t>(room) & (alignof(Part) - 1);
        Part* parts = reinterpret_cast<Part*>(room);
        for (u32 i = 0; i < encoder.part_count; ++i)
            parts[i] = encoder.parts[i];
        key.parts = parts;
        for (u32 i = 1; i < encoder.part_count; ++i)
            bytes += parts[i].bytes;
    }
    // What a lane cost, for the estimates of a budget; sums do not depend on the order.
    if (!state.config.budget_bytes)
        return;
    if (key.full) {
        worker.full_lanes += static_cast<u64>(std::popcount(key.lanes));
        worker.full_bytes += bytes;
    } else {
        __atomic_fetch_add(&chunk.encoded_lanes, static_cast<u64>(std::popcount(key.lanes)), __ATOMIC_RELAXED);
        __atomic_fetch_add(&chunk.encoded_bytes, static_cast<u64>(bytes), __ATOMIC_RELAXED);
    }
}

/// Keys in the order of their chunks, so that a chunk's columns are fetched once for all its keys: a counting sort.
void order_keys(ServerState& state) {
    const u32 chunks = state.mirror.chunk_count();
    state.key_starts.resize(chunks + 1);
    std::fill(state.key_starts.begin(), state.key_starts.end(), 0);
    state.keys.each([&](Key& key) { ++state.key_starts[key.chunk + 1]; });
    for (u32 chunk = 0; chunk < chunks; ++chunk)
        state.key_starts[chunk + 1] += state.key_starts[chunk];
    state.key_order.resize(state.keys.total());
    state.keys.each([&](Key& key) { state.key_order[state.key_starts[key.chunk]++] = &key; });
}

/// What a lane in full costs changes slowly with the kinds of entities that appear: a mean over about the last 2^10 of them.
void learn_full_cost(ServerState& state) {
    u64 lanes = 0, bytes = 0;
    for (WorkerState& worker : state.workers) {
        lanes += std::exchange(worker.full_lanes, 0);
        bytes += std::exchange(worker.full_bytes, 0);
    }
    constexpr u64 memory = 1024;
    if (lanes)
        state.full_lane_cost = static_cast<u32>((state.full_lane_cost * memory + bytes * 16) / (memory + lanes));
}

/// What the tick before came to is past now, and nothing is counted of this one.
void begin_component_costs(ServerState& state) {
    for (u32 c = 0; c < state.layout.component_count; ++c) {
        state.past_component_costs[c].sections += state.component_costs[c].sections;
        state.past_component_costs[c].bits += state.component_costs[c].bits;
        state.component_costs[c] = {};
    }
}

void sum_component_costs(ServerState& state) {
    for (WorkerState& worker : state.workers)
        for (u32 c = 0; c < state.layout.component_count; ++c) {
            state.component_costs[c].sections += std::exchange(worker.component_sections[c], 0);
            state.component_costs[c].bits += std::exchange(worker.component_bits[c], 0);
        }
}

/// What encoding key number i needs is three loads deep (chunk, tables, blocks and records): each is fetched while an earlier key
/// is encoded, and once for the keys of a chunk, which stand together. `i` starts before the piece.
constexpr u32 keys_ahead = 8;
void prefetch_ahead(ServerState& state, i64 i, u32 begin, u32 end) {
    const Key* const* const order = state.key_order.data();
    const auto in_piece = [&](i64 index) { return index >= begin && index < end; };
    const auto first_of_chunk = [&](i64 index) { return index == begin || order[index - 1]->chunk != order[index]->chunk; };
    if (in_piece(i + keys_ahead))
        detail::prefetch(order[i + keys_ahead]);
    if (in_piece(i + 6) && first_of_chunk(i + 6))
        state.mirror.prefetch(order[i + 6]->chunk);
    if (in_piece(i + 4) && first_of_chunk(i + 4))
        state.mirror.prefetch_past_table(state.mirror.chunk(order[i + 4]->chunk));
    if (in_piece(i + 2)) {
        const Key& key = *order[i + 2];
        const Key* const same = first_of_chunk(i + 2) ? nullptr : order[i + 1];
        const Chunk& chunk = state.mirror.chunk(key.chunk);
        if (!same)
            state.mirror.prefetch_headers(chunk);
        state.mirror.prefetch_rows(chunk, same ? key.lanes & ~same->lanes : key.lanes);
        if (!key.full && !(same && same->baseline == key.baseline))
            state.mirror.prefetch_past(chunk, key.baseline);
    }
}

} // namespace

void run_encode_stage(ServerState& state) {
    const u32 total = state.keys.total();
    if (total)
        order_keys(state);
    for (WorkerState& worker : state.workers)
        worker.arena.reset();
    begin_component_costs(state);
    parallel_stage(state, Stage::encode, total, 64, [&](u32 begin, u32 end, WorkerState& worker, u32) {
        for (i64 i = i64(begin) - keys_ahead; i < end; ++i) {
            prefetch_ahead(state, i, begin, end);
            if (i >= begin)
                encode_key(state, worker, *state.key_order[static_cast<u32>(i)]);
        }
    });
    state.report.keys = total;
    sum_component_costs(state);
    state.any_oversize = std::any_of(state.workers.begin(), state.workers.end(),
                                     [](const WorkerState& worker) { return (worker.counts.limits & limit_oversize) != 0; });
    learn_full_cost(state);
    if (state.config.budget_bytes)
        for (const u32 number : state.touched_list) {
            Chunk& chunk = state.mirror.chunk(number);
            if (chunk.encoded_lanes)
                chunk.lane_cost = static_cast<u32>(chunk.encoded_bytes * 16 / chunk.encoded_lanes);
            chunk.encoded_lanes = chunk.encoded_bytes = 0;
        }
}

} // namespace throng
