#pragma once
// Entities of which nothing is sent for a while.
#include "throng/base.hpp"

namespace throng {

/// Tag component of a replicated entity: nothing of it is sent while it has the tag. Clients keep it as it was at the tick before it was
/// paused, and that arrives in any case, again if it was lost. Neither changes nor moves are told, nor that it went out of sight, was
/// hidden or shown; clients that did not see it do not get it.
///
///     world.add<Paused>(crate);
///     world.remove<Paused>(crate); // goes on as the same entity: clients get what is different then, removals included
///
/// An entity that is destroyed while it is paused stays on the clients that have it, until they destroy it or their connection ends; its
/// lane is kept for so long. Losing Replicated ends it as always. One that has the tag when it becomes replicated is not replicated
/// before it has lost the tag. The tag itself is not sent.
struct Paused {};

} // namespace throng
