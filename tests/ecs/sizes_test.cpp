// Worlds of 64, 128 and 256 component types side by side in one process.
#include "support.hpp"
#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <string>
#include <utility>
#include <vector>

using namespace throng;

namespace {
template <int N>
struct Numbered {
    int value;
};
struct Late {
    int value;
};
struct Label {
    std::string text;
};

template <u32 MaxC, int... Ns>
u32 highest_id(std::integer_sequence<int, Ns...>) {
    return std::max({u32(component_id<Numbered<Ns>, MaxC>())...});
}

/// The same life in a world of any size: what each size must answer alike.
template <u32 MaxC>
std::vector<u64> life() {
    BasicWorld<MaxC> world({.block_rows = 64});
    BasicCommandQueue<MaxC> queue(world);
    BasicChangeReader<Late, MaxC> reader(world);
    std::vector<u64> out;
    const auto prefab = BasicPrefab<MaxC>::of(Label{"prefab"}, Late{5});
    std::vector<Entity> entities(100);
    CHECK(world.instantiate_n(prefab, entities));
    for (u32 i = 0; i < 100; i += 3)
        world.template add<Numbered<1>>(entities[i], int(i));
    auto saved = world.snapshot();
    for (u32 i = 0; i < 100; i += 7)
        world.destroy(entities[i]);
    world.template each<Late>(queue.record([](BasicCommands<MaxC>& commands, Entity at, const Late&) {
        if (at.entity_idx % 5 == 0)
            commands.template remove<Label>(at);
        if (at.entity_idx % 11 == 0)
            commands.destroy(at);
    }));
    out.push_back(queue.apply().applied);
    const Entity copy = world.clone(entities[3]);
    out.push_back(world.template get<Numbered<1>>(copy)->value);
    world.template sort<Label>([](const Label& a, const Label& b) { return a.text < b.text; });
    world.template each_mut<Late>([](u32 idx, Late& late) { late.value += int(idx); });
    reader.each([&](Entity e, const Late& late) { out.push_back(e.entity_id * 1000 + u64(late.value)); });
    world.template each<Late, Label>(without<Numbered<1>>,
                                     [&](u32 idx, const Late& late, const Label&) { out.push_back(u64(idx) << 32 | u32(late.value)); });
    out.push_back(world.entity_count());
    CHECK(world.restore(saved) == Error::none);
    out.push_back(world.entity_count());
    u64 sum = 0;
    world.template each<Numbered<1>, Label>(
        [&](u32 idx, const Numbered<1>& n, const Label& l) { sum += idx * u64(n.value) + l.text.size(); });
    out.push_back(sum);
    return out;
}
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("worlds of 64, 128 and 256 types live side by side and answer alike") {
        const std::vector<u64> expected = life<128>();
        CHECK(expected.size() > 100);
        CHECK(life<64>() == expected);
        CHECK(life<256>() == expected);
    }
    TEST_CASE("types of one world size use up no id of another") {
        const u32 before = component_id<Late, 64>();
        CHECK(before < 64);
        CHECK(highest_id<192>(std::make_integer_sequence<int, 200>{}) >= 199);
        struct Next {};
        CHECK(component_id<Next, 64>() < 64); // 200 types that worlds of 64 never met
        BasicWorld<192> full;
        CHECK(full.try_pool<Numbered<199>>() == nullptr);
        CHECK(full.create());
        BasicWorld<64> small;
        REQUIRE(small.try_pool<Numbered<199>>() != nullptr); // too late for 192, early for 64
        CHECK(small.get<Numbered<199>>(small.spawn(Numbered<199>{9}))->value == 9);
    }
}
