// Counts the locks of its process, so it is a program of its own: it puts itself in front of the C library's mutexes, which take futexes in
// their turn, and of the guards of local statics.
#include "throng/ecs.hpp"
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <vector>

namespace {
thread_local bool counting = false;
thread_local throng::u32 locks = 0;

using MutexFn = int (*)(pthread_mutex_t*);
using GuardFn = int (*)(abi::__guard*);
MutexFn next_lock = nullptr; // found at the first call of each, which may be before main
MutexFn next_trylock = nullptr;
GuardFn next_guard = nullptr;

/// Counts, and calls the function that this program stands in front of.
template <class F, class A>
int pass_on(F& next, const char* name, A* argument) {
    F found = __atomic_load_n(&next, __ATOMIC_RELAXED);
    if (!found) {
        found = reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
        __atomic_store_n(&next, found, __ATOMIC_RELAXED);
    }
    locks += counting;
    return found(argument);
}
} // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
    return pass_on(next_lock, "pthread_mutex_lock", mutex);
}
extern "C" int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
    return pass_on(next_trylock, "pthread_mutex_trylock", mutex);
}
extern "C" int abi::__cxa_guard_acquire(abi::__guard* guard) {
    return pass_on(next_guard, "__cxa_guard_acquire", guard);
}

using namespace throng;

