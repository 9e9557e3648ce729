#include "src/wire/quantise.hpp"
#include <cmath>

namespace throng {
namespace {
constexpr double two_pi = 6.283185307179586476925286766559;
}

i64 quantise_range(double value, double inverse_step, i64 minimum, i64 maximum) {
    const double steps = value * inverse_step;
    if (steps != steps)
        return minimum > 0 ? minimum : maximum < 0 ? maximum : 0;
    if (steps <= static_cast<double>(minimum))
        return minimum;
    if (steps >= static_cast<double>(maximum))
        return maximum;
    return static_cast<i64>(std::nearbyint(steps));
}

double dequantise_range(i64 steps, double step) { return static_cast<double>(steps) * step; }

u32 quantise_angle(double radians, u32 bits) {
    const u32 turn = 1u << bits;
    const double turns = radians / two_pi;
    const double fraction = turns - std::floor(turns); // exact, but 1 for tiny negative numbers: wrapped below
    if (!(fraction >= 0.0 && fraction <= 1.0))
        return 0;
    return static_cast<u32>(std::nearbyint(fraction * turn)) & (turn - 1);
}

double dequantise_angle(u32 steps, u32 bits) {
    const u32 turn = 1u << bits;
    return static_cast<double>(steps & (turn - 1)) / turn * two_pi; // the division is exact
}

} // namespace throng
