#include "src/server/mirror.hpp"
#include "src/memory/huge_pages.hpp"
#include "src/registry/op_log.hpp"
#include "src/server/scopes.hpp"
#include "src/server/view_filters.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace throng {

namespace {
constexpr u64 slab_small_bytes = 1u << 18; // the first slabs: small worlds stay small
constexpr u64 slab_alignment(u64 bytes) {
    return bytes < huge_page_bytes ? 64 : huge_page_bytes;
}

/// Next free ring, stored in the ring itself.
std::byte*& next_free(std::byte* ring) {
    return *reinterpret_cast<std::byte**>(ring);
}
/// Rows are a few words.
void copy_row(std::byte* to, const std::byte* from, u32 bytes) {
    for (u32 at = 0; at < bytes; at += 8)
        std::memcpy(to + at, from + at, 8);
}
constexpr u32 undo_small_bytes = 256; // the first ring of a chunk

} // namespace

Mirror::Mirror(const Layout& layout, u32 history, Allocator allocator)
    : layout_(layout), allocator_(allocator), opaque_memory_(allocator), history_(history), component_count_(layout.component_count),
      plain_(layout.plain()), row_bytes_(layout.row_bytes), chunks_(allocator), slabs_(allocator) {
    THRONG_ASSERT(history >= 2 && history <= history_max);
}

Mirror::~Mirror() {
    const Allocator opaque = opaque_memory_.allocator();
    for (Chunk* chunk : chunks_) {
        for (u32 c = 0; c < component_count_; ++c) {
            auto* store = reinterpret_cast<OpaqueStore*>(chunk->opaque[c]);
            if (!store)
                continue;
            for (u32 lane = 0; lane < lane_count; ++lane)
                opaque.free(const_cast<std::byte*>(store->lanes.data[lane]), store->capacity[lane], 16);
            if (OpLog* const logs = store->lanes.logs) {
                for (u32 lane = 0; lane < lane_count; ++lane)
                    logs[lane].~OpLog();
                opaque.free(logs, sizeof(OpLog) * lane_count, alignof(OpLog));
            }
            opaque.free(store, sizeof(OpaqueStore), alignof(OpaqueStore));
        }
    }
    for (const Slab& slab : slabs_)
        allocator_.free(slab.memory, slab.bytes, slab_alignment(slab.bytes));
}

Chunk& Mirror::add_chunk(u32 cell, bool spatial, i32 origin_a, i32 origin_b) {
    const std::size_t n = component_count_;
    const auto rounded = [](std::size_t bytes) { return (bytes + 63) & ~std::size_t(63); };
    const std::size_t counters = rounded(sizeof(Chunk)), opaque = counters + rounded(n * 16 + 16);
    const std::size_t headers = opaque + rounded(n * sizeof(void*) + 8), occupants = headers + rounded(n * sizeof(BlockHeader) + 8);
    const std::size_t rows = occupants + sizeof(OccupantBlock), end = rows + rounded(std::size_t(row_bytes_) * lane_count + 8);
    std::byte* memory = carve(end);
    std::memset(memory, 0, end);
    Chunk* chunk = new (memory) Chunk;
    chunk->number = chunks_.size();
    chunk->cell = cell;
    chunk->spatial = spatial;
    chunk->origin[0] = origin_a;
    chunk->origin[1] = origin_b;
    std::memset(&chunk->places, 0xff, sizeof chunk->places);
    chunk->counters = reinterpret_cast<u64(*)[2]>(memory + counters);
    chunk->opaque = reinterpret_cast<OpaqueLanes**>(memory + opaque);
    chunk->headers = reinterpret_cast<BlockHeader*>(memory + headers);
    chunk->occupants = reinterpret_cast<OccupantBlock*>(memory + occupants);
    chunk->rows = memory + rows;
    chunks_.push_back(chunk);
    return *chunk;
}

