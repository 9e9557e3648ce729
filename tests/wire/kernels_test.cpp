#include "src/wire/kernels.hpp"
#include "src/wire/lane_codes.hpp"
#include "src/wire/lane_list.hpp"
#include "src/wire/quantise.hpp"
#include <algorithm>
#include <bit>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>
#include <vector>

using namespace throng;

namespace {
struct Random {
    u64 state = 11;
    u64 next() {
        u64 z = (state += 0x9e3779b97f4a7c15u);
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
    }
};

// Restores the level in use.
struct KeepLevel {
    ~KeepLevel() { REQUIRE(force_kernel_level(best_kernel_level())); }
};

// What one column does, one lane at a time and in 64 bits.
template <class T>
u64 plain_code(T current, T prediction, u32 difference_bits) {
    const u32 shift = 64 - difference_bits;
    const i64 difference = static_cast<i64>((static_cast<u64>(current) - static_cast<u64>(prediction)) << shift) >> shift;
    return (static_cast<u64>(difference) << 1 ^ static_cast<u64>(difference >> 63)) & detail::low_bits(sizeof(T) * 8);
}
} // namespace

TEST_SUITE("wire") {

    TEST_CASE("kernels: every level agrees with the plain definition") {
        KeepLevel keep;
        u32 levels = 0;
        for (const KernelLevel level : {KernelLevel::baseline, KernelLevel::v3}) {
            if (!force_kernel_level(level))
                continue;
            ++levels;
            const Kernels& kernel = kernels();
            Random random;
            u32 wrong = 0;
            for (u32 round = 0; round < 300; ++round) {
                i16 current[64], base[64], velocity[64], predicted[64], back[64];
                i32 current32[64], base32[64], back32[64];
                u16 codes[64];
                u32 codes32[64];
                const u32 bits = 1 + static_cast<u32>(random.next() % 16);
                const u32 bits32 = round % 3 == 0 ? 16 + static_cast<u32>(random.next() % 17) : 32;
                const u16 mask = static_cast<u16>(detail::low_bits(bits));
                const u32 mask32 = static_cast<u32>(detail::low_bits(bits32));
                for (u32 i = 0; i < 64; ++i) {
                    current[i] = static_cast<i16>(random.next() & mask);
                    base[i] = static_cast<i16>(random.next() & mask);
                    velocity[i] = static_cast<i16>(random.next());
                    current32[i] = static_cast<i32>(random.next() & mask32);
                    base32[i] = static_cast<i32>(random.next() & mask32);
                }
                const u64 lanes = round % 4 == 0 ? ~u64{0} : random.next() & random.next();
                const i64 scale = static_cast<i64>(random.next() >> (round % 60));
                kernel.predict16(base, velocity, static_cast<u32>(scale), predicted);
                for (u32 i = 0; i < 64; ++i) {
                    const i64 moved = static_cast<i64>(static_cast<u64>(velocity[i]) * static_cast<u64>(scale)) >> 16;
                    wrong += predicted[i] != static_cast<i16>(base[i] + moved);
                }
                for (u32 i = 0; i < 64; ++i)
                    codes[i] = static_cast<u16>(lanes >> i & 1 ? plain_code(current[i], predicted[i], bits) : 0);
                kernel.apply16(codes, predicted, mask, back);
                for (u32 i = 0; i < 64; ++i)
                    wrong += (lanes >> i & 1) && back[i] != current[i];

                for (u32 i = 0; i < 64; ++i)
                    codes32[i] = static_cast<u32>(lanes >> i & 1 ? plain_code(current32[i], base32[i], bits32) : 0);
                kernel.apply32(codes32, base32, mask32, back32);
                for (u32 i = 0; i < 64; ++i)
                    wrong += (lanes >> i & 1) && back32[i] != current32[i];

                bool within = true, within_wide = true;
                for (u32 i = 0; i < 64; ++i) {
                    within &= !(lanes >> i & 1) || (current[i] >= -300 && current[i] <= 32000);
                    within_wide &= !(lanes >> i & 1) || (current32[i] >= -300 && current32[i] <= 1 << 30);
                }
                wrong += kernel.within16(current, lanes, -300, 32000) != within;
                wrong += kernel.within32(current32, lanes, -300, 1 << 30) != within_wide;
            }
            CHECK(wrong == 0);
        }
        CHECK(levels == (best_kernel_level() == KernelLevel::v3 ? 2 : 1));
    }

    // A column as docs/wire.md 2.2 has it, value by value.
    template <class T>
    void plain_column(BitWriter & writer, const ColumnInput& in) {
        std::vector<u64> codes;
        u64 any = 0, coded = 0;
        for (u32 i = 0; i < in.count; ++i) {
            T value, base;
            std::memcpy(&value, in.current[i] + in.offset_bytes, sizeof(T));
            std::memcpy(&base, in.base[i] + in.offset_bytes, sizeof(T));
            u64 moved = 0;
            if (in.velocity_bytes != 0) {
                i64 velocity = 0;
                std::memcpy(&velocity, in.base[i] + in.velocity_offset_bytes, in.velocity_bytes);
                const u32 shift = 64 - 8 * in.velocity_bytes;
                velocity = static_cast<i64>(static_cast<u64>(velocity) << shift) >> shift;
                moved = static_cast<u64>(static_cast<i64>(static_cast<u64>(velocity) * in.velocity_scale) >> 16);
            }
            codes.push_back(plain_code(value, static_cast<T>(static_cast<u64>(base) + moved), in.difference_bits));
            any |= codes.back();
            coded += codes.back() != 0;
        }
        const u32 width = static_cast<u32>(std::bit_width(any));
        writer.put(width, in.width_bits);
        if (width == 0)
            return;
        const bool sparse = in.count + coded * width < in.count * width;
        writer.put(sparse, 1);
        for (u32 i = 0; sparse && i < in.count; ++i)
            writer.put(codes[i] != 0, 1);
        for (const u64 code : codes)
            if (!sparse || code != 0)
                writer.put(code, width);
    }

    /// Two components, each with half of a group's columns: put_values writes what docs/wire.md 2.2 says of them in a delta.
    template <class T>
    bool values_as_plain(const ColumnInput* columns, u32 positions, const GroupCodes& codes, u32 count, u32& resting) {
        GroupColumn grouped[8];
        for (u32 p = 0; p < positions; ++p)
            grouped[p] = {.group = 0,
                          .bytes = static_cast<u16>(((1u << sizeof(T)) - 1) << p * sizeof(T)),
                          .position = static_cast<u8>(p),
                          .element_bytes = sizeof(T)};
        const u16 ends[2] = {static_cast<u16>(positions / 2), static_cast<u16>(positions)};
        std::vector<std::byte> plain_out(8192), out(8192);
        BitWriter plain(plain_out), writer(out);
        u32 bits[2] = {}, plain_bits[2] = {};
        for (u32 c = 0; c < 2; ++c) {
            bool listed = false;
            for (u32 p = ends[c] - positions / 2; p < ends[c]; ++p)
                for (u32 i = 0; i < count; ++i)
                    listed |= std::memcmp(columns[p].current[i] + columns[p].offset_bytes, columns[p].base[i] + columns[p].offset_bytes,
                                          sizeof(T)) != 0;
            const u64 before = plain.bit_count();
            plain.put(listed, listed ? 2 : 1);
            for (u32 p = ends[c] - positions / 2; listed && p < ends[c]; ++p)
                plain_column<T>(plain, columns[p]);
            plain_bits[c] = static_cast<u32>(plain.bit_count() - before);
            resting += !listed;
        }
        kernels().put_values(writer, {.columns = grouped, .first_column = 0, .ends = ends, .count = 2}, &codes, count, bits);
        const u32 bytes = plain.finish();
        return writer.finish() == bytes && std::memcmp(plain_out.data(), out.data(), bytes) == 0 && bits[0] == plain_bits[0] &&
               bits[1] == plain_bits[1];
    }

    TEST_CASE_TEMPLATE("kernels: every level writes columns of any rows as the plain definition does", T, i16, i32, i64) {
        KeepLevel keep;
        for (const KernelLevel level : {KernelLevel::baseline, KernelLevel::v3}) {
            if (!force_kernel_level(level))
                continue;
            Random random;
            u32 wrong = 0, sparse_or_zero = 0;
            for (u32 round = 0; round < 2000; ++round) {
                constexpr u32 row_bytes = 48;
                std::vector<std::byte> memory(2 * 64 * row_bytes);
                ColumnInput in;
                in.count = 1 + static_cast<u32>(random.next() % 64);
                in.offset_bytes = static_cast<u32>(random.next() % 3) * 8;
                in.velocity_offset_bytes = 24 + static_cast<u32>(random.next() % 2) * 8;
                const u32 velocities[] = {0, 2, 4, 8};
                in.velocity_bytes = velocities[random.next() % 4];
                in.velocity_scale = random.next() >> (random.next() % 64);
                in.difference_bits = round % 3 == 0 ? 1 + static_cast<u32>(random.next() % (sizeof(T) * 8)) : sizeof(T) * 8;
                in.width_bits = sizeof(T) == 2 ? 5 : sizeof(T) == 4 ? 6 : 7;
                const u32 noise = static_cast<u32>(random.next() % (sizeof(T) * 8));
                const u32 resting = static_cast<u32>(random.next() % 4);
                const std::byte* rows[2][64];
                for (u32 i = 0; i < ((in.count + 7) & ~7u); ++i)
                    for (u32 of = 0; of < 2; ++of)
                        rows[of][i] = memory.data() + (of * 64 + std::min(i, in.count - 1)) * row_bytes;
                for (u32 i = 0; i < in.count; ++i) {
                    const T base = static_cast<T>(random.next());
                    const T value =
                        random.next() % 4 < resting ? base : static_cast<T>(static_cast<u64>(base) + (random.next() >> (63 - noise)));
                    const u64 velocity = random.next();
                    std::byte* now = memory.data() + i * row_bytes;
                    std::byte* then = memory.data() + (64 + i) * row_bytes;
                    std::memcpy(now + in.offset_bytes, &value, sizeof(T));
                    std::memcpy(then + in.offset_bytes, &base, sizeof(T));
                    std::memcpy(then + in.velocity_offset_bytes, &velocity, sizeof(velocity));
                }
                in.current = rows[0];
                in.base = rows[1];
                std::vector<std::byte> plain_out(1024), out(1024);
                BitWriter plain(plain_out), writer(out);
                const u32 before = static_cast<u32>(random.next() % 9);
                plain.put(0, before);
                writer.put(0, before);
                plain_column<T>(plain, in);
                (sizeof(T) == 2 ? kernels().put_column16 : sizeof(T) == 4 ? kernels().put_column32 : kernels().put_column64)(writer, in);
                sparse_or_zero += plain.bit_count() - before < in.count * 2;
                const u32 bytes = plain.finish();
                wrong += writer.finish() != bytes || std::memcmp(plain_out.data(), out.data(), bytes) != 0;
            }
            CHECK(wrong == 0);
            CHECK(sparse_or_zero > 5);
        }
    }

    TEST_CASE_TEMPLATE("kernels: every level writes groups of columns as the plain definition does", T, i16, i32) {
        KeepLevel keep;
        constexpr bool narrow = sizeof(T) == 2;
        for (const KernelLevel level : {KernelLevel::baseline, KernelLevel::v3}) {
            if (!force_kernel_level(level))
                continue;
            Random random;
            u32 wrong = 0, extrapolated = 0, full = 0, resting = 0;
            for (u32 round = 0; round < 1000; ++round) {
                constexpr u32 row_bytes = 40, positions = 16 / sizeof(T);
                std::vector<std::byte> memory(2 * 64 * row_bytes);
                const u32 noise = static_cast<u32>(random.next() % (sizeof(T) * 8));
                for (u32 i = 0; i < 64 * row_bytes; i += sizeof(T)) { // the first 64 rows: now; then those of the base
                    const T base = static_cast<T>(random.next());
                    const bool rests = round % 8 == 0 || random.next() % 4 == 0;
                    const T value = rests ? base : static_cast<T>(static_cast<u64>(base) + (random.next() >> (63 - noise)));
                    std::memcpy(&memory[i], &value, sizeof(T));
                    std::memcpy(&memory[64 * row_bytes + i], &base, sizeof(T));
                }
                ColumnGroup group;
                group.element_bytes = sizeof(T);
                group.offset_bytes = 8 * static_cast<u32>(random.next() % 4);
                std::memset(group.velocity, 0x80, sizeof(group.velocity));
                ColumnInput columns[positions];
                const bool delta = random.next() % 4 != 0;
                GroupRows rows;
                rows.age = delta ? static_cast<u32>(random.next() % 32) : 0;
                for (u32 p = 0; p < positions; ++p) {
                    ColumnInput& column = columns[p];
                    column.offset_bytes = group.offset_bytes + p * static_cast<u32>(sizeof(T));
                    column.width_bits = narrow ? width_bits16 : width_bits32;
                    column.difference_bits = narrow && random.next() % 3 == 0 ? 1 + static_cast<u32>(random.next() % 16) : 8 * sizeof(T);
                    if (!narrow)
                        continue;
                    group.half[p] = static_cast<u16>(1u << (column.difference_bits - 1));
                    group.mask[p] = static_cast<u16>((1u << column.difference_bits) - 1);
                    if (random.next() % 2) {
                        const u32 from = static_cast<u32>(random.next() % 8);
                        const i64 factor = static_cast<i64>(random.next() % (1u << 25)) - (1 << 24);
                        group.velocity[2 * p] = static_cast<u8>(2 * from);
                        group.velocity[2 * p + 1] = static_cast<u8>(2 * from + 1);
                        group.factor_low[p] = static_cast<u16>(factor);
                        group.factor_high[p] = static_cast<u16>(factor >> 16);
                        column.velocity_bytes = delta ? 2 : 0;
                        column.velocity_offset_bytes = group.offset_bytes + 2 * from;
                        column.velocity_scale = static_cast<u64>(factor) * rows.age;
                        extrapolated += delta;
                    }
                }
                LaneList lanes;
                lanes.set((random.next() & (random.next() | random.next())) | u64{1} << random.next() % 64);
                static const std::byte zeros[row_bytes] = {};
                const std::byte* base_of_lane[64];
                const std::byte* now[64];
                const std::byte* base[64];
                for (u32 lane = 0; lane < 64; ++lane)
                    base_of_lane[lane] = &memory[(64 + lane) * row_bytes];
                for (u32 i = 0; i < ((lanes.count + 7) & ~7u); ++i) {
                    now[i] = &memory[lanes.lane[i] * row_bytes];
                    base[i] = delta ? base_of_lane[lanes.lane[i]] : zeros;
                }
                rows.current = memory.data();
                rows.row_bytes = row_bytes;
                rows.base = delta ? base_of_lane : nullptr;
                rows.lanes = lanes.lane;
                rows.count = lanes.count;
                full += !delta;
                GroupCodes codes;
                kernels().find_codes(group, rows, codes);
                std::vector<std::byte> plain_out(8192), out(8192);
                BitWriter plain(plain_out), writer(out);
                for (u32 p = 0; p < positions; ++p) {
                    columns[p].current = now;
                    columns[p].base = base;
                    columns[p].count = lanes.count;
                    plain_column<T>(plain, columns[p]);
                    bool differs = false;
                    for (u32 i = 0; i < lanes.count; ++i)
                        differs |= std::memcmp(now[i] + columns[p].offset_bytes, (delta ? base[i] : now[0]) + columns[p].offset_bytes,
                                               sizeof(T)) != 0;
                    const GroupColumn column{.group = 0,
                                             .bytes = static_cast<u16>(((1u << sizeof(T)) - 1) << p * sizeof(T)),
                                             .position = static_cast<u8>(p),
                                             .element_bytes = sizeof(T)};
                    kernels().put_codes(writer, column, &codes, lanes.count);
                    wrong += ((codes.differing & column.bytes) != 0) != differs;
                }
                const u32 bytes = plain.finish();
                wrong += writer.finish() != bytes || std::memcmp(plain_out.data(), out.data(), bytes) != 0;
                if (delta)
                    wrong += !values_as_plain<T>(columns, positions, codes, lanes.count, resting);
            }
            CHECK(wrong == 0);
            CHECK(full > 100);
            CHECK(resting > 10);
            CHECK((!narrow || extrapolated > 1000));
        }
    }

    TEST_CASE("kernels: every level quantises floats as quantise_range does, whatever they are") {
        KeepLevel keep;
        const float special[] = {0.f,
                                 -0.f,
                                 0.005f,
                                 0.015f,
                                 0.025f,
                                 8192.f,
                                 8192.004f,
                                 8192.006f,
                                 -8192.f,
                                 1e30f,
                                 -1e30f,
                                 std::numeric_limits<float>::infinity(),
                                 -std::numeric_limits<float>::infinity(),
                                 std::numeric_limits<float>::quiet_NaN(),
                                 std::numeric_limits<float>::denorm_min()};
        for (const KernelLevel level : {KernelLevel::baseline, KernelLevel::v3}) {
            if (!force_kernel_level(level))
                continue;
            Random random;
            u32 wrong = 0, outside_rounds = 0;
            for (u32 round = 0; round < 3000; ++round) {
                const u32 count = 1 + static_cast<u32>(random.next() % 64);
                struct Row {
                    float before, value;
                } memory[64];
                const std::byte* rows[64];
                for (u32 i = 0; i < count; ++i) {
                    const u64 kind = random.next() % 64;
                    const float plain = static_cast<float>(static_cast<i64>(random.next() % 2000000) - 1000000) * 0.005f;
                    memory[i] = {-1.f, kind < std::size(special) && round % 2 ? special[kind] : plain};
                    rows[i] = reinterpret_cast<const std::byte*>(&memory[i]);
                }
                const double inverse_step = round % 3 == 0 ? 100 : 1 / 0.01;
                const i32 minimum = round % 7 == 0 ? 5 : -819200, maximum = round % 5 == 0 ? 10 : 819200;
                i32 out[65];
                out[count] = 77;
                bool outside = false;
                const bool found = kernels().quantise_f32(rows, sizeof(float), count, inverse_step, minimum, maximum, out);
                for (u32 i = 0; i < count; ++i)
                    wrong += out[i] != quantise_range(static_cast<double>(memory[i].value), inverse_step, minimum, maximum, outside);
                wrong += found != outside || out[count] != 77;
                outside_rounds += outside;
            }
            CHECK(wrong == 0);
            CHECK(outside_rounds > 300);
            CHECK(outside_rounds < 2900);
        }
    }

    TEST_CASE_TEMPLATE("lane codes: get_lane_codes takes the values one after the other, at every width and for any lanes", Code, u16, u32,
                       u64) {
        Random random;
        u32 wrong = 0;
        for (u32 round = 0; round < 400; ++round) {
            const u32 width = 1 + static_cast<u32>(random.next() % (sizeof(Code) * 8));
            u64 lanes = round % 5 == 0 ? ~u64{0} : random.next();
            for (u32 thin = 0; thin < round % 3; ++thin)
                lanes &= random.next();
            Code codes[64], back[64];
            for (Code& code : codes)
                code = static_cast<Code>(random.next() & detail::low_bits(width));
            std::vector<std::byte> out(64 * 8 + 16);
            const u32 before = static_cast<u32>(random.next() % 9);
            BitWriter writer(out);
            writer.put(0, before);
            for (u64 left = lanes; left != 0; left &= left - 1)
                writer.put(codes[std::countr_zero(left)], width);
            const u32 bytes = writer.finish();
            BitReader plain{std::span(out).first(bytes)}, grouped{std::span(out).first(bytes)};
            wrong += plain.get(before) != 0 || grouped.get(before) != 0;
            get_lane_codes(grouped, back, lanes, width);
            for (u32 i = 0; i < 64; ++i) {
                wrong += back[i] != (lanes >> i & 1 ? codes[i] : Code{0});
                if (lanes >> i & 1)
                    wrong += plain.get(width) != codes[i];
            }
            wrong += grouped.failed() || grouped.bits_left() != plain.bits_left();
            if (lanes != 0) {
                BitReader truncated{std::span(out).first((static_cast<u32>(std::popcount(lanes)) * width - 1) / 8)};
                get_lane_codes(truncated, back, lanes, width);
                wrong += !truncated.failed();
            }
        }
        CHECK(wrong == 0);
    }
}
