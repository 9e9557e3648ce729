// Putting judged sections into the world and the rings. Only lanes whose live value is replaced touch the world; all carried
// lanes go into the ring, where later deltas may need them.
#include "src/client/client_impl.hpp"
#include "src/registry/field_io.hpp"
#include <bit>
#include <cstring>

namespace throng {
namespace {

template <class T>
void mark_differing(u8 (&differs)[lane_count], const T* a, const T* b) {
    for (u32 i = 0; i < lane_count; ++i)
        differs[i] |= static_cast<u8>(a[i] != b[i]);
}

/// Lanes in which any column of the two blocks differs.
u64 differing_lanes(const Layout& layout, u32 component, const std::byte* a, const std::byte* b) {
    u8 differs[lane_count] = {};
    const LayoutComponent& info = layout.components[component];
    for (u32 i = 0; i < info.column_count; ++i) {
        const Column& column = layout.columns[info.first_column + i];
        if (column.unknown)
            continue;
        switch (column.element_bytes) {
        case 2: mark_differing(differs, column_data<i16>(a, column), column_data<i16>(b, column)); break;
        case 4: mark_differing(differs, column_data<i32>(a, column), column_data<i32>(b, column)); break;
        default: mark_differing(differs, column_data<i64>(a, column), column_data<i64>(b, column)); break;
        }
    }
    u64 mask = 0;
    for (u32 group = 0; group < lane_count / 8; ++group) {
        u64 bytes = 0; // 0 or 1 in each byte; the product gathers them in the top byte
        for (u32 i = 0; i < 8; ++i)
            bytes |= u64(differs[group * 8 + i]) << (8 * i);
        mask |= (bytes * 0x0102040810204080ull) >> 56 << (8 * group);
    }
    return mask;
}

template <class T>
void gather(const T* column, const u8* lanes, u32 count, i64 offset, i64* out) {
    if (count == lane_count) { // the common case in a crowd, and it vectorises
        for (u32 i = 0; i < lane_count; ++i)
            out[i] = column[i] + offset;
        return;
    }
    for (u32 i = 0; i < count; ++i)
        out[i] = column[lanes[i]] + offset;
}

/// 64 rows of a pool, those that share a word of change bits. The rows of a chunk's entities tend to lie together, so that most
/// lanes find theirs without a look at the pool.
class RowWindow {
public:
    explicit RowWindow(PoolBase& pool) : pool_(pool), stride_(pool.row_stride()) {}
    u32 owner(u32 dense) {
        move_to(dense);
        return owners_[dense & 63];
    }
    /// Marks the row changed (at the next flush) and returns its address.
    std::byte* mark(u32 dense) {
        move_to(dense);
        bits_ |= u64(1) << (dense & 63);
        return rows_ + std::size_t(dense & 63) * stride_;
    }
    void flush() {
        if (!bits_)
            return;
        const u32 first = word_ << 6, block = first / pool_.block_rows(), word = (first & (pool_.block_rows() - 1)) >> 6;
        pool_.mark_word(block, word, bits_);
        bits_ = 0;
    }

private:
    void move_to(u32 dense) {
        if (dense >> 6 == word_)
            return;
        flush();
        word_ = dense >> 6;
        const u32 first = word_ << 6;
        rows_ = static_cast<std::byte*>(pool_.row(first));
        owners_ = pool_.owners(first / pool_.block_rows()) + (first & (pool_.block_rows() - 1));
    }
    PoolBase& pool_;
    u32 stride_;
    u32 word_ = no_row;
    u64 bits_ = 0;
    std::byte* rows_ = nullptr;
    const u32* owners_ = nullptr;
};

u32 counter_of(const std::byte* block, u32 lane) {
    const BlockHeader& h = header(block);
    return static_cast<u32>((h.counter[0] >> lane & 1) | (h.counter[1] >> lane & 1) << 1);
}

} // namespace

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
    // Not before all sections are written: their baselines are versions too.
    for (StagedSection& section : scratch->sections)
        if (section.chunk)
            rings.prune(*section.chunk);
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
        index.drop_links_from(record);
        world.destroy(entity);
        index.release_unused(record);
    }
    scratch->vanished.clear();
    for (std::size_t i = 0; i < scratch->spawned.size(); ++i) {
        NetRecord& r = index[scratch->spawned[i]];
        if (!r.spawned)
            continue; // gone again
        r.spawned = false;
        ++stats.spawns;
        if (config.on_spawn)
            config.on_spawn(config.context, r.entity, r.id);
    }
    scratch->spawned.clear();
    if (!scratch->carried.empty())
        report_carried(tick);
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
    if (lanes)
        shown = place_occupants(chunk, section, lanes, tick);
    if (config.confirm_history || config.on_carried)
        note_carried(chunk, section, open, tick);
    if (!lanes)
        return;
    if (shown.same | shown.fresh)
        for (u32 c = 0; c < layout->component_count; ++c)
            if (!(layout->unknown >> c & 1))
                apply_component(chunk, section, c, shown);
    if (section.opaque_count > 0)
        apply_opaque(chunk, section, open, shown.same | shown.fresh);
    world.announce(); // now that all values are there
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
            const bool seen_again = r.entity && !r.chunk && !r.vanished;
            r.chunk = &chunk;
            r.lane = static_cast<u8>(lane);
            r.tick = tick;
            if (!r.entity)
                spawn(record, tick);
            else if (seen_again && config.confirm_history)
                histories[record].restart(tick);
            shown.fresh |= u64(1) << lane;
        } else {
            continue;
        }
        const Entity entity = index[record].entity;
        slot_of_lane[lane] = entity.entity_idx;
        // The game must not destroy replicated entities. One that it did is left alone until the server takes it away too.
        if (!world.alive(entity)) [[unlikely]]
            dead |= u64(1) << lane;
    }
    shown.same &= ~dead;
    shown.fresh &= ~dead;
    return shown;
}

