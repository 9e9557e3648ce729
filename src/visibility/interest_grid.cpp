#include "src/visibility/interest_grid.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <bit>
#include <cmath>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace throng {

InterestGrid::InterestGrid(Allocator allocator) : lists_(allocator) {}

namespace {
i32 floor_divide(i32 value, i32 by) {
    const i32 quotient = value / by;
    return value % by < 0 ? quotient - 1 : quotient;
}
} // namespace

bool InterestGrid::configure(i32 min_steps, i32 max_steps, i32 cell_steps, i32 radius_min_steps, u32 cells_max) {
    THRONG_ASSERT(cell_steps >= place_units && min_steps < max_steps);
    cell_steps_ = cell_steps;
    min_steps_ = min_steps;
    max_steps_ = max_steps;
    first_ = floor_divide(min_steps, cell_steps);
    const i64 side = i64(floor_divide(max_steps, cell_steps)) - first_ + 1;
    if (side * side > i64(cells_max))
        return false;
    side_ = static_cast<i32>(side);
    lists_.resize(static_cast<u32>(side * side));
    hold_steps_ = static_cast<i32>(radius_min_steps * 0.04);
    cell_margin_steps_ = std::max(1, std::min(cell_steps / 32, static_cast<i32>(radius_min_steps * 0.02)));
    for (sub_cells_ = 1; sub_cells_ <= 64; sub_cells_ *= 2) {
        sub_units_ = place_units / static_cast<i32>(sub_cells_);
        sub_units_log2_ = static_cast<u32>(std::countr_zero(static_cast<u32>(sub_units_)));
        sub_steps_ = cell_steps / static_cast<i32>(sub_cells_);
        // What the promise pays for cells is free for sub-cells: who swings at an edge of either does not flicker.
        sub_margin_steps_ = std::max(cell_margin_steps_, cell_steps / static_cast<i32>(sub_cells_) / 16);
        if (promise_holds(radius_min_steps))
            return true;
    }
    return false;
}

bool InterestGrid::promise_holds(i32 radius_steps) const {
    const double half =
        0.5 * cell_steps_ / sub_cells_ + std::max(cell_margin_steps_, sub_margin_steps_) + double(cell_steps_) / place_units;
    const double error = half * 1.4143 + hold_steps_ * 1.4143;
    return error <= std::min(visible_ratio - promise_near, promise_far - visible_ratio) * radius_steps;
}

i32 InterestGrid::coordinate(i32 steps) const {
    return floor_divide(std::clamp(steps, min_steps_, max_steps_), cell_steps_) - first_;
}

u8 InterestGrid::new_place(i32 relative_steps) const {
    const i32 sub = std::clamp(floor_divide(relative_steps, std::max(1, sub_steps_)), 0, static_cast<i32>(sub_cells_) - 1);
    return static_cast<u8>(sub * sub_units_ + sub_units_ / 2);
}

void InterestGrid::cells_in_circle(i32 a, i32 b, i32 radius_steps, Array<u32>& out) const {
    const i64 reach = i64(radius_steps);
    const i32 low_a = coordinate(static_cast<i32>(std::max<i64>(a - reach, min_steps_)));
    const i32 high_a = coordinate(static_cast<i32>(std::min<i64>(a + reach, max_steps_)));
    const i32 low_b = coordinate(static_cast<i32>(std::max<i64>(b - reach, min_steps_)));
    const i32 high_b = coordinate(static_cast<i32>(std::min<i64>(b + reach, max_steps_)));
    for (i32 cell_b = low_b; cell_b <= high_b; ++cell_b)
        for (i32 cell_a = low_a; cell_a <= high_a; ++cell_a) {
            const i64 origin_a = i64(cell_a + first_) * cell_steps_, origin_b = i64(cell_b + first_) * cell_steps_;
            const i64 da = std::max<i64>({origin_a - a, 0, a - (origin_a + cell_steps_)});
            const i64 db = std::max<i64>({origin_b - b, 0, b - (origin_b + cell_steps_)});
            if (da * da + db * db <= reach * reach)
                out.push_back(index(cell_a, cell_b));
        }
}

u64 lanes_in_circle(const LanePlaces& places, u64 alive, i32 a, i32 b, i32 radius_units) {
    // The whole cell inside or outside: no look at the lanes.
    const i32 far_a = std::max(std::abs(a), std::abs(a - place_units)), far_b = std::max(std::abs(b), std::abs(b - place_units));
    const i64 reach = i64(radius_units) * radius_units;
    if (i64(far_a) * far_a + i64(far_b) * far_b <= reach)
        return alive;
    const i32 near_a = std::max({-a, 0, a - place_units}), near_b = std::max({-b, 0, b - place_units});
    if (i64(near_a) * near_a + i64(near_b) * near_b > reach)
        return 0;
    u64 inside = 0;
#if defined(__SSE2__)
    const __m128i zero = _mm_setzero_si128();
    const __m128i centre_a = _mm_set1_epi16(static_cast<i16>(a)), centre_b = _mm_set1_epi16(static_cast<i16>(b));
    const __m128i limit = _mm_set1_epi32(static_cast<i32>(std::min<i64>(reach, 0x7ffffffe)));
    for (u32 lane = 0; lane < 64; lane += 8) {
        const __m128i pa = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(places.a + lane));
        const __m128i pb = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(places.b + lane));
        const __m128i da = _mm_sub_epi16(_mm_unpacklo_epi8(pa, zero), centre_a);
        const __m128i db = _mm_sub_epi16(_mm_unpacklo_epi8(pb, zero), centre_b);
        const __m128i low = _mm_unpacklo_epi16(da, db), high = _mm_unpackhi_epi16(da, db);
        const __m128i out_low = _mm_cmpgt_epi32(_mm_madd_epi16(low, low), limit);
        const __m128i out_high = _mm_cmpgt_epi32(_mm_madd_epi16(high, high), limit);
        const u32 outside = static_cast<u32>(_mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(out_low, out_high), zero)));
        inside |= u64(~outside & 0xffu) << lane;
    }
#else
    for (u32 lane = 0; lane < 64; ++lane) {
        const i32 da = places.a[lane] - a, db = places.b[lane] - b;
        inside |= u64(i64(da) * da + i64(db) * db <= reach) << lane;
    }
#endif
    return inside & alive;
}

} // namespace throng
