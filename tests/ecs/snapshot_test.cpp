#include "support.hpp"
#include "throng/ecs.hpp"
#include <cstring>
#include <doctest/doctest.h>
#include <memory>
#include <string>
#include <vector>

using namespace throng;

namespace {
struct Place {
    int x, y;
};
struct Name {
    std::string text;
};
struct Handle {
    std::unique_ptr<int> value;
};
template <int N>
struct Filler {
    int value;
};

template <class... Ts>
concept CanSnapshot = requires(const World& world) { world.template snapshot<Ts...>(); };

/// Differences between the observable states: slots, handles, rows in order, change bits, log.
u32 differences(const World& a, const World& b) {
    u32 wrong = a.entity_count() != b.entity_count() || a.entity_slots() != b.entity_slots() || a.last_entity_id() != b.last_entity_id();
    for (u32 i = 0; i < a.entity_slots() && wrong == 0; ++i)
        wrong += a.entity_at(i) != b.entity_at(i) || a.signature(a.entity_at(i)) != b.signature(b.entity_at(i));
    for (ComponentId id = 0; id < World::max_components && wrong == 0; ++id) {
        const PoolBase* x = a.pool_of(id);
        const PoolBase* y = b.pool_of(id);
        const u32 rows = x ? x->size() : 0;
        if (rows != (y ? y->size() : 0))
            return 1;
        for (u32 i = 0; i < rows; ++i) {
            wrong += x->owner(i) != y->owner(i) || x->changed(i) != y->changed(i);
            wrong += a.dense_index(x->owner(i), id) != i || b.dense_index(x->owner(i), id) != i;
            if (id == component_id<Name>())
                wrong += static_cast<const Name*>(x->row(i))->text != static_cast<const Name*>(y->row(i))->text;
            else
                wrong += std::memcmp(x->row(i), y->row(i), x->row_bytes()) != 0;
        }
    }
    wrong += a.structure_log().size() != b.structure_log().size();
    return wrong;
}

/// Random changes, a function of the seed and of the world's state only.
std::vector<Entity> churn(World& world, u64 seed, u32 steps) {
    ecs_test::Random random{seed};
    std::vector<Entity> made;
    for (u32 i = 0; i < steps; ++i) {
        const Entity e = world.entity_at(random.below(world.entity_slots() + 1));
        switch (random.below(6)) {
        case 0: made.push_back(world.spawn(Place{int(i), 0}, Name{"made " + std::to_string(i)})); break;
        case 1: world.destroy(e); break;
        case 2: world.remove<Name>(e); break;
        case 3: world.add<Filler<0>>(e, int(i)); break;
        case 4:
            if (Place* place = world.mut<Place>(e))
                place->y = int(i);
            break;
        default: made.push_back(world.create()); break;
        }
    }
    return made;
}

template <int... Ns>
Entity spawn_wide(World& world, std::integer_sequence<int, Ns...>) {
    return world.spawn(Filler<Ns>{Ns}...);
}
} // namespace

