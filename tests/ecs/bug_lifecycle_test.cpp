// Life-cycle bugs that were reported against other entity systems, tried here. docs/architecture.md has the table.
#include "support.hpp"
#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <memory>
#include <string>
#include <vector>

using namespace throng;
using ecs_test::ThreadsForTest;

namespace {
struct Place {
    int x = 0;
};
struct Marked {};
template <int N>
struct Unused {
    int value = 0;
};
struct Held {
    Entity target;
};
/// Owns memory in two ways, and counts its lives.
struct Owning {
    std::string text = std::string(200, 'x');
    std::unique_ptr<int> number = std::make_unique<int>(7);
    static inline int alive = 0;
    Owning() { ++alive; }
    Owning(Owning&& other) noexcept : text(std::move(other.text)), number(std::move(other.number)) { ++alive; }
    Owning& operator=(Owning&& other) noexcept = default;
    ~Owning() { --alive; }
};
} // namespace

TEST_SUITE("ecs") {
    // skypjack/entt#853: the list of pools grew under a loop over it.
    TEST_CASE("bug: removing a type the world has never seen, while an entity ends") {
        World world({.block_rows = 64});
        const Entity e = world.spawn(Place{1});
        CommandQueue queue(world);
        Commands commands = queue.commands();
        commands.call([&](World& w) {
            CHECK_FALSE(w.remove<Unused<0>>(e));
            w.each<Unused<1>>([](const Unused<1>&) { FAIL("nobody has one"); });
            CHECK(w.add<Unused<2>>(e) != nullptr); // a pool is made here
            CHECK(w.destroy(e));
            CHECK_FALSE(w.remove<Unused<2>>(e));
        });
        CHECK(queue.apply().applied == 1);
        CHECK(world.entity_count() == 0);
        CHECK(world.pool<Unused<2>>().size() == 0);
    }

    // SanderMertens/flecs#1549: commands were grouped by slot, whatever lived there.
    TEST_CASE("bug: one queue with an old handle and a new one of the same slot") {
        World world;
        const Entity parent = world.spawn(Place{1}), child = world.spawn(Place{2}, Held{parent}), grandchild = world.spawn(Held{child});
        CommandQueue queue(world);
        Commands commands = queue.commands();
        commands.set(child, Place{20});
        commands.add<Marked>(child);
        commands.remove<Held>(child);
        commands.destroy(grandchild);
        CHECK(world.destroy(child));
        const Entity child2 = world.spawn(Place{3}, Held{parent});
        REQUIRE(child2.entity_idx == child.entity_idx);
        commands.destroy(child);
        const Entity e = commands.spawn(Place{4});
        commands.set(child2, Place{30});
        const CommandReport report = queue.apply();
        CHECK(report.dropped == 4); // what was for the old child
        CHECK(report.applied == 3);
        CHECK(world.alive(parent));
        CHECK(world.get<Place>(child2)->x == 30);
        CHECK(world.get<Held>(child2)->target == parent);
        CHECK_FALSE(world.has<Marked>(child2));
        CHECK(world.get<Place>(queue.resolve(e))->x == 4);
        CHECK_FALSE(world.alive(grandchild));
        CHECK(world.entity_count() == 3);
    }

    TEST_CASE("bug: one queue with an old handle and a new one of the same slot, in a hierarchy, with a hook that removes") {
        for (const bool hook_records : {false, true}) {
            World world;
            CommandQueue queue(world);
            u32 hooked = 0;
            world.on_remove<Place>([&](World& w, Entity e, Place&) {
                ++hooked;
                if (hook_records) // for a handle that is dead when its turn comes
                    queue.commands().remove<Marked>(e);
                else
                    w.remove<Marked>(e);
            });
            const Entity parent = world.spawn(Place{1}), child = world.spawn(Place{2}, Marked{}, ChildOf{parent});
            const Entity grandchild = world.spawn(Place{3}, ChildOf{child}), idle = world.spawn(Place{9}, Marked{});
            Commands commands = queue.commands();
            commands.set(child, Place{20});
            commands.remove<ChildOf>(child);
            commands.remove<Place>(child);
            commands.add<ChildOf>(idle, child);
            commands.set(grandchild, Place{30});
            CHECK(world.destroy(child)); // at once, and the grandchild with it
            CHECK(hooked == 2);
            CHECK_FALSE(world.alive(grandchild));
            Entity child2 = world.spawn(Place{4}, Marked{}, ChildOf{parent}), other = world.spawn(Place{5}, Marked{});
            if (child2.entity_idx != child.entity_idx) {
                std::swap(child2, other);
                CHECK(world.relate<ChildOf>(child2, parent) == Error::none);
                CHECK(world.remove<ChildOf>(other));
            }
            REQUIRE(child2.entity_idx == child.entity_idx);
            REQUIRE(other.entity_idx == grandchild.entity_idx);
            const int x = world.get<Place>(child2)->x;
            const Entity e = commands.spawn(ChildOf{child2});
            commands.add<Place>(e, 6);
            commands.destroy(child);
            commands.destroy(grandchild);
            commands.remove<Place>(other); // its hook removes Marked
            const CommandReport report = queue.apply();
            CHECK(hooked == 4); // idle's, which ends as a child of the dead, and other's
            CHECK(report.dropped == 6 + (hook_records ? 3 : 0));
            CHECK(report.applied == 4 + (hook_records ? 1 : 0));
            CHECK(world.alive(parent));
            CHECK(world.target<ChildOf>(child2) == parent);
            CHECK(world.get<Place>(child2)->x == x);
            CHECK(world.has<Marked>(child2));
            CHECK(world.target<ChildOf>(queue.resolve(e)) == child2);
            CHECK(world.get<Place>(queue.resolve(e))->x == 6);
            CHECK_FALSE(world.has<Place>(other));
            CHECK_FALSE(world.has<Marked>(other));
            CHECK_FALSE(world.alive(idle));
            CHECK(world.entity_count() == 4);
        }
    }

    // SanderMertens/flecs#1507: what the second queue had beside the component was lost.
    TEST_CASE("bug: two workers add the same component, one a tag beside it") {
        for (const bool swapped : {false, true}) {
            World world;
            world.log_structure(component_id<Place>(), true);
            const Entity e = world.create();
            CommandQueue queue(world);
            Commands first = queue.commands(swapped ? 1 : 0, 0), second = queue.commands(swapped ? 0 : 1, 64);
            second.add<Place>(e, 2);
            second.add<Marked>(e);
            first.add<Place>(e, 1);
            const CommandReport report = queue.apply();
            CHECK(report.applied == 3);
            CHECK(world.get<Place>(e)->x == 1); // the first of the order is kept, whoever recorded it
            CHECK(world.has<Marked>(e));
            CHECK(world.structure_log().size() == 1);
        }
    }

    // flecs#1952, bevy#9378: commands for an entity that an earlier command of the same queue ends.
    TEST_CASE("bug: commands that come after the end of their target") {
        for (const u32 workers : {1u, 4u}) {
            World world({.block_rows = 64});
            std::vector<Entity> parents(300), children(300);
            CHECK(world.spawn_n<Place>(parents, [](u32 i, Place& p) { p.x = int(i); }));
            CHECK(world.spawn_n<Held>(children, [&](u32 i, Held& h) { h.target = parents[i]; }));
            CommandQueue queue(world);
            ThreadsForTest threads(workers);
            world.each<Place>(threads, queue.record([](Commands& commands, Entity e, const Place& p) {
                if (p.x % 3 == 0)
                    commands.destroy(e);
                commands.set(e, Place{-1});
                commands.add<Marked>(e);
            }));
            world.each<Held>(threads, queue.record([](Commands& commands, Entity e, const Held& h) {
                commands.set(h.target, Held{e}); // two thirds still live
            }));
            const CommandReport report = queue.apply();
            CHECK(report.dropped == 3 * 100);
            CHECK(report.applied == 100 + 3 * 200);
            u32 wrong = 0;
            for (u32 i = 0; i < 300; ++i) {
                const bool lives = i % 3 != 0;
                wrong += world.alive(parents[i]) != lives || world.has<Marked>(parents[i]) != lives;
                wrong += lives && world.get<Held>(parents[i])->target != children[i];
                wrong += !world.alive(world.get<Held>(children[i])->target) == lives; // a handle to the dead stays dead
            }
            CHECK(wrong == 0);
        }
    }

    TEST_CASE("bug: a new parent that ends in the same queue") {
        struct Seen {
            std::vector<u64> order, world;
            bool operator==(const Seen&) const = default;
        };
        const auto play = [](Executor* executor, bool parent_first) {
            Seen seen;
            World world({.block_rows = 64});
            std::vector<Entity> parents(300), children(300);
            CHECK(world.spawn_n<Place>(parents, [](u32 i, Place& p) { p.x = int(i); }));
            CHECK(world.spawn_n<Unused<5>>(children, [](u32 i, Unused<5>& u) { u.value = int(i); }));
            for (u32 i = 0; i < 300; i += 2)
                world.add<Marked>(children[i]);
            world.on_remove<Marked>([&](World& w, Entity e) {
                seen.order.push_back(e.entity_id);
                w.remove<Unused<5>>(e);
            });
            CommandQueue queue(world);
            const auto body = [&](Commands& commands, Entity parent, const Place& p) {
                const Entity child = children[u32(p.x)];
                const bool ends = p.x % 3 == 0;
                if (ends && parent_first)
                    commands.destroy(parent);
                commands.set(child, ChildOf{parent});
                commands.add<Unused<6>>(parent, p.x);
                commands.add<Marked>(child);
                if (ends && !parent_first)
                    commands.destroy(parent);
            };
            if (executor)
                world.each<Place>(*executor, queue.record(body));
            else
                world.each<Place>(queue.record(body));
            const CommandReport report = queue.apply();
            // The child was there when its parent was set, and ends with that: what comes after finds nobody.
            CHECK(report.applied == 200 * 3 + 100 * (parent_first ? 2 : 4));
            CHECK(report.dropped == 100 * (parent_first ? 2 : 0));
            CHECK(report.rounds == 1);
            CHECK(seen.order.size() == (parent_first ? 50 : 100)); // those that had it
            u32 wrong = 0;
            for (u32 i = 0; i < 300; ++i) {
                const bool lives = i % 3 != 0;
                wrong += world.alive(parents[i]) != lives || world.alive(children[i]) != lives || world.has<Marked>(children[i]) != lives;
                wrong += world.has<Unused<5>>(children[i]) != lives || world.has<Unused<6>>(parents[i]) != lives;
                wrong += world.target<ChildOf>(children[i]) != (lives ? parents[i] : Entity{});
                wrong += world.source_count<ChildOf>(parents[i]) != u32(lives);
            }
            world.each<ChildOf>([&](const ChildOf& c) { wrong += !world.alive(c.target); });
            CHECK(wrong == 0);
            CHECK(world.entity_count() == 400);
            for (u32 slot = 0; slot < world.entity_slots(); ++slot)
                seen.world.insert(seen.world.end(), {world.entity_at(slot).entity_id, world.entity_at(slot).gen});
            for (u32 row = 0; row < world.pool<ChildOf>().size(); ++row)
                seen.world.push_back(world.pool<ChildOf>().owner(row));
            return seen;
        };
        for (const bool parent_first : {false, true}) {
            const Seen expected = play(nullptr, parent_first);
            for (const u32 workers : {1u, 2u, 8u}) {
                ThreadsForTest threads(workers);
                CHECK((play(&threads, parent_first) == expected));
            }
        }
    }

    // gaia-ecs 3522bb87, Arch#173: the entity that filled the hole was looked for where it had been.
    TEST_CASE("bug: additions and removals in bulk, and an end between them") {
        World world({.block_rows = 64});
        std::vector<Entity> all(1000);
        CHECK(world.spawn_n<Place>(all, [](u32 i, Place& p) { p.x = int(i); }));
        u32 wrong = 0, expected = 1000;
        /// Each that lives is where its slot says, once in each pool, with its values; nobody else is anywhere.
        const auto check = [&](u32 numbered) {
            u32 alive = 0;
            const Pool<Place>& places = world.pool<Place>();
            const Pool<Unused<3>>& numbers = world.pool<Unused<3>>();
            for (u32 k = 0; k < 1000; ++k) {
                const Entity e = all[k];
                const Place* const p = world.get<Place>(e);
                const Unused<3>* const u = world.get<Unused<3>>(e);
                wrong += (p != nullptr) != world.alive(e) || (!p && u);
                if (!p)
                    continue;
                ++alive;
                const u32 row = world.dense_index(e.entity_idx, component_id<Place>());
                wrong += world.entity_at(e.entity_idx) != e || p->x != int(k) || places.owner(row) != e.entity_idx || &places[row] != p;
                if (u) {
                    const u32 at = world.dense_index(e.entity_idx, component_id<Unused<3>>());
                    wrong += u->value != int(e.entity_id) || numbers.owner(at) != e.entity_idx || &numbers[at] != u;
                }
            }
            wrong += alive != expected || places.size() != expected || numbers.size() != numbered || world.entity_count() != expected;
        };
        check(0);
        for (u32 i = 8; i < 1000; ++i) {
            if (i % 3 != 0)
                continue;
            for (const Entity e : all)
                world.add<Unused<3>>(e, int(e.entity_id));
            check(expected);
            if (i % 9 == 0) {
                for (const Entity e : all)
                    wrong += world.remove<Unused<3>>(e) != world.alive(e);
                check(0);
            }
            wrong += !world.destroy(all[i]);
            --expected;
            check(i % 9 == 0 ? 0 : expected);
        }
        CHECK(wrong == 0);
        CHECK(expected == 669);
    }

    // bevy_replicon 0.34.3: the destructor of the destination ran on raw memory, or a value was moved twice.
    TEST_CASE("bug: recorded values that own memory") {
        REQUIRE(Owning::alive == 0);
        {
            World world({.block_rows = 64});
            CommandQueue queue(world);
            std::vector<Entity> all(100);
            for (Entity& e : all)
                e = world.create();
            for (u32 round = 0; round < 4; ++round) {
                Commands commands = queue.commands();
                for (u32 i = 0; i < 100; ++i) {
                    commands.add<Owning>(all[i]);
                    commands.set(all[i], Owning{});
                    if (i % 2)
                        commands.remove<Owning>(all[i]);
                    commands.spawn(Owning{}, Place{1});
                }
                for (u32 i = round; i < 100; i += 7) // dead by the apply
                    world.destroy(all[i]);
                if (round == 2)
                    queue.clear();
                queue.apply();
                u32 owned = 0;
                world.each<Owning>([&](const Owning& o) { owned += o.number && *o.number == 7 && o.text.size() == 200; });
                CHECK(Owning::alive == int(owned));
                CHECK(owned == world.pool<Owning>().size());
            }
            queue.commands().spawn(Owning{}); // never applied
        }
        CHECK(Owning::alive == 0);
    }

    // flecs#1774, #2128: indices to memory that was given back. Here blocks stay until the world ends, and are used again.
    TEST_CASE("bug: nearly everything ends, and comes again") {
        ecs_test::CountingMemory memory;
        World world({.allocator = memory.allocator(), .block_rows = 64});
        std::vector<Entity> kept;
        u64 peak = 0;
        for (int round = 0; round < 3; ++round) {
            std::vector<Entity> all(5000);
            CHECK(world.spawn_n<Place>(all, [](u32 i, Place& p) { p.x = int(i); }));
            for (u32 i = 0; i < 5000; ++i) {
                if (i % 2)
                    world.add<Unused<4>>(all[i], int(i));
                if (i % 5 == 0)
                    world.add<Marked>(all[i]);
            }
            u32 seen = 0;
            world.each<Place, Unused<4>>(without<Marked>, [&](const Place& p, const Unused<4>& u) { seen += p.x == u.value; });
            CHECK(seen == 2000 + u32(kept.size()) * 2 / 5);
            for (const Entity e : kept)
                CHECK(world.get<Place>(e) != nullptr);
            kept.insert(kept.end(), all.begin() + 1000, all.begin() + 1010);
            all.erase(all.begin() + 1000, all.begin() + 1010);
            CHECK(world.destroy_batch(all) == 4990);
            if (round == 0)
                peak = memory.live_bytes;
        }
        CHECK(world.entity_count() == 30);
        CHECK(memory.live_bytes < peak + peak / 50); // the 30 that were kept
    }
}
