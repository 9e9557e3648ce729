// Included once per instruction level, with KERNEL_NAMESPACE set. Must not use inline functions of other headers: the linker
// keeps one copy of such a function, which could be the one compiled for the other level.
#include "src/wire/kernels.hpp"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace throng::KERNEL_NAMESPACE {
namespace {

constexpr u32 lanes_all_count = 64;

void predict16(const i16* __restrict base, const i16* __restrict velocity, u32 scale, i16* __restrict prediction) {
    // Bits 16..31 of the 64-bit product depend on the low 32 bits of the factors only.
    for (u32 i = 0; i < lanes_all_count; ++i) {
        const u32 product = static_cast<u32>(static_cast<i32>(velocity[i])) * scale;
        prediction[i] = static_cast<i16>(static_cast<u16>(base[i]) + static_cast<u16>(product >> 16));
    }
}

u64 nonzero16(const u16* codes) {
    u64 mask = 0;
    for (u32 i = 0; i < lanes_all_count; i += 16) {
#if defined(__SSE2__)
        const __m128i zero = _mm_setzero_si128();
        const __m128i low = _mm_cmpeq_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i)), zero);
        const __m128i high = _mm_cmpeq_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i + 8)), zero);
        const u32 zeros = static_cast<u32>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
        mask |= static_cast<u64>(~zeros & 0xffffu) << i;
#else
        for (u32 j = 0; j < 16; ++j)
            mask |= static_cast<u64>(codes[i + j] != 0) << (i + j);
#endif
    }
    return mask;
}

u64 nonzero32(const u32* codes) {
    u64 mask = 0;
    for (u32 i = 0; i < lanes_all_count; i += 4) {
#if defined(__SSE2__)
        const __m128i zeros = _mm_cmpeq_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i)), _mm_setzero_si128());
        mask |= static_cast<u64>(~_mm_movemask_ps(_mm_castsi128_ps(zeros)) & 0xf) << i;
#else
        for (u32 j = 0; j < 4; ++j)
            mask |= static_cast<u64>(codes[i + j] != 0) << (i + j);
#endif
    }
    return mask;
}

// Wrapped columns (angles) take a loop of their own: variable shifts of 16-bit elements do not vectorise well.
template <bool Wrapped>
u16 all_codes16(const i16* __restrict current, const i16* __restrict prediction, u64 lanes, u32 shift, u16* __restrict out) {
    u16 any = 0;
    for (u32 group = 0; group < lanes_all_count; group += 16) {
        const u16 bits = static_cast<u16>(lanes >> group);
        for (u32 j = 0; j < 16; ++j) {
            const u32 i = group + j;
            i16 difference = static_cast<i16>(static_cast<u16>(current[i]) - static_cast<u16>(prediction[i]));
            if (Wrapped)
                difference = static_cast<i16>(static_cast<i16>(static_cast<u16>(difference) << shift) >> shift);
            const u16 bit = static_cast<u16>(1u << j);
            const u16 keep = static_cast<u16>((bits & bit) == bit ? 0xffff : 0);
            const u16 code = static_cast<u16>(static_cast<u16>(static_cast<u16>(static_cast<u16>(difference) << 1) ^ static_cast<u16>(difference >> 15)) & keep);
            out[i] = code;
            any = static_cast<u16>(any | code);
        }
    }
    return any;
}

template <bool Wrapped>
u32 all_codes32(const i32* __restrict current, const i32* __restrict prediction, u64 lanes, u32 shift, u32* __restrict out) {
    u32 any = 0;
    for (u32 group = 0; group < lanes_all_count; group += 16) {
        const u32 bits = static_cast<u32>(lanes >> group) & 0xffff;
        for (u32 j = 0; j < 16; ++j) {
            const u32 i = group + j;
            i32 difference = static_cast<i32>(static_cast<u32>(current[i]) - static_cast<u32>(prediction[i]));
            if (Wrapped)
                difference = static_cast<i32>(static_cast<u32>(difference) << shift) >> shift;
            const u32 bit = 1u << j;
            const u32 keep = (bits & bit) == bit ? 0xffff'ffff : 0;
            const u32 code = (static_cast<u32>(difference) << 1 ^ static_cast<u32>(difference >> 31)) & keep;
            out[i] = code;
            any |= code;
        }
    }
    return any;
}

LaneCodes codes16(const i16* current, const i16* prediction, u64 lanes, u32 difference_bits, u16* codes) {
    const u32 shift = 16 - difference_bits;
    const u16 any =
        shift == 0 ? all_codes16<false>(current, prediction, lanes, 0, codes) : all_codes16<true>(current, prediction, lanes, shift, codes);
    return {any, nonzero16(codes)};
}

LaneCodes codes32(const i32* current, const i32* prediction, u64 lanes, u32 difference_bits, u32* codes) {
    const u32 shift = 32 - difference_bits;
    const u32 any =
        shift == 0 ? all_codes32<false>(current, prediction, lanes, 0, codes) : all_codes32<true>(current, prediction, lanes, shift, codes);
    return {any, nonzero32(codes)};
}

void apply16(const u16* __restrict codes, const i16* __restrict prediction, u16 value_mask, i16* __restrict out) {
    for (u32 i = 0; i < lanes_all_count; ++i) {
        const u16 code = codes[i];
        const u16 difference = static_cast<u16>(static_cast<u16>(code >> 1) ^ static_cast<u16>(0 - (code & 1)));
        out[i] = static_cast<i16>(static_cast<u16>(static_cast<u16>(prediction[i]) + difference) & value_mask);
    }
}

void apply32(const u32* __restrict codes, const i32* __restrict prediction, u32 value_mask, i32* __restrict out) {
    for (u32 i = 0; i < lanes_all_count; ++i) {
        const u32 difference = codes[i] >> 1 ^ (0 - (codes[i] & 1));
        out[i] = static_cast<i32>((static_cast<u32>(prediction[i]) + difference) & value_mask);
    }
}

bool within16(const i16* values, i16 minimum, i16 maximum) {
    u16 outside = 0;
    for (u32 i = 0; i < lanes_all_count; ++i)
        outside = static_cast<u16>(outside | static_cast<u16>(values[i] < minimum) | static_cast<u16>(values[i] > maximum));
    return outside == 0;
}

bool within32(const i32* values, i32 minimum, i32 maximum) {
    u32 outside = 0;
    for (u32 i = 0; i < lanes_all_count; ++i)
        outside |= static_cast<u32>(values[i] < minimum) | static_cast<u32>(values[i] > maximum);
    return outside == 0;
}

} // namespace

const Kernels table = {predict16, codes16, codes32, apply16, apply32, within16, within32};

} // namespace throng::KERNEL_NAMESPACE
