#include "bench/ecs/touched_heap.hpp"
#include <cstdlib>
#include <cstring>
#include <new>

namespace ecs_bench {

constexpr std::size_t slab_bytes = std::size_t(16) << 20;
constexpr std::size_t slab_alignment = 4096;

TouchedHeap::~TouchedHeap() {
    for (void* slab : slabs_)
        std::free(slab);
}

throng::Allocator TouchedHeap::allocator() {
    return {[](void* context, std::size_t bytes, std::size_t) { return static_cast<TouchedHeap*>(context)->take(bytes); },
            [](void* context, void* memory, std::size_t bytes, std::size_t) { static_cast<TouchedHeap*>(context)->give(memory, bytes); },
            this};
}

void* TouchedHeap::take(std::size_t bytes) {
    live_bytes_ += bytes;
    bytes = rounded(bytes);
    std::vector<void*>& free = free_[bytes];
    if (!free.empty()) {
        void* memory = free.back();
        free.pop_back();
        return memory;
    }
    if (left_ < bytes) {
        left_ = bytes > slab_bytes ? (bytes + slab_alignment - 1) / slab_alignment * slab_alignment : slab_bytes;
        void* slab = std::aligned_alloc(slab_alignment, left_);
        if (!slab)
            throw std::bad_alloc();
        std::memset(slab, 0xa5, left_);
        slabs_.push_back(slab);
        next_ = static_cast<char*>(slab);
    }
    left_ -= bytes;
    return std::exchange(next_, next_ + bytes);
}

void TouchedHeap::give(void* memory, std::size_t bytes) {
    live_bytes_ -= bytes;
    free_[rounded(bytes)].push_back(memory);
}

} // namespace ecs_bench
