// Resources of the server's world become components of one entity, which then go the way of all components.
#include "src/server/state.hpp"
#include <bit>

namespace throng {

void publish_resources(ServerState& state) {
    World& world = state.world;
    Entity& entity = state.resource_entity;
    bool any = false;
    const bool anew = !world.alive(entity); // never made, or the host has ended it
    for (u32 left = state.layout.resources; left; left &= left - 1) {
        const u32 c = static_cast<u32>(std::countr_zero(left));
        const ResourceAccess& resource = state.layout.components[c].info->resource;
        const bool has = resource.get(world) != nullptr;
        any |= has;
        const u32 version = resource.version(world);
        if (!anew && version == state.resource_versions[c])
            continue;
        if (has && !world.alive(entity))
            entity = world.spawn(Replicated{}, ResourceEntity{});
        if (!world.alive(entity))
            continue; // nothing to publish, or entities_max: tried again
        resource.publish(world, entity);
        state.resource_versions[c] = version;
    }
    if (!any && !state.keep_resource_entity && world.alive(entity)) {
        if (!world.has<Replicated>(entity))
            end_in_tick(state, entity); // it is paused, and clients would keep it
        world.destroy(entity);
    }
}

void find_resource_entity(ServerState& state) {
    const Pool<ResourceEntity>* const tagged = state.world.find_pool<ResourceEntity>();
    state.resource_entity = tagged && tagged->size() > 0 ? state.world.entity_at(tagged->owner(0)) : Entity{};
    for (u32 left = state.layout.resources; left; left &= left - 1) {
        const ComponentInfo& info = *state.layout.components[static_cast<u32>(std::countr_zero(left))].info;
        state.resource_versions[std::countr_zero(left)] = info.resource.version(state.world) - 1;
    }
}

Entity Server::resource_entity() const {
    return state_->world.alive(state_->resource_entity) ? state_->resource_entity : Entity{};
}

Entity Server::keep_resource_entity() {
    ServerState& state = *state_;
    if (state.layout.resources == 0)
        return {};
    state.keep_resource_entity = true;
    if (!state.world.alive(state.resource_entity)) {
        find_resource_entity(state);
        if (!state.world.alive(state.resource_entity))
            state.resource_entity = state.world.spawn(Replicated{}, ResourceEntity{});
    }
    return resource_entity();
}

} // namespace throng
