// Components that are replaced, never written.
#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <utility>
#include <vector>

using namespace throng;

namespace {
struct Side {
    using immutable = void;
    int number = 0;
};
struct Score {
    int points = 0;
};

template <class T>
constexpr bool writable = requires(World& world, Entity entity, const Row<T>& row) {
    world.mut<T>(entity);
    world.mut_shared<T>(entity);
    row.mut();
};
template <class T>
constexpr bool patchable = requires(World& world, Entity entity, void (*f)(T&)) {
    world.patch<T>(entity, f);
};
static_assert(writable<Score> && patchable<Score> && !is_immutable<Score>);
static_assert(!writable<Side> && !patchable<Side> && is_immutable<Side>);
static_assert(std::is_same_v<decltype(std::declval<World&>().add<Side>(Entity{})), const Side*>);
static_assert(std::is_same_v<decltype(std::declval<World&>().add<Score>(Entity{})), Score*>);
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("set replaces an immutable component, and hooks see both") {
        World world;
        std::vector<int> seen; // added: positive, removed: negative
        world.on_add<Side>([&](World&, Entity, const Side& side) { seen.push_back(side.number); });
        world.on_remove<Side>([&](World&, Entity, const Side& side) { seen.push_back(-side.number); });
        world.on_change<Side>([&](World&, Entity, const Side&) { seen.push_back(0); });
        const Entity e = world.spawn(Side{1}, Score{5});
        REQUIRE(world.set(e, Side{2}));
        CHECK(world.get<Side>(e)->number == 2);
        CHECK(world.set(e, Score{6})->points == 6);
        CHECK(seen == std::vector<int>{1, -1, 2});
        int sum = 0;
        world.each_mut<Score, const Side>([&](Score& score, const Side& side) { sum += score.points += side.number; });
        world.each<Side>([&](const Side& side) { sum += side.number; });
        CHECK(sum == 10);
        world.destroy(e);
        CHECK_FALSE(world.set(e, Side{3}));
    }
}
