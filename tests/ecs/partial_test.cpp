#include "support.hpp"
#include "throng/ecs.hpp"
#include <cstring>
#include <doctest/doctest.h>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace throng;

namespace {
struct Place {
    int x, y;
};
struct Name {
    std::string text;
};
struct Hp {
    int value;
};
struct Marker {};
struct Handle {
    std::unique_ptr<int> value;
};
struct Fragile {
    int value = 0;
    static inline int copies_left = 1 << 30;
    explicit Fragile(int n) : value(n) {}
    Fragile(const Fragile& other) : value(other.value) {
        if (--copies_left < 0)
            throw std::runtime_error("copy");
    }
    Fragile(Fragile&&) noexcept = default;
    Fragile& operator=(Fragile&&) noexcept = default;
};
template <int N>
struct Filler {
    int value;
};

u32 inconsistent(const World& world) {
    u32 wrong = 0;
    for (ComponentId id = 0; id < World::max_components; ++id)
        if (const PoolBase* pool = world.pool_of(id))
            for (u32 row = 0; row < pool->size(); ++row)
                wrong += world.dense_index(pool->owner(row), id) != row || !world.entity_at(pool->owner(row));
    u32 rows = 0, components = 0;
    for (u32 i = 0; i < world.entity_slots(); ++i)
        components += world.signature(world.entity_at(i)).count();
    for (ComponentId id = 0; id < World::max_components; ++id)
        rows += world.pool_of(id) ? world.pool_of(id)->size() : 0;
    return wrong + (rows != components);
}
template <int... Ns>
void spawn_wide(World& world, std::integer_sequence<int, Ns...>) {
    world.spawn(Filler<Ns>{Ns}...);
}
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("a partial snapshot brings back its types, and leaves everything else alone") {
        World world({.block_rows = 64});
        ecs_test::Random random{5};
        std::vector<Entity> entities;
        for (int i = 0; i < 1000; ++i) {
            entities.push_back(world.spawn(Place{i, 0}, Hp{i}));
            if (i % 3 == 0)
                world.add<Name>(entities.back(), "a name that does not fit into the string itself, number " + std::to_string(i));
            if (i % 5 == 0)
                world.add<Marker>(entities.back());
        }
        const PartialSnapshot snapshot = world.snapshot_of<Place, Name, Marker>();
        std::vector<Place> before;
        world.each<Place>([&](const Place& place) { before.push_back(place); });
        SUBCASE("with all entities alive, the bytes and the order are those of then") {
            for (int i = 0; i < 3000; ++i) {
                const Entity e = entities[random.below(1000)];
                switch (random.below(4)) {
                case 0:
                    world.remove<Place>(e);
                    break;
                case 1:
                    world.add<Place>(e, -1, -1);
                    break;
                case 2:
                    world.remove<Name>(e);
                    break;
                default:
                    world.add<Name>(e, "late");
                    break;
                }
            }
            world.sort<Place>([](const Place& a, const Place& b) { return a.x < b.x; });
            world.each_mut<Hp>([](Hp& hp) { hp.value = -hp.value; });
            CHECK(world.restore(snapshot) == Error::none);
            CHECK(inconsistent(world) == 0);
            std::vector<Place> after;
            world.each<Place>([&](const Place& place) { after.push_back(place); });
            REQUIRE(after.size() == before.size());
            CHECK(std::memcmp(after.data(), before.data(), before.size() * sizeof(Place)) == 0);
            u32 wrong = 0;
            for (int i = 0; i < 1000; ++i) {
                const Entity e = entities[u32(i)];
                wrong += world.get<Hp>(e)->value != -i || world.get<Place>(e)->x != i;
                wrong += world.has<Name>(e) != (i % 3 == 0) || world.has<Marker>(e) != (i % 5 == 0);
                if (i % 3 == 0)
                    wrong += world.get<Name>(e)->text != "a name that does not fit into the string itself, number " + std::to_string(i);
            }
            CHECK(wrong == 0);
        }
        SUBCASE("the dead stay dead, the new lose the types, and readers and the log hear of it") {
            world.log_structure(component_id<Place>(), true);
            ChangeReader<Place> reader(world, {.present_changed = false});
            world.destroy(entities[7]);
            const Entity fresh = world.spawn(Place{9, 9}, Hp{9});
            REQUIRE(fresh.entity_idx == entities[7].entity_idx);
            world.remove<Place>(entities[8]);
            world.clear_structure_log();
            reader.skip();
            CHECK(world.restore(snapshot) == Error::none);
            CHECK(inconsistent(world) == 0);
            CHECK_FALSE(world.alive(entities[7]));
            CHECK(world.alive(fresh));
            CHECK_FALSE(world.has<Place>(fresh));
            CHECK(world.get<Hp>(fresh)->value == 9);
            CHECK(world.get<Place>(entities[8])->x == 8);
            std::map<u64, StructureEvent::Kind> log;
            for (const StructureEvent& event : world.structure_log())
                log[event.entity_id] = event.kind;
            CHECK(log == std::map<u64, StructureEvent::Kind>{{entities[8].entity_id, StructureEvent::Kind::added},
                                                             {fresh.entity_id, StructureEvent::Kind::removed}});
            u32 removed = 0;
            CHECK(reader.each_removed([&](const Removal& removal) { removed += removal.entity == fresh; }) == 1);
            CHECK(removed == 1);
            CHECK(reader.each([](const Place&) {}) == 999);
        }
    }
    TEST_CASE("a partial snapshot is refused where it cannot be") {
        World world;
        PartialSnapshot out;
        const Entity e = world.spawn(Place{1, 1}, Handle{});
        const ComponentId types[] = {component_id<Place>(), component_id<Handle>()};
        CHECK(world.snapshot_into(out, types) == Error::unsupported);
        CHECK(out.empty());
        CHECK(world.restore(out) == Error::unsupported);
        CHECK(world.snapshot_into(out, {types, 1}) == Error::none);
        CHECK(out.pool_of(component_id<Place>())->size() == 1);
        CHECK(out.pool_of(component_id<Handle>()) == nullptr);
        World other({.block_rows = 64});
        CHECK(other.restore(out) == Error::unsupported);
        {
            const ecs_test::ThrowingAsserts asserts;
            CHECK_THROWS_AS(world.each<Place>([&](const Place&) { (void)world.restore(out); }), ecs_test::AssertFailed);
        }
        CHECK(world.get<Place>(e)->x == 1);
    }
    TEST_CASE("a copy that throws on the way back leaves a world that is whole") {
        World world({.block_rows = 64});
        world.log_structure(component_id<Fragile>(), true);
        for (int i = 0; i < 300; ++i)
            world.spawn(Fragile(i), Hp{i});
        const PartialSnapshot snapshot = world.snapshot_of<Fragile>();
        Fragile::copies_left = 150;
        CHECK_THROWS_AS((void)world.restore(snapshot), std::runtime_error);
        Fragile::copies_left = 1 << 30;
        CHECK(inconsistent(world) == 0);
        CHECK(world.find_pool<Fragile>()->size() == 0);
        CHECK(world.find_pool<Hp>()->size() == 300);
        CHECK(world.restore(snapshot) == Error::none);
        CHECK(inconsistent(world) == 0);
        CHECK(world.find_pool<Fragile>()->size() == 300);
    }
    TEST_CASE("repeated partial snapshots and restores allocate nothing") {
        ecs_test::CountingMemory memory;
        {
            World world({.allocator = memory.allocator()});
            for (int i = 0; i < 5000; ++i)
                world.spawn(Place{i, i}, Hp{i});
            const ComponentId types[] = {component_id<Place>()};
            PartialSnapshot ring[3];
            for (PartialSnapshot& snapshot : ring)
                CHECK(world.snapshot_into(snapshot, types) == Error::none);
            const u64 warm = memory.allocations;
            for (int i = 0; i < 9; ++i) {
                world.each_mut<Place>([](Place& place) { ++place.x; });
                CHECK(world.snapshot_into(ring[i % 3], types) == Error::none);
                if (i % 4 == 3)
                    CHECK(world.restore(ring[(i + 1) % 3]) == Error::none); // two steps back
            }
            CHECK(memory.allocations == warm);
            CHECK(world.find_pool<Place>()->operator[](10).x == 10 + 9 - 4);
        }
        CHECK(memory.live_bytes == 0);
    }
    TEST_CASE("the memory report is what the allocator gave, to the byte, at every stage") {
        ecs_test::CountingMemory memory;
        {
            World world({.allocator = memory.allocator(), .block_rows = 256});
            CHECK(world.memory_report().total == memory.live_bytes);
            world.log_structure(component_id<Place>(), true);
            std::vector<Entity> entities;
            for (int i = 0; i < 5000; ++i)
                entities.push_back(world.spawn(Place{i, i}, Hp{i}));
            for (int i = 0; i < 100; ++i)
                spawn_wide(world, std::make_integer_sequence<int, 20>{});
            CHECK(world.memory_report().total == memory.live_bytes);
            {
                ChangeReader<Place> reader(world), second(world, {.removals_max = 5000});
                reader.each([](const Place&) {});
                CHECK(world.memory_report().change_readers > 0);
                CHECK(world.memory_report().total == memory.live_bytes);
            }
            CHECK(world.memory_report().change_readers == 0);
            world.sort<Place>([](const Place& a, const Place& b) { return a.x > b.x; });
            world.sort_as<Place, Hp>();
            world.destroy_batch(entities);
            const MemoryReport report = world.memory_report();
            CHECK(report.total == memory.live_bytes);
            CHECK(report.scratch > 0);
            CHECK(report.log > 0);
            CHECK(report.row_lists > 0);
            CHECK(report.rows_used == 100 * 20 * (sizeof(int) + sizeof(u32)));
        }
        CHECK(memory.live_bytes == 0);
    }
    TEST_CASE("two worlds on two threads do not meet") {
        // Each with its own memory, they give what one gives alone; component ids are given out on the way. What they share is for the
        // thread sanitizer to find, and locks for lock_test.cpp to count.
        const auto run = [](u64 seed, u64& sum) {
            ecs_test::CountingMemory memory; // not safe to share
            World world({.allocator = memory.allocator(), .block_rows = 64});
            ecs_test::Random random{seed};
            ChangeReader<Place> reader(world);
            std::vector<Entity> entities;
            for (int i = 0; i < 3000; ++i) {
                entities.push_back(world.spawn(Place{i, 0}, Hp{i}));
                world.add<Filler<30>>(entities.back(), i);
                if (random.below(3) == 0)
                    world.destroy(entities[random.below(u32(entities.size()))]);
            }
            world.sort_as<Place, Filler<30>>();
            world.each_mut<Place, const Hp>([](Place& place, const Hp& hp) { place.y = hp.value; });
            const WorldSnapshot snapshot = world.snapshot();
            reader.each([&](const Place& place) { sum += u64(place.y); });
            sum += world.restore(snapshot) == Error::none;
        };
        u64 a = 0, b = 0, c = 0;
        std::thread other([&] { run(5, a); });
        run(6, b);
        other.join();
        run(5, c);
        CHECK(a == c);
        CHECK(a != 0);
        CHECK(b != a);
    }
}
