#pragma once
// Numbers to wire steps and back. Private to the library's own sources on purpose: a host's compiler flags (-ffast-math, FMA
// contraction) must not change what is sent. The default floating-point rounding mode is expected.
#include "throng/base.hpp"
#include <cmath>

namespace throng {

inline constexpr double two_pi = 6.283185307179586476925286766559;

/// value * inverse_step rounded to the nearest integer (halves to even) and clamped to [minimum, maximum]; NaN gives the
/// integer of that interval nearest to 0. Sets `outside` if the value was not inside; never clears it.
inline i64 quantise_range(double value, double inverse_step, i64 minimum, i64 maximum, bool& outside) {
    const double steps = value * inverse_step;
    const double low = static_cast<double>(minimum), high = static_cast<double>(maximum);
    if (steps >= low && steps <= high)
        return std::llrint(steps);
    outside |= !(steps >= low - 0.5 && steps <= high + 0.5);
    return steps > high ? maximum : steps < low ? minimum : minimum > 0 ? minimum : maximum < 0 ? maximum : 0;
}
inline i64 quantise_range(double value, double inverse_step, i64 minimum, i64 maximum) {
    bool outside = false;
    return quantise_range(value, inverse_step, minimum, maximum, outside);
}
/// The value that `steps` stands for, in units.
inline double dequantise_range(i64 steps, double step) { return static_cast<double>(steps) * step; }

/// Radians to [0, 2^bits); any number of turns is wrapped, what is not finite gives 0. bits: 1..16.
inline u32 quantise_angle(double radians, u32 bits) {
    const double turns = radians / two_pi;
    const double fraction = turns - std::floor(turns); // exact, but 1 for tiny negative numbers: wrapped below
    if (!(fraction >= 0.0 && fraction <= 1.0))
        return 0;
    const u32 turn = 1u << bits;
    return static_cast<u32>(std::llrint(fraction * turn)) & (turn - 1);
}
/// Radians in [0, 2 pi).
inline double dequantise_angle(u32 steps, u32 bits) {
    const u32 turn = 1u << bits;
    return static_cast<double>(steps & (turn - 1)) / turn * two_pi; // the division is exact
}

} // namespace throng
