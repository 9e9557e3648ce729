// A small host of the library, built by consume_test.py as a Meson subproject's parent, through pkg-config and from CMake.
// Proves that the library works when it is embedded, and that it leaves the host's malloc alone.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <throng/assert.hpp>
#include <throng/base.hpp>
#include <throng/ecs.hpp>
#include <throng/executor.hpp>
#include <throng/memory.hpp>

namespace {

int failures = 0;

void expect(bool good, const char* what) {
    if (!good) {
        std::printf("host: failed: %s\n", what);
        ++failures;
    }
}

void check_executor(throng::Executor& executor) {
    std::atomic<throng::u64> sum{0};
    throng::for_ranges(executor, 1000, 16, [&](throng::u32 begin, throng::u32 end, throng::u32) {
        for (throng::u32 i = begin; i < end; ++i)
            sum += i;
    });
    expect(sum == 499500, "a loop visits every index once");
}

struct Position {
    float x, y;
};
struct Velocity {
    float x, y;
};

void check_world(throng::Executor& executor) {
    throng::World world;
    for (int i = 0; i < 1000; ++i) {
        if (i % 2)
            world.spawn(Position{float(i), 0}, Velocity{1, 2});
        else
            world.spawn(Position{float(i), 0});
    }
    world.each_mut<Position, Velocity>(executor, [](Position& position, const Velocity& velocity) {
        position.x += velocity.x;
        position.y += velocity.y;
    });
    float sum = 0;
    world.each<Position>([&](const Position& position) { sum += position.x + position.y; });
    expect(sum == 999 * 500 + 500 * 3, "a system moves what has a velocity");
}

int find_mimalloc(dl_phdr_info* info, std::size_t, void* found) {
    if (info->dlpi_name && std::strstr(info->dlpi_name, "mimalloc"))
        *static_cast<bool*>(found) = true;
    return 0;
}

/// The file that a function of the process comes from.
bool comes_from_libc(const char* symbol) {
    Dl_info info{};
    void* address = dlsym(RTLD_DEFAULT, symbol);
    return address && dladdr(address, &info) && info.dli_fname && std::strstr(info.dli_fname, "libc.so");
}

} // namespace

int main() {
    expect(std::strcmp(throng::version(), EXPECTED_VERSION) == 0, "the version is the project's");
    check_executor(*throng::make_serial_executor());
    check_executor(*throng::make_threads_executor(2));
    check_executor(*throng::make_tbb_executor(2));
    check_world(*throng::make_threads_executor(2));

    const throng::Allocator allocator = throng::default_allocator();
    void* memory = allocator.allocate(100, 64);
    expect(reinterpret_cast<std::size_t>(memory) % 64 == 0, "memory is aligned");
    allocator.free(memory, 100, 64);

    bool mimalloc_loaded = false;
    dl_iterate_phdr(find_mimalloc, &mimalloc_loaded);
    expect(!mimalloc_loaded, "no mimalloc in a process that links throng");
    for (const char* symbol : {"malloc", "free", "realloc", "aligned_alloc"})
        expect(comes_from_libc(symbol), symbol);
    if (failures == 0)
        std::printf("host: ok\n");
    return failures == 0 ? 0 : 1;
}
