#pragma once
// The mirror: for each chunk the quantised rows of its entities now, and a ring of versions that lead back to earlier ones (R14).
//
// A version keeps what it overwrote: the old rows of the lanes that changed. The state of a lane at a tick B is what the first version
// after B that changed it overwrote, or else the present row. Most lanes of most chunks rest, and an old state is wanted for few
// of the others: this reads and writes a fraction of what whole copies would take.
//
// Who writes: the structure stage (serial) assigns lanes; the capture stage writes rows, one worker a chunk. Who reads:
// interest, plan, encode and acks, in parallel, after that.
//
// Sizes: a row is the elements of all columns (Layout::row_bytes), a chunk 64 rows; a version costs the rows that changed.
#include "src/memory/counted_allocator.hpp"
#include "src/registry/layout.hpp"
#include "src/registry/section.hpp"
#include "src/visibility/interest_grid.hpp"
#include "throng/array.hpp"
#include "throng/memory.hpp"
#include "throng/update_priority.hpp"
#include "throng/visibility.hpp"
#include <mutex>

namespace throng {

inline constexpr u32 history_max = 16;
inline constexpr u32 no_chunk = 0xffffffffu;

/// Which lanes of a chunk go together (R12). What is sent of one of them goes with all that the client has not acknowledged of the
/// others, in one section. Written by the structure stage.
struct ChunkClusters {
    static constexpr u32 former_max = 8;
    u64 tied = 0;               // lanes of clusters ...
    u64 mates[lane_count] = {}; // ... and all of each one's cluster, itself included; 0 where not tied
    u8 root[lane_count] = {};   // whose place counts for all of them
    u64 followers = 0;          // tied lanes that are not their root
    /// Lanes that went together until `end`. They still do while a client may have one of them as it was before.
    struct Former {
        u64 lanes = 0;
        Tick end = 0;
    };
    Former former[former_max];
    u32 former_count = 0;
    u32 needed = 0; // bit i: some client needs former[i]; atomic OR in plan, cleared by structure
};

/// `lanes` and all that go with them.
inline u64 together(const ChunkClusters& clusters, u64 lanes) {
    for (;;) {
        u64 all = lanes;
        for (u64 left = lanes & clusters.tied; left;) {
            const u64 mates = clusters.mates[__builtin_ctzll(left)];
            all |= mates;
            left &= ~mates;
        }
        for (u32 i = 0; i < clusters.former_count; ++i)
            if (clusters.former[i].lanes & all)
                all |= clusters.former[i].lanes;
        if (all == lanes || clusters.former_count == 0)
            return all;
        lanes = all;
    }
}
struct ChunkScopes; // src/server/scopes.hpp
struct LaneRules;
struct ChunkFilters; // src/server/view_filters.hpp

/// Ordered by use: the first line and `earlier` are what interest, plan and acks look at, then the ring's ticks, its masks, the lanes'
/// places.
struct alignas(64) Chunk {
    u64 alive = 0;   // lanes bound to an entity
    u64 dirty = 0;   // lanes whose value changed at dirty_tick
    u64 rebound = 0; // of these, lanes whose occupant changed
    Tick dirty_tick = 0;    // of the newest version
    Tick view_tick = 0;     // when alive or a place last changed
    Tick oldest_tick = 0;   // of the oldest version
    Tick rebound_tick = 0;  // of the newest version in which an occupant changed; meaningful if rebound_any
    i32 origin[2] = {0, 0}; // steps; like number, cell and spatial it never changes (R14)
    u32 number = 0;
    u8 newest = 0; // ring index of the present version
    u8 version_count = 0;
    bool dropped_any : 1 = false;
    bool rebound_any : 1 = false;
    bool headers_any : 1 = false;
    bool slow_any : 1 = false; // slow or waiting is not 0
    bool scoped_any : 1 = false; // has had a lane of which not all clients see the same
    bool paused_any : 1 = false;
    bool spatial = false;
    u64 announced = 0; // lanes that clients are told of in this tick because they changed: dirty, but for those whose period is not over
    u64 earlier[history_max] = {}; // [a]: lanes that changed in the a ticks before dirty_tick
    Tick ticks[history_max] = {};
    u32 cell = 0;
    Tick newest_dropped = 0; // meaningful if dropped_any
    u64 version_dirty[history_max] = {};
    LanePlaces places;
    u64 version_rebound[history_max] = {};
    u32 entity_idx[lane_count] = {};
    u64 structural = 0; // lanes (un)bound since the last capture
    u32 next_in_cell = no_chunk;
    u64 ruled = 0;              // lanes whose entity has VisibleTo ...
    VisibleTo* rules = nullptr; // ... and what it says, by lane; null until a lane is ruled
    ChunkFilters* filters = nullptr; // null until an entity has a component of a filter
    u64 slow = 0;               // lanes whose entity has an UpdatePriority below 1 ...
    u64* periods = nullptr;     // ... and those of each period, [log2 - 1]; null until there is one
    u64 waiting = 0;            // slow lanes that have changed and wait for their tick
    ChunkScopes* scopes = nullptr; // null until scoped_any, or an entity has OwnedBy or SharedWith
    u64 lasting = 0;            // lanes whose entity is Lasting
    u64 from_start = 0;         // of these, those that clients get in any case
    ChunkClusters* clusters = nullptr; // null until a lane is in a cluster
    u64 paused = 0;             // lanes that stay as they are: their entity is paused, or ended so; meaningful if paused_any
    u64 orphaned = 0;           // of these, those whose entity has ended
    // what encoding a lane of this chunk cost, for deterministic size estimates (1/16 bytes a lane)
    u32 lane_cost = 0;
    u64 encoded_lanes = 0; // sums of this tick; atomic
    u64 encoded_bytes = 0;
    u64 dropped_lanes = 0;             // lanes that changed in a version that the ring has dropped
    Tick lane_dropped[lane_count] = {}; // of these, tick of the newest one
    // per component, arrays of Mirror::component_count
    u64 (*counters)[2] = nullptr; // insert counters now
    OpaqueLanes** opaque = nullptr;
    OccupantBlock* occupants = nullptr;
    BlockHeader* headers = nullptr; // [component]: which lanes have it
    std::byte* rows = nullptr;      // [lane]; 0 where a lane lacks the component
    // What versions overwrote: records in a ring of bytes, oldest first, each in one piece. A record holds the old headers of the
    // components in undo_headers, then the old rows of the lanes in version_dirty.
    std::byte* undo = nullptr;
    u32 undo_capacity_bytes = 0;
    u32 undo_end = 0;      // where the newest record ends
    Tick headers_tick = 0; // of the newest version in which a header changed; meaningful if headers_any
    u32 undo_start[history_max] = {};
    u32 undo_bytes[history_max] = {};
    u32 undo_headers[history_max] = {}; // bit c: the header of component c changed
};

/// Memory of one opaque lane is kept by the chunk: data, bytes in use, capacity.
struct OpaqueStore {
    OpaqueLanes lanes;
    u32 capacity[lane_count] = {};
};

/// The present bytes of an opaque lane; data() is null if it never had any.
inline Bytes opaque_bytes(const Chunk& chunk, u32 component, u32 lane) {
    const OpaqueLanes* const lanes = chunk.opaque[component];
    return lanes && lanes->data[lane] ? Bytes{lanes->data[lane], lanes->bytes[lane]} : Bytes{};
}

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

