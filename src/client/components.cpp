// Received components in the world: which come, change and go, and what is written. Rules of the game's own are in receive.cpp.
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

} // namespace

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
        u64 bytes; // 0 or 1 in each byte; the product gathers them in the top byte
        std::memcpy(&bytes, differs + group * 8, 8); // little-endian hosts only
        mask |= (bytes * 0x0102040810204080ull) >> 56 << (8 * group);
    }
    return mask;
}

namespace {
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
    /// The row's address; marks it changed (at the next flush) if told so.
    template <bool Mark>
    std::byte* row(u32 dense) {
        move_to(dense);
        bits_ |= u64(Mark) << (dense & 63);
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

} // namespace

// ---------------------------------------------------------------------------------------------------- structure
/// What the section says of one component, for the lanes shown.
[[gnu::always_inline]] inline Client::Impl::ComponentChange Client::Impl::find_change(const HeldChunk& chunk, const StagedSection& section,
                                                                                      u32 component, const Shown& shown) const {
    ComponentChange change{};
    const std::byte* now = section.blocks[component];
    const std::byte* old = chunk.live().blocks[component];
    const u64 present = now ? header(now).present : 0;
    const u64 was_kept = shown.was_kept ? shown.was_kept[component] : 0, same = shown.same & ~was_kept;
    if (now != old && same) {
        const u64 before = old ? header(old).present : 0;
        const u64 both = same & present & before;
        change.insert = same & present & ~before;
        change.remove = same & ~present & before;
        if (both) {
            // R2: removed and inserted within one tick.
            const BlockHeader &a = header(now), &b = header(old);
            const u64 again = both & ((a.counter[0] ^ b.counter[0]) | (a.counter[1] ^ b.counter[1]));
            change.insert |= again;
            change.remove |= again;
            if (both & ~again)
                change.write = both & ~again & differing_lanes(*layout, component, now, old);
        }
    }
    // Only the world knows what these have.
    for (u64 m = shown.fresh | was_kept; m; m &= m - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(m));
        const NetRecord& r = index[chunk.record[lane]];
        const bool has = tracks_presence() ? present_of_record[chunk.record[lane]] >> component & 1
                                           : world.dense_index(r.entity.entity_idx, layout->components[component].info->id) != no_row;
        const bool wanted = present >> lane & 1;
        const bool again = has && wanted && insert_counter(now, lane) != (r.counters >> (2 * component) & 3);
        change.remove |= u64(has && (!wanted || again)) << lane;
        change.insert |= u64(wanted && (!has || again)) << lane;
    }
    if (chunk.kept) [[unlikely]]
        change.remove &= ~chunk.kept[component] | present | shown.adopted; // what the game made is not the server's to keep
    change.write |= change.insert | ((shown.fresh | was_kept) & present);
    change.inserted = change.insert;
    return change;
}

void Client::Impl::apply_components(HeldChunk& chunk, const StagedSection& section, u64 open, Shown& shown, Tick tick) {
    ComponentChange changes[Protocol::component_count_max];
    u64 moved = 0;
    for (u32 c = 0; c < layout->component_count; ++c) {
        if (layout->unknown >> c & 1) {
            changes[c] = {};
            continue;
        }
        changes[c] = find_change(chunk, section, c, shown);
        moved |= changes[c].remove | changes[c].insert;
        if (!layout->components[c].opaque)
            count_writes(c, static_cast<u32>(std::popcount(changes[c].write)));
    }
    if (moved) {
        note_structure(chunk, section, changes);
        if (layout->several)
            join_types(changes);
    }
    if (layout->immutable)
        moved |= replace_immutable(chunk, section, open, changes, shown);
    if (ruled.routed) {
        route_removals(chunk, changes, shown, tick);
        route_values(chunk, section, changes, shown);
        moved = ~u64(0); // may be more than before
    }
    if (moved)
        restructure(chunk, changes, moved, shown);
    for (u32 c = 0; c < layout->component_count; ++c) {
        u64 write = changes[c].write & (shown.same | shown.fresh);
        if (!write)
            continue;
        if (layout->components[c].column_count > 0) {
            if (layout->components[c].converted) [[unlikely]] {
                if (ruled.compared >> c & 1)
                    write = write_different_converted(chunk, section, c, write, changes[c].insert);
                else
                    write_converted_rows(chunk, section, c, write);
            } else if (ruled.compared >> c & 1) [[unlikely]]
                write = write_different_rows(chunk, section, c, write, changes[c].insert);
            else
                write_rows(chunk, section, c, write);
        }
        if (const ComponentId id = layout->components[c].info->id; world.hooked(id))
            for (u64 m = write & ~changes[c].insert; m; m &= m - 1)
                world.changed_unannounced(index[chunk.record[std::countr_zero(m)]].entity, id);
    }
    if (!routed_writes.empty())
        write_routed(chunk, section, tick);
    if (section.opaque_count > 0)
        apply_opaque(chunk, section, open, changes, shown, tick);
    if (layout->resources)
        take_resources(chunk, changes, shown);
}