void Client::Impl::spawn(u32 record, Tick tick) {
    const Entity entity = world.create();
    if (!entity) [[unlikely]]
        return; // the world's entities_max: not shown
    ++stats.mappings;
    index[record].entity = entity;
    index[record].spawned = true;
    index[record].counters = 0;
    if (record_of_slot.size() <= entity.entity_idx) {
        record_of_slot.reserve_extra(entity.entity_idx + 1 - record_of_slot.size());
        record_of_slot.resize(entity.entity_idx + 1, no_record);
    }
    record_of_slot[entity.entity_idx] = record;
    scratch->spawned.push_back(record);
    if (config.confirm_history)
        start_history(record, tick);
    patch_references(record);
}

// ---------------------------------------------------------------------------------------------------- components
void Client::Impl::apply_component(HeldChunk& chunk, const StagedSection& section, u32 component, Shown& shown) {
    const std::byte* now = section.blocks[component];
    const std::byte* old = chunk.live().blocks[component];
    const ComponentId id = layout->components[component].info->id;
    const u64 present = now ? header(now).present : 0;
    u64 remove = 0, insert = 0, write = 0;
    if (now != old && shown.same) {
        const u64 before = old ? header(old).present : 0;
        const u64 both = shown.same & present & before;
        insert = shown.same & present & ~before;
        remove = shown.same & ~present & before;
        if (both) {
            // R2: removed and inserted within one tick.
            const BlockHeader &a = header(now), &b = header(old);
            const u64 again = both & ((a.counter[0] ^ b.counter[0]) | (a.counter[1] ^ b.counter[1]));
            insert |= again;
            remove |= again;
            if (both & ~again)
                write = both & ~again & differing_lanes(*layout, component, now, old);
        }
    }
    for (u64 m = shown.fresh; m; m &= m - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(m));
        const NetRecord& r = index[chunk.record[lane]];
        const bool has = world.dense_index(r.entity.entity_idx, id) != no_row;
        const bool wanted = present >> lane & 1;
        const bool again = has && wanted && counter_of(now, lane) != (r.counters >> (2 * component) & 3);
        remove |= u64(has && (!wanted || again)) << lane;
        insert |= u64(wanted && (!has || again)) << lane;
    }
    write |= insert | (shown.fresh & present);
    for (u64 m = remove; m; m &= m - 1)
        remove_component(chunk.record[std::countr_zero(m)], component);
    if (remove && world.hooked(id)) { // hooks of the removals may have ended entities, and their slots may be others' by now
        u64 dead = 0;
        for (u64 m = shown.same | shown.fresh; m; m &= m - 1)
            dead |= u64(!world.alive(index[chunk.record[std::countr_zero(m)]].entity)) << std::countr_zero(m);
        shown.same &= ~dead;
        shown.fresh &= ~dead;
        insert &= ~dead;
        write &= ~dead;
    }
    for (u64 m = insert; m; m &= m - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(m));
        insert_component(chunk.record[lane], component, counter_of(now, lane));
    }
    if (!layout->components[component].opaque)
        count_writes(component, static_cast<u32>(std::popcount(write)));
    if (write && layout->components[component].column_count > 0)
        write_rows(chunk, section, component, write);
    if (world.hooked(id))
        for (u64 m = write & ~insert; m; m &= m - 1)
            world.changed_unannounced(index[chunk.record[std::countr_zero(m)]].entity, id);
}

void Client::Impl::insert_component(u32 record, u32 component, u32 counter) {
    NetRecord& r = index[record];
    world.add_unannounced(r.entity, layout->components[component].info->id);
    r.counters = (r.counters & ~(u64(3) << (2 * component))) | u64(counter) << (2 * component);
    ++stats.component_inserts;
    ++component_counts[component].inserts;
}

