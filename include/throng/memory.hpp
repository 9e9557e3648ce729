#pragma once
// Where memory comes from. Everything the library owns is taken through an Allocator that the host passes in; the
// default one uses the aligned operator new. memory_pmr.hpp adapts a std::pmr::memory_resource (kept apart: that header
// alone is 43,000 preprocessed lines).
#include "throng/base.hpp"

namespace throng {

/// A pair of functions and a context, copied by value. Thread rule: allocate and free may be called from any worker,
/// also at the same time. allocate never returns null (it may throw or abort).
struct Allocator {
    void* (*allocate_fn)(void* context, std::size_t bytes, std::size_t alignment) = nullptr;
    void (*free_fn)(void* context, void* memory, std::size_t bytes, std::size_t alignment) = nullptr;
    void* context = nullptr;

    void* allocate(std::size_t bytes, std::size_t alignment) const { return allocate_fn(context, bytes, alignment); }
    void free(void* memory, std::size_t bytes, std::size_t alignment) const {
        if (memory)
            free_fn(context, memory, bytes, alignment);
    }
};

/// Aligned operator new and delete of the process.
Allocator default_allocator();

} // namespace throng
