#include "src/wire/masks.hpp"
#include "src/wire/quantise.hpp"
#include "throng/wire.hpp"
#include <bit>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <vector>

using namespace throng;

namespace {
struct Random {
    u64 state = 3;
    u64 next() {
        u64 z = (state += 0x9e3779b97f4a7c15u);
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
    }
};
} // namespace

TEST_SUITE("wire") {

TEST_CASE("bits: what is written is read, at every width, and a shorter buffer overflows without a write behind it") {
    Random random;
    for (u32 round = 0; round < 200; ++round) {
        std::vector<std::pair<u64, u32>> values;
        u64 total = 0;
        for (u32 i = 0; i < 40; ++i) {
            const u32 bits = static_cast<u32>(random.next() % 65);
            values.push_back({random.next() & detail::low_bits(bits), bits});
            total += bits;
        }
        const std::size_t bytes = (total + 7) / 8;
        std::vector<std::byte> out(bytes);
        BitWriter writer(out);
        for (const auto& [value, bits] : values)
            writer.put(value, bits);
        CHECK(writer.bit_count() == total);
        REQUIRE(writer.finish() == bytes);
        BitReader reader(out);
        u32 wrong = 0;
        for (const auto& [value, bits] : values)
            wrong += reader.get(bits) != value;
        CHECK(wrong == 0);
        reader.align();
        CHECK(!reader.failed());
        CHECK(reader.bits_left() == 0);
        CHECK(reader.get(1) == 0);
        CHECK(reader.failed());

        if (bytes != 0) {
            std::vector<std::byte> guarded(bytes, std::byte{0x5a});
            BitWriter small{std::span(guarded).first(bytes - 1)};
            for (const auto& [value, bits] : values)
                small.put(value, bits);
            CHECK(small.finish() == 0);
            CHECK(small.overflowed());
            CHECK(guarded.back() == std::byte{0x5a});
        }
    }
}

TEST_CASE("bits: bytes after an align, pad bits must be zero, a copy of the writer undoes") {
    std::byte out[16] = {};
    BitWriter writer(out);
    writer.put(5, 3);
    const BitWriter before = writer;
    writer.put(0x3ff, 10);
    writer = before;
    writer.align();
    const std::byte text[3] = {std::byte{1}, std::byte{2}, std::byte{3}};
    writer.put_bytes(text, 3);
    writer.put(0xabcd, 16);
    REQUIRE(writer.finish() == 6);
    const u8 expected[6] = {5, 1, 2, 3, 0xcd, 0xab};
    CHECK(std::memcmp(out, expected, 6) == 0);

    BitReader reader{std::span(out).first(6)};
    CHECK(reader.get(3) == 5);
    reader.align();
    CHECK(reader.get_bytes(3).size() == 3);
    CHECK(reader.get_bytes(3).empty());
    CHECK(reader.failed());

    out[0] = std::byte{0x85}; // a pad bit
    BitReader strict{std::span(out).first(6)};
    CHECK(strict.get(3) == 5);
    strict.align();
    CHECK(strict.failed());
}

TEST_CASE("varints: round trip at the edges, shortest form only") {
    for (const u32 value : {0u, 1u, 127u, 128u, 16383u, 16384u, 2097151u, 2097152u, 268435455u, 268435456u, 0xffffffffu}) {
        std::byte out[varint_bytes_max];
        const u32 bytes = write_varint(out, value);
        CHECK(bytes == varint_bytes(value));
        std::span<const std::byte> in(out, bytes);
        u32 read = 0;
        CHECK(read_varint(in, read) == Error::none);
        CHECK(read == value);
        CHECK(in.empty());
        for (u32 shorter = 0; shorter < bytes; ++shorter) {
            in = {out, shorter};
            CHECK(read_varint(in, read) == Error::truncated);
            CHECK(write_varint(std::span(out).first(shorter), value) == 0);
        }
    }
    const auto read = [](std::initializer_list<int> bytes) {
        std::vector<std::byte> raw;
        for (const int byte : bytes)
            raw.push_back(static_cast<std::byte>(byte));
        std::span<const std::byte> in(raw);
        u32 value = 0;
        return read_varint(in, value);
    };
    CHECK(read({0x80, 0x00}) == Error::bad_value);
    CHECK(read({0xff, 0xff, 0xff, 0xff, 0x10}) == Error::bad_value);
    CHECK(read({0xff, 0xff, 0xff, 0xff, 0x8f}) == Error::bad_value);
    CHECK(read({0xff, 0xff, 0xff, 0xff, 0x0f}) == Error::none);
}

TEST_CASE("lane masks: round trip, never longer than 65 bits, and other bits are refused or mean the same mask") {
    Random random;
    std::vector<u64> masks = {1, u64{1} << 63, ~u64{0}, 0xffff, 0x8000000000000001u, 0x5555555555555555u};
    for (u32 i = 0; i < 3000; ++i) {
        u64 mask = random.next();
        for (u32 thin = 0; thin < i % 6; ++thin)
            mask &= random.next();
        if (mask != 0)
            masks.push_back(mask);
    }
    for (const u64 mask : masks) {
        std::byte out[16] = {};
        BitWriter writer(out);
        write_lane_mask(writer, mask);
        REQUIRE(writer.bit_count() <= 65);
        const u64 bits = writer.bit_count();
        REQUIRE(writer.finish() != 0);
        BitReader reader(out);
        CHECK(read_lane_mask(reader) == mask);
        CHECK(reader.bits_left() == sizeof(out) * 8 - bits);
    }
    u32 accepted = 0;
    for (u32 i = 0; i < 20000; ++i) {
        std::byte in[9];
        detail::store_le64(in, random.next() | 1); // the gap form
        in[8] = std::byte{0};
        BitReader reader(in);
        const u64 mask = read_lane_mask(reader);
        if (mask == 0)
            continue;
        ++accepted;
        const u64 bits = sizeof(in) * 8 - reader.bits_left();
        std::byte out[16] = {};
        BitWriter writer(out);
        write_lane_mask(writer, mask);
        REQUIRE(writer.bit_count() == bits);
        BitReader again(in), written{std::span(out).first(std::max(writer.finish(), 1u))};
        CHECK(again.get(static_cast<u32>(bits)) == written.get(static_cast<u32>(bits)));
    }
    CHECK(accepted > 0);
    const std::byte short_input[1] = {std::byte{0xff}};
    BitReader truncated(short_input);
    CHECK(read_lane_mask(truncated) == 0);
    // Each mask as the plain 64 bits: refused exactly where gaps are shorter.
    u32 refused = 0;
    for (const u64 mask : masks) {
        std::byte out[16] = {}, plain[9] = {};
        BitWriter writer(out), plain_writer(plain);
        write_lane_mask(writer, mask);
        plain_writer.put(0, 1);
        plain_writer.put(mask, 64);
        REQUIRE(plain_writer.finish() == 9);
        BitReader reader(plain);
        CHECK(read_lane_mask(reader) == (writer.bit_count() == 65 ? mask : 0));
        refused += writer.bit_count() < 65;
    }
    CHECK(refused > 100);
    CHECK(refused < masks.size());
}

TEST_CASE("byte masks: round trip, and empty or superfluous bytes are refused") {
    for (const u64 mask : {u64{1}, u64{0x80} << 56, ~u64{0}, u64{0x00ff00000000ff00}}) {
        std::byte out[byte_mask_bytes_max];
        const u32 bytes = write_byte_mask(out, mask);
        std::span<const std::byte> in(out, bytes);
        u64 read = 0;
        CHECK(read_byte_mask(in, read) == Error::none);
        CHECK(read == mask);
        CHECK(in.empty());
        in = {out, bytes - 1};
        CHECK(read_byte_mask(in, read) == Error::truncated);
    }
    const std::byte zero_byte[2] = {std::byte{1}, std::byte{0}}, nothing[1] = {std::byte{0}};
    u64 read = 0;
    std::span<const std::byte> in(zero_byte);
    CHECK(read_byte_mask(in, read) == Error::bad_value);
    in = nothing;
    CHECK(read_byte_mask(in, read) == Error::bad_value);
}

TEST_CASE("quantisers: halves to even, clamp, what is not a number, and back") {
    CHECK(quantise_range(0.5, 1, -10, 10) == 0);
    CHECK(quantise_range(1.5, 1, -10, 10) == 2);
    CHECK(quantise_range(-2.5, 1, -10, 10) == -2);
    CHECK(quantise_range(1e300, 100, -10, 10) == 10);
    CHECK(quantise_range(-std::numeric_limits<double>::infinity(), 100, -10, 10) == -10);
    CHECK(quantise_range(std::nan(""), 100, -10, 10) == 0);
    CHECK(quantise_range(std::nan(""), 100, 3, 10) == 3);
    CHECK(quantise_range(std::nan(""), 100, -10, -4) == -4);
    for (i64 steps = -1000; steps <= 1000; ++steps)
        CHECK(quantise_range(dequantise_range(steps, 0.01), 1 / 0.01, -1000, 1000) == steps);

    for (const u32 bits : {1u, 7u, 16u}) {
        const u32 turn = 1u << bits;
        u32 wrong = 0;
        for (u32 steps = 0; steps < turn; ++steps) {
            const double radians = dequantise_angle(steps, bits);
            wrong += !(radians >= 0 && radians < 6.283185307179587);
            wrong += quantise_angle(radians, bits) != steps;
            wrong += quantise_angle(radians - 6.283185307179586, bits) != steps;
        }
        CHECK(wrong == 0);
    }
    CHECK(quantise_angle(-1e-20, 8) == 0);
    CHECK(quantise_angle(6.2831853, 8) == 0);
    CHECK(quantise_angle(std::nan(""), 8) == 0);
    CHECK(quantise_angle(std::numeric_limits<double>::infinity(), 8) == 0);
}

}
