// Misuse where asserts are off: it is refused, or does what is documented. The level of asserts is one of a program, and World is compiled
// into the library at its own: this is about worlds of other sizes.
#include "support.hpp"
#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <string>
#include <utility>

using namespace throng;
using ecs_test::AssertFailed;
using ecs_test::ThreadsForTest;
using ecs_test::ThrowingAsserts;

namespace {
static_assert(THRONG_ASSERT_LEVEL == 0);
constexpr u32 size = 192;
using ReleaseWorld = BasicWorld<size>;

struct A {
    int value;
};
struct B {
    long value;
};
struct C {
    std::string value;
};
struct Unmade {
    int value;
};
template <int N>
struct Numbered {
    int value;
};
template <int... Ns>
void use_up_ids(std::integer_sequence<int, Ns...>) {
    (static_cast<void>(component_id<Numbered<Ns>, 64>()), ...);
}
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("without asserts, structural change of a looped pool changes nothing, with hooks and without") {
        const ThrowingAsserts asserts; // none is hit
        for (const bool hooks : {false, true}) {
            CAPTURE(hooks);
            ReleaseWorld world;
            u32 calls = 0;
            if (hooks) {
                world.on_destroy([&](ReleaseWorld&, Entity) { ++calls; });
                world.on_add<A>([&](ReleaseWorld&, Entity) { ++calls; });
                world.on_remove<A>([&](ReleaseWorld&, Entity) { ++calls; });
            }
            std::vector<Entity> entities;
            for (int i = 0; i < 100; ++i)
                entities.push_back(world.spawn(A{i}, B{i}));
            const Entity bare = world.create(), free = world.spawn(B{-1});
            const Entity batch[] = {free, entities[3], bare};
            calls = 0;
            world.clear_changes();
            u32 done = 0;
            world.each<A>([&](Entity e, const A&) {
                done += world.remove<A>(e);
                done += world.remove<A>(entities[50]);
                done += world.destroy(e);
                done += world.destroy_batch({&e, 1});
                done += world.destroy_batch(batch); // whole
                done += world.add<A>(bare, 1) != nullptr;
                done += world.set(bare, A{1}) != nullptr;
                done += bool(world.spawn(C{"x"}, A{1}));
                done += bool(world.clone(e));
                Entity made[2];
                done += world.spawn_n<A>(made, [](u32, A&) {});
                done += world.remove_erased(e, component_id<A, size>()) || world.add_erased(bare, component_id<A, size>());
                Signature<size> type;
                type.set(component_id<A, size>());
                done += world.exchange_unannounced(e, type, {});
                world.sort<A>([](const A& x, const A& y) { return x.value > y.value; });
            });
            CHECK(done == 0);
            CHECK(calls == 0);
            CHECK(world.entity_count() == 102);
            const Pool<A>& pool = *world.find_pool<A>();
            CHECK(pool.size() == 100);
            u32 wrong = 0;
            for (u32 i = 0; i < 100; ++i)
                wrong += pool[i].value != int(i) || pool.owner(i) != entities[i].entity_idx || world.get<A>(entities[i]) != &pool[i] ||
                         pool.changed(i);
            CHECK(wrong == 0);
            CHECK(world.destroy_batch(batch) == 3); // nothing is left locked
            CHECK(world.remove<A>(entities[0]));
            CHECK(world.add<C>(entities[0], "later") != nullptr);
        }
    }
    TEST_CASE("without asserts, structural change inside a parallel loop changes nothing; mut writes and marks") {
        const ThrowingAsserts asserts;
        for (const bool hooks : {false, true}) {
            CAPTURE(hooks);
            ReleaseWorld world;
            if (hooks)
                world.on_destroy([](ReleaseWorld&, Entity) {});
            const Entity e = world.spawn(A{1});
            const Entity other = world.spawn(B{1});
            world.clear_changes();
            ThreadsForTest executor(1);
            u32 done = 0, loops = 0;
            const auto misuse = [&] {
                ++loops;
                done += bool(world.create()) || bool(world.spawn(B{1}));
                done += world.remove<B>(other);
                done += world.add<C>(e, "x") != nullptr || world.add<B>(e, 1) != nullptr;
                done += world.destroy(other) || world.destroy_batch({&other, 1}) != 0;
                done += world.try_pool<Unmade>() != nullptr;
                world.reserve<Unmade>(100);
            };
            world.each<A>(executor, [&](const A&) { misuse(); });
            world.each_mut<A>(executor, [&](A&) { misuse(); });
            world.each_row<A>(executor, [&](Row<A, size>) { misuse(); });
            world.each_block<A>(executor, [&](std::span<const A>) { misuse(); });
            world.each_block_mut<A>(executor, [&](std::span<A>) { misuse(); });
            CHECK(loops == 5);
            CHECK(done == 0);
            CHECK(world.entity_count() == 2);
            CHECK(world.has<B>(other));
            CHECK_FALSE(world.has<C>(e));
            CHECK_FALSE(world.find_pool<B>()->changed(0));
            world.each<A>(executor, [&](const A&) { world.mut<B>(other)->value = 2; });
            CHECK(world.get<B>(other)->value == 2);
            CHECK(world.find_pool<B>()->changed(0));
            CHECK(world.destroy(e)); // nothing is left locked
            CHECK(world.create());
        }
    }
    TEST_CASE("without asserts, a type beyond MaxC is refused, and nothing is touched that is not there") {
        use_up_ids(std::make_integer_sequence<int, 64>{});
        BasicWorld<64> world;
        const Entity e = world.spawn(Numbered<63>{7});
        {
            const ThrowingAsserts asserts;
            CHECK(world.try_pool<A>() == nullptr);
            CHECK(world.find_pool<A>() == nullptr);
            CHECK(world.add<A>(e, 1) == nullptr);
            CHECK(world.set(e, A{1}) == nullptr);
            CHECK_FALSE(world.spawn(A{1}));
            Entity made[3];
            CHECK_FALSE(world.spawn_n<A>(made, [](u32, A&) {}));
            CHECK_FALSE(world.instantiate(BasicPrefab<64>::of(A{1})));
            CHECK(world.mut<A>(e) == nullptr);
            CHECK_FALSE(world.has<A>(e));
            CHECK_FALSE(world.remove<A>(e));
            CHECK(world.on_add<A>([](BasicWorld<64>&, Entity) {}) == 0);
            world.reserve<A>(1000);
            BasicChangeReader<A, 64> reader(world);
            CHECK_FALSE(reader.take_resync());
            CHECK(reader.each([](const A&) {}) == 0);
            CHECK(reader.each_removed([](const Removal&) {}) == 0);
            CHECK_FALSE(reader.changed(e));
            reader.skip();
            BasicChangeReader<A, 64> moved(std::move(reader));
            CHECK(moved.each([](const A&) {}) == 0);
            world.each<A>([](const A&) { FAIL("nobody has one"); });
            CHECK(world.entity_count() == 1);
            CHECK(world.get<Numbered<63>>(e)->value == 7);
            // There is no pool to give: the handler is called at every level, and the process ends if it returns.
            CHECK_THROWS_AS(world.pool<A>(), AssertFailed);
        }
        BasicChangeReader<Numbered<63>, 64> reader(world);
        BasicChangeReader<Numbered<63>, 64> taken(std::move(reader));
        CHECK(reader.each([](const Numbered<63>&) {}) == 0); // moved from
        CHECK(taken.each([](const Numbered<63>&) {}) == 1);
    }
}
