#include "support.hpp"
#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <string>

using namespace throng;
using ecs_test::ThrowingAsserts;
using Access = throng::detail::WorldTestAccess;

namespace {
struct Place {
    int x, y;
};
struct Name {
    std::string text;
};
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("E1 create: ids strictly rise, slots are reused with the next generation") {
        World world;
        const Entity a = world.create();
        const Entity b = world.create();
        const Entity c = world.create();
        CHECK(world.destroy(b));
        const Entity d = world.create();
        CHECK(a.entity_id == 1);
        CHECK(b.entity_id == 2);
        CHECK(c.entity_id == 3);
        CHECK(d.entity_id == 4);
        CHECK(d.entity_idx == b.entity_idx);
        CHECK(d.entity_idx == 1);
        CHECK(d.gen == b.gen + 1);
        CHECK(world.entity_count() == 3);
        CHECK(world.entity_slots() == 3);
    }
    TEST_CASE("E2 a stale handle is rejected everywhere and changes nothing") {
        World world;
        const Entity e = world.spawn(Place{1, 2});
        const Entity other = world.spawn(Place{3, 4});
        CHECK(world.destroy(e));
        const Entity reuser = world.spawn(Place{5, 6});
        REQUIRE(reuser.entity_idx == e.entity_idx);
        CHECK_FALSE(world.alive(e));
        CHECK_FALSE(world.has<Place>(e));
        CHECK(world.get<Place>(e) == nullptr);
        CHECK(world.mut<Place>(e) == nullptr);
        CHECK(world.add<Place>(e, 9, 9) == nullptr);
        CHECK(world.add<Name>(e, "no") == nullptr);
        CHECK(world.add_erased(e, component_id<Place>()) == nullptr);
        CHECK_FALSE(world.remove<Place>(e));
        CHECK_FALSE(world.remove_erased(e, component_id<Place>()));
        CHECK_FALSE(world.destroy(e));
        CHECK(world.destroy_batch({&e, 1}) == 0);
        CHECK(world.entity_count() == 2);
        CHECK(world.find_pool<Place>()->size() == 2);
        CHECK(world.get<Place>(reuser)->x == 5);
        CHECK(world.get<Place>(other)->x == 3);
    }
    // (direct_index_test.cpp: what holds for types with a direct index.)
    TEST_CASE("E3 a forged handle is invalid: each part is checked") {
        World world;
        const Entity e = world.spawn(Place{1, 2});
        const Entity dead = world.create();
        world.destroy(dead);
        Entity forged = e;
        forged.entity_id = 77;
        CHECK_FALSE(world.alive(forged));
        forged = e;
        forged.gen = 5;
        CHECK_FALSE(world.has<Place>(forged));
        forged = e;
        forged.entity_idx = 1; // a dead slot
        CHECK_FALSE(world.alive(forged));
        for (const u32 idx : {2u, 4096u, 0x7fffffffu, 0xffffffffu}) {
            forged.entity_idx = idx;
            CHECK(world.get<Place>(forged) == nullptr);
            CHECK_FALSE(world.destroy(forged));
        }
        CHECK_FALSE(world.alive(Entity{}));
        CHECK_FALSE(world.alive(Entity{0, 1, 1})); // what a dead slot holds
        CHECK(world.alive(e));
    }
    TEST_CASE("E4 a generation that wraps brings no old handle back") {
        World world;
        const Entity first = world.create();
        Access::set_gen(world, first.entity_idx, 0xffffffffu);
        const Entity last{first.entity_id, first.entity_idx, 0xffffffffu};
        REQUIRE(world.alive(last));
        world.destroy(last);
        const Entity wrapped = world.create();
        REQUIRE(wrapped.entity_idx == first.entity_idx);
        CHECK(wrapped.gen == 0);
        CHECK_FALSE(world.alive(first)); // same slot, same generation, another id
        CHECK_FALSE(world.alive(last));
        CHECK(world.alive(wrapped));
    }
    TEST_CASE("entity_at finds the entity of a slot") {
        World world;
        const Entity e = world.create();
        CHECK(world.entity_at(0) == e);
        CHECK_FALSE(world.entity_at(1));
        CHECK_FALSE(world.entity_at(0xffffffffu));
        world.destroy(e);
        CHECK_FALSE(world.entity_at(0));
    }
    TEST_CASE("an empty world is small, and a client-sized one cheap") {
        CHECK(sizeof(World) < 4096);
        ecs_test::CountingMemory memory;
        World world({.allocator = memory.allocator(), .block_rows = 64});
        CHECK(memory.live_bytes == 0);
        world.spawn(Place{1, 2});
        CHECK(memory.live_bytes < 6000);
    }
    TEST_CASE("the size of an entity block is an option") {
        for (const u32 inline_indices : {8u, 24u}) {
            ecs_test::CountingMemory memory;
            World world({.allocator = memory.allocator(), .block_rows = 64, .inline_indices = inline_indices});
            world.create();
            const std::size_t block_bytes = 64 * (inline_indices == 8 ? 64u : 128u);
            CHECK(memory.live_bytes >= block_bytes);
            CHECK(memory.live_bytes < block_bytes + 256);
        }
    }
    TEST_CASE("options out of range assert") {
        const ThrowingAsserts asserts;
        CHECK_THROWS_AS(World({.block_rows = 100}), ecs_test::AssertFailed);
        CHECK_THROWS_AS(World({.block_rows = 32}), ecs_test::AssertFailed);
        CHECK_THROWS_AS(World({.block_rows = 8192}), ecs_test::AssertFailed);
    }
}
