#include "src/wire/lane_codes.hpp"
#include "src/wire/shuffles.hpp"
#include <algorithm>
#include <bit>
#if defined(__SSSE3__)
#include <tmmintrin.h>
#endif

namespace throng {
namespace {

static_assert(std::endian::native == std::endian::little, "codes are merged four at a time");

// The inverse of merging four 16-bit codes of `width` bits into 4 * width bits.
inline u64 split4(u64 x, u32 width) {
    const u64 value_mask = detail::low_bits(width) * 0x0000'0001'0000'0001;
    x = (x & detail::low_bits(2 * width)) | x >> (2 * width) << 32;
    return (x & value_mask) | (x >> width & value_mask) << 16;
}

// Eight codes, of which those in `mask` move together; the rest becomes 0.
struct Eight {
    u64 low = 0, high = 0;
};
inline void unpack8(Eight packed, u32 mask, u16* codes) {
#if defined(__SSSE3__)
    const __m128i order = _mm_load_si128(reinterpret_cast<const __m128i*>(unpack16_shuffles.bytes[mask]));
    const __m128i values = _mm_set_epi64x(static_cast<i64>(packed.high), static_cast<i64>(packed.low));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), _mm_shuffle_epi8(values, order));
#else
    u32 count = 0;
    for (u32 i = 0; i < 8; ++i) {
        codes[i] = 0;
        if (mask >> i & 1) {
            codes[i] = static_cast<u16>((count < 4 ? packed.low : packed.high) >> (16 * (count & 3)));
            ++count;
        }
    }
#endif
}

inline u64 get_bits(BitReader& reader, u32 bits) {
    return bits <= 56 && reader.can_load() ? reader.get_loaded(bits) : reader.get(bits);
}

} // namespace

void get_lane_codes(BitReader& in, u16* codes, u64 lanes, u32 width) {
    BitReader reader = in;
    for (u32 group = 0; group < 64; group += 8) {
        const u32 mask = static_cast<u32>(lanes >> group) & 0xff;
        const u32 count = static_cast<u32>(std::popcount(mask));
        Eight packed;
        packed.low = split4(get_bits(reader, std::min(count, 4u) * width), width);
        if (count > 4)
            packed.high = split4(get_bits(reader, (count - 4) * width), width);
        unpack8(packed, mask, codes + group);
    }
    in = reader;
}

void get_lane_codes(BitReader& in, u32* codes, u64 lanes, u32 width) {
    if (width <= 16) {
        u16 narrow[64];
        get_lane_codes(in, narrow, lanes, width);
        for (u32 i = 0; i < 64; ++i)
            codes[i] = narrow[i];
        return;
    }
    BitReader reader = in;
    std::fill_n(codes, 64, 0u);
    for (; lanes != 0; lanes &= lanes - 1)
        codes[std::countr_zero(lanes)] = static_cast<u32>(reader.get(width));
    in = reader;
}

void get_lane_codes(BitReader& reader, u64* codes, u64 lanes, u32 width) {
    std::fill_n(codes, 64, u64{0});
    for (; lanes != 0; lanes &= lanes - 1)
        codes[std::countr_zero(lanes)] = reader.get(width);
}

} // namespace throng