/// New values of resources go to the world's. Opaque ones have gone there with their bytes.
void Client::Impl::take_resources(const HeldChunk& chunk, const ComponentChange* changes, const Shown& shown) {
    for (u32 left = layout->resources; left; left &= left - 1) {
        const u32 c = static_cast<u32>(std::countr_zero(left));
        const ComponentInfo& info = *layout->components[c].info;
        const u64 lanes = shown.same | shown.fresh;
        for (u64 m = changes[c].remove & ~changes[c].insert & lanes; m; m &= m - 1)
            drop_resource(info, index[chunk.record[std::countr_zero(m)]].entity.entity_idx);
        for (u64 m = layout->components[c].opaque ? 0 : changes[c].write & lanes; m; m &= m - 1) {
            const u32 dense = world.dense_index(index[chunk.record[std::countr_zero(m)]].entity.entity_idx, info.id);
            if (dense != no_row)
                info.resource.take(world, world.pool_of(info.id)->row(dense));
        }
    }
}

/// What the records remember of insertions and removals.
void Client::Impl::note_structure(HeldChunk& chunk, const StagedSection& section, const ComponentChange* changes) {
    for (u32 c = 0; c < layout->component_count; ++c) {
        const LayoutComponent& info = layout->components[c];
        const u32 removes = static_cast<u32>(std::popcount(changes[c].remove));
        const u32 inserts = static_cast<u32>(std::popcount(changes[c].insert));
        stats.component_removes += removes;
        stats.component_inserts += inserts;
        component_counts[c].removes += removes;
        component_counts[c].inserts += inserts;
        for (u64 m = changes[c].remove; m; m &= m - 1) {
            const u32 record = chunk.record[std::countr_zero(m)];
            if (info.references)
                index.drop_links_from(record, info.first_column, info.column_count);
            if (tracks_presence())
                present_of_record[record] &= ~(1u << c);
        }
        for (u64 m = changes[c].insert; m; m &= m - 1) {
            const u32 lane = static_cast<u32>(std::countr_zero(m)), record = chunk.record[lane];
            u64& counters = index[record].counters;
            counters = (counters & ~(u64(3) << (2 * c))) | u64(insert_counter(section.blocks[c], lane)) << (2 * c);
            if (tracks_presence())
                present_of_record[record] |= 1u << c;
        }
    }
}

/// A component that now travels under another name of its type is the same component for the world, with a new value.
void Client::Impl::join_types(ComponentChange* changes) const {
    for (u32 left = layout->several; left; left &= left - 1) {
        const u32 first = static_cast<u32>(std::countr_zero(left));
        if (!layout->is_first_of_type(first))
            continue;
        for (i32 from = static_cast<i32>(first); from >= 0; from = layout->next_of_type[from])
            for (i32 to = static_cast<i32>(first); to >= 0; to = layout->next_of_type[to]) {
                if (from == to)
                    continue;
                const u64 renamed = changes[from].remove & changes[to].insert;
                changes[from].remove &= ~renamed;
                changes[to].insert &= ~renamed;
            }
    }
}

/// New values of immutable components are new components. Returns the lanes that have some. What an entity brings along to another lane is
/// its old value.
u64 Client::Impl::replace_immutable(const HeldChunk& chunk, const StagedSection& section, u64 open, ComponentChange* changes,
                                    const Shown& shown) const {
    u64 any = 0;
    const auto replace = [&](u32 component, u64 lanes) {
        changes[component].remove |= lanes;
        changes[component].insert |= lanes;
        any |= lanes;
    };
    for (u32 left = layout->immutable; left; left &= left - 1) {
        const u32 c = static_cast<u32>(std::countr_zero(left));
        replace(c, changes[c].write & ~changes[c].insert & (shown.same | changes[c].inserted));
    }
    for (u32 i = section.first_opaque; i < section.first_opaque + section.opaque_count; ++i) {
        const StagedOpaque& value = scratch->opaque[i];
        const u64 lane = u64(1) << value.lane & open & shown.same;
        if ((layout->immutable >> value.component & 1) && (lane & ~changes[value.component].insert) &&
            chunk.opaque_hash[rings.opaque_index(value.component) * lane_count + value.lane] != value.hash)
            replace(value.component, lane);
    }
    return any;
}

