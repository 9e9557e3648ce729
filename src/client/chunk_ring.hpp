#pragma once
// The client's chunks: per chunk a ring of versions (R7), each the preceding one plus the lanes carried. Columns are blocks
// that versions share until one of them must differ (copy on write, counted references in the block's unused word).
#include "src/client/fixed_pool.hpp"
#include "src/registry/layout.hpp"
#include "src/registry/section.hpp"
#include "throng/array.hpp"

namespace throng {

/// Most versions that a ring may be configured to keep.
inline constexpr u32 ring_versions_limit = 64;

/// The columns of a chunk as of `tick`. carried[lane] is the tick of the message that brought the lane's value.
struct RingVersion {
    Tick tick;
    Tick origin_tick; // of the section that brought the origin
    i32 origin[2];    // of the chunk's cell, in spatial steps
    bool spatial;     // the chunk belongs to a cell
    OccupantBlock* occupants; // null: no lane holds an entity
    Tick carried[lane_count];
    std::byte* blocks[1]; // [component_count]; null: no lane has it
};

/// Bytes of a component with diffs, which ops are done to.
struct HeldValue {
    std::byte* data;
    u32 bytes, capacity;
};

struct HeldChunk {
    u32 number;
    u32 version_count;
    Tick newest_named;        // newest baseline that the server has named
    bool touched;             // by the message at hand
    u32 record[lane_count];   // hint: record of the live occupant
    u32* row;                 // [component][lane_count], hint: row of the live occupant's component in its pool
    u64* opaque_hash;         // [opaque component][lane_count], of the live lanes; null if the protocol has none
    HeldValue* values;        // [component with diffs][lane_count], newest ones; data is null before the first; null if there are none
    u64* kept;                // [component]: live lanes whose entity keeps what it has of it; null until a section says so
    RingVersion* versions[1]; // [ring_versions_max + 1], oldest first, at least one

    RingVersion& live() { return *versions[version_count - 1]; }
    const RingVersion& live() const { return *versions[version_count - 1]; }
};

/// A section between decoding and commit. Owns a reference to each of its blocks.
struct StagedSection {
    u32 number = 0;
    HeldChunk* chunk = nullptr; // null until commit if the client has no such chunk
    bool full = false;
    bool delta = false;           // names `baseline`
    bool unapplied = false;
    bool spatial = false;
    i32 origin[2] = {0, 0};
    Tick baseline = 0;
    u64 lanes = 0;                // to be written
    u64 gone = 0;
    u32 owned = 0;                // bit i: blocks[i] came from the section; else it is the baseline's
    OccupantBlock* occupants = nullptr;
    u32 first_opaque = 0, opaque_count = 0; // in the list of the message
    u32 first_kept = 0, kept_count = 0;     // the same
    std::byte* blocks[Protocol::component_count_max] = {};
};

/// Lane values at a baseline.
struct BaselineView {
    const RingVersion* version = nullptr; // null: nothing is held
    u64 held = 0;                           // lanes with an occupant whose value at the baseline is known
};

class ChunkRings {
public:
    ChunkRings(const Layout& layout, Allocator allocator, u32 versions_max);
    ~ChunkRings();
    ChunkRings(const ChunkRings&) = delete;
    ChunkRings& operator=(const ChunkRings&) = delete;

    HeldChunk* find(u32 number) const;
    /// Makes a chunk that held nothing before `tick`.
    HeldChunk& create(u32 number, Tick tick);
    void destroy(HeldChunk& chunk);
    u32 count() const { return static_cast<u32>(chunks_.size()); }
    HeldChunk& at(u32 index) { return *chunks_[index]; }
    const HeldChunk& at(u32 index) const { return *chunks_[index]; }
    void clear();

    /// R7: which version serves `baseline`, and for which lanes.
    BaselineView look_up(const HeldChunk& chunk, Tick baseline) const;
    /// Lanes whose live value is newer than `tick`.
    static u64 newer_lanes(const RingVersion& version, Tick tick);

    /// Lanes whose live value a section of `tick` may replace.
    static u64 open_lanes(const HeldChunk& chunk, Tick tick) {
        return tick_newer(chunk.live().tick, tick) ? ~newer_lanes(chunk.live(), tick) : ~u64(0);
    }

