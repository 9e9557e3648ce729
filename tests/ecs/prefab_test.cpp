#include "components.hpp"
#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace throng;
using ecs_test::AssertFailed;
using ecs_test::Hp;
using ecs_test::Moody;
using ecs_test::Name;
using ecs_test::sources;
using ecs_test::ThrowingAsserts;

namespace {
struct Spare {
    int value = 0;
};
/// A tank with a turret with a gun, and a crate.
Prefab tank() {
    Prefab prefab = Prefab::of(Hp{100}, Name{"tank"});
    prefab.add_child(Prefab::of(Name{"turret"}, Hp{50})).add_child(Prefab::of(Name{"gun"}));
    prefab.add_child(Prefab{});
    return prefab;
}
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("prefabs: values are overridden, taken away and copied") {
        Prefab base = Prefab::of(Hp{1}, Name{"base"});
        CHECK_FALSE(base.add(Hp{2}));
        Prefab variant = base.clone();
        variant.set(Hp{2});
        variant.set(*variant.get<Name>()); // its own value
        variant.set(Spare{3});
        CHECK(variant.size() == 3);
        CHECK(base.size() == 2);
        CHECK(base.get<Hp>()->value == 1);
        CHECK(variant.get<Hp>()->value == 2);
        CHECK(variant.get<Name>()->text == "base");
        CHECK(variant.remove<Name>());
        CHECK_FALSE(variant.remove<Name>());
        CHECK(variant.get<Name>() == nullptr);
        World world;
        const Entity e = world.instantiate(variant);
        CHECK(world.get<Hp>(e)->value == 2);
        CHECK(world.get<Spare>(e)->value == 3);
        CHECK_FALSE(world.has<Name>(e));
    }
    TEST_CASE("prefabs: nested, in batches, linked in order") {
        World world({.block_rows = 64});
        const Prefab prefab = tank();
        CHECK(prefab.entity_count() == 4);
        std::vector<Entity> tanks(1000);
        u32 told = 0;
        world.on_add<Hp>([&](World& w, Entity e) {
            ++told;
            CHECK(w.entity_count() == 4000); // all are there
            CHECK(w.alive(e));
        });
        CHECK(world.instantiate_n(prefab, tanks));
        CHECK(told == 2000);
        CHECK(world.entity_count() == 4000);
        for (const Entity t : tanks) {
            const std::vector<Entity> parts = sources<ChildOf>(world, t);
            REQUIRE(parts.size() == 2);
            CHECK(world.get<Name>(t)->text == "tank");
            CHECK(world.get<Name>(parts[0])->text == "turret");
            CHECK(world.get<Hp>(parts[0])->value == 50);
            CHECK(world.signature(parts[1]).count() == 1);
            const std::vector<Entity> guns = sources<ChildOf>(world, parts[0]);
            REQUIRE(guns.size() == 1);
            CHECK(world.get<Name>(guns[0])->text == "gun");
            CHECK(world.root<ChildOf>(guns[0]) == t);
        }
        CHECK(world.destroy_batch(tanks) == 1000);
        CHECK(world.entity_count() == 0);
    }
    TEST_CASE("prefabs: overrides an instance and a nested prefab") {
        World world;
        Prefab prefab = tank();
        Prefab heavy = prefab.clone();
        heavy.child(0).set(Hp{500});
        heavy.child(0).child(0).set(Name{"howitzer"});
        heavy.child(1).add_child(Prefab::of(Spare{7}));
        Entity pair[2];
        std::vector<int> heard;
        world.on_add<Hp>([&](World&, Entity, Hp& hp) { heard.push_back(hp.value); });
        CHECK(world.instantiate_n<Hp, Name>(heavy, pair, [](u32 i, Hp& hp, Name& name) {
            hp.value += int(i);
            name.text += std::to_string(i);
        }));
        CHECK(heard == std::vector<int>{100, 101, 500, 500}); // with the overrides in place
        CHECK(world.get<Name>(pair[1])->text == "tank1");
        const std::vector<Entity> parts = sources<ChildOf>(world, pair[1]);
        CHECK(world.get<Name>(sources<ChildOf>(world, parts[0])[0])->text == "howitzer");
        CHECK(world.get<Spare>(sources<ChildOf>(world, parts[1])[0])->value == 7);
        const Entity light = world.instantiate(prefab, Hp{1}, Spare{9});
        CHECK(world.get<Hp>(light)->value == 1);
        CHECK(world.get<Spare>(light)->value == 9);
        CHECK(world.get<Hp>(sources<ChildOf>(world, light)[0])->value == 50);
        CHECK(sources<ChildOf>(world, sources<ChildOf>(world, light)[1]).empty());
        // a variant of a variant as a child, with a parent of its own written in it: the nesting decides
        Prefab convoy;
        heavy.set(ChildOf{light});
        convoy.add_child(std::move(heavy));
        const Entity lead = world.instantiate(convoy);
        REQUIRE(sources<ChildOf>(world, lead).size() == 1);
        CHECK(sources<ChildOf>(world, light).size() == 2);
        CHECK(sources<ChildOf>(world, sources<ChildOf>(world, lead)[0]).size() == 2);
        const ThrowingAsserts asserts;
        Entity one[1];
        CHECK_THROWS_AS(world.instantiate_n<Spare>(prefab, one, [](u32, Spare&) {}), AssertFailed);
    }
    TEST_CASE("prefabs: a throwing copy, a throwing override: nothing has changed") {
        ecs_test::CountingMemory memory;
        {
            World world({.allocator = memory.allocator()});
            Prefab prefab = tank();
            prefab.child(0).child(0).add(Moody{});
            int told = 0;
            world.on_add<Hp>([&](World&, Entity) { ++told; });
            Entity batch[10];
            Moody::throw_in = 5;
            CHECK_THROWS_AS(world.instantiate_n(prefab, batch), std::runtime_error);
            CHECK(world.entity_count() == 0);
            Moody::throw_in = -1;
            CHECK_THROWS_AS(world.instantiate_n<Hp>(prefab, batch,
                                                    [](u32 i, Hp&) {
                                                        if (i == 3)
                                                            throw std::runtime_error("no");
                                                    }),
                            std::runtime_error);
            CHECK(world.entity_count() == 0);
            CHECK(world.find_pool<Hp>()->size() == 0);
            CHECK(told == 0);
            CHECK(world.instantiate_n(prefab, batch));
            CHECK(told == 20);
            CHECK(world.entity_count() == 40);
        }
        CHECK(memory.live_bytes == 0);
    }
}