/// Each entity's removals and insertions in one go.
void Client::Impl::restructure(const HeldChunk& chunk, const ComponentChange* changes, u64 lanes, Shown& shown) {
    u32 last_remove = 0, last_insert = 0;
    Signature<World::max_components> removed, added;
    for (u64 m = lanes & (shown.same | shown.fresh); m; m &= m - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(m));
        u32 remove = 0, insert = 0;
        for (u32 c = 0; c < layout->component_count; ++c) {
            remove |= static_cast<u32>(changes[c].remove >> lane & 1) << c;
            insert |= static_cast<u32>(changes[c].insert >> lane & 1) << c;
        }
        if (remove != last_remove || insert != last_insert) { // neighbours tend to be alike
            removed = signature_of(remove);
            added = signature_of(insert);
            last_remove = remove;
            last_insert = insert;
        }
        if (!(remove | insert))
            continue;
        const u32 record = chunk.record[lane];
        stats.structural_moves += (ruled.requiring & (remove | insert))
                                      ? exchange_with_required(record, remove, insert)
                                      : world.exchange_unannounced(index[record].entity, removed, added);
    }
    bool hooked = false;
    for (u32 c = 0; c < layout->component_count; ++c)
        hooked |= changes[c].remove && world.hooked(layout->components[c].info->id);
    if (hooked) // hooks may have ended entities, and their slots may be others' by now
        drop_dead(chunk, shown);
}

Signature<World::max_components> Client::Impl::signature_of(u32 components) const {
    Signature<World::max_components> signature;
    for (u32 m = components; m; m &= m - 1)
        signature.set(layout->components[std::countr_zero(m)].info->id);
    return signature;
}

void Client::Impl::drop_dead(const HeldChunk& chunk, Shown& shown) const {
    u64 dead = 0;
    for (u64 m = shown.same | shown.fresh; m; m &= m - 1)
        dead |= u64(!world.alive(index[chunk.record[std::countr_zero(m)]].entity)) << std::countr_zero(m);
    shown.same &= ~dead;
    shown.fresh &= ~dead;
}

// ---------------------------------------------------------------------------------------------------- values
/// Rows of the lanes' entities that have the component; returns how many. Marks them changed if told so.
template <bool Mark>
[[gnu::always_inline]] inline u32 Client::Impl::find_rows(HeldChunk& chunk, u32 component, u64 lanes, u8* lane_of, std::byte** rows) {
    const LayoutComponent& info = layout->components[component];
    PoolBase& pool = *world.pool_of(info.info->id);
    u32* row_hints = chunk.row + component * lane_count;
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
        rows[count] = window.template row<Mark>(dense);
        lane_of[count++] = static_cast<u8>(lane);
    }
    window.flush();
    return count;
}

/// Writes columns of a block into rows, or into objects. `link`: they are the newest values of their lanes (R11).
[[gnu::always_inline]] inline void Client::Impl::copy_columns(const HeldChunk& chunk, const std::byte* block, const i64 (&origin)[2],
                                                              u32 first, u32 count, const ComponentRows& out, bool link) {
    i64 values[lane_count];
    const FieldInfo* const fields = count > 0 ? layout->components[layout->columns[first].component].info->fields : nullptr;
    for (u32 i = first; i < first + count; ++i) {
        const Column& column = layout->columns[i];
        if (column.unknown)
            continue;
        const FieldInfo& field = fields[column.field];
        const i64 offset = column.spatial_axis >= 0 ? origin[column.spatial_axis] : 0;
        switch (column.element_bytes) {
        case 2: gather(column_data<i16>(block, column), out.lanes, out.count, offset, values); break;
        case 4: gather(column_data<i32>(block, column), out.lanes, out.count, offset, values); break;
        default: gather(column_data<i64>(block, column), out.lanes, out.count, offset, values); break;
        }
        if (field.kind == FieldKind::reference)
            write_references(chunk, out, i, values, link);
        else
            write_field(field, column, out.rows, out.count, values);
    }
}

