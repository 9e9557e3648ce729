// exchange_unannounced: an entity's removals and additions in one go.
#include "components.hpp"
#include <doctest/doctest.h>

using namespace throng;
using ecs_test::A;
using ecs_test::B;
using ecs_test::C;
using ecs_test::Hp;
using ecs_test::Name;
using ecs_test::Tag;

namespace {
using Set = Signature<World::max_components>;
template <class... Ts>
Set types() {
    Set set;
    (set.set(component_id<Ts>()), ...);
    return set;
}
template <class... Ts>
void make_pools(World& world) {
    (static_cast<void>(world.pool<Ts>()), ...);
}
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("exchange: what was kept keeps its value, what comes is new, in one change of the list") {
        World world;
        make_pools<A, B, C, Tag, Hp>(world);
        const Entity other = world.spawn(A{7}, B{8}, C{"other"});
        const Entity e = world.spawn(A{1}, B{2}, C{"kept"});
        const u64 inserts = world.index_insert_count();
        CHECK(world.exchange_unannounced(e, types<A, Hp>(), types<B, Hp, Tag>()));
        CHECK(world.index_insert_count() == inserts);
        CHECK(world.signature(e) == types<B, C, Hp, Tag>()); // B was there
        CHECK(world.get<B>(e)->value == 2);
        CHECK(world.get<C>(e)->value == "kept");
        CHECK(world.get<Hp>(e)->value == 0);
        CHECK(world.exchange_unannounced(e, types<B, C>(), types<C>())); // another C
        CHECK(world.signature(e) == types<C, Hp, Tag>());
        CHECK(world.get<C>(e)->value.empty());
        CHECK(world.get<A>(other)->value == 7);
        CHECK(world.get<B>(other)->value == 8);
        CHECK(world.get<C>(other)->value == "other");
        world.destroy(e);
        CHECK_FALSE(world.exchange_unannounced(e, types<C>(), types<A>()));
        CHECK_FALSE(world.exchange_unannounced(Entity{}, {}, types<A>()));
    }
    TEST_CASE("exchange: random sets, against one change at a time") {
        World world, twin;
        make_pools<A, B, C, Tag>(world);
        make_pools<A, B, C, Tag>(twin);
        const u32 ids[] = {component_id<A>(), component_id<B>(), component_id<C>(), component_id<Tag>()};
        for (World* w : {&world, &twin})
            for (const u32 id : ids)
                w->log_structure(ComponentId(id), true);
        const std::vector<Entity> entities = ecs_test::mixed_world(world, 100, 5), twins = ecs_test::mixed_world(twin, 100, 5);
        ecs_test::Random random{9};
        for (int step = 0; step < 3000; ++step) {
            const u32 k = random.below(u32(entities.size()));
            const u32 out = random.below(16), in = random.below(16);
            Set removed, added;
            world.clear_structure_log();
            twin.clear_structure_log();
            for (u32 i = 0; i < 4; ++i)
                if (out >> i & 1) {
                    removed.set(ids[i]);
                    twin.remove_erased(twins[k], ComponentId(ids[i]));
                }
            for (u32 i = 0; i < 4; ++i)
                if (in >> i & 1) {
                    added.set(ids[i]);
                    twin.add_erased(twins[k], ComponentId(ids[i]));
                }
            REQUIRE(world.exchange_unannounced(entities[k], removed, added));
            REQUIRE(world.structure_log().size() == twin.structure_log().size());
            if (A* a = world.mut<A>(entities[k])) {
                a->value = step;
                twin.mut<A>(twins[k])->value = step;
            }
            if (C* c = world.mut<C>(entities[k])) {
                c->value = std::to_string(step);
                twin.mut<C>(twins[k])->value = c->value;
            }
        }
        for (u32 k = 0; k < entities.size(); ++k) {
            REQUIRE(world.signature(entities[k]) == twin.signature(twins[k]));
            if (const A* a = world.get<A>(entities[k]))
                CHECK(a->value == twin.get<A>(twins[k])->value);
            if (const B* b = world.get<B>(entities[k]))
                CHECK(b->value == twin.get<B>(twins[k])->value);
            if (const C* c = world.get<C>(entities[k]))
                CHECK(c->value == twin.get<C>(twins[k])->value);
        }
    }
    TEST_CASE("exchange: removals are told first and see the entity as it was, additions when they are announced") {
        World world;
        make_pools<A, B, Hp, Name>(world);
        std::vector<std::string> lines;
        world.on_remove<Hp>([&](World& w, Entity e, Hp& hp) {
            lines.push_back("-hp " + std::to_string(hp.value) + (w.has<Name>(e) ? " named" : "") + (w.has<A>(e) ? " early" : ""));
        });
        world.on_remove<Name>([&](World& w, Entity e, Name& name) { lines.push_back("-name " + name.text + (w.has<Hp>(e) ? " hp" : "")); });
        world.on_add<A>([&](World& w, Entity e, A& a) { lines.push_back("+a " + std::to_string(a.value) + (w.has<Hp>(e) ? " hp" : "")); });
        world.on_add<Hp>([&](World&, Entity, Hp& hp) { lines.push_back("+hp " + std::to_string(hp.value)); });
        const Entity e = world.spawn(Hp{1}, Name{"n"}, B{5});
        lines.clear();
        CHECK(world.exchange_unannounced(e, types<Hp, Name>(), types<A, Hp>()));
        world.mut<A>(e)->value = 3;
        world.mut<Hp>(e)->value = 4;
        CHECK(lines == std::vector<std::string>{"-hp 1 named", "-name n hp"});
        lines.clear();
        world.announce();
        std::sort(lines.begin(), lines.end()); // by id, which depends on the tests before
        CHECK(lines == std::vector<std::string>{"+a 3 hp", "+hp 4"});
        // a hook that ends the entity, and one that takes off more
        lines.clear();
        const HookId ends = world.on_remove<B>([&](World& w, Entity entity, B&) { w.destroy(entity); });
        CHECK_FALSE(world.exchange_unannounced(e, types<B>(), types<Name>()));
        CHECK_FALSE(world.alive(e));
        world.unhook(ends);
        const Entity f = world.spawn(Hp{1}, B{2}, Name{"f"});
        world.on_remove<B>([&](World& w, Entity entity, B&) { w.remove<Hp>(entity); });
        CHECK(world.exchange_unannounced(f, types<B, Hp>(), types<A>()));
        CHECK(world.signature(f) == types<A, Name>());
        world.announce();
    }
}
