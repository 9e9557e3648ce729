// A world that is restored under a running server: clients end up with what is in it.
#include "bench/verify.hpp"
#include "tests/support/replication_world.hpp"
#include <doctest/doctest.h>
#include <random>

using namespace throng;
using namespace throng_test;

namespace {

struct Purse {
    int gold = 0;
};
struct Born {
    int year = 0;
};
struct Leader {
    Entity of;
};
struct Weather {
    int wind = 0;
};

std::unique_ptr<Protocol> make_rich_protocol() {
    auto protocol = std::make_unique<Protocol>();
    const Range map{-1000, 1000, 0.01};
    protocol->component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
    protocol->component<Health>("health").field(&Health::hp).field(&Health::angry).when(without<Speed>);
    protocol->component<Link>("link").field(&Link::target);
    protocol->component<Leader>("leader").field(&Leader::of).related(&Leader::of);
    protocol->component<Purse>("purse").field(&Purse::gold).audience(Audience::owner);
    protocol->component<Born>("born").field(&Born::year).once();
    protocol->resource<Weather>("weather").field(&Weather::wind);
    protocol->opaque<Name>("name", 200, write_name, read_name);
    protocol->component<Lasting>("lasting");
    if (protocol->finish() != Error::none)
        throw std::runtime_error(protocol->problem());
    return protocol;
}

struct Game : ReplicationWorld {
    explicit Game(u64 seed = 1)
        : ReplicationWorld({.hash_ticks = 1}, {.seed = seed}, make_rich_protocol()), verifier(*protocol, world, server), random(seed) {}
    u32 below(u32 n) { return static_cast<u32>(random() % n); }
    bool chance(double p) { return static_cast<double>(random() >> 11) * 0x1p-53 < p; }

    void join(int count, const LinkConfig& link = {}) {
        for (int i = 0; i < count; ++i)
            connect(link, link);
        for (int i = 0; i < 100; ++i)
            step();
        for (const auto& peer : peers) {
            REQUIRE(server.joined(peer->id));
            server.view(peer->id).look_at(0, 0, {.radius = 60});
        }
    }
    void settle() {
        const Tick still_since = server.current_tick() + 1;
        for (const auto& peer : peers) {
            network.set_link(peer->id, Direction::down, {});
            network.set_link(peer->id, Direction::up, {});
        }
        int ticks = 0;
        const auto open = [&] {
            for (const auto& peer : peers)
                if (!server.settled(peer->id))
                    return true;
            return false;
        };
        for (; ticks < 200 && (ticks < 40 || open()); ++ticks)
            different += step().hashes_different;
        CHECK(!open());
        CHECK(different == 0);
        for (const auto& peer : peers) {
            const throng_verify::Difference found = verifier.check(peer->id, *peer->world, *peer->client, still_since);
            CHECK_MESSAGE(!found, found.text);
        }
    }
    Entity any() {
        const u32 slot = below(std::max(1u, world.entity_slots()));
        const Entity entity = world.entity_at(slot);
        return entity == server.resource_entity() ? Entity{} : entity;
    }
    Place somewhere() { return {static_cast<float>(below(120)) - 60, static_cast<float>(below(120)) - 60}; }
    template <class T>
    void set(Entity entity, T value) {
        if (T* there = world.mut<T>(entity))
            *there = std::move(value);
        else
            world.add<T>(entity, std::move(value));
    }
    void act() {
        const Entity entity = any();
        if (!entity || chance(0.15)) {
            const Entity made = world.spawn(somewhere(), Health{int(below(99)), false}, Replicated{});
            if (chance(0.3))
                world.add<Born>(made, Born{int(below(2000))});
            return;
        }
        switch (below(18)) {
        case 0:
            return (void)world.destroy(entity);
        case 1:
            return set(entity, somewhere());
        case 2:
            return (void)world.remove<Health>(entity);
        case 3:
            return set(entity, Health{int(below(99)), true});
        case 4:
            return set(entity, Link{any()});
        case 5:
            return set(entity, Leader{any()});
        case 6:
            return (void)world.remove<Leader>(entity);
        case 7:
            return set(entity, Purse{int(below(99))});
        case 8:
            return set(entity, OwnedBy{below(static_cast<u32>(peers.size()))});
        case 9:
            return (void)world.remove<OwnedBy>(entity);
        case 10:
            return set(entity, Name{std::string(below(60), 'n')});
        case 11:
            return world.has<Speed>(entity) ? (void)world.remove<Speed>(entity) : set(entity, Speed{});
        case 12:
            return world.has<Lasting>(entity) ? (void)world.remove<Lasting>(entity) : (void)world.add<Lasting>(entity, Lasting{});
        case 13:
            return set(entity, VisibleTo{.any_of = 1 + u64(below(3))});
        case 14:
            return (void)world.remove<VisibleTo>(entity);
        case 15:
            return set(entity, ScopedTo(Scope::of<Health, Name>(), {.any_of = 1 + u64(below(3))}));
        case 16:
            return chance(0.5) ? (void)server.end_replication(entity) : (void)world.remove<Place>(entity);
        default: {
            Resources& resources = world.resources();
            if (Weather* there = resources.mut<Weather>())
                there->wind = int(below(50));
            else
                resources.emplace<Weather>(Weather{1});
        }
        }
    }
    void play(int ticks) {
        for (int i = 0; i < ticks; ++i) {
            for (u32 left = below(6); left > 0; --left)
                act();
            different += step().hashes_different;
        }
    }

