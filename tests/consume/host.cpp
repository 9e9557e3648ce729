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
#include <throng/client.hpp>
#include <throng/ecs.hpp>
#include <throng/executor.hpp>
#include <throng/loopback.hpp>
#include <throng/memory.hpp>
#include <throng/server.hpp>

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

/// A session with every section compressed, so that all that the library stands on is linked.
void check_replication(throng::Executor& executor) {
    throng::Protocol protocol;
    const throng::Range map{-1000, 1000, 0.01};
    protocol.component<Position>("position").field(&Position::x, map).field(&Position::y, map);
    expect(protocol.finish() == throng::Error::none, "a protocol is finished");
    throng::World world, seen;
    throng::LoopbackNetwork network({.seed = 1});
    throng::Server server(world, protocol, network.server(), {.executor = &executor, .compression = throng::Compression::always});
    throng::Client client(seen, protocol, network.client(network.connect({.loss_percent = 5, .delay_us = 40'000})));
    const throng::Entity entity = world.spawn(Position{1, 5}, throng::Replicated{});
    for (throng::TimeUs now = 0; now < 5'000'000; now += 50'000) {
        server.receive(now);
        if (now < 4'000'000)
            world.mut<Position>(entity)->x += 0.5f;
        server.tick(now);
        expect(client.receive(now) == throng::Error::none && client.send(now) == throng::Error::none, "a client takes part");
    }
    const Position* const shown = seen.get<Position>(client.entity(server.net_id(entity)));
    expect(shown && shown->x > 40.99f && shown->x < 41.01f, "a client is shown what the server has");
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
    check_replication(*throng::make_tbb_executor(2));

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
