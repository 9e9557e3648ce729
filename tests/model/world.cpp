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
    return std::any_of(entities_.begin(), entities_.end(), [&](const Entity& e) { return e.id.index == index; });
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

LaneValue World::lane_value(int chunk, int lane) const {
    LaneValue value;
    value.occupant = occupants_[chunk][lane];
    if (const Entity* found = value.occupant ? find(value.occupant) : nullptr) {
        if (is_home(chunk))
            value.cells = {found->cells[pos], found->cells[vel]};
        else
            value.cells[0] = found->cells[hp];
    }
    return value;
}

Mask World::visible(int client, int chunk) const {
    if (is_home(chunk) ? !has(interest_[client], chunk) : chunk != sidecar_of(client))
        return 0;
    Mask mask = 0;
    for (int lane = 0; lane < lane_count; ++lane)
        if (const Entity* found = occupants_[chunk][lane] ? find(occupants_[chunk][lane]) : nullptr)
            if (!has(found->hidden_from, client))
                mask |= bit(lane);
    return mask;
}

SeenWorld World::seen_by(int client) const {
    SeenWorld seen;
    for (int chunk = 0; chunk < home_chunk_count + clients_; ++chunk) {
        const Mask mask = visible(client, chunk);
        for (int lane = 0; lane < lane_count; ++lane) {
            if (!has(mask, lane))
                continue;
            const LaneValue value = lane_value(chunk, lane);
            Seen& entry = find_or_add(seen, value.occupant);
            entry.has[int(scope_of(chunk))] = true;
            entry.slots[int(scope_of(chunk))] = value;
        }
    }
    return seen;
}

} // namespace model
