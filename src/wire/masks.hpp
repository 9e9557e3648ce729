#pragma once
// Lane masks on the wire (docs/wire.md 2 and 2.2).
#include "throng/wire.hpp"

namespace throng {

/// Rice parameter for `count` (>= 1) lanes whose gaps add up to `gap_sum`.
u32 lane_mask_rice_bits(u32 count, u32 gap_sum);
/// Writes a lane mask, not empty.
void write_lane_mask(BitWriter& writer, u64 lanes);
/// Reads a lane mask; 0 means that the bits are not what write_lane_mask makes (or that the stream ended).
u64 read_lane_mask(BitReader& reader);

/// Most bytes of a byte mask.
inline constexpr u32 byte_mask_bytes_max = 9;
/// Writes a 64-bit mask as one byte that says which of its bytes are not zero, then those. Returns the byte count.
u32 write_byte_mask(std::span<std::byte, byte_mask_bytes_max> out, u64 mask);
/// Reads one from the front of `in` and moves `in` behind it. bad_value for a byte that is zero though announced, and for
/// an empty mask.
Error read_byte_mask(std::span<const std::byte>& in, u64& mask);

} // namespace throng
