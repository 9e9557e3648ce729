#include "components.hpp"
#include <doctest/doctest.h>
#include <map>
#include <random>
#include <vector>

using namespace throng;
using ecs_test::AssertFailed;
using ecs_test::Hp;
using ecs_test::ThrowingAsserts;

namespace {
/// Sources lose it with their target; cycles are fine.
struct Follows {
    Entity target;
    int distance = 3;
    static constexpr OnTargetDestroy on_target_destroy = OnTargetDestroy::remove;
};
struct Watches {
    Entity target;
    static constexpr OnTargetDestroy on_target_destroy = OnTargetDestroy::keep;
};
struct Mapped {
    Entity target;
    static constexpr OnTargetDestroy on_target_destroy = OnTargetDestroy::destroy;
    void map_entities(const EntityMap& map) { map(target); }
};
struct Owner {
    Entity entity;
    void map_entities(const EntityMap& map) { map(entity); }
};
static_assert(Relation<ChildOf> && Relation<Follows> && !Relation<Owner> && is_acyclic<ChildOf> && !is_acyclic<Follows>);

using Entities = std::vector<Entity>;
template <class R>
Entities sources(const World& world, Entity target) {
    Entities out = ecs_test::sources<R>(world, target);
    CHECK(out.size() == world.source_count<R>(target));
    return out;
}
Entities tree(const World& world, Entity root) {
    Entities out;
    world.each_descendant<ChildOf>(root, [&](Entity e, u32) { out.push_back(e); });
    return out;
}

/// The same in maps.
struct Oracle {
    struct Link {
        Entity written, linked;
    };
    std::map<u64, Entity> alive;
    std::map<u64, Link> links[3];             // by source
    std::map<u64, std::vector<u64>> lists[3]; // by target
    void unlink(u32 r, u64 source) {
        Link& link = links[r][source];
        if (link.linked)
            std::erase(lists[r][link.linked.entity_id], source);
        link.linked = {};
    }
    void relate(u32 r, Entity source, Entity target) {
        Link& link = links[r][source.entity_id];
        link.written = target;
        if (link.linked == target)
            return;
        unlink(r, source.entity_id);
        link.linked = target;
        lists[r][target.entity_id].push_back(source.entity_id);
    }
    void remove(u32 r, u64 source) {
        if (!links[r].count(source))
            return;
        unlink(r, source);
        links[r].erase(source);
    }
    bool cyclic(Entity source, Entity target) const {
        while (target && target != source) {
            const auto found = links[0].find(target.entity_id);
            target = found != links[0].end() ? found->second.linked : Entity{};
        }
        return target == source;
    }
    void destroy(Entities doomed) {
        for (std::size_t i = 0; i < doomed.size(); ++i)
            for (const u64 child : lists[0][doomed[i].entity_id])
                if (std::find(doomed.begin(), doomed.end(), alive[child]) == doomed.end())
                    doomed.push_back(alive[child]);
        for (const Entity e : doomed) {
            for (u32 r = 0; r < 3; ++r) {
                const std::vector<u64> list = lists[r][e.entity_id];
                for (const u64 source : list)
                    r == 1 ? remove(r, source) : unlink(r, source);
                remove(r, e.entity_id);
                lists[r].erase(e.entity_id);
            }
            alive.erase(e.entity_id);
        }
    }
};

template <class R>
void compare(const World& world, Oracle& oracle, u32 r) {
    for (const auto& [id, entity] : oracle.alive) {
        std::vector<u64> list;
        world.each_source<R>(entity, [&](Entity e) { list.push_back(e.entity_id); });
        const auto found = oracle.lists[r].find(id);
        REQUIRE(list == (found != oracle.lists[r].end() ? found->second : std::vector<u64>{}));
        REQUIRE(world.source_count<R>(entity) == list.size());
        const auto link = oracle.links[r].find(id);
        REQUIRE(world.has<R>(entity) == (link != oracle.links[r].end()));
        REQUIRE(world.target<R>(entity) == (link != oracle.links[r].end() ? link->second.linked : Entity{}));
        if (link != oracle.links[r].end())
            REQUIRE(world.get<R>(entity)->target == link->second.written);
    }
}
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("relations: the way back, in order") {
        World world;
        const Entity a = world.create(), b = world.create();
        const Entity x = world.spawn(ChildOf{a}), y = world.spawn(ChildOf{a}, Hp{1}), z = world.create();
        CHECK(world.add<ChildOf>(z, a)->target == a);
        CHECK(sources<ChildOf>(world, a) == Entities{x, y, z});
        CHECK(world.target<ChildOf>(y) == a);
        CHECK_FALSE(world.target<ChildOf>(a));
        world.set(x, ChildOf{b});
        world.set(y, ChildOf{a}); // no change: it keeps its place
        CHECK(sources<ChildOf>(world, a) == Entities{y, z});
        CHECK(sources<ChildOf>(world, b) == Entities{x});
        world.patch<ChildOf>(x, [&](ChildOf& c) { c.target = a; });
        CHECK(sources<ChildOf>(world, a) == Entities{y, z, x});
        CHECK(world.remove<ChildOf>(z));
        CHECK(sources<ChildOf>(world, a) == Entities{y, x});
        const Entity copy = world.clone(y);
        CHECK(sources<ChildOf>(world, a) == Entities{y, x, copy});
        world.set(y, ChildOf{}); // nobody
        CHECK(world.has<ChildOf>(y));
        CHECK(sources<ChildOf>(world, a) == Entities{x, copy});
        CHECK(world.relate<ChildOf>(a, b) == Error::none);
        CHECK(world.root<ChildOf>(x) == b);
        CHECK(world.root<ChildOf>(b) == b);
        Entities up;
        world.each_ancestor<ChildOf>(x, [&](Entity e) { up.push_back(e); });
        CHECK(up == Entities{a, b});
        CHECK(tree(world, b) == Entities{a, x, copy});
        u32 deepest = 0;
        world.each_descendant<ChildOf>(b, [&](Entity, u32 depth) { deepest = std::max(deepest, depth); });
        CHECK(deepest == 2);
        CHECK_FALSE(world.target<Watches>(x)); // a type that the world does not know
        CHECK(world.source_count<Watches>(x) == 0);
        CHECK(world.memory_report().relations > 0);
    }
    TEST_CASE("relations: the end of a target") {
        World world;
        const Entity a = world.create();
        const Entity child = world.spawn(ChildOf{a}, Hp{1});
        const Entity grandchild = world.spawn(ChildOf{child});
        const Entity follower = world.spawn(Follows{a}, Hp{2}), watcher = world.spawn(Watches{a});
        const Entity second = world.spawn(Follows{follower});
        int removed = 0;
        world.on_remove<Follows>([&](World& w, Entity e, Follows& f) {
            ++removed;
            if (!w.alive(a))
                return;
            CHECK(w.target<Follows>(e) == f.target); // still linked, and alive
            CHECK(w.alive(f.target));
        });
        world.on_destroy([&](World& w, Entity e) {
            if (e == grandchild)
                CHECK(w.target<ChildOf>(e) == child);
        });
        CHECK(world.destroy(a));
        CHECK_FALSE(world.alive(child));
        CHECK_FALSE(world.alive(grandchild));
        CHECK(world.alive(follower));
        CHECK_FALSE(world.has<Follows>(follower));
        CHECK(removed == 1);
        CHECK(world.target<Follows>(second) == follower);
        CHECK(world.get<Watches>(watcher)->target == a);
        CHECK_FALSE(world.target<Watches>(watcher));
        // a target that is dead from the start
        CHECK(world.add<Follows>(watcher, a) == nullptr);
        CHECK_FALSE(world.has<Follows>(watcher));
        CHECK_FALSE(world.alive(world.spawn(ChildOf{a})));
        CHECK(world.add<Watches>(second, a) != nullptr);
        // the slot of a is another's now: it inherits nothing
        const Entity b = world.create();
        CHECK(world.source_count<Watches>(b) == 0);
        CHECK(world.source_count<ChildOf>(b) == 0);
        CHECK(world.destroy(second));
        CHECK(world.source_count<Follows>(follower) == 0);
    }
    TEST_CASE("relations: very many children and very deep trees end without recursion") {
        World world;
        const Entity parent = world.create(), bystander = world.create();
        Entities children(100000);
        CHECK(world.spawn_n<ChildOf>(children, [&](u32, ChildOf& c) { c.target = parent; }));
        CHECK(world.source_count<ChildOf>(parent) == 100000);
        CHECK(world.destroy(parent));
        CHECK(world.entity_count() == 1);
        Entity top = world.create(), bottom = top;
        for (int i = 0; i < 100000; ++i)
            bottom = world.spawn(ChildOf{bottom});
        CHECK(world.root<ChildOf>(bottom) == top);
        CHECK(tree(world, top).size() == 100000);
        CHECK(world.destroy(top));
        CHECK(world.entity_count() == 1);
        CHECK(world.alive(bystander));
        Entities followers(100000);
        const Entity leader = world.create();
        CHECK(world.spawn_n<Follows>(followers, [&](u32, Follows& f) { f.target = leader; }));
        CHECK(world.destroy(leader));
        CHECK(world.find_pool<Follows>()->size() == 0);
        CHECK(world.destroy_batch(followers) == 100000);
    }
    TEST_CASE("relations: cycles") {
        World world;
        const Entity a = world.create(), b = world.spawn(ChildOf{a}), c = world.spawn(ChildOf{b});
        CHECK(world.relate<ChildOf>(a, c) == Error::bad_value);
        CHECK(world.relate<ChildOf>(a, a) == Error::bad_value);
        CHECK_FALSE(world.has<ChildOf>(a));
        CHECK(world.relate<ChildOf>(a, Entity{}) == Error::bad_value);
        {
            const ThrowingAsserts asserts;
            CHECK_THROWS_AS(world.add<ChildOf>(a, c), AssertFailed);
            CHECK_FALSE(world.target<ChildOf>(a));
        }
        world.remove<ChildOf>(a);
        // applied state may pass through one, and every walk ends
        static_cast<ChildOf*>(world.add_unannounced(a, component_id<ChildOf>()))->target = c;
        world.announce();
        CHECK(world.target<ChildOf>(a) == c);
        CHECK(tree(world, b) == Entities{c, a});
        CHECK(tree(world, a) == Entities{b, c});
        u32 steps = 0;
        world.each_ancestor<ChildOf>(a, [&](Entity) { ++steps; });
        CHECK(steps == 3);
        const Entity d = world.spawn(ChildOf{a});               // below the cycle
        CHECK(world.relate<ChildOf>(d, b) == Error::bad_value); // no way out of the cycle
        CHECK(world.destroy(b));
        CHECK(world.entity_count() == 0);
        // types that are not acyclic
        const Entity e = world.create(), f = world.spawn(Follows{e});
        CHECK(world.relate<Follows>(e, f) == Error::none);
        CHECK(world.relate<Follows>(e, e) == Error::none);
        CHECK(sources<Follows>(world, e) == Entities{f, e});
        CHECK(world.destroy(e));
        CHECK_FALSE(world.has<Follows>(f));
    }
    TEST_CASE("relations: commands") {
        World world;
        CommandQueue queue(world);
        const Entity parent = queue.commands().spawn(Hp{1});
        for (int i = 0; i < 3; ++i)
            queue.commands().spawn(Owner{parent}, Hp{i});
        CHECK(queue.apply().applied == 4);
        const Entity a = world.entity_at(0);
        for (u32 i = 1; i < 4; ++i)
            queue.commands().add<ChildOf>(world.entity_at(i), a);
        queue.commands().destroy(a);
        CHECK(queue.apply().applied == 4);
        CHECK(world.entity_count() == 0);
    }
    TEST_CASE("relations: targets that the same queue makes") {
        World world;
        const Entity e = world.spawn(Hp{1}), f = world.spawn(ChildOf{e}), g = world.spawn(Follows{f}), h = world.spawn(Hp{2});
        CommandQueue queue(world);
        Commands commands = queue.commands();
        const Entity parent = commands.spawn(Hp{10});
        const Entity child = commands.spawn(ChildOf{parent}, Hp{11});
        std::vector<Entity> deep{child};
        for (int i = 0; i < 50; ++i)
            deep.push_back(commands.spawn(Hp{i}, ChildOf{deep.back()}, Owner{parent}));
        commands.add<ChildOf>(e, child);
        commands.set(f, ChildOf{deep.back()}); // in place of e
        commands.set(g, Follows{parent, 7});
        commands.add<Watches>(h, child);
        const Prefab prefab = Prefab::of(Hp{12});
        const Entity instance = commands.instantiate(prefab);
        commands.add<ChildOf>(instance, parent);
        commands.add<ChildOf>(h, instance);
        const CommandReport report = queue.apply();
        CHECK(report.applied == 59);
        CHECK(report.dropped == 0);
        CHECK(world.entity_count() == 57);
        const auto made = [&](Entity pending) { return queue.resolve(pending); };
        REQUIRE(world.alive(made(parent)));
        CHECK(sources<ChildOf>(world, made(parent)) == Entities{made(child), made(instance)});
        CHECK(sources<ChildOf>(world, made(child)) == Entities{made(deep[1]), e});
        u32 wrong = 0;
        for (std::size_t i = 1; i < deep.size(); ++i) {
            wrong += world.target<ChildOf>(made(deep[i])) != made(deep[i - 1]);
            wrong += world.get<ChildOf>(made(deep[i]))->target != made(deep[i - 1]);
            wrong += world.get<Owner>(made(deep[i]))->entity != made(parent);
        }
        CHECK(wrong == 0);
        CHECK(world.target<ChildOf>(f) == made(deep.back()));
        CHECK(world.target<ChildOf>(h) == made(instance));
        CHECK(world.target<Watches>(h) == made(child));
        CHECK(world.target<Follows>(g) == made(parent));
        CHECK(world.get<Follows>(g)->distance == 7);
        CHECK(world.root<ChildOf>(f) == made(parent));
        CHECK(world.destroy(made(parent)));
        CHECK(world.entity_count() == 1);
        CHECK_FALSE(world.has<Follows>(g));
    }
    TEST_CASE("relations: a target that the queue did not make, or that ended before, has ended") {
        World world({.entities_max = 5});
        const Entity child = world.spawn(Hp{1}), follower = world.spawn(Hp{2}), watcher = world.spawn(Hp{3}), other = world.create();
        const Entity leader = world.create();
        CommandQueue queue(world);
        Commands commands = queue.commands();
        const Entity never = commands.spawn(Hp{4}); // no room
        commands.add<ChildOf>(child, never);
        commands.set(follower, Follows{never});
        commands.add<Watches>(watcher, never);
        commands.add<Mapped>(leader, never); // one that replaces handles itself as well
        CHECK(queue.apply().applied == 4);   // the children were there
        CHECK_FALSE(world.alive(leader));
        CHECK_FALSE(world.alive(child));
        CHECK(world.alive(follower));
        CHECK_FALSE(world.has<Follows>(follower));
        REQUIRE(world.has<Watches>(watcher));
        CHECK_FALSE(world.target<Watches>(watcher));
        CHECK_FALSE(world.alive(world.get<Watches>(watcher)->target));
        const Entity kept = world.get<Watches>(watcher)->target;
        queue.commands(3, 0).set(watcher, Watches{queue.commands(3, 0).spawn()}); // there is room again: made
        CHECK(queue.apply().applied == 2);
        const Entity made = world.target<Watches>(watcher);
        CHECK(world.alive(made));
        CHECK(world.spawn());
        // of no worker's making: the same handle, whoever recorded
        Commands third = queue.commands(3, 0);
        const Entity again = third.spawn();
        third.set(watcher, Watches{again});
        CHECK(queue.apply().dropped == 1);
        CHECK(world.get<Watches>(watcher)->target == kept);
        // ended between
        Commands late = queue.commands();
        late.destroy(other);
        const Entity brief = late.spawn();
        late.destroy(brief);
        late.set(follower, ChildOf{brief});
        CHECK(queue.apply().applied == 4);
        CHECK_FALSE(world.alive(follower));
        CHECK(world.entity_count() == 3);
    }
    TEST_CASE("relations: trees made in parallel loops are the same for any number of workers") {
        const auto play = [](Executor* executor) {
            World world({.block_rows = 64});
            std::vector<Entity> all(1000);
            CHECK(world.spawn_n<Hp>(all, [](u32 i, Hp& hp) { hp.value = int(i); }));
            CommandQueue queue(world);
            const auto body = [&](Commands& commands, Entity e, const Hp& hp) {
                if (hp.value % 7 == 0)
                    commands.destroy(all[u32(hp.value * 13 % 1000)]);
                const Entity parent = commands.spawn(Owner{e});
                commands.spawn(ChildOf{commands.spawn(ChildOf{parent}, Follows{e})}, Owner{parent});
                if (hp.value % 2)
                    commands.add<ChildOf>(e, parent);
                else
                    commands.set(all[u32(hp.value / 2)], ChildOf{parent}); // several choose for one
            };
            if (executor)
                world.each<Hp>(*executor, queue.record(body));
            else
                world.each<Hp>(queue.record(body));
            const CommandReport report = queue.apply();
            std::vector<u64> seen{report.applied, report.dropped, world.entity_count()};
            for (u32 slot = 0; slot < world.entity_slots(); ++slot) {
                const Entity e = world.entity_at(slot);
                seen.insert(seen.end(), {e.entity_id, e.gen, world.target<ChildOf>(e).entity_id, world.target<Follows>(e).entity_id});
                world.each_source<ChildOf>(e, [&](Entity source) { seen.push_back(source.entity_id); });
                if (const Owner* owner = world.get<Owner>(e))
                    seen.push_back(owner->entity.entity_id);
            }
            CHECK(world.pool<ChildOf>().size() > 2000);
            return seen;
        };
        const std::vector<u64> expected = play(nullptr);
        for (const u32 workers : {1u, 2u, 8u}) {
            ecs_test::ThreadsForTest threads(workers);
            CHECK(play(&threads) == expected);
        }
    }
    TEST_CASE("clone_tree: links and handles inside lead to the copies") {
        World world;
        const Entity above = world.create();
        const Entity root = world.spawn(ChildOf{above}, Hp{1});
        const Entity left = world.spawn(ChildOf{root}, Owner{root}), right = world.spawn(ChildOf{root}, Follows{left}, Owner{above});
        const Entity leaf = world.spawn(ChildOf{left}, Hp{4}, Owner{right});
        Entities added;
        world.on_add<ChildOf>([&](World& w, Entity e, ChildOf& c) {
            added.push_back(e);
            CHECK(w.entity_count() == 9); // all are there
            CHECK(w.target<ChildOf>(e) == c.target);
        });
        const Entity copy = world.clone_tree(root);
        CHECK(world.alive(copy));
        CHECK(sources<ChildOf>(world, above) == Entities{root, copy});
        CHECK(tree(world, root) == Entities{left, leaf, right});
        const Entities copies = tree(world, copy);
        REQUIRE(copies.size() == 3);
        CHECK(added == Entities{copy, copies[0], copies[1], copies[2]});
        CHECK(world.get<Hp>(copies[1])->value == 4);
        CHECK(world.target<ChildOf>(copies[1]) == copies[0]);
        CHECK(world.target<Follows>(copies[2]) == copies[0]);
        CHECK(world.get<Owner>(copies[0])->entity == copy);
        CHECK(world.get<Owner>(copies[1])->entity == copies[2]);
        CHECK(world.get<Owner>(copies[2])->entity == above);
        CHECK_FALSE(world.clone_tree(Entity{}));
        CHECK(world.destroy(copy));
        CHECK(world.entity_count() == 5);
    }
    TEST_CASE("relations: random operations against maps") {
        for (u32 seed = 1; seed <= 4; ++seed) {
            std::mt19937 random(seed);
            World world({.block_rows = 64, .inline_indices = 2});
            Oracle oracle;
            Entities all;
            const auto pick = [&](auto n) { return static_cast<u32>(random() % static_cast<u32>(n)); };
            const auto any = [&] { return all[pick(all.size())]; };
            const auto prune = [&] { std::erase_if(all, [&](Entity e) { return !oracle.alive.count(e.entity_id); }); };
            WorldSnapshot full;
            Oracle full_oracle;
            PartialSnapshot part;
            std::map<u64, Entity> part_targets;
            for (u32 step = 0; step < 6000; ++step) {
                const u32 op = all.size() < 5 ? 0 : pick(40);
                if (op < 9) {
                    const Entity e = world.spawn(Hp{static_cast<int>(step)});
                    oracle.alive[e.entity_id] = e;
                    all.push_back(e);
                } else if (op < 18) {
                    const Entity s = any(), t = any();
                    const bool cyclic = oracle.cyclic(s, t);
                    CHECK(world.relate<ChildOf>(s, t) == (cyclic ? Error::bad_value : Error::none));
                    if (!cyclic)
                        oracle.relate(0, s, t);
                } else if (op < 24) {
                    const Entity s = any(), t = any();
                    world.set(s, Follows{t});
                    oracle.relate(1, s, t);
                } else if (op < 28) {
                    const Entity s = any(), t = any();
                    world.set(s, Watches{t});
                    oracle.relate(2, s, t);
                } else if (op < 31) {
                    const Entity s = any();
                    world.remove<ChildOf>(s);
                    oracle.remove(0, s.entity_id);
                    world.remove<Watches>(s);
                    oracle.remove(2, s.entity_id);
                } else if (op < 33) {
                    const Entity s = any();
                    world.remove<Follows>(s);
                    oracle.remove(1, s.entity_id);
                } else if (op < 35) {
                    const Entity e = any();
                    CHECK(world.destroy(e));
                    oracle.destroy({e});
                    prune();
                } else if (op == 35 && pick(4) == 0) {
                    const Entities doomed{any(), any(), any()};
                    world.destroy_batch(doomed);
                    Entities unique;
                    for (const Entity e : doomed)
                        if (std::find(unique.begin(), unique.end(), e) == unique.end())
                            unique.push_back(e);
                    oracle.destroy(unique);
                    prune();
                } else if (op == 36) {
                    world.sort<Follows>([](const Follows& a, const Follows& b) { return a.target.entity_id < b.target.entity_id; });
                    world.sort_as<Follows, ChildOf>();
                } else if (op == 37 && pick(10) == 0) {
                    if (full.empty() || pick(2) == 0) {
                        REQUIRE(world.snapshot_into(full) == Error::none);
                        full_oracle = oracle;
                    } else {
                        REQUIRE(world.restore(full) == Error::none);
                        oracle = full_oracle;
                        part = {};
                        all.clear();
                        for (const auto& [id, e] : oracle.alive)
                            all.push_back(e);
                    }
                } else if (op == 38 && pick(10) == 0) {
                    if (part.empty() || pick(2) == 0) {
                        part = world.snapshot_of<Follows>();
                        part_targets.clear();
                        world.each<Follows>([&](Entity e, const Follows& f) { part_targets[e.entity_id] = f.target; });
                    } else {
                        REQUIRE(world.restore(part) == Error::none);
                        for (const auto& [id, e] : oracle.alive)
                            if (!part_targets.count(id))
                                oracle.remove(1, id);
                        world.each<Follows>([&](Entity e, const Follows&) { // in row order
                            const Entity target = part_targets[e.entity_id];
                            if (oracle.alive.count(target.entity_id)) {
                                oracle.relate(1, e, target);
                            } else {
                                oracle.unlink(1, e.entity_id);
                                oracle.links[1][e.entity_id].written = target;
                            }
                        });
                    }
                }
                if (step % 50 == 0) {
                    REQUIRE(world.entity_count() == oracle.alive.size());
                    compare<ChildOf>(world, oracle, 0);
                    compare<Follows>(world, oracle, 1);
                    compare<Watches>(world, oracle, 2);
                }
            }
        }
    }
}