namespace {
template <int N>
struct Value {
    int value = 0;
};
struct Name {
    u64 letters[4] = {};
};
struct Sum {
    u64 value = 0;
};
template <int N>
struct Numbered {};

/// Memory of one thread: takes, never gives back, knows no lock.
struct OwnMemory {
    static constexpr std::size_t size = std::size_t(64) << 20;
    std::byte* const begin = static_cast<std::byte*>(std::aligned_alloc(4096, size));
    std::size_t used = 0;
    OwnMemory() = default;
    OwnMemory(const OwnMemory&) = delete;
    OwnMemory& operator=(const OwnMemory&) = delete;
    ~OwnMemory() { std::free(begin); }
    Allocator allocator() {
        return {[](void* context, std::size_t bytes, std::size_t alignment) -> void* {
                    auto& self = *static_cast<OwnMemory*>(context);
                    self.used = (self.used + alignment - 1) & ~(alignment - 1);
                    if (size - self.used < bytes)
                        std::abort();
                    return self.begin + std::exchange(self.used, self.used + bytes);
                },
                [](void*, void*, std::size_t, std::size_t) {}, this};
    }
};

/// What a world can do, from the first use of the types on. Returns the sum of what it has seen.
u64 live(OwnMemory& memory) {
    World world({.allocator = memory.allocator(), .block_rows = 64});
    u64 sum = 0;
    const HookId hook = world.on_add<Value<4>>([&](World&, Entity) { ++sum; });
    ChangeReader<Value<0>> reader(world);
    DestroyReader ended(world);
    RollbackRing ring(world, 2);
    CommandQueue queue(world);
    world.resources().emplace<Sum>();
    world.log_structure(component_id<Value<1>>(), true);
    Prefab prefab(memory.allocator());
    prefab.add(Value<0>{1});
    prefab.add(Value<1>{2});
    prefab.add_child(Prefab(memory.allocator())).add(Value<2>{3});
    WorldSnapshot snapshot;
    Entity batch[16];
    for (u64 round = 1; round <= 20; ++round) {
        for (int i = 0; i < 40; ++i) {
            const Entity entity = world.spawn(Value<0>{i}, Value<1>{i}, Name{});
            world.add<Value<2>>(entity, i);
            world.set(entity, Value<4>{i});
            if (i % 2 == 0)
                world.remove<Value<1>>(entity);
            if (i % 4 == 0)
                world.destroy(entity);
        }
        world.spawn_n<Value<0>, Value<3>>(batch, [](u32 i, Value<0>& value, Value<3>&) { value.value = int(i); });
        const Entity tree = world.instantiate(prefab);
        sum += world.relate<ChildOf>(batch[0], tree) == Error::none;
        world.clone_tree(tree);
        world.destroy(tree);
        world.each_mut<Value<0>, Maybe<const Value<1>>>(without<Value<3>>, [](Value<0>& value, const Value<1>*) { ++value.value; });
        world.each<Value<0>>(queue.record([](Commands& commands, Entity entity, const Value<0>& value) {
            if (value.value % 8 == 0)
                commands.destroy(entity);
        }));
        queue.apply();
        world.each_block<Value<0>>([&](std::span<const Value<0>> values) { sum += values.size(); });
        world.sort<Value<0>>([](const Value<0>& a, const Value<0>& b) { return a.value > b.value; });
        world.sort_as<Value<0>, Value<1>>();
        sum += reader.each([&](const Value<0>& value) { sum += u64(value.value); });
        sum += reader.each_removed([](const Removal&) {}) + ended.each([](Entity) {});
        world.resources().mut<Sum>()->value = sum;
        sum += ring.save(round) == Error::none;
        sum += world.snapshot_into(snapshot) == Error::none;
        const PartialSnapshot part = world.snapshot_of<Value<0>>();
        world.destroy_batch(batch);
        sum += world.restore(part) == Error::none;
        sum += round % 5 != 0 || ring.restore(round) == Error::none;
        sum += round % 7 != 0 || world.restore(snapshot) == Error::none;
        world.clear_changes();
        world.clear_structure_log();
        sum += world.memory_report().total > 0;
    }
    world.unhook(hook);
    return sum + world.entity_count();
}

struct Outcome {
    u64 sum = 0;
    u32 locks = 0;
};
Outcome counted_life(u32& ready) {
    OwnMemory memory;
    __atomic_add_fetch(&ready, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < 2) // both come to new types at the same time
        continue;
    locks = 0;
    counting = true;
    const u64 sum = live(memory);
    counting = false;
    return {sum, locks};
}

template <int... Ns>
std::vector<ComponentId> numbers(u32 first, std::integer_sequence<int, Ns...>) {
    ComponentId (*const calls[])() = {component_id<Numbered<Ns>, 192>...};
    constexpr u32 count = sizeof...(Ns);
    std::vector<ComponentId> ids(count);
    for (u32 i = 0; i < count; ++i)
        ids[(first + i) % count] = calls[(first + i) % count]();
    return ids;
}
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("two worlds on two threads take no lock") {
        u32 ready = 0;
        Outcome a;
        std::thread other([&] { a = counted_life(ready); });
        const Outcome b = counted_life(ready);
        other.join();
        CHECK(a.locks == 0);
        CHECK(b.locks == 0);
        CHECK(a.sum == b.sum);
        CHECK(a.sum > 1000);
    }
    TEST_CASE("locks are counted") {
        std::mutex mutex;
        locks = 0;
        counting = true;
        { const std::lock_guard lock(mutex); }
        counting = false;
        CHECK(locks == 1);
        counting = true;
        static const u64 guarded = u64(std::abs(std::atoi("-7")));
        counting = false;
        CHECK(locks == 2);
        CHECK(guarded == 7);
    }
    TEST_CASE("types that threads use first at the same time have one number each, without gaps") {
        constexpr u32 types = 160, workers = 4;
        constexpr auto all = std::make_integer_sequence<int, types>{};
        std::vector<ComponentId> seen[workers];
        u32 ready = 0;
        std::vector<std::thread> threads;
        for (u32 worker = 0; worker < workers; ++worker)
            threads.emplace_back([&, worker] {
                __atomic_add_fetch(&ready, 1, __ATOMIC_ACQ_REL);
                while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < workers)
                    continue;
                seen[worker] = numbers(worker * types / workers, all);
            });
        for (std::thread& thread : threads)
            thread.join();
        for (u32 worker = 1; worker < workers; ++worker)
            CHECK(seen[worker] == seen[0]);
        std::vector<bool> given(types);
        for (const ComponentId id : seen[0]) {
            REQUIRE(id < types);
            CHECK(!given[id]);
            given[id] = true;
        }
        CHECK(numbers(0, all) == seen[0]);
    }
}
