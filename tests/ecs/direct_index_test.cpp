// Components with a direct index behave as their twins without one.
#include "support.hpp"
#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace throng;

namespace {
template <bool Direct>
struct Team {
    int number = 0;
};
template <bool Direct>
struct Title {
    std::string text = {};
};
struct Other {
    u64 value = 0;
};
} // namespace
template <>
inline constexpr bool throng::direct_index<Team<true>> = true;
template <>
inline constexpr bool throng::direct_index<Title<true>> = true;

namespace {
/// What differs between the twins, over all handles ever made.
u32 differences(const World& world, const std::vector<Entity>& handles) {
    u32 wrong = 0;
    for (const Entity e : handles) {
        const auto* plain = world.get<Team<false>>(e);
        const auto* direct = world.get<Team<true>>(e);
        wrong += world.has<Team<false>>(e) != world.has<Team<true>>(e);
        wrong += (plain == nullptr) != (direct == nullptr) || (plain && plain->number != direct->number);
        const auto* plain_title = world.get<Title<false>>(e);
        const auto* direct_title = world.get<Title<true>>(e);
        wrong += (plain_title == nullptr) != (direct_title == nullptr) || (plain_title && plain_title->text != direct_title->text);
    }
    u32 plain_sum = 0, direct_sum = 0;
    world.each<Team<false>, Title<false>>(
        [&](u32 idx, const Team<false>& t, const Title<false>& n) { plain_sum += idx * 31 + u32(t.number) + u32(n.text.size()); });
    world.each<Team<true>, Title<true>>(
        [&](u32 idx, const Team<true>& t, const Title<true>& n) { direct_sum += idx * 31 + u32(t.number) + u32(n.text.size()); });
    return wrong + (plain_sum != direct_sum);
}
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("direct index: random operations, compared with types without one") {
        World world({.block_rows = 64});
        WorldSnapshot snapshot;
        PartialSnapshot partial;
        std::size_t known = 0; // handles of the snapshot; later ones end with a restore (their ids are given again, to others)
        std::vector<Entity> handles;
        ecs_test::Random random{17};
        u32 wrong = 0;
        for (int step = 0; step < 20'000; ++step) {
            const Entity e = handles.empty() ? Entity{} : handles[random.below(u32(handles.size()))];
            switch (random.below(12)) {
            case 0:
                handles.push_back(world.spawn(Team<false>{step}, Team<true>{step}));
                break;
            case 1:
                handles.push_back(world.spawn(Title<true>{std::to_string(step)}, Title<false>{std::to_string(step)}, Other{}));
                break;
            case 2: {
                const Prefab prefab = Prefab::of(Team<true>{step}, Team<false>{step}, Title<false>{"p"}, Title<true>{"p"});
                Entity made[5];
                CHECK(world.instantiate_n(prefab, made));
                handles.insert(handles.end(), made, made + 5);
                break;
            }
            case 3:
                wrong += (world.add<Team<true>>(e, step) == nullptr) != (world.add<Team<false>>(e, step) == nullptr);
                break;
            case 4:
                wrong += world.remove<Team<true>>(e) != world.remove<Team<false>>(e);
                break;
            case 5:
                wrong += world.remove<Title<true>>(e) != world.remove<Title<false>>(e);
                break;
            case 6:
                if (auto* team = world.mut<Team<true>>(e)) {
                    team->number = -step;
                    world.mut<Team<false>>(e)->number = -step;
                    wrong += !world.pool<Team<true>>().changed(world.dense_index(e.entity_idx, component_id<Team<true>>()));
                }
                break;
            case 7:
            case 8:
            case 9:
                world.destroy(e);
                break;
            case 10: {
                std::vector<Entity> doomed;
                for (u32 i = 0; i < 6 && !handles.empty(); ++i)
                    doomed.push_back(handles[random.below(u32(handles.size()))]);
                world.destroy_batch(doomed);
                break;
            }
            default:
                if (step % 40 == 0)
                    snapshot = world.snapshot(), known = handles.size();
                else if (step % 40 == 1 && !snapshot.empty())
                    wrong += world.restore(snapshot) != Error::none, handles.resize(known);
                else if (step % 40 == 2)
                    partial = world.snapshot_of<Team<true>, Team<false>, Title<true>, Title<false>>();
                else if (step % 40 == 3 && !partial.empty())
                    wrong += world.restore(partial) != Error::none;
            }
            if (Entity copies[2]; step % 90 == 0 && world.clone_n(e, copies))
                handles.insert(handles.end(), copies, copies + 2);
            if (step % 700 == 0) {
                world.sort<Team<true>>([](const Team<true>& a, const Team<true>& b) { return a.number < b.number; });
                world.sort_as<Title<true>, Team<true>>();
            }
            if (step % 500 == 0)
                wrong += differences(world, handles);
        }
        CHECK(wrong + differences(world, handles) == 0);
        CHECK(world.entity_count() > 0);
    }

