// Checks that the counting allocator sees every way to take memory, libraries included, and that memory works under it.
#include "bench/alloc_count.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <zstd.h>

static int failures = 0;
template <class F>
static void expect_counted(const char* what, F&& f) {
    const std::uint64_t before = scenarios::allocation_counts().total();
    f();
    if (scenarios::allocation_counts().total() == before) {
        std::printf("not counted: %s\n", what);
        ++failures;
    }
}

/// So that nothing is optimised away.
static void* kept(void* memory) {
    asm volatile("" : "+r"(memory));
    return memory;
}

int main() {
    if (!scenarios::allocations_are_counted()) {
        std::puts("skipped: sanitizer build");
        return 77;
    }
    expect_counted("malloc", [] { std::free(kept(std::malloc(100))); });
    expect_counted("calloc", [] { std::free(kept(std::calloc(10, 10))); });
    expect_counted("realloc", [] { std::free(kept(std::realloc(std::malloc(10), 100'000))); });
    expect_counted("aligned_alloc", [] { std::free(kept(std::aligned_alloc(64, 128))); });
    expect_counted("posix_memalign", [] {
        void* p = nullptr;
        if (posix_memalign(&p, 64, 128) == 0)
            std::free(kept(p));
    });
    expect_counted("operator new", [] { ::operator delete(kept(::operator new(100))); });
    expect_counted("operator new[]", [] { delete[] static_cast<char*>(kept(new char[100])); });
    expect_counted("aligned operator new", [] {
        ::operator delete(kept(::operator new(128, std::align_val_t(64))), std::align_val_t(64));
    });
    expect_counted("a library", [] { ZSTD_freeCCtx(ZSTD_createCCtx()); });
    expect_counted("another thread", [] { std::thread([] { std::free(kept(std::malloc(100))); }).join(); });
    expect_counted("mmap", [] {
        void* p = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) {
            std::puts("mmap failed");
            ++failures;
            return;
        }
        std::memset(p, 1, 4096);
        munmap(p, 4096);
    });
    const std::uint64_t before = scenarios::allocation_counts().total();
    volatile int sum = 0;
    for (int i = 0; i < 1000; ++i)
        sum = sum + i;
    if (scenarios::allocation_counts().total() != before) {
        std::puts("counted where nothing was taken");
        ++failures;
    }
    std::printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
