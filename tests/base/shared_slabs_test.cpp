#include "throng/memory.hpp"
#include <cstring>
#include <doctest/doctest.h>
#include <vector>

using namespace throng;

namespace {

struct Upstream {
    int taken = 0, given = 0;
    int loose = 0; // regions of a page and more that are not whole pages, or not aligned to one
    Allocator allocator() {
        return {[](void* context, std::size_t bytes, std::size_t alignment) {
                    auto& self = *static_cast<Upstream*>(context);
                    ++self.taken;
                    self.loose += bytes >= 1u << 16 && (bytes % (2u << 20) != 0 || alignment != 2u << 20);
                    return default_allocator().allocate(bytes, alignment);
                },
                [](void* context, void* memory, std::size_t bytes, std::size_t alignment) {
                    ++static_cast<Upstream*>(context)->given;
                    default_allocator().free(memory, bytes, alignment);
                },
                this};
    }
};

struct Block {
    void* memory;
    std::size_t bytes;
    unsigned char mark;
};

} // namespace

TEST_SUITE("base") {
    TEST_CASE("shared slabs: blocks of all sizes are aligned, apart, and come back") {
        Upstream upstream;
        {
            SharedSlabs slabs(upstream.allocator());
            const Allocator memory = slabs.allocator();
            std::vector<Block> blocks;
            for (std::size_t bytes = 0; bytes <= 70'000; bytes += 1 + bytes / 5) {
                blocks.push_back({memory.allocate(bytes, 64), bytes, static_cast<unsigned char>(blocks.size())});
                CHECK(reinterpret_cast<std::uintptr_t>(blocks.back().memory) % 64 == 0);
                std::memset(blocks.back().memory, blocks.back().mark, bytes);
            }
            bool whole = true;
            for (const Block& block : blocks)
                for (std::size_t i = 0; i < block.bytes; ++i)
                    whole &= static_cast<unsigned char*>(block.memory)[i] == block.mark;
            CHECK(whole);
            const int before = upstream.taken;
            CHECK(slabs.bytes() > 0);
            // What one owner gives back, another takes: nothing comes from upstream any more.
            for (int round = 0; round < 100; ++round)
                for (Block& block : blocks)
                    if (block.bytes <= 65'536) {
                        memory.free(block.memory, block.bytes, 64);
                        block.memory = memory.allocate(block.bytes, 64);
                    }
            CHECK(upstream.taken == before);
            for (const Block& block : blocks)
                memory.free(block.memory, block.bytes, 64);
            void* strict = memory.allocate(100, 4096);
            CHECK(reinterpret_cast<std::uintptr_t>(strict) % 4096 == 0);
            memory.free(strict, 100, 4096);
        }
        CHECK(upstream.taken == upstream.given);
    }
    TEST_CASE("shared slabs of huge pages: blocks of a world's size lie in aligned regions of whole pages") {
        constexpr std::size_t page = std::size_t(2) << 20;
        Upstream upstream;
        {
            SharedSlabs slabs(upstream.allocator(), SlabPages::huge);
            const Allocator memory = slabs.allocator();
            std::vector<Block> blocks;
            std::size_t bytes_of_all = 0;
            for (u32 i = 0; i < 60; ++i) {
                const std::size_t bytes = 1000 + i * 17'000; // up to 1,004,000
                blocks.push_back({memory.allocate(bytes, 64), bytes, 0});
                std::memset(blocks.back().memory, 1, bytes);
                bytes_of_all += bytes;
            }
            CHECK(slabs.bytes() % page == 0);
            CHECK(slabs.used_bytes() >= bytes_of_all);
            CHECK(slabs.used_bytes() <= bytes_of_all * 9 / 8 + 60 * 64);
            CHECK(upstream.taken <= 1 + int(slabs.bytes() / page)); // the stock itself, and slabs: nothing went past them
            CHECK(upstream.loose == 0);
            for (const Block& block : blocks)
                memory.free(block.memory, block.bytes, 64);
            CHECK(slabs.used_bytes() == 0);
            // Larger ones have pages of their own; between the two they are as the upstream gives them.
            void* own = memory.allocate(page + 1000, 64);
            CHECK(reinterpret_cast<std::uintptr_t>(own) % page == 0);
            void* between = memory.allocate(page - 64, 4096);
            CHECK(reinterpret_cast<std::uintptr_t>(between) % 4096 == 0);
            memory.free(own, page + 1000, 64);
            memory.free(between, page - 64, 4096);
        }
        CHECK(upstream.taken == upstream.given);
    }
}
