#include "tests/allocation_count.hpp"
#include <atomic>
#include <cstdlib>
#include <new>

#ifdef THRONG_TESTS_SANITIZED
throng::u64 throng::tests::allocation_count() { return 0; }
#else
namespace {
std::atomic<throng::u64> count{0};

void* take(std::size_t bytes, std::size_t alignment) {
    count.fetch_add(1, std::memory_order_relaxed);
    if (bytes == 0)
        bytes = 1;
    void* memory = alignment <= alignof(std::max_align_t)
                       ? std::malloc(bytes)
                       : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (!memory)
        throw std::bad_alloc();
    return memory;
}
} // namespace

throng::u64 throng::tests::allocation_count() { return count.load(std::memory_order_relaxed); }

// The other forms (arrays, nothrow) call these by default.
void* operator new(std::size_t bytes) { return take(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return take(bytes, static_cast<std::size_t>(alignment)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
#endif
