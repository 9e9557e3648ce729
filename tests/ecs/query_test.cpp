#include "components.hpp"
#include <atomic>
#include <doctest/doctest.h>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

using namespace throng;
using ecs_test::A;
using ecs_test::B;
using ecs_test::C;
using ecs_test::mixed_world;
using ecs_test::Random;
using ecs_test::Tag;
using ecs_test::ThreadsForTest;

namespace {
struct Never {
    int value;
};


template <class T>
bool marked(const World& world, Entity e) {
    const u32 dense = world.dense_index(e.entity_idx, component_id<T>());
    return dense != no_row && world.find_pool<T>()->changed(dense);
}

/// What a loop visited: id -> times; safe from several threads.
struct Visits {
    std::vector<std::atomic<u32>> counts;
    std::atomic<u32> wrong{0};
    explicit Visits(const World& world) : counts(world.entity_slots()) {}
    template <class Expected>
    u32 differences(const World& world, Expected&& expected) const {
        u32 result = wrong;
        for (u32 i = 0; i < counts.size(); ++i)
            result += counts[i] != u32(world.entity_at(i) && expected(world.entity_at(i)));
        return result;
    }
};
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("optional types come as pointers, in every form and for any number of workers") {
        for (const u32 block_rows : {64u, 4096u}) {
            World world({.block_rows = block_rows});
            mixed_world(world, 6000, 5 + block_rows);
            const auto has_a = [&](Entity e) { return world.has<A>(e); };
            const auto body = [&](Visits& visits) {
                return [&](Entity e, const A& a, const B* b, const C* c, const Never* never) {
                    ++visits.counts[e.entity_idx];
                    visits.wrong += &a != world.get<A>(e) || b != world.get<B>(e) || c != world.get<C>(e) || never != nullptr;
                };
            };
            Visits serial(world);
            world.each<A, Maybe<B>, Maybe<C>, Maybe<Never>>(body(serial));
            CHECK(serial.differences(world, has_a) == 0);
            for (const u32 workers : {1u, 3u}) {
                ThreadsForTest executor(workers);
                Visits parallel(world);
                world.each<A, Maybe<B>, Maybe<C>, Maybe<Never>>(executor, body(parallel));
                CHECK(parallel.differences(world, has_a) == 0);
            }
            // The optional type is the smaller pool, and stands first in the list.
            for (u32 i = 0; i < world.entity_slots(); i += 2)
                world.remove<B>(world.entity_at(i));
            Visits first(world);
            world.each<Maybe<B>, A>([&](u32 idx, const B* b, const A&) {
                ++first.counts[idx];
                first.wrong += b != world.get<B>(world.entity_at(idx));
            });
            CHECK(first.differences(world, has_a) == 0);
        }
    }
    TEST_CASE("a writing loop marks what it may write: not const types, not what is absent, not what it filters by") {
        for (const u32 workers : {0u, 1u, 4u}) {
            World world({.block_rows = 128});
            const std::vector<Entity> entities = mixed_world(world, 4000, 11);
            world.clear_changes();
            ThreadsForTest executor(workers ? workers : 1);
            const auto step = [](A& a, const B& b, C* c) {
                a.value = -int(b.value);
                if (c)
                    c->value = "seen";
            };
            if (workers == 0)
                world.each_mut<A, const B, Maybe<C>>(without<Tag>, step);
            else
                world.each_mut<A, const B, Maybe<C>>(executor, without<Tag>, step);
            u32 wrong = 0, visited = 0;
            for (const Entity& e : entities) {
                const bool expected = world.has<A>(e) && world.has<B>(e) && !world.has<Tag>(e);
                visited += expected;
                wrong += marked<A>(world, e) != expected || marked<B>(world, e) || marked<Tag>(world, e);
                wrong += marked<C>(world, e) != (expected && world.has<C>(e));
                if (expected)
                    wrong += world.get<A>(e)->value != -world.get<B>(e)->value;
                if (world.has<C>(e))
                    wrong += (world.get<C>(e)->value == "seen") != expected;
            }
            CHECK(visited > 300);
            CHECK(wrong == 0);
        }
    }
    TEST_CASE("a Maybe of a const type is never marked") {
        World world;
        const Entity both = world.spawn(A{1}, B{2});
        world.spawn(A{3});
        world.clear_changes();
        int sum = 0;
        world.each_mut<A, Maybe<const B>>([&](A& a, const B* b) { sum += ++a.value + (b ? int(b->value) : 0); });
        CHECK(sum == 2 + 2 + 4);
        CHECK(marked<A>(world, both));
        CHECK_FALSE(marked<B>(world, both));
    }
    TEST_CASE("filters: required, excluded, both, in all forms") {
        World world({.block_rows = 64});
        const std::vector<Entity> entities = mixed_world(world, 5000, 21);
        ThreadsForTest executor(2);
        const auto check = [&](auto filter, auto expected) {
            Visits a(world), b(world), c(world), d(world);
            const auto count = [](Visits& visits) { return [&](u32 idx, auto&...) { ++visits.counts[idx]; }; };
            world.each<A>(filter, count(a));
            world.each<A>(executor, filter, count(b));
            world.each_mut<A>(filter, count(c));
            world.each_mut<A>(executor, filter, count(d));
            for (const Visits* visits : {&a, &b, &c, &d})
                CHECK(visits->differences(world, expected) == 0);
        };
        check(with<Tag>, [&](Entity e) { return world.has<A>(e) && world.has<Tag>(e); });
        check(with<Tag, B>, [&](Entity e) { return world.has<A>(e) && world.has<Tag>(e) && world.has<B>(e); });
        check(without<Tag>, [&](Entity e) { return world.has<A>(e) && !world.has<Tag>(e); });
        check(with<B> && without<Tag, C>,
              [&](Entity e) { return world.has<A>(e) && world.has<B>(e) && !world.has<Tag>(e) && !world.has<C>(e); });
        check(without<Never>, [&](Entity e) { return world.has<A>(e); });
        check(with<Never>, [](Entity) { return false; });
        // The filter's pool is the smallest, and drives.
        for (std::size_t i = 0; i < entities.size(); ++i)
            if (i % 50 != 0)
                world.remove<Tag>(entities[i]);
        check(with<Tag>, [&](Entity e) { return world.has<A>(e) && world.has<Tag>(e); });
        // An exclusion that begins in the middle of the loop holds from there on.
        World small;
        const Entity first = small.spawn(A{0});
        const Entity second = small.spawn(A{1});
        u32 visits = 0;
        small.each<A>(without<Never>, [&](Entity e, const A&) {
            ++visits;
            CHECK(e == first);
            small.add<Never>(second, 1);
        });
        CHECK(visits == 1);
    }
    TEST_CASE("a lazy entity is looked up where it is asked for") {
        World world;
        std::vector<Entity> entities;
        for (int i = 0; i < 100; ++i)
            entities.push_back(world.spawn(A{i}, Tag{}));
        world.destroy(entities[10]);
        u32 seen = 0;
        Entity chosen;
        const auto body = [&](LazyEntity e, const A& a) {
            seen += e.entity_idx() == entities[u32(a.value)].entity_idx;
            if (a.value == 42)
                chosen = e;
            if (a.value == 43)
                seen += e.entity() == entities[43];
        };
        world.each<A>(body);
        CHECK(seen == 100);
        CHECK(chosen == entities[42]);
        chosen = {};
        world.each<A>(with<Tag>, body);
        CHECK(chosen == entities[42]);
        BasicWorld<64> other;
        const Entity one = other.spawn(A{1});
        other.each_mut<A>([&](BasicLazyEntity<64> e, A&) { CHECK(e.entity() == one); });
    }
    TEST_CASE("spans of blocks cover what the row form visits, and mark the same") {
        for (const u32 block_rows : {64u, 256u, 4096u}) {
            for (const u32 workers : {0u, 1u, 4u}) {
                World world({.block_rows = block_rows});
                const std::vector<Entity> entities = mixed_world(world, 5000, 77 + block_rows);
                world.clear_changes();
                ThreadsForTest executor(workers ? workers : 1);
                Visits visits(world);
                std::atomic<u32> longest{0};
                const auto body = [&](std::span<const u32> owners, std::span<A> a, std::span<const B> b, std::span<C> c) {
                    visits.wrong += a.size() != owners.size() || b.size() != owners.size() || (!c.empty() && c.size() != owners.size());
                    longest = std::max<u32>(longest, u32(a.size()));
                    for (std::size_t i = 0; i < owners.size(); ++i) {
                        const Entity e = world.entity_at(owners[i]);
                        ++visits.counts[owners[i]];
                        visits.wrong += &a[i] != world.get<A>(e) || &b[i] != world.get<B>(e);
                        visits.wrong += (c.empty() ? nullptr : &c[i]) != world.get<C>(e);
                    }
                };
                if (workers == 0)
                    world.each_block_mut<A, const B, Maybe<C>>(without<Tag>, body);
                else
                    world.each_block_mut<A, const B, Maybe<C>>(executor, without<Tag>, body);
                const auto expected = [&](Entity e) { return world.has<A>(e) && world.has<B>(e) && !world.has<Tag>(e); };
                CHECK(visits.differences(world, expected) == 0);
                u32 wrong = 0;
                for (const Entity& e : entities)
                    wrong += marked<A>(world, e) != expected(e) || marked<B>(world, e) ||
                             marked<C>(world, e) != (expected(e) && world.has<C>(e));
                CHECK(wrong == 0);
                // Reading, and with a required tag.
                Visits reads(world);
                const auto read = [&](std::span<const u32> owners, std::span<const B>) {
                    for (const u32 owner : owners)
                        ++reads.counts[owner];
                };
                if (workers == 0)
                    world.each_block<B>(with<Tag>, read);
                else
                    world.each_block<B>(executor, with<Tag>, read);
                CHECK(reads.differences(world, [&](Entity e) { return world.has<B>(e) && world.has<Tag>(e); }) == 0);
            }
        }
    }
    TEST_CASE("one pool comes in whole blocks, and so do pools in step") {
        World world({.block_rows = 256});
        for (int i = 0; i < 1000; ++i)
            world.spawn(A{i}, B{i});
        std::vector<std::size_t> lengths;
        world.each_block<A>([&](std::span<const A> a) { lengths.push_back(a.size()); });
        CHECK(lengths == std::vector<std::size_t>{256, 256, 256, 232});
        lengths.clear();
        long sum = 0;
        world.each_block_mut<A, B>([&](std::span<A> a, std::span<B> b) {
            lengths.push_back(a.size());
            for (std::size_t i = 0; i < a.size(); ++i)
                sum += a[i].value + b[i].value;
        });
        CHECK(lengths == std::vector<std::size_t>{256, 256, 256, 232});
        CHECK(sum == 999 * 1000);
        // One entity with an A alone in front: the rows of B are one number off, and still come in long spans.
        World shifted({.block_rows = 256});
        shifted.spawn(A{-1});
        for (int i = 0; i < 255; ++i)
            shifted.spawn(A{i}, B{i});
        lengths.clear();
        shifted.each_block<A, B>([&](std::span<const A> a, std::span<const B>) { lengths.push_back(a.size()); });
        CHECK(lengths == std::vector<std::size_t>{255});
    }
    TEST_CASE("a loop body's exception leaves rows visited before marked, and the pool open") {
        World world;
        const Entity first = world.spawn(A{1});
        world.spawn(A{2});
        world.clear_changes();
        CHECK_THROWS_AS(world.each_mut<A>([](A&) { throw std::runtime_error("stop"); }), std::runtime_error);
        CHECK(marked<A>(world, first));
        CHECK_THROWS_AS(world.each_block<A>([](std::span<const A>) { throw std::runtime_error("stop"); }), std::runtime_error);
        CHECK(world.remove<A>(first));
    }
    TEST_CASE("each_row in parallel marks exactly the rows it writes") {
        for (const u32 workers : {1u, 4u}) {
            World world({.block_rows = 128});
            for (int i = 0; i < 5000; ++i)
                world.spawn(A{i});
            world.clear_changes();
            ThreadsForTest executor(workers);
            world.each_row<A>(executor, [](Row<A> row) {
                if (row->value % 7 == 3)
                    row.mut().value = -1;
            });
            u32 wrong = 0;
            const Pool<A>& pool = *world.find_pool<A>();
            for (u32 i = 0; i < pool.size(); ++i)
                wrong += pool.changed(i) != (i % 7 == 3) || (pool[i].value == -1) != (i % 7 == 3);
            CHECK(wrong == 0);
        }
    }
    TEST_CASE("writes to other entities from a parallel loop are all marked") {
        for (const u32 workers : {1u, 4u}) {
            World world({.block_rows = 64});
            std::vector<Entity> targets, attackers;
            for (int i = 0; i < 3000; ++i)
                targets.push_back(world.spawn(A{0}));
            Random random{9};
            std::vector<int> order(3000);
            std::iota(order.begin(), order.end(), 0);
            for (u32 i = 3000; i > 1; --i)
                std::swap(order[i - 1], order[random.below(i)]);
            for (int i = 0; i < 3000; i += 2)
                attackers.push_back(world.spawn(B{order[u32(i)]}));
            world.clear_changes();
            ThreadsForTest executor(workers);
            world.each<B>(executor, [&](const B& b) { world.mut_shared<A>(targets[u32(b.value)])->value = 1; });
            u32 wrong = 0, hit = 0;
            for (const Entity& e : targets) {
                hit += world.get<A>(e)->value;
                wrong += marked<A>(world, e) != (world.get<A>(e)->value == 1);
            }
            CHECK(hit == 1500);
            CHECK(wrong == 0);
            CHECK(world.mut_shared<B>(targets[0]) == nullptr);
            CHECK(world.mut_shared<A>(Entity{}) == nullptr);
        }
    }
    TEST_CASE("rows and changes pass the filters that loops have") {
        for (const u32 workers : {0u, 2u}) {
            World world({.block_rows = 64});
            const std::vector<Entity> entities = mixed_world(world, 2000, 5);
            ThreadsForTest executor(workers ? workers : 1);
            ChangeReader<A> reader(world);
            reader.skip();
            world.clear_changes();
            std::atomic<u32> rows{0};
            const auto write = [&](Row<A> row) {
                ++rows;
                ++row.mut().value;
            };
            if (workers)
                world.each_row<A>(executor, with<B> && without<Tag>, write);
            else
                world.each_row<A>(with<B> && without<Tag>, write);
            u32 expected = 0, tagged = 0, wrong = 0;
            for (const Entity e : entities) {
                const bool chosen = world.has<A>(e) && world.has<B>(e) && !world.has<Tag>(e);
                expected += chosen;
                wrong += world.has<A>(e) && marked<A>(world, e) != chosen;
                tagged += chosen && world.has<C>(e);
            }
            CHECK(wrong == 0);
            CHECK(expected > 100);
            CHECK(tagged > 10);
            CHECK(rows == expected);
            CHECK(reader.each(with<C> && without<Tag>, [&](Entity e, const A&) { wrong += !world.has<C>(e); }) == tagged);
            CHECK(reader.each([](const A&) {}) == 0); // the others were passed over
            world.each_row<A>(with<Never>, [](Row<A>) { FAIL("nobody has one"); });
            world.each_mut<A>([](A&) {});
            u32 all = 0;
            world.each<A>(without<Tag>, [&](const A&) { ++all; });
            CHECK(reader.each(without<Tag, Never>, [](const A&) {}) == all);
            CHECK(wrong == 0);
        }
    }
    TEST_CASE("no structural change inside a parallel loop that reads") {
        World world;
        const Entity e = world.spawn(A{1});
        ThreadsForTest executor(1);
        const ecs_test::ThrowingAsserts asserts;
        CHECK_THROWS_AS(world.each<A>(executor, [&](const A&) { world.create(); }), ecs_test::AssertFailed);
        CHECK_THROWS_AS(world.each_row<A>(executor, [&](Row<A>) { world.add<B>(e, 1); }), ecs_test::AssertFailed);
        CHECK_THROWS_AS(world.each_block<A>(executor, [&](std::span<const A>) { world.create(); }), ecs_test::AssertFailed);
        CHECK(world.entity_count() == 1);
        CHECK(world.destroy(e));
    }
    TEST_CASE("loops take nothing from the allocator") {
        ecs_test::CountingMemory memory;
        World world({.allocator = memory.allocator()});
        mixed_world(world, 3000, 3);
        world.sort_as<A, B, C>();
        world.sort<A>([](const A& x, const A& y) { return x.value > y.value; });
        const u64 warm = memory.allocations;
        ThreadsForTest executor(2);
        world.each<A, Maybe<B>>(executor, with<C> && without<Tag>, [](const A&, const B*) {});
        world.each_block_mut<A, Maybe<C>>([](std::span<A>, std::span<C>) {});
        world.sort_as<A, B, C>();
        world.sort<A>([](const A& x, const A& y) { return x.value < y.value; });
        CHECK(memory.allocations == warm);
    }
}
