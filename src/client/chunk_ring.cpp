#include "src/client/chunk_ring.hpp"
#include <bit>
#include <cstring>

namespace throng {
namespace {
constexpr u32 no_chunk = 0xffffffff;
/// A chunk's first version is this much older than the message that made it: it serves any baseline that can be named.
constexpr Tick before_all_ticks = 1u << 30;

u64 occupied(const std::byte* block) {
    const BlockHeader& h = header(block);
    return h.present | h.counter[0] | h.counter[1];
}

/// One byte a lane, 0xff where the bit is set: the form that vectorises.
struct LaneBytes {
    i8 lane[lane_count];
    explicit LaneBytes(u64 mask) {
        for (u32 i = 0; i < lane_count; ++i)
            lane[i] = static_cast<i8>(-static_cast<i32>(mask >> i & 1));
    }
};

template <class T>
void merge_dense(T* into, const T* from, const LaneBytes& take, const LaneBytes& zero) {
    for (u32 i = 0; i < lane_count; ++i) {
        const T t = static_cast<T>(take.lane[i]), z = static_cast<T>(zero.lane[i]);
        into[i] = static_cast<T>((from[i] & t) | (into[i] & ~(t | z)));
    }
}
template <class T>
void merge_sparse(T* into, const T* from, u64 take, u64 zero) {
    for (u64 m = take; m; m &= m - 1)
        into[std::countr_zero(m)] = from[std::countr_zero(m)];
    for (u64 m = zero; m; m &= m - 1)
        into[std::countr_zero(m)] = 0;
}
constexpr int sparse_lanes_max = 6;
} // namespace

const OccupantBlock ChunkRings::no_occupants{};

ChunkRings::ChunkRings(const Layout& layout, Allocator allocator, u32 versions_max)
    : layout_(layout), allocator_(allocator), versions_max_(versions_max), chunks_(allocator), table_(allocator) {
    THRONG_ASSERT(versions_max >= 2 && versions_max <= ring_versions_limit);
    for (u32 c = 0; c < layout.component_count; ++c) {
        const u32 bytes = layout.components[c].block_bytes;
        u32 pool = 0;
        while (pool < pool_count_ && pools_[pool].element_bytes() != bytes)
            ++pool;
        if (pool == pool_count_)
            pools_[pool_count_++].init(allocator, bytes);
        pool_of_[c] = static_cast<u8>(pool);
        blocks_bytes_ += bytes;
        if (layout.components[c].opaque)
            opaque_index_[c] = static_cast<u8>(opaque_count_++);
        if (layout.diffs >> c & 1)
            diff_index_[c] = static_cast<u8>(diff_count_++);
    }
    version_pool_.init(allocator, sizeof(RingVersion) + sizeof(std::byte*) * layout.component_count);
    chunk_pool_.init(allocator, sizeof(HeldChunk) + sizeof(RingVersion*) * (versions_max_ + 1));
    occupant_pool_.init(allocator, sizeof(OccupantBlock));
    row_pool_.init(allocator, sizeof(u32) * lane_count * (layout.component_count > 0 ? layout.component_count : 1));
    kept_pool_.init(allocator, sizeof(u64) * (layout.component_count > 0 ? layout.component_count : 1));
    if (opaque_count_ > 0)
        opaque_pool_.init(allocator, sizeof(u64) * lane_count * opaque_count_);
    if (diff_count_ > 0)
        value_pool_.init(allocator, sizeof(HeldValue) * lane_count * diff_count_);
}

ChunkRings::~ChunkRings() {
    for (HeldChunk* chunk : chunks_)
        release_values(*chunk);
}

void ChunkRings::clear() {
    for (HeldChunk* chunk : chunks_)
        release_values(*chunk);
    chunks_.clear();
    table_.clear();
    mask_ = 0;
    chunk_pool_.release_all();
    version_pool_.release_all();
    occupant_pool_.release_all();
    opaque_pool_.release_all();
    value_pool_.release_all();
    row_pool_.release_all();
    kept_pool_.release_all();
    for (u32 p = 0; p < pool_count_; ++p)
        pools_[p].release_all();
}

std::size_t ChunkRings::used_bytes() const {
    std::size_t sum = chunk_pool_.used_bytes() + version_pool_.used_bytes() + occupant_pool_.used_bytes() + opaque_pool_.used_bytes() +
                      row_pool_.used_bytes() + kept_pool_.used_bytes() + value_pool_.used_bytes() + value_bytes_;
    for (u32 p = 0; p < pool_count_; ++p)
        sum += pools_[p].used_bytes();
    return sum;
}

std::size_t ChunkRings::write_bytes_max(const HeldChunk* chunk) const {
    const std::size_t versions = chunk ? chunk->version_count + 1 : 2;
    return chunk_pool_.element_bytes() + opaque_pool_.element_bytes() + row_pool_.element_bytes() + kept_pool_.element_bytes() +
           value_pool_.element_bytes() +
           version_pool_.element_bytes() * 2 + (versions + 1) * (blocks_bytes_ + occupant_pool_.element_bytes());
}

// ---------------------------------------------------------------------------------------------------- chunks by number
HeldChunk* ChunkRings::find(u32 number) const {
    if (table_.empty())
        return nullptr;
    for (u32 slot = home(number);; slot = (slot + 1) & mask_) {
        if (table_[slot] == no_chunk)
            return nullptr;
        if (chunks_[table_[slot]]->number == number)
            return chunks_[table_[slot]];
    }
}

void ChunkRings::grow_table() {
    const u32 size = table_.empty() ? 16 : static_cast<u32>(table_.size()) * 2;
    table_.clear();
    table_.resize(size, no_chunk);
    mask_ = size - 1;
    for (u32 i = 0; i < chunks_.size(); ++i) {
        u32 slot = home(chunks_[i]->number);
        while (table_[slot] != no_chunk)
            slot = (slot + 1) & mask_;
        table_[slot] = i;
    }
}

HeldChunk& ChunkRings::create(u32 number, Tick tick) {
    THRONG_ASSERT(!find(number));
    if ((chunks_.size() + 1) * 3 > table_.size() * 2)
        grow_table();
    auto& chunk = *static_cast<HeldChunk*>(chunk_pool_.take());
    chunk.number = number;
    chunk.version_count = 0;
    chunk.newest_named = tick - before_all_ticks;
    chunk.touched = false;
    for (u32& record : chunk.record)
        record = 0xffffffff;
    chunk.row = static_cast<u32*>(row_pool_.take());
    std::memset(chunk.row, 0xff, sizeof(u32) * lane_count * layout_.component_count);
    chunk.opaque_hash = opaque_count_ > 0 ? static_cast<u64*>(opaque_pool_.take()) : nullptr;
    if (chunk.opaque_hash)
        std::memset(chunk.opaque_hash, 0, sizeof(u64) * lane_count * opaque_count_);
    chunk.values = diff_count_ > 0 ? static_cast<HeldValue*>(value_pool_.take()) : nullptr;
    if (chunk.values)
        std::memset(chunk.values, 0, sizeof(HeldValue) * lane_count * diff_count_);
    chunk.kept = nullptr;
    auto& version = *static_cast<RingVersion*>(version_pool_.take());
    version.tick = version.origin_tick = tick - before_all_ticks;
    version.origin[0] = version.origin[1] = 0;
    version.spatial = false;
    version.occupants = nullptr;
    for (Tick& carried : version.carried)
        carried = version.tick;
    for (u32 c = 0; c < layout_.component_count; ++c)
        version.blocks[c] = nullptr;
    chunk.versions[chunk.version_count++] = &version;
    u32 slot = home(number);
    while (table_[slot] != no_chunk)
        slot = (slot + 1) & mask_;
    table_[slot] = static_cast<u32>(chunks_.size());
    chunks_.push_back(&chunk);
    return chunk;
}

void ChunkRings::destroy(HeldChunk& chunk) {
    u32 hole = home(chunk.number);
    while (chunks_[table_[hole]] != &chunk)
        hole = (hole + 1) & mask_;
    const u32 index = table_[hole];
    for (u32 slot = (hole + 1) & mask_; table_[slot] != no_chunk; slot = (slot + 1) & mask_) {
        const u32 wanted = home(chunks_[table_[slot]]->number);
        if (((slot - wanted) & mask_) >= ((slot - hole) & mask_)) {
            table_[hole] = table_[slot];
            hole = slot;
        }
    }
    table_[hole] = no_chunk;
    const u32 last = static_cast<u32>(chunks_.size()) - 1;
    if (index != last) {
        u32 slot = home(chunks_[last]->number);
        while (table_[slot] != last)
            slot = (slot + 1) & mask_;
        table_[slot] = index;
    }
    chunks_.erase_unordered(index);
    for (u32 v = 0; v < chunk.version_count; ++v)
        release_version(*chunk.versions[v]);
    row_pool_.give(chunk.row);
    if (chunk.opaque_hash)
        opaque_pool_.give(chunk.opaque_hash);
    release_values(chunk);
    if (chunk.values)
        value_pool_.give(chunk.values);
    if (chunk.kept)
        kept_pool_.give(chunk.kept);
    chunk_pool_.give(&chunk);
}

u64* ChunkRings::kept(HeldChunk& chunk) {
    if (!chunk.kept) {
        chunk.kept = static_cast<u64*>(kept_pool_.take());
        std::memset(chunk.kept, 0, sizeof(u64) * layout_.component_count);
    }
    return chunk.kept;
}

// ---------------------------------------------------------------------------------------------------- values of components with diffs
void ChunkRings::release_values(HeldChunk& chunk) {
    for (u32 i = 0; i < diff_count_ * lane_count; ++i) {
        HeldValue& held = chunk.values[i];
        allocator_.free(held.data, held.capacity, 16);
        value_bytes_ -= held.capacity;
        held = {};
    }
}

void ChunkRings::hold_value(HeldChunk& chunk, u32 component, u32 lane, Bytes bytes) {
    HeldValue& held = chunk.values[diff_index_[component] * lane_count + lane];
    if (!held.data || held.capacity < bytes.size()) {
        const u32 capacity = static_cast<u32>(value_bytes_max(bytes.size()));
        allocator_.free(held.data, held.capacity, 16);
        value_bytes_ += capacity - held.capacity;
        held = {static_cast<std::byte*>(allocator_.allocate(capacity, 16)), 0, capacity};
    }
    if (!bytes.empty())
        std::memcpy(held.data, bytes.data(), bytes.size());
    held.bytes = static_cast<u32>(bytes.size());
}

// ---------------------------------------------------------------------------------------------------- references
void ChunkRings::release(u32 component, std::byte* block) {
    if (block && --references(block) == 0)
        pools_[pool_of_[component]].give(block);
}

void ChunkRings::release(OccupantBlock* block) {
    if (block && --references(block) == 0)
        occupant_pool_.give(block);
}

void ChunkRings::release_version(RingVersion& version) {
    release(version.occupants);
    for (u32 c = 0; c < layout_.component_count; ++c)
        release(c, version.blocks[c]);
    version_pool_.give(&version);
}

std::byte* ChunkRings::stage_block(u32 component, const std::byte* block) {
    std::byte* copy = take_block(component);
    std::memcpy(copy, block, layout_.components[component].block_bytes);
    references(copy) = 1;
    return copy;
}

OccupantBlock* ChunkRings::stage_occupants(const OccupantBlock& occupants) {
    auto* copy = ::new (occupant_pool_.take()) OccupantBlock(occupants);
    references(copy) = 1;
    return copy;
}

void ChunkRings::hold_baseline(StagedSection& section, const RingVersion& baseline) {
    section.occupants = baseline.occupants;
    if (section.occupants)
        ++references(section.occupants);
    for (u32 c = 0; c < layout_.component_count; ++c) {
        if (section.owned >> c & 1)
            continue;
        section.blocks[c] = baseline.blocks[c];
        if (section.blocks[c])
            ++references(section.blocks[c]);
    }
}

void ChunkRings::release_staged(StagedSection& section) {
    release(section.occupants);
    section.occupants = nullptr;
    for (u32 c = 0; c < layout_.component_count; ++c) {
        release(c, section.blocks[c]);
        section.blocks[c] = nullptr;
    }
}

// ---------------------------------------------------------------------------------------------------- reading
u64 ChunkRings::newer_lanes(const RingVersion& version, Tick tick) {
    u64 mask = 0;
    for (u32 i = 0; i < lane_count; ++i)
        mask |= u64(tick_newer(version.carried[i], tick)) << i;
    return mask;
}

BaselineView ChunkRings::look_up(const HeldChunk& chunk, Tick baseline) const {
    for (u32 v = chunk.version_count; v-- > 0;)
        if (!tick_newer(chunk.versions[v]->tick, baseline))
            return {chunk.versions[v], occupants(*chunk.versions[v]).alive};
    // Merged downwards: the oldest version still has the right value of a lane that was carried by then.
    const RingVersion& oldest = *chunk.versions[0];
    return {&oldest, occupants(oldest).alive & ~newer_lanes(oldest, baseline)};
}

// ---------------------------------------------------------------------------------------------------- writing
RingVersion& ChunkRings::insert_version(HeldChunk& chunk, u32 at, Tick tick) {
    const RingVersion& before = *chunk.versions[at - 1];
    auto& version = *static_cast<RingVersion*>(version_pool_.take());
    std::memcpy(static_cast<void*>(&version), &before, sizeof(RingVersion) + sizeof(std::byte*) * layout_.component_count);
    version.tick = tick;
    if (version.occupants)
        ++references(version.occupants);
    for (u32 c = 0; c < layout_.component_count; ++c)
        if (version.blocks[c])
            ++references(version.blocks[c]);
    for (u32 v = chunk.version_count; v > at; --v)
        chunk.versions[v] = chunk.versions[v - 1];
    chunk.versions[at] = &version;
    ++chunk.version_count;
    return version;
}

void ChunkRings::write(HeldChunk& chunk, Tick tick, StagedSection& section) {
    u32 start = 0;
    if (!tick_newer(chunk.versions[0]->tick, tick)) {
        start = chunk.version_count - 1;
        while (tick_newer(chunk.versions[start]->tick, tick))
            --start;
        if (chunk.versions[start]->tick != tick) {
            // A message has one tick, so it inserts one version before prune() runs.
            THRONG_ASSERT(chunk.version_count <= versions_max_);
            insert_version(chunk, ++start, tick);
        }
    }
    u64 lanes[ring_versions_limit + 1], gone[ring_versions_limit + 1];
    u64 open = ~u64(0); // lanes that no version so far carried later than `tick`
    for (u32 v = start; v < chunk.version_count; ++v) {
        RingVersion& version = *chunk.versions[v];
        if (v != start || version.tick != tick)
            open &= ~newer_lanes(version, tick);
        lanes[v] = section.lanes & open;
        gone[v] = section.gone & open;
        for (u64 m = lanes[v] | gone[v]; m; m &= m - 1)
            version.carried[std::countr_zero(m)] = tick;
        if (section.full && section.lanes && !tick_newer(version.origin_tick, tick)) {
            version.origin_tick = tick;
            version.spatial = section.spatial;
            version.origin[0] = section.origin[0];
            version.origin[1] = section.origin[1];
        }
    }
    write_occupants(chunk, start, section, lanes, gone);
    for (u32 c = 0; c < layout_.component_count; ++c)
        write_component(chunk, start, c, section, lanes, gone);
}

void ChunkRings::write_occupants(HeldChunk& chunk, u32 start, const StagedSection& section, const u64* lanes, const u64* gone) {
    OccupantBlock *old_before = nullptr, *new_before = nullptr;
    for (u32 v = start; v < chunk.version_count; ++v) {
        OccupantBlock*& slot = chunk.versions[v]->occupants;
        const OccupantBlock& old = slot ? *slot : no_occupants;
        u64 differs = old.alive & gone[v];
        if (slot != section.occupants)
            for (u64 m = lanes[v]; m; m &= m - 1) {
                const u32 lane = static_cast<u32>(std::countr_zero(m));
                differs |= u64(old.net_id[lane] != section.occupants->net_id[lane]) << lane;
            }
        if (!differs)
            continue;
        if (v > start && slot == old_before && lanes[v] == lanes[v - 1] && gone[v] == gone[v - 1]) {
            release(slot);
            slot = new_before;
            ++references(slot);
            continue;
        }
        old_before = slot;
        if (!slot || references(slot) > 1) {
            OccupantBlock* copy = stage_occupants(old);
            release(slot);
            slot = copy;
        }
        slot->alive = (slot->alive & ~gone[v]) | (differs & lanes[v]);
        for (u64 m = differs; m; m &= m - 1) {
            const u32 lane = static_cast<u32>(std::countr_zero(m));
            slot->net_id[lane] = gone[v] >> lane & 1 ? NetId{} : section.occupants->net_id[lane];
        }
        new_before = slot;
    }
}

void ChunkRings::write_component(HeldChunk& chunk, u32 start, u32 component, StagedSection& section, const u64* lanes,
                                 const u64* gone) {
    std::byte* source = section.blocks[component];
    std::byte *old_before = nullptr, *new_before = nullptr;
    for (u32 v = start; v < chunk.version_count; ++v) {
        std::byte*& slot = chunk.versions[v]->blocks[component];
        // Neighbours that shared a block go on sharing it.
        if (v > start && old_before && slot == old_before && lanes[v] == lanes[v - 1] && gone[v] == gone[v - 1]) {
            release(component, slot);
            slot = new_before;
            if (slot)
                ++references(slot);
            continue;
        }
        std::byte* old = slot;
        if (write_block(component, slot, source, (section.owned >> component & 1) != 0, lanes[v], gone[v])) {
            // A block rewritten in place was not shared, so no later version can have it.
            old_before = slot != old ? old : nullptr;
            new_before = slot;
        } else {
            old_before = nullptr;
        }
    }
}

bool ChunkRings::write_block(u32 component, std::byte*& slot, std::byte* source, bool owned, u64 lanes, u64 gone) {
    if (source == slot)
        lanes = 0;
    const u64 held = slot ? occupied(slot) : 0;
    if (lanes == 0 && (gone & held) == 0)
        return false;
    if (((lanes | gone) & held) == 0 && (!source || (occupied(source) & lanes) == 0))
        return false;
    if (owned && references(source) == 1) {
        // The section's own copy becomes the block: the other lanes are taken from the old one.
        const u64 others = ~(lanes | gone);
        if (slot)
            merge(component, source, slot, others, gone);
        else
            merge(component, source, source, 0, ~lanes);
        ++references(source);
        release(component, slot);
        slot = source;
    } else {
        if (!slot || references(slot) > 1) {
            std::byte* copy;
            if (slot) {
                copy = stage_block(component, slot);
                release(component, slot);
            } else {
                copy = take_block(component);
                std::memset(copy, 0, layout_.components[component].block_bytes);
                references(copy) = 1;
            }
            slot = copy;
        }
        if (source)
            merge(component, slot, source, lanes, gone);
        else
            merge(component, slot, slot, 0, lanes | gone);
    }
    if (occupied(slot) == 0) {
        release(component, slot);
        slot = nullptr;
    }
    return true;
}

void ChunkRings::merge(u32 component, std::byte* into, const std::byte* from, u64 take, u64 zero) const {
    if ((take | zero) == 0)
        return;
    BlockHeader& to = header(into);
    const BlockHeader& source = header(from);
    const u64 keep = ~(take | zero);
    to.present = (to.present & keep) | (source.present & take);
    to.counter[0] = (to.counter[0] & keep) | (source.counter[0] & take);
    to.counter[1] = (to.counter[1] & keep) | (source.counter[1] & take);
    const LayoutComponent& info = layout_.components[component];
    const Column* columns = layout_.columns + info.first_column;
    if (std::popcount(take | zero) <= sparse_lanes_max) {
        for (u32 i = 0; i < info.column_count; ++i) {
            const Column& column = columns[i];
            switch (column.element_bytes) {
            case 2: merge_sparse(column_data<i16>(into, column), column_data<i16>(from, column), take, zero); break;
            case 4: merge_sparse(column_data<i32>(into, column), column_data<i32>(from, column), take, zero); break;
            default: merge_sparse(column_data<i64>(into, column), column_data<i64>(from, column), take, zero); break;
            }
        }
        return;
    }
    const LaneBytes take_bytes(take), zero_bytes(zero);
    for (u32 i = 0; i < info.column_count; ++i) {
        const Column& column = columns[i];
        switch (column.element_bytes) {
        case 2: merge_dense(column_data<i16>(into, column), column_data<i16>(from, column), take_bytes, zero_bytes); break;
        case 4: merge_dense(column_data<i32>(into, column), column_data<i32>(from, column), take_bytes, zero_bytes); break;
        default: merge_dense(column_data<i64>(into, column), column_data<i64>(from, column), take_bytes, zero_bytes); break;
        }
    }
}

void ChunkRings::prune(HeldChunk& chunk, Tick keep_since) {
    const Tick needed = tick_newer(chunk.newest_named, keep_since) ? keep_since : chunk.newest_named;
    u32 drop = 0;
    while (chunk.version_count - drop > 1 &&
           (!tick_newer(chunk.versions[drop + 1]->tick, needed) || chunk.version_count - drop > versions_max_))
        release_version(*chunk.versions[drop++]);
    if (drop == 0)
        return;
    chunk.version_count -= drop;
    for (u32 v = 0; v < chunk.version_count; ++v)
        chunk.versions[v] = chunk.versions[v + drop];
}

} // namespace throng
