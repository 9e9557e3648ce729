#include "components.hpp"
#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace throng;
using ecs_test::AssertFailed;
using ecs_test::Hp;
using ecs_test::Name;
using ecs_test::ThrowingAsserts;

namespace {
struct Never {
    int value = 0;
};
struct Next {
    Entity entity;
};

/// Ids in this order, whichever test of the program comes first.
const bool ids_in_order = (static_cast<void>(component_id<Hp>()), component_id<Hp>() < component_id<Name>());

/// Writes down what happens.
struct Diary {
    std::vector<std::string> lines;
    void watch(World& world) {
        world.on_add<Hp>([this](World&, Entity e, Hp& hp) { note("+hp", e, std::to_string(hp.value)); });
        world.on_change<Hp>([this](World&, Entity e, Hp& hp) { note("=hp", e, std::to_string(hp.value)); });
        world.on_remove<Hp>([this](World&, Entity e, Hp& hp) { note("-hp", e, std::to_string(hp.value)); });
        world.on_add<Name>([this](World&, Entity e, Name& name) { note("+name", e, name.text); });
        world.on_remove<Name>([this](World& w, Entity e) { note("-name", e, w.get<Name>(e)->text); });
        world.on_destroy([this](World& w, Entity e) { note("end", e, w.alive(e) ? "alive" : "dead"); });
    }
    void note(const char* what, Entity e, const std::string& value) {
        lines.push_back(std::string(what) + " " + std::to_string(e.entity_id) + " " + value);
    }
    std::vector<std::string> take() { return std::exchange(lines, {}); }
};
using Lines = std::vector<std::string>;

/// A hook of a destruction touches a type without a pool, in a world with this many pools.
template <int Pools>
struct Existing {
    int value = 0;
};
template <int Pools>
struct Unseen {
    int value = 0;
};
template <int Pools>
void touch_unseen() {
    using Wide = BasicWorld<256>; // ids of its own
    Wide world({.block_rows = 64});
    const Entity e = world.create();
    const auto add = [&]<int... Ns>(std::integer_sequence<int, Ns...>) {
        (world.template add<Existing<Ns>>(e, Ns), ...);
    };
    add(std::make_integer_sequence<int, Pools>());
    u32 pools = 0, later_hooks = 0;
    for (u32 id = 0; id < 256; ++id)
        pools += world.pool_of(ComponentId(id)) != nullptr;
    CHECK(pools == Pools);
    world.template on_remove<Existing<0>>([](Wide& w, Entity at) {
        CHECK_FALSE(w.template remove<Unseen<Pools>>(at));
        CHECK(w.template add<Unseen<Pools>>(at, 1) == nullptr);
        CHECK_FALSE(w.template has<Unseen<Pools>>(at));
    });
    if constexpr (Pools > 1)
        world.template on_remove<Existing<Pools - 1>>(
            [&](Wide& w, Entity at, Existing<Pools - 1>& last) { later_hooks += last.value == Pools - 1 && w.alive(at); });
    CHECK(world.destroy(e));
    CHECK_FALSE(world.alive(e));
    CHECK(later_hooks == u32(Pools > 1));
    CHECK(world.template pool<Unseen<Pools>>().size() == 0);
    CHECK(world.entity_count() == 0);
}
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("a destruction for which memory is missing changes nothing, and can be tried again") {
        ecs_test::CountingMemory memory;
        World world({.allocator = memory.allocator()});
        world.log_structure(component_id<Hp>(), true);
        u32 calls = 0;
        world.on_destroy([&](World&, Entity) { ++calls; });
        std::vector<Entity> roots, children;
        for (int i = 0; i < 100; ++i)
            roots.push_back(world.spawn(Hp{i}, Name{"root"}));
        for (int i = 0; i < 200; ++i)
            children.push_back(world.spawn(ChildOf{roots[std::size_t(i) / 2]}, Hp{i}));
        world.clear_structure_log();
        const auto fails_until_done = [&](auto&& change) {
            u32 failures = 0;
            for (u64 more = 0;; ++more) {
                memory.fail_at = memory.allocations + more;
                try {
                    change();
                    memory.fail_at = ~u64(0);
                    return failures;
                } catch (const std::bad_alloc&) {
                    ++failures;
                }
                memory.fail_at = ~u64(0);
                CHECK(world.entity_count() == roots.size() + children.size());
                CHECK(world.structure_log().empty());
                u32 wrong = 0;
                for (const Entity root : roots)
                    wrong += world.source_count<ChildOf>(root) != 2 || !world.add<Never>(root) || !world.remove<Never>(root);
                for (std::size_t i = 0; i < children.size(); ++i) // and none is about to end
                    wrong += world.target<ChildOf>(children[i]) != roots[i / 2] || !world.add<Never>(children[i]) ||
                             !world.remove<Never>(children[i]);
                CHECK(wrong == 0);
            }
        };
        u32 destroyed = 0;
        // for the list of those that end, what they take along, the log, and scratch
        CHECK(fails_until_done([&] { destroyed = world.destroy_batch(roots); }) >= 4);
        CHECK(destroyed == roots.size());
        CHECK(world.entity_count() == 0);
        CHECK(world.structure_log().size() == roots.size() + children.size());
        CHECK(calls > roots.size() + children.size());

        // one by one: of them the log alone needs memory, now and then
        const Entity root = world.spawn(Name{"root"});
        children.clear();
        for (int i = 0; i < 1000; ++i)
            children.push_back(world.spawn(ChildOf{root}, Hp{i}));
        world.destroy(children[0]);
        u32 failures = 0;
        for (u32 i = 1; i < 1000; ++i) {
            memory.fail_at = memory.allocations;
            try {
                world.destroy(children[i]);
            } catch (const std::bad_alloc&) {
                ++failures;
                CHECK(world.target<ChildOf>(children[i]) == root);
                memory.fail_at = ~u64(0);
                CHECK(world.add<Name>(children[i], "goes on") != nullptr);
                CHECK(world.destroy(children[i]));
            }
            memory.fail_at = ~u64(0);
            CHECK(world.source_count<ChildOf>(root) == 999 - i);
        }
        CHECK(failures > 0);
    }
    TEST_CASE("a batch inside a loop over a type of one of its entities is refused whole, with hooks and without") {
        for (const bool hooks : {false, true}) {
            CAPTURE(hooks);
            World world;
            u32 ends = 0;
            if (hooks)
                world.on_destroy([&](World&, Entity) { ++ends; });
            const Entity looped = world.spawn(Hp{1});
            const Entity free[] = {world.spawn(Name{"a"}), world.spawn(Name{"b"})};
            const Entity batch[] = {free[0], looped, free[1]};
            world.each<Hp>([&](const Hp&) {
                const ThrowingAsserts asserts;
                CHECK_THROWS_AS(world.destroy_batch(batch), AssertFailed);
                CHECK(world.entity_count() == 3);
                CHECK(world.add<Next>(free[0]) != nullptr); // about nobody's end has been decided
                CHECK(world.remove<Next>(free[0]));
                CHECK(world.destroy_batch({free, 1}) == 1);
            });
            CHECK(world.destroy_batch(batch) == 2);
            CHECK(ends == (hooks ? 3 : 0));
            CHECK(world.entity_count() == 0);
        }
    }
    TEST_CASE("hooks run for every way in and out, with the values in place") {
        World world;
        Diary diary;
        diary.watch(world);
        CHECK(ids_in_order);
        const Entity a = world.spawn(Name{"a"}, Hp{1});
        CHECK(diary.take() == Lines{"+hp 1 1", "+name 1 a"}); // by id, when both are there
        CHECK(world.add<Hp>(a, 5)->value == 1);
        CHECK(diary.take().empty()); // there already
        world.set(a, Hp{2});
        world.patch<Hp>(a, [](Hp& hp) { ++hp.value; });
        world.mut<Hp>(a)->value = 9; // not told
        CHECK(diary.take() == Lines{"=hp 1 2", "=hp 1 3"});
        world.remove<Hp>(a);
        world.set(a, Hp{4});
        CHECK(diary.take() == Lines{"-hp 1 9", "+hp 1 4"});
        world.destroy(a);
        CHECK(diary.take() == Lines{"end 1 alive", "-hp 1 4", "-name 1 a"});
        CHECK_FALSE(world.destroy(a));
        CHECK(diary.take().empty());

        const Entity b = world.instantiate(Prefab::of(Hp{6}));
        const Entity c = world.clone(b);
        Entity more[2];
        world.spawn_n<Hp>(more, [](u32 i, Hp& hp) { hp.value = int(i) + 10; });
        const Hp column[1] = {{12}};
        Entity last[1];
        world.spawn_columns<Hp>(last, column);
        const Entity d = world.create();
        CHECK(static_cast<Hp*>(world.add_erased(d, component_id<Hp>()))->value == 0);
        world.remove_erased(d, component_id<Hp>());
        CHECK(diary.take() == Lines{"+hp 2 6", "+hp 3 6", "+hp 4 10", "+hp 5 11", "+hp 6 12", "+hp 7 0", "-hp 7 0"});
        const Entity doomed[] = {b, c, b, a};
        CHECK(world.destroy_batch(doomed) == 2);
        CHECK(diary.take() == Lines{"end 2 alive", "-hp 2 6", "end 3 alive", "-hp 3 6"});
        // a restore, and the end of the world, are silent
        const WorldSnapshot snapshot = world.snapshot();
        world.destroy(d);
        diary.take();
        CHECK(world.restore(snapshot) == Error::none);
        CHECK(diary.take().empty());
    }
    TEST_CASE("bug 7: a hook that writes has the last word, in every path") {
        World world;
        world.on_add<Hp>([](World&, Entity, Hp& hp) { hp.value = 100; });
        CHECK(world.add<Hp>(world.create(), 5)->value == 100);
        CHECK(world.get<Hp>(world.spawn(Hp{5}))->value == 100);
        CHECK(world.set(world.create(), Hp{5})->value == 100);
        CHECK(world.get<Hp>(world.instantiate(Prefab::of(Hp{5})))->value == 100);
        CommandQueue queue(world);
        queue.commands().add<Hp>(queue.commands().spawn(Name{"x"}), 5);
        CHECK(queue.apply().applied == 2);
        world.each<Hp, Name>([](const Hp& hp, const Name&) { CHECK(hp.value == 100); });
    }
    TEST_CASE("bug 1: a hook of a destruction touches a type that the world has never seen") {
        World world;
        int names_gone = 0;
        world.on_remove<Hp>([](World& w, Entity e) {
            CHECK_FALSE(w.remove<Never>(e));
            CHECK(w.add<Never>(e, 1) == nullptr); // the dying take nothing
            w.spawn(Never{2});
        });
        world.on_remove<Name>([&](World&, Entity) { ++names_gone; });
        const Entity e = world.spawn(Hp{1}, Name{"n"});
        CHECK(world.destroy(e));
        CHECK_FALSE(world.alive(e));
        CHECK(names_gone == 1);
        CHECK(world.find_pool<Never>()->size() == 1);
        CHECK(world.entity_count() == 1);
        touch_unseen<1>();
        touch_unseen<7>();
        touch_unseen<8>();
        touch_unseen<9>();
        touch_unseen<64>();
    }
    TEST_CASE("hooks may destroy, remove and add, also what they are called for") {
        World world;
        const Entity bystander = world.spawn(Name{"b"});
        int hp_removed = 0;
        const HookId kill = world.on_add<Hp>([&](World& w, Entity e, Hp& hp) {
            if (hp.value == 13)
                w.destroy(e);
            else if (hp.value == 14)
                w.remove<Hp>(e);
        });
        world.on_add<Hp>([&](World& w, Entity e) { CHECK(w.get<Hp>(e)->value < 13); }); // not called for the dead
        world.on_remove<Hp>([&](World& w, Entity e) {
            ++hp_removed;
            CHECK_FALSE(w.remove<Hp>(e)); // under way
            if (w.alive(bystander))
                w.destroy(bystander);
        });
        const Entity e = world.create();
        CHECK(world.add<Hp>(e, 13) == nullptr);
        CHECK_FALSE(world.alive(e));
        CHECK_FALSE(world.alive(bystander));
        CHECK_FALSE(world.alive(world.spawn(Hp{13}, Name{"x"})));
        const Entity f = world.spawn(Hp{14}, Name{"y"});
        CHECK(world.alive(f));
        CHECK_FALSE(world.has<Hp>(f));
        CHECK(hp_removed == 3);
        CHECK(world.unhook(kill));
        CHECK_FALSE(world.unhook(kill));
        CHECK(world.add<Hp>(f, 12) != nullptr);
        // destroyed by the hook of its own removal
        world.on_remove<Hp>([](World& w, Entity at, Hp& hp) {
            if (hp.value == 12)
                CHECK(w.destroy(at));
        });
        CHECK(world.remove<Hp>(f));
        CHECK_FALSE(world.alive(f));
        CHECK(world.entity_count() == 0);
        CHECK(world.find_pool<Hp>()->size() == 0);
        CHECK(world.find_pool<Name>()->size() == 0);
    }
    TEST_CASE("a chain of destructions of any length does not nest") {
        World world;
        world.on_remove<Next>([](World& w, Entity, Next& next) { w.destroy(next.entity); });
        Entity previous;
        for (int i = 0; i < 100000; ++i)
            previous = world.spawn(Next{previous});
        const Entity other = world.spawn(Hp{1});
        world.log_structure(component_id<Next>(), true);
        CHECK(world.destroy(previous));
        CHECK(world.entity_count() == 1);
        CHECK(world.alive(other));
        CHECK(world.structure_log().size() == 100000);
    }
    TEST_CASE("hooks that never end are stopped") {
        World world;
        world.on_add<Hp>([](World& w, Entity, Hp& hp) { w.spawn(Hp{hp.value + 1}); });
        const ThrowingAsserts asserts;
        CHECK_THROWS_AS(world.spawn(Hp{0}), AssertFailed);
        CHECK(world.find_pool<Hp>()->size() == World::hook_depth_max + 1);
        CHECK_THROWS_AS(world.spawn(Hp{0}), AssertFailed); // the depth is counted down again
    }
    TEST_CASE("a throwing hook of a destruction leaves the entities alive") {
        World world;
        bool angry = true;
        world.on_remove<Hp>([&](World&, Entity) {
            if (angry)
                throw std::runtime_error("no");
        });
        const Entity e = world.spawn(Hp{1});
        CHECK_THROWS_AS(world.destroy(e), std::runtime_error);
        CHECK(world.alive(e));
        CHECK(world.add<Name>(e, "still") != nullptr);
        angry = false;
        CHECK(world.destroy(e));
        CHECK(world.entity_count() == 0);
    }
    TEST_CASE("hooking and unhooking inside a hook wait for its end") {
        ecs_test::CountingMemory memory;
        {
            World world({.allocator = memory.allocator()});
            int first = 0, second = 0, late = 0;
            HookId later = 0;
            world.on_add<Hp>([&](World& w, Entity) {
                if (first++ == 0) {
                    w.on_add<Hp>([&late](World&, Entity) { ++late; });
                    CHECK(w.unhook(later));
                }
            });
            later = world.on_add<Hp>([&](World&, Entity) { ++second; });
            world.spawn(Hp{1});
            CHECK(first == 1);
            CHECK(second == 0);
            CHECK(late == 0);
            world.spawn(Hp{1});
            CHECK(first == 2);
            CHECK(second == 0);
            CHECK(late == 1);
            const std::string text(100, 'x'); // a closure that owns memory
            world.on_remove<Name>([text](World&, Entity, Name& name) { CHECK(name.text != text); });
            world.remove<Name>(world.spawn(Name{"n"}));
        }
        CHECK(memory.live_bytes == 0);
    }
    TEST_CASE("no snapshot and no restore inside a hook") {
        World world;
        const WorldSnapshot before = world.snapshot();
        int refused = 0;
        world.on_remove<Hp>([&](World& w, Entity) {
            const ThrowingAsserts asserts;
            WorldSnapshot out;
            CHECK_THROWS_AS(static_cast<void>(w.snapshot_into(out)), AssertFailed);
            CHECK_THROWS_AS(static_cast<void>(w.restore(before)), AssertFailed);
            ++refused;
        });
        world.destroy(world.spawn(Hp{1}));
        CHECK(refused == 1);
        CHECK(world.restore(before) == Error::none);
    }
    TEST_CASE("hooks inside loops obey the rules of loops") {
        World world;
        for (int i = 0; i < 10; ++i)
            world.spawn(Name{"n"});
        int added = 0;
        world.on_add<Hp>([&](World& w, Entity e) {
            ++added;
            const ThrowingAsserts asserts;
            CHECK_THROWS_AS(w.remove<Name>(e), AssertFailed);
        });
        world.each<Name>([&](Entity e, const Name&) { world.add<Hp>(e, 1); });
        CHECK(added == 10);
        CHECK(world.find_pool<Name>()->size() == 10);
    }
    TEST_CASE("what is written after the addition is announced later, once, and not if it is gone") {
        World world;
        Diary diary;
        diary.watch(world);
        const Entity a = world.create(), b = world.create(), c = world.create();
        for (const Entity e : {a, b, c})
            static_cast<Hp*>(world.add_unannounced(e, component_id<Hp>()))->value = int(e.entity_id) * 10;
        world.changed_unannounced(a, component_id<Hp>()); // new anyway
        CHECK(diary.take().empty());
        world.remove<Hp>(b);
        world.destroy(c);
        CHECK(diary.take() == Lines{"end 3 alive"}); // nobody had heard of the components
        world.announce();
        CHECK(diary.take() == Lines{"+hp 1 10"});
        world.changed_unannounced(a, component_id<Hp>());
        world.changed_unannounced(a, component_id<Hp>());
        world.changed_unannounced(a, component_id<Never>());
        world.announce();
        world.announce();
        CHECK(diary.take() == Lines{"=hp 1 10"});
        world.changed_unannounced(a, component_id<Hp>());
        world.destroy(a);
        world.announce();
        CHECK(diary.take() == Lines{"end 1 alive", "-hp 1 10"});
    }
    TEST_CASE("of many hooks that wait each is found again, and none twice") {
        World world;
        std::vector<u32> changes, additions;
        world.on_change<Hp>([&](World&, Entity e) { ++changes[e.entity_idx]; });
        world.on_add<Name>([&](World&, Entity e) { ++additions[e.entity_idx]; });
        constexpr u32 count = 5000;
        std::vector<Entity> entities;
        for (u32 i = 0; i < count; ++i)
            entities.push_back(world.spawn(Hp{int(i)}));
        for (u32 round = 0; round < 3; ++round) { // the second finds the memory of the first
            changes.assign(count, 0);
            additions.assign(count, 0);
            for (u32 twice = 0; twice < 2; ++twice)
                for (const Entity e : entities)
                    world.changed_unannounced(e, component_id<Hp>());
            for (u32 i = 0; i < count; i += 2)
                world.add_unannounced(entities[i], component_id<Name>());
            for (u32 i = 0; i < count; i += 4)
                world.remove<Name>(entities[i]);
            for (u32 i = 0; i < count; i += 8) // new once more
                world.add_unannounced(entities[i], component_id<Name>());
            world.announce();
            u32 wrong = 0;
            for (u32 i = 0; i < count; ++i)
                wrong += changes[i] != 1 || additions[i] != u32(i % 2 == 0 && (i % 4 != 0 || i % 8 == 0));
            CHECK(wrong == 0);
            for (const Entity e : entities)
                world.remove<Name>(e);
        }
    }
    TEST_CASE("commands count as applied whatever hooks make of them, and as dropped where the world took nothing") {
        World world;
        world.on_add<Hp>([](World& w, Entity e, Hp& hp) {
            if (hp.value == 13)
                w.destroy(e);
            else if (hp.value == 14)
                w.remove<Hp>(e);
        });
        world.on_change<Hp>([](World& w, Entity e, Hp& hp) {
            if (hp.value == 13)
                w.destroy(e);
        });
        const Entity a = world.create(), b = world.create(), c = world.spawn(Hp{1}), dead = world.create();
        world.destroy(dead);
        CommandQueue queue(world);
        Commands commands = queue.commands();
        commands.add<Hp>(a, 13);  // ends it
        commands.add<Hp>(a, 1);   // dropped
        commands.set(b, Hp{14});  // taken off again
        commands.add<Hp>(b, 2);   // and comes back
        commands.add<Hp>(b, 3);   // is there
        commands.set(c, Hp{13});  // ends it
        commands.set(c, Hp{2});   // dropped
        commands.set(dead, Hp{}); // dropped
        commands.spawn(Hp{13});
        CommandReport report = queue.apply();
        CHECK(report.applied == 6);
        CHECK(report.dropped == 3);
        CHECK(world.entity_count() == 1);
        CHECK(world.get<Hp>(b)->value == 2);
        // what is being destroyed takes no components
        world.on_destroy([&](World&, Entity e) {
            CommandQueue inner(world);
            inner.commands().add<Name>(e, "late");
            inner.commands().add<Hp>(e, 4);
            inner.commands().set(e, Hp{5});
            report = inner.apply();
        });
        const Entity bare = world.create();
        CHECK(world.destroy(bare));
        CHECK(report.applied == 0);
        CHECK(report.dropped == 3);
        CHECK(world.destroy(b)); // has Hp: one is kept, one overwritten
        CHECK(report.applied == 2);
        CHECK(report.dropped == 1);
    }
    TEST_CASE("commands run hooks when they apply; partial restores run none") {
        World world;
        Diary diary;
        const Entity a = world.spawn(Hp{1}), b = world.spawn(Hp{2});
        diary.watch(world);
        CommandQueue queue(world);
        queue.commands().set(a, Hp{3});
        queue.commands().remove<Hp>(a);
        queue.commands().destroy(b);
        CHECK(diary.take().empty());
        CHECK(queue.apply().applied == 3);
        CHECK(diary.take() == Lines{"=hp 1 3", "-hp 1 3", "end 2 alive", "-hp 2 2"});
        world.add<Hp>(a, 4);
        const PartialSnapshot part = world.snapshot_of<Hp>();
        world.set(a, Hp{5});
        diary.take();
        CHECK(world.restore(part) == Error::none);
        CHECK(world.get<Hp>(a)->value == 4);
        CHECK(diary.take().empty());
    }
    TEST_CASE("hooks of batches: all entities are in place, then each is told of, in order") {
        World world;
        std::vector<u32> seen;
        world.on_add<Hp>([&](World& w, Entity e) {
            seen.push_back(e.entity_idx);
            if (e.entity_idx == 1) { // ends a later one of the same batch
                CHECK(w.entity_count() == 4);
                CHECK(w.destroy(w.entity_at(2)));
            }
        });
        Entity batch[4];
        CHECK(world.instantiate_n(Prefab::of(Hp{1}, Name{"n"}), batch));
        CHECK(seen == std::vector<u32>{0, 1, 3});
        CHECK_FALSE(world.alive(batch[2]));
        CHECK(world.find_pool<Name>()->size() == 3);
    }
}
