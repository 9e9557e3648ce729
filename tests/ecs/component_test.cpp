#include "components.hpp"
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <string>

using namespace throng;
using ecs_test::AssertFailed;
using ecs_test::Moody;
using ecs_test::ThrowingAsserts;

namespace {
struct Place {
    int x, y;
};
struct Name {
    std::string text;
};
struct Marker {};
struct Handle {
    std::unique_ptr<int> value;
};
struct alignas(128) Wide {
    int value = 3;
};
struct NoDefault {
    explicit NoDefault(int v) : value(v) {}
    int value;
};
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("E5 add, get, has and remove") {
        World world;
        const Entity e = world.create();
        CHECK_FALSE(world.has<Place>(e));
        CHECK(world.get<Place>(e) == nullptr);
        CHECK_FALSE(world.remove<Place>(e));
        Place* place = world.add<Place>(e, 1, 2);
        REQUIRE(place);
        CHECK(world.has<Place>(e));
        CHECK(world.get<Place>(e) == place);
        CHECK(place->x == 1);
        CHECK(place->y == 2);
        CHECK(world.add<Place>(e, 8, 9) == place);
        CHECK(world.get<Place>(e)->x == 1);
        world.mut<Place>(e)->x = 5;
        CHECK(world.get<Place>(e)->x == 5);
        CHECK(world.remove<Place>(e));
        CHECK_FALSE(world.remove<Place>(e));
        CHECK_FALSE(world.has<Place>(e));
        CHECK(world.find_pool<Place>()->size() == 0);
        CHECK(world.alive(e));
    }
    TEST_CASE("E6 rank is the number of set bits below, iteration ascends") {
        Signature<128> signature;
        for (const u32 id : {127u, 0u, 64u, 63u})
            signature.set(id);
        CHECK(signature.rank(0) == 0);
        CHECK(signature.rank(63) == 1);
        CHECK(signature.rank(64) == 2);
        CHECK(signature.rank(127) == 3);
        CHECK(signature.count() == 4);
        u32 order[4] = {};
        u32 visited = 0;
        signature.for_each([&](u32 id) { order[visited++] = id; });
        CHECK(visited == 4);
        CHECK(order[0] == 0);
        CHECK(order[1] == 63);
        CHECK(order[2] == 64);
        CHECK(order[3] == 127);
        signature.reset(63);
        CHECK(signature.rank(127) == 2);
        CHECK_FALSE(signature.test(63));
    }
    TEST_CASE("E9 swap-erase writes the moved owner back") {
        World world;
        const Entity a = world.spawn(Name{"a"});
        const Entity b = world.spawn(Name{"b"});
        const Entity c = world.spawn(Name{"c"});
        CHECK(world.remove<Name>(a));
        const Pool<Name>& pool = *world.find_pool<Name>();
        CHECK(pool.size() == 2);
        CHECK(world.get<Name>(c)->text == "c");
        CHECK(world.get<Name>(b)->text == "b");
        CHECK(world.dense_index(c.entity_idx, component_id<Name>()) == 0);
        CHECK(pool.owner(0) == c.entity_idx);
        CHECK(pool[0].text == "c");
    }
    TEST_CASE("E10 erasing the last row moves none") {
        World world;
        const Entity a = world.spawn(Name{"a"});
        const Entity b = world.spawn(Name{"b"});
        const Entity c = world.spawn(Name{"c"});
        const Name* at_a = world.get<Name>(a);
        const Name* at_b = world.get<Name>(b);
        CHECK(world.remove<Name>(c));
        CHECK(world.get<Name>(a) == at_a);
        CHECK(world.get<Name>(b) == at_b);
        CHECK(at_a->text == "a");
        CHECK(at_b->text == "b");
    }
    TEST_CASE("E12 an entity that the same erase moves keeps its rows") {
        World world;
        Entity all[10];
        for (int i = 0; i < 10; ++i)
            all[i] = world.spawn(Place{i, 0}, Name{std::to_string(i)});
        CHECK(world.destroy(all[0])); // moves rows of all[9] in both pools
        CHECK(world.destroy(all[9])); // the one that was moved
        for (int i = 1; i < 9; ++i) {
            CHECK(world.get<Place>(all[i])->x == i);
            CHECK(world.get<Name>(all[i])->text == std::to_string(i));
            CHECK(world.find_pool<Place>()->owner(world.dense_index(all[i].entity_idx, component_id<Place>())) == all[i].entity_idx);
        }
        CHECK(world.find_pool<Place>()->size() == 8);
    }
    TEST_CASE("E13 blocks: addresses are stable, the borders are right") {
        World world;
        const Place* first = world.get<Place>(world.spawn(Place{0, 0}));
        const Pool<Place>& pool = *world.find_pool<Place>();
        std::vector<Entity> entities;
        for (int i = 1; i < 100000; ++i) {
            entities.push_back(world.spawn(Place{i, -i}));
            if (i == 4094 || i == 4095 || i == 4096) {
                CHECK(pool.size() == u32(i) + 1);
                CHECK(pool[u32(i)].x == i);
                CHECK(pool.block_count() == (i < 4096 ? 1u : 2u));
            }
        }
        CHECK(&pool[0] == first);
        CHECK(first->x == 0);
        CHECK(pool.size() == 100000);
        CHECK(pool.block_rows() == 4096);
        u64 wrong = 0;
        for (u32 i = 0; i < pool.size(); ++i)
            wrong += pool[i].x != int(i) || pool[i].y != -int(i);
        CHECK(wrong == 0);
        CHECK(pool.rows_in_block(0) == 4096);
        CHECK(pool.rows_in_block(pool.block_count() - 1) == 100000 % 4096);
    }
    TEST_CASE("columns and change words lie on cache lines of their own") {
        World world({.block_rows = 64});
        for (int i = 0; i < 130; ++i)
            world.spawn(Place{i, i}, Wide{}, Marker{});
        const auto line = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) / 64; };
        for (const ComponentId id : {component_id<Place>(), component_id<Wide>(), component_id<Marker>()}) {
            PoolBase& pool = *world.pool_of(id);
            REQUIRE(pool.block_count() == 3);
            for (u32 b = 0; b < 3; ++b) {
                CHECK(reinterpret_cast<std::uintptr_t>(pool.rows(b)) % 64 == 0);
                CHECK(reinterpret_cast<std::uintptr_t>(pool.owners(b)) % 64 == 0);
                CHECK(reinterpret_cast<std::uintptr_t>(pool.change_words(b)) % 64 == 0);
                CHECK(line(pool.owners(b) + 63) < line(pool.change_words(b)));
            }
        }
        CHECK(reinterpret_cast<std::uintptr_t>(world.pool_of(component_id<Wide>())->row(1)) % 128 == 0);
        World large;
        large.spawn(Place{});
        PoolBase& pool = *large.pool_of(component_id<Place>());
        CHECK(line(&pool.summary(0)) > line(pool.change_words(0) + 63));
    }
    TEST_CASE("tag types have rows but no bytes") {
        World world;
        std::vector<Entity> entities;
        for (int i = 0; i < 5000; ++i)
            entities.push_back(world.spawn(Marker{}));
        const PoolBase& pool = *world.pool_of(component_id<Marker>());
        CHECK(pool.size() == 5000);
        CHECK(pool.row_stride() == 0);
        CHECK(pool.row(0) == pool.row(4095));
        CHECK(world.has<Marker>(entities[4999]));
        CHECK(world.get<Marker>(entities[7]) != nullptr);
        CHECK(world.remove<Marker>(entities[3]));
        CHECK(pool.owner(3) == entities[4999].entity_idx);
        u32 visited = 0;
        world.each<Marker>([&](u32, const Marker&) { ++visited; });
        CHECK(visited == 4999);
    }
    TEST_CASE("E20 a move-only component works") {
        World world;
        const Entity a = world.create();
        const Entity b = world.create();
        world.add<Handle>(a, std::make_unique<int>(1));
        world.add<Handle>(b, std::make_unique<int>(2));
        CHECK(world.remove<Handle>(a));
        CHECK(*world.get<Handle>(b)->value == 2);
        CHECK(*world.get<Handle>(world.spawn(Handle{std::make_unique<int>(3)}))->value == 3);
    }
    TEST_CASE("E22 a throwing constructor leaves everything as it was") {
        {
            World world;
            const Entity e = world.spawn(Place{1, 1});
            const Entity other = world.spawn(Moody(7), Place{2, 2});
            world.log_structure(component_id<Moody>(), true);
            world.pool<Moody>().clear_changes();
            Moody::throw_in = 0;
            CHECK_THROWS_AS(world.add<Moody>(e, 5), std::runtime_error);
            CHECK_FALSE(world.has<Moody>(e));
            CHECK(world.signature(e).count() == 1);
            CHECK(detail::WorldTestAccess::index_count(world, e.entity_idx) == 1);
            CHECK(world.find_pool<Moody>()->size() == 1);
            CHECK(world.find_pool<Moody>()->change_summary(0) == 0);
            CHECK(world.structure_log().empty());
            // spawn: the place row is built and taken back again
            const u64 last_id = world.last_entity_id();
            const Moody sample = (Moody::throw_in = -1, Moody(4));
            Moody::throw_in = 0;
            CHECK_THROWS_AS(world.spawn(Place{3, 3}, sample), std::runtime_error);
            CHECK(world.last_entity_id() == last_id);
            CHECK(world.entity_count() == 2);
            CHECK(world.entity_slots() == 2);
            CHECK(world.find_pool<Place>()->size() == 2);
            // prefab: the third copy throws, across a first pool that is full of copies
            Moody::throw_in = -1;
            const Prefab prefab = Prefab::of(Name{"n"}, sample);
            const int living = Moody::living;
            Moody::throw_in = 2;
            Entity made[5];
            CHECK_THROWS_AS(world.instantiate_n(prefab, made), std::runtime_error);
            Moody::throw_in = -1;
            CHECK(Moody::living == living);
            CHECK(world.entity_count() == 2);
            CHECK(world.pool<Name>().size() == 0);
            CHECK(world.find_pool<Moody>()->size() == 1);
            CHECK(world.get<Moody>(other)->value == 7);
            // and the world still works
            CHECK(world.add<Moody>(e, 5)->value == 5);
            CHECK(world.instantiate_n(prefab, made));
            CHECK(world.get<Moody>(made[4])->value == 4);
        }
        CHECK(Moody::living == 0);
    }
    TEST_CASE("E22 so does an allocator that fails, whichever allocation it is") {
        for (u64 fail = 0; fail < 12; ++fail) {
            ecs_test::CountingMemory memory;
            {
                World world({.allocator = memory.allocator(), .block_rows = 64});
                world.log_structure(component_id<Name>(), true);
                const Entity e = world.create();
                memory.fail_at = memory.allocations + fail;
                bool failed = false;
                try {
                    world.add<Name>(e, "name");
                    world.spawn(Place{1, 2}, Name{"spawned"});
                } catch (const std::bad_alloc&) {
                    failed = true;
                }
                CHECK(failed == (fail < 7)); // two pools, each with a list and a block, and the log
                const u32 names = world.has<Name>(e) ? 1u : 0u;
                const Pool<Name>* pool = world.find_pool<Name>();
                CHECK((pool ? pool->size() : 0) == names + (failed ? 0u : 1u));
                CHECK(world.structure_log().size() == names + (failed ? 0u : 1u));
                CHECK(world.entity_count() == (failed ? 1u : 2u));
                memory.fail_at = ~u64(0);
                CHECK(world.add<Name>(e, "again") != nullptr);
            }
            CHECK(memory.live_bytes == 0);
        }
    }
    TEST_CASE("rows are added and removed by component id") {
        World world;
        const Entity e = world.create();
        world.pool<Place>();
        world.pool<Wide>();
        world.pool<Name>();
        auto* place = static_cast<Place*>(world.add_erased(e, component_id<Place>()));
        REQUIRE(place);
        CHECK(place->x == 0); // value-initialised
        place->x = 6;
        CHECK(world.add_erased(e, component_id<Place>()) == place);
        CHECK(world.get<Place>(e)->x == 6);
        CHECK(static_cast<Wide*>(world.add_erased(e, component_id<Wide>()))->value == 3);
        static_cast<Name*>(world.add_erased(e, component_id<Name>()))->text = "by id";
        CHECK(world.get<Name>(e)->text == "by id");
        CHECK(world.remove_erased(e, component_id<Place>()));
        CHECK_FALSE(world.remove_erased(e, component_id<Place>()));
        CHECK(world.dense_index(e.entity_idx, component_id<Place>()) == no_row);
        CHECK(world.dense_index(e.entity_idx, component_id<Name>()) == 0);
        CHECK(world.dense_index(99, component_id<Name>()) == no_row);
        CHECK(world.dense_index(e.entity_idx, no_component) == no_row);
        world.pool<NoDefault>();
        const ThrowingAsserts asserts;
        CHECK_THROWS_AS(world.add_erased(e, component_id<NoDefault>()), AssertFailed);
        CHECK_THROWS_AS(world.add_erased(e, component_id<Moody>()), AssertFailed); // no pool
    }
    TEST_CASE("destroy_batch equals destroy one by one") {
        World one;
        World batch;
        std::vector<Entity> all;
        for (int i = 0; i < 9000; ++i) {
            for (World* world : {&one, &batch}) {
                const Entity e = world->create();
                if (world == &one)
                    all.push_back(e);
                world->add<Place>(e, i, i);
                if (i % 2 == 0)
                    world->add<Name>(e, std::to_string(i));
                if (i % 3 == 0)
                    world->add<Marker>(e);
            }
        }
        for (World* world : {&one, &batch}) { // marks must go where their rows go
            world->clear_changes();
            for (u32 i = 0; i < 9000; i += 7)
                world->mut<Place>(all[i]);
        }
        ecs_test::Random random{11};
        std::vector<Entity> doomed;
        for (int i = 0; i < 6000; ++i) // more than one piece
            doomed.push_back(all[random.below(9000)]); // with repeats
        doomed.push_back(Entity{5, 5, 5});
        doomed.push_back(all[8999]);
        u32 destroyed = 0;
        for (const Entity& e : doomed)
            destroyed += one.destroy(e);
        CHECK(batch.destroy_batch(doomed) == destroyed);
        CHECK(batch.entity_count() == one.entity_count());
        CHECK(batch.find_pool<Place>()->size() == one.find_pool<Place>()->size());
        CHECK(batch.find_pool<Name>()->size() == one.find_pool<Name>()->size());
        CHECK(batch.find_pool<Marker>()->size() == one.find_pool<Marker>()->size());
        u32 wrong = 0;
        for (int i = 0; i < 9000; ++i) {
            const Entity e = all[u32(i)];
            wrong += one.alive(e) != batch.alive(e);
            if (!batch.alive(e))
                continue;
            wrong += batch.get<Place>(e)->x != i;
            wrong += batch.has<Name>(e) != (i % 2 == 0) || (i % 2 == 0 && batch.get<Name>(e)->text != std::to_string(i));
            wrong += batch.has<Marker>(e) != (i % 3 == 0);
            wrong += batch.find_pool<Place>()->changed(batch.dense_index(e.entity_idx, component_id<Place>())) != (i % 7 == 0);
            wrong += batch.find_pool<Place>()->owner(batch.dense_index(e.entity_idx, component_id<Place>())) != e.entity_idx;
        }
        CHECK(wrong == 0);
        const Pool<Place>& places = batch.pool<Place>();
        for (u32 k = places.place_of(places.size()); k < places.block_rows(); ++k) // no mark beyond the last row
            wrong += (places.change_words(places.block_count() - 1)[k / 64] >> (k % 64) & 1) != 0;
        CHECK(wrong == 0);
        CHECK(one.create() == batch.create()); // the same free list
    }
}