void Client::Impl::write_rows(HeldChunk& chunk, const StagedSection& section, u32 component, u64 lanes) {
    const LayoutComponent& info = layout->components[component];
    u8 lane_of[lane_count];
    std::byte* rows[lane_count];
    const u32 count = find_rows<true>(chunk, component, lanes, lane_of, rows);
    const i64 origin[2] = {section.spatial ? section.origin[0] : 0, section.spatial ? section.origin[1] : 0};
    copy_columns(chunk, section.blocks[component], origin, info.first_column, info.column_count, {lane_of, rows, count}, true);
}

/// The same for components that travel as another type.
void Client::Impl::write_converted_rows(HeldChunk& chunk, const StagedSection& section, u32 component, u64 lanes) {
    u8 lane_of[lane_count];
    std::byte *rows[lane_count], *objects[lane_count];
    const u32 count = find_rows<true>(chunk, component, lanes, lane_of, rows);
    const i64 origin[2] = {section.spatial ? section.origin[0] : 0, section.spatial ? section.origin[1] : 0};
    read_objects(component, chunk, section.blocks[component], origin, {lane_of, rows, count}, objects, true);
    const WireForm& form = layout->components[component].info->form;
    for (u32 i = 0; i < count; ++i)
        form.read(form.from_wire, objects[i], rows[i]);
}

/// What a block has for the lanes of `out`, as objects of the type that travels.
void Client::Impl::read_objects(u32 component, const HeldChunk& chunk, const std::byte* block, const i64 (&origin)[2],
                                const ComponentRows& out, std::byte** objects, bool link) {
    const LayoutComponent& info = layout->components[component];
    scratch->wire_objects.make(info.info->form, out.count, objects);
    write_columns(chunk, block, origin, info.first_column, info.column_count, {out.lanes, objects, out.count}, link);
}

/// What a component without fields in its rows needs: ==, which the rules have.
u64 Client::Impl::write_different_converted(HeldChunk& chunk, const StagedSection& section, u32 component, u64 lanes, u64 inserted) {
    const ComponentInfo& info = *layout->components[component].info;
    PoolBase& pool = *world.pool_of(info.id);
    const ComponentOps& ops = pool.ops();
    u8 lane_of[lane_count];
    std::byte *rows[lane_count], *objects[lane_count];
    const u32 count = find_rows<false>(chunk, component, lanes, lane_of, rows);
    const i64 origin[2] = {section.spatial ? section.origin[0] : 0, section.spatial ? section.origin[1] : 0};
    read_objects(component, chunk, section.blocks[component], origin, {lane_of, rows, count}, objects, true);
    u64 differs = 0;
    for (u32 i = 0; i < count; ++i) {
        ops.construct(scratch->object);
        info.form.read(info.form.from_wire, objects[i], scratch->object);
        const bool same = !(inserted >> lane_of[i] & 1) && rules_of(component).equal(rows[i], scratch->object);
        if (ops.destroy)
            ops.destroy(scratch->object, 1);
        if (same)
            continue;
        info.form.read(info.form.from_wire, objects[i], rows[i]);
        pool.mark_changed(chunk.row[component * lane_count + lane_of[i]]);
        differs |= u64(1) << lane_of[i];
    }
    return differs;
}

/// The same, but leaves alone what has the value already. Returns the lanes whose rows were marked changed.
u64 Client::Impl::write_different_rows(HeldChunk& chunk, const StagedSection& section, u32 component, u64 lanes, u64 inserted) {
    const LayoutComponent& info = layout->components[component];
    u8 lane_of[lane_count];
    std::byte* rows[lane_count];
    const u32 count = find_rows<false>(chunk, component, lanes, lane_of, rows);
    const i64 origin[2] = {section.spatial ? section.origin[0] : 0, section.spatial ? section.origin[1] : 0};
    u64 differs = lanes & inserted;
    for (u32 i = info.first_column; i < info.first_column + info.column_count; ++i) {
        if (layout->columns[i].unknown)
            continue;
        const FieldInfo& field = info.info->fields[layout->columns[i].field];
        u64 bits[lane_count];
        Entity named[lane_count];
        const auto differs_at = [&](u32 at, bool load) {
            Entity entity;
            u64 now = 0;
            if (field.kind == FieldKind::reference)
                std::memcpy(&entity, rows[at] + field.offset_bytes, sizeof entity);
            else
                now = load_exact(field, rows[at]);
            if (load) {
                bits[at] = now;
                named[at] = entity;
            }
            return now != bits[at] || entity != named[at];
        };
        for (u32 at = 0; at < count; ++at)
            static_cast<void>(differs_at(at, true));
        write_columns(chunk, section.blocks[component], origin, i, 1, {lane_of, rows, count}, true);
        for (u32 at = 0; at < count; ++at)
            differs |= u64(differs_at(at, false)) << lane_of[at];
    }
    for (u32 at = 0; at < count; ++at)
        if (differs >> lane_of[at] & 1)
            world.pool_of(info.info->id)->mark_changed(chunk.row[component * lane_count + lane_of[at]]);
    return differs;
}

