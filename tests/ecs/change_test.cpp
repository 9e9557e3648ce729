#include "support.hpp"
#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <map>
#include <vector>

using namespace throng;

namespace {
struct Hp {
    int value;
};
struct Armor {
    int value;
};
struct Mood {
    int value;
};

bool changed(const World& world, Entity e) {
    return world.find_pool<Hp>()->changed(world.dense_index(e.entity_idx, component_id<Hp>()));
}
/// No bit is set where there is no row, and no word is set that the summary misses.
u32 stray_bits(const PoolBase& pool) {
    u32 wrong = 0;
    for (u32 b = 0; b < pool.block_count(); ++b)
        for (u32 w = 0; w < pool.block_rows() / 64; ++w) {
            const u64 word = pool.change_words(b)[w];
            wrong += word != 0 && (pool.change_summary(b) >> w & 1) == 0;
            for (u32 i = 0; i < 64; ++i)
                wrong += (word >> i & 1) != 0 && b * pool.block_rows() + w * 64 + i >= pool.size();
        }
    return wrong;
}
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("adding and writing marks a row, reading does not") {
        World world;
        const Entity a = world.spawn(Hp{1});
        const Entity b = world.create();
        world.add<Hp>(b, 2);
        CHECK(changed(world, a));
        CHECK(changed(world, b));
        world.clear_changes();
        CHECK_FALSE(changed(world, a));
        CHECK(world.find_pool<Hp>()->change_summary(0) == 0);
        CHECK(world.get<Hp>(a)->value == 1);
        world.each<Hp>([](const Hp&) {});
        world.add<Hp>(b, 7);
        CHECK_FALSE(changed(world, a));
        CHECK_FALSE(changed(world, b));
        world.mut<Hp>(b)->value = 3;
        CHECK_FALSE(changed(world, a));
        CHECK(changed(world, b));
        world.each_mut<Hp>([](Hp& hp) { ++hp.value; });
        CHECK(changed(world, a));
    }
    TEST_CASE("marks follow their rows through random removals") {
        World world({.block_rows = 64});
        ecs_test::Random random{3};
        std::map<u64, bool> oracle;
        std::vector<Entity> entities;
        for (int step = 0; step < 20000; ++step) {
            const u32 action = random.below(10);
            if (action < 4 || entities.empty()) {
                entities.push_back(world.spawn(Hp{step}));
                oracle[entities.back().entity_id] = true;
            } else if (action < 7) {
                const u32 k = random.below(u32(entities.size()));
                world.destroy(entities[k]);
                oracle.erase(entities[k].entity_id);
                entities[k] = entities.back();
                entities.pop_back();
            } else if (action < 9) {
                const Entity e = entities[random.below(u32(entities.size()))];
                world.mut<Hp>(e);
                oracle[e.entity_id] = true;
            } else if (random.below(20) == 0) {
                world.pool<Hp>().clear_changes();
                for (auto& [id, bit] : oracle)
                    bit = false;
            }
            if (step % 500 == 0) {
                u32 wrong = stray_bits(*world.find_pool<Hp>());
                for (const Entity& e : entities)
                    wrong += changed(world, e) != oracle[e.entity_id];
                CHECK(wrong == 0);
            }
        }
    }
    TEST_CASE("ranges of marks are exact at every border") {
        World world({.block_rows = 128});
        for (int i = 0; i < 400; ++i)
            world.spawn(Hp{i});
        PoolBase& pool = world.pool<Hp>();
        u32 wrong = 0;
        for (const u32 begin : {0u, 1u, 63u, 64u, 127u, 128u, 200u, 399u})
            for (const u32 end : {1u, 63u, 64u, 65u, 128u, 129u, 256u, 400u})
                for (const bool shared : {false, true}) {
                    if (begin > end)
                        continue;
                    pool.clear_changes();
                    if (shared)
                        pool.mark_range_shared(begin, end);
                    else
                        pool.mark_range(begin, end);
                    for (u32 i = 0; i < pool.size(); ++i)
                        wrong += pool.changed(i) != (i >= begin && i < end);
                    wrong += stray_bits(pool);
                }
        CHECK(wrong == 0);
    }
    TEST_CASE("the structural log holds what was switched on, in order") {
        World world;
        world.log_structure(component_id<Hp>(), true);
        world.log_structure(component_id<Armor>(), true);
        const Entity a = world.spawn(Hp{1}, Mood{1});
        const Entity b = world.create();
        world.add<Armor>(b, 2);
        world.add<Armor>(b, 3); // there already
        world.remove<Hp>(a);
        world.remove<Mood>(a);
        world.destroy(a); // has no logged component any more
        world.add<Hp>(b, 1);
        world.destroy(b);
        using Kind = StructureEvent::Kind;
        const auto log = world.structure_log();
        REQUIRE(log.size() == 5);
        const auto is = [](const StructureEvent& event, Entity e, ComponentId id, Kind kind) {
            return event.entity_id == e.entity_id && event.entity_idx == e.entity_idx && event.component == id && event.kind == kind;
        };
        CHECK(is(log[0], a, component_id<Hp>(), Kind::added));
        CHECK(is(log[1], b, component_id<Armor>(), Kind::added));
        CHECK(is(log[2], a, component_id<Hp>(), Kind::removed));
        CHECK(is(log[3], b, component_id<Hp>(), Kind::added));
        CHECK(is(log[4], b, no_component, Kind::destroyed));
        world.clear_structure_log();
        CHECK(world.structure_log().empty());
        Entity made[3];
        world.instantiate_n(Prefab::of(Hp{1}, Mood{2}, Armor{3}), made);
        CHECK(world.structure_log().size() == 6);
        world.clear_structure_log();
        world.log_structure(component_id<Armor>(), false);
        world.remove<Armor>(made[0]);
        CHECK(world.structure_log().empty());
        world.destroy_batch(made);
        CHECK(world.structure_log().size() == 3);
        CHECK(is(world.structure_log()[1], made[1], no_component, Kind::destroyed));
    }
    TEST_CASE("a warm world takes nothing from its allocator") {
        ecs_test::CountingMemory memory;
        World world({.allocator = memory.allocator()});
        world.log_structure(component_id<Hp>(), true);
        const Prefab prefab = Prefab::of(Hp{1}, Armor{2});
        std::vector<Entity> entities(1000);
        const auto round = [&] {
            world.instantiate_n(prefab, entities);
            for (const Entity& e : entities) {
                world.add<Mood>(e, 1);
                world.mut<Hp>(e)->value = 4;
            }
            world.each_mut<Hp, Armor>([](Hp& hp, Armor& armor) { hp.value += armor.value; });
            world.destroy_batch(entities);
            world.clear_changes();
            world.clear_structure_log();
        };
        round();
        const u64 warm = memory.allocations;
        for (int i = 0; i < 5; ++i)
            round();
        CHECK(memory.allocations == warm);
        CHECK(world.entity_count() == 0);
    }
}
