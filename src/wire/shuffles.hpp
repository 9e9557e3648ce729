#pragma once
// Byte orders for pshufb that move the elements of a mask together, or apart.
#include "throng/base.hpp"

namespace throng {

template <u32 Masks>
struct Shuffles {
    alignas(16) u8 bytes[Masks][16];
};

extern const Shuffles<256> pack16_shuffles;   // 8 elements of 16 bits
extern const Shuffles<256> unpack16_shuffles;
extern const Shuffles<16> pack32_shuffles;    // 4 elements of 32 bits
extern const Shuffles<16> unpack32_shuffles;

} // namespace throng
