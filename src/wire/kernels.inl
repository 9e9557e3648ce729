// Included once per instruction level, with KERNEL_NAMESPACE set. Of other headers it may use only functions that are always
// inlined: the linker keeps one copy of any other, which could be the one compiled for the other level.
#include "src/wire/kernels.hpp"
#if defined(__SSE4_1__)
#include <immintrin.h>
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

// Four 16-bit codes of `width` bits, lowest first, become 4 * width bits.
inline u64 merge4(u64 x, u32 width) {
    constexpr u64 even = 0x0000'ffff'0000'ffff;
    x = (x & even) | (x & ~even) >> (16 - width);
    return (x & 0xffff'ffff) | x >> 32 << (2 * width);
}

inline u64 low_bits(u32 bits) {
    return bits >= 64 ? ~u64{0} : (u64{1} << bits) - 1;
}

// What is known of the codes of a column.
struct Codes {
    u64 largest = 0; // or the OR of them: as wide as the largest
    u64 nonzero = 0; // bit i: the i-th listed lane's code is not 0
};

template <class T>
inline T element(const std::byte* row, u32 offset_bytes) {
    T value;
    __builtin_memcpy(&value, row + offset_bytes, sizeof(value));
    return value;
}

#if defined(__SSE4_1__)
// Elements of eight rows.
inline __m128i gather8(const std::byte* const* rows, u32 offset_bytes) {
    const auto at = [&](u32 i) { return element<i16>(rows[i], offset_bytes); };
    return _mm_set_epi16(at(7), at(6), at(5), at(4), at(3), at(2), at(1), at(0));
}
inline __m128i gather4(const std::byte* const* rows, u32 offset_bytes) {
    const auto at = [&](u32 i) { return element<i32>(rows[i], offset_bytes); };
    return _mm_set_epi32(at(3), at(2), at(1), at(0));
}

inline Codes find_codes_by_eights(const ColumnInput& in, u16* codes) {
    const __m128i wrap = _mm_cvtsi32_si128(static_cast<int>(16 - in.difference_bits));
    __m128i largest = _mm_setzero_si128();
    Codes found;
    for (u32 i = 0; i < in.count; i += 8) {
        const __m128i value = gather8(in.current + i, in.offset_bytes);
        __m128i predicted = gather8(in.base + i, in.offset_bytes);
        if (in.velocity_bytes != 0) {
            // Bits 16..31 of velocity * scale: an unsigned high half, made right for negative velocities, and a low half.
            const __m128i scale_low = _mm_set1_epi16(static_cast<i16>(in.velocity_scale));
            const __m128i scale_high = _mm_set1_epi16(static_cast<i16>(in.velocity_scale >> 16));
            const __m128i velocity = gather8(in.base + i, in.velocity_offset_bytes);
            const __m128i negative = _mm_and_si128(_mm_srai_epi16(velocity, 15), scale_low);
            const __m128i high = _mm_sub_epi16(_mm_mulhi_epu16(velocity, scale_low), negative);
            predicted = _mm_add_epi16(predicted, _mm_add_epi16(high, _mm_mullo_epi16(velocity, scale_high)));
        }
        const __m128i difference = _mm_sra_epi16(_mm_sll_epi16(_mm_sub_epi16(value, predicted), wrap), wrap);
        const __m128i code = _mm_xor_si128(_mm_add_epi16(difference, difference), _mm_srai_epi16(difference, 15));
        _mm_store_si128(reinterpret_cast<__m128i*>(codes + i), code);
        largest = _mm_max_epu16(largest, code);
        const __m128i zeros = _mm_cmpeq_epi16(code, _mm_setzero_si128());
        found.nonzero |= static_cast<u64>(~_mm_movemask_epi8(_mm_packs_epi16(zeros, zeros)) & 0xff) << i;
    }
    const __m128i ones = _mm_cmpeq_epi16(largest, largest);
    found.largest = static_cast<u16>(~_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_xor_si128(largest, ones))));
    found.nonzero &= low_bits(in.count);
    return found;
}

