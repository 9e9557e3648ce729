// Entities that the game has made before the server's of the same SpawnSignature came.
#include "src/client/client_impl.hpp"
#include "throng/spawn_signature.hpp"
#include <bit>

namespace throng {

/// Entities of the game's own for those of the lanes that are not shown yet, into `prespawned`. Returns the lanes that have one. Looks at
/// the pool once, whatever the number of lanes.
u64 Client::Impl::find_prespawned(const HeldChunk& chunk, const StagedSection& section, u64 lanes) {
    const Column& column = layout->columns[layout->signature_column];
    const std::byte* block = section.blocks[column.component];
    const PoolBase& pool = *world.pool_of(layout->components[column.component].info->id);
    if (!block || pool.size() == 0)
        return 0;
    const i64* hashes = column_data<i64>(block, column);
    u64 wanted = 0, some_of[8] = {}; // a bit by the low bits of each hash: most rows have none
    for (u64 m = lanes & header(block).present; m; m &= m - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(m));
        const u64 hash = static_cast<u64>(hashes[lane]);
        const u32 record = live_record(chunk, lane, section.occupants->net_id[lane]);
        if (hash == 0 || (record != no_record && index[record].entity && !lost(index[record])))
            continue;
        wanted |= u64(1) << lane;
        some_of[hash >> 6 & 7] |= u64(1) << (hash & 63);
    }
    if (!wanted)
        return 0;
    u64 matched = 0;
    for (u32 row = 0; row < pool.size(); ++row) {
        const u64 hash = static_cast<const SpawnSignature*>(pool.row(row))->hash;
        if (!(some_of[hash >> 6 & 7] >> (hash & 63) & 1) || replicated(pool.owner(row)))
            continue;
        u64 same = 0;
        for (u64 m = wanted; m; m &= m - 1)
            same |= u64(static_cast<u64>(hashes[std::countr_zero(m)]) == hash) << std::countr_zero(m);
        if (!same)
            continue;
        Entity found = world.entity_at(pool.owner(row)); // rows change places, so it is not the first that counts, but the oldest
        for (u64 m = same; m && found; m &= m - 1) {
            const u32 lane = static_cast<u32>(std::countr_zero(m));
            const Entity before = matched >> lane & 1 ? prespawned[lane] : Entity{};
            if (before && before.entity_id < found.entity_id)
                continue;
            prespawned[lane] = found;
            matched |= u64(1) << lane;
            found = before;
        }
        stats.signature_collisions += bool(found);
    }
    return matched;
}

namespace {
/// Whether the section brings the component, or its type under another name.
bool brings_type(const Layout& layout, const StagedSection& section, u32 lane, u32 component) {
    for (i32 c = static_cast<i32>(component); c >= 0; c = layout.next_of_type[c])
        if (const std::byte* block = section.blocks[c]; block && (header(block).present >> lane & 1))
            return true;
    return false;
}
} // namespace

/// The record has an entity of the game's own. What it has of the server's components is as if it had come before, under the name that
/// comes now: it is written over, and what is immutable becomes another.
void Client::Impl::adopt(u32 record, const StagedSection& section, u32 lane) {
    NetRecord& r = index[record];
    const Entity entity = r.entity;
    Signature<World::max_components> required;
    u32 held = 0;
    for (u32 c = 0; c < layout->component_count; ++c) {
        if (layout->unknown >> c & 1)
            continue;
        const std::byte* block = section.blocks[c];
        const bool coming = block && (header(block).present >> lane & 1);
        if (coming)
            r.counters |= u64(insert_counter(block, lane) ^ (layout->immutable >> c & 1)) << (2 * c);
        if (world.dense_index(entity.entity_idx, layout->components[c].info->id) == no_row)
            continue;
        if (coming || (layout->is_first_of_type(c) && !brings_type(*layout, section, lane, c)))
            held |= 1u << c;
        if (coming && (ruled.requiring >> c & 1))
            required |= rules_of(c).required;
    }
    if (tracks_presence())
        present_of_record[record] = held;
    if (required.any())
        world.exchange_unannounced(entity, {}, required);
    ++stats.adoptions;
}

} // namespace throng
