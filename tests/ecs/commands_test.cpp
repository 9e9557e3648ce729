#include "support.hpp"
#include "throng/ecs.hpp"
#include <array>
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <string>
#include <vector>

using namespace throng;
using ecs_test::AssertFailed;
using ecs_test::Random;
using ecs_test::ThreadsForTest;
using ecs_test::ThrowingAsserts;

namespace {
struct Place {
    int x = 0, y = 0;
};
struct Health {
    int hp = 0;
};
struct Label {
    std::string text;
};
struct Burning {};
struct Link {
    Entity to;
    void map_entities(const EntityMap& map) { map(to); }
};
struct alignas(256) Wide {
    int value = 0;
};
struct Huge {
    std::array<char, 40000> bytes{};
};
struct Unique {
    std::unique_ptr<int> value;
};
/// Counts its living.
struct Counted {
    static inline int living = 0;
    int value;
    explicit Counted(int v) : value(v) { ++living; }
    Counted(Counted&& other) noexcept : value(other.value) { ++living; }
    Counted& operator=(Counted&&) noexcept = default;
    ~Counted() { --living; }
};

/// Everything that can be seen of a world: handles by slot, types, row order, values, change bits.
std::vector<u64> contents(const World& world) {
    std::vector<u64> out{world.entity_count(), world.last_entity_id()};
    for (u32 idx = 0; idx < world.entity_slots(); ++idx) {
        const Entity e = world.entity_at(idx);
        out.insert(out.end(), {e.entity_id, e.gen, world.signature(e).word(0)});
    }
    const auto rows = [&]<class T>(T*, auto value) {
        const Pool<T>* pool = world.find_pool<T>();
        for (u32 row = 0; pool && row < pool->size(); ++row)
            out.insert(out.end(), {pool->owner(row), u64(pool->changed(row)), u64(value((*pool)[row]))});
    };
    rows(static_cast<Place*>(nullptr), [](const Place& p) { return p.x * 31 + p.y; });
    rows(static_cast<Health*>(nullptr), [](const Health& h) { return h.hp; });
    rows(static_cast<Label*>(nullptr), [](const Label& l) { return std::hash<std::string>{}(l.text); });
    rows(static_cast<Burning*>(nullptr), [](const Burning&) { return 1; });
    rows(static_cast<Link*>(nullptr), [](const Link& l) { return l.to.entity_id; });
    return out;
}

/// A stand-in for a scheduler without any order: pieces of odd sizes, from the last to the first, dealt out to workers.
class BackwardsExecutor : public Executor {
public:
    explicit BackwardsExecutor(u32 workers) : workers_(workers) {}
    u32 worker_count() const override { return workers_; }
    void parallel_for(u32 count, u32 grain, RangeFn fn, void* context) override {
        u32 end = count;
        for (u32 piece = 0; end > 0; ++piece) {
            const u32 size = std::min(end, std::max<u32>(1, grain - piece % 3 * (grain / 3)));
            fn(context, end - size, end, (piece * 7 + 3) % workers_);
            end -= size;
        }
    }

private:
    u32 workers_;
};

/// A small game: some burn and lose health, the dead are destroyed and leave loot, some give birth, labels come and go.
void game_step(World& world, CommandQueue& queue, Executor* executor, const std::vector<Entity>& known, int step) {
    const auto body = [&, step](Commands& commands, u32 idx, Health& h) {
        const Entity self = world.entity_at(idx);
        h.hp -= 1 + int(idx % 3);
        if (h.hp <= 0) {
            commands.destroy(self);
            const Entity loot = commands.spawn(Place{int(idx), step});
            commands.add<Link>(commands.spawn(Health{30 + int(idx % 5)}, Link{loot}), Link{self}); // kept: it has one already
            commands.destroy(self);                                                                // twice
        } else if (idx % 4 == 0) {
            commands.add<Burning>(self);
            commands.set(self, Place{step, int(idx)});
            commands.set(known[idx % known.size()], Label{"by " + std::to_string(idx)}); // several write to one
        } else if (idx % 4 == 1) {
            commands.remove<Burning>(self);
            commands.add<Label>(self, std::to_string(idx));
        } else if (idx % 7 == 0) {
            commands.destroy(known[(idx * 13) % known.size()]); // possibly dead
            commands.set(known[(idx * 13) % known.size()], Health{1000});
        }
    };
    if (executor)
        world.each_mut<Health>(*executor, queue.record(body));
    else
        world.each_mut<Health>(queue.record(body));
    Commands late = queue.commands();
    late.spawn(Health{5 + step}, Label{"late"});
}

std::vector<u64> play(Executor* executor) {
    World world({.block_rows = 64});
    std::vector<Entity> known;
    for (int i = 0; i < 3000; ++i)
        known.push_back(world.spawn(Health{i % 17 + 1}));
    CommandQueue queue(world);
    std::vector<u64> seen;
    for (int step = 0; step < 8; ++step) {
        game_step(world, queue, executor, known, step);
        const CommandReport report = queue.apply();
        seen.insert(seen.end(), {report.applied, report.dropped, report.rounds});
        const std::vector<u64> now = contents(world);
        seen.insert(seen.end(), now.begin(), now.end());
    }
    return seen;
}
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("A2 commands recorded in a loop leave its rows alone, and apply in order of recording") {
        World world;
        std::vector<Entity> entities;
        for (int i = 0; i < 100; ++i)
            entities.push_back(world.spawn(Place{i, 0}));
        CommandQueue queue(world);
        int visits = 0;
        world.each_mut<Place>(queue.record([&](Commands& commands, Entity e, Place& p) {
            ++visits;
            if (p.x % 2)
                commands.remove<Place>(e);
            commands.add<Health>(e, p.x);
            commands.add<Health>(e, -1); // is there by then: without effect
            commands.set(e, Health{p.x * 2});
            commands.spawn(Place{1000 + p.x, 0});
        }));
        CHECK(visits == 100);
        CHECK(world.entity_count() == 100);
        CHECK(world.find_pool<Place>()->size() == 100);
        CHECK(world.find_pool<Health>() == nullptr);
        CHECK(queue.size() == 450);
        const CommandReport report = queue.apply();
        CHECK(report.applied == 450);
        CHECK(report.dropped == 0);
        CHECK(report.rounds == 1);
        CHECK(queue.empty());
        CHECK(world.entity_count() == 200);
        CHECK(world.find_pool<Place>()->size() == 150);
        for (int i = 0; i < 100; ++i) {
            CHECK(world.has<Place>(entities[u32(i)]) == (i % 2 == 0));
            CHECK(world.get<Health>(entities[u32(i)])->hp == i * 2);
            CHECK(world.get<Place>(world.entity_at(u32(100 + i)))->x == 1000 + i); // spawned in row order
        }
        CHECK(queue.apply().rounds == 0);
    }
    TEST_CASE("A2 the world after apply does not depend on the executor or the number of workers") {
        const std::vector<u64> expected = play(nullptr);
        CHECK(expected.size() > 20000);
        for (const u32 workers : {1u, 2u, 3u, 8u}) {
            ThreadsForTest threads(workers);
            CHECK(play(&threads) == expected);
            BackwardsExecutor backwards(workers);
            CHECK(play(&backwards) == expected);
        }
    }
    TEST_CASE("a loop of your own records by piece") {
        for (const u32 workers : {1u, 4u}) {
            World world;
            CommandQueue queue(world);
            BackwardsExecutor executor(workers);
            for (int loop = 0; loop < 2; ++loop) {
                queue.next_phase();
                for_ranges(executor, 500, 32, [&](u32 begin, u32 end, u32 worker) {
                    Commands commands = queue.commands(worker, begin);
                    for (u32 i = begin; i < end; ++i)
                        if (i % 3 != 0)
                            commands.spawn(Place{int(i), loop});
                });
            }
            queue.apply();
            REQUIRE(world.entity_count() == 666);
            int previous = -1;
            bool ordered = true;
            world.each<Place>([&](const Place& p) {
                ordered = ordered && p.y * 1000 + p.x > previous;
                previous = p.y * 1000 + p.x;
            });
            CHECK(ordered);
        }
    }
    TEST_CASE("two recorders with one order number are found") {
        World world;
        CommandQueue queue(world);
        queue.next_phase();
        queue.commands(0, 7).spawn(Place{});
        queue.commands(1, 7).spawn(Place{});
        const ThrowingAsserts asserts;
        CHECK_THROWS_AS(static_cast<void>(queue.apply()), AssertFailed);
        CHECK(queue.empty());
        CHECK_THROWS_AS(static_cast<void>(queue.commands(CommandQueue::workers_max, 0)), AssertFailed);
    }
    TEST_CASE("commands on the calling thread keep their order around loops") {
        World world;
        for (int i = 0; i < 10; ++i)
            world.spawn(Health{i});
        CommandQueue queue(world);
        Commands own = queue.commands();
        own.spawn(Place{1, 0});
        Commands other = queue.commands();
        other.spawn(Place{2, 0});
        own.spawn(Place{3, 0});
        ThreadsForTest threads(2);
        world.each_mut<Health>(threads, queue.record([](Commands& commands, const Health& h) { commands.spawn(Place{4, h.hp}); }));
        own.spawn(Place{5, 0});
        world.each<Health>(queue.record([](Commands& commands, const Health& h) { commands.spawn(Place{6, h.hp}); }));
        other.spawn(Place{7, 0});
        queue.apply();
        std::vector<int> order;
        world.each<Place>([&](const Place& p) { order.push_back(p.x); });
        std::vector<int> expected{1, 2, 3};
        expected.insert(expected.end(), 10, 4);
        expected.push_back(5);
        expected.insert(expected.end(), 10, 6);
        expected.push_back(7);
        CHECK(order == expected);
        own.spawn(Place{8, 0}); // a recorder may be used again
        CHECK(queue.apply().applied == 1);

        const ThrowingAsserts asserts;
        ThreadsForTest one(1);
        CHECK_THROWS_AS(world.each_mut<Health>(one, [&](Health&) { own.spawn(Place{}); }), AssertFailed);
    }
    TEST_CASE("bug 3: an old handle and its recycled slot in one queue do not mix") {
        World world;
        const Entity old_one = world.spawn(Place{1, 1});
        CommandQueue queue(world);
        Commands commands = queue.commands();
        commands.set(old_one, Health{1});
        commands.add<Label>(old_one, "old");
        world.destroy(old_one);
        const Entity reuser = world.spawn(Place{2, 2});
        REQUIRE(reuser.entity_idx == old_one.entity_idx);
        commands.add<Burning>(reuser);
        commands.remove<Place>(old_one);
        commands.destroy(old_one);
        const CommandReport report = queue.apply();
        CHECK(report.applied == 1);
        CHECK(report.dropped == 4);
        CHECK(world.signature(reuser).count() == 2);
        CHECK(world.has<Burning>(reuser));
        // inside the queue: destroyed, and its slot taken by a spawn of the same apply
        commands.destroy(reuser);
        const Entity next = commands.spawn(Health{3});
        commands.set(reuser, Health{99});
        CHECK(queue.apply().dropped == 1);
        const Entity made = queue.resolve(next);
        CHECK(made.entity_idx == reuser.entity_idx);
        CHECK(world.get<Health>(made)->hp == 3);
    }
    TEST_CASE("bug 4: two workers add the same component, one of them a tag as well") {
        for (const bool swapped : {false, true}) {
            World world;
            const Entity e = world.create();
            world.log_structure(component_id<Place>(), true);
            CommandQueue queue(world);
            queue.next_phase();
            queue.commands(0, swapped ? 1 : 0).add<Place>(e, 10, 0);
            Commands second = queue.commands(1, swapped ? 0 : 1);
            second.add<Place>(e, 20, 0);
            second.add<Burning>(e);
            CHECK(queue.apply().applied == 3);
            CHECK(world.get<Place>(e)->x == (swapped ? 20 : 10)); // the first in order
            CHECK(world.has<Burning>(e));
            CHECK(world.structure_log().size() == 1);
        }
    }
    TEST_CASE("pending handles: targets, inside values, and after the apply") {
        World world;
        const Entity old_one = world.spawn(Health{1});
        CommandQueue queue(world);
        Commands commands = queue.commands();
        const Entity a = commands.spawn(Health{5});
        const Entity b = commands.spawn(Link{a});
        commands.add<Link>(a, b);
        commands.set(old_one, Link{b});
        const Prefab prefab = Prefab::of(Place{3, 4});
        const Entity c = commands.instantiate(prefab);
        commands.add<Health>(c, 9);
        const Entity gone = commands.spawn(Health{6});
        commands.destroy(gone);
        commands.add<Place>(gone);
        const Entity empty = commands.spawn();
        CHECK(CommandQueue::is_pending(a));
        CHECK_FALSE(CommandQueue::is_pending(old_one));
        CHECK_FALSE(world.alive(a));
        CHECK_FALSE(queue.resolve(a));
        CHECK(queue.resolve(old_one) == old_one);
        const CommandReport report = queue.apply();
        CHECK(report.applied == 9);
        CHECK(report.dropped == 1);
        const Entity made_a = queue.resolve(a), made_b = queue.resolve(b);
        REQUIRE(world.alive(made_a));
        REQUIRE(world.alive(made_b));
        CHECK(world.get<Health>(made_a)->hp == 5);
        CHECK(world.get<Link>(made_a)->to == made_b);
        CHECK(world.get<Link>(made_b)->to == made_a);
        CHECK(world.get<Link>(old_one)->to == made_b);
        CHECK(world.get<Place>(queue.resolve(c))->y == 4);
        CHECK(world.get<Health>(queue.resolve(c))->hp == 9);
        CHECK_FALSE(world.alive(queue.resolve(gone)));
        CHECK(world.signature(queue.resolve(empty)).count() == 0);
        CHECK(world.alive(queue.resolve(empty)));
        // a later apply: the handles are of the past, also where new ones have their numbers
        commands.spawn(Health{7});
        commands.set(a, Health{70});
        CHECK(queue.apply().dropped == 1);
        CHECK_FALSE(queue.resolve(a));
        CHECK(world.get<Health>(made_a)->hp == 5);
    }
    TEST_CASE("values of any size, alignment and kind") {
        World world;
        const Entity e = world.create();
        CommandQueue queue(world);
        Commands commands = queue.commands();
        for (int i = 0; i < 3; ++i) {
            commands.set(e, Wide{i});
            commands.set(e, Huge{});
            commands.set(e, Burning{});
            const Entity spawned = commands.spawn(Wide{i}, Unique{std::make_unique<int>(i)}, Label{std::string(100, 'x')});
            commands.set(spawned, Unique{std::make_unique<int>(i + 10)});
        }
        CHECK(queue.apply().applied == 15);
        CHECK(world.get<Wide>(e)->value == 2);
        int sum = 0;
        world.each<Wide, Unique>([&](const Wide& w, const Unique& u) {
            CHECK(reinterpret_cast<std::uintptr_t>(&w) % 256 == 0);
            sum += *u.value;
        });
        CHECK(sum == 33);
        world.each<Label>([](const Label& l) { CHECK(l.text.size() == 100); });
    }
    TEST_CASE("bug 12: every value built is destroyed once, whatever becomes of its command") {
        REQUIRE(Counted::living == 0);
        {
            World world;
            const Entity e = world.create(), other = world.create(), dead = world.create();
            world.destroy(dead);
            CommandQueue queue(world);
            Commands commands = queue.commands();
            commands.add<Counted>(e, 1);
            commands.add<Counted>(e, 2);    // there already
            commands.add<Counted>(dead, 3); // dropped
            commands.set(other, Counted(4));
            commands.set(other, Counted(5));
            commands.spawn(Counted(6), Label{"x"});
            CHECK(Counted::living == 6);
            queue.apply();
            CHECK(Counted::living == 3);
            commands.add<Counted>(e, 7);
            queue.clear();
            CHECK(Counted::living == 3);
            CHECK(queue.empty());
            for (int i = 0; i < 1000; ++i)
                commands.spawn(Counted(i));
            queue.release_memory();
            CHECK(Counted::living == 3);
            Commands again = queue.commands();
            again.add<Counted>(e, 8); // the queue ends with it
        }
        CHECK(Counted::living == 0);
    }
    TEST_CASE("an exception while applying or recording leaves whole commands") {
        {
            World world;
            CommandQueue queue(world);
            Commands commands = queue.commands();
            commands.spawn(Counted(1));
            commands.call([](World&) { throw std::runtime_error("stop"); });
            commands.spawn(Counted(2));
            CHECK_THROWS_AS(static_cast<void>(queue.apply()), std::runtime_error);
            CHECK(world.entity_count() == 1);
            CHECK(Counted::living == 1);
            CHECK(queue.empty());
            // a constructor that throws records nothing
            struct Refuses {
                explicit Refuses(int) { throw std::runtime_error("no"); }
                Refuses(Refuses&&) noexcept = default;
            };
            const Entity e = world.create();
            commands.spawn(Counted(3));
            CHECK_THROWS_AS(commands.add<Refuses>(e, 1), std::runtime_error);
            commands.spawn(Counted(4));
            CHECK(queue.size() == 2);
            CHECK(queue.apply().applied == 2);
            // one in a loop leaves what was recorded before it
            CHECK_THROWS_AS(world.each<Counted>(queue.record([](Commands& c, Entity at, const Counted& counted) {
                if (counted.value == 4)
                    throw std::runtime_error("stop");
                c.destroy(at);
            })),
                            std::runtime_error);
            CHECK(queue.size() == 2);
            CHECK(queue.apply().applied == 2);
            CHECK(world.find_pool<Counted>()->size() == 1);
        }
        CHECK(Counted::living == 0);
    }
    TEST_CASE("an allocator that fails loses nothing but the command") {
        for (u64 fail = 0; fail < 12; ++fail) {
            ecs_test::CountingMemory memory;
            {
                World world({.allocator = memory.allocator(), .block_rows = 64});
                CommandQueue queue(world);
                memory.fail_at = memory.allocations + fail;
                try {
                    Commands commands = queue.commands();
                    for (int i = 0; i < 200; ++i)
                        commands.spawn(Counted(i), Label{std::string(50, 'x')}, Huge{});
                    static_cast<void>(queue.apply());
                } catch (const std::bad_alloc&) {
                }
                memory.fail_at = ~u64(0);
                queue.clear();
                const u32 before = world.entity_count();
                queue.commands().spawn(Counted(1));
                CHECK(queue.apply().applied == 1);
                CHECK(world.entity_count() == before + 1);
                CHECK(u32(Counted::living) == before + 1);
            }
            CHECK(memory.live_bytes == 0);
            CHECK(Counted::living == 0);
        }
    }
    TEST_CASE("call runs in its turn, and what it records follows") {
        World world;
        CommandQueue queue(world);
        Commands commands = queue.commands();
        const Entity e = commands.spawn(Health{1});
        commands.call([&](World& w, const CommandQueue& q) {
            CHECK(w.get<Health>(q.resolve(e))->hp == 1);
            w.mut<Health>(q.resolve(e))->hp = 2;
            Commands more = queue.commands();
            more.set(q.resolve(e), Health{4});
            const Entity next = more.spawn(Place{1, 1});
            more.call([&queue, next](World& inner) { CHECK(inner.has<Place>(queue.resolve(next))); });
        });
        commands.call([&](World& w) {
            CHECK(w.get<Health>(queue.resolve(e))->hp == 2);
            w.mut<Health>(queue.resolve(e))->hp = 3;
        });
        const CommandReport report = queue.apply();
        CHECK(report.rounds == 2);
        CHECK(report.applied == 6);
        CHECK(world.get<Health>(queue.resolve(e))->hp == 4);
        // one that never ends
        struct Again {
            CommandQueue* queue;
            void operator()(World&) const { queue->commands().call(Again{queue}); }
        };
        commands.call(Again{&queue});
        const ThrowingAsserts asserts;
        CHECK_THROWS_AS(static_cast<void>(queue.apply()), AssertFailed);
        CHECK(queue.empty());
        commands.call([&](World&) { static_cast<void>(queue.apply()); });
        CHECK_THROWS_AS(static_cast<void>(queue.apply()), AssertFailed);
        CHECK(queue.empty());
    }
    TEST_CASE("recording and applying allocate nothing in steady state") {
        ecs_test::CountingMemory memory;
        std::mutex mutex;
        struct Locked {
            Allocator inner;
            std::mutex& mutex;
        } locked{memory.allocator(), mutex};
        const Allocator allocator{[](void* context, std::size_t bytes, std::size_t alignment) {
                                      auto& self = *static_cast<Locked*>(context);
                                      const std::lock_guard lock(self.mutex);
                                      return self.inner.allocate(bytes, alignment);
                                  },
                                  [](void* context, void* block, std::size_t bytes, std::size_t alignment) {
                                      auto& self = *static_cast<Locked*>(context);
                                      const std::lock_guard lock(self.mutex);
                                      self.inner.free(block, bytes, alignment);
                                  },
                                  &locked};
        {
            World world({.allocator = allocator});
            for (int i = 0; i < 5000; ++i)
                world.spawn(Health{i});
            CommandQueue queue(world);
            ThreadsForTest threads(3);
            u64 settled = 0;
            for (int tick = 0; tick < 20; ++tick) {
                world.each_mut<Health>(threads, queue.record([](Commands& commands, Entity e, Health& h) {
                    commands.set(e, Place{h.hp, 0});
                    if (h.hp % 2) {
                        commands.destroy(e);
                        commands.spawn(Health{h.hp});
                    }
                }));
                CHECK(queue.apply().dropped == 0);
                if (tick == 3)
                    settled = memory.allocations;
            }
            CHECK(memory.allocations == settled);
            CHECK(queue.memory_bytes() > 5000 * 40);
        }
        CHECK(memory.live_bytes == 0);
    }
    TEST_CASE("a queue for worlds of another size") {
        BasicWorld<256> world;
        BasicCommandQueue<256> queue(world);
        const Entity e = queue.commands().spawn(Health{4});
        CHECK(queue.apply().applied == 1);
        world.each<Health>(queue.record([](BasicCommands<256>& commands, Entity at, const Health&) { commands.add<Place>(at, 1, 2); }));
        CHECK(queue.apply().applied == 1);
        CHECK(world.get<Place>(world.entity_at(0))->y == 2);
        CHECK_FALSE(queue.resolve(e)); // of an earlier apply
    }
}
