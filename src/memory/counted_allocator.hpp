#pragma once
// An allocator that knows how much of it is in use, so that what an owner reports leaves nothing out.
#include "throng/memory.hpp"
#include <atomic>

namespace throng {

/// Takes from `upstream`. Stays where it is: its allocator() refers to it. Any thread, as Allocator.
class CountedAllocator {
public:
    explicit CountedAllocator(const Allocator& upstream) : upstream_(upstream) {}
    CountedAllocator(const CountedAllocator&) = delete;
    CountedAllocator& operator=(const CountedAllocator&) = delete;

    Allocator allocator() { return {allocate, free, this}; }
    const Allocator& upstream() const { return upstream_; }
    /// Asked for and not given back.
    u64 bytes() const { return bytes_.load(std::memory_order_relaxed); }

private:
    static void* allocate(void* context, std::size_t bytes, std::size_t alignment) {
        auto& self = *static_cast<CountedAllocator*>(context);
        void* const memory = self.upstream_.allocate(bytes, alignment);
        self.bytes_.fetch_add(bytes, std::memory_order_relaxed);
        return memory;
    }
    static void free(void* context, void* memory, std::size_t bytes, std::size_t alignment) {
        auto& self = *static_cast<CountedAllocator*>(context);
        self.upstream_.free(memory, bytes, alignment);
        self.bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    }

    Allocator upstream_;
    std::atomic<u64> bytes_{0};
};

} // namespace throng
