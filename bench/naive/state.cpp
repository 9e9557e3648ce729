#include "bench/naive/state.hpp"
#include "src/wire/quantise.hpp"

namespace naive {

State quantise(const scenarios::Position& position, const scenarios::Heading& heading, const scenarios::Velocity& velocity,
               const scenarios::Vitals& vitals) {
    constexpr double inverse = 1 / scenarios::wire_step_m;
    constexpr i64 far = 819'200, fast = 2047;
    State s;
    s.v[field_x] = static_cast<i32>(throng::quantise_range(static_cast<double>(position.x), inverse, -far, far));
    s.v[field_y] = static_cast<i32>(throng::quantise_range(static_cast<double>(position.y), inverse, -far, far));
    s.v[field_z] = static_cast<i32>(throng::quantise_range(static_cast<double>(position.z), inverse, -far, far));
    s.v[field_yaw] = static_cast<i32>(throng::quantise_angle(static_cast<double>(heading.yaw), yaw_bits));
    s.v[field_vx] = static_cast<i32>(throng::quantise_range(static_cast<double>(velocity.x), inverse, -fast, fast));
    s.v[field_vz] = static_cast<i32>(throng::quantise_range(static_cast<double>(velocity.z), inverse, -fast, fast));
    s.v[field_hp] = vitals.hp;
    s.v[field_state] = vitals.state;
    return s;
}

} // namespace naive
