// Entities of which nothing is sent for a while.
#include "src/server/state.hpp"
#include "tests/support/replication_world.hpp"
#include <doctest/doctest.h>
#include <vector>

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
    TEST_CASE("paused: one without a lane that goes on with another Lasting is shown by that one") {
        Net net({.chunks_max = 1, .heartbeat_ticks = 0});
        std::vector<Entity> others;
        for (int i = 0; i < 64; ++i)
            others.push_back(net.spawn());
        net.settle();
        const Entity e = net.world.spawn(Place{1, 0}, Health{99, false}, Lasting{.from_start = true}, Replicated{});
        net.settle();
        REQUIRE_FALSE(net.server.net_id(e)); // no room
        net.world.remove<Replicated>(e);
        net.server.view(net.peer.id).hide(e);
        net.step();
        net.world.remove<Lasting>(e);
        net.world.add<Lasting>(e, Lasting{.from_start = false});
        net.world.destroy(others[0]);
        net.world.add<Replicated>(e);
        net.settle();
        REQUIRE(net.server.net_id(e));
        CHECK_FALSE(net.server.visible(net.peer.id, e));
        net.peer.world->each<Health>([](const Health& health) { CHECK(health.hp == 1); });
        net.server.view(net.peer.id).show(e);
        net.settle();
        CHECK(net.hp(e) == 99);
    }

    TEST_CASE("paused: one that goes on, is paused again and ends in one tick stays with those that have it") {
        Net net;
        const Entity e = net.spawn(7), unseen = net.spawn(8);
        net.server.view(net.peer.id).hide(unseen);
        net.settle();
        net.world.remove<Replicated>(e);
        net.world.remove<Replicated>(unseen);
        net.step();
        const u32 lanes = net.lanes();
        for (const Entity each : {e, unseen}) {
            net.world.add<Replicated>(each);
            net.world.remove<Replicated>(each);
            net.world.destroy(each);
        }
        net.settle();
        REQUIRE(net.peer.world->entity_count() == 1);
        net.peer.world->each<Health>([](const Health& health) { CHECK(health.hp == 7); });
        CHECK(net.lanes() == lanes - 1); // nobody has the other one
        CHECK(net.server.end_replication(e));
        net.settle();
        CHECK(net.peer.world->entity_count() == 0);
    }

    TEST_CASE("paused: neither moves nor hiding are told; it goes on as the same entity, wherever it is then") {
        Net net;
        const Entity e = net.spawn(), other = net.world.spawn(Place{2, 0}, Health{5, false}, Link{e}, Replicated{});
        net.settle();
        const NetId id = net.server.net_id(e);
        const Entity there = net.shown(e);
        net.world.remove<Replicated>(e);
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
        net.world.add<Replicated>(e);
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

    TEST_CASE("paused: what happened to it counts when it goes on: hidden, out of sight") {
        Net net;
        const Entity hidden = net.spawn(), far = net.spawn();
        net.settle();
        for (const Entity e : {hidden, far})
            net.world.remove<Replicated>(e);
        net.step();
        net.server.view(net.peer.id).hide(hidden);
        net.world.mut<Place>(far)->x = 500;
        CHECK(net.messages(4) == 0);
        CHECK(net.peer.world->entity_count() == 2);
        for (const Entity e : {hidden, far})
            net.world.add<Replicated>(e);
        net.settle();
        CHECK(net.peer.world->entity_count() == 0);
        CHECK(net.lanes() == 2);
    }

    TEST_CASE("paused: who comes later does not get it; why says so") {
        Net net;
        const Entity e = net.spawn();
        net.settle();
        net.world.remove<Replicated>(e);
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
        net.world.add<Replicated>(e);
        net.settle();
        CHECK(late.world->entity_count() == 1);
        const Entity never = net.world.spawn(Place{900, 0}, Health{1, false}, Replicated{}); // no client looks there
        net.step();
        net.world.remove<Replicated>(never);
        net.world.mut<Place>(never)->x = 1;
        net.step();
        CHECK(net.server.why(never, late.id).reason == WhyReason::paused);
        CHECK_FALSE(net.server.net_id(never));
        net.world.add<Replicated>(never);
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
        net.world.remove<Replicated>(e);
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
        net.world.remove<Replicated>(e);
        net.world.mut<Health>(e)->hp = 2;
        net.world.add<Replicated>(e);
        net.world.remove<Replicated>(f);
        net.world.add<Replicated>(f);
        net.world.destroy(f);
        net.settle();
        CHECK(net.hp(e) == 2);
        CHECK(net.peer.world->entity_count() == 1);
        net.world.remove<Replicated>(e);
        net.step();
        net.world.add<Replicated>(e);
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
        net.world.remove<Replicated>(e);
        net.world.remove<Place>(e);
        CHECK(net.messages(4) == 0);
        net.world.add<Replicated>(e);
        net.settle();
        CHECK(net.shown(e) == there);
        CHECK_FALSE(net.peer.world->has<Place>(there));
        net.world.remove<Replicated>(e);
        net.world.add<Place>(e, Place{3, 3});
        CHECK(net.messages(4) == 0);
        net.world.add<Replicated>(e);
        net.settle();
        CHECK(net.shown(e) == there);
        CHECK(net.peer.world->get<Place>(there)->x == doctest::Approx(3));
    }

    TEST_CASE("paused: Lasting given meanwhile makes another entity when it goes on") {
        Net net;
        const Entity e = net.spawn();
        net.settle();
        const NetId id = net.server.net_id(e);
        net.world.remove<Replicated>(e);
        net.world.add<Lasting>(e, Lasting{});
        CHECK(net.messages(4) == 0);
        net.world.add<Replicated>(e);
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
        net.world.remove<Replicated>(e);
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
        net.world.remove<Replicated>(far);
        net.steps(2);
        net.world.destroy(far);
        net.steps(2);
        CHECK(net.lanes() == 0);
        CHECK(net.server.state().orphans.empty());
        const Entity e = net.spawn();
        net.settle();
        CHECK(net.hp(e) == 1);
    }

    TEST_CASE("paused: destroyed without any component that the protocol has") {
        Net net;
        const Entity bare = net.world.spawn(Replicated{}), stripped = net.spawn(), back = net.world.spawn(Replicated{});
        net.settle();
        std::vector<NetId> ids;
        for (const Entity e : {bare, stripped, back}) {
            ids.push_back(net.server.net_id(e));
            net.world.remove<Replicated>(e);
        }
        CHECK(net.messages(2) == 0);
        net.world.remove<Health>(stripped);
        net.world.remove<Place>(stripped);
        net.world.add<Health>(back, Health{3, false});
        CHECK(net.messages(2) == 0);
        CHECK(net.server.state().unlogged.size() == 2);
        for (const Entity e : {bare, stripped, back})
            net.world.destroy(e);
        CHECK(net.messages(2) == 0);
        CHECK(net.server.state().unlogged.empty());
        CHECK(net.server.state().orphans.size() == 3);
        for (const Entity e : {bare, stripped, back})
            CHECK_FALSE(net.server.net_id(e));
        const Entity next = net.world.spawn(Replicated{}), at_once = net.world.spawn(Replicated{});
        net.settle();
        CHECK(net.peer.world->entity_count() == 5);
        const NetId id = net.server.net_id(at_once);
        net.world.remove<Replicated>(at_once);
        net.world.destroy(at_once);
        const Entity after = net.world.spawn(Replicated{}); // in the same slot, in one tick
        REQUIRE(after.entity_idx == at_once.entity_idx);
        net.settle();
        CHECK(net.peer.client->entity(id));
        CHECK(net.peer.client->entity(net.server.net_id(after)));
        CHECK(net.peer.client->entity(net.server.net_id(next)));
        CHECK(net.server.state().orphans.size() == 4);
        CHECK(net.server.state().entity_count == 2);
    }

    TEST_CASE("paused: end_replication ends it for all, wherever they look, paused or not, and after its end") {
        Net net;
        const Entity seen = net.spawn(), still = net.spawn(), hidden = net.spawn(), dead = net.spawn(), never = net.world.spawn(Place{});
        const Entity reader = net.world.spawn(Link{still}, Replicated{});
        net.settle();
        const Entity all[] = {seen, still, hidden, dead};
        NetId ids[4];
        for (u32 i = 0; i < 4; ++i)
            ids[i] = net.server.net_id(all[i]);
        for (const Entity e : {still, hidden, dead})
            net.world.remove<Replicated>(e);
        net.step();
        net.server.view(net.peer.id).hide(hidden);
        net.world.destroy(dead);
        CHECK(net.messages(4) == 0);
        REQUIRE(net.peer.world->entity_count() == 5);
        for (u32 i = 0; i < 4; ++i) {
            CHECK(net.server.end_replication(all[i]));
            CHECK(net.server.end_replication(all[i])); // once is enough
            CHECK_FALSE(net.world.has<Replicated>(all[i]));
            net.settle();
            CHECK_FALSE(net.peer.client->entity(ids[i]));
            CHECK_FALSE(net.server.net_id(all[i]));
            CHECK_FALSE(net.server.end_replication(all[i])); // it is nobody's any more
        }
        CHECK(net.peer.world->entity_count() == 1);
        CHECK_FALSE(net.peer.world->get<Link>(net.shown(reader))->target);
        CHECK_FALSE(net.server.end_replication(never));
        CHECK_FALSE(net.server.end_replication(Entity{}));
        CHECK(net.messages(4) == 0);
        CHECK(net.server.why(still, net.peer.id).reason == WhyReason::not_replicated);
        net.world.add<Replicated>(still);
        net.settle();
        CHECK(net.shown(still));
        CHECK(net.server.net_id(still) != ids[1]);
        CHECK(net.peer.world->get<Link>(net.shown(reader))->target == net.shown(still));
        CHECK(net.server.state().orphans.empty());
        CHECK(net.lanes() == 2);
    }

    TEST_CASE("paused: end_replication in one tick with the tag, in any order, makes another entity or none") {
        using Step = void (*)(Net&, Entity);
        const Step end = [](Net& net, Entity e) { (void)net.server.end_replication(e); };
        const Step take = [](Net& net, Entity e) { net.world.remove<Replicated>(e); };
        const Step give = [](Net& net, Entity e) { net.world.add<Replicated>(e); };
        const Step destroy = [](Net& net, Entity e) { net.world.destroy(e); };
        const struct {
            std::vector<Step> steps;
            bool there; // afterwards, as another one
        } cases[] = {{{end}, false},
                     {{end, give}, true},
                     {{give, end}, false},
                     {{take, end}, false},
                     {{end, take}, false},
                     {{take, end, give}, true},
                     {{take, give, end}, false},
                     {{end, give, take}, false},
                     {{end, take, give}, true},
                     {{end, give, end, give}, true},
                     {{give, take, end}, false},
                     {{end, destroy}, false},
                     {{destroy, end}, false},
                     {{take, destroy, end}, false},
                     {{end, give, destroy}, false},
                     {{end, give, take, destroy}, false}};
        for (const bool paused : {false, true})
            for (const auto& one : cases) {
                const bool there = one.there;
                const auto number = &one - &cases[0]; // CAPTURE takes no structured binding
                CAPTURE(paused);
                CAPTURE(number);
                Net net;
                const Entity e = net.spawn(), other = net.spawn(2);
                net.settle();
                const NetId id = net.server.net_id(e);
                if (paused) {
                    net.world.remove<Replicated>(e);
                    net.step();
                }
                for (const Step step : one.steps)
                    step(net, e);
                net.settle();
                CHECK_FALSE(net.peer.client->entity(id));
                CHECK(net.peer.world->entity_count() == (there ? 2 : 1));
                CHECK(bool(net.server.net_id(e)) == there);
                CHECK((net.hp(e) == 1) == there);
                CHECK(net.hp(other) == 2);
                CHECK(net.lanes() == (there ? 2 : 1));
                CHECK(net.server.state().orphans.empty());
                CHECK(net.messages(4) == 0);
            }
        Net net; // nobody has been told of it
        const Entity e = net.spawn();
        CHECK(net.server.end_replication(e));
        CHECK(net.messages(4) == 0);
        CHECK_FALSE(net.server.net_id(e));
        CHECK_FALSE(net.world.has<Replicated>(e));
    }

    TEST_CASE("paused: a Lasting one that is out of sight when it is destroyed stays, until end_replication names it") {
        Net net;
        const Entity e = net.world.spawn(Place{1, 0}, Health{1, false}, Lasting{}, Replicated{});
        net.settle();
        const NetId id = net.server.net_id(e);
        net.server.view(net.peer.id).hide(e);
        net.settle();
        REQUIRE(net.peer.client->frozen(net.peer.client->entity(id)));
        net.world.remove<Replicated>(e);
        net.world.destroy(e);
        CHECK(net.messages(6) == 0);
        CHECK(net.peer.client->entity(id));
        CHECK(net.lanes() == 1);
        CHECK(net.server.end_replication(e));
        net.settle();
        CHECK_FALSE(net.peer.client->entity(id));
        CHECK(net.lanes() == 0);
        CHECK(net.server.client_report(net.peer.id).open_ends == 0);
    }

    TEST_CASE("paused: a new reference names it") {
        Net net;
        const Entity e = net.spawn();
        net.settle();
        const Entity there = net.shown(e);
        net.world.remove<Replicated>(e);
        net.steps(2);
        const Entity reader = net.world.spawn(Link{e}, Replicated{}); // a reference to it
        net.settle();
        CHECK(net.peer.world->get<Link>(net.shown(reader))->target == there);
    }
}
