#include "components.hpp"
#include <doctest/doctest.h>
#include <set>
#include <span>
#include <string>
#include <vector>

using namespace throng;
using ecs_test::A;
using ecs_test::AssertFailed;
using ecs_test::B;
using ecs_test::C;
using ecs_test::mixed_world;
using ecs_test::Random;
using ecs_test::Tag;
using ecs_test::ThreadsForTest;
using ecs_test::ThrowingAsserts;

TEST_SUITE("ecs") {
    TEST_CASE("E14 each visits every row once, by index and by handle") {
        World world;
        long expected = 0;
        std::set<u64> owners;
        for (int i = 0; i < 10000; ++i) {
            const Entity e = world.create();
            if (i % 10 < 3) {
                world.add<A>(e, i);
                expected += i;
                owners.insert(e.entity_id);
            }
        }
        u32 visits = 0;
        long sum = 0;
        world.each<A>([&](u32 idx, const A& a) {
            ++visits;
            sum += a.value;
            CHECK_UNARY(owners.count(world.entity_at(idx).entity_id) == 1);
        });
        CHECK(visits == 3000);
        CHECK(sum == expected);
        std::set<u64> visited;
        sum = 0;
        world.each<A>([&](Entity e, const A& a) {
            visited.insert(e.entity_id);
            sum += a.value;
            CHECK_UNARY(world.get<A>(e) == &a);
        });
        CHECK(visited == owners);
        CHECK(sum == expected);
        sum = 0;
        world.each<A>([&](const A& a) { sum += a.value; });
        CHECK(sum == expected);
        visits = 0;
        world.each<B>([&](const B&) { ++visits; }); // a pool nobody made
        CHECK(visits == 0);
    }
    TEST_CASE("E15 a structural change of the pool in a loop is refused, of others allowed") {
        World world;
        std::vector<Entity> entities;
        for (int i = 0; i < 100; ++i)
            entities.push_back(world.spawn(A{i}, B{i}));
        const Entity bare = world.create();
        u32 refused = 0;
        {
            const ThrowingAsserts asserts;
            const auto refuses = [&](auto&& change) { refused += ecs_test::asserts(change); };
            world.each<A>([&](Entity e, const A&) {
                refuses([&] { world.remove<A>(e); });            // the current one
                refuses([&] { world.remove<A>(entities[50]); }); // another one
                refuses([&] { world.destroy(e); });              // has an A
                refuses([&] { world.destroy_batch({&e, 1}); });
                refuses([&] { world.add<A>(bare, 1); });
                refuses([&] { world.spawn(C{"x"}, A{1}); });
            });
            CHECK(refused == 600);
            CHECK(world.find_pool<A>()->size() == 100);
            CHECK(world.entity_count() == 101);
            // other pools, and entities without the component
            u32 visits = 0;
            world.each<A>([&](Entity e, const A& a) {
                ++visits;
                world.remove<B>(e);
                world.add<C>(e, std::to_string(a.value));
                world.destroy(world.create());
            });
            CHECK(visits == 100);
        }
        CHECK(world.find_pool<B>()->size() == 0);
        CHECK(world.get<C>(entities[42])->value == "42");
        CHECK(world.remove<A>(entities[0])); // the loop is over
        CHECK_THROWS_AS(world.each<A>([](const A&) { throw std::runtime_error("stop"); }), std::runtime_error);
        CHECK(world.remove<A>(entities[1])); // also after an exception
    }
    TEST_CASE("E21 a row reference forwards to the component and marks only what it writes") {
        World world;
        std::vector<Entity> entities;
        for (int i = 0; i < 100; ++i)
            entities.push_back(world.spawn(A{i}));
        PoolBase& pool = world.pool<A>();
        pool.clear_changes();
        int sum = 0;
        world.each_row<A>([&](Row<A> row) {
            sum += row->value + (*row).value;
            CHECK_UNARY(row.entity() == entities[row.dense()]);
            CHECK_UNARY(row.entity_idx() == row.entity().entity_idx);
            if (row->value % 50 == 7)
                row.mut().value = -1;
        });
        CHECK(sum == 2 * 4950);
        CHECK(pool.changed(7));
        CHECK(pool.changed(57));
        CHECK_FALSE(pool.changed(8));
        CHECK(pool.change_words(0)[0] == (u64(1) << 7 | u64(1) << 57));
        CHECK(pool.change_words(0)[1] == 0);
        CHECK(world.get<A>(entities[57])->value == -1);
    }
    TEST_CASE("A1 groups: entities that have some types and lack others") {
        World world;
        world.spawn(A{1});
        const Entity both = world.spawn(A{2}, B{2});
        world.spawn(B{3});
        u32 with = 0;
        world.each<A, B>([&](Entity e, const A& a, const B& b) {
            ++with;
            CHECK(e == both);
            CHECK(a.value == 2);
            CHECK(b.value == 2);
        });
        CHECK(with == 1);
        u32 lacking = 0;
        world.each<A>(without<B>, [&](u32, const A& a) {
            ++lacking;
            CHECK(a.value == 1);
        });
        CHECK(lacking == 1);
        u32 unknown = 0;
        world.each<A>(without<C>, [&](const A&) { ++unknown; }); // a type no entity ever had
        CHECK(unknown == 2);
    }
    TEST_CASE("loops over several types visit exactly the entities that have them") {
        for (const u32 block_rows : {64u, 4096u}) {
            World world({.block_rows = block_rows});
            const std::vector<Entity> entities = mixed_world(world, 9000, 5 + block_rows);
            std::set<u64> abc;
            std::set<u64> ab_no_tag;
            for (const Entity& e : entities) {
                if (world.has<A>(e) && world.has<B>(e) && world.has<C>(e))
                    abc.insert(e.entity_id);
                if (world.has<A>(e) && world.has<B>(e) && !world.has<Tag>(e))
                    ab_no_tag.insert(e.entity_id);
            }
            REQUIRE(abc.size() > 1000);
            REQUIRE(ab_no_tag.size() > 500);
            std::set<u64> visited;
            u32 wrong = 0;
            world.each<A, B, C>([&](Entity e, const A& a, const B& b, const C& c) {
                wrong += !visited.insert(e.entity_id).second;
                wrong += &a != world.get<A>(e) || &b != world.get<B>(e) || &c != world.get<C>(e);
            });
            CHECK(wrong == 0);
            CHECK(visited == abc);
            visited.clear();
            world.each<B, A>(without<Tag>, [&](Entity e, const B& b, const A& a) {
                wrong += !visited.insert(e.entity_id).second || long(a.value) != b.value;
            });
            CHECK(wrong == 0);
            CHECK(visited == ab_no_tag);
            // marks: the rows visited, in both pools, and no other
            world.clear_changes();
            world.each_mut<A, B>(without<Tag>, [&](A& a, B& b) {
                a.value = -a.value;
                b.value = -b.value;
            });
            for (const Entity& e : entities) {
                const bool expected = ab_no_tag.count(e.entity_id) != 0;
                if (world.has<A>(e)) {
                    const u32 dense = world.dense_index(e.entity_idx, component_id<A>());
                    const int value = world.get<A>(e)->value;
                    wrong += world.find_pool<A>()->changed(dense) != expected || (value < 0) != (expected && value != 0);
                }
                if (world.has<B>(e))
                    wrong += world.find_pool<B>()->changed(world.dense_index(e.entity_idx, component_id<B>())) != expected;
            }
            CHECK(wrong == 0);
        }
    }
    TEST_CASE("a parallel each_mut gives the rows and marks of a serial one") {
        for (const u32 block_rows : {64u, 256u, 4096u}) {
            for (const u32 workers : {1u, 2u, 4u}) {
                World serial({.block_rows = block_rows});
                World parallel({.block_rows = block_rows});
                const std::vector<Entity> entities = mixed_world(serial, 5000, 77);
                mixed_world(parallel, 5000, 77);
                serial.clear_changes();
                parallel.clear_changes();
                ThreadsForTest executor(workers);
                const auto step = [](Entity e, A& a, B& b, C& c) {
                    a.value += int(e.entity_id);
                    b.value ^= a.value;
                    c.value += 'x';
                };
                serial.each_mut<A, B, C>(step);
                parallel.each_mut<A, B, C>(executor, step);
                serial.each_mut<Tag>([](Tag&) {});
                parallel.each_mut<Tag>(executor, [](Tag&) {});
                u32 wrong = 0;
                for (const Entity& e : entities)
                    if (serial.has<A>(e) && serial.has<B>(e) && serial.has<C>(e))
                        wrong += serial.get<A>(e)->value != parallel.get<A>(e)->value ||
                                 serial.get<B>(e)->value != parallel.get<B>(e)->value ||
                                 serial.get<C>(e)->value != parallel.get<C>(e)->value;
                CHECK(wrong == 0);
                for (const ComponentId id : {component_id<A>(), component_id<B>(), component_id<C>(), component_id<Tag>()}) {
                    const PoolBase& x = *serial.pool_of(id);
                    const PoolBase& y = *parallel.pool_of(id);
                    REQUIRE(x.block_count() == y.block_count());
                    for (u32 b = 0; b < x.block_count(); ++b) {
                        wrong += x.change_summary(b) != y.change_summary(b);
                        for (u32 w = 0; w < block_rows / 64; ++w)
                            wrong += x.change_words(b)[w] != y.change_words(b)[w];
                    }
                }
                CHECK(wrong == 0);
            }
        }
    }
    TEST_CASE("no mut, set or patch inside a parallel loop, but mut_shared") {
        World world;
        const Entity e = world.spawn(A{1});
        const Entity other = world.spawn(B{1});
        world.clear_changes();
        ThreadsForTest executor(1);
        u32 refused = 0;
        const ThrowingAsserts asserts;
        const auto refuses = [&](auto&& change) { refused += ecs_test::asserts(change); };
        const auto body = [&](const A&) {
            refuses([&] { world.mut<B>(other)->value = 2; });
            refuses([&] { world.mut<A>(other); }); // absent: no less
            refuses([&] { world.set(other, B{2}); });
            refuses([&] { world.patch<B>(other, [](B& b) { b.value = 2; }); });
        };
        world.each<A>(executor, body);
        world.each_mut<A>(executor, body);
        world.each_row<A>(executor, [&](Row<A> row) { body(*row); });
        world.each_block<A>(executor, [&](std::span<const A> rows) { body(rows[0]); });
        CHECK(refused == 16);
        CHECK(world.get<B>(other)->value == 1);
        CHECK_FALSE(world.find_pool<B>()->changed(0));
        world.each<A>(executor, [&](const A&) { world.mut_shared<B>(other)->value = 3; });
        CHECK(world.get<B>(other)->value == 3);
        CHECK(world.find_pool<B>()->changed(0));
        world.each<A>([&](const A&) { world.mut<A>(e)->value = 4; }); // a serial one
        CHECK(world.get<A>(e)->value == 4);
    }
    TEST_CASE("no structural change inside a parallel loop, and exceptions end it") {
        World world;
        const Entity e = world.spawn(A{1});
        const Entity other = world.spawn(B{1});
        ThreadsForTest executor(1);
        const ThrowingAsserts asserts;
        CHECK_THROWS_AS(world.each_mut<A>(executor, [&](A&) { world.create(); }), AssertFailed);
        CHECK_THROWS_AS(world.each_mut<A>(executor, [&](A&) { world.remove<B>(other); }), AssertFailed);
        CHECK_THROWS_AS(world.each_mut<A>(executor, [&](A&) { world.add<C>(e, "x"); }), AssertFailed);
        CHECK_THROWS_AS(world.each_mut<A>(executor, [&](A&) { world.destroy(other); }), AssertFailed);
        CHECK(world.entity_count() == 2);
        CHECK(world.has<B>(other));
        CHECK_FALSE(world.has<C>(e));
        CHECK(world.destroy(e)); // nothing is left locked
    }
}
