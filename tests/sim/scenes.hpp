#pragma once
// Scenes of what a world of the simulator holds, its resources included: saved in both forms, loaded into new worlds and into ones that
// go on, and compared.
#include "tests/sim/peer.hpp"

namespace throng_sim {

/// `build`: of the protocol. `also`: entities to save beside those that have Replicated. `who`: for messages.
void check_scenes(const throng::World& world, const throng::Protocol& protocol, const Build& build, std::span<const throng::Entity> also,
                  const std::string& who, Random& random, Failure& failure);

/// What a client shows, without what resources travel with.
std::vector<throng::Entity> shown_entities(const Peer& peer);

} // namespace throng_sim
