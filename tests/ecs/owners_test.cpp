// What slow asserts find: rows that belong to entities which have ended, or lack the type. World is compiled into the library at another
// level of asserts: this is about worlds of another size.
#include "support.hpp"
#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <string>

using namespace throng;
using ecs_test::AssertFailed;
using ecs_test::ThrowingAsserts;

namespace {
static_assert(THRONG_ASSERT_LEVEL == 2);
using SlowWorld = BasicWorld<64>;

struct A {
    int value;
};
struct B {
    long value;
};
struct Text {
    std::string value;
};

enum class Damage { none, ended, type };
/// Three entities of which the last, whose rows are to move, is no owner any more.
struct Damaged {
    SlowWorld world{WorldOptions{}};
    std::vector<Entity> entities;

    Damaged(Damage damage, bool in_step) {
        for (int i = 0; i < 3; ++i)
            entities.push_back(in_step ? world.spawn(A{i}, B{i}) : world.spawn(A{i}, Text{"text"}));
        auto& meta = detail::WorldTestAccess::meta(world, entities[2].entity_idx);
        if (damage == Damage::ended)
            meta.entity_id = 0;
        if (damage == Damage::type)
            meta.signature.reset(component_id<A, 64>());
    }
};
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("slow asserts find a moved row whose owner has ended or lacks the type") {
        const ThrowingAsserts asserts;
        for (const bool in_step : {false, true})
            for (const Damage damage : {Damage::none, Damage::ended, Damage::type}) {
                CAPTURE(in_step);
                CAPTURE(int(damage));
                const auto finds = [&](auto&& change) {
                    Damaged damaged(damage, in_step);
                    return ecs_test::asserts([&] { change(damaged); });
                };
                const bool expected = damage != Damage::none;
                CHECK(finds([](Damaged& d) { d.world.remove<A>(d.entities[0]); }) == expected);
                CHECK(finds([](Damaged& d) { d.world.destroy(d.entities[0]); }) == expected);
                CHECK(finds([](Damaged& d) { d.world.destroy_batch({d.entities.data(), 2}); }) == expected);
                CHECK(finds([](Damaged& d) { d.world.sort<A>([](const A& x, const A& y) { return x.value > y.value; }); }) == expected);
            }
    }
    TEST_CASE("slow asserts find that the row of an entity is another's") {
        const ThrowingAsserts asserts;
        SlowWorld world;
        const Entity e = world.spawn(A{1}), other = world.spawn(A{2});
        detail::WorldTestAccess::meta(world, e.entity_idx).list()[0] = 1;
        CHECK_THROWS_AS(world.destroy(e), AssertFailed);
        CHECK(world.destroy(other));
    }
}