inline Codes find_codes_by_fours(const ColumnInput& in, u32* codes) {
    const __m128i wrap = _mm_cvtsi32_si128(static_cast<int>(32 - in.difference_bits));
    __m128i any = _mm_setzero_si128();
    Codes found;
    for (u32 i = 0; i < in.count; i += 4) {
        const __m128i value = gather4(in.current + i, in.offset_bytes);
        const __m128i predicted = gather4(in.base + i, in.offset_bytes);
        const __m128i difference = _mm_sra_epi32(_mm_sll_epi32(_mm_sub_epi32(value, predicted), wrap), wrap);
        const __m128i code = _mm_xor_si128(_mm_add_epi32(difference, difference), _mm_srai_epi32(difference, 31));
        _mm_store_si128(reinterpret_cast<__m128i*>(codes + i), code);
        any = _mm_or_si128(any, code);
        const __m128i zeros = _mm_cmpeq_epi32(code, _mm_setzero_si128());
        found.nonzero |= static_cast<u64>(~_mm_movemask_ps(_mm_castsi128_ps(zeros)) & 0xf) << i;
    }
    any = _mm_or_si128(any, _mm_shuffle_epi32(any, 0x4e));
    any = _mm_or_si128(any, _mm_shuffle_epi32(any, 0xb1));
    found.largest = static_cast<u32>(_mm_cvtsi128_si32(any));
    found.nonzero &= low_bits(in.count);
    return found;
}
#endif

inline i64 velocity_of(const ColumnInput& in, u32 i) {
    switch (in.velocity_bytes) {
    case 2:
        return element<i16>(in.base[i], in.velocity_offset_bytes);
    case 4:
        return element<i32>(in.base[i], in.velocity_offset_bytes);
    default:
        return element<i64>(in.base[i], in.velocity_offset_bytes);
    }
}

template <class Code>
Codes find_codes(const ColumnInput& in, Code* codes) {
#if defined(__SSE4_1__)
    if constexpr (sizeof(Code) == 2) {
        if (in.velocity_bytes == 0 || in.velocity_bytes == 2)
            return find_codes_by_eights(in, codes);
    } else if constexpr (sizeof(Code) == 4) {
        if (in.velocity_bytes == 0)
            return find_codes_by_fours(in, codes);
    }
#endif
    const u32 wrap = sizeof(Code) * 8 - in.difference_bits;
    Codes found;
    for (u32 i = 0; i < in.count; ++i) {
        Code predicted = element<Code>(in.base[i], in.offset_bytes);
        if (in.velocity_bytes != 0) {
            const i64 moved = static_cast<i64>(static_cast<u64>(velocity_of(in, i)) * in.velocity_scale) >> 16;
            predicted = static_cast<Code>(predicted + static_cast<u64>(moved));
        }
        const Code shifted = static_cast<Code>(static_cast<Code>(element<Code>(in.current[i], in.offset_bytes) - predicted) << wrap);
        const Code sign = static_cast<Code>(0 - (shifted >> (sizeof(Code) * 8 - 1)));
        const Code difference = static_cast<Code>(static_cast<Code>(static_cast<Code>(shifted ^ sign) >> wrap) ^ sign);
        codes[i] = static_cast<Code>(static_cast<Code>(difference << 1) ^ sign);
        found.largest |= codes[i];
        found.nonzero |= static_cast<u64>(codes[i] != 0) << i;
    }
    return found;
}

