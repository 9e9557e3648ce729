// Putting judged sections into the world and the rings. Only lanes whose live value is replaced touch the world; all carried
// lanes go into the ring, where later deltas may need them.
#include "src/client/client_impl.hpp"
#include <bit>
#include <cstring>

namespace throng {
// ---------------------------------------------------------------------------------------------------- messages
void Client::Impl::commit(Tick tick) {
    for (StagedSection& section : scratch->sections) {
        if (!section.unapplied) {
            if (!section.chunk)
                section.chunk = rings.find(section.number); // an earlier section of this message may have made it
            if (!section.chunk)
                section.chunk = &rings.create(section.number, tick);
            apply_section(section, tick);
            rings.write(*section.chunk, tick, section);
            ++stats.sections;
            if (!any_applied || tick_newer(tick, newest_applied))
                newest_applied = tick;
            any_applied = true;
        }
        if (section.chunk && section.delta && tick_newer(section.baseline, section.chunk->newest_named))
            section.chunk->newest_named = section.baseline;
    }
    finish_message(tick);
    // Not before all sections are written: their baselines are versions too. Markers with history need those of late messages.
    const Tick keep_since = ruled.history ? newest_tick - (ConfirmHistory::window - 1) : newest_tick;
    for (StagedSection& section : scratch->sections)
        if (section.chunk)
            rings.prune(*section.chunk, keep_since);
    index.set_reserved(0);
}

void Client::Impl::finish_message(Tick tick) {
    // By number: callbacks and released records must not disturb the lists.
    for (std::size_t i = 0; i < scratch->vanished.size(); ++i) {
        const u32 record = scratch->vanished[i];
        NetRecord& r = index[record];
        r.vanished = false;
        if (r.chunk || !r.entity)
            continue; // it came back in the same message: a move
        if (!r.ended && lasts(r))
            continue;
        const Entity entity = r.entity;
        if (!r.spawned) {
            ++stats.despawns;
            if (config.on_despawn)
                config.on_despawn(config.context, entity, r.id);
        }
        r.spawned = false;
        r.entity = {};
        r.counters = 0;
        if (record_of_slot[entity.entity_idx] == record) // else the game destroyed it, and the slot is another's
            record_of_slot[entity.entity_idx] = no_record;
        patch_references(record);
        world.announce(); // what followed the entity lets go of it before it ends
        if (ruled.routed)
            deliver_references(record);
        index.drop_links_from(record);
        end_entity(entity, r.id, tick);
        index.release_unused(record);
    }
    scratch->vanished.clear();
    for (std::size_t i = 0; i < scratch->spawned.size(); ++i) {
        NetRecord& r = index[scratch->spawned[i]];
        if (!r.spawned)
            continue; // gone again
        r.spawned = false;
        ++stats.spawns;
        if (ruled.routed && r.awaited)
            deliver_references(scratch->spawned[i]);
        if (config.on_spawn)
            config.on_spawn(config.context, r.entity, r.id);
    }
    scratch->spawned.clear();
    if (!scratch->carried.empty())
        report_carried(tick);
}

/// Resources whose values the entity has end with it.
void Client::Impl::drop_resources(Entity entity) {
    for (u32 left = layout->resources; left && world.alive(entity); left &= left - 1) {
        const ComponentInfo& info = *layout->components[std::countr_zero(left)].info;
        if (world.dense_index(entity.entity_idx, info.id) != no_row)
            drop_resource(info, entity.entity_idx);
    }
}

/// An entity no longer has a resource's value. The one that has followed it may be here already.
void Client::Impl::drop_resource(const ComponentInfo& info, u32 entity_idx) {
    const PoolBase& pool = *world.pool_of(info.id);
    for (u32 row = 0; row < pool.size(); ++row)
        if (pool.owner(row) != entity_idx)
            return info.resource.take(world, pool.row(row));
    info.resource.clear(world);
}

void Client::Impl::end_entity(Entity entity, NetId id, Tick tick) {
    if (layout->resources)
        drop_resources(entity);
    if (rules && rules->despawn)
        rules->despawn({world, entity, id, tick, false, rules->despawn_context});
    else
        world.destroy(entity);
}

/// Whether the entity stays when the client loses sight of it.
bool Client::Impl::lasts(const NetRecord& record) const {
    return layout->lasting_component >= 0 && world.alive(record.entity) &&
           world.dense_index(record.entity.entity_idx, layout->components[layout->lasting_component].info->id) != no_row;
}

namespace {
NetId end_at(Bytes ids, std::size_t at) {
    NetId id;
    std::memcpy(&id.value, ids.data() + at, sizeof id.value); // little-endian hosts only
    return id;
}
} // namespace

/// Ids of a message of ends: ascending, at least one, and room to remember them all.
Error Client::Impl::check_ends(Bytes ids) {
    if (ids.empty() || ids.size() % sizeof(NetId) != 0)
        return Error::truncated;
    u32 unknown = 0;
    NetId before{};
    for (std::size_t at = 0; at < ids.size(); at += sizeof(NetId)) {
        const NetId id = end_at(ids, at);
        if (id.value <= before.value)
            return Error::bad_value;
        before = id;
        unknown += index.find(id) == no_record;
    }
    return index.room(unknown) ? Error::none : Error::limit_reached;
}

/// These are no more, whether they are seen or not. They are buried, so that nothing older brings one back.
void Client::Impl::commit_ends(Bytes ids, Tick tick) {
    for (std::size_t at = 0; at < ids.size(); at += sizeof(NetId)) {
        const NetId id = end_at(ids, at);
        const u32 found = index.find(id), record = found == no_record ? index.obtain(id) : found;
        NetRecord& r = index[record];
        r.chunk = nullptr;
        r.ended = true;
        if (!r.buried || !tick_newer(r.tombstone, tick))
            index.bury(record, tick);
        if (r.entity) {
            r.vanished = true;
            scratch->vanished.push_back(record);
        }
    }
    if (!any_applied || tick_newer(tick, newest_applied))
        newest_applied = tick;
    any_applied = true;
    finish_message(tick);
}

// ---------------------------------------------------------------------------------------------------- sections
void Client::Impl::apply_section(StagedSection& section, Tick tick) {
    HeldChunk& chunk = *section.chunk;
    const u64 open = ChunkRings::open_lanes(chunk, tick);
    const u64 lanes = section.lanes & open, gone = section.gone & open;
    const OccupantBlock& occupants = ChunkRings::occupants(chunk.live());
    for (u64 m = gone & occupants.alive; m; m &= m - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(m));
        clear_lane(chunk, lane, occupants.net_id[lane], tick);
    }
    if (section.occupants != &occupants)
        for (u64 m = lanes & occupants.alive; m; m &= m - 1) {
            const u32 lane = static_cast<u32>(std::countr_zero(m));
            if (occupants.net_id[lane] != section.occupants->net_id[lane])
                clear_lane(chunk, lane, occupants.net_id[lane], tick);
        }
    stats.gone_lanes += static_cast<u64>(std::popcount(gone));
    stats.lanes += static_cast<u64>(std::popcount(lanes));
    stats.old_lanes += static_cast<u64>(std::popcount(section.lanes & ~open));
    Shown shown;
    u64 was_kept[Protocol::component_count_max];
    if (lanes)
        shown = place_occupants(chunk, section, lanes, tick);
    if (lanes && section.full && (section.kept_count || chunk.kept)) [[unlikely]]
        note_kept(chunk, section, lanes, shown, was_kept);
    if (config.confirm_history || config.on_carried)
        note_carried(chunk, section, open, tick);
    if (ruled.history)
        deliver_older(chunk, section, section.lanes & ~(shown.same | shown.fresh), tick);
    if (!lanes)
        return;
    if ((shown.same | shown.fresh) != 0 || section.opaque_count > 0)
        apply_components(chunk, section, open, shown, tick);
    world.announce(); // now that all values are there
}

