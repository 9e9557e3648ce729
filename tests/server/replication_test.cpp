#include "tests/support/replication_world.hpp"
#include <cmath>
#include <doctest/doctest.h>

using namespace throng;
using namespace throng_test;

TEST_SUITE("server") {
    TEST_CASE("an entity appears on a client, changes, and vanishes") {
        ReplicationWorld net;
        const Entity e = net.world.spawn(Place{10, 20}, Speed{1, 0}, Health{100, true}, Name{"Ada"}, Replicated{});
        auto& peer = net.connect();
        net.steps(2);
        REQUIRE(net.server.joined(peer.id));
        net.server.view(peer.id).look_at(0, 0, {.radius = 60});
        net.steps(3);
        const Entity shown = peer.client->entity(net.server.net_id(e));
        REQUIRE(peer.world->alive(shown));
        CHECK(peer.world->get<Place>(shown)->x == doctest::Approx(10).epsilon(0.001));
        CHECK(peer.world->get<Place>(shown)->z == doctest::Approx(20).epsilon(0.001));
        CHECK(peer.world->get<Health>(shown)->hp == 100);
        CHECK(peer.world->get<Health>(shown)->angry);
        CHECK(peer.world->get<Name>(shown)->text == "Ada");
        net.world.mut<Health>(e)->hp = -7;
        net.world.mut<Place>(e)->x = 11.5f;
        net.world.remove<Name>(e);
        net.steps(3);
        CHECK(peer.world->get<Health>(shown)->hp == -7);
        CHECK(peer.world->get<Place>(shown)->x == doctest::Approx(11.5).epsilon(0.001));
        CHECK_FALSE(peer.world->has<Name>(shown));
        net.world.destroy(e);
        net.steps(3);
        CHECK_FALSE(peer.world->alive(shown));
        CHECK(net.client_errors == 0);
        CHECK(net.server.settled(peer.id));
    }

    TEST_CASE("an idle world sends nothing, not even a heartbeat when they are off") {
        ReplicationWorld net({.heartbeat_ticks = 0});
        for (int i = 0; i < 100; ++i)
            net.world.spawn(Place{float(i), 5}, Replicated{});
        auto& peer = net.connect();
        net.steps(2);
        net.server.view(peer.id).look_at(0, 0, {.radius = 60});
        net.steps(8);
        CHECK(net.server.settled(peer.id));
        for (int i = 0; i < 5; ++i) {
            const TickReport& report = net.step();
            CHECK(report.messages == 0);
            CHECK(report.bytes == 0);
            CHECK(report.heartbeats == 0);
        }
    }

    TEST_CASE("references read as null until their target is shown") {
        ReplicationWorld net;
        const Entity target = net.world.spawn(Place{10, 0});
        const Entity holder = net.world.spawn(Place{0, 0}, Link{target}, Replicated{});
        auto& peer = net.connect();
        net.steps(2);
        net.server.view(peer.id).look_at(0, 0, {.radius = 60});
        net.steps(4);
        const Entity shown = peer.client->entity(net.server.net_id(holder));
        REQUIRE(peer.world->alive(shown));
        CHECK(peer.world->get<Link>(shown)->target == Entity{});
        net.world.add<Replicated>(target);
        net.steps(4);
        const Entity shown_target = peer.client->entity(net.server.net_id(target));
        REQUIRE(peer.world->alive(shown_target));
        CHECK(peer.world->get<Link>(shown)->target == shown_target);
        net.server.view(peer.id).hide(target);
        net.steps(4);
        CHECK_FALSE(peer.world->alive(shown_target));
        CHECK(peer.world->get<Link>(shown)->target == Entity{});
    }

    TEST_CASE("a reference follows a target that is replicated anew under another net id") {
        ReplicationWorld net;
        const Entity target = net.world.spawn(Place{10, 0}, Replicated{});
        const Entity holder = net.world.spawn(Place{0, 0}, Link{target}, Replicated{});
        auto& peer = net.connect();
        net.steps(2);
        net.server.view(peer.id).look_at(0, 0, {.radius = 60});
        net.steps(4);
        const NetId before = net.server.net_id(target);
        net.world.remove<Replicated>(target);
        net.world.add<Replicated>(target);
        net.steps(4);
        REQUIRE(net.server.net_id(target) != before);
        const Entity shown = peer.client->entity(net.server.net_id(target));
        REQUIRE(peer.world->alive(shown));
        CHECK(peer.world->get<Link>(peer.client->entity(net.server.net_id(holder)))->target == shown);
    }

    TEST_CASE("moving entities converge under loss, and the state hash agrees") {
        ReplicationWorld net({.hash_ticks = 5}, {.seed = 7});
        LinkConfig link{.loss_percent = 10, .delay_us = 80'000, .jitter_us = 60'000};
        std::vector<Entity> all;
        for (int i = 0; i < 300; ++i)
            all.push_back(net.world.spawn(Place{float(i % 20) * 10 - 100, float(i / 20) * 10 - 75},
                                          Speed{float(i % 7) - 3, float(i % 5) - 2}, Health{i, false}, Replicated{}));
        for (int i = 0; i < 3; ++i)
            net.connect(link, link);
        for (int tick = 0; tick < 200; ++tick) {
            for (auto& peer : net.peers)
                if (net.server.joined(peer->id) && tick % 50 == 10)
                    net.server.view(peer->id).follow(all[peer->id * 50], {.radius = 60});
            net.world.each_mut<Place, Speed>([&](Place& p, Speed& s) {
                p.x += s.x * 0.05f;
                p.z += s.z * 0.05f;
                if (std::abs(p.x) > 200)
                    s.x = -s.x;
                if (std::abs(p.z) > 200)
                    s.z = -s.z;
            });
            net.step();
        }
        for (auto& peer : net.peers) {
            net.network.set_link(peer->id, Direction::down, {});
            net.network.set_link(peer->id, Direction::up, {});
        }
        u64 equal = 0, different = 0;
        for (int tick = 0; tick < 40; ++tick) {
            const TickReport& report = net.step();
            equal += report.hashes_equal;
            different += report.hashes_different;
        }
        CHECK(equal > 0);
        CHECK(different == 0);
        for (auto& peer : net.peers) {
            CHECK(net.server.settled(peer->id));
            int shown = 0;
            for (const Entity e : all) {
                const Entity c = peer->client->entity(net.server.net_id(e));
                CHECK(net.server.visible(peer->id, e) == peer->world->alive(c));
                if (!peer->world->alive(c))
                    continue;
                ++shown;
                CHECK(std::abs(peer->world->get<Place>(c)->x - net.world.get<Place>(e)->x) <= 0.0051);
                CHECK(std::abs(peer->world->get<Place>(c)->z - net.world.get<Place>(e)->z) <= 0.0051);
            }
            CHECK(shown > 5);
        }
    }
}