    /// Opens the version of `tick`, newer than all others, in which `lanes` and the headers of `components` (bits) are about to be
    /// overwritten; `rebound` of the lanes get another occupant. One writer a chunk.
    void open_version(Chunk& chunk, Tick tick, u64 lanes, u64 rebound, u32 components);
    std::byte* row(Chunk& chunk, u32 lane) const { return chunk.rows + lane * row_bytes_; }
    const std::byte* row(const Chunk& chunk, u32 lane) const { return chunk.rows + lane * row_bytes_; }
    RowState present(const Chunk& chunk) const { return {chunk.rows, chunk.headers}; }
    /// The state at a baseline tick that serves(); right for `lanes` whose occupant has not changed since. Good until the chunk's
    /// next version.
    void past(const Chunk& chunk, Tick baseline, u64 lanes, PastRows& out) const;

    /// Bring what encoding reads of the present state into the cache.
    void prefetch_rows(const Chunk& chunk, u64 lanes) const {
        for (; lanes; lanes &= lanes - 1)
            detail::prefetch(row(chunk, static_cast<u32>(__builtin_ctzll(lanes))));
    }
    void prefetch_headers(const Chunk& chunk) const {
        for (u32 c = 0; c < component_count_; c += 2) // 64 bytes
            detail::prefetch(chunk.headers + c);
    }
    /// Brings what past() reads into the cache: first what says where it is, a little later the rows themselves.
    void prefetch_past_table(const Chunk& chunk) const {
        detail::prefetch(&chunk.rows);
        detail::prefetch(chunk.ticks);
        for (u32 version = 0; version < history_max; version += 8)
            detail::prefetch(chunk.version_dirty + version);
        detail::prefetch(chunk.undo_start);
        detail::prefetch(chunk.undo_bytes);
        detail::prefetch(chunk.undo_headers);
    }
    void prefetch_past(const Chunk& chunk, Tick baseline) const {
        const u32 version = first_after(chunk, baseline);
        const std::byte* begin = chunk.undo + chunk.undo_start[version];
        for (u32 byte = 0; byte < chunk.undo_bytes[version]; byte += 64)
            detail::prefetch(begin + byte);
    }
    /// Brings what interest, plan and acks read of a chunk into the cache.
    void prefetch(u32 number) const {
        const Chunk* chunk = chunks_[number];
        detail::prefetch(chunk);
        detail::prefetch(chunk->earlier);
    }
    void prefetch_places(u32 number) const {
        const Chunk* chunk = chunks_[number];
        detail::prefetch(chunk);
        detail::prefetch(&chunk->places);
        detail::prefetch(chunk->places.b);
    }
    /// Stores the bytes of an opaque lane; returns true if they differ from the present ones, or if `inserted`: then they count
    /// as changed in any case. `ops` made them from the present ones; empty: it is not known what did.
    bool store_opaque(Chunk& chunk, u32 component, u32 lane, Bytes bytes, bool inserted, Tick tick, std::span<const Bytes> ops = {});