    TEST_CASE("E3 direct index: slot and id are checked, a forged generation passes where the type is read, and there alone") {
        World world;
        const Entity e = world.spawn(Team<true>{1}, Team<false>{1}), other = world.spawn(Team<true>{2}, Team<false>{2});
        const Entity dead = world.spawn(Team<true>{3}, Team<false>{3});
        world.destroy(dead);
        Entity forged = e;
        forged.gen = 5;
        CHECK_FALSE(world.alive(forged));
        CHECK(world.get<Team<false>>(forged) == nullptr);
        CHECK_FALSE(world.has<Team<false>>(forged));
        CHECK(world.has<Team<true>>(forged)); // the exception: reading this type does not look at the slot
        CHECK(world.get<Team<true>>(forged) == world.get<Team<true>>(e));
        CHECK(world.mut<Team<true>>(forged) == world.get<Team<true>>(e));
        CHECK_FALSE(world.remove<Team<true>>(forged)); // what changes structure does
        CHECK(world.add<Other>(forged) == nullptr);
        CHECK(world.add<Team<true>>(forged, 9) == nullptr);
        CHECK_FALSE(world.destroy(forged));
        CHECK(world.get<Team<true>>(e)->number == 1);
        for (Entity wrong : {Entity{77, e.entity_idx, e.gen}, Entity{e.entity_id, other.entity_idx, e.gen}, dead,
                             Entity{e.entity_id, dead.entity_idx, e.gen}, Entity{0, dead.entity_idx, 1}, Entity{e.entity_id, 2, 0},
                             Entity{e.entity_id, 4096, 0}, Entity{e.entity_id, 0x7fffffff, 0}, Entity{e.entity_id, 0xffffffff, 0}}) {
            CHECK_FALSE(world.has<Team<true>>(wrong));
            CHECK(world.get<Team<true>>(wrong) == nullptr);
            CHECK(world.mut<Team<true>>(wrong) == nullptr);
        }
    }

    TEST_CASE("E19 direct index: a handle made after a snapshot is dead after restore, until any entity is given its id and slot") {
        World world;
        std::vector<Entity> old(3);
        for (Entity& e : old)
            e = world.spawn(Team<true>{0}, Team<false>{0});
        const WorldSnapshot snapshot = world.snapshot();
        const Entity first = world.spawn(Team<true>{1}, Team<false>{1});
        world.destroy(first);
        const Entity second = world.spawn(Team<true>{2}, Team<false>{2});
        REQUIRE(second.entity_idx == first.entity_idx);
        REQUIRE(world.restore(snapshot) == Error::none);
        for (const Entity e : {first, second}) { // dead, for both kinds of types
            CHECK_FALSE(world.alive(e));
            CHECK_FALSE(world.has<Team<true>>(e));
            CHECK(world.get<Team<false>>(e) == nullptr);
            CHECK(world.get<Team<true>>(e) == nullptr);
        }
        for (const Entity e : old)
            CHECK(world.get<Team<true>>(e) != nullptr);
        // The same calls give the same handles.
        CHECK(world.spawn(Team<true>{1}, Team<false>{1}) == first);
        CHECK(world.get<Team<true>>(first)->number == 1);
        CHECK(world.get<Team<true>>(second) == nullptr);
        REQUIRE(world.restore(snapshot) == Error::none);
        // Other calls give second's id and slot to another entity, with the slot's generation of then.
        world.destroy(old[0]);
        world.spawn();
        const Entity stranger = world.spawn(Team<true>{3}, Team<false>{3});
        REQUIRE(stranger.entity_id == second.entity_id);
        REQUIRE(stranger.entity_idx == second.entity_idx);
        REQUIRE(stranger.gen != second.gen);
        CHECK_FALSE(world.alive(second));
        CHECK(world.get<Team<false>>(second) == nullptr);
        CHECK(world.get<Team<true>>(second) == world.get<Team<true>>(stranger)); // the exception
        CHECK(world.has<Team<true>>(second));
        CHECK_FALSE(world.destroy(second));
        CHECK(world.get<Team<true>>(stranger)->number == 3);
    }

