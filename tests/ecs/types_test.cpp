#include "numbered.hpp"
#include "support.hpp"
#include <doctest/doctest.h>
#include <map>
#include <string>
#include <utility>
#include <vector>

// Component types by the hundred: this program has a process of its own, and its ids for itself.
using namespace throng;
using Access = throng::detail::WorldTestAccess;

const std::array<ecs_test::TypeCalls, ecs_test::type_count> ecs_test::types =
    ecs_test::all_calls(std::make_integer_sequence<int, ecs_test::type_count>{});

namespace {
using namespace ecs_test;
struct OneTooMany {
    int value;
};

/// count == number of types, and the list leads, in id order, to rows that know their owner.
u32 broken_indices(const World& world, Entity e) {
    const Signature<128> signature = world.signature(e);
    u32 wrong = Access::index_count(world, e.entity_idx) != signature.count();
    u32 k = 0;
    signature.for_each([&](u32 id) {
        const u32 dense = Access::index_at(world, e.entity_idx, k++);
        const PoolBase* pool = world.pool_of(static_cast<ComponentId>(id));
        wrong += dense >= pool->size() || pool->owner(dense) != e.entity_idx;
        wrong += world.dense_index(e.entity_idx, static_cast<ComponentId>(id)) != dense;
    });
    return wrong;
}
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("E7 row numbers match the signature under random operations, against an oracle") {
        REQUIRE(assign_ids() == 0);
        for (const u32 inline_indices : {8u, 24u}) {
            World world({.block_rows = 64, .inline_indices = inline_indices});
            std::vector<Entity> entities;
            std::vector<std::map<int, int>> oracle(1000);
            for (int i = 0; i < 1000; ++i)
                entities.push_back(world.create());
            std::vector<u32> rows(type_count, 0);
            Random random{42 + inline_indices};
            u32 wrong = 0;
            for (int step = 0; step < 100000; ++step) {
                // A few entities get most operations, so that their lists grow long and short again.
                const u32 k = random.below(4) == 0 ? random.below(1000) : random.below(20);
                const int type = int(random.below(type_count));
                std::map<int, int>& expected = oracle[k];
                const u32 action = random.below(1000);
                if (action < 2) {
                    wrong += !world.destroy(entities[k]);
                    for (const auto& [t, v] : expected)
                        --rows[u32(t)];
                    expected.clear();
                    entities[k] = world.create();
                } else if (action < 560) {
                    wrong += !types[u32(type)].add(world, entities[k], step);
                    rows[u32(type)] += expected.emplace(type, step).second;
                } else {
                    const bool removed = expected.erase(type) != 0;
                    wrong += types[u32(type)].remove(world, entities[k]) != removed;
                    rows[u32(type)] -= removed;
                }
                // After every operation: the entity, the type, and the sizes.
                wrong += broken_indices(world, entities[k]);
                wrong += world.signature(entities[k]).count() != expected.size();
                wrong += types[u32(type)].has(world, entities[k]) != (expected.count(type) != 0);
                wrong += types[u32(type)].rows(world) != rows[u32(type)];
                if (step % 5000 == 4999 || step == 0)
                    for (u32 e = 0; e < 1000; ++e) {
                        wrong += broken_indices(world, entities[e]);
                        for (int t = 0; t < type_count; ++t) {
                            const auto found = oracle[e].find(t);
                            wrong += types[u32(t)].get(world, entities[e]) != (found == oracle[e].end() ? -1 : found->second);
                        }
                    }
                REQUIRE(wrong == 0);
            }
            u32 longest = 0;
            for (const Entity& e : entities)
                longest = std::max(longest, world.signature(e).count());
            CHECK(longest > 48); // the overflow lists were in use
        }
    }
    TEST_CASE("E8 the type beyond MaxC is refused") {
        REQUIRE(assign_ids() == 0);
        CHECK(component_id<OneTooMany>() == 128);
        World world;
        const Entity e = world.spawn(C<1>{7});
        CHECK(world.try_pool<C<127>>() != nullptr);
        CHECK(world.try_pool<OneTooMany>() == nullptr);
        CHECK(world.add<OneTooMany>(e, 1) == nullptr);
        CHECK_FALSE(world.has<OneTooMany>(e));
        CHECK(world.get<OneTooMany>(e) == nullptr);
        CHECK(world.mut<OneTooMany>(e) == nullptr);
        CHECK_FALSE(world.remove<OneTooMany>(e));
        CHECK(world.find_pool<OneTooMany>() == nullptr);
        CHECK(world.pool_of(128) == nullptr);
        u32 visits = 0;
        world.each<OneTooMany>([&](const OneTooMany&) { ++visits; });
        world.each<C<1>>(without<OneTooMany>, [&](const C<1>&) { ++visits; });
        CHECK(visits == 1);
        {
            const ecs_test::ThrowingAsserts asserts;
            CHECK_THROWS_AS(world.pool<OneTooMany>(), ecs_test::AssertFailed);
            CHECK_THROWS_AS(world.spawn(C<2>{1}, OneTooMany{1}), ecs_test::AssertFailed);
            CHECK_THROWS_AS(world.instantiate(Prefab::of(C<2>{1}, OneTooMany{1})), ecs_test::AssertFailed);
            CHECK_THROWS_AS(world.log_structure(128, true), ecs_test::AssertFailed);
        }
        CHECK(world.entity_count() == 1);
        BasicWorld<192> larger;
        CHECK(larger.get<OneTooMany>(larger.spawn(OneTooMany{5}, C<4>(6)))->value == 5);
    }
    TEST_CASE("E11 destroying an entity takes one row out of each of its pools") {
        REQUIRE(assign_ids() == 0);
        World world;
        std::vector<Entity> entities;
        for (int i = 0; i < 50; ++i) {
            entities.push_back(world.create());
            for (u32 t = 0; t < 20; ++t)
                types[t * 5].add(world, entities.back(), i * 100 + int(t));
        }
        CHECK(world.destroy(entities[10]));
        u32 wrong = 0;
        for (u32 t = 0; t < 20; ++t) {
            wrong += types[t * 5].rows(world) != 49;
            for (int i = 0; i < 50; ++i)
                wrong += types[t * 5].get(world, entities[u32(i)]) != (i == 10 ? -1 : i * 100 + int(t));
        }
        CHECK(wrong == 0);
        CHECK(world.entity_count() == 49);
    }
    TEST_CASE("E16 a prefab is sorted, rejects repeats, and inserts nothing") {
        REQUIRE(assign_ids() == 0);
        World world;
        Prefab prefab;
        CHECK(prefab.add(C<9>{90}));
        CHECK(prefab.add(C<3>{30}));
        CHECK(prefab.add(C<77>{770}));
        CHECK_FALSE(prefab.add(C<3>{31}));
        CHECK(prefab.size() == 3);
        CHECK(prefab.component(0) == 3);
        CHECK(prefab.component(1) == 9);
        CHECK(prefab.component(2) == 77);
        world.add<C<9>>(world.create(), 1); // so that the row numbers of the instance differ
        for (int i = 0; i < 2; ++i)
            world.add<C<77>>(world.create(), 1);
        const u64 inserts = world.index_insert_count();
        const Entity e = world.instantiate(prefab);
        CHECK(world.index_insert_count() == inserts);
        CHECK(Access::index_count(world, e.entity_idx) == 3);
        CHECK(Access::index_at(world, e.entity_idx, 0) == 0);
        CHECK(Access::index_at(world, e.entity_idx, 1) == 1);
        CHECK(Access::index_at(world, e.entity_idx, 2) == 2);
        CHECK(world.get<C<3>>(e)->value == 30);
        CHECK(world.get<C<9>>(e)->value == 90);
        CHECK(world.get<C<77>>(e)->value == 770);

        CHECK(prefab.add(C<8>(80)));
        std::vector<Entity> many(10000);
        CHECK(world.instantiate_n(prefab, many));
        CHECK(world.spawn(C<5>{1}, C<4>(2)));
        CHECK(world.index_insert_count() == inserts);
        CHECK(world.find_pool<C<77>>()->size() == 10003);
        u32 wrong = 0;
        for (const Entity& each : many)
            wrong += broken_indices(world, each) + (world.get<C<8>>(each)->text != "80") + (world.get<C<77>>(each)->value != 770) +
                     !world.find_pool<C<3>>()->changed(world.dense_index(each.entity_idx, 3));
        CHECK(wrong == 0);
        const Entity empty = world.instantiate(Prefab{});
        CHECK(world.alive(empty));
        CHECK(world.signature(empty).count() == 0);
        CHECK(world.instantiate_n(prefab, {}));
    }
    TEST_CASE("E16 a prefab of all types overflows the inline list") {
        REQUIRE(assign_ids() == 0);
        World world;
        Prefab prefab;
        for (int t = type_count - 1; t >= 0; --t)
            CHECK(types[u32(t)].give(prefab, type_count - 1 - t));
        std::vector<Entity> many(100);
        CHECK(world.instantiate_n(prefab, many));
        u32 wrong = 0;
        for (const Entity& e : many)
            for (int t = 0; t < type_count; ++t)
                wrong += types[u32(t)].get(world, e) != type_count - 1 - t;
        CHECK(wrong == 0);
        CHECK(world.destroy_batch(many) == 100);
        CHECK(types[100].rows(world) == 0);
    }
}