void put_dense(BitWriter& out, const u16* codes, u32 count, u32 width) {
    BitWriter writer = out; // a local copy stays in registers
    for (u32 i = 0; i < count; i += 8) {
        u64 low, high;
        __builtin_memcpy(&low, codes + i, 8);
        __builtin_memcpy(&high, codes + i + 4, 8);
        low = merge4(low, width);
        high = merge4(high, width);
        const u32 left = (count - i) * width;
        if (width <= 7) {
            const u32 bits = left < 8 * width ? left : 8 * width;
            writer.put_short((low | high << (4 * width)) & low_bits(bits), bits);
        } else {
            const u32 bits = left < 4 * width ? left : 4 * width;
            writer.put(low & low_bits(bits), bits);
            const u32 rest = left - bits < 4 * width ? left - bits : 4 * width;
            writer.put(high & low_bits(rest), rest);
        }
    }
    out = writer;
}

template <class Code>
[[gnu::always_inline]] inline void put_code(BitWriter& writer, Code code, u32 width) {
    if constexpr (sizeof(Code) * 8 <= BitWriter::short_bits_max)
        writer.put_short(code, width);
    else
        writer.put(code, width);
}

template <class Code>
void put_dense(BitWriter& out, const Code* codes, u32 count, u32 width) {
    if (width <= 16) {
        alignas(16) u16 narrow[lanes_all_count];
        for (u32 i = 0; i < lanes_all_count && i < count; ++i)
            narrow[i] = static_cast<u16>(codes[i]);
        for (u32 i = count; i % 8 != 0; ++i)
            narrow[i] = 0;
        put_dense(out, narrow, count, width);
        return;
    }
    BitWriter writer = out;
    for (u32 i = 0; i < count; ++i)
        put_code(writer, codes[i], width);
    out = writer;
}

/// Width, form and codes of a column whose codes are not all 0, from eight listed lanes' codes on up to a multiple of 8.
template <class Code>
[[gnu::always_inline]] inline void put_found(BitWriter& writer, const Codes& found, const Code* codes, u32 count, u32 width_bits) {
    const u32 width = 64 - static_cast<u32>(__builtin_clzll(found.largest));
    const u32 coded = static_cast<u32>(__builtin_popcountll(found.nonzero));
    const bool sparse = count + coded * width < count * width;
    const u64 head = width | static_cast<u64>(sparse) << width_bits;
    if (sparse) {
        if (width_bits + 1 + count <= BitWriter::short_bits_max) {
            writer.put_short(head | found.nonzero << (width_bits + 1), width_bits + 1 + count);
        } else {
            writer.put_short(head, width_bits + 1);
            writer.put(found.nonzero, count);
        }
        const u32 bits = coded * width;
        if (bits <= BitWriter::short_bits_max) { // all at once
            u64 merged = 0;
            u32 at = 0;
            for (u64 rest = found.nonzero; rest != 0; rest &= rest - 1, at += width)
                merged |= static_cast<u64>(codes[__builtin_ctzll(rest)]) << at;
            return writer.put_short(merged, bits);
        }
        for (u64 rest = found.nonzero; rest != 0; rest &= rest - 1)
            put_code(writer, codes[__builtin_ctzll(rest)], width);
        return;
    }
    if constexpr (sizeof(Code) == 2) {
        if (count <= 8) {
            u64 low, high;
            __builtin_memcpy(&low, codes, 8);
            __builtin_memcpy(&high, codes + 4, 8);
            const u32 bits = count * width;
            if (width <= 6) { // all at once
                const u64 merged = (merge4(low, width) | merge4(high, width) << (4 * width)) & low_bits(bits);
                return writer.put_short(head | merged << (width_bits + 1), width_bits + 1 + bits);
            }
            writer.put_short(head, width_bits + 1);
            const u32 first = bits < 4 * width ? bits : 4 * width;
            writer.put(merge4(low, width) & low_bits(first), first);
            writer.put(merge4(high, width) & low_bits(bits - first), bits - first);
            return;
        }
    }
    writer.put_short(head, width_bits + 1);
    BitWriter copy = writer; // so that nobody has the address of the writer, which stays in registers
    put_dense(copy, codes, count, width);
    writer = copy;
}

template <class Code>
void put_column(BitWriter& writer, const ColumnInput& in) {
    alignas(16) Code codes[lanes_all_count];
    const Codes found = find_codes(in, codes);
    if (found.largest == 0)
        return writer.put_short(0, in.width_bits);
    put_found(writer, found, codes, in.count, in.width_bits);
}

