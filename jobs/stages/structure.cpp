// Structure: entities take and leave lanes. Serial, in the order of the world's structural log and then of moves by pool row, so that
// lanes come out the same for any number of workers; its work is proportional to spawns, despawns, insertions, removals and
// moves between cells only.
#include "jobs/stages/lanes.hpp"
#include "jobs/stages/stages.hpp"
#include "src/server/sight.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace throng {

Target target_of(ServerState& state, u32 entity_idx) {
    i32 steps[2];
    bool clamped = false;
    if (!world_position(state, entity_idx, steps, clamped))
        return {};
    if (clamped)
        state.report.limits |= limit_position;
    return {true, state.grid.cell_of(steps[0], steps[1])};
}

InterestGrid::ChunkList& list_of(ServerState& state, Target target) {
    return target.spatial ? state.grid.chunks(target.cell) : state.everywhere;
}

u32 add_chunk(ServerState& state, Target target) {
    InterestGrid::ChunkList& list = list_of(state, target);
    if (state.mirror.chunk_count() >= state.config.chunks_max)
        return no_chunk;
    CellPosition at;
    if (target.spatial)
        at = state.grid.cell_coordinates(target.cell);
    const i32 edge = target.spatial ? state.grid.cell_steps() : 0;
    Chunk& chunk = state.mirror.add_chunk(target.cell, target.spatial, at.a * edge, at.b * edge);
    if (list.first == no_chunk)
        list.first = chunk.number;
    else
        state.mirror.chunk(list.last).next_in_cell = chunk.number;
    list.last = chunk.number;
    if (list.open == no_chunk)
        list.open = chunk.number;
    const u32 sets = (chunk.number + 1) * state.layout.component_count;
    state.touched.resize(sets);
    if (state.layout.ruled)
        state.denied.resize(sets);
    state.fresh.resize((chunk.number + 1) * lane_count);
    state.fresh_rows.resize(u64(chunk.number + 1) * lane_count * state.layout.row_bytes);
    state.touched_chunks.resize(chunk.number / 64 + 1);
    state.dirty_chunks.resize(chunk.number / 64 + 1);
    state.viewers.resize(chunk.number + 1);
    ++state.topology;
    return chunk.number;
}