TEST_SUITE("ecs") {
    // (direct_index_test.cpp: what holds for handles where a type has a direct index.)
    TEST_CASE("E19 restore brings every byte back, and a replay makes the same handles") {
        for (const u32 block_rows : {64u, 4096u}) {
            World world({.block_rows = block_rows});
            world.log_structure(component_id<Name>(), true);
            std::vector<Entity> old;
            for (int i = 0; i < 500; ++i)
                old.push_back(world.spawn(Place{i, i}, Name{"entity number " + std::to_string(i)}));
            old.push_back(spawn_wide(world, std::make_integer_sequence<int, 20>{})); // more than fit inline
            churn(world, 1, 300);
            world.clear_changes();
            world.mut<Place>(world.entity_at(world.find_pool<Place>()->owner(3)));
            const WorldSnapshot snapshot = world.snapshot();
            REQUIRE_FALSE(snapshot.empty());
            CHECK(differences(world, *snapshot.world()) == 0);
            std::vector<bool> was_alive;
            for (const Entity& e : old)
                was_alive.push_back(world.alive(e));

            const std::vector<Entity> first = churn(world, 2, 2000);
            world.destroy_batch(old);
            CHECK(differences(world, *snapshot.world()) != 0);
            REQUIRE(world.restore(snapshot) == Error::none);
            CHECK(differences(world, *snapshot.world()) == 0);
            u32 wrong = 0;
            for (std::size_t i = 0; i < old.size(); ++i)
                wrong += world.alive(old[i]) != was_alive[i];
            for (const Entity& e : first)
                wrong += world.alive(e); // made after the snapshot
            CHECK(wrong == 0);
            CHECK(world.get<Filler<19>>(old.back())->value == 19);

            const std::vector<Entity> again = churn(world, 2, 2000);
            CHECK(again == first);
            REQUIRE(world.restore(snapshot) == Error::none); // a snapshot serves many times
            CHECK(differences(world, *snapshot.world()) == 0);
        }
    }
    TEST_CASE("E19 a snapshot is a copy of its own, and outlives its world") {
        WorldSnapshot snapshot;
        CHECK(snapshot.empty());
        Entity e;
        {
            World world;
            e = world.spawn(Name{"a text too long for the small buffer of a string"});
            CHECK(world.snapshot_into(snapshot) == Error::none);
            world.mut<Name>(e)->text = "other";
        }
        World second;
        second.spawn(Place{1, 1}); // a type that the snapshot does not know
        CHECK(second.restore(snapshot) == Error::none);
        CHECK(second.get<Name>(e)->text == "a text too long for the small buffer of a string");
        CHECK(second.pool<Place>().size() == 0);
        CHECK(second.entity_count() == 1);
    }
    TEST_CASE("E19 a reused snapshot takes nothing from the allocator") {
        ecs_test::CountingMemory memory;
        {
            World world({.allocator = memory.allocator()});
            for (int i = 0; i < 5000; ++i)
                world.spawn(Place{i, i}, Filler<1>{i});
            spawn_wide(world, std::make_integer_sequence<int, 20>{});
            WorldSnapshot snapshot = world.snapshot();
            const u64 warm = memory.allocations;
            for (int i = 0; i < 3; ++i) {
                world.each_mut<Place>([](Place& place) { ++place.x; });
                CHECK(world.snapshot_into(snapshot) == Error::none);
                world.each_mut<Place>([](Place& place) { ++place.y; });
                CHECK(world.restore(snapshot) == Error::none);
            }
            CHECK(memory.allocations == warm);
            CHECK(world.find_pool<Place>()->operator[](10).x == 13);
            CHECK(world.find_pool<Place>()->operator[](10).y == 10);
        }
        CHECK(memory.live_bytes == 0);
    }
    TEST_CASE("E20 a snapshot of a move-only component does not compile, and fails at run time") {
        static_assert(CanSnapshot<Place, Name>);
        static_assert(!CanSnapshot<Handle>);
        static_assert(!CanSnapshot<Place, Handle>);
        World world;
        const Entity e = world.spawn(Handle{std::make_unique<int>(4)}, Place{1, 2});
        WorldSnapshot snapshot;
        CHECK(world.snapshot_into(snapshot) == Error::unsupported);
        CHECK(snapshot.empty());
        {
            const ecs_test::ThrowingAsserts asserts;
            CHECK_THROWS_AS(world.snapshot(), ecs_test::AssertFailed);
            CHECK_THROWS_AS(world.snapshot<Name>(), ecs_test::AssertFailed); // Place has rows and is not listed
        }
        CHECK(world.remove<Handle>(e)); // no rows of it: nothing in the way
        snapshot = world.snapshot<Place>();
        world.mut<Place>(e)->x = 9;
        CHECK(world.restore(snapshot) == Error::none);
        CHECK(world.get<Place>(e)->x == 1);
    }
    TEST_CASE("a snapshot of another shape is refused") {
        World world;
        const Entity e = world.spawn(Place{1, 2});
        World other({.block_rows = 64});
        other.spawn(Place{3, 4});
        CHECK(world.restore(other.snapshot()) == Error::unsupported);
        CHECK(world.restore(WorldSnapshot{}) == Error::unsupported);
        CHECK(world.get<Place>(e)->x == 1);
        WorldSnapshot snapshot = other.snapshot();
        CHECK(world.snapshot_into(snapshot) == Error::none); // takes the new shape
        CHECK(world.restore(snapshot) == Error::none);
        CHECK(world.get<Place>(e)->x == 1);
    }
    TEST_CASE("E22 a snapshot or restore that runs out of memory leaves no half state") {
        for (u64 fail = 0; fail < 10; ++fail) {
            ecs_test::CountingMemory memory;
            {
                World world({.allocator = memory.allocator(), .block_rows = 64});
                for (int i = 0; i < 200; ++i)
                    world.spawn(Place{i, i}, Name{"a text too long for the small buffer of a string"});
                WorldSnapshot snapshot;
                memory.fail_at = memory.allocations + fail;
                CHECK_THROWS_AS(static_cast<void>(world.snapshot_into(snapshot)), std::bad_alloc);
                CHECK(world.entity_count() == 200);
                if (!snapshot.empty()) {
                    CHECK(snapshot.world()->entity_count() == 0);
                    CHECK(snapshot.world()->entity_slots() == 0);
                }
                memory.fail_at = ~u64(0);
                CHECK(world.snapshot_into(snapshot) == Error::none);
                CHECK(differences(world, *snapshot.world()) == 0);
            }
            CHECK(memory.live_bytes == 0);
        }
    }
}
