// Interposes the process's memory functions: definitions in the program come before those of every library. The real ones
// are the next in link order: mimalloc's where it is linked, else libc's.
#undef _FILE_OFFSET_BITS // else <sys/mman.h> renames mmap to mmap64, and both are defined here
#include "bench/alloc_count.hpp"
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define THRONG_NO_INTERPOSITION 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define THRONG_NO_INTERPOSITION 1
#endif
#endif

#ifdef THRONG_NO_INTERPOSITION

scenarios::AllocationCounts scenarios::allocation_counts() {
    return {};
}
bool scenarios::allocations_are_counted() {
    return false;
}

#else

static std::atomic<std::uint64_t> heap_calls{0}, map_calls{0};

scenarios::AllocationCounts scenarios::allocation_counts() {
    return {heap_calls.load(std::memory_order_relaxed), map_calls.load(std::memory_order_relaxed)};
}
bool scenarios::allocations_are_counted() {
    return true;
}

namespace {
/// Counts a call, unless it comes from inside another one: mimalloc's functions call each other by their exported names.
class HeapCall {
public:
    HeapCall() {
        if (depth_++ == 0)
            heap_calls.fetch_add(1, std::memory_order_relaxed);
    }
    ~HeapCall() { --depth_; }
    HeapCall(const HeapCall&) = delete;
    HeapCall& operator=(const HeapCall&) = delete;

private:
    static inline thread_local unsigned depth_ = 0;
};

// dlsym may itself ask for memory before the real functions are known; that comes from here and is never given back.
alignas(64) char early[16 * 1024];
std::size_t early_used = 0;
bool is_early(const void* memory) {
    return memory >= early && memory < early + sizeof early;
}
void* early_take(std::size_t bytes) {
    early_used = (early_used + 63) & ~std::size_t(63);
    if (bytes > sizeof early - early_used)
        return nullptr;
    void* memory = early + early_used;
    early_used += bytes;
    return memory;
}

template <class F>
F next(const char* name) {
    void* found = dlsym(RTLD_NEXT, name);
    F function = nullptr;
    std::memcpy(&function, &found, sizeof function);
    return function;
}

using Malloc = void* (*)(std::size_t);
using Calloc = void* (*)(std::size_t, std::size_t);
using Realloc = void* (*)(void*, std::size_t);
using Free = void (*)(void*);
using Aligned = void* (*)(std::size_t, std::size_t);
using PosixMemalign = int (*)(void**, std::size_t, std::size_t);

struct Real {
    Malloc malloc = nullptr;
    Calloc calloc = nullptr;
    Realloc realloc = nullptr;
    Free free = nullptr;
    Aligned aligned_alloc = nullptr, memalign = nullptr;
    PosixMemalign posix_memalign = nullptr;
};
Real real;
// The first call comes before main, when there is one thread; `ready` is set last.
bool looking = false, ready = false;

bool find_real() {
    if (ready)
        return true;
    if (looking)
        return false;
    looking = true;
    real.malloc = next<Malloc>("malloc");
    real.calloc = next<Calloc>("calloc");
    real.realloc = next<Realloc>("realloc");
    real.free = next<Free>("free");
    real.aligned_alloc = next<Aligned>("aligned_alloc");
    real.memalign = next<Aligned>("memalign");
    real.posix_memalign = next<PosixMemalign>("posix_memalign");
    ready = true;
    return true;
}

void* new_or_throw(std::size_t bytes) {
    const HeapCall counted;
    void* memory = find_real() ? real.malloc(bytes ? bytes : 1) : early_take(bytes);
    if (!memory)
        throw std::bad_alloc();
    return memory;
}
void* new_or_throw(std::size_t bytes, std::align_val_t alignment) {
    const auto a = static_cast<std::size_t>(alignment);
    const HeapCall counted;
    void* memory = find_real() ? real.aligned_alloc(a, (bytes + a - 1) / a * a) : nullptr;
    if (!memory)
        throw std::bad_alloc();
    return memory;
}
void give_back(void* memory) {
    if (memory && !is_early(memory) && find_real())
        real.free(memory);
}
} // namespace

