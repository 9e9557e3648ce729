#pragma once
// What several ECS tests share: an allocator that counts, an executor on plain threads, asserts that throw.
#include "throng/assert.hpp"
#include "throng/executor.hpp"
#include "throng/memory.hpp"
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

namespace ecs_test {
using throng::u32;
using throng::u64;

/// Counts live bytes and calls; fails from call `fail_at` on.
struct CountingMemory {
    std::size_t live_bytes = 0;
    u64 allocations = 0;
    u64 fail_at = ~u64(0);
    throng::Allocator allocator() {
        return {[](void* context, std::size_t bytes, std::size_t alignment) {
                    auto& self = *static_cast<CountingMemory*>(context);
                    if (self.allocations >= self.fail_at)
                        throw std::bad_alloc();
                    const std::size_t unit = std::max<std::size_t>(alignment, 64);
                    void* memory = std::aligned_alloc(unit, (bytes / unit + 2) * unit);
                    if (!memory)
                        throw std::bad_alloc();
                    ++self.allocations;
                    self.live_bytes += bytes;
                    return memory;
                },
                [](void* context, void* memory, std::size_t bytes, std::size_t) {
                    static_cast<CountingMemory*>(context)->live_bytes -= bytes;
                    std::free(memory);
                },
                this};
    }
};

/// Pieces dealt out in turn to `workers` threads.
class ThreadsForTest : public throng::Executor {
public:
    explicit ThreadsForTest(u32 workers) : workers_(workers) {}
    u32 worker_count() const override { return workers_; }
    void parallel_for(u32 count, u32 grain, RangeFn fn, void* context) override {
        std::exception_ptr failure;
        std::mutex mutex;
        std::vector<std::thread> threads;
        for (u32 worker = 0; worker < workers_; ++worker)
            threads.emplace_back([=, this, &failure, &mutex] {
                try {
                    for (u64 begin = u64(worker) * grain; begin < count; begin += u64(workers_) * grain)
                        fn(context, static_cast<u32>(begin), static_cast<u32>(std::min<u64>(begin + grain, count)), worker);
                } catch (...) {
                    const std::lock_guard lock(mutex);
                    failure = std::current_exception();
                }
            });
        for (std::thread& thread : threads)
            thread.join();
        if (failure)
            std::rethrow_exception(failure);
    }

private:
    u32 workers_;
};

/// While alive, a failed assertion throws AssertFailed.
struct AssertFailed : std::runtime_error {
    using std::runtime_error::runtime_error;
};
class ThrowingAsserts {
public:
    ThrowingAsserts()
        : previous_(throng::set_assert_handler([](const char* expression, const char*, int) { throw AssertFailed(expression); })) {}
    ThrowingAsserts(const ThrowingAsserts&) = delete;
    ThrowingAsserts& operator=(const ThrowingAsserts&) = delete;
    ~ThrowingAsserts() { throng::set_assert_handler(previous_); }

private:
    throng::AssertHandler previous_;
};

/// Whether the call asserts, while a ThrowingAsserts lives.
template <class F>
bool asserts(F&& call) {
    try {
        call();
    } catch (const AssertFailed&) {
        return true;
    }
    return false;
}

/// xorshift; the same numbers in each run.
struct Random {
    u64 state;
    u32 below(u32 limit) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return static_cast<u32>((state >> 32) % limit);
    }
};

} // namespace ecs_test

namespace throng::detail {
/// Reaches what no caller can: generations of 2^32 reuses, ids beyond 2^32, the row numbers of an entity.
struct WorldTestAccess {
    template <class World>
    static void set_gen(World& world, u32 entity_idx, u32 gen) {
        world.meta(entity_idx).gen = gen;
    }
    template <class World>
    static void set_last_entity_id(World& world, u64 id) {
        world.last_entity_id_ = id;
    }
    template <class World>
    static auto& meta(World& world, u32 entity_idx) {
        return world.meta(entity_idx);
    }
    template <class World>
    static u32 index_count(const World& world, u32 entity_idx) {
        return world.meta(entity_idx).count();
    }
    template <class World>
    static u32 index_at(const World& world, u32 entity_idx, u32 k) {
        return world.meta(entity_idx).list()[k];
    }
};
} // namespace throng::detail