void put_column16(BitWriter& writer, const ColumnInput& in) {
    put_column<u16>(writer, in);
}
void put_column32(BitWriter& writer, const ColumnInput& in) {
    put_column<u32>(writer, in);
}
void put_column64(BitWriter& writer, const ColumnInput& in) {
    put_column<u64>(writer, in);
}

// Which of the first `count` codes are not 0.
inline u64 nonzero_codes(const u16* codes, u32 count) {
    u64 nonzero = 0;
#if defined(__SSE4_1__)
    for (u32 i = 0; i < count; i += 8) {
        const __m128i zeros = _mm_cmpeq_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(codes + i)), _mm_setzero_si128());
        nonzero |= static_cast<u64>(~_mm_movemask_epi8(_mm_packs_epi16(zeros, zeros)) & 0xff) << i;
    }
#else
    for (u32 i = 0; i < count; ++i)
        nonzero |= static_cast<u64>(codes[i] != 0) << i;
#endif
    return nonzero & low_bits(count);
}
inline u64 nonzero_codes(const u32* codes, u32 count) {
    u64 nonzero = 0;
#if defined(__SSE4_1__)
    for (u32 i = 0; i < count; i += 4) {
        const __m128i zeros = _mm_cmpeq_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(codes + i)), _mm_setzero_si128());
        nonzero |= static_cast<u64>(~_mm_movemask_ps(_mm_castsi128_ps(zeros)) & 0xf) << i;
    }
#else
    for (u32 i = 0; i < count; ++i)
        nonzero |= static_cast<u64>(codes[i] != 0) << i;
#endif
    return nonzero & low_bits(count);
}

template <class Code>
[[gnu::always_inline]] inline void put_codes_of(BitWriter& writer, const CodesOf<Code>& found, u32 position, u32 count, u32 width_bits) {
    const Code any = found.any[position];
    if (any == 0)
        return writer.put_short(0, width_bits);
    const Code* const codes = found.codes[position];
    put_found(writer, {any, nonzero_codes(codes, count)}, codes, count, width_bits);
}

[[gnu::always_inline]] inline void put_group_column(BitWriter& writer, const GroupColumn& column, const GroupCodes* codes, u32 count) {
    const GroupCodes& found = codes[column.group];
    if (column.element_bytes == 2)
        put_codes_of(writer, found.narrow, column.position, count, width_bits16);
    else
        put_codes_of(writer, found.wide, column.position, count, width_bits32);
}

void put_codes(BitWriter& writer, const GroupColumn& column, const GroupCodes* codes, u32 count) {
    put_group_column(writer, column, codes, count);
}

// A column of a full section: one number if all values are the same.
[[gnu::always_inline]] inline void put_full_column(BitWriter& writer, const GroupColumn& column, const GroupCodes* codes, u32 count) {
    const GroupCodes& found = codes[column.group];
    if ((found.differing & column.bytes) != 0) {
        writer.put_short(0, 1);
        return put_group_column(writer, column, codes, count);
    }
    const bool narrow = column.element_bytes == 2;
    const u64 value = narrow ? found.narrow.codes[column.position][0] : found.wide.codes[column.position][0];
    const u32 width_bits = narrow ? width_bits16 : width_bits32;
    const u32 width = value == 0 ? 0 : 64 - static_cast<u32>(__builtin_clzll(value));
    writer.put_short(1 | width << 1 | value << (width_bits + 1), 1 + width_bits + width);
}

