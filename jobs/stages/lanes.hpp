#pragma once
// Lanes taken and left, and what clusters of related entities (clusters.cpp) add to that. Parts of the structure stage: serial.
#include "src/server/state.hpp"

namespace throng {

struct Target { // where an entity belongs
    bool spatial = false;
    u32 cell = 0;
};

// structure.cpp
Target target_of(ServerState& state, u32 entity_idx);
InterestGrid::ChunkList& list_of(ServerState& state, Target target);
/// A new chunk; no_chunk when chunks_max is reached.
u32 add_chunk(ServerState& state, Target target);
/// An entity with a lane, or without, gets one of this chunk, in which there is a free one.
void move_into(ServerState& state, u32 entity_idx, u32 chunk);
/// By its own place, if that is not in its cell.
void move_alone(ServerState& state, u32 entity_idx);

// clusters.cpp
/// Looks where the entity's related fields lead now.
void relink(ServerState& state, u32 entity_idx);
/// The lane goes with no others any more.
void untie(ServerState& state, Chunk& chunk, u32 lane);
/// Gives the entities of each cluster that has changed lanes of one chunk, and those that are in none any more lanes of their own.
void place_clusters(ServerState& state);

} // namespace throng