namespace {

/// A chunk of the list with a free lane, or a new one; no_chunk when chunks_max is reached.
u32 chunk_with_room(ServerState& state, Target target) {
    InterestGrid::ChunkList& list = list_of(state, target);
    for (; list.open != no_chunk; list.open = state.mirror.chunk(list.open).next_in_cell)
        if (~state.mirror.chunk(list.open).alive)
            return list.open;
    return add_chunk(state, target);
}

void touch_lane(ServerState& state, Chunk& chunk, u32 lane, bool structural) {
    const u64 bit = u64(1) << lane;
    for (u32 c = 0; structural && c < state.layout.component_count; ++c)
        state.touched[chunk.number * state.layout.component_count + c] |= bit;
    if (structural)
        chunk.structural |= bit;
    state.any_view_change = true;
    state.touch_chunk(chunk.number);
}

/// What a component of the server's own kinds says of an entity; null if the entity lacks it.
template <class T>
const T* own_component(const ServerState& state, u32 entity_idx) {
    const u32 dense = state.world.dense_index(entity_idx, component_id<T>());
    return dense == no_row ? nullptr : static_cast<const T*>(state.world.pool_of(component_id<T>())->row(dense));
}

/// Gives the entity's lane the rule that its VisibleTo says now, if any.
void rule_lane(ServerState& state, u32 entity_idx, u32 place) {
    Chunk& chunk = state.mirror.chunk(place / lane_count);
    if (!state.mirror.set_rule(chunk, place % lane_count, own_component<VisibleTo>(state, entity_idx)))
        return;
    chunk.view_tick = state.tick;
    state.any_view_change = true;
}

/// An entity's scopes have changed: clients may see other components of it.
void view_again(ServerState& state, Chunk& chunk) {
    chunk.view_tick = state.tick;
    state.any_view_change = true;
}

/// Whether the entity's Lasting is another than it was when it got its net id.
bool lasting_differs(const ServerState& state, u32 entity_idx) {
    const Slot& slot = state.slots[entity_idx];
    const auto* lasting = state.layout.lasting_component >= 0 ? own_component<Lasting>(state, entity_idx) : nullptr;
    return slot.lasting != (lasting != nullptr) || slot.from_start != (lasting && lasting->from_start);
}

/// Gives the entity's lane the owner that the entity got when its OwnedBy was set.
void own_lane(ServerState& state, u32 entity_idx, u32 place) {
    Chunk& chunk = state.mirror.chunk(place / lane_count);
    const bool owned = own_component<OwnedBy>(state, entity_idx) && entity_idx < state.owners.size();
    const u32 connection = owned ? state.owners[entity_idx].connection : 0;
    if (!connection && !chunk.scopes)
        return;
    u32& now = state.mirror.scopes(chunk).owner_connections[place % lane_count];
    if (now != connection)
        view_again(state, chunk);
    now = connection;
}

/// The entity belongs to the client that is there now. `written`: its OwnedBy is known to have been; else it may be the one that it had.
void set_owner(ServerState& state, Entity entity, bool written) {
    const auto* owner = own_component<OwnedBy>(state, entity.entity_idx);
    if (owner && state.owners.size() < state.slots.size())
        state.owners.resize(state.slots.capacity());
    if (entity.entity_idx >= state.owners.size())
        return;
    ServerState::Owner& now = state.owners[entity.entity_idx];
    if (!owner)
        now = {};
    else if (written || now.entity_id != entity.entity_id || now.client != owner->client)
        now = {entity.entity_id, owner->client, owner->client < state.clients.size() ? state.clients[owner->client].connection : 0};
}

void share_lane(ServerState& state, u32 entity_idx, u32 place) {
    Chunk& chunk = state.mirror.chunk(place / lane_count);
    const auto* shared = own_component<SharedWith>(state, entity_idx);
    if (!shared && !chunk.scopes)
        return;
    GroupId& now = state.mirror.scopes(chunk).groups[place % lane_count];
    const GroupId group = shared ? shared->group : no_group;
    if (now != group)
        view_again(state, chunk);
    now = group;
}

/// Gives the entity's lane the rules that its ScopedTo says now, if any.
void scope_lane(ServerState& state, u32 entity_idx, u32 place) {
    Chunk& chunk = state.mirror.chunk(place / lane_count);
    const auto* scoped = own_component<ScopedTo>(state, entity_idx);
    if (!scoped && !chunk.scopes)
        return;
    ChunkScopes& scopes = state.mirror.scopes(chunk);
    const u64 bit = u64(1) << place % lane_count;
    if (!scoped && !(scopes.ruled & bit))
        return;
    scopes.ruled = scoped ? scopes.ruled | bit : scopes.ruled & ~bit;
    view_again(state, chunk);
    if (!scoped)
        return;
    scope_lanes(chunk, scopes, bit, state.tick);
    LaneRules& rules = state.mirror.lane_rules(chunk, place % lane_count, scoped->count());
    rules.count = scoped->count();
    for (u32 i = 0; i < rules.count; ++i) {
        const ScopedTo::Rule& rule = scoped->rule(i);
        u32 components = 0;
        for (u32 c = 0; c < state.layout.component_count; ++c)
            components |= u32(static_cast<i32>(c) != state.layout.lasting_component && rule.scope.has(state.layout.components[c].info->id))
                          << c;
        rules.rules[i] = {components, rule.to, rule.lifetime};
    }
}

/// Gives the entity's lane the number of what its component of a filter says now, if it has one.
void filter_lane(ServerState& state, u32 f, u32 entity_idx, u32 place) {
    ViewFilter& filter = state.filters.list[f];
    Chunk& chunk = state.mirror.chunk(place / lane_count);
    const u32 dense = state.world.dense_index(entity_idx, filter.type.component), lane = place % lane_count;
    const void* const value = dense == no_row ? nullptr : state.world.pool_of(filter.type.component)->row(dense);
    const u32 before = chunk.filters && (chunk.filters->lanes[f] >> lane & 1) ? chunk.filters->numbers[f][lane] : 0;
    if (before ? value && filter.classes.is(before, value) : !value)
        return;
    bool anew = false;
    const u32 now = value ? filter.classes.take(value, anew) : 0;
    if (anew)
        filter.verdicts.forget_class(now);
    if (before)
        filter.classes.release(before);
    state.mirror.set_filter_number(chunk, f, lane, now);
    view_again(state, chunk);
}

void filter_lane(ServerState& state, u32 entity_idx, u32 place) {
    for (u32 f = 0; f < state.filters.list.size(); ++f)
        filter_lane(state, f, entity_idx, place);
}

/// An entity leaves its lane.
void unfilter_lane(ServerState& state, Chunk& chunk, u32 lane) {
    for (u64 some = chunk.filters->some; some; some &= some - 1) {
        const u32 f = static_cast<u32>(std::countr_zero(some));
        if (!(chunk.filters->lanes[f] >> lane & 1))
            continue;
        state.filters.list[f].classes.release(chunk.filters->numbers[f][lane]);
        state.mirror.set_filter_number(chunk, f, lane, 0);
    }
}

/// Looks at entities in a lane whose component of a filter was set, changed or taken away.
void each_filter_changed(ServerState& state, u32 f) {
    struct Context {
        ServerState& state;
        u32 f;
    } context{state, f};
    const bool told = state.filters.list[f].changes->each(&context, [](void* c, Entity entity) {
        auto& [s, filter] = *static_cast<Context*>(c);
        if (const Slot* slot = s.slot_of(entity); slot && slot->place != no_slot)
            filter_lane(s, filter, entity.entity_idx, slot->place);
    });
    for (u32 i = 0; !told && i < state.slots.size(); ++i)
        if (state.slots[i].entity_id && state.slots[i].place != no_slot)
            filter_lane(state, f, i, state.slots[i].place);
}

/// Gives the entity's lane the period of its UpdatePriority.
void pace_lane(ServerState& state, u32 entity_idx, u32 place) {
    Chunk& chunk = state.mirror.chunk(place / lane_count);
    const auto* priority = own_component<UpdatePriority>(state, entity_idx);
    const bool first = !chunk.periods;
    if (state.mirror.set_period(chunk, place % lane_count, priority ? update_period_log2(priority->value) : 0) && first)
        state.slow_chunks.push_back(chunk.number);
}

/// Tells `f` of entities in a lane whose T was set, changed or taken away.
template <class T>
void each_changed(ServerState& state, ChangeReader<T>& changes, void (*f)(ServerState&, u32 entity_idx, u32 place)) {
    const auto look = [&](Entity entity) {
        if (const Slot* slot = state.slot_of(entity); slot && slot->place != no_slot)
            f(state, entity.entity_idx, slot->place);
    };
    if (changes.take_resync())
        for (u32 i = 0; i < state.slots.size(); ++i)
            if (state.slots[i].entity_id && state.slots[i].place != no_slot)
                f(state, i, state.slots[i].place);
    changes.each_removed([&](const Removal& removal) { look(removal.entity); });
    changes.each([&](Entity entity, const T&) { look(entity); });
}

/// Components that rules keep from the lane.
u32 denied_at(const ServerState& state, u32 place) {
    u32 denied = 0;
    for (u32 left = state.layout.ruled; left; left &= left - 1)
        denied |= u32(state.denies(static_cast<u32>(std::countr_zero(left)), place)) << std::countr_zero(left);
    return denied;
}

/// Asks the rules about an entity.
u32 denied_of(const ServerState& state, u32 entity_idx) {
    return state.layout.ruled ? denied_components(state.layout, state.world.signature(state.world.entity_at(entity_idx))) : 0;
}

void set_denied(ServerState& state, u32 place, u32 denied) {
    const u64 bit = u64(1) << place % lane_count;
    for (u32 left = state.layout.ruled; left; left &= left - 1) {
        const u32 c = static_cast<u32>(std::countr_zero(left));
        u64& lanes = state.denied[place / lane_count * state.layout.component_count + c];
        lanes = (lanes & ~bit) | u64(denied >> c & 1) << place % lane_count;
    }
}

/// Values of components that are sent once are taken when all entities have their places and net ids.
void take_once(ServerState& state, u32 entity_idx, u32 components) {
    for (u32 left = components & state.layout.once; left; left &= left - 1)
        state.once_due.push_back(u64(entity_idx) << 32 | static_cast<u32>(std::countr_zero(left)));
}

/// What was taken goes with an entity that moves.
void copy_once_values(ServerState& state, u32 from, u32 to) {
    for (u32 left = state.layout.once; left; left &= left - 1) {
        const u32 c = static_cast<u32>(std::countr_zero(left));
        const LayoutComponent& component = state.layout.components[c];
        for (u32 f = 0; f < component.column_count; ++f) {
            const Column& column = state.layout.columns[component.first_column + f];
            set_row_element(state.fresh_row(to), column, row_element(state.fresh_row(from), column));
        }
        if (component.opaque)
            state.mirror.copy_opaque(state.mirror.chunk(from / lane_count), from % lane_count, state.mirror.chunk(to / lane_count),
                                     to % lane_count, c, state.tick);
    }
}

/// The entity's types have changed: the rules may let other components through.
void ask_rules(ServerState& state, u32 entity_idx) {
    const u32 place = state.slots[entity_idx].place;
    if (place == no_slot)
        return;
    const u32 before = denied_at(state, place), now = denied_of(state, entity_idx);
    if (before == now)
        return;
    set_denied(state, place, now);
    take_once(state, entity_idx, before & ~now);
    for (u32 left = before ^ now; left; left &= left - 1)
        state.touched[place / lane_count * state.layout.component_count + static_cast<u32>(std::countr_zero(left))] |=
            u64(1) << place % lane_count;
    touch_lane(state, state.mirror.chunk(place / lane_count), place % lane_count, false);
}

/// Owners are those at the time at which they were set, whether the entity was replicated then or not.
void each_owner_changed(ServerState& state) {
    const auto look = [&](Entity entity, bool written) {
        if (state.world.entity_at(entity.entity_idx).entity_id == entity.entity_id)
            set_owner(state, entity, written);
        if (const Slot* slot = state.slot_of(entity); slot && slot->place != no_slot)
            own_lane(state, entity.entity_idx, slot->place);
    };
    if (state.owner_changes.take_resync()) { // all count as changed, and nobody knows which were
        for (u32 i = 0; i < state.slots.size(); ++i)
            if (const Entity entity = state.world.entity_at(i))
                look(entity, false);
        return state.owner_changes.skip();
    }
    state.owner_changes.each_removed([&](const Removal& removal) { look(removal.entity, true); });
    state.owner_changes.each([&](Entity entity, const OwnedBy&) { look(entity, !state.restored); });
}

/// Puts an entity into a free lane of the chunk.
void take_lane_of(ServerState& state, u32 entity_idx, u32 number) {
    Slot& slot = state.slots[entity_idx];
    Chunk& chunk = state.mirror.chunk(number);
    const u32 lane = static_cast<u32>(std::countr_zero(~chunk.alive));
    state.occupied_chunks += chunk.alive == 0;
    chunk.alive |= u64(1) << lane;
    chunk.entity_idx[lane] = entity_idx;
    chunk.places.a[lane] = chunk.places.b[lane] = 0xff;
    chunk.view_tick = state.tick;
    for (u32 c = 0; c < state.layout.component_count; ++c)
        for (u64& plane : chunk.counters[c])
            plane &= ~(u64(1) << lane);
    chunk.lasting = (chunk.lasting & ~(u64(1) << lane)) | u64(slot.lasting) << lane;
    chunk.from_start = (chunk.from_start & ~(u64(1) << lane)) | u64(slot.from_start) << lane;
    slot.place = number * lane_count + lane;
    rule_lane(state, entity_idx, slot.place);
    filter_lane(state, entity_idx, slot.place);
    pace_lane(state, entity_idx, slot.place);
    own_lane(state, entity_idx, slot.place);
    share_lane(state, entity_idx, slot.place);
    scope_lane(state, entity_idx, slot.place);
    slot.spatial = chunk.spatial;
    if (chunk.spatial) {
        const CellPosition at = state.grid.cell_coordinates(chunk.cell);
        slot.cell_a = static_cast<i16>(at.a);
        slot.cell_b = static_cast<i16>(at.b);
    }
    set_denied(state, slot.place, denied_of(state, entity_idx));
    touch_lane(state, chunk, lane, true);
}

/// Puts an entity into a lane. Returns false at the limit: then it is homeless. That counts even if it gets a lane later in the tick, for
/// what it had of values that are sent once has gone with its lane.
bool take_lane(ServerState& state, u32 entity_idx, Target target) {
    const u32 number = chunk_with_room(state, target);
    if (number == no_chunk) {
        state.report.limits |= limit_chunks;
        state.slots[entity_idx].place = no_slot;
        state.homeless.push_back(entity_idx);
        return false;
    }
    take_lane_of(state, entity_idx, number);
    return true;
}

void set_paused(Chunk& chunk, u32 lane, bool paused) {
    const u64 bit = u64(1) << lane;
    chunk.paused = paused ? chunk.paused | bit : chunk.paused & ~bit;
    chunk.orphaned &= ~bit;
    chunk.paused_any = chunk.paused != 0;
}

void leave_lane(ServerState& state, u32 place) {
    if (place == no_slot)
        return;
    Chunk& chunk = state.mirror.chunk(place / lane_count);
    if (chunk.clusters)
        untie(state, chunk, place % lane_count);
    if (chunk.filters)
        unfilter_lane(state, chunk, place % lane_count);
    chunk.alive &= ~(u64(1) << place % lane_count);
    set_paused(chunk, place % lane_count, false);
    state.occupied_chunks -= chunk.alive == 0;
    InterestGrid::ChunkList& list = list_of(state, {chunk.spatial, chunk.cell});
    list.open = std::min(list.open, chunk.number);
    chunk.view_tick = state.tick;
    touch_lane(state, chunk, place % lane_count, true);
}

void bind(ServerState& state, u32 entity_idx, u64 entity_id) {
    Slot& slot = state.slots[entity_idx];
    u32 index;
    if (state.net_free.size()) {
        index = state.net_free[state.net_free.size() - 1];
        state.net_free.resize(state.net_free.size() - 1);
    } else {
        index = state.net_entities.size();
        state.net_entities.push_back(0);
        state.net_generations.push_back(0);
    }
    state.net_entities[index] = entity_idx;
    u32& generation = state.net_generations[index];
    generation = (generation + 1) & 0xffffffu;
    if (generation == 0) {
        state.report.limits |= limit_net_ids;
        generation = 1;
    }
    slot = {};
    slot.entity_id = entity_id;
    slot.net_id = NetId::make(index, generation);
    slot.bound_tick = state.tick;
    if (state.layout.lasting_component >= 0) {
        const auto* lasting = own_component<Lasting>(state, entity_idx);
        slot.lasting = lasting != nullptr;
        slot.from_start = lasting && lasting->from_start;
    }
    ++state.entity_count;
    state.bound_now.push_back(entity_idx);
    if (state.relations.used()) {
        state.relations.add(entity_idx, entity_id);
        relink(state, entity_idx);
        if (state.relations.cluster_of(entity_idx) != RelationGraph::none)
            return; // place_clusters finds a place for all of them
    }
    take_lane(state, entity_idx, target_of(state, entity_idx));
    take_once(state, entity_idx, ~0u);
}

/// Clients that have it frozen are told its end, whatever they see.
void end_lasting(ServerState& state, NetId id) {
    state.lasting_ended.push_back(id);
    state.any_view_change = true; // though it had no place
}

void unbind(ServerState& state, u32 entity_idx) {
    Slot& slot = state.slots[entity_idx];
    if (state.relations.used())
        state.relations.remove(entity_idx);
    leave_lane(state, slot.paused ? state.paused[entity_idx].place : slot.place);
    state.net_free.push_back(slot.net_id.index());
    if (slot.lasting)
        end_lasting(state, slot.net_id);
    slot = {};
    --state.entity_count;
}

/// To a lane of that chunk, or, without one (no_chunk), of any where the target is.
void change_lane(ServerState& state, u32 entity_idx, Target target, u32 number) {
    Slot& slot = state.slots[entity_idx];
    // Insert counters go with the entity: they belong to its components, not to the lane.
    u8 counters[Protocol::component_count_max] = {};
    if (slot.place != no_slot) {
        const Chunk& from = state.mirror.chunk(slot.place / lane_count);
        for (u32 c = 0; c < state.layout.component_count; ++c)
            counters[c] = static_cast<u8>((from.counters[c][0] >> slot.place % 64 & 1) | (from.counters[c][1] >> slot.place % 64 & 1) << 1);
    }
    const u32 from_place = slot.place;
    leave_lane(state, slot.place);
    if (number != no_chunk)
        take_lane_of(state, entity_idx, number);
    else if (!take_lane(state, entity_idx, target))
        return;
    if (state.layout.once) {
        if (from_place != no_slot)
            copy_once_values(state, from_place, slot.place);
        take_once(state, entity_idx, from_place == no_slot ? ~0u : denied_at(state, from_place) & ~denied_at(state, slot.place));
    }
    Chunk& to = state.mirror.chunk(slot.place / lane_count);
    for (u32 c = 0; c < state.layout.component_count; ++c)
        for (u32 plane = 0; plane < 2; ++plane)
            to.counters[c][plane] |= u64(counters[c] >> plane & 1) << slot.place % 64;
}

} // namespace