    throng_verify::Verifier verifier;
    std::mt19937_64 random;
    u64 different = 0;
};

constexpr LinkConfig bad{.loss_percent = 20, .delay_us = 60'000, .jitter_us = 60'000};

} // namespace

TEST_SUITE("server") {
    TEST_CASE("restore: what was ended is back, what was made since is gone, and values are as they were") {
        Game game;
        game.join(2);
        World& world = game.world;
        const Entity a = world.spawn(Place{1, 2}, Health{10, false}, Replicated{});
        const Entity b = world.spawn(Place{3, 4}, Health{20, false}, Name{"b"}, Replicated{});
        const Entity plain = world.spawn(Place{5, 6}, Replicated{});
        game.settle();
        const NetId net_a = game.server.net_id(a);
        const World::Snapshot before = world.snapshot();
        world.mut<Health>(a)->hp = 11;
        world.remove<Name>(b);
        world.destroy(b);
        world.add<Name>(plain, Name{"new"});
        const Entity later = world.spawn(Place{7, 8}, Health{30, false}, Replicated{});
        game.settle();
        CHECK(game.peers[0]->world->entity_count() == 3);
        const NetId net_later = game.server.net_id(later);
        REQUIRE(world.restore(before) == Error::none);
        game.settle();
        CHECK(game.peers[0]->world->entity_count() == 3);
        CHECK(game.server.net_id(a) == net_a); // it has lived on
        CHECK(!game.peers[0]->client->entity(net_later));
        for (const auto& peer : game.peers) {
            CHECK(peer->world->get<Health>(peer->client->entity(net_a))->hp == 10);
            CHECK(peer->world->get<Name>(peer->client->entity(game.server.net_id(b)))->text == "b");
            CHECK_FALSE(peer->world->has<Name>(peer->client->entity(game.server.net_id(plain))));
        }
        // The log and the marks work on.
        world.mut<Health>(b)->hp = 21;
        world.destroy(plain);
        game.settle();
        CHECK(game.peers[1]->world->entity_count() == 2);
        CHECK(game.peers[1]->world->get<Health>(game.peers[1]->client->entity(game.server.net_id(b)))->hp == 21);
    }

    TEST_CASE("restore: a snapshot of before the server was made") {
        World world;
        const Entity old = world.spawn(Health{1, false}, Replicated{});
        const World::Snapshot before = world.snapshot();
        const auto protocol = make_protocol();
        LoopbackNetwork network({});
        Server server(world, *protocol, network.server(), {});
        World shown;
        const ClientId id = network.connect();
        Client client(shown, *protocol, network.client(id));
        TimeUs now = 0;
        const auto steps = [&] {
            for (int i = 0; i < 20; ++i) {
                server.receive(now += 50'000);
                server.tick(now);
                CHECK(client.receive(now) == Error::none);
                CHECK(client.send(now) == Error::none);
            }
            return shown.entity_count();
        };
        REQUIRE(world.restore(before) == Error::none); // before the first tick
        CHECK(steps() == 1);
        const Entity other = world.spawn(Health{2, false}, Replicated{});
        CHECK(steps() == 2);
        REQUIRE(world.restore(before) == Error::none);
        CHECK(steps() == 1);
        world.spawn(Health{3, false}, Replicated{}); // the log is on, though it was off in the snapshot
        CHECK(steps() == 2);
        world.destroy(old);
        CHECK(steps() == 1);
        (void)other;
    }

    TEST_CASE("restore: an entity that is made again at once is the same for clients") {
        Game game;
        game.join(1);
        World& world = game.world;
        const World::Snapshot before = world.snapshot();
        const Entity e = world.spawn(Place{1, 2}, Health{10, false}, Replicated{});
        game.settle();
        const NetId id = game.server.net_id(e);
        REQUIRE(world.restore(before) == Error::none);
        const Entity again = world.spawn(Place{1, 3}, Health{12, false}, Replicated{}); // simulated anew
        CHECK(again == e);
        game.settle();
        CHECK(game.server.net_id(again) == id);
        CHECK(game.peers[0]->client->stats().despawns == 0);
        REQUIRE(world.restore(before) == Error::none);
        game.settle();
        CHECK(game.peers[0]->world->entity_count() == 0);
    }

    TEST_CASE("restore: resources keep one entity, and their values") {
        Game game;
        game.join(1);
        World& world = game.world;
        const World::Snapshot without = world.snapshot();
        world.resources().emplace<Weather>(Weather{5});
        game.settle();
        const World::Snapshot with = world.snapshot();
        REQUIRE(world.restore(without) == Error::none);
        const Entity e = world.spawn(Health{1, false}, Replicated{}); // by the handle that the entity of the resources had
        game.settle();
        CHECK(world.entity_count() == 2);
        CHECK(game.server.resource_entity() != e);
        CHECK(game.peers[0]->world->resources().get<Weather>()->wind == 5);
        world.resources().mut<Weather>()->wind = 6;
        game.settle();
        REQUIRE(world.restore(with) == Error::none); // resources are no part of it
        game.settle();
        CHECK(world.entity_count() == 1);
        CHECK(game.peers[0]->world->resources().get<Weather>()->wind == 6);
        CHECK(game.peers[0]->world->entity_count() == 1);
    }

    TEST_CASE("restore: paused entities") {
        Game game;
        game.join(1);
        World& world = game.world;
        const World::Snapshot empty = world.snapshot();
        const Entity ends = world.spawn(Health{1, false}, Replicated{}), waits = world.spawn(Health{2, false}, Replicated{});
        game.settle();
        const World::Snapshot before = world.snapshot();
        world.remove<Replicated>(ends);
        world.remove<Replicated>(waits);
        world.mut<Health>(waits)->hp = 3;
        game.step();
        world.destroy(ends); // the client keeps both
        game.step();
        CHECK(game.peers[0]->world->entity_count() == 2);
        REQUIRE(world.restore(before) == Error::none);
        game.settle();
        CHECK(game.peers[0]->world->entity_count() == 2);
        CHECK(game.peers[0]->client->entity(game.server.net_id(ends)));
        world.remove<Replicated>(waits);
        game.step();
        REQUIRE(world.restore(empty) == Error::none);
        game.settle();
        CHECK(game.peers[0]->world->entity_count() == 0);
    }

    TEST_CASE("restore: what is an owner's stays with the connection that it was given to") {
        Game game;
        game.join(2);
        World& world = game.world;
        const ClientId first = game.peers[0]->id;
        const Entity e = world.spawn(Health{1, false}, Purse{7}, OwnedBy{first}, Replicated{});
        game.settle();
        const World::Snapshot before = world.snapshot();
        game.network.disconnect(first);
        game.peers[0]->left = true;
        game.steps(3);
        auto& next = game.connect();
        game.steps(10);
        REQUIRE(next.id == first);
        const auto gold_of = [&] { return next.world->get<Purse>(next.client->entity(game.server.net_id(e))); };
        CHECK(!gold_of());
        REQUIRE(world.restore(before) == Error::none);
        game.steps(10);
        CHECK(!gold_of());
        // Nor when more owners change than are remembered.
        for (int i = 0; i < 3000; ++i)
            world.destroy(world.spawn(OwnedBy{77}));
        game.steps(10);
        CHECK(!gold_of());
        world.mut<OwnedBy>(e)->client = next.id; // the host gives it away
        game.steps(10);
        REQUIRE(gold_of());
        CHECK(gold_of()->gold == 7);
    }

    TEST_CASE("restore: random worlds, snapshots and rollback rings, with loss") {
        for (u64 seed = 1; seed <= 24; ++seed) {
            CAPTURE(seed);
            Game game(seed);
            RollbackRing ring(game.world, 8);
            game.join(2, bad);
            std::vector<World::Snapshot> kept;
            u64 frame = 0;
            for (int round = 0; round < 12; ++round) {
                for (int i = 0; i < 8; ++i) {
                    if (seed % 2)
                        REQUIRE(ring.save(++frame) == Error::none);
                    game.play(1);
                }
                if (seed % 2 == 0)
                    kept.push_back(game.world.snapshot());
                if (game.chance(0.3))
                    continue;
                if (seed % 2) {
                    frame = ring.oldest_frame() + game.below(ring.frame_count());
                    REQUIRE(ring.restore(frame) == Error::none);
                } else
                    REQUIRE(game.world.restore(kept[game.below(static_cast<u32>(kept.size()))]) == Error::none);
                if (game.chance(0.5)) // simulated on before the server looks
                    for (int i = 0; i < 10; ++i)
                        game.act();
                if (game.chance(0.2))
                    game.settle();
            }
            game.settle();
            CHECK(game.client_errors == 0);
        }
    }
}
