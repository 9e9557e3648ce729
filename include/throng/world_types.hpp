#pragma once
// What a world is made with, reports, logs, and keeps of an entity. Part of throng/world.hpp.
#include "throng/memory.hpp"
#include "throng/signature.hpp"
#include <bit>
#include <cstddef>
#include <cstring>

namespace throng {

struct WorldOptions {
    /// All memory of the world. Must outlive it.
    Allocator allocator = default_allocator();
    /// Rows per pool block and slots per entity block: a power of two, 64..4096. Small for worlds of few entities.
    u32 block_rows = 4096;
    /// Entities alive at once. At the limit nothing more is made: create, spawn, instantiate and clone give a null Entity, their forms for
    /// many give false and make none at all, commands are dropped and counted; the world goes on.
    u32 entities_max = 0xfffffffe;
    /// Row numbers an entity holds in its own cache line(s): 8 make 64-byte entities, 24 make 128 bytes (for 128 component
    /// types; rounded up to the next power of two of bytes). More components than that work, one cache miss further away.
    u32 inline_indices = 8;
};

/// Bytes a world has taken from its allocator, by use.
struct MemoryReport {
    u64 entities = 0;       ///< slots
    u64 row_lists = 0;      ///< row numbers of entities with more components than inline_indices
    u64 pools = 0;          ///< blocks: rows, owners, change bits; whole blocks, kept until the world ends
    u64 change_readers = 0; ///< their sets, and the logs of removals and destructions
    u64 relations = 0;      ///< links of relations, in pages, kept until the world ends
    u64 hooks = 0;          ///< their functions
    u64 resources = 0;      ///< their values
    u64 log = 0;            ///< the structural log
    u64 scratch = 0;        ///< of destroy_batch, sort and sort_as, and what waits for hooks
    u64 total = 0;          ///< all of the above: what the allocator gave and did not get back
    u64 rows_used = 0;      ///< of `pools`: rows and owners in use
};

/// One change of structure of a component that log_structure switched on.
struct StructureEvent {
    enum class Kind : u8 { added, removed, destroyed };
    u64 entity_id;
    u32 entity_idx;
    ComponentId component; ///< no_component for destroyed
    Kind kind;
};

/// What an entity's slot holds; the inline row numbers follow it in the same arena cell.
template <u32 MaxC>
struct EntityMeta {
    u64 entity_id; // 0: dead
    u32 gen;
    u8 overflow_log2; // 0: inline list, else log2 of the entries of a list from the IndexPool
    u8 dying;         // set while destroy_batch takes the components off
    u16 zero;
    Signature<MaxC> signature;

    /// Whether the generation is this one, the list inline and the entity not dying: one compare.
    bool plain(u32 generation) const {
        u64 word;
        std::memcpy(&word, &gen, sizeof(word));
        static_assert(std::endian::native == std::endian::little &&
                      offsetof(EntityMeta, gen) + sizeof(u64) == offsetof(EntityMeta, signature));
        return word == generation;
    }
    u32 count() const { return signature.count(); }

    u32* inline_list() { return reinterpret_cast<u32*>(this + 1); }
    const u32* inline_list() const { return reinterpret_cast<const u32*>(this + 1); }
    u32* overflow_list() const {
        u32* list;
        std::memcpy(&list, this + 1, sizeof(list));
        return list;
    }
    void set_overflow_list(u32* list) { std::memcpy(static_cast<void*>(this + 1), &list, sizeof(list)); }
    u32* list() { return overflow_log2 != 0 ? overflow_list() : inline_list(); }
    const u32* list() const { return const_cast<EntityMeta*>(this)->list(); }
};

} // namespace throng
