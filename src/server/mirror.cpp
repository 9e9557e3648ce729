#include "src/server/mirror.hpp"
#include "src/memory/huge_pages.hpp"
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

/// Next free block, stored in the block itself.
std::byte*& next_free(std::byte* block) {
    return *reinterpret_cast<std::byte**>(block);
}
} // namespace

Mirror::Mirror(const Layout& layout, u32 history, Allocator allocator)
    : layout_(layout), allocator_(allocator), history_(history), component_count_(layout.component_count),
      stride_(layout.component_count + 1), chunks_(allocator), slabs_(allocator) {
    THRONG_ASSERT(history >= 2 && history <= history_max);
}

Mirror::~Mirror() {
    for (Chunk* chunk : chunks_) {
        for (u32 c = 0; c < component_count_; ++c) {
            auto* store = reinterpret_cast<OpaqueStore*>(chunk->opaque[c]);
            if (!store)
                continue;
            for (u32 lane = 0; lane < lane_count; ++lane)
                allocator_.free(const_cast<std::byte*>(store->lanes.data[lane]), store->capacity[lane], 16);
            allocator_.free(store, sizeof(OpaqueStore), alignof(OpaqueStore));
        }
    }
    for (const Slab& slab : slabs_)
        allocator_.free(slab.memory, slab.bytes, slab_alignment(slab.bytes));
}

Chunk& Mirror::add_chunk(u32 cell, bool spatial, i32 origin_a, i32 origin_b) {
    const std::size_t n = component_count_;
    const auto rounded = [](std::size_t bytes) { return (bytes + 63) & ~std::size_t(63); };
    const std::size_t counters = rounded(sizeof(Chunk)), opaque = counters + rounded(n * 16 + 16),
                      spare = opaque + rounded(n * sizeof(void*) + 8);
    const std::size_t blocks = spare + rounded((n + 1) * sizeof(void*)), end = blocks + rounded(history_max * stride_ * sizeof(void*));
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
    chunk->spare = reinterpret_cast<std::byte**>(memory + spare);
    chunk->blocks = reinterpret_cast<std::byte**>(memory + blocks);
    chunks_.push_back(chunk);
    return *chunk;
}

u32 Mirror::block_bytes(u32 component) const {
    return component == component_count_ ? static_cast<u32>(sizeof(OccupantBlock)) : layout_.components[component].block_bytes;
}

std::byte* Mirror::take_block(Chunk& chunk, u32 component) {
    if (std::byte* block = chunk.spare[component]) {
        chunk.spare[component] = next_free(block);
        return block;
    }
    return carve(block_bytes(component));
}

/// Memory that lives as long as the mirror. Slabs grow with what is in use, so that a settled server takes none.
std::byte* Mirror::carve(u64 wanted) {
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

void Mirror::open_version(Chunk& chunk, Tick tick) {
    if (chunk.version_count && chunk.ticks[chunk.newest] == tick)
        return;
    if (chunk.version_count == history_) {
        const u32 oldest = (chunk.newest + history_max + 1 - history_) % history_max;
        const u32 second = (oldest + 1) % history_max;
        for (u32 c = 0; c <= component_count_; ++c) {
            std::byte* block = chunk.blocks[oldest * stride_ + c];
            if (block && block != chunk.blocks[second * stride_ + c]) {
                next_free(block) = chunk.spare[c];
                chunk.spare[c] = block;
            }
        }
        chunk.newest_dropped = chunk.ticks[oldest];
        chunk.dropped_lanes |= chunk.version_dirty[oldest];
        for (u64 left = chunk.version_dirty[oldest]; left; left &= left - 1)
            chunk.lane_dropped[std::countr_zero(left)] = chunk.newest_dropped;
        chunk.dropped_any = true;
        --chunk.version_count;
    }
    const u32 before = chunk.newest;
    if (chunk.version_count) {
        chunk.newest = static_cast<u8>((chunk.newest + 1) % history_max);
        std::memcpy(chunk.blocks + chunk.newest * stride_, chunk.blocks + before * stride_, stride_ * sizeof(std::byte*));
    }
    ++chunk.version_count;
    chunk.ticks[chunk.newest] = tick;
    chunk.version_dirty[chunk.newest] = 0;
    chunk.version_rebound[chunk.newest] = 0;
    chunk.fresh = 0;
}

u64 dropped_since(const Chunk& chunk, Tick after) {
    u64 mask = 0;
    for (u64 left = chunk.dropped_lanes; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        mask |= u64(tick_newer(chunk.lane_dropped[lane], after)) << lane;
    }
    return mask;
}

std::byte* Mirror::writable(Chunk& chunk, u32 component) {
    std::byte*& slot = chunk.blocks[chunk.newest * stride_ + component];
    static_assert(Protocol::component_count_max < 64);
    if (chunk.fresh >> component & 1)
        return slot;
    chunk.fresh |= u64(1) << component;
    std::byte* block = take_block(chunk, component);
    if (slot)
        std::memcpy(block, slot, block_bytes(component));
    else
        std::memset(block, 0, block_bytes(component));
    return slot = block;
}

bool Mirror::store_opaque(Chunk& chunk, u32 component, u32 lane, Bytes bytes, bool inserted, Tick tick) {
    auto* store = reinterpret_cast<OpaqueStore*>(chunk.opaque[component]);
    if (!store) {
        store = new (allocator_.allocate(sizeof(OpaqueStore), alignof(OpaqueStore))) OpaqueStore{};
        chunk.opaque[component] = &store->lanes;
    }
    OpaqueLanes& lanes = store->lanes;
    const u32 size = static_cast<u32>(bytes.size());
    if (!inserted && lanes.data[lane] && lanes.bytes[lane] == size && std::memcmp(lanes.data[lane], bytes.data(), size) == 0)
        return false;
    if (!lanes.data[lane] || store->capacity[lane] < size) {
        const u32 capacity = std::max(16u, size + size / 2);
        allocator_.free(const_cast<std::byte*>(lanes.data[lane]), store->capacity[lane], 16);
        lanes.data[lane] = static_cast<std::byte*>(allocator_.allocate(capacity, 16));
        store->capacity[lane] = capacity;
    }
    std::memcpy(const_cast<std::byte*>(lanes.data[lane]), bytes.data(), size);
    lanes.bytes[lane] = size;
    lanes.changed[lane] = tick;
    return true;
}

} // namespace throng
