// Server::apply_diff: an op is done to the world's component, and written down for capture (src/server/op_queue.hpp).
#include "src/server/state.hpp"

namespace throng {

Error Server::apply_op(ComponentId component, Entity entity, const void* op_type, const void* op) {
    ServerState& state = *state_;
    World& world = state.world;
    const ComponentInfo* info = nullptr;
    for (i32 c = component < std::size(state.layout.index_of) ? state.layout.index_of[component] : -1; c >= 0 && !info;
         c = state.layout.next_of_type[c])
        if (state.layout.components[c].info->diffs.op_type == op_type)
            info = state.layout.components[c].info;
    if (!info)
        return Error::bad_value;
    const DiffFunctions& diffs = info->diffs;
    PoolBase* const pool = world.pool_of(component);
    u32 row = no_row;
    void* object = nullptr;
    if (info->resource.mut) {
        object = info->resource.mut(world);
        entity = resource_entity();
    } else if (world.alive(entity) && pool) {
        row = world.dense_index(entity.entity_idx, component);
        object = row != no_row ? pool->row(row) : nullptr;
    }
    if (!object)
        return Error::bad_value;
    if (const Error error = diffs.apply_op(diffs.apply, object, op); error != Error::none)
        return error;
    if (row != no_row)
        pool->mark_changed(row);
    if (!entity)
        return Error::none; // a resource that no client has heard of
    state.op_room.resize(info->opaque_bytes_max);
    const u32 bytes = diffs.write(diffs.serialize, op, {state.op_room.data(), info->opaque_bytes_max});
    // What is not written down makes capture find that the component has changed otherwise.
    if (bytes <= info->opaque_bytes_max && state.ops.bytes() + bytes <= state.config.diff_tick_bytes_max)
        state.ops.add(entity.entity_idx, component, diffs, {state.op_room.data(), bytes});
    return Error::none;
}

} // namespace throng
