// Worlds of 64, 128 and 256 component types side by side in one process.
#include "support.hpp"
#include "throng/ecs.hpp"
#include <doctest/doctest.h>
#include <map>
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
struct Far {
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
/// What is to be in a world: the values of an entity, -1 where it has none.
struct Values {
    int late, far;
    std::string label;
    bool operator==(const Values&) const = default;
};
using Model = std::map<u64, Values>;

/// One world's operations, one a step, and what they are to come to.
template <u32 MaxC>
class Life {
public:
    Life(BasicWorld<MaxC>& world, Model& model, u64 seed) : world_(world), model_(model), queue_(world), random_{seed * 7919} {}
    void step() {
        const Entity e = entities_.empty() ? Entity{} : entities_[random_.below(u32(entities_.size()))];
        const int value = int(random_.below(1000));
        Values* const values = model_.count(e.entity_id) ? &model_[e.entity_id] : nullptr;
        switch (random_.below(8)) {
        case 0:
            made(world_.spawn(Late{value}), {value, -1, ""});
            break;
        case 1:
            made(world_.spawn(Far{value}, Label{"born"}), {-1, value, "born"});
            break;
        case 2:
            if (values && random_.below(2) == 0) {
                CHECK(world_.destroy(e));
                model_.erase(e.entity_id);
            }
            break;
        case 3:
            if (world_.set(e, Late{value}))
                values->late = value;
            break;
        case 4:
            if (world_.set(e, Label{std::to_string(value)}))
                values->label = std::to_string(value);
            break;
        case 5:
            if (world_.template remove<Far>(e))
                values->far = -1;
            break;
        case 6:
            if (const Entity copy = world_.clone(e))
                made(copy, *values);
            break;
        case 7:
            queue_.commands().set(e, Far{value});
            if (values)
                values->far = value;
            queue_.apply();
            break;
        }
    }
    u32 differences() const {
        u32 wrong = world_.entity_count() != model_.size();
        for (const Entity e : entities_) {
            const auto found = model_.find(e.entity_id);
            wrong += world_.alive(e) != (found != model_.end());
            if (found == model_.end())
                continue;
            const Late* const late = world_.template get<Late>(e);
            const Far* const far = world_.template get<Far>(e);
            const Label* const label = world_.template get<Label>(e);
            wrong += Values{late ? late->value : -1, far ? far->value : -1, label ? label->text : ""} != found->second;
        }
        return wrong;
    }

private:
    void made(Entity e, const Values& values) {
        CHECK(e);
        entities_.push_back(e);
        model_[e.entity_id] = values;
    }
    BasicWorld<MaxC>& world_;
    Model& model_;
    BasicCommandQueue<MaxC> queue_;
    ecs_test::Random random_;
    std::vector<Entity> entities_;
};
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
    TEST_CASE("worlds of 64, 128 and 256 types are alive together, and each goes its own way") {
        BasicWorld<64> small({.block_rows = 64});
        World middle({.block_rows = 64});
        BasicWorld<256> large({.block_rows = 64});
        Model models[3];
        Life<64> a(small, models[0], 1);
        Life<128> b(middle, models[1], 2);
        Life<256> c(large, models[2], 3);
        for (u32 step = 0; step < 6000; ++step) {
            a.step();
            b.step();
            c.step();
            if (step % 500 != 499)
                continue;
            CHECK(a.differences() == 0);
            CHECK(b.differences() == 0);
            CHECK(c.differences() == 0);
        }
        CHECK(models[0].size() > 100);
        CHECK(models[0] != models[1]); // other random numbers, another life
        CHECK(models[1] != models[2]);
    }
    // The last: nothing is left of 64 after it.
    TEST_CASE("a world of 64 refuses the 65th type, and goes on; worlds of other sizes take it") {
        const u32 highest = highest_id<64>(std::make_integer_sequence<int, 64>{});
        CHECK(highest >= 63);
        struct Beyond {
            int value;
        };
        CHECK(component_id<Beyond, 64>() >= 64);
        BasicWorld<64> small;
        World middle;
        BasicWorld<256> large;
        const Entity e = small.spawn(Late{1}, Label{"here"});
        const u32 rows = small.find_pool<Late>()->size();
        CHECK(small.try_pool<Beyond>() == nullptr);
        CHECK(small.add<Beyond>(e, 1) == nullptr);
        CHECK(small.set(e, Beyond{1}) == nullptr);
        CHECK_FALSE(small.has<Beyond>(e));
        CHECK(small.get<Beyond>(e) == nullptr);
        CHECK(small.mut<Beyond>(e) == nullptr);
        CHECK_FALSE(small.remove<Beyond>(e));
        u32 visits = 0;
        small.each<Beyond>([&](const Beyond&) { ++visits; });
        small.each<Late, Maybe<Beyond>>([&](const Late&, const Beyond* none) { visits += none != nullptr; });
        small.each<Late>(without<Beyond>, [&](const Late&) { visits += 100; });
        CHECK(visits == 100);
        {
            const ecs_test::ThrowingAsserts asserts;
            CHECK_THROWS_AS(small.spawn(Late{2}, Beyond{1}), ecs_test::AssertFailed);
            Entity made[3];
            CHECK_THROWS_AS((small.spawn_n<Late, Beyond>(made, [](u32, Late&, Beyond&) {})), ecs_test::AssertFailed);
            CHECK_THROWS_AS(small.pool<Beyond>(), ecs_test::AssertFailed);
            CHECK_THROWS_AS(small.reserve<Beyond>(10), ecs_test::AssertFailed);
            CHECK_THROWS_AS((BasicChangeReader<Beyond, 64>(small)), ecs_test::AssertFailed);
            CHECK_THROWS_AS(small.on_add<Beyond>([](BasicWorld<64>&, Entity) {}), ecs_test::AssertFailed);
        }
        CHECK(small.entity_count() == 1);
        CHECK(small.find_pool<Late>()->size() == rows);
        CHECK(small.get<Label>(e)->text == "here");
        CHECK(middle.get<Beyond>(middle.spawn(Beyond{2}))->value == 2);
        CHECK(large.get<Beyond>(large.spawn(Beyond{3}))->value == 3);
        CHECK(small.destroy(e));
    }
}
