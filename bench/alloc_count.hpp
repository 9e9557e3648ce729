#pragma once
// Counts what a program takes from the system's memory functions: malloc family, operator new, mi_*, mmap; on all threads,
// libraries (oneTBB, zstd) included. A program that uses it compiles alloc_count.cpp and links with
// alloc_count_link_args (bench/meson.build); the library does not.
#include <cstdint>

namespace scenarios {

struct AllocationCounts {
    std::uint64_t heap = 0; // malloc, calloc, realloc, aligned_alloc, posix_memalign, memalign, operator new, mi_*
    std::uint64_t maps = 0; // mmap and mremap, from anywhere but inside libc (its own follow a counted malloc)
    std::uint64_t total() const { return heap + maps; }
};

/// Calls so far, of the whole process. Atomic; any thread.
AllocationCounts allocation_counts();
/// False in sanitizer builds, which bring an allocator of their own: then all counts are 0.
bool allocations_are_counted();

} // namespace scenarios