/// Memory that lives as long as the mirror, in whole cache lines. Slabs grow with what is in use, so that a settled server takes none.
std::byte* Mirror::carve(u64 wanted) {
    wanted = (wanted + 63) / 64 * 64;
    const std::lock_guard lock(mutex_);
    if (slab_left_ < wanted) {
        const u64 least = bytes_ / 4 > wanted ? bytes_ / 4 : wanted;
        const u64 bytes = least < slab_small_bytes ? slab_small_bytes : (least + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
        slab_next_ = static_cast<std::byte*>(allocator_.allocate(bytes, slab_alignment(bytes)));
        advise_huge_pages(slab_next_, bytes);
        slab_left_ = bytes;
        slabs_.push_back({slab_next_, bytes});
        bytes_ += bytes;
    }
    std::byte* memory = slab_next_;
    slab_next_ += wanted;
    slab_left_ -= wanted;
    return memory;
}

/// Moves the records into a ring that has room for `bytes` more.
void Mirror::grow_undo(Chunk& chunk, u32 bytes) {
    const u32 oldest = (chunk.newest + history_max + 1 - chunk.version_count) % history_max;
    u32 wanted = undo_small_bytes;
    while (wanted < 2 * chunk.undo_capacity_bytes || wanted < 2 * bytes)
        wanted *= 2;
    const u32 size_class = static_cast<u32>(std::countr_zero(wanted));
    std::byte* ring = nullptr;
    {
        const std::lock_guard lock(mutex_);
        if ((ring = free_undo_[size_class]))
            free_undo_[size_class] = next_free(ring);
    }
    if (!ring)
        ring = carve(wanted);
    u32 end = 0;
    for (u32 i = 0, version = oldest; i < chunk.version_count; ++i, version = (version + 1) % history_max) {
        const u32 start = chunk.undo_start[version], size = chunk.undo_bytes[version];
        if (size)
            std::memcpy(ring + end, chunk.undo + start, size);
        chunk.undo_start[version] = end;
        end += size;
    }
    if (chunk.undo) {
        const std::lock_guard lock(mutex_);
        std::byte*& list = free_undo_[std::countr_zero(chunk.undo_capacity_bytes)];
        next_free(chunk.undo) = list;
        list = chunk.undo;
    }
    chunk.undo = ring;
    chunk.undo_capacity_bytes = wanted;
    chunk.undo_end = end;
}

/// Makes the record of recent changes that of `tick`, whose `lanes` become the newest version.
static void note_recent(Chunk& chunk, Tick tick, u64 lanes) {
    const u32 gap = tick - chunk.dirty_tick;
    const bool any = chunk.version_count != 0 && gap <= history_max;
    for (u32 a = history_max; a-- > 0;) // [a] of the new record reaches back to a - gap before the old newest version
        chunk.earlier[a] = any && a >= gap ? chunk.dirty | chunk.earlier[a - gap] : 0;
    chunk.dirty = lanes;
    chunk.dirty_tick = tick;
}

void Mirror::open_version(Chunk& chunk, Tick tick, u64 lanes, u64 rebound, u32 components) {
    THRONG_ASSERT(chunk.version_count == 0 || tick_newer(tick, chunk.ticks[chunk.newest]));
    const u32 undo_bytes = static_cast<u32>(std::popcount(components)) * static_cast<u32>(sizeof(BlockHeader)) +
                           static_cast<u32>(std::popcount(lanes)) * row_bytes_;
    note_recent(chunk, tick, lanes);
    chunk.rebound = rebound;
    if (rebound) {
        chunk.rebound_any = true;
        chunk.rebound_tick = tick;
    }
    if (chunk.version_count == history_) {
        const u32 oldest = (chunk.newest + history_max + 1 - history_) % history_max;
        chunk.newest_dropped = chunk.ticks[oldest];
        chunk.dropped_lanes |= chunk.version_dirty[oldest];
        for (u64 left = chunk.version_dirty[oldest]; left; left &= left - 1)
            chunk.lane_dropped[std::countr_zero(left)] = chunk.newest_dropped;
        chunk.dropped_any = true;
        --chunk.version_count;
    }
    // Room in one piece behind the newest record, or from the front. The ring is never filled to the last byte: an end at the
    // start means empty.
    const u32 oldest = (chunk.newest + history_max + 1 - chunk.version_count) % history_max;
    const u32 start = chunk.version_count ? chunk.undo_start[oldest] : chunk.undo_end;
    if (chunk.undo_end < start) {
        if (start - chunk.undo_end <= undo_bytes)
            grow_undo(chunk, undo_bytes);
    } else if (chunk.undo_capacity_bytes - chunk.undo_end <= undo_bytes) {
        if (start > undo_bytes)
            chunk.undo_end = 0;
        else
            grow_undo(chunk, undo_bytes);
    }
    if (chunk.version_count)
        chunk.newest = static_cast<u8>((chunk.newest + 1) % history_max);
    ++chunk.version_count;
    const u32 version = chunk.newest;
    chunk.ticks[version] = tick;
    chunk.version_dirty[version] = lanes;
    chunk.version_rebound[version] = rebound;
    chunk.oldest_tick = chunk.ticks[(chunk.newest + history_max + 1 - chunk.version_count) % history_max];
    chunk.undo_start[version] = chunk.undo_end;
    chunk.undo_bytes[version] = undo_bytes;
    chunk.undo_headers[version] = components;
    if (components) {
        chunk.headers_any = true;
        chunk.headers_tick = tick;
    }
    std::byte* out = chunk.undo + chunk.undo_end;
    for (u32 left = components; left; left &= left - 1, out += sizeof(BlockHeader))
        std::memcpy(out, chunk.headers + std::countr_zero(left), sizeof(BlockHeader));
    for (u64 left = lanes; left; left &= left - 1, out += row_bytes_)
        copy_row(out, row(chunk, static_cast<u32>(std::countr_zero(left))), row_bytes_);
    chunk.undo_end += undo_bytes;
}

u64 dropped_since(const Chunk& chunk, Tick after) {
    u64 mask = 0;
    for (u64 left = chunk.dropped_lanes; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        mask |= u64(tick_newer(chunk.lane_dropped[lane], after)) << lane;
    }
    return mask;
}

u64 changed_in_ring(const Chunk& chunk, Tick after, Tick until) {
    u64 mask = 0;
    u32 version = chunk.newest;
    for (u32 left = chunk.version_count; left > 0; --left) {
        const Tick tick = chunk.ticks[version];
        if (!tick_newer(tick, after))
            return mask;
        if (!tick_newer(tick, until))
            mask |= chunk.version_dirty[version];
        version = version == 0 ? history_max - 1 : version - 1;
    }
    return chunk.dropped_any && tick_newer(chunk.newest_dropped, after) ? mask | dropped_since(chunk, after) : mask;
}

u64 rebound_in_ring(const Chunk& chunk, Tick after) {
    u64 mask = 0;
    u32 version = chunk.newest;
    for (u32 left = chunk.version_count; left > 0; --left) {
        if (!tick_newer(chunk.ticks[version], after))
            return mask;
        mask |= chunk.version_rebound[version];
        version = version == 0 ? history_max - 1 : version - 1;
    }
    return chunk.dropped_any && tick_newer(chunk.newest_dropped, after) ? mask | dropped_since(chunk, after) : mask;
}

void Mirror::past(const Chunk& chunk, Tick baseline, u64 lanes, PastRows& out) const {
    THRONG_ASSERT(serves(chunk, baseline));
    const u32 first = first_after(chunk, baseline);
    const u32 versions = tick_newer(chunk.ticks[first], baseline) ? (chunk.newest + history_max - first) % history_max + 1 : 0;
    const bool headers_differ = chunk.headers_any && tick_newer(chunk.headers_tick, baseline);
    u32 headers_missing = headers_differ ? static_cast<u32>((u64(1) << component_count_) - 1) : 0;
    for (u32 c = 0; c < component_count_; ++c)
        out.headers[c] = chunk.headers + c;
    for (u32 i = 0, version = first; i < versions && (lanes != 0 || headers_missing != 0); ++i, version = (version + 1) % history_max) {
        const std::byte* at = chunk.undo + chunk.undo_start[version];
        for (u32 left = chunk.undo_headers[version]; left; left &= left - 1, at += sizeof(BlockHeader))
            if (headers_missing & (left & (~left + 1))) {
                const u32 component = static_cast<u32>(std::countr_zero(left));
                out.headers[component] = reinterpret_cast<const BlockHeader*>(at);
                headers_missing &= ~(u32(1) << component);
            }
        const u64 saved = chunk.version_dirty[version];
        for (u64 take = lanes & saved; take; take &= take - 1) {
            const u64 below = (take & (~take + 1)) - 1;
            out.rows[std::countr_zero(take)] = at + static_cast<u32>(std::popcount(saved & below)) * row_bytes_;
        }
        lanes &= ~saved;
    }
    for (; lanes; lanes &= lanes - 1) { // did not change since
        const u32 lane = static_cast<u32>(std::countr_zero(lanes));
        out.rows[lane] = row(chunk, lane);
    }
}

ChunkClusters& Mirror::clusters(Chunk& chunk) {
    if (!chunk.clusters)
        chunk.clusters = new (carve(sizeof(ChunkClusters))) ChunkClusters;
    return *chunk.clusters;
}

bool Mirror::set_period(Chunk& chunk, u32 lane, u32 period_log2) {
    const u64 bit = u64(1) << lane;
    if (period_log2 == 0 ? (chunk.slow & bit) == 0 : (chunk.slow & bit) != 0 && (chunk.periods[period_log2 - 1] & bit) != 0)
        return false;
    if (!chunk.periods) {
        chunk.periods = reinterpret_cast<u64*>(carve(sizeof(u64) * update_period_log2_max));
        std::fill(chunk.periods, chunk.periods + update_period_log2_max, 0);
    }
    for (u32 p = 1; p <= update_period_log2_max; ++p)
        chunk.periods[p - 1] = (chunk.periods[p - 1] & ~bit) | (p == period_log2 ? bit : 0);
    chunk.slow = (chunk.slow & ~bit) | (period_log2 ? bit : 0);
    chunk.slow_any = (chunk.slow | chunk.waiting) != 0;
    return true;
}

bool Mirror::set_rule(Chunk& chunk, u32 lane, const VisibleTo* rule) {
    const u64 bit = u64(1) << lane;
    if (!rule) {
        const bool had = (chunk.ruled & bit) != 0;
        chunk.ruled &= ~bit;
        return had;
    }
    if ((chunk.ruled & bit) && chunk.rules[lane] == *rule)
        return false;
    if (!chunk.rules)
        chunk.rules = reinterpret_cast<VisibleTo*>(carve(sizeof(VisibleTo) * lane_count));
    new (&chunk.rules[lane]) VisibleTo(*rule);
    chunk.ruled |= bit;
    return true;
}

void Mirror::set_filter_number(Chunk& chunk, u32 filter, u32 lane, u32 number) {
    if (!chunk.filters)
        chunk.filters = new (carve(sizeof(ChunkFilters))) ChunkFilters;
    ChunkFilters& filters = *chunk.filters;
    if (!filters.numbers[filter]) {
        filters.numbers[filter] = reinterpret_cast<u32*>(carve(sizeof(u32) * lane_count));
        std::fill_n(filters.numbers[filter], lane_count, 0);
        filters.some |= u64(1) << filter;
    }
    const u64 bit = u64(1) << lane;
    filters.lanes[filter] = (filters.lanes[filter] & ~bit) | (number ? bit : 0);
    filters.numbers[filter][lane] = number;
}

ChunkScopes& Mirror::scopes(Chunk& chunk) {
    if (!chunk.scopes) {
        std::byte* const memory = carve(sizeof(ChunkScopes) + sizeof(Tick) * lane_count * component_count_);
        chunk.scopes = new (memory) ChunkScopes;
        std::fill_n(chunk.scopes->groups, lane_count, no_group);
        std::fill_n(chunk.scopes->owner_connections, lane_count, 0);
        chunk.scopes->component_count = component_count_;
        chunk.scopes->plain = plain_;
        chunk.scopes->changed = reinterpret_cast<Tick*>(memory + sizeof(ChunkScopes));
    }
    return *chunk.scopes;
}

LaneRules& Mirror::lane_rules(Chunk& chunk, u32 lane, u32 count) {
    constexpr u32 few = 4;
    ChunkScopes& kept = scopes(chunk);
    const auto make = [](std::byte* memory, u32 rules) {
        for (u32 i = 0; i < rules; ++i)
            new (memory + sizeof(LaneRules::Rule) * i) LaneRules::Rule;
        return reinterpret_cast<LaneRules::Rule*>(memory);
    };
    if (!kept.rules) {
        std::byte* const memory = carve((sizeof(LaneRules) + sizeof(LaneRules::Rule) * few) * lane_count);
        LaneRules::Rule* const rules = make(memory + sizeof(LaneRules) * lane_count, few * lane_count);
        kept.rules = reinterpret_cast<LaneRules*>(memory);
        for (u32 i = 0; i < lane_count; ++i)
            new (memory + sizeof(LaneRules) * i) LaneRules{rules + i * few, 0, few};
    }
    LaneRules& rules = kept.rules[lane];
    if (count > rules.room) {
        rules.room = std::bit_ceil(count);
        rules.rules = make(carve(sizeof(LaneRules::Rule) * rules.room), rules.room);
    }
    return rules;
}

bool Mirror::store_opaque(Chunk& chunk, u32 component, u32 lane, Bytes bytes, bool inserted, Tick tick, std::span<const Bytes> ops) {
    auto* store = reinterpret_cast<OpaqueStore*>(chunk.opaque[component]);
    if (!store) {
        store = new (opaque_memory_.allocator().allocate(sizeof(OpaqueStore), alignof(OpaqueStore))) OpaqueStore{};
        chunk.opaque[component] = &store->lanes;
    }
    OpaqueLanes& lanes = store->lanes;
    const u32 size = static_cast<u32>(bytes.size());
    if (!inserted && lanes.data[lane] && lanes.bytes[lane] == size && std::memcmp(lanes.data[lane], bytes.data(), size) == 0)
        return false;
    if (!lanes.data[lane] || store->capacity[lane] < size) {
        const u32 capacity = std::max(16u, size + size / 2);
        const Allocator memory = opaque_memory_.allocator();
        memory.free(const_cast<std::byte*>(lanes.data[lane]), store->capacity[lane], 16);
        lanes.data[lane] = static_cast<std::byte*>(memory.allocate(capacity, 16));
        store->capacity[lane] = capacity;
    }
    std::memcpy(const_cast<std::byte*>(lanes.data[lane]), bytes.data(), size);
    const Tick before = lanes.changed[lane];
    lanes.bytes[lane] = size;
    lanes.changed[lane] = tick;
    if (lanes.logs || !ops.empty())
        log_ops(lanes, component, lane, before, ops);
    return true;
}

void Mirror::log_ops(OpaqueLanes& lanes, u32 component, u32 lane, Tick before, std::span<const Bytes> ops) {
    if (!lanes.logs) {
        const Allocator allocator = opaque_memory_.allocator();
        auto* const memory = static_cast<std::byte*>(allocator.allocate(sizeof(OpLog) * lane_count, alignof(OpLog)));
        for (u32 i = 0; i < lane_count; ++i)
            new (memory + sizeof(OpLog) * i) OpLog(allocator);
        lanes.logs = reinterpret_cast<OpLog*>(memory);
    }
    if (ops.empty())
        lanes.logs[lane].clear();
    else
        lanes.logs[lane].append(lanes.changed[lane], before, ops, layout_.components[component].info->diffs.history, lanes.bytes[lane]);
}

void Mirror::renew_opaque(Chunk& chunk, u32 component, u64 lanes, Tick tick) {
    for (; lanes; lanes &= lanes - 1)
        chunk.opaque[component]->changed[std::countr_zero(lanes)] = tick;
}

void Mirror::copy_opaque(const Chunk& from, u32 from_lane, Chunk& to, u32 to_lane, u32 component, Tick tick) {
    const OpaqueLanes* const lanes = from.opaque[component];
    if (lanes && lanes->data[from_lane])
        store_opaque(to, component, to_lane, {lanes->data[from_lane], lanes->bytes[from_lane]}, true, tick);
}

} // namespace throng
