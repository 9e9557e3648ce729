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

    TEST_CASE("a settled client stays so while a heartbeat finds no room among the messages in flight") {
        ReplicationWorld net({.records_max = 16, .loss_timeout_ticks = 200, .heartbeat_ticks = 1});
        net.world.spawn(Health{1, false}, Replicated{});
        const auto& peer = net.connect();
        net.steps(10);
        REQUIRE(net.server.settled(peer.id));
        net.network.set_link(peer.id, Direction::up, {.loss_percent = 100});
        u32 limits = 0;
        for (int i = 0; i < 40; ++i) {
            limits |= net.step().limits;
            CHECK(net.server.settled(peer.id));
        }
        CHECK((limits & limit_records) != 0);
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

    TEST_CASE("of many hidden entities none is seen, and each that is shown again comes back") {
        ReplicationWorld net;
        std::vector<Entity> all;
        for (int i = 0; i < 1200; ++i)
            all.push_back(net.world.spawn(Place{float(i % 40) - 20, float(i / 40) - 15}, Replicated{}));
        auto& peer = net.connect();
        net.steps(2);
        View view = net.server.view(peer.id);
        view.look_at(0, 0, {.radius = 60});
        for (std::size_t i = 0; i < 1000; ++i)
            view.hide(all[i * 7 % 1000]); // each once, not in the order of entities
        net.steps(4);
        const auto count_shown = [&] {
            int count = 0;
            for (const Entity e : all)
                count += peer.world->alive(peer.client->entity(net.server.net_id(e)));
            return count;
        };
        CHECK(count_shown() == 200);
        for (std::size_t i = 0; i < 500; ++i)
            view.show(all[i]);
        net.steps(4);
        CHECK(count_shown() == 700);
        for (std::size_t i = 0; i < all.size(); ++i)
            CHECK(peer.world->alive(peer.client->entity(net.server.net_id(all[i]))) == (i < 500 || i >= 1000));
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
        CHECK(net.server.end_replication(target));
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

    TEST_CASE("a client with another protocol is told so, and then disconnected") {
        ReplicationWorld net;
        Protocol other;
        other.component<Health>("name").field(&Health::hp); // it is opaque at the server
        REQUIRE(other.finish() == Error::none);
        World world;
        const ClientId id = net.network.connect({}, {});
        Client client(world, other, net.network.client(id));
        bool told = false;
        for (int i = 0; i < 6; ++i) {
            net.step();
            told |= client.receive(net.now_us) == Error::wrong_protocol;
            (void)client.send(net.now_us);
        }
        CHECK(told);
        CHECK(std::string(client.problem()) == "component \"name\": opaque on one side only");
        CHECK_FALSE(net.server.joined(id));
        CHECK_FALSE(client.joined());
        for (int i = 0; i < 30; ++i) {
            net.step();
            (void)client.receive(net.now_us);
        }
        CHECK_FALSE(client.connected());
    }

    TEST_CASE("a client beyond clients_max is told that the server is full") {
        ReplicationWorld net({.clients_max = 1});
        net.connect();
        const auto& late = net.connect();
        u32 limits = 0;
        Error told = Error::none;
        for (int i = 0; i < 4; ++i) {
            limits |= net.step().limits;
            if (const Error error = late.client->receive(net.now_us); error != Error::none)
                told = error;
        }
        CHECK((limits & limit_clients) != 0);
        CHECK_FALSE(late.client->joined());
        CHECK((told == Error::limit_reached || net.client_errors > 0));
    }

    TEST_CASE("entities beyond chunks_max are left out, reported, and come when there is room") {
        ReplicationWorld net({.chunks_max = 1});
        std::vector<Entity> all;
        for (int i = 0; i < 70; ++i)
            all.push_back(net.world.spawn(Place{float(i % 8), float(i / 8)}, Replicated{}));
        const u32 limits = net.step().limits;
        CHECK((limits & limit_chunks) != 0);
        CHECK_FALSE(net.server.net_id(all[69]));
        for (int i = 0; i < 10; ++i)
            net.world.destroy(all[static_cast<std::size_t>(i)]);
        net.step();
        CHECK((net.step().limits & limit_chunks) == 0);
        CHECK(net.server.net_id(all[69]));
    }
}
