#include "tests/sim/family.hpp"
#include <algorithm>

using namespace throng;

namespace throng_sim {
namespace {

/// How many parents it has, one above the other. `over`: this one is among them, or is the entity.
u32 depth(const World& world, Entity entity, Entity over, bool& is_over) {
    u32 steps = 0;
    is_over = entity == over;
    for (const ChildOf* up = world.get<ChildOf>(entity); up && world.alive(up->target); up = world.get<ChildOf>(up->target)) {
        is_over |= up->target == over;
        ++steps;
    }
    return steps;
}

} // namespace

Entity FamilyActions::any() {
    const Entity entity = world_.entity_slots() ? world_.entity_at(random_.below(world_.entity_slots())) : Entity{};
    return world_.alive(entity) && entity != server_.resource_entity() ? entity : Entity{};
}

/// Families stay small, so that the end of one does not empty the world.
void FamilyActions::adopt(Entity child, Entity parent) {
    bool cycle = false;
    if (depth(world_, parent, child, cycle) > 2 || world_.source_count<ChildOf>(parent) > 3)
        return;
    const Entity before = world_.target<ChildOf>(child);
    if (cycle || random_.chance(0.5)) {
        const Error error = world_.relate<ChildOf>(child, parent);
        if (error != (cycle ? Error::bad_value : Error::none) || world_.target<ChildOf>(child) != (cycle ? before : parent))
            failure_.report("a parent is given, and relate returns %s", to_string(error));
    } else {
        world_.set(child, ChildOf{parent});
    }
}

void FamilyActions::perform() {
    const u32 kind = random_.below(10);
    const Entity entity = any(), other = any();
    if (!entity || !other)
        return;
    switch (kind) {
    case 0:
    case 1:
        world_.remove<ChildOf>(entity);
        break;
    case 2: // in one tick
        world_.remove<ChildOf>(entity);
        adopt(entity, other);
        break;
    case 3: // they change places
        if (const Entity parent = world_.target<ChildOf>(entity)) {
            world_.remove<ChildOf>(entity);
            adopt(parent, entity);
        }
        break;
    case 4:
        if (world_.source_count<ChildOf>(entity) > 0 && random_.chance(0.3)) {
            actions_.despawn(entity);
            tally_.add(Happening::parent_ended);
        }
        break;
    default:
        adopt(entity, other);
    }
}

std::string check_family(const World& world) {
    u64 linked = 0, sources = 0;
    for (u32 slot = 0; slot < world.entity_slots(); ++slot) {
        const Entity entity = world.entity_at(slot);
        if (!entity)
            continue;
        const ChildOf* const up = world.get<ChildOf>(entity);
        const Entity target = world.target<ChildOf>(entity), expected = up && world.alive(up->target) ? up->target : Entity{};
        if (target != expected)
            return "slot " + std::to_string(slot) + " is linked to slot " + std::to_string(target.entity_idx) + ", and names slot " +
                   std::to_string(expected.entity_idx);
        linked += expected != Entity{};
        sources += world.source_count<ChildOf>(entity);
    }
    return linked == sources ? std::string() : std::to_string(linked) + " have a parent, and parents have " + std::to_string(sources);
}

} // namespace throng_sim
