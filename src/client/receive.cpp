// ReceiveRules at work: which functions take a component of an entity, and their calls.
#include "src/client/client_impl.hpp"
#include <bit>

namespace throng {

void Client::Impl::forget_components(u32 record) {
    if (present_of_record.size() <= record) {
        present_of_record.reserve_extra(record + 1 - present_of_record.size());
        present_of_record.resize(record + 1);
    }
    present_of_record[record] = 0;
}

/// Lanes whose entities have the marker; with a section, once that is applied.
u64 Client::Impl::marker_lanes(i32 marker, const u32* records, const StagedSection* coming, u64 lanes) const {
    u64 found = 0;
    if (coming && ruled.marker[marker] >= 0) {
        for (i32 c = ruled.marker[marker]; c >= 0; c = layout->next_of_type[c])
            if (const std::byte* block = coming->blocks[c])
                found |= lanes & header(block).present;
        return found;
    }
    for (u64 m = lanes; m; m &= m - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(m));
        const Entity entity = index[records[lane]].entity;
        found |= u64(world.alive(entity) && world.signature(entity).test(rules->markers[marker].id)) << lane;
    }
    return found;
}

/// Calls f(route, lanes) for each route of a component that has lanes, null for the lanes that have none.
template <class F>
void Client::Impl::each_route(u32 component, const u32* records, const StagedSection* coming, u64 lanes, F&& f) {
    const ReceiveRules::Impl::ComponentRules& table = rules_of(component);
    for (u32 r = 0; r < table.route_count && lanes; ++r) {
        const ReceiveRoute& route = table.routes[r];
        const u64 mine = route.marker < 0 ? lanes : marker_lanes(route.marker, records, coming, lanes);
        if (mine)
            f(&route, mine);
        lanes &= ~mine;
    }
    if (lanes)
        f(static_cast<const ReceiveRoute*>(nullptr), lanes);
}

/// Removals go by what the entity is before the section.
void Client::Impl::route_removals(const HeldChunk& chunk, ComponentChange* changes, Shown& shown, Tick tick) {
    bool called = false;
    for (u32 set = ruled.routed; set; set &= set - 1) {
        const u32 c = static_cast<u32>(std::countr_zero(set));
        each_route(c, chunk.record, nullptr, changes[c].remove, [&](const ReceiveRoute* route, u64 lanes) {
            if (!route || !route->remove)
                return;
            changes[c].remove &= ~lanes;
            called = true;
            for (u64 m = lanes; m; m &= m - 1) {
                const NetRecord& r = index[chunk.record[std::countr_zero(m)]];
                if (world.alive(r.entity))
                    route->remove({world, r.entity, r.id, tick, false, route->context});
            }
        });
    }
    if (called)
        drop_dead(chunk, shown);
}

/// Values go by what the entity will be. Takes the lanes of functions out of the changes of the world.
void Client::Impl::route_values(const HeldChunk& chunk, const StagedSection& section, ComponentChange* changes, const Shown& shown) {
    for (u32 set = ruled.routed; set; set &= set - 1) {
        const u32 c = static_cast<u32>(std::countr_zero(set));
        const LayoutComponent& info = layout->components[c];
        ComponentChange& change = changes[c];
        const u64 values = (change.insert | change.write) & (shown.same | shown.fresh);
        each_route(c, chunk.record, &section, values, [&](const ReceiveRoute* route, u64 lanes) {
            if (route && route->write) {
                change.insert &= ~lanes;
                change.write &= ~lanes;
                if (!info.opaque)
                    routed_writes.push_back({route, c, lanes});
                return;
            }
            // The world may lack a component that functions took before, or have one that they made.
            for (u64 m = lanes & ~change.remove; m; m &= m - 1) {
                const u32 lane = static_cast<u32>(std::countr_zero(m));
                const u64 absent = world.dense_index(slot_of_lane[lane], info.info->id) == no_row;
                change.insert = (change.insert & ~(u64(1) << lane)) | absent << lane;
            }
        });
    }
}

