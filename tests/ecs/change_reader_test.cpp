#include "support.hpp"
#include "throng/ecs.hpp"
#include <algorithm>
#include <doctest/doctest.h>
#include <map>
#include <set>
#include <vector>

using namespace throng;
using ecs_test::Random;

namespace {
struct Place {
    int x, y;
};
struct Hp {
    int value;
};

template <class T>
std::multiset<u64> read(ChangeReader<T>& reader) {
    std::multiset<u64> ids;
    reader.each([&](Entity e, const T&) { ids.insert(e.entity_id); });
    return ids;
}
template <class T>
std::vector<std::pair<u64, bool>> removals(ChangeReader<T>& reader) {
    std::vector<std::pair<u64, bool>> out;
    reader.each_removed([&](const Removal& removal) { out.emplace_back(removal.entity.entity_id, removal.destroyed); });
    return out;
}
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("a reader that falls behind while it reads removals gives none that it lost") {
        World world;
        ChangeReader<Place> reader(world, {.removals_max = 4, .present_changed = false});
        std::vector<Entity> entities;
        for (int i = 0; i < 20; ++i)
            entities.push_back(world.spawn(Place{i, i}));
        reader.skip();
        for (u32 i = 0; i < 4; ++i)
            world.destroy(entities[i]);
        std::vector<u64> given;
        const auto removes = [&](u32 first, u32 count) {
            return [&, first, count](const Removal& removal) {
                given.push_back(removal.entity.entity_id);
                for (u32 i = first; i < first + count && given.size() == 1; ++i)
                    world.destroy(entities[i]);
            };
        };
        CHECK(reader.each_removed(removes(4, 2)) == 1); // two more: the second has been overwritten
        CHECK(given == std::vector<u64>{entities[0].entity_id});
        CHECK(reader.take_resync());
        CHECK(reader.each_removed(removes(0, 0)) == 0);
        given.clear();
        for (u32 i = 6; i < 9; ++i)
            world.destroy(entities[i]);
        CHECK(reader.each_removed(removes(9, 2)) == 5); // as many as there is room for
        CHECK(given.back() == entities[10].entity_id);
        CHECK_FALSE(reader.take_resync());
        given.clear();
        world.destroy(entities[11]);
        const auto saved = world.snapshot();
        world.destroy(entities[12]);
        CHECK(reader.each_removed([&](const Removal&) { CHECK(world.restore(saved) == Error::none); }) == 1);
        CHECK(reader.take_resync()); // all is new, and nothing more is given
        CHECK_FALSE(reader.take_resync());
    }
    TEST_CASE("each reader sees each change once, whoever else reads or clears") {
        World world;
        const Entity a = world.spawn(Place{1, 1});
        const Entity b = world.spawn(Place{2, 2});
        ChangeReader<Place> early(world), late(world, {.present_changed = false});
        CHECK(read(early) == std::multiset<u64>{a.entity_id, b.entity_id});
        CHECK(read(late).empty());
        CHECK(read(early).empty());
        world.mut<Place>(b)->x = 3;
        CHECK(early.changed(b));
        CHECK_FALSE(early.changed(a));
        CHECK(read(early) == std::multiset<u64>{b.entity_id});
        world.mut<Place>(b)->x = 4; // again, after one of them read
        CHECK(read(early) == std::multiset<u64>{b.entity_id});
        CHECK(read(late) == std::multiset<u64>{b.entity_id}); // once, though it was written twice
        world.mut<Place>(a);
        world.clear_changes();
        world.mut<Place>(b);
        world.pool<Place>().clear_changes();
        CHECK(read(late) == std::multiset<u64>{a.entity_id, b.entity_id});
        early.skip();
        CHECK(read(early).empty());
        CHECK_FALSE(late.changed(Entity{}));
    }
    TEST_CASE("readers take nothing from the consumer of the change words") {
        World world;
        const Entity a = world.spawn(Place{1, 1});
        const Entity b = world.spawn(Place{2, 2});
        world.clear_changes();
        const auto consume = [&] { // what the server does
            world.sync_changes(component_id<Place>());
            std::set<u64> ids;
            PoolBase& pool = world.pool<Place>();
            for (u32 i = 0; i < pool.size(); ++i)
                if (pool.changed(i))
                    ids.insert(world.entity_at(pool.owner(i)).entity_id);
            for (u32 block = 0; block < pool.block_count(); ++block) {
                std::fill_n(pool.change_words(block), pool.block_rows() / 64, u64(0));
                pool.end_changes(block);
            }
            return ids;
        };
        {
            ChangeReader<Place> reader(world, {.present_changed = false});
            world.mut<Place>(a);
            CHECK(read(reader).size() == 1);
            world.mut<Place>(b);
            CHECK(consume() == std::set<u64>{a.entity_id, b.entity_id});
            CHECK(consume().empty());
            CHECK(read(reader) == std::multiset<u64>{b.entity_id});
            CHECK(consume().empty());
            world.mut<Place>(a);
            CHECK(read(reader).size() == 1);
            const WorldSnapshot snapshot = world.snapshot(); // has the mark that the reader took
            CHECK(snapshot.world()->find_pool<Place>()->changed(0));
        }
        CHECK(consume() == std::set<u64>{a.entity_id}); // also after the last reader has ended
    }
    TEST_CASE("removals and destructions, in order, also of what came back") {
        World world;
        ChangeReader<Place> reader(world), other(world);
        ChangeReader<Hp> hp(world);
        const Entity a = world.spawn(Place{1, 1}, Hp{1});
        const Entity b = world.spawn(Place{2, 2});
        const Entity c = world.spawn(Hp{3});
        read(reader);
        world.remove<Place>(a);
        world.destroy(b);
        world.destroy(c);
        world.add<Place>(a, 5, 5);
        CHECK(removals(reader) == std::vector<std::pair<u64, bool>>{{a.entity_id, false}, {b.entity_id, true}});
        CHECK(read(reader) == std::multiset<u64>{a.entity_id});
        CHECK(removals(reader).empty());
        CHECK(removals(hp) == std::vector<std::pair<u64, bool>>{{c.entity_id, true}});
        const Entity both[] = {a, a, world.spawn(Place{7, 7})};
        world.destroy_batch(both);
        CHECK(removals(reader) == std::vector<std::pair<u64, bool>>{{a.entity_id, true}, {both[2].entity_id, true}});
        CHECK(read(reader).empty()); // made and gone in between
        CHECK(removals(other).size() == 4);
        CHECK(removals(hp) == std::vector<std::pair<u64, bool>>{{a.entity_id, true}});
    }
    TEST_CASE("a slot that changes hands shows its new entity only") {
        World world;
        ChangeReader<Place> reader(world);
        const Entity old = world.spawn(Place{1, 1});
        world.clear_changes(); // the reader has it in its set
        world.destroy(old);
        const Entity bare = world.create();
        REQUIRE(bare.entity_idx == old.entity_idx);
        CHECK(read(reader).empty());
        world.add<Place>(bare, 2, 2);
        CHECK(read(reader) == std::multiset<u64>{bare.entity_id});
    }
    TEST_CASE("a removal log that is too short is reported, and the reader starts over") {
        World world;
        ChangeReader<Place> reader(world, {.removals_max = 4}), deep(world, {.removals_max = 16});
        std::vector<Entity> entities;
        for (int i = 0; i < 40; ++i)
            entities.push_back(world.spawn(Place{i, i}));
        read(reader);
        read(deep);
        for (int i = 0; i < 16; ++i)
            world.destroy(entities[u32(i)]);
        CHECK_FALSE(deep.take_resync());
        CHECK(removals(deep).size() == 16); // the ring is as large as the largest that was asked for
        world.destroy(entities[16]);
        CHECK(removals(reader).empty());
        CHECK(reader.take_resync());
        CHECK_FALSE(reader.take_resync());
        CHECK(read(reader).size() == 23);
        CHECK(removals(deep).size() == 1);
        world.remove<Place>(entities[17]);
        CHECK(removals(reader) == std::vector<std::pair<u64, bool>>{{entities[17].entity_id, false}});
    }
    TEST_CASE("a restore makes readers start over, whatever they had read") {
        World world;
        ChangeReader<Place> reader(world);
        const Entity a = world.spawn(Place{1, 1});
        const WorldSnapshot snapshot = world.snapshot();
        for (int i = 0; i < 5000; ++i)
            world.spawn(Place{i, i});
        read(reader);
        CHECK(world.restore(snapshot) == Error::none);
        CHECK(reader.take_resync());
        CHECK(read(reader) == std::multiset<u64>{a.entity_id});
        CHECK(removals(reader).empty());
        CHECK_FALSE(reader.take_resync());
    }
    TEST_CASE("a reader's loop takes other types, and a body that throws loses nothing") {
        World world;
        std::vector<Entity> entities;
        for (int i = 0; i < 300; ++i) {
            entities.push_back(world.spawn(Place{i, i}));
            if (i % 3 == 0)
                world.add<Hp>(entities.back(), i);
        }
        ChangeReader<Place> reader(world);
        ChangeReader<Place> second(world);
        u32 with_hp = 0, wrong = 0;
        CHECK(reader.each<Hp>([&](const Place& place, const Hp& hp) { ++with_hp, wrong += place.x != hp.value; }) == 100);
        CHECK(with_hp == 100);
        CHECK(second.each<Maybe<Hp>>([&](u32 idx, const Place&, const Hp* hp) { wrong += hp != world.get<Hp>(world.entity_at(idx)); }) ==
              300);
        CHECK(wrong == 0);
        CHECK(reader.each([](const Place&) {}) == 0);
        for (const Entity& e : entities)
            world.mut<Place>(e);
        u32 seen = 0;
        CHECK_THROWS_AS(reader.each([&](const Place&) {
            if (++seen == 100)
                throw std::runtime_error("stop");
        }),
                        std::runtime_error);
        CHECK(reader.each([](LazyEntity, const Place&) {}) == 200);
        CHECK(reader.each([](const Place&) {}) == 0);
        CHECK(world.remove<Place>(entities[0])); // nothing is left locked
    }
    TEST_CASE("random operations: three readers of different pace against an oracle") {
        for (const u32 block_rows : {64u, 1024u}) {
            World world({.block_rows = block_rows});
            struct Model {
                ChangeReader<Place> reader;
                std::set<u64> changed;
                std::vector<std::pair<u64, bool>> removed;
            };
            std::vector<Model> models;
            for (int i = 0; i < 3; ++i)
                models.push_back({ChangeReader<Place>(world, {.removals_max = 8192}), {}, {}});
            ecs_test::ThreadsForTest executor(3);
            Random random{77};
            std::vector<Entity> entities;
            const auto change = [&](Entity e) {
                for (Model& model : models)
                    model.changed.insert(e.entity_id);
            };
            const auto removed = [&](Entity e, bool destroyed) {
                for (Model& model : models) {
                    model.changed.erase(e.entity_id);
                    model.removed.emplace_back(e.entity_id, destroyed);
                }
            };
            u32 wrong = 0;
            for (int step = 0; step < 30000; ++step) {
                const u32 action = random.below(1000);
                const u32 k = entities.empty() ? 0 : random.below(u32(entities.size()));
                if (action < 350 || entities.empty()) {
                    entities.push_back(world.spawn(Place{step, step}));
                    change(entities.back());
                } else if (action < 550) {
                    if (world.has<Place>(entities[k]))
                        removed(entities[k], true);
                    world.destroy(entities[k]);
                    entities[k] = entities.back();
                    entities.pop_back();
                } else if (action < 650) {
                    if (world.remove<Place>(entities[k]))
                        removed(entities[k], false);
                } else if (action < 750) {
                    if (!world.has<Place>(entities[k])) {
                        world.add<Place>(entities[k], 1, 1);
                        change(entities[k]);
                    }
                } else if (action < 900) {
                    if (Place* place = world.mut<Place>(entities[k])) {
                        place->x = step;
                        change(entities[k]);
                    }
                } else if (action < 902) {
                    world.each_mut<Place>(executor, [](Place& place) { ++place.y; });
                    world.each<Place>([&](Entity e, const Place&) { change(e); });
                } else if (action < 904) {
                    world.sort<Place>([](const Place& a, const Place& b) { return a.x < b.x; });
                } else if (action < 910) {
                    world.clear_changes();
                } else {
                    const u32 i = random.below(100) < 80 ? 0 : random.below(100) < 95 ? 1 : 2;
                    Model& model = models[i];
                    wrong += model.reader.take_resync();
                    wrong += removals(model.reader) != model.removed;
                    const std::multiset<u64> ids = read(model.reader);
                    wrong += ids != std::multiset<u64>(model.changed.begin(), model.changed.end());
                    model.removed.clear();
                    model.changed.clear();
                }
            }
            CHECK(wrong == 0);
        }
    }
    TEST_CASE("readers take memory when the world grows, and give it back") {
        ecs_test::CountingMemory memory;
        {
            World world({.allocator = memory.allocator()});
            std::vector<Entity> entities;
            for (int i = 0; i < 10000; ++i)
                entities.push_back(world.spawn(Place{i, i}));
            const std::size_t without = memory.live_bytes;
            {
                ChangeReader<Place> reader(world), other(world);
                const auto round = [&] {
                    for (const Entity& e : entities)
                        world.mut<Place>(e);
                    world.destroy(entities.back());
                    entities.back() = world.spawn(Place{1, 1});
                    read(reader);
                    removals(reader);
                };
                round();
                const u64 warm = memory.allocations;
                for (int i = 0; i < 3; ++i)
                    round();
                CHECK(memory.allocations == warm);
                CHECK(memory.live_bytes < without + 120000);
            }
            CHECK(memory.live_bytes == without);
        }
        CHECK(memory.live_bytes == 0);
    }
    // Reported of other systems (bevy #68, #442, #1471): a reader that runs before its writer sees the first change and then none.
    TEST_CASE("a reader before or after its writer, or not every tick, sees each write once") {
        for (const bool reader_first : {true, false})
            for (const bool skips : {false, true}) {
                World world;
                const Entity e = world.spawn(Place{0, 0});
                ChangeReader<Place> reader(world, {.present_changed = false});
                u32 seen = 0;
                for (int tick = 1; tick <= 5; ++tick) {
                    const bool reads = !skips || tick == 1 || tick == 5;
                    if (reader_first && reads)
                        seen += u32(read(reader).size());
                    world.mut<Place>(e)->x = tick;
                    if (!reader_first && reads)
                        seen += u32(read(reader).size());
                    world.clear_changes();
                }
                if (reader_first)
                    seen += u32(read(reader).size());
                CHECK(seen == (skips ? 2 : 5));
                CHECK(read(reader).empty());
            }
    }
    // flecs #1652: a loop left early hides its write. lightyear #1001: what happens between two sends is lost.
    TEST_CASE("what a loop wrote before it was left, and what happened between two reads, is seen") {
        World world({.block_rows = 64});
        std::vector<Entity> entities;
        for (int i = 0; i < 200; ++i)
            entities.push_back(world.spawn(Place{i, i}));
        ChangeReader<Place> reader(world, {.present_changed = false});
        CHECK_THROWS_AS(world.each_mut<Place>([](Place& place) {
            place.x = -1;
            throw std::runtime_error("stop");
        }),
                        std::runtime_error);
        CHECK(read(reader).count(entities[0].entity_id) == 1);
        Entity made[9];
        for (int tick = 1; tick <= 9; ++tick) {
            made[tick - 1] = world.spawn(Place{tick, 0});
            if (tick % 3 == 2)
                world.mut<Place>(made[0])->y = tick;
            if (tick == 5)
                world.remove<Place>(made[1]);
            if (tick == 7)
                world.destroy(made[2]);
            world.clear_changes();
        }
        CHECK(removals(reader) == std::vector<std::pair<u64, bool>>{{made[1].entity_id, false}, {made[2].entity_id, true}});
        CHECK(read(reader).size() == 7);
    }
    // bevy #1471, #3956, #8605: a wrapped tick makes old look new and new look old. Here nothing is compared with a time: a reader
    // that reads after any number of changes and clears finds what changed, and nothing else.
    TEST_CASE("a reader that sleeps through any number of changes misses nothing and invents nothing") {
        World world;
        const Entity still = world.spawn(Place{0, 0});
        const Entity busy = world.spawn(Place{0, 0});
        ChangeReader<Place> sleeper(world, {.removals_max = 8, .present_changed = false}), awake(world);
        for (int i = 0; i < 100000; ++i) {
            world.mut<Place>(busy)->x = i;
            if (i % 3 == 0)
                awake.each([](const Place&) {});
            if (i % 7 == 0)
                world.clear_changes();
        }
        CHECK(read(sleeper) == std::multiset<u64>{busy.entity_id});
        CHECK_FALSE(sleeper.changed(still));
        CHECK_FALSE(sleeper.take_resync());
    }
}
