#include "src/registry/op_apply.hpp"
#include "throng/world.hpp"

namespace throng {

Error apply_op(World& world, const Layout& layout, ComponentId component, Entity entity, const void* op_type, const void* op,
               const ComponentInfo*& info) {
    info = nullptr;
    for (i32 c = component < std::size(layout.index_of) ? layout.index_of[component] : -1; c >= 0 && !info; c = layout.next_of_type[c])
        if (layout.components[c].info->diffs.op_type == op_type)
            info = layout.components[c].info;
    if (!info)
        return Error::bad_value;
    PoolBase* const pool = world.pool_of(component);
    u32 row = no_row;
    void* object = nullptr;
    if (info->resource.mut) {
        object = info->resource.mut(world);
    } else if (world.alive(entity) && pool) {
        row = world.dense_index(entity.entity_idx, component);
        object = row != no_row ? pool->row(row) : nullptr;
    }
    if (!object)
        return Error::bad_value;
    const Error error = info->diffs.apply_op(info->diffs.apply, object, op);
    if (error == Error::none && row != no_row)
        pool->mark_changed(row);
    return error;
}

} // namespace throng
