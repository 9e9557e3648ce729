#include "components.hpp"
#include <doctest/doctest.h>
#include <memory>
#include <string>
#include <vector>

using namespace throng;
using ecs_test::Moody;

namespace {
struct Place {
    int x = 7, y = 0;
};
struct Name {
    std::string text = "nobody";
};
struct Marker {};
struct Handle {
    std::unique_ptr<int> value;
};
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("a clone has all components, with the same values, and is another "
              "entity") {
        World world({.block_rows = 64});
        world.log_structure(component_id<Name>(), true);
        const Entity e = world.spawn(Place{1, 2}, Name{"one"}, Marker{});
        world.clear_structure_log();
        world.clear_changes();
        const Entity copy = world.clone(e);
        REQUIRE(world.alive(copy));
        CHECK(copy != e);
        CHECK(world.signature(copy) == world.signature(e));
        CHECK(world.get<Place>(copy)->y == 2);
        CHECK(world.get<Name>(copy)->text == "one");
        CHECK(world.get<Name>(copy) != world.get<Name>(e));
        CHECK(world.find_pool<Name>()->changed(1));
        CHECK_FALSE(world.find_pool<Name>()->changed(0));
        CHECK(world.structure_log().size() == 1);
        world.mut<Name>(copy)->text = "two";
        CHECK(world.get<Name>(e)->text == "one");
        std::vector<Entity> many(200); // over several blocks
        CHECK(world.clone_n(copy, many));
        u32 wrong = 0;
        for (const Entity& clone : many)
            wrong += world.get<Name>(clone)->text != "two" || world.get<Place>(clone)->x != 1 || !world.has<Marker>(clone);
        CHECK(wrong == 0);
        CHECK(world.entity_count() == 202);
        CHECK(world.alive(world.clone(world.create())));
    }
    TEST_CASE("what cannot be cloned is refused, and changes nothing") {
        World world;
        const Entity e = world.spawn(Place{}, Handle{std::make_unique<int>(1)});
        const Entity dead = world.create();
        world.destroy(dead);
        CHECK_FALSE(world.clone(e));
        CHECK_FALSE(world.clone(dead));
        CHECK_FALSE(world.clone({}));
        CHECK(world.entity_count() == 1);
        CHECK(world.find_pool<Place>()->size() == 1);
        {
            const Entity moody = world.spawn(Place{}, Moody{});
            Entity copies[5];
            Moody::throw_in = 3;
            CHECK_THROWS_AS(world.clone_n(moody, copies), std::runtime_error);
            CHECK(world.entity_count() == 2);
            CHECK(world.find_pool<Place>()->size() == 2);
            CHECK(Moody::living == 1);
            Moody::throw_in = -1;
            CHECK(world.clone_n(moody, copies));
            CHECK(Moody::living == 6);
        }
        const ecs_test::ThrowingAsserts asserts;
        world.each<Place>([&](Entity at, const Place&) { CHECK_THROWS_AS(world.clone(at), ecs_test::AssertFailed); });
    }
    TEST_CASE("spawn_n makes many and fills their rows") {
        World world({.block_rows = 64});
        world.spawn(Name{"first"});
        std::vector<Entity> made(300);
        const u64 inserts = world.index_insert_count();
        CHECK(world.spawn_n<Name, Marker, Place>(made, [&](u32 i, Name& name, Marker&, Place& place) {
            CHECK_UNARY(place.x == 7 && name.text == "nobody");
            place.y = int(i);
            if (i % 2)
                name.text = std::to_string(i);
        }));
        CHECK(world.index_insert_count() == inserts);
        u32 wrong = 0;
        for (u32 i = 0; i < 300; ++i)
            wrong += world.get<Place>(made[i])->y != int(i) || world.get<Name>(made[i])->text != (i % 2 ? std::to_string(i) : "nobody") ||
                     !world.has<Marker>(made[i]) || world.signature(made[i]).count() != 3;
        CHECK(wrong == 0);
        CHECK(world.find_pool<Name>()->size() == 301);
        CHECK(world.spawn_n<Place>({}, [](u32, Place&) { FAIL("nothing to fill"); }));
        Entity moody[4];
        Moody::throw_in = 2;
        const auto nothing = [](u32, Place&, Moody&) {};
        CHECK_THROWS_AS((world.spawn_n<Place, Moody>(moody, nothing)), std::runtime_error);
        Moody::throw_in = -1;
        CHECK(Moody::living == 0);
        CHECK(world.find_pool<Place>()->size() == 300);
        CHECK(world.entity_count() == 301);
    }
    TEST_CASE("spawn_columns copies columns into rows") {
        World world({.block_rows = 64});
        world.spawn(Place{});
        std::vector<Place> places;
        std::vector<Name> names;
        for (int i = 0; i < 150; ++i) {
            places.push_back({i, -i});
            names.push_back({std::to_string(i)});
        }
        std::vector<Entity> made(150);
        CHECK(world.spawn_columns<Name, Place>(made, names, places));
        u32 wrong = 0;
        for (u32 i = 0; i < 150; ++i)
            wrong += world.get<Place>(made[i])->y != -int(i) || world.get<Name>(made[i])->text != names[i].text;
        CHECK(wrong == 0);
        CHECK(world.destroy_batch(made) == 150);
        const ecs_test::ThrowingAsserts asserts;
        CHECK_THROWS_AS((world.spawn_columns<Place>(std::span<Entity>(made).first(10), places)), ecs_test::AssertFailed);
    }
}
