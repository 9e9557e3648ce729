#pragma once
// Which clients may see an entity at all, wherever they look. Interest (View) says what is near; this says what is allowed.
#include "throng/base.hpp"

namespace throng {

/// Component of a replicated entity: the layers that a client must be on, or must not be on, to see it. There are 64 layers, and what
/// they mean is the game's: teams, parallel worlds, those who have found a secret, administrators. A client's layers are set by
/// View::set_layers; a new client is on none. An entity without this component may be seen by all.
///
///     world.add<VisibleTo>(flag, {.any_of = red_team | blue_team, .none_of = blinded});
///
/// Exact, from the next tick on: who may not see the entity is sent nothing of it, and is told that it is gone if it had it. Change it
/// through marking accessors (mut, add, each_mut). It is not sent. Cost: a test for each entity that has it, where a client's view or the
/// entity's chunk changes; none for others.
struct VisibleTo {
    u64 all_of = 0;  // the client must be on each of these
    u64 any_of = 0;  // and on one of these; 0: no condition
    u64 none_of = 0; // and on none of these

    constexpr bool allows(u64 layers) const {
        return (all_of & ~layers) == 0 && (any_of == 0 || (any_of & layers) != 0) && (none_of & layers) == 0;
    }
    friend constexpr bool operator==(const VisibleTo&, const VisibleTo&) = default;
};

/// Component of a replicated entity: only clients in the group (Server::make_group) see it. There may be any number of groups, and a
/// client may be in several. One that is dropped has no members; its id may be given to the next group. As exact as VisibleTo, and not
/// sent either.
struct VisibleToGroup {
    GroupId group = 0;
    friend constexpr bool operator==(const VisibleToGroup&, const VisibleToGroup&) = default;
};

} // namespace throng