void move_into(ServerState& state, u32 entity_idx, u32 chunk) {
    change_lane(state, entity_idx, {}, chunk);
}

void move_alone(ServerState& state, u32 entity_idx) {
    const Slot& slot = state.slots[entity_idx];
    const Target target = target_of(state, entity_idx);
    if (slot.place != no_slot) {
        const Chunk& from = state.mirror.chunk(slot.place / lane_count);
        if (from.spatial == target.spatial && (!target.spatial || from.cell == target.cell))
            return;
    }
    change_lane(state, entity_idx, target, no_chunk);
}

namespace {

/// The entity has left its cell, or has got or lost its place in space.
void move(ServerState& state, u32 entity_idx) {
    const Slot& slot = state.slots[entity_idx];
    if (!slot.entity_id || slot.paused)
        return; // unbound or paused in this tick
    if (state.relations.used())
        if (const u32 cluster = state.relations.cluster_of(entity_idx);
            cluster != RelationGraph::none && !state.relations.too_large(cluster))
            return state.relations.list(cluster); // all of them go where the root goes
    move_alone(state, entity_idx);
}

/// An entity became Lasting, or is so no longer: another one for clients, so that what one of them does with an entity that it loses sight
/// of depends on its net id alone.
void renew(ServerState& state, u32 entity_idx, u64 entity_id) {
    if (state.world.entity_at(entity_idx).entity_id != entity_id ||
        state.world.dense_index(entity_idx, component_id<Replicated>()) == no_row)
        return; // it ends in this tick
    state.unbound_alive.push_back(entity_id);
    unbind(state, entity_idx);
    bind(state, entity_idx, entity_id);
}

/// The component was given: + 1, two bits.
void raise_counter(Chunk& chunk, u32 component, u64 bit) {
    u64(&counter)[2] = chunk.counters[component];
    counter[1] ^= counter[0] & bit;
    counter[0] ^= bit;
}

// ---------------------------------------------------------------------------------------------------- paused entities
// A paused entity keeps its lane, as the mirror has it, and its net id. Its slot has no place, so that mark and structure leave it alone.

/// The log tells the end of entities that have one of the types it is for. Of others it must be looked for.
bool end_is_logged(const ServerState& state, Entity entity) {
    return state.world.signature(entity).intersects(state.logged);
}

void look_for_end(ServerState& state, u32 entity_idx) {
    const Entity entity = state.world.entity_at(entity_idx);
    const u64 entity_id = state.slots[entity_idx].entity_id;
    bool& listed = state.paused[entity_idx].unlogged;
    if (listed || (entity.entity_id == entity_id && end_is_logged(state, entity)))
        return;
    listed = true;
    state.unlogged.push_back({entity_id, entity_idx, 0});
}

void pause(ServerState& state, u32 entity_idx) {
    Slot& slot = state.slots[entity_idx];
    const u32 place = std::exchange(slot.place, no_slot), lane = place % lane_count;
    slot.paused = true;
    state.paused.resize(std::max(state.paused.size(), state.slots.size()));
    state.paused[entity_idx] = {no_slot, 0, false};
    look_for_end(state, entity_idx);
    if (state.relations.used())
        state.relations.remove(entity_idx); // it goes with nobody meanwhile
    if (place == no_slot)
        return;
    Chunk& chunk = state.mirror.chunk(place / lane_count);
    if (chunk.structural >> lane & 1)
        return leave_lane(state, place); // nobody has been told that it is here
    if (chunk.clusters)
        untie(state, chunk, lane);
    for (u32 c = 0; c < state.layout.component_count; ++c)
        state.touched[chunk.number * state.layout.component_count + c] &= ~(u64(1) << lane);
    state.fresh[place] = 0; // its row is written anew when it goes on
    set_paused(chunk, lane, true);
    state.paused[entity_idx].place = place;
}

/// Goes on as the same entity, wherever it is by now.
void resume(ServerState& state, u32 entity_idx) {
    Slot& slot = state.slots[entity_idx];
    slot.place = state.paused[entity_idx].place;
    slot.paused = false;
    if (slot.place != no_slot) {
        Chunk& chunk = state.mirror.chunk(slot.place / lane_count);
        const u32 lane = slot.place % lane_count, denied = denied_at(state, slot.place);
        set_paused(chunk, lane, false);
        chunk.view_tick = state.tick;
        rule_lane(state, entity_idx, slot.place);
        filter_lane(state, entity_idx, slot.place);
        pace_lane(state, entity_idx, slot.place);
        own_lane(state, entity_idx, slot.place);
        share_lane(state, entity_idx, slot.place);
        scope_lane(state, entity_idx, slot.place);
        set_denied(state, slot.place, denied_of(state, entity_idx));
        take_once(state, entity_idx, state.paused[entity_idx].given | (denied & ~denied_at(state, slot.place)));
        touch_lane(state, chunk, lane, true);
    } else
        slot.bound_tick = state.tick; // it gets a lane as if it were new
    if (state.world.entity_at(entity_idx).entity_id != slot.entity_id)
        return; // it ends in this tick
    if (const i32 c = state.layout.lasting_component;
        lasting_differs(state, entity_idx) || (c >= 0 && (state.paused[entity_idx].given >> c & 1)))
        return renew(state, entity_idx, slot.entity_id);
    if (state.relations.used()) {
        state.relations.add(entity_idx, slot.entity_id);
        relink(state, entity_idx);
    }
    move(state, entity_idx);
}

/// Clients keep it. Nobody else gets its lane before they are gone.
void orphan(ServerState& state, u32 entity_idx) {
    Slot& slot = state.slots[entity_idx];
    const u32 place = state.paused[entity_idx].place;
    if (place == no_slot && !slot.lasting)
        return unbind(state, entity_idx);
    if (place != no_slot)
        state.mirror.chunk(place / lane_count).orphaned |= u64(1) << place % lane_count;
    state.orphans.push_back({slot.entity_id, entity_idx, slot.net_id, place, slot.lasting});
    state.orphans_due = true;
    slot = {};
    --state.entity_count;
}

/// Clients lose it.
void end_orphan(ServerState& state, u32 index) {
    const ServerState::Orphan orphan = state.orphans[index];
    leave_lane(state, orphan.place);
    state.net_free.push_back(orphan.net_id.index());
    if (orphan.lasting)
        end_lasting(state, orphan.net_id);
    state.orphans.erase_unordered(index);
}

void release_orphans(ServerState& state) {
    if (!std::exchange(state.orphans_due, false))
        return;
    u32 kept = 0;
    for (const ServerState::Orphan& orphan : state.orphans) {
        bool known = false;
        for (u32 id = 0; id < state.clients.size() && !known; ++id) {
            const ClientChunk* const view =
                orphan.place == no_slot ? nullptr : find_client_chunk(state.clients[id], orphan.place / lane_count, 0);
            known =
                (view && view->known >> orphan.place % lane_count & 1) || (orphan.lasting && state.clients[id].lasting.find(orphan.net_id));
        }
        if (known) {
            state.orphans[kept++] = orphan;
            continue;
        }
        leave_lane(state, orphan.place);
        state.net_free.push_back(orphan.net_id.index());
    }
    state.orphans.resize(kept);
}

void find_unlogged_ends(ServerState& state) {
    u32 kept = 0;
    for (const Entity listed : state.unlogged) {
        const Slot& slot = state.slots[listed.entity_idx];
        const Entity entity = state.world.entity_at(listed.entity_idx);
        if (!slot.paused || slot.entity_id != listed.entity_id)
            continue; // it goes on, or has ended
        if (entity.entity_id != listed.entity_id)
            orphan(state, listed.entity_idx);
        else if (end_is_logged(state, entity))
            state.paused[listed.entity_idx].unlogged = false;
        else
            state.unlogged[kept++] = listed;
    }
    state.unlogged.resize(kept);
}

/// What end_in_tick was called for ends before anything else of the tick: Replicated given afterwards makes another entity for clients.
void handle_ends(ServerState& state) {
    for (const Entity entity : state.ending) {
        if (state.slot_of(entity)) {
            if (state.world.entity_at(entity.entity_idx).entity_id == entity.entity_id)
                state.unbound_alive.push_back(entity.entity_id);
            unbind(state, entity.entity_idx);
            continue;
        }
        for (u32 i = 0; i < state.orphans.size(); ++i)
            if (state.orphans[i].entity_id == entity.entity_id) {
                end_orphan(state, i);
                break;
            }
    }
    state.ending.clear();
}

/// Whether the entity has Replicated at the tick's end comes first: of one that is paused nothing else of the tick is told.
void handle_pauses(ServerState& state, ComponentId replicated) {
    const std::span<const StructureEvent> log = state.world.structure_log();
    const auto set = [&](u32 entity_idx, bool goes_on) {
        if (goes_on == state.slots[entity_idx].paused)
            goes_on ? resume(state, entity_idx) : pause(state, entity_idx);
    };
    state.last_pauses.clear();
    for (u32 i = 0; i < log.size(); ++i) {
        const StructureEvent& event = log[i];
        if (event.kind == StructureEvent::Kind::destroyed || event.component != replicated || !event.entity_id ||
            state.slots[event.entity_idx].entity_id != event.entity_id)
            continue;
        if (state.world.entity_at(event.entity_idx).entity_id == event.entity_id)
            set(event.entity_idx, state.world.dense_index(event.entity_idx, replicated) != no_row);
        else
            state.last_pauses.push_back(u64(event.entity_idx) << 32 | i);
    }
    // Of those that have ended, what they were last counts, and nothing in between: it would cost them their lane.
    std::sort(state.last_pauses.begin(), state.last_pauses.end());
    for (u32 i = 0; i < state.last_pauses.size(); ++i)
        if (const u32 entity_idx = static_cast<u32>(state.last_pauses[i] >> 32);
            i + 1 == state.last_pauses.size() || state.last_pauses[i + 1] >> 32 != entity_idx)
            set(entity_idx, log[static_cast<u32>(state.last_pauses[i])].kind == StructureEvent::Kind::added);
}

/// The entity was given a component while it is paused: that counts, once.
void note_given(ServerState& state, u32 entity_idx, i32 component) {
    auto& [place, given, unlogged] = state.paused[entity_idx];
    for (i32 c = component; c >= 0; c = state.layout.next_of_type[c]) {
        if (!(given >> c & 1) && place != no_slot)
            raise_counter(state.mirror.chunk(place / lane_count), static_cast<u32>(c), u64(1) << place % lane_count);
        given |= 1u << c;
    }
}

void handle(ServerState& state, const StructureEvent& event, ComponentId replicated) {
    Slot& slot = state.slots[event.entity_idx];
    const bool bound = slot.entity_id == event.entity_id && event.entity_id != 0;
    if (event.kind == StructureEvent::Kind::destroyed) {
        if (bound)
            slot.paused ? orphan(state, event.entity_idx) : unbind(state, event.entity_idx);
        return;
    }
    if (event.component == replicated) {
        if (!bound && event.kind == StructureEvent::Kind::added && state.world.entity_at(event.entity_idx).entity_id == event.entity_id &&
            state.world.dense_index(event.entity_idx, replicated) != no_row) {
            if (slot.entity_id)
                slot.paused ? orphan(state, event.entity_idx) : unbind(state, event.entity_idx); // the one in this slot before
            bind(state, event.entity_idx, event.entity_id);
        }
        return;
    }
    if (!bound || slot.bound_tick == state.tick)
        return; // bind looks at the components as they are at the end of the tick
    const i32 component = state.layout.index_of[event.component];
    if (slot.paused) {
        if (event.kind == StructureEvent::Kind::added)
            note_given(state, event.entity_idx, component);
        else
            look_for_end(state, event.entity_idx);
        return;
    }
    if (state.layout.rule_types.test(event.component))
        ask_rules(state, event.entity_idx);
    if (component < 0)
        return;
    if (component == state.layout.lasting_component)
        return renew(state, event.entity_idx, event.entity_id);
    if (state.layout.related_components >> component & 1)
        relink(state, event.entity_idx);
    if (component == state.layout.spatial_component)
        move(state, event.entity_idx);
    if (slot.place == no_slot)
        return;
    Chunk& chunk = state.mirror.chunk(slot.place / lane_count);
    const u64 bit = u64(1) << slot.place % lane_count;
    for (i32 c = component; c >= 0; c = state.layout.next_of_type[c]) { // all of the type: rules decide which of them it is
        if (event.kind == StructureEvent::Kind::added) {
            raise_counter(chunk, static_cast<u32>(c), bit);
            take_once(state, event.entity_idx, 1u << c);
        }
        state.touched[chunk.number * state.layout.component_count + static_cast<u32>(c)] |= bit;
    }
    touch_lane(state, chunk, slot.place % lane_count, false);
}

/// The world was restored: of what is replicated, anything may be otherwise, and no log and no mark tells. What has ended by it, or is not
/// replicated in it, ends for clients; what is new in it gets its lane; of all others capture compares every component.
void compare_anew(ServerState& state, ComponentId replicated) {
    state.world.clear_structure_log();
    for (u32 i = state.orphans.size(); i-- > 0;)
        if (state.world.entity_at(state.orphans[i].entity_idx).entity_id == state.orphans[i].entity_id)
            end_orphan(state, i); // it lives again
    const auto lives = [&](u32 i) { return state.world.entity_at(i).entity_id == state.slots[i].entity_id; };
    const auto has = [&](u32 i) { return lives(i) && state.world.dense_index(i, replicated) != no_row; };
    for (u32 i = 0; i < state.slots.size(); ++i) {
        const Slot& slot = state.slots[i];
        if (!slot.entity_id || has(i))
            continue;
        if (slot.paused && lives(i)) {
            look_for_end(state, i);
            continue; // it stays so
        }
        if (lives(i))
            state.unbound_alive.push_back(slot.entity_id);
        unbind(state, i);
    }
    for (u32 i = 0; i < state.slots.size(); ++i) {
        const Slot& slot = state.slots[i];
        if (!slot.entity_id || slot.bound_tick == state.tick || !has(i))
            continue;
        if (slot.paused) {
            resume(state, i);
            continue;
        }
        if (lasting_differs(state, i)) {
            renew(state, i, slot.entity_id);
            continue;
        }
        ask_rules(state, i);
        if (state.relations.used())
            relink(state, i);
        move(state, i);
        if (slot.place == no_slot)
            continue;
        take_once(state, i, ~0u);
        Chunk& chunk = state.mirror.chunk(slot.place / lane_count);
        for (u32 c = 0; c < state.layout.component_count; ++c)
            state.touched[chunk.number * state.layout.component_count + c] |= u64(1) << slot.place % lane_count;
        touch_lane(state, chunk, slot.place % lane_count, false);
    }
    const PoolBase& pool = *state.world.pool_of(replicated);
    for (u32 row = 0; row < pool.size(); ++row)
        if (const u32 i = pool.owner(row); !state.slots[i].entity_id)
            bind(state, i, state.world.entity_at(i).entity_id);
}

/// An entity has lost its net id and lives on: what refers to it must stop naming that, and must name the next one if it gets
/// one. Such entities are rare, so the references are searched for.
void forget_references(ServerState& state) {
    if (!state.unbound_alive.size())
        return;
    std::sort(state.unbound_alive.begin(), state.unbound_alive.end());
    for (u32 c = 0; c < state.layout.component_count; ++c) {
        const LayoutComponent& component = state.layout.components[c];
        const PoolBase* pool = component.references ? state.world.pool_of(component.info->id) : nullptr;
        for (u32 row = 0; pool && row < pool->size(); ++row) {
            const u32 place = state.slots[pool->owner(row)].place;
            if (place == no_slot)
                continue;
            const auto* fields = static_cast<const std::byte*>(pool->row(row));
            std::byte* object = nullptr;
            if (component.converted) {
                state.workers[0].wire_objects.write(component.info->form, &fields, 1, &object);
                fields = object;
            }
            for (u32 f = 0; f < component.column_count; ++f) {
                if (component.info->fields[f].kind != FieldKind::reference)
                    continue;
                Entity target;
                std::memcpy(&target, fields + component.info->fields[f].offset_bytes, sizeof target);
                if (!target.entity_id || !std::binary_search(state.unbound_alive.begin(), state.unbound_alive.end(), target.entity_id))
                    continue;
                state.touched[place / lane_count * state.layout.component_count + c] |= u64(1) << place % lane_count;
                state.touch_chunk(place / lane_count);
                take_once(state, pool->owner(row), 1u << c);
            }
        }
    }
}

/// Entities that found no lane before: room may have come, or they have moved to where there is some.
void house_homeless(ServerState& state) {
    const u32 count = state.homeless.size();
    if (!count)
        return;
    u32 kept = 0;
    for (u32 i = 0; i < count; ++i) {
        const u32 entity_idx = state.homeless[i];
        const Slot& slot = state.slots[entity_idx];
        if (!slot.entity_id || slot.place != no_slot || slot.paused)
            continue; // gone, or has a lane by now
        if (i >= homeless_tries_max) {
            state.homeless[kept++] = entity_idx;
            continue;
        }
        const u32 before = state.homeless.size();
        if (!take_lane(state, entity_idx, target_of(state, entity_idx)))
            state.homeless.resize(before); // it pushed itself to the end: it goes behind those not tried yet
        else if (state.relations.used() && state.relations.cluster_of(entity_idx) != RelationGraph::none)
            state.relations.list(state.relations.cluster_of(entity_idx)); // in the next tick it joins the others
        if (slot.place == no_slot)
            state.moves.push_back(entity_idx);
        else
            take_once(state, entity_idx, ~0u);
    }
    state.homeless.resize(kept);
    for (const u64 again : state.moves)
        state.homeless.push_back(static_cast<u32>(again));
    state.moves.clear();
    if (state.homeless.size())
        state.report.limits |= limit_chunks;
}

/// References to entities that became replicated in this tick are captured again: their net id exists now.
void resolve_dangling(ServerState& state) {
    if (!state.dangling.size() || !state.bound_now.size())
        return;
    std::sort(state.bound_now.begin(), state.bound_now.end());
    u32 kept = 0;
    for (const WorkerState::Dangling& reference : state.dangling) {
        const Slot& target = state.slots[reference.target_idx];
        if (target.entity_id == reference.target_id) {
            Chunk& chunk = state.mirror.chunk(reference.place / lane_count);
            if (paused_lanes(chunk) >> reference.place % lane_count & 1)
                continue; // all of it is looked up when it goes on
            state.touched[chunk.number * state.layout.component_count + reference.component] |= u64(1) << reference.place % lane_count;
            touch_lane(state, chunk, reference.place % lane_count, false);
            take_once(state, chunk.entity_idx[reference.place % lane_count], 1u << reference.component);
        } else if (state.world.entity_at(reference.target_idx).entity_id == reference.target_id)
            state.dangling[kept++] = reference;
    }
    state.dangling.resize(kept);
}

void take_once_values(ServerState& state) {
    std::sort(state.once_due.begin(), state.once_due.end());
    u64 before = ~u64(0);
    for (const u64 due : state.once_due)
        if (const u32 entity_idx = static_cast<u32>(due >> 32), place = state.slots[entity_idx].place; place != no_slot && due != before) {
            const u32 component = static_cast<u32>(due), bit = 1u << component;
            if (state.layout.components[component].opaque) // an earlier value may have been too large
                set_denied(state, place, (denied_at(state, place) & ~bit) | (denied_of(state, entity_idx) & bit));
            take_once_value(state, place, component);
            before = due;
        }
    state.once_due.clear();
}

} // namespace