/// What a full section says of components that are kept holds for its lanes until the next one.
void Client::Impl::note_kept(HeldChunk& chunk, const StagedSection& section, u64 lanes, Shown& shown, u64* was_kept) {
    u64* const kept = rings.kept(chunk);
    for (u32 c = 0; c < layout->component_count; ++c) {
        was_kept[c] = kept[c] & shown.same;
        kept[c] &= ~lanes;
    }
    for (u32 i = section.first_kept; i < section.first_kept + section.kept_count; ++i)
        kept[scratch->kept[i].component] |= scratch->kept[i].lanes & lanes;
    shown.was_kept = was_kept;
}

/// R3: the lane no longer holds `occupant`. If it was the entity's place, the entity is gone until a newer place is heard of.
void Client::Impl::clear_lane(HeldChunk& chunk, u32 lane, NetId occupant, Tick tick) {
    const u32 record = live_record(chunk, lane, occupant);
    if (record == no_record || index[record].chunk != &chunk || index[record].lane != lane)
        return;
    NetRecord& r = index[record];
    r.chunk = nullptr;
    r.tick = chunk.live().carried[lane];
    index.bury(record, tick);
    if (!r.vanished) {
        r.vanished = true;
        scratch->vanished.push_back(record);
    }
}

u32 Client::Impl::live_record(const HeldChunk& chunk, u32 lane, NetId occupant) const {
    const u32 hint = chunk.record[lane];
    if (hint < index.capacity() && index[hint].id == occupant)
        return hint;
    return index.find(occupant);
}

