#include "src/wire/masks.hpp"
#include "throng/assert.hpp"
#include <bit>

namespace throng {
namespace {
constexpr u32 plain_bits = 65;       // form bit and mask
constexpr u32 gaps_head_bits = 10;   // form bit, count, Rice parameter
constexpr u32 gaps_bits_max = plain_bits - gaps_head_bits - 1; // with its head a list fits one word

/// Whether a mask, not empty, is shorter as a list of gaps.
bool gaps_fit(u64 lanes) {
    const u32 count = static_cast<u32>(std::popcount(lanes));
    const u32 k = lane_mask_rice_bits(count, 64 - static_cast<u32>(std::countl_zero(lanes)) - count);
    u32 bits = count * (1 + k), next = 0;
    for (; bits <= gaps_bits_max && lanes != 0; lanes &= lanes - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(lanes));
        bits += (lane - next) >> k;
        next = lane + 1;
    }
    return bits <= gaps_bits_max;
}
} // namespace

u32 lane_mask_rice_bits(u32 count, u32 gap_sum) {
    return static_cast<u32>(std::bit_width(11 * gap_sum / (16 * count)));
}

void write_lane_mask(BitWriter& writer, u64 lanes) {
    THRONG_ASSERT(lanes != 0);
    const u32 count = static_cast<u32>(std::popcount(lanes));
    const u32 last = 63 - static_cast<u32>(std::countl_zero(lanes));
    const u32 k = lane_mask_rice_bits(count, last + 1 - count);
    const u32 bits_least = count * (1 + k), bits_most = bits_least + ((last + 1 - count) >> k);
    if (bits_most <= gaps_bits_max || (bits_least <= gaps_bits_max && gaps_fit(lanes))) {
        const u64 low_bits = (u64{1} << k) - 1;
        u64 code = 1 | (count - 1) << 1 | k << 7;
        u32 bits = gaps_head_bits, next = 0;
        for (u64 rest = lanes; rest != 0; rest &= rest - 1) {
            const u32 lane = static_cast<u32>(std::countr_zero(rest));
            const u32 gap = lane - next;
            const u32 ones = gap >> k;
            code |= ((((gap & low_bits) * 2 + 1) << ones) - 1) << bits; // `ones` ones, a zero, the low bits
            bits += ones + 1 + k;
            next = lane + 1;
        }
        writer.put(code, bits);
    } else {
        writer.put(0, 1);
        writer.put(lanes, 64);
    }
}

u64 read_lane_mask(BitReader& reader) {
    if (!reader.get_bit()) {
        const u64 lanes = reader.get(64);
        return lanes != 0 && gaps_fit(lanes) ? 0 : lanes; // the encoder would have listed the gaps
    }
    const u32 count = static_cast<u32>(reader.get(6)) + 1;
    const u32 k = static_cast<u32>(reader.get(3));
    const u64 code = reader.peek();
    u32 bits = 0, next = 0;
    u64 lanes = 0;
    for (u32 i = 0; i < count; ++i) {
        const u32 ones = static_cast<u32>(std::countr_one(code >> bits));
        if (bits + ones + 1 + k > gaps_bits_max)
            return 0; // the encoder would have taken the plain form
        const u32 low = static_cast<u32>(code >> (bits + ones + 1)) & ((1u << k) - 1);
        const u32 lane = next + (ones << k | low);
        if (lane > 63)
            return 0;
        lanes |= u64{1} << lane;
        bits += ones + 1 + k;
        next = lane + 1;
    }
    reader.skip(bits);
    if (reader.failed() || k != lane_mask_rice_bits(count, next - count))
        return 0;
    return lanes;
}

u32 write_byte_mask(std::span<std::byte, byte_mask_bytes_max> out, u64 mask) {
    u32 count = 1, used = 0;
    for (u32 i = 0; i < 8; ++i) {
        const u32 byte = static_cast<u32>(mask >> (8 * i)) & 0xff;
        if (byte != 0) {
            used |= 1u << i;
            out[count++] = static_cast<std::byte>(byte);
        }
    }
    out[0] = static_cast<std::byte>(used);
    return count;
}

Error read_byte_mask(std::span<const std::byte>& in, u64& mask) {
    if (in.empty())
        return Error::truncated;
    const u32 used = static_cast<u32>(in[0]);
    if (used == 0)
        return Error::bad_value;
    u64 result = 0;
    std::size_t count = 1;
    for (u32 i = 0; i < 8; ++i) {
        if ((used >> i & 1) == 0)
            continue;
        if (count == in.size())
            return Error::truncated;
        const u64 byte = static_cast<u64>(in[count++]);
        if (byte == 0)
            return Error::bad_value;
        result |= byte << (8 * i);
    }
    in = in.subspan(count);
    mask = result;
    return Error::none;
}

} // namespace throng
