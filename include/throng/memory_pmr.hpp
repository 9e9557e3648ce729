#pragma once
// Adapts a std::pmr::memory_resource to an Allocator. Apart from memory.hpp because <memory_resource> is a heavy header.
#include "throng/memory.hpp"
#include <memory_resource>

namespace throng {

/// Memory of everything built with the result comes from `resource`, which must outlive it. Thread rule: that of the
/// resource (give a synchronized one to anything that runs jobs).
inline Allocator allocator_from(std::pmr::memory_resource& resource) {
    return {[](void* context, std::size_t bytes, std::size_t alignment) {
                return static_cast<std::pmr::memory_resource*>(context)->allocate(bytes, alignment);
            },
            [](void* context, void* memory, std::size_t bytes, std::size_t alignment) {
                static_cast<std::pmr::memory_resource*>(context)->deallocate(memory, bytes, alignment);
            },
            &resource};
}

} // namespace throng
