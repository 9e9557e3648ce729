#include "support.hpp"
#include "throng/ecs.hpp"
#include <array>
#include <doctest/doctest.h>
#include <map>
#include <set>
#include <vector>

using namespace throng;
using ecs_test::Random;

// Loops over several types go through whole blocks where pools are in step, and remember which blocks are. What they remember must
// end with each way in which a row can move.

namespace {
struct First {
    u64 id;
};
struct Second {
    u64 id;
};
struct Third {
    u64 id;
};
using Wide = BasicWorld<256>;

/// Each entity is visited once, with its own rows, and marked: those visited and no others.
void check_loop(Wide& world, const std::vector<Entity>& entities) {
    world.clear_changes();
    std::set<u64> visited;
    u32 foreign = 0;
    world.each_mut<First, const Second, Maybe<Third>>([&](u32 idx, First& a, const Second& b, Third* c) {
        const u64 id = world.entity_at(idx).entity_id;
        foreign += a.id != id || b.id != id || (c && c->id != id) || (c != nullptr) != world.has<Third>(world.entity_at(idx));
        visited.insert(id);
    });
    std::set<u64> expected;
    u32 wrong_marks = 0;
    for (const Entity e : entities) {
        if (!world.alive(e))
            continue;
        const bool both = world.has<First>(e) && world.has<Second>(e);
        if (both)
            expected.insert(e.entity_id);
        if (world.has<First>(e))
            wrong_marks += world.pool<First>().changed(world.dense_index(e.entity_idx, component_id<First, 256>())) != both;
        if (world.has<Second>(e))
            wrong_marks += world.pool<Second>().changed(world.dense_index(e.entity_idx, component_id<Second, 256>()));
        if (world.has<Third>(e))
            wrong_marks += world.pool<Third>().changed(world.dense_index(e.entity_idx, component_id<Third, 256>())) != both;
    }
    CHECK(foreign == 0);
    CHECK(visited == expected);
    CHECK(wrong_marks == 0);
}

Entity spawn_all(Wide& world) {
    const u64 id = world.last_entity_id() + 1;
    return world.spawn(First{id}, Second{id}, Third{id});
}
} // namespace

TEST_CASE("What loops remember of pools in step ends with each change of their rows") {
    for (const u32 workers : {0u, 2u}) {
        Wide world({.block_rows = 64});
        Random random{17 + workers};
        ecs_test::ThreadsForTest executor(2);
        std::vector<Entity> entities;
        for (u32 i = 0; i < 400; ++i)
            entities.push_back(spawn_all(world));
        BasicRollbackRing<256> ring(world, 3);
        u64 frame = 0;
        std::map<u64, std::vector<Entity>> framed;
        BasicWorldSnapshot<256> snapshot = world.snapshot();
        std::vector<Entity> then = entities;
        const auto any = [&] { return entities[random.below(u32(entities.size()))]; };
        for (u32 step = 0; step < 400; ++step) {
            switch (random.below(13)) {
            case 0:
            case 1:
                entities.push_back(spawn_all(world));
                break;
            case 2:
                world.destroy(any());
                break;
            case 3: {
                const std::array<Entity, 3> ending{any(), any(), any()};
                world.destroy_batch(ending);
                break;
            }
            case 4:
                world.remove<Second>(any());
                break;
            case 5:
                world.remove<Third>(any());
                break;
            case 6:
                if (const Entity e = any(); world.alive(e)) {
                    world.add<Second>(e, Second{e.entity_id});
                    world.add<Third>(e, Third{e.entity_id});
                }
                break;
            case 7: // two owners change places in one pool alone
                if (const Entity a = any(), b = any(); world.has<Third>(a) && world.has<Third>(b) && !(a == b)) {
                    world.remove<Third>(a);
                    world.remove<Third>(b);
                    world.add<Third>(a, Third{a.entity_id});
                    world.add<Third>(b, Third{b.entity_id});
                }
                break;
            case 8:
                world.sort<Second>([](const Second& a, const Second& b) { return a.id * 7 % 64 < b.id * 7 % 64; });
                break;
            case 9:
                world.sort_as<First, Second, Third>();
                break;
            case 10: {
                std::array<Entity, 5> made;
                u64 next = world.last_entity_id();
                world.spawn_n<First, Second>(made, [&](u32, First& a, Second& b) { a.id = b.id = ++next; });
                entities.insert(entities.end(), made.begin(), made.end());
                break;
            }
            case 11:
                if (random.below(2) == 0 || ring.frame_count() == 0) {
                    REQUIRE(ring.save(++frame) == Error::none);
                    framed[frame] = entities;
                } else {
                    frame = ring.oldest_frame() + random.below(ring.frame_count());
                    REQUIRE(ring.restore(frame) == Error::none);
                    entities = framed[frame];
                }
                break;
            default:
                if (random.below(4) == 0) {
                    REQUIRE(world.restore(snapshot) == Error::none);
                    entities = then;
                } else if (random.below(4) == 0) {
                    snapshot = world.snapshot();
                    then = entities;
                }
            }
            if (workers != 0) // names may be given by several threads at once
                world.each<First, Second, Third>(executor, [](const First&, const Second&, const Third&) {});
            check_loop(world, entities);
        }
    }
}

TEST_CASE("A block that loops found in step is compared once") {
    Wide world({.block_rows = 64});
    for (u32 i = 0; i < 64; ++i)
        spawn_all(world);
    u64 orders = 0;
    const PoolBase& first = world.pool<First>();
    const PoolBase& second = world.pool<Second>();
    const PoolBase& third = world.pool<Third>();
    CHECK(first.in_step(second, 0, orders));
    CHECK(orders == 1);
    CHECK(second.in_step(third, 0, orders));
    CHECK(first.in_step(third, 0, orders));
    CHECK(orders == 1); // the name went from one to the next
    world.remove<Third>(world.entity_at(5));
    CHECK_FALSE(first.in_step(third, 0, orders));
    CHECK(first.in_step(second, 0, orders));
    CHECK(orders == 1);
}