void run_structure_stage(ServerState& state) {
    const auto wall = state.config.wall_ns;
    const auto cpu = state.config.thread_cpu_ns;
    const u64 wall_start = wall ? wall() : 0, cpu_start = cpu ? cpu() : 0;
    state.slots.resize(std::max<u32>(state.slots.size(), state.world.entity_slots()));
    state.bound_now.clear();
    state.unbound_alive.clear();
    const ComponentId replicated = component_id<Replicated>();
    if (state.adopt_world) {
        state.adopt_world = false;
        state.world.clear_structure_log();
        const PoolBase& pool = *state.world.pool_of(replicated);
        for (u32 row = 0; row < pool.size(); ++row)
            bind(state, pool.owner(row), state.world.entity_at(pool.owner(row)).entity_id);
    }
    handle_ends(state);
    if (state.restored) [[unlikely]]
        compare_anew(state, replicated);
    handle_pauses(state, replicated);
    for (const StructureEvent& event : state.world.structure_log())
        handle(state, event, replicated);
    find_unlogged_ends(state);
    release_orphans(state);
    state.world.clear_structure_log();

    state.moves.clear();
    for (WorkerState& worker : state.workers) {
        for (const WorkerState::Move& found : worker.moves)
            state.moves.push_back(u64(found.row) << 32 | found.entity_idx);
        worker.moves.clear();
    }
    std::sort(state.moves.begin(), state.moves.end());
    for (const u64 found : state.moves)
        move(state, static_cast<u32>(found));
    state.moves.clear();
    if (state.relations.used())
        place_clusters(state);
    house_homeless(state);
    each_changed(state, state.rule_changes, rule_lane);
    for (u32 f = 0; f < state.filters.list.size(); ++f)
        each_filter_changed(state, f);
    reserve_verdicts(state);
    each_changed(state, state.priority_changes, pace_lane);
    each_owner_changed(state);
    each_changed(state, state.group_changes, share_lane);
    each_changed(state, state.scope_changes, scope_lane);
    forget_references(state);
    resolve_dangling(state);
    if (!state.once_due.empty())
        take_once_values(state);
    if (cpu)
        state.workers[0].counts.stages[static_cast<u32>(Stage::structure)].cpu_ns += cpu() - cpu_start;
    if (wall)
        state.report.stages[static_cast<u32>(Stage::structure)].wall_ns += wall() - wall_start;
}

} // namespace throng
