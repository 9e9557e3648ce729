// Server::apply_diff: an op is done to the world's component, and written down for capture (src/server/op_queue.hpp).
#include "src/registry/op_apply.hpp"
#include "src/server/state.hpp"

namespace throng {

Error Server::apply_op(ComponentId component, Entity entity, const void* op_type, const void* op) {
    ServerState& state = *state_;
    const ComponentInfo* info = nullptr;
    if (const Error error = throng::apply_op(state.world, state.layout, component, entity, op_type, op, info); error != Error::none)
        return error;
    if (info->resource.mut)
        entity = resource_entity();
    if (!entity)
        return Error::none; // a resource that no client has heard of
    const DiffFunctions& diffs = info->diffs;
    state.op_room.resize(info->opaque_bytes_max);
    const u32 bytes = diffs.write(diffs.serialize, op, {state.op_room.data(), info->opaque_bytes_max});
    // What is not written down makes capture find that the component has changed otherwise.
    if (bytes <= info->opaque_bytes_max && state.ops.bytes() + bytes <= state.config.diff_tick_bytes_max)
        state.ops.add(entity.entity_idx, component, diffs, {state.op_room.data(), bytes});
    return Error::none;
}

} // namespace throng
