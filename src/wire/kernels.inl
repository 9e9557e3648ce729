// Included once per instruction level, with KERNEL_NAMESPACE set. Must not use inline functions of other headers: the linker
// keeps one copy of such a function, which could be the one compiled for the other level.
#include "src/wire/kernels.hpp"
#include "src/wire/shuffles.hpp"
#if defined(__SSSE3__)
#include <tmmintrin.h>
#endif

namespace throng::KERNEL_NAMESPACE {
namespace {

constexpr u32 lanes_all_count = 64;

// Moves the 16-bit elements of `lanes` together. Writes whole vectors; `packed` has code_capacity elements. Zeros follow.
u32 pack16(const u16* elements, u64 lanes, u16* packed) {
    u32 count = 0;
    for (u32 group = 0; group < 8; ++group) {
        const u32 mask = static_cast<u32>(lanes >> (8 * group)) & 0xff;
#if defined(__SSSE3__)
        const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(elements + 8 * group));
        const __m128i order = _mm_load_si128(reinterpret_cast<const __m128i*>(pack16_shuffles.bytes[mask]));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(packed + count), _mm_shuffle_epi8(values, order));
        count += static_cast<u32>(__builtin_popcount(mask));
#else
        for (u32 i = 0; i < 8; ++i)
            if (mask >> i & 1)
                packed[count++] = elements[8 * group + i];
#endif
    }
    for (u32 i = 0; i < 16; ++i)
        packed[count + i] = 0;
    return count;
}

// Spreads packed elements to their lanes; the others become zero.
void unpack16(const u16* packed, u64 lanes, u16* elements) {
    u32 count = 0;
    for (u32 group = 0; group < 8; ++group) {
        const u32 mask = static_cast<u32>(lanes >> (8 * group)) & 0xff;
#if defined(__SSSE3__)
        const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + count));
        const __m128i order = _mm_load_si128(reinterpret_cast<const __m128i*>(unpack16_shuffles.bytes[mask]));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(elements + 8 * group), _mm_shuffle_epi8(values, order));
        count += static_cast<u32>(__builtin_popcount(mask));
#else
        for (u32 i = 0; i < 8; ++i)
            elements[8 * group + i] = mask >> i & 1 ? packed[count++] : u16{0};
#endif
    }
}

u32 pack32(const u32* elements, u64 lanes, u32* packed) {
    u32 count = 0;
    for (u32 group = 0; group < 16; ++group) {
        const u32 mask = static_cast<u32>(lanes >> (4 * group)) & 0xf;
#if defined(__SSSE3__)
        const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(elements + 4 * group));
        const __m128i order = _mm_load_si128(reinterpret_cast<const __m128i*>(pack32_shuffles.bytes[mask]));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(packed + count), _mm_shuffle_epi8(values, order));
        count += static_cast<u32>(__builtin_popcount(mask));
#else
        for (u32 i = 0; i < 4; ++i)
            if (mask >> i & 1)
                packed[count++] = elements[4 * group + i];
#endif
    }
    for (u32 i = 0; i < 16; ++i)
        packed[count + i] = 0;
    return count;
}

void unpack32(const u32* packed, u64 lanes, u32* elements) {
    u32 count = 0;
    for (u32 group = 0; group < 16; ++group) {
        const u32 mask = static_cast<u32>(lanes >> (4 * group)) & 0xf;
#if defined(__SSSE3__)
        const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + count));
        const __m128i order = _mm_load_si128(reinterpret_cast<const __m128i*>(unpack32_shuffles.bytes[mask]));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(elements + 4 * group), _mm_shuffle_epi8(values, order));
        count += static_cast<u32>(__builtin_popcount(mask));
#else
        for (u32 i = 0; i < 4; ++i)
            elements[4 * group + i] = mask >> i & 1 ? packed[count++] : u32{0};
#endif
    }
}

