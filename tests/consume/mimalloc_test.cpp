// throng_mimalloc by itself: a program apart, since linking it may replace malloc in the whole process.
#include "throng/mimalloc.hpp"
#include <cstdio>
#include <cstring>
#include <mimalloc.h>
#include <thread>
#include <vector>

namespace {
int failures = 0;
void expect(bool good, const char* what) {
    if (!good) {
        std::printf("failed: %s\n", what);
        ++failures;
    }
}

struct Block {
    void* memory;
    std::size_t bytes, alignment;
};
} // namespace

int main() {
    const throng::Allocator allocator = throng::mimalloc_allocator();
    for (const std::size_t alignment : {1u, 8u, 16u, 64u, 128u, 4096u})
        for (const std::size_t bytes : {0u, 1u, 24u, 4096u, 1u << 20}) {
            void* memory = allocator.allocate(bytes, alignment);
            expect(memory != nullptr, "a block, even of 0 bytes");
            expect(reinterpret_cast<std::size_t>(memory) % alignment == 0, "alignment");
            expect(mi_is_in_heap_region(memory), "the block is mimalloc's");
            std::memset(memory, 0x5a, bytes);
            allocator.free(memory, bytes, alignment);
        }
    allocator.free(nullptr, 0, 1);

    // Taken by one thread, freed by another, while both take more.
    std::vector<Block> blocks;
    const auto take = [&](std::vector<Block>& into) {
        for (std::size_t i = 0; i < 2000; ++i) {
            const std::size_t bytes = 16 + i * 7 % 3000;
            into.push_back({allocator.allocate(bytes, 64), bytes, 64});
            std::memset(into.back().memory, 0x11, bytes);
        }
    };
    const auto free_all = [&](std::vector<Block>& from) {
        for (const Block& block : from)
            allocator.free(block.memory, block.bytes, block.alignment);
        from.clear();
    };
    take(blocks);
    std::vector<Block> own;
    std::thread other([&] { free_all(blocks); });
    take(own);
    other.join();
    expect(blocks.empty(), "the other thread freed all");
    free_all(own);
    return failures == 0 ? 0 : 1;
}
