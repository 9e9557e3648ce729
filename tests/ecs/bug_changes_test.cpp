// Bugs of change detection that were reported against other entity systems, tried here. docs/architecture.md has the table.
#include "support.hpp"
#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <stdexcept>
#include <vector>

using namespace throng;

namespace {
struct Place {
    int x = 0;
};
struct Bag {
    std::vector<int> items;
};
template <class T>
u32 changes(ChangeReader<T>& reader) {
    return reader.each([](const T&) {});
}
} // namespace

TEST_SUITE("ecs") {
    // bevy#68, #442, #1471: a reader that ran before its writer saw the first write and then none.
    TEST_CASE("bug: a reader before its writer, after it, and one that skips ticks") {
        World world;
        world.spawn(Place{});
        ChangeReader<Place> before(world), after(world), seldom(world);
        for (int tick = 1; tick <= 5; ++tick) {
            CHECK(changes(before) == 1); // of the last tick; of the spawn in the first
            world.each_mut<Place>([](Place& p) { ++p.x; });
            CHECK(changes(after) == 1);
            if (tick == 1 || tick == 5)
                CHECK(changes(seldom) == 1); // once, however many writes
        }
        CHECK(changes(before) == 1);
        CHECK(changes(before) == 0);
        CHECK(changes(after) == 0);
        CHECK(changes(seldom) == 0);
    }

    // flecs#1652: the write was noted when the loop went on to the next chunk.
    TEST_CASE("bug: leaving a loop that writes") {
        World world({.block_rows = 64});
        std::vector<Entity> all(200);
        CHECK(world.spawn_n<Place>(all, [](u32, Place&) {}));
        ChangeReader<Place> reader(world);
        CHECK(changes(reader) == 200);
        const auto leave_at = [&](u32 slot, auto&& loop) {
            try {
                loop([&](u32 idx) {
                    if (idx == slot)
                        throw std::runtime_error("enough");
                });
            } catch (const std::runtime_error&) {
            }
        };
        for (const u32 slot : {0u, 70u, 199u}) {
            leave_at(all[slot].entity_idx, [&](auto&& stop) {
                world.each_mut<Place>([&](u32 idx, Place& p) {
                    ++p.x;
                    stop(idx);
                });
            });
            CHECK(reader.changed(all[slot]));
            CHECK(changes(reader) >= slot + 1); // a false mark is allowed, a missing one is not
            leave_at(all[slot].entity_idx, [&](auto&& stop) {
                world.each_row<Place>([&](Row<Place> row) {
                    if (row.entity_idx() == all[slot].entity_idx)
                        row.mut().x = 1;
                    stop(row.entity_idx());
                });
            });
            CHECK(reader.changed(all[slot]));
            CHECK(changes(reader) == 1);
        }
        CHECK_FALSE(world.pool<Place>().iterating()); // the loops have let go
        CHECK(world.destroy(all[0]));
    }

    // bevy_replicon#22: "acknowledged tick 0" counted what was there at tick 0 as known.
    TEST_CASE("bug: what was there before anybody read") {
        World world;
        const Entity e = world.spawn(Place{4});
        world.clear_changes();
        ChangeReader<Place> all(world), later(world, {.present_changed = false});
        CHECK(all.changed(e));
        CHECK(changes(all) == 1);
        CHECK(changes(later) == 0);
        world.mut<Place>(e)->x = 5;
        CHECK(changes(later) == 1);
    }

    // lightyear#1001: what happened in ticks between two sends was lost.
    TEST_CASE("bug: a reader of every third tick misses nothing") {
        World world;
        ChangeReader<Place> reader(world);
        std::vector<Entity> made;
        std::vector<u32> changed, removed;
        for (int tick = 1; tick <= 9; ++tick) {
            made.push_back(world.spawn(Place{tick}));
            if (tick == 2 || tick == 4 || tick == 5)
                world.mut<Place>(made[0])->x += 10;
            if (tick == 5)
                world.remove<Place>(made[1]);
            if (tick == 7)
                world.destroy(made[2]);
            world.clear_changes(); // another consumer, every tick
            if (tick % 3 == 0) {
                removed.push_back(reader.each_removed([](const Removal&) {}));
                changed.push_back(changes(reader));
            }
        }
        CHECK(changed == std::vector<u32>{3, 4, 3}); // with the first one again in the second
        CHECK(removed == std::vector<u32>{0, 1, 1});
        CHECK(world.get<Place>(made[0])->x == 31);
    }

    // NGO#3005: a list inside a component was changed in place. Asking for a mutable row is what marks, whatever is written.
    TEST_CASE("bug: change of what is inside a component") {
        World world;
        const Entity e = world.spawn(Bag{{1, 2, 3, 4}});
        ChangeReader<Bag> reader(world);
        CHECK(changes(reader) == 1);
        CHECK(world.get<Bag>(e)->items[3] == 4);
        world.each<Bag>([](const Bag& bag) { CHECK(bag.items.size() == 4); });
        CHECK(changes(reader) == 0);
        world.mut<Bag>(e)->items[3] = 5;
        CHECK(changes(reader) == 1);
        CHECK(changes(reader) == 0);
    }

    // Mirror#11: one dirty bit for all, cleared by whoever was served first.
    TEST_CASE("bug: a change is not over before everybody has seen it") {
        World world;
        const Entity e = world.spawn(Place{5});
        ChangeReader<Place> a(world), b(world);
        CHECK(changes(a) + changes(b) == 2);
        world.mut<Place>(e)->x = 6;
        ChangeReader<Place> c(world); // comes in the same tick
        CHECK(changes(c) == 1);
        CHECK(changes(a) == 1);
        world.clear_changes();
        CHECK(changes(b) == 1);
        for (int i = 0; i < 1000; ++i) // nobody looks
            world.mut<Place>(e)->x = i;
        const u64 bytes = world.memory_report().change_readers;
        CHECK(changes(a) == 1);
        CHECK(changes(b) == 1);
        CHECK(world.memory_report().change_readers == bytes);
    }
}
