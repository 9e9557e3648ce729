#pragma once
// A hash of what a client shows, which both sides compute: the server of what the client should show at a settled tick, the
// client of what it does show. Clients see different subsets, so it is a sum over lanes and components.
#include "src/registry/section.hpp"

namespace throng {

/// Wrapping sum over `lanes` (all alive in `state`) of one term per component that is present and one for the lane itself.
/// opaque_hashes[component]: XXH3-64 of the lane's bytes, for opaque components (null for others). Allocates: no.
u64 state_hash_lanes(const Layout& layout, u32 chunk, const ChunkState& state, u64 lanes, const u64* const* opaque_hashes);
u64 state_hash_lanes(const Layout& layout, u32 chunk, const OccupantBlock& occupants, const RowState& state, u64 lanes,
                     const u64* const* opaque_hashes);

/// The hash of an opaque component's bytes.
u64 opaque_hash(const std::byte* bytes, std::size_t count);

} // namespace throng