extern "C" {
void* malloc(std::size_t bytes) noexcept {
    const HeapCall counted;
    return find_real() ? real.malloc(bytes) : early_take(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
    const HeapCall counted;
    return find_real() ? real.calloc(count, bytes) : early_take(count * bytes); // the early bytes are zero
}
void* realloc(void* memory, std::size_t bytes) noexcept {
    const HeapCall counted;
    if (!is_early(memory))
        return find_real() ? real.realloc(memory, bytes) : early_take(bytes);
    void* moved = find_real() ? real.malloc(bytes) : early_take(bytes);
    const auto held = static_cast<std::size_t>(early + sizeof early - static_cast<char*>(memory));
    if (moved)
        std::memcpy(moved, memory, bytes < held ? bytes : held);
    return moved;
}
void free(void* memory) noexcept {
    give_back(memory);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
    const HeapCall counted;
    return find_real() ? real.aligned_alloc(alignment, bytes) : nullptr;
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
    const HeapCall counted;
    return find_real() ? real.memalign(alignment, bytes) : nullptr;
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) noexcept {
    const HeapCall counted;
    return find_real() ? real.posix_memalign(out, alignment, bytes) : ENOMEM;
}

// mimalloc's own names, for those who call them directly. Never reached where it is not linked.
#define THRONG_COUNT_MI(name, parameters, arguments)                                                                                       \
    void* name parameters {                                                                                                                \
        static void*(*const function)parameters = next<void*(*)parameters>(#name);                                                         \
        const HeapCall counted;                                                                                                            \
        return function arguments;                                                                                                         \
    }
THRONG_COUNT_MI(mi_malloc, (std::size_t bytes), (bytes))
THRONG_COUNT_MI(mi_zalloc, (std::size_t bytes), (bytes))
THRONG_COUNT_MI(mi_calloc, (std::size_t count, std::size_t bytes), (count, bytes))
THRONG_COUNT_MI(mi_realloc, (void* memory, std::size_t bytes), (memory, bytes))
THRONG_COUNT_MI(mi_malloc_aligned, (std::size_t bytes, std::size_t alignment), (bytes, alignment))
THRONG_COUNT_MI(mi_zalloc_aligned, (std::size_t bytes, std::size_t alignment), (bytes, alignment))
THRONG_COUNT_MI(mi_realloc_aligned, (void* memory, std::size_t bytes, std::size_t alignment), (memory, bytes, alignment))
THRONG_COUNT_MI(mi_new, (std::size_t bytes), (bytes))
THRONG_COUNT_MI(mi_new_aligned, (std::size_t bytes, std::size_t alignment), (bytes, alignment))
#undef THRONG_COUNT_MI

void* mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
    map_calls.fetch_add(1, std::memory_order_relaxed);
    return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}
void* mmap64(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
    return mmap(address, bytes, protection, flags, file, offset);
}
void* mremap(void* old, std::size_t old_bytes, std::size_t bytes, int flags, ...) noexcept {
    map_calls.fetch_add(1, std::memory_order_relaxed);
    __builtin_va_list rest;
    __builtin_va_start(rest, flags);
    void* fixed = (flags & 2) != 0 ? __builtin_va_arg(rest, void*) : nullptr; // MREMAP_FIXED
    __builtin_va_end(rest);
    return reinterpret_cast<void*>(syscall(SYS_mremap, old, old_bytes, bytes, flags, fixed));
}
} // extern "C"

void* operator new(std::size_t bytes) {
    return new_or_throw(bytes);
}
void* operator new[](std::size_t bytes) {
    return new_or_throw(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t a) {
    return new_or_throw(bytes, a);
}
void* operator new[](std::size_t bytes, std::align_val_t a) {
    return new_or_throw(bytes, a);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    return malloc(bytes ? bytes : 1);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
    return malloc(bytes ? bytes : 1);
}
void operator delete(void* memory) noexcept {
    give_back(memory);
}
void operator delete[](void* memory) noexcept {
    give_back(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    give_back(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
    give_back(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
    give_back(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
    give_back(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    give_back(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
    give_back(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
    give_back(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
    give_back(memory);
}

#endif
