#pragma once
// An op of the game is done to a component or resource of its world (OpaqueBuilder::diffs), with or without a server.
#include "src/registry/layout.hpp"

namespace throng {

/// Does the op and marks what it was done to. The registration whose op it is, in `info`, unless that is bad_value: a dead entity, one
/// without the component, no such resource, or no registration with diffs of this type. What `apply` returns is returned.
Error apply_op(World& world, const Layout& layout, ComponentId component, Entity entity, const void* op_type, const void* op,
               const ComponentInfo*& info);

} // namespace throng