void Client::Impl::remove_component(u32 record, u32 component) {
    const LayoutComponent& info = layout->components[component];
    if (info.references)
        index.drop_links_from(record, info.first_column, info.column_count);
    world.remove_erased(index[record].entity, info.info->id);
    ++stats.component_removes;
    ++component_counts[component].removes;
}

void Client::Impl::write_rows(HeldChunk& chunk, const StagedSection& section, u32 component, u64 lanes) {
    const LayoutComponent& info = layout->components[component];
    PoolBase& pool = *world.pool_of(info.info->id);
    const std::byte* block = section.blocks[component];
    u32* row_hints = chunk.row + component * lane_count;
    u8 lane_of[lane_count];
    std::byte* rows[lane_count];
    u32 count = 0;
    RowWindow window(pool);
    for (u64 m = lanes; m; m &= m - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(m));
        u32& dense = row_hints[lane];
        if (dense >= pool.size() || window.owner(dense) != slot_of_lane[lane]) {
            dense = world.dense_index(slot_of_lane[lane], info.info->id);
            if (dense == no_row)
                continue; // the game removed it
        }
        rows[count] = window.mark(dense);
        lane_of[count++] = static_cast<u8>(lane);
    }
    window.flush();
    i64 values[lane_count];
    for (u32 i = info.first_column; i < info.first_column + info.column_count; ++i) {
        const Column& column = layout->columns[i];
        if (column.unknown)
            continue;
        const FieldInfo& field = info.info->fields[column.field];
        const i64 offset = column.spatial_axis >= 0 && section.spatial ? section.origin[column.spatial_axis] : 0;
        switch (column.element_bytes) {
        case 2: gather(column_data<i16>(block, column), lane_of, count, offset, values); break;
        case 4: gather(column_data<i32>(block, column), lane_of, count, offset, values); break;
        default: gather(column_data<i64>(block, column), lane_of, count, offset, values); break;
        }
        if (field.kind == FieldKind::reference)
            write_references(chunk, lane_of, rows, count, i, values);
        else
            write_field(field, column, rows, count, values);
    }
}

/// R11: a reference reads as null until its target is shown.
void Client::Impl::write_references(HeldChunk& chunk, const u8* lanes, std::byte* const* rows, u32 count, u32 column, const i64* values) {
    const u32 offset = layout->components[layout->columns[column].component].info->fields[layout->columns[column].field].offset_bytes;
    for (u32 i = 0; i < count; ++i) {
        bool dropped = false;
        const u32 target = index.set_link(chunk.record[lanes[i]], column, NetId{static_cast<u64>(values[i])}, dropped);
        stats.references_dropped += dropped;
        const Entity entity = target != no_record && !dropped ? index[target].entity : Entity{};
        std::memcpy(rows[i] + offset, &entity, sizeof entity);
    }
}

/// Rewrites the fields that name `target`, after its entity appeared or vanished.
void Client::Impl::patch_references(u32 target) {
    const Entity entity = index[target].entity;
    for (u32 l = index[target].links_to; l != no_link; l = index.link(l).next_to) {
        const RefLink& link = index.link(l);
        const Column& column = layout->columns[link.column];
        const ComponentInfo& info = *layout->components[column.component].info;
        const Entity holder = index[link.holder].entity;
        const u32 dense = world.alive(holder) ? world.dense_index(holder.entity_idx, info.id) : no_row;
        if (dense == no_row)
            continue;
        PoolBase& pool = *world.pool_of(info.id);
        std::memcpy(static_cast<std::byte*>(pool.row(dense)) + info.fields[column.field].offset_bytes, &entity, sizeof entity);
        pool.mark_changed(dense);
        world.changed_unannounced(holder, info.id);
    }
}

/// R15: the newest bytes of a lane win. `open`: lanes whose live value this section replaces.
void Client::Impl::apply_opaque(HeldChunk& chunk, const StagedSection& section, u64 open, u64 shown) {
    for (u32 i = section.first_opaque; i < section.first_opaque + section.opaque_count; ++i) {
        const StagedOpaque& value = scratch->opaque[i];
        if (!(open >> value.lane & 1))
            continue;
        chunk.opaque_hash[rings.opaque_index(value.component) * lane_count + value.lane] = value.hash;
        if (!(shown >> value.lane & 1) || (layout->unknown >> value.component & 1))
            continue;
        const ComponentInfo& info = *layout->components[value.component].info;
        const u32 dense = world.dense_index(index[chunk.record[value.lane]].entity.entity_idx, info.id);
        if (dense == no_row)
            continue;
        PoolBase& pool = *world.pool_of(info.id);
        // It has read these bytes before (stage_opaque), so it does now.
        if (info.deserialize(pool.row(dense), scratch->bytes_of(value)) != Error::none)
            ++stats.unapplied_opaque;
        count_writes(value.component, 1);
        component_counts[value.component].opaque_bytes += value.count;
        pool.mark_changed(dense);
        world.changed_unannounced(index[chunk.record[value.lane]].entity, info.id);
    }
}

} // namespace throng