void put_full(BitWriter& out, const GroupComponents& components, const GroupCodes* codes, u32 count, u32* bits) {
    BitWriter writer = out; // a local copy stays in registers
    u32 before = static_cast<u32>(writer.bit_count());
    const GroupColumn* column = components.columns + components.first_column;
    for (u32 c = 0; c < components.count; ++c) {
        writer.put_short(3, 3); // listed, in all lanes, no counters
        for (const GroupColumn* const end = components.columns + components.ends[c]; column != end; ++column)
            put_full_column(writer, *column, codes, count);
        const u32 now = static_cast<u32>(writer.bit_count());
        bits[c] = now - before;
        before = now;
    }
    out = writer;
}

void put_values(BitWriter& out, const GroupComponents& components, const GroupCodes* codes, u32 count, u32* bits) {
    BitWriter writer = out; // a local copy stays in registers
    u32 before = static_cast<u32>(writer.bit_count());
    const GroupColumn* column = components.columns + components.first_column;
    for (u32 c = 0; c < components.count; ++c) {
        const GroupColumn* const end = components.columns + components.ends[c];
        bool listed = false;
        for (const GroupColumn* each = column; each != end; ++each)
            listed |= (codes[each->group].differing & each->bytes) != 0;
        if (listed) {
            writer.put_short(1, 2); // no structure
            for (; column != end; ++column)
                put_group_column(writer, *column, codes, count);
        } else {
            writer.put_short(0, 1);
            column = end;
        }
        const u32 now = static_cast<u32>(writer.bit_count());
        bits[c] = now - before;
        before = now;
    }
    out = writer;
}