    TEST_CASE("direct index: a handle stays dead when its slot's new id has the same low half") {
        World world;
        const Entity old = world.spawn(Team<true>{1});
        world.destroy(old);
        detail::WorldTestAccess::set_last_entity_id(world, (u64(1) << 32) + old.entity_id - 1);
        const Entity fresh = world.spawn(Team<true>{2});
        REQUIRE(fresh.entity_idx == old.entity_idx);
        REQUIRE(u32(fresh.entity_id) == u32(old.entity_id));
        CHECK(world.get<Team<true>>(old) == nullptr);
        CHECK_FALSE(world.has<Team<true>>(old));
        CHECK(world.mut<Team<true>>(old) == nullptr);
        REQUIRE(world.get<Team<true>>(fresh) != nullptr);
        CHECK(world.get<Team<true>>(fresh)->number == 2);
    }

    TEST_CASE("direct index: the id that looks like no entry has no row before it is given one") {
        World world;
        detail::WorldTestAccess::set_last_entity_id(world, 0xfffffffdu);
        const Entity first = world.spawn(Team<true>{1}); // the index has a page
        const Entity edge = world.create();
        REQUIRE(edge.entity_id == 0xffffffffu);
        CHECK_FALSE(world.has<Team<true>>(edge));
        CHECK(world.get<Team<true>>(edge) == nullptr);
        world.add<Team<true>>(edge, 2);
        CHECK(world.has<Team<true>>(edge));
        CHECK(world.get<Team<true>>(edge)->number == 2);
        CHECK(world.get<Team<true>>(first)->number == 1);
        world.remove<Team<true>>(edge);
        CHECK_FALSE(world.has<Team<true>>(edge));
    }
    TEST_CASE("direct index: a run of which no entity has all types is not marked") {
        World world;
        for (int i = 0; i < 200; ++i)
            world.spawn(Team<true>{i});
        for (int i = 0; i < 100; ++i)
            world.spawn(Title<true>{"t"});
        world.clear_changes();
        u32 visited = 0;
        world.each_mut<Team<true>, Title<true>>([&](Team<true>&, Title<true>&) { ++visited; });
        CHECK(visited == 0);
        CHECK(world.pool<Title<true>>().change_summary(0) == 0);
        CHECK(world.pool<Team<true>>().change_summary(0) == 0);
        const Entity both = world.spawn(Team<true>{1}, Title<true>{"u"});
        world.clear_changes();
        world.each_mut<Team<true>, Title<true>>([&](Team<true>&, Title<true>&) { ++visited; });
        CHECK(visited == 1);
        CHECK(world.pool<Title<true>>().change_summary(0) == u64(1) << 1); // row 100, in its second word
        CHECK(world.pool<Title<true>>().changed(world.dense_index(both.entity_idx, component_id<Title<true>>())));
    }
    TEST_CASE("direct index: null, foreign and unused handles, and a type never used") {
        World world;
        const Entity e = world.spawn(Other{1});
        CHECK(world.get<Team<true>>(e) == nullptr); // the pool is not there
        CHECK(world.get<Team<true>>(Entity{}) == nullptr);
        const Entity with = world.spawn(Team<true>{7});
        CHECK(world.get<Team<true>>(e) == nullptr);
        CHECK(world.get<Team<true>>(Entity{with.entity_id, 1'000'000, 0}) == nullptr);
        CHECK(world.get<Team<true>>(Entity{with.entity_id, e.entity_idx, 0}) == nullptr);
        CHECK(world.get<Team<true>>(Entity{}) == nullptr);
    }

    TEST_CASE("direct index: reserved rows need no allocation, and a failed one changes nothing") {
        ecs_test::CountingMemory memory;
        {
            World world({.allocator = memory.allocator(), .block_rows = 64});
            world.reserve<Team<true>>(5000);
            u64 before = memory.allocations;
            for (int i = 0; i < 5000; ++i)
                world.spawn(Team<true>{i});
            CHECK(memory.allocations == before);
            for (u64 k = 0; k < 8; ++k) { // the next page, block or list fails in turn
                World small({.allocator = memory.allocator(), .block_rows = 64});
                memory.fail_at = memory.allocations + k;
                Entity made;
                try {
                    made = small.spawn(Team<true>{3});
                } catch (const std::bad_alloc&) {
                    CHECK(small.entity_count() == 0);
                }
                memory.fail_at = ~u64(0);
                if (!made)
                    made = small.spawn(Team<true>{3});
                CHECK(small.get<Team<true>>(made)->number == 3);
            }
        }
        CHECK(memory.live_bytes == 0);
    }
}