    /// Copies a decoded block, so that it outlives the decoder's buffers. Returns one reference.
    std::byte* stage_block(u32 component, const std::byte* block);
    OccupantBlock* stage_occupants(const OccupantBlock& occupants);
    /// Adds references to the blocks of the baseline which the section does not carry itself.
    void hold_baseline(StagedSection& section, const RingVersion& baseline);
    void release_staged(StagedSection& section);

    /// Writes the lanes carried at `tick` and patches newer versions up to the next that carried the lane (R7, R8).
    void write(HeldChunk& chunk, Tick tick, StagedSection& section);
    /// Drops versions that no baseline will name any more, unless they are states of `keep_since` and later; and those beyond the cap.
    void prune(HeldChunk& chunk, Tick keep_since);

    /// The chunk's kept lanes, none at first.
    u64* kept(HeldChunk& chunk);

    /// Bytes of chunks, versions and blocks in use. What the pools hold is the peak of it, and part of a slab each.
    std::size_t used_bytes() const;
    /// Most bytes that write() of one section to this chunk may take.
    std::size_t write_bytes_max(const HeldChunk* chunk) const;
    u32 opaque_count() const { return opaque_count_; }
    /// Index among opaque components, of a component that is opaque.
    u32 opaque_index(u32 component) const { return opaque_index_[component]; }

    /// The newest bytes of a lane of a component with diffs; data() is null if it never had any.
    Bytes value(const HeldChunk& chunk, u32 component, u32 lane) const {
        const HeldValue& held = chunk.values[diff_index_[component] * lane_count + lane];
        return held.data ? Bytes{held.data, held.bytes} : Bytes{};
    }
    void hold_value(HeldChunk& chunk, u32 component, u32 lane, Bytes bytes);
    /// Most bytes that hold_value takes for so many bytes.
    static std::size_t value_bytes_max(std::size_t bytes) { return bytes + bytes / 2 + 16; }

    static const OccupantBlock& occupants(const RingVersion& version) { return version.occupants ? *version.occupants : no_occupants; }
    static const OccupantBlock no_occupants;

private:
    static u64& references(std::byte* block) { return header(block).unused; }
    static u64& references(OccupantBlock* block) { return block->unused[0]; }
    std::byte* take_block(u32 component) { return static_cast<std::byte*>(pools_[pool_of_[component]].take()); }
    void release(u32 component, std::byte* block);
    void release(OccupantBlock* block);
    RingVersion& insert_version(HeldChunk& chunk, u32 at, Tick tick);
    void release_version(RingVersion& version);
    void release_values(HeldChunk& chunk);
    void write_occupants(HeldChunk& chunk, u32 start, const StagedSection& section, const u64* lanes, const u64* gone);
    void write_component(HeldChunk& chunk, u32 start, u32 component, StagedSection& section, const u64* lanes, const u64* gone);
    bool write_block(u32 component, std::byte*& slot, std::byte* source, bool owned, u64 lanes, u64 gone);
    void merge(u32 component, std::byte* into, const std::byte* from, u64 take, u64 zero) const;
    u32 home(u32 number) const { return static_cast<u32>((number * 0x9e3779b97f4a7c15ull) >> 32) & mask_; }
    void grow_table();

    const Layout& layout_;
    Allocator allocator_;
    u32 versions_max_;
    Array<HeldChunk*> chunks_;
    Array<u32> table_; // open addressing; index into chunks_, or ~0
    u32 mask_ = 0;
    FixedPool chunk_pool_, version_pool_, occupant_pool_, opaque_pool_, row_pool_, value_pool_, kept_pool_;
    FixedPool pools_[Protocol::component_count_max]; // one per block size
    u32 pool_count_ = 0;
    u8 pool_of_[Protocol::component_count_max] = {};
    u8 opaque_index_[Protocol::component_count_max] = {};
    u32 opaque_count_ = 0;
    u8 diff_index_[Protocol::component_count_max] = {};
    u32 diff_count_ = 0;
    std::size_t value_bytes_ = 0; // of held values
    std::size_t blocks_bytes_ = 0; // of one set of blocks, all components
};

} // namespace throng
