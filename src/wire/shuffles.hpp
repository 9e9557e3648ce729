#pragma once
// Byte orders for pshufb that move the 16-bit elements of a mask of eight together, or apart again.
#include "throng/base.hpp"

namespace throng {

struct Shuffles {
    alignas(16) u8 bytes[256][16];
};

extern const Shuffles pack16_shuffles;
extern const Shuffles unpack16_shuffles;

} // namespace throng
