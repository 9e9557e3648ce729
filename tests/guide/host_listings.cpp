// Listings of docs/guide.md: what a host hands in - executors, memory - and how errors reach it.
#include "throng/ecs.hpp"
#include "throng/memory_pmr.hpp"
#include <atomic>
#include <doctest/doctest.h>
#include <stdexcept>
#include <tbb/task_arena.h>

using namespace throng;

namespace {
struct Health { int hp = 100; };

// [counting_allocator]
std::atomic<u64> bytes_in_use{0};

Allocator counting_allocator() {
    Allocator counting;
    counting.allocate_fn = [](void*, std::size_t bytes, std::size_t alignment) {
        bytes_in_use += bytes;
        return default_allocator().allocate(bytes, alignment);
    };
    counting.free_fn = [](void*, void* memory, std::size_t bytes, std::size_t alignment) {
        bytes_in_use -= bytes;
        default_allocator().free(memory, bytes, alignment);
    };
    return counting;
}
// [/counting_allocator]
} // namespace

TEST_SUITE("guide") {
    TEST_CASE("[tbb] the host's arena") {
        // [tbb_arena]
        tbb::task_arena arena(2);                        // the host's own
        ExecutorHandle jobs = make_tbb_executor_in(&arena);
        std::atomic<u32> sum{0};
        for_ranges(*jobs, 1000, 64, [&](u32 begin, u32 end, u32 /*worker*/) { sum += end - begin; });
        // [/tbb_arena]
        CHECK(sum == 1000);
    }

    TEST_CASE("memory") {
        {
            // [memory]
            World counted({.allocator = counting_allocator()});
            std::pmr::synchronized_pool_resource pool;
            World pooled({.allocator = allocator_from(pool)});
            // [/memory]
            counted.spawn(Health{});
            pooled.spawn(Health{});
            CHECK(bytes_in_use > 0);
        }
        CHECK(bytes_in_use == 0);
    }

    TEST_CASE("a client's world") {
        // [small_world]
        World client_world({.block_rows = 64}); // a few hundred entities: small blocks
        // [/small_world]
        CHECK(client_world.options().block_rows == 64);
    }

    TEST_CASE("asserts") {
        // [assert_handler]
        const AssertHandler before = set_assert_handler([](const char* expression, const char*, int) {
            throw std::logic_error(expression); // a host would log and end the process
        });
        // [/assert_handler]
        World world;
        world.spawn(Health{});
        CHECK_THROWS_AS(world.each<Health>([&](const Health&) { world.spawn(Health{}); }), std::logic_error);
        set_assert_handler(before);
        CHECK(world.entity_count() == 1);
    }
}
