#pragma once
// The codes of some lanes in a bit stream: `width` bits each, in lane order. Arrays of codes have 64 elements.
#include "throng/wire.hpp"

namespace throng {

/// Codes outside `lanes` become 0. width: 1..16, 1..32, 1..64.
void get_lane_codes(BitReader& reader, u16* codes, u64 lanes, u32 width);
void get_lane_codes(BitReader& reader, u32* codes, u64 lanes, u32 width);
void get_lane_codes(BitReader& reader, u64* codes, u64 lanes, u32 width);

} // namespace throng
