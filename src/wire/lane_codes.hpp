#pragma once
// The codes of some lanes in a bit stream: `width` bits each, in lane order. Arrays of codes have 64 elements.
#include "throng/wire.hpp"

namespace throng {

/// Every code outside `lanes` is ignored; those inside are below 2^width. width: 1..16, 1..32, 1..64.
void put_lane_codes(BitWriter& writer, const u16* codes, u64 lanes, u32 width);
void put_lane_codes(BitWriter& writer, const u32* codes, u64 lanes, u32 width);
void put_lane_codes(BitWriter& writer, const u64* codes, u64 lanes, u32 width);

/// Codes outside `lanes` become 0.
void get_lane_codes(BitReader& reader, u16* codes, u64 lanes, u32 width);
void get_lane_codes(BitReader& reader, u32* codes, u64 lanes, u32 width);
void get_lane_codes(BitReader& reader, u64* codes, u64 lanes, u32 width);

} // namespace throng
