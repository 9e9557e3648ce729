#pragma once
// Byte orders for pshufb that move packed 16-bit elements apart, to the places of a mask of eight.
#include "throng/base.hpp"

namespace throng {

struct Shuffles {
    alignas(16) u8 bytes[256][16];
};

extern const Shuffles unpack16_shuffles;

} // namespace throng