/// R3: the newest tick wins. Moves entities to this chunk's lanes, and makes those that are not shown yet.
Client::Impl::Shown Client::Impl::place_occupants(HeldChunk& chunk, const StagedSection& section, u64 lanes, Tick tick) {
    Shown shown;
    u64 dead = 0;
    const u64 matched = layout->signature_column >= 0 ? find_prespawned(chunk, section, lanes) : 0;
    for (u64 m = lanes; m; m &= m - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(m));
        const NetId id = section.occupants->net_id[lane];
        u32 record = live_record(chunk, lane, id);
        if (record == no_record)
            record = index.obtain(id);
        chunk.record[lane] = record;
        NetRecord& r = index[record];
        if (r.chunk == &chunk && r.lane == lane) {
            r.tick = tick;
            shown.same |= u64(1) << lane;
        } else if (!r.chunk || !tick_newer(r.tick, tick)) {
            if (lost(r)) [[unlikely]] {
                if (record_of_slot[r.entity.entity_idx] == record)
                    record_of_slot[r.entity.entity_idx] = no_record;
                r.entity = {};
            }
            const bool seen_again = r.entity && !r.chunk && !r.vanished;
            r.chunk = &chunk;
            r.lane = static_cast<u8>(lane);
            r.tick = tick;
            if (!r.entity) {
                const bool made = matched >> lane & 1;
                spawn(record, tick, made ? prespawned[lane] : world.create());
                if (made) {
                    adopt(record, section, lane);
                    shown.adopted |= u64(1) << lane;
                }
            } else if (seen_again && config.confirm_history) {
                histories[record].restart(tick);
            }
            shown.fresh |= u64(1) << lane;
        } else {
            continue;
        }
        const Entity entity = index[record].entity;
        slot_of_lane[lane] = entity.entity_idx;
        // One that the game has destroyed is left alone until the server takes it away too.
        if (!world.alive(entity)) [[unlikely]]
            dead |= u64(1) << lane;
    }
    shown.same &= ~dead;
    shown.fresh &= ~dead;
    return shown;
}

/// Shows the record as `entity`.
void Client::Impl::spawn(u32 record, Tick tick, Entity entity) {
    if (!entity) [[unlikely]]
        return; // the world's entities_max: not shown
    ++stats.mappings;
    index[record].entity = entity;
    index[record].spawned = true;
    index[record].counters = 0;
    index[record].awaited = index[record].links_to != no_link;
    if (record_of_slot.size() <= entity.entity_idx) {
        record_of_slot.reserve_extra(entity.entity_idx + 1 - record_of_slot.size());
        record_of_slot.resize(entity.entity_idx + 1, no_record);
    }
    record_of_slot[entity.entity_idx] = record;
    scratch->spawned.push_back(record);
    if (config.confirm_history)
        start_history(record, tick);
    if (tracks_presence())
        forget_components(record);
    patch_references(record);
}

} // namespace throng
