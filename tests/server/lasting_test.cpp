// Entities that clients keep when they lose sight of them.
#include "tests/support/replication_world.hpp"
#include <doctest/doctest.h>

using namespace throng;
using namespace throng_test;

namespace {

std::unique_ptr<Protocol> make_lasting_protocol() {
    auto protocol = std::make_unique<Protocol>();
    const Range map{-1000, 1000, 0.01};
    protocol->component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
    protocol->component<Health>("health").field(&Health::hp).field(&Health::angry);
    protocol->component<Link>("link").field(&Link::target);
    protocol->component<Lasting>("lasting");
    REQUIRE(protocol->finish() == Error::none);
    return protocol;
}

struct Net : ReplicationWorld {
    explicit Net(ServerConfig config = {}, const LinkConfig& link = {})
        : ReplicationWorld(config, {}, make_lasting_protocol()), peer(connect(link, link)) {
        while (!server.joined(peer.id))
            step();
        server.view(peer.id).look_at(0, 0, {.radius = 60});
    }
    Entity shown(Entity entity) { return peer.client->entity(server.net_id(entity)); }
    bool alive(Entity entity) { return peer.world->alive(shown(entity)); }
    bool frozen(Entity entity) { return peer.client->frozen(shown(entity)); }
    int hp(Entity entity) {
        const Health* health = alive(entity) ? peer.world->get<Health>(shown(entity)) : nullptr;
        return health ? health->hp : -1;
    }
    void settle() {
        for (int i = 0; i < 200 && (i < 3 || !server.settled(peer.id)); ++i)
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
    Peer& peer;
};

} // namespace

TEST_SUITE("server") {
    TEST_CASE("lasting: one that the game has destroyed while it was out of sight is there again when it is seen again") {
        Net net;
        const Entity e = net.world.spawn(Place{1, 0}, Health{1, false}, Lasting{}, Replicated{});
        const Entity names = net.world.spawn(Place{2, 0}, Link{e}, Replicated{});
        net.settle();
        const Entity first = net.shown(e);
        net.server.view(net.peer.id).hide(e);
        net.settle();
        REQUIRE(net.frozen(e));
        net.peer.world->destroy(first);
        net.world.mut<Health>(e)->hp = 2;
        net.settle();
        CHECK_FALSE(net.alive(e)); // out of sight it stays away
        net.server.view(net.peer.id).show(e);
        net.settle();
        CHECK(net.hp(e) == 2);
        CHECK(net.shown(e) != first);
        CHECK(net.peer.world->get<Link>(net.shown(names))->target == net.shown(e));
    }

    TEST_CASE("lasting: what a client loses sight of stays as it was, is not spoken of, and goes on when it is seen again") {
        Net net;
        const Entity e = net.world.spawn(Place{1, 0}, Health{1, false}, Lasting{}, Replicated{});
        const Entity plain = net.world.spawn(Place{2, 0}, Health{1, false}, Replicated{});
        net.settle();
        const Entity there = net.shown(e);
        u64 others = 0; // that go out of sight
        REQUIRE(net.hp(e) == 1);
        CHECK_FALSE(net.frozen(e));
        SUBCASE("hidden") {
            net.server.view(net.peer.id).hide(e), net.server.view(net.peer.id).hide(plain);
        }
        SUBCASE("not allowed") {
            net.world.add<VisibleTo>(e, VisibleTo{.any_of = 1}), net.world.add<VisibleTo>(plain, VisibleTo{.any_of = 1});
        }
        SUBCASE("too far") {
            net.server.view(net.peer.id).look_at(500, 0, {.radius = 60});
        }
        SUBCASE("it goes away") {
            net.world.mut<Place>(e)->x = net.world.mut<Place>(plain)->x = 500;
        }
        SUBCASE("it goes away and another one takes its lane") {
            net.world.mut<Place>(e)->x = net.world.mut<Place>(plain)->x = 500;
            net.world.spawn(Place{1, 0}, Replicated{});
            net.world.spawn(Place{2, 0}, Replicated{});
            others = 2;
        }
        net.settle();
        CHECK_FALSE(net.server.visible(net.peer.id, e));
        CHECK_FALSE(net.alive(plain));
        REQUIRE(net.alive(e));
        CHECK(net.frozen(e));
        const Tick seen_last = net.peer.client->confirmed_tick(there);
        net.world.mut<Health>(e)->hp = 2;
        net.world.add<Link>(e, Link{plain});
        net.world.mut<Place>(e)->z += 1;
        CHECK(net.messages(20) == 0);
        CHECK(net.hp(e) == 1);
        CHECK(net.peer.client->confirmed_tick(there) == seen_last);
        net.server.view(net.peer.id).show(e);
        net.world.remove<VisibleTo>(e);
        net.server.view(net.peer.id).look_at(static_cast<double>(net.world.get<Place>(e)->x), 0, {.radius = 60});
        net.settle();
        CHECK(net.shown(e) == there); // the same one
        CHECK_FALSE(net.frozen(e));
        CHECK(net.hp(e) == 2);
        CHECK(net.peer.world->has<Link>(there));
        CHECK(net.peer.client->stats().despawns == 1 + others);
    }

    TEST_CASE("lasting: the end of one that is kept is told, to those that have it, and to no others") {
        for (const double loss : {0.0, 40.0}) {
            CAPTURE(loss);
            Net net({}, {.loss_percent = loss});
            auto& other = net.connect();
            const Entity e = net.world.spawn(Health{1, false}, Lasting{}, Replicated{});
            const Entity again = net.world.spawn(Health{1, false}, Lasting{}, Replicated{});
            const Entity both = net.world.spawn(Health{1, false}, Lasting{}, Replicated{});
            while (!net.server.joined(other.id))
                net.step();
            net.server.view(other.id).hide_all();
            net.settle();
            net.server.view(net.peer.id).hide_all();
            net.settle();
            REQUIRE(net.peer.world->entity_count() == 3);
            CHECK(net.peer.client->stats().despawns == 0);
            const u64 bytes = net.network.counters(other.id, Direction::down).sent_bytes;
            net.world.destroy(e);
            CHECK(net.server.end_replication(again));
            net.server.view(net.peer.id).show(both); // seen again, and at its end, in one tick
            net.world.destroy(both);
            net.settle();
            CHECK(net.peer.world->entity_count() == 0);
            CHECK(net.peer.client->stats().despawns == 3);
            CHECK(net.messages(20) == 0);
            CHECK(other.world->entity_count() == 0);
            CHECK(net.network.counters(other.id, Direction::down).sent_bytes - bytes < 60); // heartbeats
        }
    }

    TEST_CASE("lasting: hidden and destroyed in one tick, or destroyed in sight, it is gone") {
        Net net;
        const Entity hidden = net.world.spawn(Health{1, false}, Lasting{}, Replicated{});
        const Entity seen = net.world.spawn(Health{1, false}, Lasting{}, Replicated{});
        const Entity brief = net.world.spawn(Health{1, false}, Lasting{}, Replicated{});
        net.settle();
        net.server.view(net.peer.id).hide(hidden);
        for (const Entity e : {hidden, seen, brief})
            net.world.destroy(e);
        net.settle();
        CHECK(net.peer.world->entity_count() == 0);
        CHECK(net.messages(10) == 0);
    }

    TEST_CASE("lasting: one that becomes so, or is so no longer, is another entity for clients, and references follow it") {
        Net net;
        const Entity e = net.world.spawn(Health{1, false}, Replicated{});
        const Entity holder = net.world.spawn(Link{e}, Replicated{});
        net.settle();
        const auto named = [&] { return net.peer.world->get<Link>(net.shown(holder))->target; };
        const NetId first = net.server.net_id(e);
        net.world.add<Lasting>(e);
        net.settle();
        const NetId second = net.server.net_id(e);
        CHECK(second != first);
        CHECK_FALSE(net.peer.client->entity(first));
        CHECK(named() == net.shown(e));
        net.server.view(net.peer.id).hide(e);
        net.settle();
        CHECK(net.frozen(e));
        CHECK(named() == net.shown(e)); // it is there, if only as it was
        net.world.remove<Lasting>(e);
        net.settle();
        CHECK_FALSE(net.peer.client->entity(second));
        CHECK_FALSE(net.alive(e));
        CHECK(named() == Entity{});
        net.world.add<Lasting>(e);
        net.world.destroy(e); // in one tick
        net.settle();
        CHECK(net.peer.world->entity_count() == 1);
    }

    TEST_CASE("lasting: one from the start is sent once though nobody may see it, and then not until somebody does") {
        Net net({}, {.loss_percent = 40});
        net.server.view(net.peer.id).hide_all();
        const Entity e = net.world.spawn(Health{1, false}, Lasting{.from_start = true}, VisibleTo{.any_of = 1}, Replicated{});
        const Entity later = net.world.spawn(Health{1, false}, Lasting{}, VisibleTo{.any_of = 1}, Replicated{});
        const Entity far = net.world.spawn(Place{500, 0}, Health{1, false}, Lasting{.from_start = true}, Replicated{});
        net.settle();
        CHECK(net.hp(e) == 1);
        CHECK(net.frozen(e));
        CHECK_FALSE(net.alive(later));
        CHECK_FALSE(net.alive(far)); // interest counts
        net.world.mut<Health>(e)->hp = 2;
        CHECK(net.messages(20) == 0);
        CHECK(net.hp(e) == 1);
        net.server.view(net.peer.id).look_at(480, 0, {.radius = 60});
        net.settle();
        CHECK(net.frozen(far));
        net.server.view(net.peer.id).show_all();
        net.server.view(net.peer.id).set_layers(1);
        net.settle();
        CHECK(net.hp(e) == 2);
        CHECK(net.hp(later) == 1);
        for (const Entity seen : {e, later, far})
            CHECK_FALSE(net.frozen(seen));
        CHECK(net.peer.client->stats().despawns == 0);
    }

    TEST_CASE("lasting: beyond lasting_max further ones are not shown, until others end") {
        Net net({.lasting_max = 2});
        std::vector<Entity> all;
        for (int i = 0; i < 3; ++i)
            all.push_back(net.world.spawn(Health{i, false}, Lasting{}, Replicated{}));
        const Entity plain = net.world.spawn(Health{9, false}, Replicated{});
        CHECK((net.step().limits & limit_lasting) != 0);
        net.settle();
        CHECK(net.peer.world->entity_count() == 3);
        CHECK(net.alive(plain));
        net.world.destroy(all[0]);
        net.settle();
        CHECK((net.step().limits & limit_lasting) == 0);
        net.settle();
        CHECK(net.hp(all[1]) == 1);
        CHECK(net.hp(all[2]) == 2);
    }

    TEST_CASE("lasting: a client that leaves and comes again starts without") {
        Net net;
        const Entity e = net.world.spawn(Health{1, false}, Lasting{}, Replicated{});
        net.settle();
        net.server.disconnect(net.peer.id);
        net.peer.left = true;
        auto& next = net.connect();
        while (!net.server.joined(next.id))
            net.step();
        net.server.view(next.id).hide(e);
        net.steps(5);
        net.world.destroy(e);
        net.steps(5);
        CHECK(next.world->entity_count() == 0);
        CHECK(net.server.settled(next.id));
        CHECK(net.client_errors == 0);
    }
}
