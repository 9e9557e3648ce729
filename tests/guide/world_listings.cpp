// Listings of docs/guide.md: the world.
#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <map>
#include <vector>

using namespace throng;

namespace {
// [components]
struct Position { float x = 0, y = 0, z = 0; };
struct Velocity { float x = 0, z = 0; };
struct Health { int hp = 100; };
struct Frozen {}; // empty: a tag, has no bytes
// [/components]
} // namespace

TEST_SUITE("guide") {
    TEST_CASE("entities and components") {
        // [entities]
        World world;
        const Entity player = world.spawn(Position{1, 0, 2}, Velocity{}, Health{80});
        const Entity rock = world.create();   // no components yet
        world.add<Position>(rock, 5.f, 0.f, 5.f);
        if (const Position* p = world.get<Position>(player)) // reads; null if absent or dead
            CHECK(p->x == 1);
        world.mut<Health>(player)->hp -= 30;  // writes, and marks the row changed
        world.remove<Velocity>(player);
        world.destroy(rock);
        // [/entities]
        CHECK_FALSE(world.alive(rock));
        CHECK_FALSE(world.has<Velocity>(player));
        CHECK(world.get<Health>(player)->hp == 50);
    }

    TEST_CASE("loops") {
        World world;
        for (int i = 0; i < 10; ++i)
            world.spawn(Position{}, Velocity{float(i), 0}, Health{i * 10});
        world.add<Frozen>(world.entity_at(3));
        // [loops]
        int weak = 0;
        world.each<Health>([&](const Health& h) { weak += h.hp < 50; });              // reads
        world.each_mut<Position, Velocity>(without<Frozen>, [](Position& p, Velocity& v) { // marks all it visits
            p.x += v.x * 0.05f;
        });
        world.each_row<Health>([](Row<Health> row) {                                   // marks what it writes
            if (row->hp < 20)
                row.mut().hp = 20;
        });
        // [/loops]
        CHECK(weak == 5);
        CHECK(world.get<Position>(world.entity_at(3))->x == 0);
        CHECK(world.get<Position>(world.entity_at(4))->x == doctest::Approx(0.2));
        CHECK(world.get<Health>(world.entity_at(0))->hp == 20);
    }

    TEST_CASE("optional types, filters, lazy handles") {
        World world;
        for (int i = 0; i < 10; ++i) {
            const Entity e = world.spawn(Position{}, Velocity{1, 0});
            if (i % 2)
                world.add<Health>(e, i);
            if (i % 5 == 0)
                world.add<Frozen>(e);
        }
        int alive = 0, unhurt = 0;
        Entity weakest;
        // [queries]
        world.each<Position, Maybe<Health>>([&](const Position&, const Health* h) { (h ? alive : unhurt) += 1; });
        world.each_mut<Position, const Velocity>(with<Health> && without<Frozen>, [](Position& p, const Velocity& v) {
            p.x += v.x; // marks Position; Velocity is const here, and stays unmarked
        });
        world.each<Health>([&, least = 1 << 30](LazyEntity e, const Health& h) mutable {
            if (h.hp < least) {
                least = h.hp;
                weakest = e; // the handle is looked up here only
            }
        });
        // [/queries]
        CHECK(alive == 5);
        CHECK(unhurt == 5);
        CHECK(weakest == world.entity_at(1));
        CHECK(world.get<Position>(world.entity_at(1))->x == 1);
        CHECK(world.get<Position>(world.entity_at(5))->x == 0);
    }

    TEST_CASE("blocks and row order") {
        World world;
        for (int i = 0; i < 10; ++i)
            world.spawn(Position{float(i), 0, 0});
        for (u32 i = 10; i > 0; --i)
            world.add<Velocity>(world.entity_at(i - 1), float(i), 0.f);
        std::size_t spans = 0;
        // [blocks]
        world.sort<Position>([](const Position& a, const Position& b) { return a.x > b.x; });
        world.sort_as<Position, Velocity>(); // same entities at the same row numbers, in the order of Position
        world.each_block_mut<Position, const Velocity>([&](std::span<Position> p, std::span<const Velocity> v) {
            ++spans;
            for (std::size_t i = 0; i < p.size(); ++i) // plain arrays: the compiler makes vector instructions of it
                p[i].x += v[i].x;
        });
        // [/blocks]
        CHECK(spans == 1);
        CHECK(world.get<Position>(world.entity_at(9))->x == 19);
        CHECK(world.find_pool<Position>()->owner(0) == 9);
    }

    TEST_CASE("change readers") {
        World world;
        const Entity gone = world.spawn(Position{});
        std::map<u64, float> index;
        // [readers]
        ChangeReader<Position> moved{world}; // what is there counts as changed
        const auto update_index = [&] {
            if (moved.take_resync())         // after a restore, or more removals than the reader kept
                index.clear();
            moved.each_removed([&](const Removal& removal) { index.erase(removal.entity.entity_id); });
            moved.each([&](Entity e, const Position& p) { index[e.entity_id] = p.x; });
        };
        update_index();
        world.destroy(gone);
        const Entity fresh = world.spawn(Position{7, 0, 0});
        world.clear_changes();               // the reader loses nothing by it
        update_index();
        // [/readers]
        CHECK(index == std::map<u64, float>{{fresh.entity_id, 7.f}});
    }

    TEST_CASE("parallel loops") {
        World world;
        for (int i = 0; i < 1000; ++i)
            world.spawn(Position{}, Velocity{1, 0});
        // [parallel]
        ExecutorHandle jobs = make_threads_executor(2);
        world.each_mut<Position, Velocity>(*jobs, [](Position& p, const Velocity& v) { p.x += v.x; });
        // [/parallel]
        float sum = 0;
        world.each<Position>([&](const Position& p) { sum += p.x; });
        CHECK(sum == 1000);
    }

    TEST_CASE("command queues") {
        World world;
        for (int i = 0; i < 1000; ++i)
            world.spawn(Position{float(i), 0, 0}, Health{i % 10});
        ExecutorHandle jobs = make_threads_executor(2);
        // [commands]
        CommandQueue queue(world);
        world.each_mut<Health, Position>(*jobs, queue.record([](Commands& commands, Entity e, Health& h, Position& p) {
            if (--h.hp > 0)
                return;
            commands.destroy(e);
            const Entity loot = commands.spawn(p);  // pending: good for other commands of this queue
            commands.add<Frozen>(loot);
        }));
        Commands commands = queue.commands();       // on the calling thread, after the loop's
        commands.spawn(Health{100});
        const CommandReport report = queue.apply(); // in row order, for any executor and number of workers
        // [/commands]
        CHECK(report.applied == 601);
        CHECK(report.dropped == 0);
        CHECK(world.find_pool<Frozen>()->size() == 200);
        CHECK(world.find_pool<Health>()->size() == 801);
    }

    TEST_CASE("prefabs") {
        World world;
        // [prefab]
        const Prefab soldier = Prefab::of(Position{}, Velocity{}, Health{120});
        Entity squad[8];
        world.instantiate_n(soldier, squad);
        // [/prefab]
        CHECK(world.entity_count() == 8);
        CHECK(world.get<Health>(squad[7])->hp == 120);
    }

    TEST_CASE("bulk") {
        World world;
        // [bulk]
        Entity rocks[100];
        world.spawn_n<Position, Frozen>(rocks, [](u32 i, Position& p, Frozen&) { p.x = float(i); });
        const std::vector<Health> hps(100, Health{7});
        world.spawn_columns<Health>(rocks, hps);
        const Entity copy = world.clone(rocks[99]); // all its components
        // [/bulk]
        CHECK(world.entity_count() == 201);
        CHECK(world.get<Health>(copy)->hp == 7);
    }

    TEST_CASE("hooks") {
        World world;
        // [hooks]
        world.on_add<Health>([](World&, Entity, Health& h) { h.hp += 10; });  // the value is in place
        world.on_remove<Health>([](World& w, Entity e, Health&) { w.remove<Velocity>(e); });
        const HookId hook = world.on_change<Health>([](World& w, Entity e, Health& h) {
            if (h.hp <= 0)
                w.destroy(e);                                                 // may change structure
        });
        const Entity e = world.spawn(Health{80}, Velocity{});
        world.patch<Health>(e, [](Health& h) { h.hp -= 90; });                // writes, marks, tells
        world.unhook(hook);
        // [/hooks]
        CHECK_FALSE(world.alive(e));
    }

    TEST_CASE("relations") {
        World world;
        // [relations]
        const Entity ship = world.spawn(Position{});
        const Entity cannon = world.spawn(ChildOf{ship}, Health{5});
        Prefab boat = Prefab::of(Health{80});
        boat.add_child(Prefab::of(Health{10})).add_child(Prefab::of(Frozen{}));    // a mast with a lantern
        Prefab gunboat = boat.clone();
        gunboat.child(0).set(Health{20});                                          // override of a nested prefab
        Entity fleet[10];
        world.instantiate_n<Health>(gunboat, fleet, [](u32 i, Health& h) { h.hp += int(i); });
        u32 parts = 0;
        world.each_descendant<ChildOf>(fleet[3], [&](Entity, u32 depth) { parts += depth; });
        const Entity twin = world.clone_tree(ship);
        world.destroy(ship);                                                       // and all below it
        // [/relations]
        CHECK(parts == 3);
        CHECK_FALSE(world.alive(cannon));
        CHECK(world.source_count<ChildOf>(twin) == 1);
        CHECK(world.get<Health>(fleet[9])->hp == 89);
    }

    TEST_CASE("resources") {
        World world;
        // [resources]
        struct Weather { float rain = 0; };
        world.resources().emplace<Weather>(0.2f);
        world.resources().mut<Weather>()->rain = 0.5f; // counts as a change
        u32 seen = 0;
        if (world.resources().version<Weather>() != seen)
            seen = world.resources().version<Weather>();
        // [/resources]
        CHECK(world.resources().get<Weather>()->rain == 0.5f);
        CHECK(seen == 2);
    }

    TEST_CASE("snapshots") {
        World world;
        const Entity e = world.spawn(Health{10});
        // [snapshot]
        const WorldSnapshot before = world.snapshot();
        const Entity later = world.spawn(Health{1});
        world.mut<Health>(e)->hp = 0;
        const Error error = world.restore(before);
        // [/snapshot]
        CHECK(error == Error::none);
        CHECK(world.get<Health>(e)->hp == 10);
        CHECK_FALSE(world.alive(later));
        CHECK(world.spawn(Health{1}) == later);
    }

    TEST_CASE("partial snapshots and memory") {
        World world;
        const Entity e = world.spawn(Position{1, 0, 0}, Health{10});
        // [partial]
        const PartialSnapshot predicted = world.snapshot_of<Position>(); // one type; the other goes on
        world.mut<Position>(e)->x = 2;
        world.mut<Health>(e)->hp = 5;
        const Error error = world.restore(predicted);
        const u64 bytes = world.memory_report().total; // what the world holds of its allocator
        // [/partial]
        CHECK(error == Error::none);
        CHECK(bytes > 0);
        CHECK(world.get<Position>(e)->x == 1);
        CHECK(world.get<Health>(e)->hp == 5);
    }

    TEST_CASE("destructions") {
        World world;
        const Entity wolf = world.spawn(Health{30});
        const std::vector<Entity> pack{wolf, world.create()};
        const auto is_known_alive = [&](u64 id) { return id == wolf.entity_id && world.alive(wolf); };
        // [ends]
        DestroyReader ends{world};
        std::map<u64, int> threat;           // by entity_id: no component of the world
        threat[wolf.entity_id] = 5;
        world.destroy_batch(pack);
        if (ends.take_resync())              // after a restore of a snapshot, or more ends than the reader kept
            std::erase_if(threat, [&](const auto& entry) { return !is_known_alive(entry.first); });
        ends.each([&](Entity e) { threat.erase(e.entity_id); });
        // [/ends]
        CHECK(threat.empty());
    }

    TEST_CASE("rollback") {
        World world;
        const Entity e = world.spawn(Position{0, 0, 0});
        // [rollback]
        std::vector<Entity> shots;
        RollbackRing ring(world, 16);                       // the last 16 frames; one ring a world
        for (u64 tick = 1; tick <= 3; ++tick) {
            world.mut<Position>(e)->x += 1;
            shots.push_back(world.spawn(Velocity{}));
            const Error saved = ring.save(tick);            // copies the runs of 64 rows that were written
            CHECK(saved == Error::none);
        }
        const Error back = ring.restore(1);                 // writes the runs that differ
        world.mut<Position>(e)->x += 2;                     // simulated anew, with what has arrived
        const bool same = world.spawn(Velocity{}) == shots[1]; // the same calls give the same handles
        const Error again = ring.save(2);                   // frames 2 and 3 of before are gone
        // [/rollback]
        CHECK(back == Error::none);
        CHECK(again == Error::none);
        CHECK(same);
        CHECK(world.get<Position>(e)->x == 3);
        CHECK_FALSE(world.alive(shots[2]));
        CHECK_FALSE(ring.holds(3));
    }
}