    /// The bytes of these lanes, stored before, count as changed at `tick`.
    void renew_opaque(Chunk& chunk, u32 component, u64 lanes, Tick tick);
    /// Gives a lane the bytes that another one has.
    void copy_opaque(const Chunk& from, u32 from_lane, Chunk& to, u32 to_lane, u32 component, Tick tick);

    /// Makes a lane visible by a rule; null: to all. Returns whether that is new.
    bool set_rule(Chunk& chunk, u32 lane, const VisibleTo* rule);
    /// Gives a lane the number of a filter's value; 0: none.
    void set_filter_number(Chunk& chunk, u32 filter, u32 lane, u32 number);
    /// Those of the chunk, made if there are none.
    ChunkClusters& clusters(Chunk& chunk);
    /// The lane's changes are announced every 2^period_log2 ticks. Returns whether that is new.
    bool set_period(Chunk& chunk, u32 lane, u32 period_log2);

    /// What the chunk keeps for scopes; made at the first call. One writer a chunk.
    ChunkScopes& scopes(Chunk& chunk);
    /// Room for `count` rules of ScopedTo in a lane.
    LaneRules& lane_rules(Chunk& chunk, u32 lane, u32 count);

    u64 bytes() const { return bytes_; }
    /// Of opaque values and their ops.
    u64 opaque_bytes() const { return opaque_memory_.bytes(); }

private:
    std::byte* carve(u64 bytes);
    void grow_undo(Chunk& chunk, u32 bytes);
    void log_ops(OpaqueLanes& lanes, u32 component, u32 lane, Tick before, std::span<const Bytes> ops);
    /// Ring index of the oldest version newer than `baseline`; the newest one if there is none.
    u32 first_after(const Chunk& chunk, Tick baseline) const {
        u32 version = chunk.newest;
        for (u32 left = chunk.version_count; left > 1; --left) {
            const u32 before = version == 0 ? history_max - 1 : version - 1;
            if (!tick_newer(chunk.ticks[before], baseline))
                break;
            version = before;
        }
        return version;
    }

