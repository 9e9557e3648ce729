#include "tests/sim/bundles.hpp"
#include <algorithm>

using namespace throng;

namespace throng_sim {

void BundleActions::put_ammo(Entity entity) {
    if (!world_.has<Ammo>(entity))
        world_.add<Ammo>(entity);
    *world_.mut<Ammo>(entity) = {random_.range(0, 500), ++sequence_};
}

void BundleActions::put_barrel(Entity entity) {
    if (!world_.has<Barrel>(entity))
        world_.add<Barrel>(entity);
    world_.mut<Barrel>(entity)->worn = static_cast<u8>(random_.below(256));
}

void BundleActions::perform() {
    const u32 slot = random_.below(std::max(1u, world_.entity_slots()));
    const Entity entity = slot < world_.entity_slots() ? world_.entity_at(slot) : Entity{};
    const u32 kind = random_.below(9);
    if (!world_.alive(entity))
        return;
    switch (kind) {
    case 0:
        world_.remove<Ammo>(entity);
        return;
    case 1:
        world_.remove<Barrel>(entity);
        return;
    case 2: // one goes and comes back in one tick
        world_.remove<Barrel>(entity);
        return put_barrel(entity);
    case 3:
        world_.remove<Ammo>(entity);
        world_.remove<Barrel>(entity);
        if (random_.chance(0.5))
            put_ammo(entity);
        return;
    case 4:
    case 5:
        return put_ammo(entity);
    case 6:
        return put_barrel(entity);
    default:
        put_barrel(entity);
        put_ammo(entity);
    }
}

} // namespace throng_sim
