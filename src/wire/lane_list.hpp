#pragma once
// The lanes that a column has values for, in wire order.
#include "throng/base.hpp"

namespace throng {

struct LaneList {
    u64 mask = 0;
    u32 count = 0;
    /// The first `count` count; up to the next multiple of 8 the last lane is repeated, so that lanes can be taken by eights.
    alignas(8) u8 lane[64];

    void set(u64 lanes) {
        mask = lanes;
        count = 0;
        u8 last = 0;
        for (; lanes != 0; lanes &= lanes - 1)
            lane[count++] = last = static_cast<u8>(__builtin_ctzll(lanes));
        for (u32 i = count; i % 8 != 0; ++i)
            lane[i] = last;
    }
};

} // namespace throng