    const Layout& layout_;
    Allocator allocator_;
    CountedAllocator opaque_memory_;
    u32 history_;
    u32 component_count_;
    u32 plain_; // Layout::plain()
    u32 row_bytes_;
    Array<Chunk*> chunks_;
    struct Slab {
        std::byte* memory;
        u64 bytes;
    };
    std::mutex mutex_; // slabs, free rings and bytes_: taken when a chunk needs a block or a larger ring, rare after warm-up
    Array<Slab> slabs_;
    std::byte* free_undo_[32] = {}; // rings that became too small, by log2 of their bytes, linked through their first word
    std::byte* slab_next_ = nullptr;
    u64 slab_left_ = 0;
    u64 bytes_ = 0;
};

/// Lanes of which a dropped version newer than `after` held a change.
u64 dropped_since(const Chunk& chunk, Tick after);

/// changed() and rebound_since() by walking the ring.
u64 changed_in_ring(const Chunk& chunk, Tick after, Tick until);
u64 rebound_in_ring(const Chunk& chunk, Tick after);

/// Lanes changed in (after, until]. Of versions that the ring has dropped, a lane's last change counts, even if it is newer than
/// `until`: that errs towards changed (R4). One load where `until` is not older than the tick before the newest version, as it nearly
/// always is.
inline u64 changed(const Chunk& chunk, Tick after, Tick until) {
    const u32 age = chunk.dirty_tick - after;
    if (chunk.version_count == 0 || static_cast<i32>(age) <= 0)
        return 0;
    const i32 past_newest = static_cast<i32>(until - chunk.dirty_tick);
    if (age <= history_max && past_newest >= -1)
        return chunk.earlier[age - 1] | (past_newest >= 0 ? chunk.dirty : 0);
    return changed_in_ring(chunk, after, until);
}

/// Whether changes that are sent every 2^period_log2 ticks are sent in this one. Chunks take turns.
inline bool period_is_over(const Chunk& chunk, Tick tick, u32 period_log2) {
    return ((tick + chunk.number) & ((1u << period_log2) - 1)) == 0;
}

inline u64 paused_lanes(const Chunk& chunk) {
    return chunk.paused_any ? chunk.paused : 0;
}

/// Lanes whose last change waits: nobody has been told.
inline u64 waiting_lanes(const Chunk& chunk) {
    return chunk.slow_any ? chunk.waiting : 0;
}

/// Lanes of which it is known that their occupant is the same as at `after`, whatever the ring has dropped.
u64 kept_lanes(const Chunk& chunk, Tick after);

/// Lanes whose occupant changed after `after`, or that changed at all in a dropped version after it.
inline u64 rebound_since(const Chunk& chunk, Tick after) {
    if ((chunk.rebound_any && tick_newer(chunk.rebound_tick, after)) || (chunk.dropped_any && tick_newer(chunk.newest_dropped, after)))
        return chunk.scoped_any ? rebound_in_ring(chunk, after) & ~kept_lanes(chunk, after) : rebound_in_ring(chunk, after);
    return 0;
}

/// Whether the state at a baseline tick is known (R14).
inline bool serves(const Chunk& chunk, Tick baseline) {
    return chunk.version_count != 0 && !tick_newer(chunk.oldest_tick, baseline);
}

} // namespace throng
