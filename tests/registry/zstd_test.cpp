#include "src/registry/zstd.hpp"
#include <cstring>
#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace throng;

namespace {
std::vector<std::byte> some_text(u32 bytes, u32 seed) {
    std::vector<std::byte> text(bytes);
    for (u32 i = 0; i < bytes; ++i) {
        seed = seed * 1664525 + 1013904223;
        text[i] = static_cast<std::byte>("etaoin shrdlu"[(seed >> 24) % 13]);
    }
    return text;
}
} // namespace

TEST_SUITE("registry") {

TEST_CASE("zstd: every size up to the largest, with and without a dictionary; only the exact size expands") {
    const std::vector<std::byte> dictionary = some_text(16384, 9);
    for (const bool use : {false, true}) {
        const std::span<const std::byte> given = use ? std::span<const std::byte>(dictionary) : std::span<const std::byte>();
        ZstdEncoder encoder(given, 1u << 17, default_allocator());
        ZstdDecoder decoder(given, default_allocator());
        for (const u32 bytes : {1u, 2u, 7u, 100u, 1000u, 5000u, 65536u, 131071u, 131072u, 300u}) {
            CAPTURE(bytes);
            const std::vector<std::byte> source = some_text(bytes, bytes);
            std::vector<std::byte> frame(bytes + 64), back(bytes);
            const u32 frame_bytes = encoder.compress(source, frame);
            REQUIRE(frame_bytes != 0);
            CHECK(encoder.compress(source, std::span(frame).first(frame_bytes - 1)) == 0);
            REQUIRE(encoder.compress(source, frame) == frame_bytes);
            frame.resize(frame_bytes);
            CHECK(decoder.decompress(frame, back));
            CHECK(back == source);
            std::vector<std::byte> wrong(bytes + 1);
            CHECK(!decoder.decompress(frame, wrong));
            CHECK(!decoder.decompress(frame, std::span(back).first(bytes - 1)));
            CHECK(!decoder.decompress(std::span(frame).first(frame_bytes - 1), back));
            std::vector<std::byte> twice = frame; // a second frame, as zstd itself allows
            twice.insert(twice.end(), frame.begin(), frame.end());
            wrong.resize(2 * bytes);
            CHECK(!decoder.decompress(twice, wrong));
        }
    }
}

TEST_CASE("zstd: a dictionary makes a short text shorter, and cannot be left out") {
    const std::vector<std::byte> dictionary = some_text(4000, 5);
    const std::span<const std::byte> source = std::span(dictionary).subspan(1000, 400);
    ZstdEncoder with(dictionary, 4096, default_allocator()), without({}, 4096, default_allocator());
    ZstdDecoder right(dictionary, default_allocator()), wrong({}, default_allocator());
    std::vector<std::byte> frame(600), plain(600), back(400);
    const u32 with_bytes = with.compress(source, frame), without_bytes = without.compress(source, plain);
    CHECK(with_bytes < without_bytes / 2);
    CHECK(right.decompress(std::span(frame).first(with_bytes), back));
    CHECK(std::memcmp(back.data(), source.data(), 400) == 0);
    CHECK(!wrong.decompress(std::span(frame).first(with_bytes), back));
}

}