void predict16(const i16* base, const i16* velocity, u32 scale, i16* prediction) {
    // Bits 16..31 of the 64-bit product depend on the low 32 bits of the factors only.
    for (u32 i = 0; i < lanes_all_count; ++i) {
        const u32 product = static_cast<u32>(static_cast<i32>(velocity[i])) * scale;
        prediction[i] = static_cast<i16>(static_cast<u16>(base[i]) + static_cast<u16>(product >> 16));
    }
}

u16 codes16(const i16* current, const i16* prediction, u64 lanes, u32 difference_bits, u16* codes) {
    const u32 shift = 16 - difference_bits;
    alignas(32) u16 all[lanes_all_count];
    u16* out = lanes == ~u64{0} ? codes : all;
    u16 any = 0;
    for (u32 i = 0; i < lanes_all_count; ++i) {
        const u16 raw = static_cast<u16>(static_cast<u16>(current[i]) - static_cast<u16>(prediction[i]));
        const i16 difference = static_cast<i16>(static_cast<i16>(static_cast<u16>(raw << shift)) >> shift);
        const u16 code = static_cast<u16>(static_cast<u16>(static_cast<u16>(difference) << 1) ^ static_cast<u16>(difference >> 15));
        out[i] = code;
        any = static_cast<u16>(any | code);
    }
    if (lanes == ~u64{0})
        return any;
    const u32 count = pack16(all, lanes, codes);
    any = 0;
    for (u32 i = 0; i < count; i += 16)
        for (u32 j = 0; j < 16; ++j)
            any = static_cast<u16>(any | codes[i + j]);
    return any;
}

u32 codes32(const i32* current, const i32* prediction, u64 lanes, u32 difference_bits, u32* codes) {
    const u32 shift = 32 - difference_bits;
    alignas(32) u32 all[lanes_all_count];
    u32* out = lanes == ~u64{0} ? codes : all;
    u32 any = 0;
    for (u32 i = 0; i < lanes_all_count; ++i) {
        const u32 raw = static_cast<u32>(current[i]) - static_cast<u32>(prediction[i]);
        const i32 difference = static_cast<i32>(raw << shift) >> shift;
        const u32 code = static_cast<u32>(difference) << 1 ^ static_cast<u32>(difference >> 31);
        out[i] = code;
        any |= code;
    }
    if (lanes == ~u64{0})
        return any;
    const u32 count = pack32(all, lanes, codes);
    any = 0;
    for (u32 i = 0; i < count; i += 16)
        for (u32 j = 0; j < 16; ++j)
            any |= codes[i + j];
    return any;
}

u64 nonzero16(const u16* codes, u32 count) {
    u64 mask = 0;
    for (u32 i = 0; i < count; i += 16) {
#if defined(__SSSE3__)
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

u64 nonzero32(const u32* codes, u32 count) {
    u64 mask = 0;
    for (u32 i = 0; i < count; ++i)
        mask |= static_cast<u64>(codes[i] != 0) << i;
    return mask;
}

void apply16(const u16* codes, const i16* prediction, u64 lanes, u16 value_mask, i16* out) {
    alignas(32) u16 all[lanes_all_count];
    const u16* in = codes;
    if (lanes != ~u64{0}) {
        unpack16(codes, lanes, all);
        in = all;
    }
    for (u32 i = 0; i < lanes_all_count; ++i) {
        const u16 code = in[i];
        const u16 difference = static_cast<u16>(static_cast<u16>(code >> 1) ^ static_cast<u16>(0 - (code & 1)));
        out[i] = static_cast<i16>(static_cast<u16>(static_cast<u16>(prediction[i]) + difference) & value_mask);
    }
}

void apply32(const u32* codes, const i32* prediction, u64 lanes, u32 value_mask, i32* out) {
    alignas(32) u32 all[lanes_all_count];
    const u32* in = codes;
    if (lanes != ~u64{0}) {
        unpack32(codes, lanes, all);
        in = all;
    }
    for (u32 i = 0; i < lanes_all_count; ++i) {
        const u32 difference = in[i] >> 1 ^ (0 - (in[i] & 1));
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

const Kernels table = {predict16, codes16, codes32, nonzero16, nonzero32, apply16, apply32, within16, within32};

} // namespace throng::KERNEL_NAMESPACE
