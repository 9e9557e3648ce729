#pragma once
// What the two halves of the section codec share. See docs/wire.md 2.
#include "src/registry/section.hpp"
#include "src/wire/kernels.hpp"
#include "src/wire/lane_list.hpp"
#include "throng/wire.hpp"
#include <bit>
#include <type_traits>

namespace throng::section {

inline constexpr u32 flag_full = 1;
inline constexpr u32 flag_zstd = 2;
inline constexpr u32 flag_keeps = 4; // of a full section
inline constexpr u32 opaque_width_bits = 5;
inline constexpr u32 opaque_width_max = 17;   // opaque_bytes_max is at most 2^16
inline constexpr u32 net_index_length_bits = 6;
inline constexpr u32 generation_length_bits = 5;
inline constexpr u32 generation_bits = 24;
inline constexpr u32 coordinate_length_bits = 6;
/// Up to so many lanes a column is decoded lane by lane, since 64 at once would cost more.
inline constexpr u32 few_lanes_max = 8;
inline constexpr u32 zero_column_bytes = lane_count * 8;
extern const std::byte zero_column[zero_column_bytes];
extern const std::byte zero_row[row_bytes_max];
extern const BlockHeader no_lanes;

/// Packs the bits of `bits` that `mask` selects together at the low end.
inline u64 select_bits(u64 bits, const LaneList& list) {
    if (list.mask == ~u64{0})
        return bits;
    u64 packed = 0;
    for (u32 i = 0; i < list.count; ++i)
        packed |= (bits >> list.lane[i] & 1) << i;
    return packed;
}
inline u64 spread_bits(u64 packed, const LaneList& list) {
    if (list.mask == ~u64{0})
        return packed;
    u64 bits = 0;
    for (u32 i = 0; i < list.count; ++i)
        bits |= (packed >> i & 1) << list.lane[i];
    return bits;
}

/// Widths of wide bodies are whole bytes.
constexpr u32 wide_width(u32 width) { return (width + 7) / 8 * 8; }

template <class T>
constexpr std::make_unsigned_t<T> zigzag(T value) {
    using Code = std::make_unsigned_t<T>;
    return static_cast<Code>(static_cast<Code>(static_cast<Code>(value) << 1) ^ static_cast<Code>(value >> (sizeof(T) * 8 - 1)));
}
template <class Code>
constexpr Code unzigzag(Code code) {
    return static_cast<Code>(static_cast<Code>(code >> 1) ^ static_cast<Code>(Code{0} - static_cast<Code>(code & 1)));
}

/// velocity * age * factor, before the shift; modulo 2^64.
constexpr u64 extrapolation_scale(i64 factor, u32 age) {
    return static_cast<u64>(factor) * (age < extrapolation_age_max ? age : extrapolation_age_max);
}
constexpr i64 extrapolation(i64 velocity, u64 scale) { return static_cast<i64>(static_cast<u64>(velocity) * scale) >> 16; }

/// Bits of a column's element, and of the differences of its values.
constexpr u32 element_bits(const Column& column) { return column.element_bytes * 8u; }
constexpr u32 difference_bits(const Column& column) { return column.angle_bits != 0 ? column.angle_bits : element_bits(column); }

inline i64 element(const std::byte* data, u32 element_bytes, u32 lane) {
    switch (element_bytes) {
    case 2: return reinterpret_cast<const i16*>(data)[lane];
    case 4: return reinterpret_cast<const i32*>(data)[lane];
    default: return reinterpret_cast<const i64*>(data)[lane];
    }
}

/// What an extrapolated column adds to the baseline's values.
struct Velocity {
    const std::byte* data = nullptr; // the baseline's velocity column; null: not extrapolated
    u32 element_bytes = 2;
    u64 scale = 0;

    i64 moved(u32 lane) const { return extrapolation(element(data, element_bytes, lane), scale); }
};

/// The predictions of all lanes: `base` itself, or in `room`.
template <class T>
const T* predict(const T* base, const Velocity& velocity, T* room) {
    if (!velocity.data)
        return base;
    if constexpr (sizeof(T) == 2) {
        if (velocity.element_bytes == 2) {
            kernels().predict16(base, reinterpret_cast<const i16*>(velocity.data), static_cast<u32>(velocity.scale), room);
            return room;
        }
    }
    using Code = std::make_unsigned_t<T>;
    for (u32 lane = 0; lane < lane_count; ++lane)
        room[lane] = static_cast<T>(static_cast<Code>(static_cast<Code>(base[lane]) + static_cast<Code>(velocity.moved(lane))));
    return room;
}

/// Where the elements of a column are in a state that may lack the block.
inline const std::byte* column_bytes(const std::byte* const* blocks, const Column& column) {
    const std::byte* block = blocks ? blocks[column.component] : nullptr;
    return block ? block + column.offset_bytes : zero_column;
}

} // namespace throng::section
