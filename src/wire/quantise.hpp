#pragma once
// Numbers to wire steps and back. Out of line on purpose: a host's compiler flags (-ffast-math, FMA contraction) must not
// change what is sent. The default floating-point rounding mode is expected.
#include "throng/base.hpp"

namespace throng {

/// value * inverse_step rounded to the nearest integer (halves to even) and clamped to [minimum, maximum]; NaN gives the
/// integer of that interval nearest to 0.
i64 quantise_range(double value, double inverse_step, i64 minimum, i64 maximum);
/// The value that `steps` stands for, in units.
double dequantise_range(i64 steps, double step);

/// Radians to [0, 2^bits); any number of turns is wrapped, what is not finite gives 0. bits: 1..16.
u32 quantise_angle(double radians, u32 bits);
/// Radians in [0, 2 pi).
double dequantise_angle(u32 steps, u32 bits);

} // namespace throng