void Client::Impl::write_routed(const HeldChunk& chunk, const StagedSection& section, Tick tick) {
    const i64 origin[2] = {section.spatial ? section.origin[0] : 0, section.spatial ? section.origin[1] : 0};
    for (std::size_t i = 0; i < routed_writes.size(); ++i) {
        const RoutedWrite write = routed_writes[i];
        deliver(*write.route, write.component, chunk, chunk.record, section.blocks[write.component], origin, write.lanes,
                {tick, false, true});
    }
    routed_writes.clear();
}

/// Gives the values of a block to the functions of a route.
void Client::Impl::deliver(const ReceiveRoute& route, u32 component, const HeldChunk& chunk, const u32* records, const std::byte* block,
                           const i64 (&origin)[2], u64 lanes, const Delivery& delivery) {
    const ComponentInfo& info = *layout->components[component].info;
    const ComponentOps& ops = world.pool_of(info.id)->ops();
    u8 lane_of[lane_count];
    std::byte* objects[lane_count];
    u32 count = 0;
    for (u64 m = lanes; m; m &= m - 1) {
        objects[count] = received_objects + std::size_t(count) * info.size_bytes;
        ops.construct(objects[count]);
        lane_of[count++] = static_cast<u8>(std::countr_zero(m));
    }
    const LayoutComponent& columns = layout->components[component];
    if (columns.converted) {
        std::byte* wire[lane_count];
        read_objects(component, chunk, block, origin, {lane_of, objects, count}, wire, delivery.link);
        for (u32 i = 0; i < count; ++i)
            info.form.read(info.form.from_wire, wire[i], objects[i]);
    } else {
        write_columns(chunk, block, origin, columns.first_column, columns.column_count, {lane_of, objects, count}, delivery.link);
    }
    for (u32 i = 0; i < count; ++i) {
        const NetRecord& r = index[records[lane_of[i]]];
        if (world.alive(r.entity))
            route.call(route.write, {world, r.entity, r.id, delivery.tick, delivery.older, route.context}, objects[i]);
    }
    if (ops.destroy)
        ops.destroy(received_objects, count);
}

void Client::Impl::deliver_opaque(const ReceiveRoute& route, u32 record, const StagedOpaque& value, Tick tick, bool older) {
    const ComponentInfo& info = *layout->components[value.component].info;
    const ComponentOps& ops = world.pool_of(info.id)->ops();
    const NetRecord& r = index[record];
    ops.construct(scratch->object);
    // It has read these bytes before (stage_opaque), so it does now.
    if (info.deserialize(scratch->object, scratch->bytes_of(value)) == Error::none)
        route.call(route.write, {world, r.entity, r.id, tick, older, route.context}, scratch->object);
    else
        ++stats.unapplied_opaque;
    if (ops.destroy)
        ops.destroy(scratch->object, 1);
}

/// False: the world's component is to be written; it is there.
bool Client::Impl::write_opaque_routed(const HeldChunk& chunk, const StagedSection& section, const StagedOpaque& value, Tick tick) {
    bool taken = false;
    const u32 record = chunk.record[value.lane];
    if (!world.alive(index[record].entity))
        return true;
    each_route(value.component, chunk.record, &section, u64(1) << value.lane, [&](const ReceiveRoute* route, u64) {
        if (route && route->write) {
            deliver_opaque(*route, record, value, tick, false);
            taken = true;
        } else {
            world.add_unannounced(index[record].entity, layout->components[value.component].info->id); // if functions took it before
        }
    });
    return taken;
}

/// Whether a row has the received value already.
bool Client::Impl::opaque_equal(const StagedOpaque& value, const void* row) {
    const ComponentInfo& info = *layout->components[value.component].info;
    const ComponentOps& ops = world.pool_of(info.id)->ops();
    ops.construct(scratch->object);
    const bool equal = info.deserialize(scratch->object, scratch->bytes_of(value)) == Error::none &&
                       rules_of(value.component).equal(scratch->object, row);
    if (ops.destroy)
        ops.destroy(scratch->object, 1);
    return equal;
}

