#pragma once
// The mirror: for each chunk the quantised columns of its entities now, and a ring of earlier versions of them (R14).
//
// Who writes: the structure stage (serial) assigns lanes; the capture stage writes columns, one worker a chunk. Who reads:
// interest, plan, encode and acks, in parallel, after that.
//
// Sizes: a version costs its changed components' blocks (64 lanes * element size * fields) and one pointer a component;
// unchanged components share the block of the version before.
#include "src/registry/layout.hpp"
#include "src/registry/section.hpp"
#include "src/visibility/interest_grid.hpp"
#include "throng/array.hpp"
#include "throng/memory.hpp"
#include <mutex>

namespace throng {

inline constexpr u32 history_max = 16;
inline constexpr u32 no_chunk = 0xffffffffu;

/// Ordered by use: the first line is what interest, plan and acks look at, then the ring's ticks, its masks, the lanes' places.
struct alignas(64) Chunk {
    u64 alive = 0;   // lanes bound to an entity
    u64 dirty = 0;   // lanes whose value changed at dirty_tick
    u64 rebound = 0; // of these, lanes whose occupant changed
    Tick dirty_tick = 0;
    Tick view_tick = 0;     // when alive or a place last changed
    i32 origin[2] = {0, 0}; // steps; like number, cell and spatial it never changes (R14)
    u32 number = 0;
    Tick newest_dropped = 0; // meaningful if dropped_any
    u8 newest = 0;           // ring index of the present version
    u8 version_count = 0;
    bool dropped_any = false;
    bool spatial = false;
    u32 cell = 0;
    Tick ticks[history_max] = {};
    u64 version_dirty[history_max] = {};
    LanePlaces places;
    u64 version_rebound[history_max] = {};
    u32 entity_idx[lane_count] = {};
    u64 structural = 0; // lanes (un)bound since the last capture
    u64 fresh = 0;      // bit c: the newest version's block c is its own
    u32 next_in_cell = no_chunk;
    // what encoding a lane of this chunk cost, for deterministic size estimates (1/16 bytes a lane)
    u32 lane_cost = 0;
    u64 encoded_lanes = 0; // sums of this tick; atomic
    u64 encoded_bytes = 0;
    u64 dropped_lanes = 0;             // lanes that changed in a version that the ring has dropped
    Tick lane_dropped[lane_count] = {}; // of these, tick of the newest one
    // per component, arrays of Mirror::component_count
    u64 (*counters)[2] = nullptr; // insert counters now
    OpaqueLanes** opaque = nullptr;
    std::byte** spare = nullptr;  // free blocks, linked through their first word
    std::byte** blocks = nullptr; // [version][component_count + 1]; the last is the OccupantBlock
};

/// Memory of one opaque lane is kept by the chunk: data, bytes in use, capacity.
struct OpaqueStore {
    OpaqueLanes lanes;
    u32 capacity[lane_count] = {};
};

class Mirror {
public:
    Mirror(const Layout& layout, u32 history, Allocator allocator);
    ~Mirror();
    Mirror(const Mirror&) = delete;
    Mirror& operator=(const Mirror&) = delete;

    u32 chunk_count() const { return chunks_.size(); }
    Chunk& chunk(u32 number) { return *chunks_[number]; }
    const Chunk& chunk(u32 number) const { return *chunks_[number]; }
    Chunk& add_chunk(u32 cell, bool spatial, i32 origin_a, i32 origin_b);

    /// Opens the version of `tick` if the newest one is older. One writer a chunk.
    void open_version(Chunk& chunk, Tick tick);
    /// The newest version's block of a component (or the occupants: component_count), made its own first. A version of
    /// this tick must be open.
    std::byte* writable(Chunk& chunk, u32 component);
    const std::byte* newest_block(const Chunk& chunk, u32 component) const {
        return chunk.version_count ? chunk.blocks[chunk.newest * stride_ + component] : nullptr;
    }
    /// State of a version, by ring index.
    ChunkState state(const Chunk& chunk, u32 version) const {
        return {reinterpret_cast<const OccupantBlock*>(chunk.blocks[version * stride_ + component_count_]),
                chunk.blocks + version * stride_};
    }
    /// Brings the columns that encoding a delta reads into the cache.
    void prefetch_version(const Chunk& chunk, u32 version) const {
        for (u32 c = 0; c < component_count_; ++c)
            if (const std::byte* block = chunk.blocks[version * stride_ + c])
                for (u32 at = 0; at < layout_.components[c].block_bytes; at += 64)
                    __builtin_prefetch(block + at);
    }
    /// Brings a version's block pointers into the cache.
    void prefetch_table(const Chunk& chunk, u32 version) const {
        __builtin_prefetch(chunk.blocks + version * stride_);
        __builtin_prefetch(chunk.blocks + version * stride_ + component_count_);
    }
    /// Brings what interest, plan and acks read of a chunk into the cache.
    void prefetch(u32 number) const {
        const Chunk* chunk = chunks_[number];
        __builtin_prefetch(chunk);
        __builtin_prefetch(chunk->ticks);
        __builtin_prefetch(chunk->version_dirty);
        __builtin_prefetch(chunk->version_dirty + 8);
        __builtin_prefetch(&chunk->blocks);
    }
    void prefetch_places(u32 number) const {
        const Chunk* chunk = chunks_[number];
        __builtin_prefetch(chunk);
        __builtin_prefetch(&chunk->places);
        __builtin_prefetch(chunk->places.b);
    }
    /// Stores the bytes of an opaque lane; returns true if they differ from the present ones, or if `inserted`: then they count
    /// as changed in any case.
    bool store_opaque(Chunk& chunk, u32 component, u32 lane, Bytes bytes, bool inserted, Tick tick);

    u64 bytes() const { return bytes_; }

private:
    std::byte* take_block(Chunk& chunk, u32 component);
    std::byte* carve(u64 bytes);
    u32 block_bytes(u32 component) const;

    const Layout& layout_;
    Allocator allocator_;
    u32 history_;
    u32 component_count_;
    u32 stride_;
    Array<Chunk*> chunks_;
    struct Slab {
        std::byte* memory;
        u64 bytes;
    };
    std::mutex mutex_; // slabs and bytes_: taken when a chunk needs a block it has not got, rare after warm-up
    Array<Slab> slabs_;
    std::byte* slab_next_ = nullptr;
    u64 slab_left_ = 0;
    u64 bytes_ = 0;
};

/// Lanes of which a dropped version newer than `after` held a change.
u64 dropped_since(const Chunk& chunk, Tick after);

/// Lanes changed in (after, until]. Of versions that the ring has dropped, a lane's last change counts, even if it is newer than
/// `until`: that errs towards changed (R4).
inline u64 changed(const Chunk& chunk, Tick after, Tick until) {
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

/// Lanes whose occupant changed after `after`, or that changed at all in a dropped version after it.
inline u64 rebound_since(const Chunk& chunk, Tick after) {
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

/// Ring index of the version that serves a baseline tick: the newest not newer than it; -1 when it has been dropped (R14).
inline i32 serving(const Chunk& chunk, Tick baseline) {
    u32 version = chunk.newest;
    for (u32 left = chunk.version_count; left > 0; --left) {
        if (!tick_newer(chunk.ticks[version], baseline))
            return static_cast<i32>(version);
        version = version == 0 ? history_max - 1 : version - 1;
    }
    return -1;
}

} // namespace throng
