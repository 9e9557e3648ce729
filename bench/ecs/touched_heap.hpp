#pragma once
// Memory for the worlds of the ECS cases: pages are touched when they are taken from the system and never given back, so that no
// case pays for page faults. A free list for each size.
#include "throng/memory.hpp"
#include <map>
#include <vector>

namespace ecs_bench {

/// One thread.
class TouchedHeap {
public:
    TouchedHeap() = default;
    TouchedHeap(const TouchedHeap&) = delete;
    TouchedHeap& operator=(const TouchedHeap&) = delete;
    ~TouchedHeap();
    throng::Allocator allocator();
    throng::u64 live_bytes() const { return live_bytes_; }

private:
    void* take(std::size_t bytes);
    void give(void* memory, std::size_t bytes);
    static std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

    std::map<std::size_t, std::vector<void*>> free_ = {};
    std::vector<void*> slabs_ = {};
    char* next_ = nullptr;
    std::size_t left_ = 0;
    throng::u64 live_bytes_ = 0;
};

} // namespace ecs_bench
