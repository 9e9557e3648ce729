#include "support.hpp"
#include "throng/ecs.hpp"
#include "throng/memory_pmr.hpp"
#include <atomic>
#include <doctest/doctest.h>
#include <memory_resource>
#include <vector>

using namespace throng;

// Counts every operator new of this program.
namespace {
std::atomic<u64> operator_new_calls{0};
void* counted(std::size_t bytes, std::size_t alignment) {
    ++operator_new_calls;
    void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (!memory)
        throw std::bad_alloc();
    return memory;
}
} // namespace
void* operator new(std::size_t bytes) { return counted(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return counted(bytes, std::max<std::size_t>(static_cast<std::size_t>(alignment), 16));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {
struct Point {
    int x, y;
};
template <int N>
struct Extra {
    int value;
};

/// A memory resource over malloc that counts.
class CountingResource : public std::pmr::memory_resource {
public:
    std::size_t live_bytes = 0;
    std::size_t peak_bytes = 0;
    u64 allocations = 0;

private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        ++allocations;
        live_bytes += bytes;
        peak_bytes = std::max(peak_bytes, live_bytes);
        alignment = std::max<std::size_t>(alignment, 16);
        return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    }
    void do_deallocate(void* memory, std::size_t bytes, std::size_t) override {
        live_bytes -= bytes;
        std::free(memory);
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
};

template <int... Ns>
Prefab wide_prefab(Allocator allocator, std::integer_sequence<int, Ns...>) {
    Prefab prefab(allocator);
    (static_cast<void>(prefab.add(Extra<Ns>{Ns})), ...);
    return prefab;
}
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("E17 everything comes from the world's memory resource, and returns to it") {
        CountingResource resource;
        std::pmr::memory_resource* previous = std::pmr::set_default_resource(std::pmr::null_memory_resource());
        const u64 new_before = operator_new_calls;
        u64 destroyed = 0;
        {
            World world({.allocator = allocator_from(resource)});
            world.log_structure(component_id<Point>(), true);
            const Prefab prefab = wide_prefab(allocator_from(resource), std::make_integer_sequence<int, 40>{});
            Entity entities[300];
            world.instantiate_n(prefab, entities);
            for (const Entity& e : entities) {
                world.add<Point>(e, 1, 2);
                world.remove<Extra<7>>(e);
            }
            for (int i = 0; i < 300; i += 2)
                destroyed += world.destroy(entities[i]);
            world.spawn(Point{1, 2}, Extra<3>{4});
            WorldSnapshot snapshot = world.snapshot();
            world.each_mut<Point, Extra<3>>([](Point& p, Extra<3>& extra) { p.x = extra.value; });
            destroyed += world.destroy_batch(entities);
            destroyed += world.restore(snapshot) == Error::none;
        }
        const u64 new_after = operator_new_calls;
        std::pmr::set_default_resource(previous);
        CHECK(destroyed == 301);
        CHECK(new_after == new_before);
        CHECK(resource.allocations > 50);
        CHECK(resource.live_bytes == 0);
    }
    TEST_CASE("memory_report counts every byte, hooks and resources too") {
        CountingResource resource;
        {
            World world({.allocator = allocator_from(resource)});
            u32 wrong = world.memory_report().total != resource.live_bytes;
            const auto check = [&](int line) {
                const MemoryReport report = world.memory_report();
                CAPTURE(line);
                CHECK(report.total == resource.live_bytes);
                wrong += report.total != resource.live_bytes;
            };
            world.log_structure(component_id<Point>(), true);
            Entity entities[300];
            world.instantiate_n(wide_prefab(allocator_from(resource), std::make_integer_sequence<int, 12>{}), entities);
            check(__LINE__);
            std::byte closure[200] = {};
            const HookId hook = world.on_add<Point>([closure](World& w, Entity e, Point& p) {
                p.y = int(closure[3]);
                if (p.x == 1)
                    w.on_destroy([](World&, Entity) {});
                w.destroy(p.x == 2 ? e : Entity{});
            });
            const u64 hook_bytes = world.memory_report().hooks;
            CHECK(hook_bytes > 200);
            check(__LINE__);
            for (int i = 0; i < 100; ++i)
                world.add<Point>(entities[i], i, i);
            check(__LINE__);
            world.unhook(hook);
            CHECK(world.memory_report().hooks + 200 < hook_bytes + 64); // the table stays, and a closure of the other hook
            check(__LINE__);
            world.resources().emplace<CountingResource>();
            CHECK(world.memory_report().resources >= sizeof(CountingResource));
            check(__LINE__);
            world.resources().remove<CountingResource>();
            check(__LINE__);
            for (int i = 1; i < 50; ++i)
                world.add<ChildOf>(entities[i * 3 + 2], entities[0]);
            check(__LINE__);
            {
                ChangeReader<Point> changes(world);
                DestroyReader ends(world);
                world.sort<Point>([](const Point& a, const Point& b) { return a.x > b.x; });
                world.destroy_batch(entities);
                check(__LINE__);
            }
            check(__LINE__);
            CHECK(wrong == 0);
        }
        CHECK(resource.live_bytes == 0);
    }
    TEST_CASE("a world in slabs of huge pages takes nothing from elsewhere") {
        CountingResource resource;
        const u64 new_before = operator_new_calls;
        std::size_t used = 0, slab_bytes = 0;
        u64 total = 0, destroyed = 0;
        bool aligned = true, flat = true;
        {
            SharedSlabs slabs(allocator_from(resource), SlabPages::huge);
            {
                World world({.allocator = slabs.allocator()});
                Entity entities[2000];
                for (u32 round = 0; round < 10; ++round) {
                    const std::size_t before = slabs.bytes();
                    world.spawn_n<Point, Extra<1>, Extra<2>>(entities, [](u32, Point&, Extra<1>&, Extra<2>&) {});
                    destroyed += world.destroy_batch(entities);
                    flat = flat && (round == 0 || slabs.bytes() == before);
                }
                used = slabs.used_bytes();
                slab_bytes = slabs.bytes();
                total = world.memory_report().total;
                aligned = slab_bytes % (std::size_t(2) << 20) == 0;
            }
            used -= slabs.used_bytes();
        }
        CHECK(operator_new_calls == new_before);
        CHECK(destroyed == 20'000);
        CHECK(aligned);
        CHECK(flat);
        CHECK(used >= total); // all of the world is in the slabs, and went with it
        CHECK(used <= total * 9 / 8 + 64 * 64);
        CHECK(resource.live_bytes == 0);
        CHECK(resource.peak_bytes <= slab_bytes + 1024);
    }
    TEST_CASE("E17 the default allocator is the aligned operator new") {
        const u64 before = operator_new_calls;
        World world;
        world.spawn(Point{1, 2});
        CHECK(operator_new_calls > before);
    }
    TEST_CASE("E18 a million entities come and go in flat memory") {
        CountingResource resource;
        {
            World world({.allocator = allocator_from(resource), .block_rows = 256});
            const Prefab prefab = wide_prefab(allocator_from(resource), std::make_integer_sequence<int, 12>{}); // lists overflow
            std::vector<Entity> entities(100);
            std::size_t flat = 0;
            for (int cycle = 0; cycle < 10000; ++cycle) {
                if (cycle % 50 == 0) {
                    world.instantiate_n(prefab, entities);
                } else {
                    for (Entity& e : entities) {
                        e = world.create();
                        world.add<Point>(e, cycle, cycle);
                    }
                }
                if (cycle == 100)
                    flat = resource.live_bytes;
                for (const Entity& e : entities)
                    world.destroy(e);
            }
            CHECK(world.entity_count() == 0);
            CHECK(world.entity_slots() == 100);
            CHECK(world.last_entity_id() == 1000000);
            CHECK(resource.live_bytes == flat);
            CHECK(resource.peak_bytes == flat);
        }
        CHECK(resource.live_bytes == 0);
    }
}
