// What happens where numbers end: entities_max, ids, generations.
#include "support.hpp"
#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <vector>

using namespace throng;
using Access = throng::detail::WorldTestAccess;

namespace {
struct Place {
    int x = 0;
};
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("entities_max: nothing more is made, in any way, and the world goes on") {
        World world({.block_rows = 64, .entities_max = 100});
        std::vector<Entity> all(98);
        REQUIRE(world.spawn_n<Place>(all, [](u32 i, Place& p) { p.x = int(i); }));
        Entity three[3];
        const Prefab prefab = Prefab::of(Place{7});
        const Place column[3] = {};
        CHECK_FALSE(world.instantiate_n(prefab, three)); // two would fit: all or none
        CHECK_FALSE(world.clone_n(all[0], three));
        CHECK_FALSE(world.spawn_n<Place>(three, [](u32, Place&) {}));
        CHECK_FALSE(world.spawn_columns<Place>(three, column));
        CHECK(world.entity_count() == 98);
        CHECK(world.pool<Place>().size() == 98);
        CHECK(world.create());
        CHECK(world.spawn(Place{1}));
        CHECK_FALSE(world.create());
        CHECK_FALSE(world.spawn());
        CHECK_FALSE(world.spawn(Place{2}));
        CHECK_FALSE(world.instantiate(prefab));
        CHECK_FALSE(world.clone(all[0]));
        CHECK(world.entity_count() == 100);
        CHECK(world.entity_slots() == 100);

        CommandQueue queue(world);
        Commands commands = queue.commands();
        const Entity lost = commands.spawn(Place{3});
        commands.add<Place>(lost, 4); // its target was never made
        commands.destroy(all[5]);
        const Entity kept = commands.spawn(Place{5});
        const CommandReport report = queue.apply();
        CHECK(report.applied == 2);
        CHECK(report.dropped == 2);
        CHECK_FALSE(queue.resolve(lost));
        CHECK(world.get<Place>(queue.resolve(kept))->x == 5);
        CHECK_FALSE(world.alive(all[5]));
        CHECK(world.entity_slots() == 100);
        CHECK(world.get<Place>(all[97])->x == 97);
    }
    TEST_CASE("entities_max: trees are made whole or not at all") {
        World world({.block_rows = 64, .entities_max = 10});
        Prefab tree = Prefab::of(Place{1});
        tree.add_child(Prefab::of(Place{2})).add_child(Prefab::of(Place{3}));
        Entity three[3], four[4];
        const u64 id_before = world.last_entity_id();
        CHECK_FALSE(world.instantiate_n(tree, four)); // 12 entities
        CHECK(world.last_entity_id() == id_before);
        REQUIRE(world.instantiate_n(tree, three));
        CHECK(world.entity_count() == 9);
        const u64 id_of_nine = world.last_entity_id();
        CHECK_FALSE(world.instantiate(tree)); // the root alone would fit
        CHECK_FALSE(world.instantiate(tree, Place{4}));
        CHECK_FALSE(world.clone_tree<ChildOf>(three[0]));
        CHECK(world.last_entity_id() == id_of_nine);
        CHECK(world.entity_count() == 9);
        CHECK(world.pool<Place>().size() == 9);
        CHECK(world.source_count<ChildOf>(three[0]) == 1);
        world.destroy(three[1]); // its children go with it
        const Entity copy = world.clone_tree<ChildOf>(three[0]);
        CHECK(world.get<Place>(copy)->x == 1);
        CHECK(world.entity_count() == 9);
    }
    TEST_CASE("entities_max: a snapshot of more entities is refused, one of as many is taken") {
        World large({.block_rows = 64}), small({.block_rows = 64, .entities_max = 2});
        for (int i = 0; i < 2; ++i)
            large.spawn(Place{i});
        CHECK(small.restore(large.snapshot()) == Error::none);
        CHECK(small.entity_count() == 2);
        CHECK_FALSE(small.create());
        large.create();
        CHECK(small.restore(large.snapshot()) == Error::limit_reached);
        CHECK(small.entity_count() == 2);
    }
    TEST_CASE("ids end at 2^63: nothing more is made, and no handle looks pending") {
        World world;
        Access::set_last_entity_id(world, (u64(1) << 63) - 3);
        const Entity a = world.spawn(Place{1});
        const Entity b = world.create();
        CHECK(b.entity_id == (u64(1) << 63) - 1);
        CHECK_FALSE(detail::CommandQueueBase::is_pending(b));
        CHECK_FALSE(world.create());
        CHECK(world.destroy(b));
        CHECK_FALSE(world.spawn(Place{2})); // the slot is free, the id is not there
        Entity two[2];
        CHECK_FALSE(world.clone_n(a, two));
        CHECK(world.get<Place>(a)->x == 1);
        CHECK(world.entity_count() == 1);
    }
    TEST_CASE("a generation wraps, and old handles stay dead") {
        World world;
        const Entity first = world.spawn(Place{1});
        world.destroy(first);
        Access::set_gen(world, first.entity_idx, 0xffffffff);
        const Entity last = world.spawn(Place{2});
        CHECK(last.gen == 0xffffffff);
        world.destroy(last);
        const Entity wrapped = world.spawn(Place{3});
        REQUIRE(wrapped.entity_idx == first.entity_idx);
        REQUIRE(wrapped.gen == first.gen); // as if 2^32 reuses had passed
        CHECK_FALSE(world.alive(first));
        CHECK(world.get<Place>(first) == nullptr);
        CHECK_FALSE(world.destroy(first));
        CHECK_FALSE(world.add<Place>(first, 4));
        CHECK(world.get<Place>(wrapped)->x == 3);
    }
}
