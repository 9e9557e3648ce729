// Entities of which nothing is sent for a while.
#include "src/server/state.hpp"
#include "tests/support/replication_world.hpp"
#include <doctest/doctest.h>

using namespace throng;
using namespace throng_test;

namespace {

struct Net : ReplicationWorld {
    explicit Net(ServerConfig config = {.heartbeat_ticks = 0}, const LinkConfig& link = {})
        : ReplicationWorld(config, {}, make_protocol(2000, true)), peer(join(link)) {}
    Peer& join(const LinkConfig& link = {}) {
        Peer& made = connect(link, link);
        while (!server.joined(made.id))
            step();
        server.view(made.id).look_at(0, 0, {.radius = 60});
        return made;
    }
    Entity shown(Entity entity) { return peer.client->entity(server.net_id(entity)); }
    int hp(Entity entity) {
        const Health* health = peer.world->get<Health>(shown(entity));
        return health ? health->hp : -1;
    }
    void settle() {
        for (int i = 0; i < 300 && (i < 3 || !server.settled(peer.id)); ++i)
            step();
        REQUIRE(server.settled(peer.id));
        REQUIRE(client_errors == 0);
    }
    u64 messages(int count) {
        u64 sum = 0;
        for (int i = 0; i < count; ++i)
            sum += step().messages;
        return sum;
    }
    Entity spawn(int hp = 1) { return world.spawn(Place{1, 0}, Health{hp, false}, Replicated{}); }
    u32 lanes() {
        u32 count = 0;
        for (u32 chunk = 0; chunk < server.state().mirror.chunk_count(); ++chunk)
            count += static_cast<u32>(__builtin_popcountll(server.state().mirror.chunk(chunk).alive));
        return count;
    }
    Peer& peer;
};

} // namespace

