#include "tests/model/world.hpp"

#include <algorithm>
#include <cstdlib>

namespace model {

Entity& World::entity(NetId id) {
    for (Entity& candidate : entities_)
        if (candidate.id == id)
            return candidate;
    std::abort(); // a script or the director names an entity that is not there
}

const Entity* World::find(NetId id) const {
    for (const Entity& candidate : entities_)
        if (candidate.id == id)
            return &candidate;
    return nullptr;
}

bool World::index_in_use(int index) const {
    const auto has_it = [&](const Entity& e) { return e.id.index == index; };
    return std::any_of(entities_.begin(), entities_.end(), has_it) || std::any_of(left_behind_.begin(), left_behind_.end(), has_it);
}

Mask World::free_lanes(int chunk) const {
    Mask mask = 0;
    for (int lane = 0; lane < lane_count; ++lane)
        if (!occupants_[chunk][lane])
            mask |= bit(lane);
    return mask;
}

NetId World::spawn(int index, Slot at, int owner) {
    Entity fresh;
    fresh.id = {index, ++generations_[index]};
    fresh.owner = owner;
    fresh.home = at;
    fresh.cells[pos] = cell(true, 0, 0);
    fresh.cells[vel] = cell(true, 0, 0);
    fresh.cells[hp] = cell(false, 0, 0);
    occupants_[at.chunk][at.lane] = fresh.id;
    entities_.push_back(fresh);
    return fresh.id;
}

void World::despawn(NetId id) {
    Entity& dying = entity(id);
    release(dying.home);
    if (dying.side)
        release(dying.side);
    entities_.erase(entities_.begin() + (&dying - entities_.data()));
}

void World::move(NetId id, Slot to) {
    Entity& moving = entity(id);
    release(moving.home);
    departed_[moving.home.chunk][moving.home.lane] = id;
    occupants_[to.chunk][to.lane] = id;
    moving.home = to;
}

void World::insert(NetId id, Component component, int value, int side_lane) {
    Entity& target = entity(id);
    if (component == hp && !sidecars_)
        return;
    if (component == hp && !target.side) {
        target.side = {sidecar_of(target.owner), side_lane};
        occupants_[target.side.chunk][target.side.lane] = id;
    }
    target.cells[component] = cell(true, value, target.cells[component].counter + 1);
}

void World::remove(NetId id, Component component) {
    Entity& target = entity(id);
    if (component == hp && target.side) {
        release(target.side);
        target.side = {};
    }
    target.cells[component] = cell(false, 0, target.cells[component].counter);
}

void World::set(NetId id, Component component, int value) {
    Entity& target = entity(id);
    target.cells[component] = cell(true, value, target.cells[component].counter);
}

void World::hide_component(NetId id, int client, Mask unseen, Mask keeps) {
    Entity& target = entity(id);
    for (int i = 0; i < component_count(Scope::home); ++i)
        if (has(target.unseen[client] ^ unseen, i))
            target.mask_sequences[client][i] = ++sequence_;
    target.unseen[client] = unseen;
    target.keeps[client] = keeps;
}

bool World::can_pause(NetId id) const {
    const Entity* target = find(id);
    return target && !target->paused && target->told.home == target->home && target->told.side == target->side;
}

void World::leave_behind(NetId id, bool keep_lanes) {
    Entity& dying = entity(id);
    left_behind_.push_back(dying);
    if (!keep_lanes) {
        release(dying.home);
        if (dying.side)
            release(dying.side);
    }
    entities_.erase(entities_.begin() + (&dying - entities_.data()));
}

void World::release_left_behind(NetId id) {
    const auto found = std::find_if(left_behind_.begin(), left_behind_.end(), [&](const Entity& e) { return e.id == id; });
    for (const Slot slot : {found->home, found->side})
        if (slot && occupants_[slot.chunk][slot.lane] == id)
            release(slot);
    left_behind_.erase(found);
}

void World::end_tick() {
    for (Entity& each : entities_) {
        if (each.paused)
            continue;
        each.told = {each.home, each.side, each.cells, each.unseen, each.keeps, each.mask_sequences, {}};
        for (int client = 0; client < clients_; ++client)
            for (const Slot slot : {each.home, each.side})
                if (slot && has(visible(client, slot.chunk), slot.lane))
                    each.told.visible_to[int(scope_of(slot.chunk))] |= bit(client);
    }
}

const Entity* World::at(int chunk, int lane) const {
    const NetId id = occupants_[chunk][lane];
    return id ? find_told(id) : nullptr;
}

const Entity* World::find_told(NetId id) const {
    for (const Entity& candidate : left_behind_)
        if (candidate.id == id)
            return &candidate;
    return find(id);
}

LaneValue World::value_of(const Entity& of, int chunk, bool told) const {
    const auto& cells = told ? of.told.cells : of.cells;
    LaneValue value;
    value.occupant = of.id;
    if (is_home(chunk))
        value.cells = {cells[pos], cells[vel]};
    else
        value.cells[0] = cells[hp];
    return value;
}

LaneValue World::lane_value(int chunk, int lane, bool captures_paused) const {
    const Entity* found = at(chunk, lane);
    return found ? value_of(*found, chunk, found->paused && !captures_paused) : LaneValue{};
}

Mask World::unseen(int client, int chunk, int lane) const {
    const Entity* found = is_home(chunk) ? at(chunk, lane) : nullptr;
    return !found ? 0 : found->paused ? found->told.unseen[client] : found->unseen[client];
}

Mask World::kept(int client, int chunk, int lane) const {
    const Entity* found = is_home(chunk) ? at(chunk, lane) : nullptr;
    if (!found)
        return 0;
    return found->paused ? found->told.unseen[client] & found->told.keeps[client] : found->unseen[client] & found->keeps[client];
}

LaneValue World::without_unseen(const Entity& of, int client, int chunk, LaneValue value) {
    if (!is_home(chunk))
        return value;
    const auto& sequences = of.paused ? of.told.mask_sequences[client] : of.mask_sequences[client];
    const Mask unseen = of.paused ? of.told.unseen[client] : of.unseen[client];
    for (int i = 0; i < component_count(Scope::home); ++i) {
        if (has(unseen, i))
            value.cells[i] = {};
        value.cells[i].sequence = std::max(value.cells[i].sequence, sequences[i]);
    }
    return value;
}

LaneValue World::seen_of(int client, int chunk, int lane, LaneValue value) const {
    const Entity* found = at(chunk, lane);
    return found && found->id == value.occupant ? without_unseen(*found, client, chunk, value) : value;
}

Mask World::paused(int chunk) const {
    Mask mask = 0;
    for (int lane = 0; lane < lane_count; ++lane)
        if (const Entity* found = at(chunk, lane); found && found->paused)
            mask |= bit(lane);
    return mask;
}

Mask World::visible(int client, int chunk) const {
    if (is_home(chunk) ? !has(interest_[client], chunk) : chunk != sidecar_of(client))
        return 0;
    Mask mask = 0;
    for (int lane = 0; lane < lane_count; ++lane)
        if (const Entity* found = at(chunk, lane))
            if (!has(found->hidden_from, client))
                mask |= bit(lane);
    return mask;
}

SeenWorld World::seen_by(int client) const {
    SeenWorld seen;
    const auto see = [&](const Entity& of, Slot slot) {
        Seen& entry = find_or_add(seen, of.id);
        const int scope = int(scope_of(slot.chunk));
        entry.has[scope] = true;
        entry.slots[scope] = without_unseen(of, client, slot.chunk, value_of(of, slot.chunk, of.paused));
        if (scope != 0)
            return;
        entry.home = slot;
        entry.kept = of.paused ? of.told.unseen[client] & of.told.keeps[client] : of.unseen[client] & of.keeps[client];
    };
    for (const auto* list : {&entities_, &left_behind_})
        for (const Entity& each : *list)
            for (const Slot slot : {each.home, each.side})
                if (slot && (each.paused ? has(each.told.visible_to[int(scope_of(slot.chunk))], client)
                                         : has(visible(client, slot.chunk), slot.lane)))
                    see(each, slot);
    return seen;
}

} // namespace model
