#include "src/wire/kernels.hpp"
#include "src/wire/lane_codes.hpp"
#include <bit>
#include <doctest/doctest.h>
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
            LaneCodes found = kernel.codes16(current, predicted, lanes, bits, codes);
            LaneCodes expected;
            for (u32 i = 0; i < 64; ++i) {
                const u64 code = lanes >> i & 1 ? plain_code(current[i], predicted[i], bits) : 0;
                wrong += codes[i] != code;
                expected.any |= code;
                expected.nonzero |= static_cast<u64>(code != 0) << i;
            }
            wrong += found.any != expected.any || found.nonzero != expected.nonzero;
            kernel.apply16(codes, predicted, mask, back);
            for (u32 i = 0; i < 64; ++i)
                wrong += (lanes >> i & 1) && back[i] != current[i];

            found = kernel.codes32(current32, base32, lanes, bits32, codes32);
            expected = {};
            for (u32 i = 0; i < 64; ++i) {
                const u64 code = lanes >> i & 1 ? plain_code(current32[i], base32[i], bits32) : 0;
                wrong += codes32[i] != code;
                expected.any |= code;
                expected.nonzero |= static_cast<u64>(code != 0) << i;
            }
            wrong += found.any != expected.any || found.nonzero != expected.nonzero;
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

TEST_CASE_TEMPLATE("lane codes: the codes of any lanes, at every width, are the values one after the other", Code, u16, u32, u64) {
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
        put_lane_codes(writer, codes, lanes, width);
        wrong += writer.bit_count() != before + static_cast<u32>(std::popcount(lanes)) * width;
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