TEST_SUITE("server") {
    TEST_CASE("paused: neither moves nor hiding are told; it goes on as the same entity, wherever it is then") {
        Net net;
        const Entity e = net.spawn(), other = net.world.spawn(Place{2, 0}, Health{5, false}, Link{e}, Replicated{});
        net.settle();
        const NetId id = net.server.net_id(e);
        const Entity there = net.shown(e);
        net.world.add<Paused>(e);
        net.world.mut<Place>(e)->x = 45; // another cell
        net.world.mut<Health>(e)->hp = 2;
        CHECK(net.messages(4) == 0);
        net.world.mut<Place>(e)->x = 500; // out of sight
        net.server.view(net.peer.id).hide(e);
        CHECK(net.messages(4) == 0);
        CHECK(net.server.net_id(e) == id);
        CHECK(net.server.visible(net.peer.id, e));
        CHECK(net.peer.world->get<Place>(there)->x == doctest::Approx(1));
        CHECK(net.peer.world->get<Link>(net.shown(other))->target == there);
        net.world.mut<Health>(other)->hp = 6; // of the same chunk
        net.settle();
        CHECK(net.hp(other) == 6);
        CHECK(net.hp(e) == 1);
        net.world.mut<Place>(e)->x = 45;
        net.server.view(net.peer.id).show(e);
        net.world.remove<Paused>(e);
        net.settle();
        CHECK(net.server.net_id(e) == id);
        CHECK(net.shown(e) == there);
        CHECK(net.hp(e) == 2);
        CHECK(net.peer.world->get<Place>(there)->x == doctest::Approx(45));
        net.world.mut<Place>(e)->x = 46;
        net.settle();
        CHECK(net.peer.world->get<Place>(there)->x == doctest::Approx(46));
        CHECK(net.peer.client->stats().spawns == 2);
        CHECK(net.lanes() == 2);
    }

    TEST_CASE("paused: what happened to it counts when it goes on: hidden, out of sight, no longer replicated") {
        Net net;
        const Entity hidden = net.spawn(), far = net.spawn(), ended = net.spawn();
        net.settle();
        const NetId id = net.server.net_id(ended);
        for (const Entity e : {hidden, far, ended})
            net.world.add<Paused>(e);
        net.step();
        net.server.view(net.peer.id).hide(hidden);
        net.world.mut<Place>(far)->x = 500;
        CHECK(net.messages(4) == 0);
        CHECK(net.peer.world->entity_count() == 3);
        net.world.remove<Replicated>(ended);
        net.settle();
        CHECK_FALSE(net.peer.client->entity(id));
        CHECK(net.peer.world->entity_count() == 2);
        for (const Entity e : {hidden, far, ended})
            net.world.remove<Paused>(e);
        net.settle();
        CHECK(net.peer.world->entity_count() == 0);
        CHECK(net.lanes() == 2);
    }

    TEST_CASE("paused: who comes later does not get it; why says so") {
        Net net;
        const Entity e = net.spawn();
        net.settle();
        net.world.add<Paused>(e);
        net.step();
        Net::Peer& late = net.join();
        net.steps(5);
        CHECK(late.world->entity_count() == 0);
        const Why why = net.server.why(e, late.id), held = net.server.why(e, net.peer.id);
        CHECK(why.reason == WhyReason::paused);
        CHECK_FALSE(why.visible);
        CHECK(held.reason == WhyReason::current);
        CHECK(held.cause == WhyReason::paused);
        CHECK(held.held);
        const Entity never = net.world.spawn(Health{1, false}, Paused{}, Replicated{});
        net.step();
        CHECK(net.server.why(never, late.id).reason == WhyReason::paused);
        CHECK_FALSE(net.server.net_id(never));
        net.world.remove<Paused>(e);
        net.world.remove<Paused>(never);
        net.settle();
        CHECK(late.world->entity_count() == 2);
    }

    TEST_CASE("paused: what changed before arrives, though it is lost at first") {
        Net net({.heartbeat_ticks = 0}, {.delay_us = 20'000});
        const Entity e = net.spawn();
        net.settle();
        net.network.set_link(net.peer.id, Direction::down, {.loss_percent = 100});
        net.world.mut<Health>(e)->hp = 2;
        net.step();
        net.world.add<Paused>(e);
        net.world.mut<Health>(e)->hp = 3;
        net.steps(20);
        CHECK(net.hp(e) == 1);
        net.network.set_link(net.peer.id, Direction::down, {});
        net.settle();
        CHECK(net.hp(e) == 2);
    }

    TEST_CASE("paused: pauses and ends within a tick") {
        Net net;
        const Entity e = net.spawn(), f = net.spawn();
        net.settle();
        net.world.add<Paused>(e);
        net.world.mut<Health>(e)->hp = 2;
        net.world.remove<Paused>(e);
        net.world.add<Paused>(f);
        net.world.remove<Paused>(f);
        net.world.destroy(f);
        net.settle();
        CHECK(net.hp(e) == 2);
        CHECK(net.peer.world->entity_count() == 1);
        net.world.add<Paused>(e);
        net.step();
        net.world.remove<Paused>(e);
        net.world.destroy(e);
        net.settle();
        CHECK(net.peer.world->entity_count() == 0);
        CHECK(net.lanes() == 0);
    }

    TEST_CASE("paused: without a place it is, and goes on, somewhere") {
        Net net;
        const Entity e = net.spawn();
        net.settle();
        const Entity there = net.shown(e);
        net.world.add<Paused>(e);
        net.world.remove<Place>(e);
        CHECK(net.messages(4) == 0);
        net.world.remove<Paused>(e);
        net.settle();
        CHECK(net.shown(e) == there);
        CHECK_FALSE(net.peer.world->has<Place>(there));
        net.world.add<Paused>(e);
        net.world.add<Place>(e, Place{3, 3});
        CHECK(net.messages(4) == 0);
        net.world.remove<Paused>(e);
        net.settle();
        CHECK(net.shown(e) == there);
        CHECK(net.peer.world->get<Place>(there)->x == doctest::Approx(3));
    }

    TEST_CASE("paused: Lasting given meanwhile makes another entity when it goes on") {
        Net net;
        const Entity e = net.spawn();
        net.settle();
        const NetId id = net.server.net_id(e);
        net.world.add<Paused>(e);
        net.world.add<Lasting>(e, Lasting{});
        CHECK(net.messages(4) == 0);
        net.world.remove<Paused>(e);
        net.settle();
        CHECK(net.server.net_id(e) != id);
        CHECK_FALSE(net.peer.client->entity(id));
        CHECK(net.hp(e) == 1);
        CHECK(net.peer.world->entity_count() == 1);
    }

    TEST_CASE("paused: of one destroyed meanwhile the lane is kept until no client has it") {
        Net net;
        Net::Peer& second = net.join();
        const Entity e = net.spawn();
        net.settle();
        const NetId id = net.server.net_id(e);
        net.world.add<Paused>(e);
        net.step();
        net.world.destroy(e);
        CHECK(net.messages(4) == 0);
        CHECK(net.lanes() == 1);
        u32 visible = 0;
        net.server.each_visible(
            net.peer.id, [](void* count, Entity) { ++*static_cast<u32*>(count); }, &visible);
        CHECK(visible == 0);
        const Entity next = net.spawn(2); // in the same slot of the world
        REQUIRE(next.entity_idx == e.entity_idx);
        net.settle();
        CHECK(net.peer.world->entity_count() == 2);
        CHECK(net.peer.client->entity(id));
        CHECK(net.hp(next) == 2);
        net.server.view(net.peer.id).look_at(900, 0, {.radius = 60}); // of it no client is told anything any more
        net.settle();
        CHECK(net.peer.world->entity_count() == 1);
        for (Net::Peer* peer : {&second, &net.peer}) {
            CHECK(net.lanes() == 2);
            net.network.disconnect(peer->id);
            peer->left = true;
            net.steps(2);
        }
        CHECK(net.lanes() == 1);
        CHECK(net.server.state().orphans.empty());
    }

    TEST_CASE("paused: one that nobody has leaves nothing behind") {
        Net net;
        const Entity far = net.world.spawn(Place{900, 0}, Health{1, false}, Replicated{});
        net.steps(3);
        net.world.add<Paused>(far);
        net.steps(2);
        net.world.destroy(far);
        net.steps(2);
        CHECK(net.lanes() == 0);
        CHECK(net.server.state().orphans.empty());
        const Entity e = net.spawn();
        net.settle();
        CHECK(net.hp(e) == 1);
    }

    TEST_CASE("paused: a new reference names it") {
        Net net;
        const Entity e = net.spawn();
        net.settle();
        const Entity there = net.shown(e);
        net.world.add<Paused>(e);
        net.steps(2);
        const Entity reader = net.world.spawn(Link{e}, Replicated{}); // a reference to it
        net.settle();
        CHECK(net.peer.world->get<Link>(net.shown(reader))->target == there);
    }
}