void Client::Impl::write_columns(const HeldChunk& chunk, const std::byte* block, const i64 (&origin)[2], u32 first, u32 count,
                                 const ComponentRows& out, bool link) {
    copy_columns(chunk, block, origin, first, count, out, link);
}

/// R11: a reference reads as null until its target is shown, and again when the game has destroyed that: a relation would take its end for
/// one of now.
void Client::Impl::write_references(const HeldChunk& chunk, const ComponentRows& out, u32 column, const i64* values, bool link) {
    const u32 offset = layout->components[layout->columns[column].component].info->fields[layout->columns[column].field].offset_bytes;
    for (u32 i = 0; i < out.count; ++i) {
        const NetId id{static_cast<u64>(values[i])};
        bool dropped = false;
        const u32 target = link ? index.set_link(chunk.record[out.lanes[i]], column, id, dropped) : id ? index.find(id) : no_record;
        stats.references_dropped += dropped;
        const bool shown = target != no_record && !dropped && world.alive(index[target].entity);
        const Entity entity = shown ? index[target].entity : Entity{};
        std::memcpy(out.rows[i] + offset, &entity, sizeof entity);
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
        auto* const row = static_cast<std::byte*>(pool.row(dense));
        if (info.form.size_bytes > 0) { // there and back again: the reference is in what travels
            std::byte* object = nullptr;
            const std::byte* const from = row;
            scratch->wire_objects.write(info.form, &from, 1, &object);
            std::memcpy(object + info.fields[column.field].offset_bytes, &entity, sizeof entity);
            info.form.read(info.form.from_wire, object, row);
        } else {
            std::memcpy(row + info.fields[column.field].offset_bytes, &entity, sizeof entity);
        }
        pool.mark_changed(dense);
        if (info.resource.take)
            info.resource.take(world, row);
        world.changed_unannounced(holder, info.id);
    }
}

/// R15: the newest bytes of a lane win. `open`: lanes whose live value this section replaces.
void Client::Impl::apply_opaque(HeldChunk& chunk, const StagedSection& section, u64 open, const ComponentChange* changes,
                                const Shown& shown, Tick tick) {
    for (u32 i = section.first_opaque; i < section.first_opaque + section.opaque_count; ++i) {
        const StagedOpaque& value = scratch->opaque[i];
        if (!(open >> value.lane & 1))
            continue;
        const u64 lane = u64(1) << value.lane;
        u64& hash = chunk.opaque_hash[rings.opaque_index(value.component) * lane_count + value.lane];
        const bool again = hash == value.hash && (shown.same & ~changes[value.component].inserted & lane);
        hash = value.hash;
        if ((layout->diffs >> value.component & 1) && !(layout->unknown >> value.component & 1))
            rings.hold_value(chunk, value.component, value.lane, scratch->bytes_of(value));
        if (again || !((shown.same | shown.fresh) & lane) || (layout->unknown >> value.component & 1))
            continue; // what is sent again changes nothing
        count_writes(value.component, 1);
        component_counts[value.component].opaque_bytes += value.wire_bytes;
        if ((ruled.routed >> value.component & 1) && write_opaque_routed(chunk, section, value, tick))
            continue;
        const ComponentInfo& info = *layout->components[value.component].info;
        const Entity entity = index[chunk.record[value.lane]].entity;
        const u32 dense = world.dense_index(entity.entity_idx, info.id);
        if (dense == no_row)
            continue;
        PoolBase& pool = *world.pool_of(info.id);
        if ((ruled.compared >> value.component & 1) && !(changes[value.component].insert & lane) &&
            opaque_equal(value, pool.row(dense)))
            continue;
        // They can be read (stage_opaque).
        const bool in_place = info.deserialize_in_place && !(changes[value.component].insert & lane);
        if ((in_place ? info.deserialize_in_place : info.deserialize)(pool.row(dense), scratch->bytes_of(value)) != Error::none)
            ++stats.unapplied_opaque;
        else if (info.resource.take)
            info.resource.take(world, pool.row(dense));
        pool.mark_changed(dense);
        world.changed_unannounced(entity, info.id);
    }
}

} // namespace throng
