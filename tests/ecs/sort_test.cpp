#include "support.hpp"
#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace throng;
using ecs_test::Random;

namespace {
struct Key {
    int value;
    int serial;
};
struct Heavy {
    std::unique_ptr<std::string> text; // moved, never copied
    explicit Heavy(int n) : text(std::make_unique<std::string>("heavy " + std::to_string(n))) {}
};
struct Wide {
    alignas(32) double values[8];
};
struct Mark {};

/// A churned world: all entities have Key, some the others. serial is the entity's id.
std::vector<Entity> churned(World& world, u32 count, u64 seed) {
    Random random{seed};
    std::vector<Entity> entities;
    for (u32 i = 0; i < count; ++i) {
        const Entity e = world.spawn(Key{int(random.below(50)), 0});
        world.mut<Key>(e)->serial = int(e.entity_id);
        entities.push_back(e);
    }
    for (u32 i = count; i > 1; --i)
        std::swap(entities[i - 1], entities[random.below(i)]);
    for (u32 i = 0; i < count; ++i) {
        if (random.below(4) != 0)
            world.add<Heavy>(entities[i], int(entities[i].entity_id));
        if (random.below(4) != 0)
            world.add<Wide>(entities[count - 1 - i], Wide{{double(entities[count - 1 - i].entity_id)}});
        if (random.below(2) != 0)
            world.add<Mark>(entities[i]);
    }
    for (u32 i = 0; i < count / 5; ++i) {
        const u32 k = random.below(u32(entities.size()));
        world.destroy(entities[k]);
        entities[k] = entities.back();
        entities.pop_back();
    }
    world.clear_changes();
    for (const Entity& e : entities)
        if (random.below(3) == 0) {
            world.mut<Key>(e);
            world.mut<Heavy>(e);
        }
    return entities;
}

/// Every component is where its entity says, with its own value.
u32 inconsistent(const World& world, const std::vector<Entity>& entities) {
    u32 wrong = 0;
    for (const Entity& e : entities) {
        wrong += world.get<Key>(e)->serial != int(e.entity_id);
        if (const Heavy* heavy = world.get<Heavy>(e))
            wrong += *heavy->text != "heavy " + std::to_string(e.entity_id);
        if (const Wide* wide = world.get<Wide>(e))
            wrong += wide->values[0] != double(e.entity_id);
        for (const ComponentId id : {component_id<Key>(), component_id<Heavy>(), component_id<Wide>(), component_id<Mark>()}) {
            const u32 dense = world.dense_index(e.entity_idx, id);
            wrong += dense != no_row && world.pool_of(id)->owner(dense) != e.entity_idx;
        }
    }
    return wrong;
}
template <class T>
std::map<u64, bool> marks(const World& world) {
    std::map<u64, bool> result;
    const Pool<T>& pool = *world.find_pool<T>();
    for (u32 i = 0; i < pool.size(); ++i)
        result[world.entity_at(pool.owner(i)).entity_id] = pool.changed(i);
    return result;
}
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("sort orders the rows of a pool, stably, with their entities and marks") {
        for (const u32 count : {0u, 1u, 2u, 16u, 17u, 1000u, 3000u}) {
            World world({.block_rows = 64});
            world.pool<Key>();
            world.pool<Heavy>();
            const std::vector<Entity> entities = churned(world, count, 5 + count);
            std::vector<int> before;
            world.each<Key>([&](const Key& key) { before.push_back(key.serial); });
            std::map<int, std::size_t> place;
            for (std::size_t i = 0; i < before.size(); ++i)
                place[before[i]] = i;
            const std::map<u64, bool> changed_before = marks<Key>(world);
            world.sort<Key>([](const Key& a, const Key& b) { return a.value < b.value; });
            u32 wrong = 0;
            const Pool<Key>& pool = *world.find_pool<Key>();
            REQUIRE(pool.size() == entities.size());
            for (u32 i = 1; i < pool.size(); ++i)
                wrong += pool[i - 1].value > pool[i].value ||
                         (pool[i - 1].value == pool[i].value && place[pool[i - 1].serial] > place[pool[i].serial]);
            CHECK(wrong == 0);
            CHECK(inconsistent(world, entities) == 0);
            CHECK(marks<Key>(world) == changed_before);
        }
    }
    TEST_CASE("sort_as brings pools into step: common entities first, at the same row numbers") {
        World world({.block_rows = 128});
        const std::vector<Entity> entities = churned(world, 4000, 31);
        const std::map<u64, bool> keys = marks<Key>(world), heavies = marks<Heavy>(world);
        world.sort<Key>([](const Key& a, const Key& b) { return a.value < b.value; });
        world.sort_as<Key, Heavy, Wide, Mark>();
        CHECK(inconsistent(world, entities) == 0);
        CHECK(marks<Key>(world) == keys);
        CHECK(marks<Heavy>(world) == heavies);
        u32 common = 0, wrong = 0;
        for (const Entity& e : entities)
            common += world.has<Heavy>(e) && world.has<Wide>(e) && world.has<Mark>(e);
        CHECK(common > 300);
        const Pool<Key>& lead = *world.find_pool<Key>();
        for (u32 i = 0; i < common; ++i) {
            for (const ComponentId id : {component_id<Heavy>(), component_id<Wide>(), component_id<Mark>()})
                wrong += world.pool_of(id)->owner(i) != lead.owner(i);
            wrong += i > 0 && lead[i - 1].value > lead[i].value;
        }
        for (u32 i = common + 1; i < lead.size(); ++i)
            wrong += lead[i - 1].value > lead[i].value; // the rest in its old order
        CHECK(wrong == 0);
        std::size_t spans = 0;
        world.each_block<Key, Wide>(with<Heavy, Mark>, [&](std::span<const Key>, std::span<const Wide>) { ++spans; });
        CHECK(spans == (common + 127) / 128);
        // Sorting what is sorted moves nothing.
        const Key* const address = &lead[common / 2];
        const int serial = address->serial;
        world.sort_as<Key, Heavy, Wide, Mark>();
        CHECK(address->serial == serial);
        // The world goes on as usual.
        for (std::size_t i = 0; i < entities.size(); i += 2)
            world.destroy(entities[i]);
        std::vector<Entity> left;
        for (std::size_t i = 1; i < entities.size(); i += 2)
            left.push_back(entities[i]);
        CHECK(inconsistent(world, left) == 0);
    }
    TEST_CASE("sort_as of pools that share nothing, or do not exist, moves nothing") {
        World world;
        const Entity a = world.spawn(Key{1, 1});
        world.sort_as<Key, Heavy>();
        world.sort<Wide>([](const Wide&, const Wide&) { return true; });
        CHECK(world.pool_of(component_id<Wide>()) == nullptr);
        const Entity b = world.spawn(Heavy(2));
        world.sort_as<Heavy, Key>();
        CHECK(world.get<Key>(a)->serial == 1);
        CHECK(*world.get<Heavy>(b)->text == "heavy 2");
    }
    TEST_CASE("a comparison that throws, and a sort inside a loop, change nothing") {
        World world;
        const std::vector<Entity> entities = churned(world, 500, 8);
        std::vector<int> before, after;
        world.each<Key>([&](const Key& key) { before.push_back(key.serial); });
        int calls = 0;
        CHECK_THROWS_AS(world.sort<Key>([&](const Key& a, const Key& b) {
            if (++calls == 700)
                throw std::runtime_error("stop");
            return a.value < b.value;
        }),
                        std::runtime_error);
        {
            const ecs_test::ThrowingAsserts asserts;
            const auto less = [](const Key& a, const Key& b) { return a.value < b.value; };
            CHECK_THROWS_AS(world.each<Key>([&](const Key&) { world.sort<Key>(less); }), ecs_test::AssertFailed);
            CHECK_THROWS_AS(world.each<Heavy>([&](const Heavy&) { world.sort_as<Key, Heavy>(); }), ecs_test::AssertFailed);
            // The comparison itself must not change the pool.
            CHECK_THROWS_AS(world.sort<Key>([&](const Key&, const Key&) { return world.remove<Key>(entities[0]); }),
                            ecs_test::AssertFailed);
        }
        world.each<Key>([&](const Key& key) { after.push_back(key.serial); });
        CHECK(after == before);
        CHECK(inconsistent(world, entities) == 0);
    }
    TEST_CASE("the same order for the same world, whatever the way the pools got there") {
        World x, y;
        for (int i = 0; i < 1000; ++i) {
            x.spawn(Key{i * 7919 % 1000, i});
            y.spawn(Key{(999 - i) * 7919 % 1000, 999 - i});
        }
        const auto less = [](const Key& a, const Key& b) { return a.value < b.value; };
        x.sort<Key>(less);
        y.sort<Key>(less);
        u32 wrong = 0;
        for (u32 i = 0; i < 1000; ++i)
            wrong += x.pool<Key>()[i].serial != y.pool<Key>()[i].serial;
        CHECK(wrong == 0);
    }
}
