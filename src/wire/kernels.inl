// Included once per instruction level, with KERNEL_NAMESPACE set. Must not use inline functions of other headers: the linker
// keeps one copy of such a function, which could be the one compiled for the other level.
#include "src/wire/kernels.hpp"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace throng::KERNEL_NAMESPACE {
namespace {

constexpr u32 lanes_all_count = 64;

// Vectors of the compiler's own kind: written out, since neither compiler finds these loops by itself.
#if defined(__AVX2__)
#define THRONG_VECTOR_BYTES 32
#else
#define THRONG_VECTOR_BYTES 16
#endif
using VecI16 = i16 __attribute__((vector_size(THRONG_VECTOR_BYTES)));
using VecU16 = u16 __attribute__((vector_size(THRONG_VECTOR_BYTES)));
using VecI32 = i32 __attribute__((vector_size(THRONG_VECTOR_BYTES)));
using VecU32 = u32 __attribute__((vector_size(THRONG_VECTOR_BYTES)));
constexpr u32 vec16_lanes = THRONG_VECTOR_BYTES / 2;
constexpr u32 vec32_lanes = THRONG_VECTOR_BYTES / 4;

// Element i has bit i.
alignas(32) constexpr u16 lane_bits16[16] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
alignas(32) constexpr u32 lane_bits32[8] = {1, 2, 4, 8, 16, 32, 64, 128};

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

LaneCodes codes16(const i16* current, const i16* prediction, u64 lanes, u32 difference_bits, u16* codes) {
    const u16 difference_mask = static_cast<u16>((u32{1} << difference_bits) - 1);
    const u16 sign = static_cast<u16>(u32{1} << (difference_bits - 1));
    VecU16 bits, any = {};
    __builtin_memcpy(&bits, lane_bits16, sizeof(bits));
    for (u32 i = 0; i < lanes_all_count; i += vec16_lanes) {
        VecU16 value, predicted;
        __builtin_memcpy(&value, current + i, sizeof(value));
        __builtin_memcpy(&predicted, prediction + i, sizeof(predicted));
        const VecU16 difference = (((value - predicted) & difference_mask) ^ sign) - sign; // sign-extended
        const VecU16 negative = reinterpret_cast<VecU16>(reinterpret_cast<VecI16>(difference) >> 15);
        const u16 chosen = static_cast<u16>(lanes >> i);
        const VecU16 wanted = reinterpret_cast<VecU16>((bits & chosen) == bits);
        const VecU16 code = ((difference + difference) ^ negative) & wanted;
        __builtin_memcpy(codes + i, &code, sizeof(code));
        any |= code;
    }
    u16 result = 0;
    for (u32 i = 0; i < vec16_lanes; ++i)
        result = static_cast<u16>(result | any[i]);
    return {result, nonzero16(codes)};
}

LaneCodes codes32(const i32* current, const i32* prediction, u64 lanes, u32 difference_bits, u32* codes) {
    const u32 difference_mask = static_cast<u32>((u64{1} << difference_bits) - 1);
    const u32 sign = u32{1} << (difference_bits - 1);
    VecU32 bits, any = {};
    __builtin_memcpy(&bits, lane_bits32, sizeof(bits));
    for (u32 i = 0; i < lanes_all_count; i += vec32_lanes) {
        VecU32 value, predicted;
        __builtin_memcpy(&value, current + i, sizeof(value));
        __builtin_memcpy(&predicted, prediction + i, sizeof(predicted));
        const VecU32 difference = (((value - predicted) & difference_mask) ^ sign) - sign;
        const VecU32 negative = reinterpret_cast<VecU32>(reinterpret_cast<VecI32>(difference) >> 31);
        const u32 chosen = static_cast<u32>(lanes >> i);
        const VecU32 wanted = reinterpret_cast<VecU32>((bits & chosen) == bits);
        const VecU32 code = ((difference + difference) ^ negative) & wanted;
        __builtin_memcpy(codes + i, &code, sizeof(code));
        any |= code;
    }
    u32 result = 0;
    for (u32 i = 0; i < vec32_lanes; ++i)
        result |= any[i];
    return {result, nonzero32(codes)};
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

bool within16(const i16* values, u64 lanes, i16 minimum, i16 maximum) {
    VecU16 bits, outside = {};
    __builtin_memcpy(&bits, lane_bits16, sizeof(bits));
    for (u32 i = 0; i < lanes_all_count; i += vec16_lanes) {
        VecI16 value;
        __builtin_memcpy(&value, values + i, sizeof(value));
        const u16 chosen = static_cast<u16>(lanes >> i);
        const VecU16 wanted = reinterpret_cast<VecU16>((bits & chosen) == bits);
        outside |= reinterpret_cast<VecU16>((value < minimum) | (value > maximum)) & wanted;
    }
    u16 result = 0;
    for (u32 i = 0; i < vec16_lanes; ++i)
        result = static_cast<u16>(result | outside[i]);
    return result == 0;
}

bool within32(const i32* values, u64 lanes, i32 minimum, i32 maximum) {
    VecU32 bits, outside = {};
    __builtin_memcpy(&bits, lane_bits32, sizeof(bits));
    for (u32 i = 0; i < lanes_all_count; i += vec32_lanes) {
        VecI32 value;
        __builtin_memcpy(&value, values + i, sizeof(value));
        const u32 chosen = static_cast<u32>(lanes >> i);
        const VecU32 wanted = reinterpret_cast<VecU32>((bits & chosen) == bits);
        outside |= reinterpret_cast<VecU32>((value < minimum) | (value > maximum)) & wanted;
    }
    u32 result = 0;
    for (u32 i = 0; i < vec32_lanes; ++i)
        result |= outside[i];
    return result == 0;
}

} // namespace

const Kernels table = {predict16, codes16, codes32, apply16, apply32, within16, within32};

} // namespace throng::KERNEL_NAMESPACE