#if defined(__SSE4_1__)
inline __m128i load16(const void* from) {
    return _mm_load_si128(static_cast<const __m128i*>(from));
}
inline __m128i load16_unaligned(const std::byte* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
inline void store16(void* to, __m128i value) {
    _mm_store_si128(static_cast<__m128i*>(to), value);
}

// Rows of eight elements become columns of eight.
inline void transpose8(__m128i (&v)[8]) {
    __m128i pairs[8], fours[8];
    for (u32 i = 0; i < 4; ++i) {
        pairs[i] = _mm_unpacklo_epi16(v[2 * i], v[2 * i + 1]);     // elements 0..3 of two rows
        pairs[i + 4] = _mm_unpackhi_epi16(v[2 * i], v[2 * i + 1]); // elements 4..7
    }
    for (u32 i = 0; i < 8; i += 2) {
        fours[i] = _mm_unpacklo_epi32(pairs[i], pairs[i + 1]);
        fours[i + 1] = _mm_unpackhi_epi32(pairs[i], pairs[i + 1]);
    }
    for (u32 i = 0; i < 2; ++i)
        for (u32 k = 0; k < 2; ++k) {
            v[4 * i + 2 * k] = _mm_unpacklo_epi64(fours[4 * i + k], fours[4 * i + k + 2]);
            v[4 * i + 2 * k + 1] = _mm_unpackhi_epi64(fours[4 * i + k], fours[4 * i + k + 2]);
        }
}

// Bit i: byte i is not 0.
inline u16 bytes_set(__m128i value) {
    return static_cast<u16>(~_mm_movemask_epi8(_mm_cmpeq_epi8(value, _mm_setzero_si128())));
}

template <bool Full>
inline void find_codes16(const ColumnGroup& group, const GroupRows& rows, GroupCodes& out) {
    const __m128i half = load16(group.half), mask = load16(group.mask), velocity_bytes = load16(group.velocity);
    // Bits 16..31 of velocity * scale: a signed high half, and a low half of the rest, which makes up for the sign.
    __m128i scale_low = _mm_setzero_si128(), scale_high = _mm_setzero_si128();
    if (!Full) {
        const __m128i age = _mm_set1_epi16(static_cast<i16>(rows.age)), factor = load16(group.factor_low);
        scale_low = _mm_mullo_epi16(factor, age);
        scale_high = _mm_add_epi16(_mm_mullo_epi16(load16(group.factor_high), age), _mm_mulhi_epu16(factor, age));
        scale_high = _mm_sub_epi16(scale_high, _mm_srai_epi16(scale_low, 15));
    }
    const std::byte* const current = rows.current + group.offset_bytes;
    const __m128i first = load16_unaligned(current + rows.lanes[0] * rows.row_bytes);
    __m128i any = _mm_setzero_si128(), differs = _mm_setzero_si128();
    for (u32 i = 0; i < rows.count; i += 8) {
        __m128i code[8];
        for (u32 k = 0; k < 8; ++k) {
            const u32 lane = rows.lanes[i + k];
            const __m128i value = load16_unaligned(current + lane * rows.row_bytes);
            __m128i difference = value;
            if (Full) {
                differs = _mm_or_si128(differs, _mm_xor_si128(value, first));
            } else {
                const __m128i base = load16_unaligned(rows.base[lane] + group.offset_bytes);
                const __m128i velocity = _mm_shuffle_epi8(base, velocity_bytes);
                const __m128i moved = _mm_add_epi16(_mm_mulhi_epi16(velocity, scale_low), _mm_mullo_epi16(velocity, scale_high));
                differs = _mm_or_si128(differs, _mm_xor_si128(value, base));
                difference = _mm_sub_epi16(_mm_sub_epi16(value, base), moved);
            }
            difference = _mm_sub_epi16(_mm_and_si128(_mm_add_epi16(difference, half), mask), half);
            code[k] = _mm_xor_si128(_mm_add_epi16(difference, difference), _mm_srai_epi16(difference, 15));
            any = _mm_or_si128(any, code[k]);
        }
        transpose8(code);
        for (u32 p = 0; p < 8; ++p)
            store16(&out.narrow.codes[p][i], code[p]);
    }
    store16(out.narrow.any, any);
    out.differing = bytes_set(differs);
}

// Columns of 32 bits rest more often than not: whether anything differs is asked first.
template <bool Full>
inline void find_codes32(const ColumnGroup& group, const GroupRows& rows, GroupCodes& out) {
    const std::byte* const current = rows.current + group.offset_bytes;
    const auto value_of = [&](u32 lane) { return load16_unaligned(current + lane * rows.row_bytes); };
    const auto base_of = [&](u32 lane) { return load16_unaligned(rows.base[lane] + group.offset_bytes); };
    const __m128i first = value_of(rows.lanes[0]);
    __m128i any = _mm_setzero_si128(), differs = _mm_setzero_si128();
    for (u32 i = 0; i < rows.count; ++i) {
        const u32 lane = rows.lanes[i];
        differs = _mm_or_si128(differs, _mm_xor_si128(value_of(lane), Full ? first : base_of(lane)));
    }
    out.differing = bytes_set(differs);
    if (!Full && out.differing == 0) {
        store16(out.wide.any, any);
        return;
    }
    for (u32 i = 0; i < rows.count; i += 4) {
        __m128i code[4];
        for (u32 k = 0; k < 4; ++k) {
            const u32 lane = rows.lanes[i + k];
            const __m128i difference = Full ? value_of(lane) : _mm_sub_epi32(value_of(lane), base_of(lane));
            code[k] = _mm_xor_si128(_mm_add_epi32(difference, difference), _mm_srai_epi32(difference, 31));
            any = _mm_or_si128(any, code[k]);
        }
        const __m128i low01 = _mm_unpacklo_epi32(code[0], code[1]), low23 = _mm_unpacklo_epi32(code[2], code[3]);
        const __m128i high01 = _mm_unpackhi_epi32(code[0], code[1]), high23 = _mm_unpackhi_epi32(code[2], code[3]);
        store16(&out.wide.codes[0][i], _mm_unpacklo_epi64(low01, low23));
        store16(&out.wide.codes[1][i], _mm_unpackhi_epi64(low01, low23));
        store16(&out.wide.codes[2][i], _mm_unpacklo_epi64(high01, high23));
        store16(&out.wide.codes[3][i], _mm_unpackhi_epi64(high01, high23));
    }
    store16(out.wide.any, any);
}
#else
// Bytes of a difference at a position, as bits.
template <class Code>
inline u32 bytes_set(Code difference, u32 position) {
    u32 set = 0;
    for (u32 byte = 0; byte < sizeof(Code); ++byte)
        set |= static_cast<u32>((difference >> 8 * byte & 0xff) != 0) << (position * sizeof(Code) + byte);
    return set;
}

template <bool Full>
inline void find_codes16(const ColumnGroup& group, const GroupRows& rows, GroupCodes& out) {
    u32 differing = 0;
    for (u32 p = 0; p < 8; ++p) {
        u16 any = 0;
        const u32 scale = (group.factor_low[p] | static_cast<u32>(group.factor_high[p]) << 16) * rows.age;
        const u16 first = element<u16>(rows.current + rows.lanes[0] * rows.row_bytes, group.offset_bytes + 2 * p);
        for (u32 i = 0; i < rows.count; ++i) {
            const u32 lane = rows.lanes[i];
            const u16 value = element<u16>(rows.current + lane * rows.row_bytes, group.offset_bytes + 2 * p);
            u16 base = Full ? first : element<u16>(rows.base[lane], group.offset_bytes + 2 * p);
            differing |= bytes_set(static_cast<u16>(value ^ base), p);
            if (Full)
                base = 0;
            u32 moved = 0;
            if (!Full && group.velocity[2 * p] < 16)
                moved =
                    static_cast<u32>(static_cast<i32>(element<i16>(rows.base[lane], group.offset_bytes + group.velocity[2 * p]))) * scale >>
                    16;
            const u16 wrapped = static_cast<u16>(static_cast<u16>(value - base - moved + group.half[p]) & group.mask[p]);
            const i16 difference = static_cast<i16>(static_cast<u16>(wrapped - group.half[p]));
            const u16 code = static_cast<u16>(static_cast<u16>(difference << 1) ^ static_cast<u16>(difference >> 15));
            out.narrow.codes[p][i] = code;
            any = static_cast<u16>(any | code);
        }
        out.narrow.any[p] = any;
    }
    out.differing = static_cast<u16>(differing);
}

template <bool Full>
inline void find_codes32(const ColumnGroup& group, const GroupRows& rows, GroupCodes& out) {
    u32 differing = 0;
    for (u32 p = 0; p < 4; ++p) {
        u32 any = 0;
        const u32 offset_bytes = group.offset_bytes + 4 * p;
        const u32 first = element<u32>(rows.current + rows.lanes[0] * rows.row_bytes, offset_bytes);
        for (u32 i = 0; i < rows.count; ++i) {
            const u32 lane = rows.lanes[i];
            const u32 value = element<u32>(rows.current + lane * rows.row_bytes, offset_bytes);
            const u32 base = Full ? first : element<u32>(rows.base[lane], offset_bytes);
            const i32 difference = static_cast<i32>(Full ? value : value - base);
            const u32 code = static_cast<u32>(difference) << 1 ^ static_cast<u32>(difference >> 31);
            differing |= bytes_set(value ^ base, p);
            out.wide.codes[p][i] = code;
            any |= code;
        }
        out.wide.any[p] = any;
    }
    out.differing = static_cast<u16>(differing);
}
#endif

void find_codes(const ColumnGroup& group, const GroupRows& rows, GroupCodes& out) {
    if (group.element_bytes == 2)
        rows.base ? find_codes16<false>(group, rows, out) : find_codes16<true>(group, rows, out);
    else
        rows.base ? find_codes32<false>(group, rows, out) : find_codes32<true>(group, rows, out);
}

#if defined(__SSE4_1__)
// quantise_range (quantise.hpp) of four numbers at a time.
struct Quantiser {
#if defined(__AVX__)
    using Doubles = __m256d;
    static Doubles all(double x) {
        return _mm256_set1_pd(x);
    }
    static __m128i round(Doubles x) {
        return _mm256_cvtpd_epi32(x);
    } // halves to even
    static Doubles limit(Doubles x, Doubles low, Doubles high) {
        return _mm256_min_pd(_mm256_max_pd(x, low), high);
    }
    static Doubles choose(Doubles x, Doubles y, Doubles take_y) {
        return _mm256_blendv_pd(x, y, take_y);
    }
#else
    using Doubles = __m128d;
    static Doubles all(double x) {
        return _mm_set1_pd(x);
    }
    static __m128i round(Doubles x) {
        return _mm_cvtpd_epi32(x);
    }
    static Doubles limit(Doubles x, Doubles low, Doubles high) {
        return _mm_min_pd(_mm_max_pd(x, low), high);
    }
    static Doubles choose(Doubles x, Doubles y, Doubles take_y) {
        return _mm_blendv_pd(x, y, take_y);
    }
#endif
    Doubles scale, low, high, lowest, highest, for_nan;
    using Mask = decltype(Doubles{} == Doubles{});
    Mask inside;

    Quantiser(double inverse_step, i32 minimum, i32 maximum)
        : scale(all(inverse_step)), low(all(minimum)), high(all(maximum)), lowest(all(minimum - 0.5)), highest(all(maximum + 0.5)),
          for_nan(all(minimum > 0   ? minimum
                      : maximum < 0 ? maximum
                                    : 0)),
          inside(scale == scale) {}
    __m128i steps(Doubles value) {
        const Doubles steps = value * scale;
        inside &= (steps >= lowest) & (steps <= highest);
        return round(choose(limit(steps, low, high), for_nan, reinterpret_cast<Doubles>(steps != steps)));
    }
    __m128i steps(__m128 four) {
#if defined(__AVX__)
        return steps(_mm256_cvtps_pd(four));
#else
        return _mm_unpacklo_epi64(steps(_mm_cvtps_pd(four)), steps(_mm_cvtps_pd(_mm_movehl_ps(four, four))));
#endif
    }
    bool outside() const {
#if defined(__AVX__)
        return _mm256_movemask_pd(reinterpret_cast<Doubles>(inside)) != 15;
#else
        return _mm_movemask_pd(reinterpret_cast<Doubles>(inside)) != 3;
#endif
    }
};
#endif

bool quantise_f32(const std::byte* const* rows, u32 offset_bytes, u32 count, double inverse_step, i32 minimum, i32 maximum, i32* out) {
#if defined(__SSE4_1__)
    Quantiser quantiser(inverse_step, minimum, maximum);
    const auto at = [&](u32 i) { return element<float>(rows[i], offset_bytes); };
    u32 i = 0;
    for (; i + 4 <= count; i += 4)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), quantiser.steps(_mm_set_ps(at(i + 3), at(i + 2), at(i + 1), at(i))));
    if (const u32 left = count - i) {
        const __m128 four = _mm_set_ps(at(i), left > 2 ? at(i + 2) : at(i), left > 1 ? at(i + 1) : at(i), at(i));
        alignas(16) i32 some[4];
        _mm_store_si128(reinterpret_cast<__m128i*>(some), quantiser.steps(four));
        for (u32 k = 0; k < left; ++k)
            out[i + k] = some[k];
    }
    return quantiser.outside();
#else
    const i32 for_nan = minimum > 0 ? minimum : maximum < 0 ? maximum : 0;
    bool outside = false;
    for (u32 i = 0; i < count; ++i) {
        const double steps = static_cast<double>(element<float>(rows[i], offset_bytes)) * inverse_step;
        outside |= !(steps >= minimum - 0.5 && steps <= maximum + 0.5);
        out[i] = steps > maximum   ? maximum
                 : steps < minimum ? minimum
                 : steps == steps  ? static_cast<i32>(__builtin_lrint(steps))
                                   : for_nan;
    }
    return outside;
#endif
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

const Kernels table = {find_codes,   put_codes, put_values, put_full, put_column16, put_column32, put_column64,
                       quantise_f32, predict16, apply16,    apply32,  within16,     within32};

} // namespace throng::KERNEL_NAMESPACE