/// Values that newer ones have overtaken, for markers with history. A value is given if it differs from the state before it.
void Client::Impl::deliver_older(const HeldChunk& chunk, const StagedSection& section, u64 lanes, Tick tick) {
    u32 records[lane_count];
    u64 older = 0;
    for (u64 m = lanes; m; m &= m - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(m)), record = index.find(section.occupants->net_id[lane]);
        if (record == no_record || !world.alive(index[record].entity))
            continue;
        const NetRecord& r = index[record];
        const Tick newest = r.chunk ? r.chunk->live().carried[r.lane] : r.tick;
        records[lane] = record;
        older |= u64(tick_newer(newest, tick) && newest - tick < ConfirmHistory::window) << lane;
    }
    if (!older)
        return;
    const RingVersion* before = nullptr;
    for (u32 v = 0; v < chunk.version_count && !tick_newer(chunk.versions[v]->tick, tick); ++v)
        before = chunk.versions[v];
    u64 same = 0;
    for (u64 m = before ? older : 0; m; m &= m - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(m));
        same |= u64(ChunkRings::occupants(*before).net_id[lane] == section.occupants->net_id[lane]) << lane;
    }
    const i64 origin[2] = {section.spatial ? section.origin[0] : 0, section.spatial ? section.origin[1] : 0};
    for (u32 set = ruled.history; set; set &= set - 1) {
        const u32 c = static_cast<u32>(std::countr_zero(set));
        const std::byte* block = section.blocks[c];
        if (!block || layout->components[c].opaque)
            continue;
        const std::byte* old = same ? before->blocks[c] : nullptr;
        u64 known = old ? same & header(old).present : 0;
        known &= known ? ~differing_lanes(*layout, c, block, old) : 0;
        each_route(c, records, nullptr, older & header(block).present & ~known, [&](const ReceiveRoute* route, u64 mine) {
            if (wants_older(route))
                deliver(*route, c, chunk, records, block, origin, mine, {tick, true, false});
        });
    }
    for (u32 i = section.first_opaque; i < section.first_opaque + section.opaque_count; ++i) {
        const StagedOpaque& value = scratch->opaque[i];
        if ((ruled.history >> value.component & 1) && (older >> value.lane & 1))
            each_route(value.component, records, nullptr, u64(1) << value.lane, [&](const ReceiveRoute* route, u64) {
                if (wants_older(route) && world.alive(index[records[value.lane]].entity))
                    deliver_opaque(*route, records[value.lane], value, tick, true);
            });
    }
}

bool Client::Impl::wants_older(const ReceiveRoute* route) const {
    return route && route->write && route->marker >= 0 && rules->markers[route->marker].history;
}

/// Functions that were given a reference to `target` hear of it again: it is shown now, or no longer.
void Client::Impl::deliver_references(u32 target) {
    for (u32 l = index[target].links_to; l != no_link; l = index.link(l).next_to) {
        const u32 c = layout->columns[index.link(l).column].component, holder = index.link(l).holder;
        const NetRecord& r = index[holder];
        if (!(ruled.routed >> c & 1) || !r.chunk || !world.alive(r.entity))
            continue;
        const RingVersion& live = r.chunk->live();
        const std::byte* block = live.blocks[c];
        if (!block || !(header(block).present >> r.lane & 1))
            continue;
        u32 records[lane_count];
        records[r.lane] = holder;
        const i64 origin[2] = {live.spatial ? live.origin[0] : 0, live.spatial ? live.origin[1] : 0};
        each_route(c, records, nullptr, u64(1) << r.lane, [&](const ReceiveRoute* route, u64 lane) {
            if (route && route->write)
                deliver(*route, c, *r.chunk, records, block, origin, lane, {live.carried[r.lane], false, false});
        });
    }
}

/// required components of those inserted come along; of those removed they go, if that was asked for and nothing else requires them.
bool Client::Impl::exchange_with_required(u32 record, u32 remove, u32 insert) {
    Signature<World::max_components> removed = signature_of(remove), added = signature_of(insert), kept;
    for (u32 m = present_of_record[record] & ruled.requiring; m; m &= m - 1)
        kept |= rules_of(static_cast<u32>(std::countr_zero(m))).required;
    for (u32 m = insert & ruled.requiring; m; m &= m - 1)
        added |= rules_of(static_cast<u32>(std::countr_zero(m))).required;
    for (u32 m = remove & ruled.requiring; m; m &= m - 1)
        rules_of(static_cast<u32>(std::countr_zero(m))).together.for_each([&](u32 id) {
            if (!kept.test(id))
                removed.set(id);
        });
    return world.exchange_unannounced(index[record].entity, removed, added);
}

} // namespace throng
