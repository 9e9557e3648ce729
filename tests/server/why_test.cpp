// Server::why: one case for each reason, and what an entity last cost a client.
#include "tests/support/replication_world.hpp"
#include <cstring>
#include <doctest/doctest.h>
#include <random>
#include <set>

using namespace throng;
using namespace throng_test;

namespace {

constexpr LinkConfig lost{.loss_percent = 100};
constexpr LinkConfig narrow{.mtu_bytes = 9}; // the backend refuses all state

struct Net : ReplicationWorld {
    explicit Net(ServerConfig config = plain(), LoopbackConfig links = {})
        : ReplicationWorld(config, links, make_protocol(2000, true)), peer(connect()) {
        while (!server.joined(peer.id))
            step();
    }
    static ServerConfig plain() { return {.heartbeat_ticks = 0, .compression = Compression::never}; }
    void settle() {
        for (int i = 0; i < 200 && (i < 3 || !server.settled(peer.id)); ++i)
            step();
        REQUIRE(server.settled(peer.id));
    }
    void down(const LinkConfig& link) { network.set_link(peer.id, Direction::down, link); }
    View view() { return server.view(peer.id); }
    Why why(Entity entity) const { return server.why(entity, peer.id); }
    Entity spawn(int hp = 1) { return world.spawn(Health{hp, false}, Replicated{}); }
    Peer& peer;
};

#define CHECK_WHY(answer, expected_reason, expected_cause)                                                                                 \
    CHECK_MESSAGE((answer).reason == WhyReason::expected_reason, to_string((answer).reason));                                              \
    CHECK_MESSAGE((answer).cause == WhyReason::expected_cause, to_string((answer).cause))

} // namespace

TEST_SUITE("server") {
    TEST_CASE("why: each reason has words of its own") {
        std::set<std::string> words;
        for (u32 reason = 0; reason < why_reason_count; ++reason)
            words.insert(to_string(static_cast<WhyReason>(reason)));
        CHECK(words.size() == why_reason_count);
        CHECK_FALSE(words.contains(""));
        CHECK(std::string(to_string(WhyReason::current)) == "current"); // the last one
        CHECK(std::string(to_string(static_cast<WhyReason>(99))).empty());
    }

    TEST_CASE("why: not alive, not replicated, and replicated since the last tick") {
        Net net;
        CHECK_WHY(net.why(Entity{}), not_alive, not_alive);
        const Entity plain = net.world.spawn(Health{1, false});
        net.step();
        CHECK_WHY(net.why(plain), not_replicated, not_replicated);
        net.world.add<Replicated>(plain);
        CHECK_WHY(net.why(plain), next_tick, next_tick);
        net.settle();
        CHECK_WHY(net.why(plain), current, current);
        net.world.destroy(plain);
        CHECK_WHY(net.why(plain), not_alive, not_alive);
    }

    TEST_CASE("why: no lane") {
        ServerConfig config = Net::plain();
        config.chunks_max = 1;
        Net net(config);
        std::vector<Entity> all;
        for (int i = 0; i < 65; ++i)
            all.push_back(net.spawn());
        net.settle();
        CHECK_WHY(net.why(all[63]), current, current);
        CHECK_WHY(net.why(all[64]), no_lane, no_lane);
        CHECK_FALSE(net.why(all[64]).net_id);
        net.world.destroy(all[0]);
        net.settle();
        CHECK_WHY(net.why(all[64]), current, current);
    }

    TEST_CASE("why: clients that are not connected, have not joined, or have done so since the last tick") {
        Net net;
        const Entity e = net.spawn();
        net.settle();
        CHECK_WHY(net.server.why(e, 77), not_connected, not_connected);
        auto& late = net.connect();
        CHECK_WHY(net.server.why(e, late.id), not_connected, not_connected);
        net.server.receive(net.now_us += 50'000);
        CHECK_WHY(net.server.why(e, late.id), not_joined, not_joined);
        net.server.tick(net.now_us);
        REQUIRE(late.client->receive(net.now_us) == Error::none);
        REQUIRE(late.client->send(net.now_us) == Error::none);
        net.server.receive(net.now_us += 50'000);
        REQUIRE(net.server.joined(late.id));
        CHECK_WHY(net.server.why(e, late.id), next_tick, next_tick);
        net.server.tick(net.now_us);
        CHECK_WHY(net.server.why(e, late.id), in_flight, in_flight);
    }

    TEST_CASE("why: no view, out of the radius, and a view that was set since the last tick") {
        Net net;
        const Entity near = net.world.spawn(Place{30, 40}, Replicated{}), far = net.world.spawn(Place{300, 0}, Replicated{}),
                     placeless = net.spawn();
        net.settle();
        CHECK_WHY(net.why(near), no_view, no_view);
        CHECK(net.why(near).radius == 0);
        CHECK_WHY(net.why(placeless), current, current);
        net.view().look_at(0, 0, {.radius = 60});
        CHECK_WHY(net.why(near), next_tick, next_tick);
        net.settle();
        CHECK_WHY(net.why(near), current, current);
        CHECK(net.why(near).distance == doctest::Approx(50).epsilon(0.001));
        CHECK_WHY(net.why(far), out_of_radius, out_of_radius);
        CHECK(net.why(far).distance == doctest::Approx(300).epsilon(0.001));
        CHECK(net.why(far).radius == doctest::Approx(60).epsilon(0.001));
        CHECK_FALSE(net.why(far).visible);
        CHECK_FALSE(net.why(far).held);
        CHECK(net.why(placeless).radius == 0);
        // In the cell of one that is seen, and yet too far.
        const Entity beside = net.world.spawn(Place{62, 62}, Replicated{});
        net.settle();
        CHECK(net.why(beside).net_id);
        CHECK_WHY(net.why(beside), out_of_radius, out_of_radius);
        net.view().look_at(300, 0, {.radius = 60});
        CHECK_WHY(net.why(far), next_tick, next_tick);
        CHECK_WHY(net.why(near), current, current); // as of the last tick
        net.step();
        CHECK_WHY(net.why(near), leaving, out_of_radius);
        net.settle();
        CHECK_WHY(net.why(near), out_of_radius, out_of_radius);
        CHECK_WHY(net.why(far), current, current);
        net.view().follow(placeless, {.radius = 60}); // it has no place: the old one stays
        net.settle();
        CHECK_WHY(net.why(far), current, current);
    }

    TEST_CASE("why: follows what has no place yet") {
        Net net;
        const Entity placeless = net.spawn(), e = net.world.spawn(Place{1, 1}, Replicated{});
        net.view().follow(placeless, {.radius = 60});
        net.settle();
        CHECK_WHY(net.why(e), no_view, no_view);
        net.world.add<Place>(placeless, Place{0, 0});
        net.settle();
        CHECK_WHY(net.why(e), current, current);
    }

    TEST_CASE("why: hidden, not shown, refused by layers; nearness comes first, then the list, then layers") {
        Net net;
        const Entity e = net.world.spawn(Place{1, 1}, VisibleTo{.any_of = 4}, Replicated{}), other = net.spawn();
        net.view().look_at(0, 0, {.radius = 60});
        net.view().hide(e);
        net.settle();
        CHECK_WHY(net.why(e), hidden, hidden);
        net.view().show(e);
        CHECK_WHY(net.why(e), refused_by_layers, refused_by_layers);
        net.view().set_layers(4);
        CHECK_WHY(net.why(e), next_tick, next_tick);
        net.settle();
        CHECK_WHY(net.why(e), current, current);
        net.view().hide_all();
        net.view().show(other);
        net.step();
        CHECK_WHY(net.why(e), leaving, not_shown);
        net.settle();
        CHECK_WHY(net.why(e), not_shown, not_shown);
        CHECK_WHY(net.why(other), current, current);
        net.world.mut<Place>(e)->x = 500;
        net.settle();
        CHECK_WHY(net.why(e), out_of_radius, out_of_radius);
    }

    TEST_CASE("why: leaving until the client has acknowledged it") {
        Net net;
        const Entity e = net.spawn();
        net.settle();
        net.view().hide(e);
        CHECK_WHY(net.why(e), current, current); // as of the last tick
        net.down(lost);
        net.step();
        Why why = net.why(e);
        CHECK_WHY(why, leaving, hidden);
        CHECK_FALSE(why.visible);
        CHECK_FALSE(why.held);
        CHECK(why.last_sections.carried); // as gone
        net.steps(5);
        CHECK_WHY(net.why(e), leaving, hidden);
        net.down({});
        net.settle();
        CHECK_WHY(net.why(e), hidden, hidden);
    }

    TEST_CASE("why: Lasting entities are frozen out of sight, and those beyond lasting_max are not shown") {
        ServerConfig config = Net::plain();
        config.lasting_max = 1;
        Net net(config);
        const Entity first = net.world.spawn(Health{1, false}, Lasting{}, Replicated{});
        net.settle();
        const Entity second = net.world.spawn(Health{1, false}, Lasting{}, Replicated{}), plain = net.spawn();
        net.settle();
        CHECK_WHY(net.why(first), current, current);
        CHECK_WHY(net.why(second), lasting_limit, lasting_limit);
        CHECK_WHY(net.why(plain), current, current);
        net.view().hide(first);
        net.step();
        CHECK_WHY(net.why(first), frozen, hidden);
        CHECK(net.why(first).held);
        CHECK_FALSE(net.why(first).visible);
        net.settle();
        CHECK_WHY(net.why(first), frozen, hidden);
        CHECK(net.peer.client->frozen(net.peer.client->entity(net.server.net_id(first))));
        net.world.destroy(first);
        net.settle();
        CHECK_WHY(net.why(second), current, current);
    }

    TEST_CASE("why: in flight until it is acknowledged; in limbo when what carried it was lost and it cannot go again") {
        Net net;
        net.settle();
        net.down(lost);
        const Entity e = net.spawn();
        net.step();
        Why why = net.why(e);
        CHECK_WHY(why, in_flight, in_flight);
        CHECK(why.visible);
        CHECK(why.held);
        CHECK(why.net_id == net.server.net_id(e));
        net.down(narrow);
        for (int i = 0; i < 100 && net.why(e).reason == WhyReason::in_flight; ++i)
            net.step();
        why = net.why(e);
        CHECK_WHY(why, limbo, backend_refused);
        CHECK(why.held);
        net.down({});
        net.step();
        CHECK_WHY(net.why(e), in_flight, in_flight);
        net.step();
        CHECK_WHY(net.why(e), current, current);
    }

    TEST_CASE("why: the backend refuses") {
        Net net;
        net.settle();
        net.down(narrow);
        const Entity e = net.spawn();
        net.step();
        Why why = net.why(e);
        CHECK_WHY(why, backend_refused, backend_refused);
        CHECK(why.visible);
        CHECK_FALSE(why.held);
        CHECK(why.last_sections.bytes == 0);
        CHECK_FALSE(why.last_sections.carried);
        net.down({});
        net.settle();
        CHECK_WHY(net.why(e), current, current);
        // The client knows its lane, for the entity that was there before.
        net.network.set_link(net.peer.id, Direction::up, lost);
        net.world.destroy(e);
        net.step();
        CHECK(net.server.client_report(net.peer.id).leaving == 1);
        net.down(narrow);
        const Entity next = net.spawn();
        net.step();
        why = net.why(next);
        CHECK_WHY(why, backend_refused, backend_refused);
        CHECK_FALSE(why.held);
        CHECK_FALSE(why.last_sections.carried);
        CHECK(net.server.client_report(net.peer.id).held == 0);
        CHECK(net.server.client_report(net.peer.id).unsent == 1);
        CHECK(net.server.component_report<Health>().held == 0);
        net.down({});
        net.network.set_link(net.peer.id, Direction::up, {});
        net.settle();
        CHECK_WHY(net.why(next), current, current);
    }

    TEST_CASE("why: behind, for how long, and what the newest state waits for") {
        Net net;
        const Entity e = net.spawn(), rests = net.spawn();
        net.settle();
        net.down(lost);
        net.world.mut<Health>(e)->hp = 2;
        net.step();
        Why why = net.why(e);
        CHECK_WHY(why, behind, in_flight);
        CHECK(why.behind_ticks == 1);
        CHECK(why.held);
        CHECK_WHY(net.why(rests), current, current);
        CHECK(net.why(rests).behind_ticks == 0);
        net.steps(3);
        CHECK(net.why(e).behind_ticks == 4);
        net.down(narrow);
        net.world.mut<Health>(e)->hp = 3;
        net.step();
        why = net.why(e);
        CHECK_WHY(why, behind, backend_refused);
        CHECK(why.behind_ticks == 5);
        CHECK_FALSE(why.last_sections.carried);
        net.down({});
        net.settle();
        CHECK_WHY(net.why(e), current, current);
    }

    TEST_CASE("why: the budget") {
        ServerConfig config = Net::plain();
        config.budget_bytes = 40;
        Net net(config);
        std::vector<Entity> all;
        for (int i = 0; i < 192; ++i)
            all.push_back(net.spawn(i * 7919));
        net.step();
        CHECK_WHY(net.why(all[0]), in_flight, in_flight);
        CHECK_WHY(net.why(all[191]), budget, budget);
        CHECK(net.why(all[191]).visible);
        CHECK_FALSE(net.why(all[191]).held);
        net.settle();
        for (const Entity e : all) {
            CHECK_WHY(net.why(e), current, current);
            net.world.mut<Health>(e)->hp ^= 0x5a5a5a5a;
        }
        net.step();
        int waiting = 0;
        for (const Entity e : all)
            waiting += net.why(e).reason == WhyReason::behind && net.why(e).cause == WhyReason::budget;
        CHECK(waiting >= 128); // two chunks of three at least
        CHECK(waiting == int(net.server.client_report(net.peer.id).unsent));
        net.settle();
        CHECK_WHY(net.why(all[0]), current, current);
    }

    TEST_CASE("why: its priority, for all or for the one client") {
        Net net;
        const Entity e = net.spawn(1);
        net.world.add<UpdatePriority>(e, UpdatePriority{0});
        net.settle();
        REQUIRE(net.server.current_tick() % update_period_max < 60); // its turn is not soon
        net.world.mut<Health>(e)->hp = 2;
        net.step();
        CHECK_WHY(net.why(e), behind, priority);
        net.world.remove<UpdatePriority>(e);
        net.step(); // what waited need not any more
        CHECK_WHY(net.why(e), behind, in_flight);
        net.settle();
        CHECK_WHY(net.why(e), current, current);
        REQUIRE(net.server.view(net.peer.id).set_priority(e, 0));
        REQUIRE(net.server.current_tick() % update_period_max < 60);
        net.world.mut<Health>(e)->hp = 3;
        net.step();
        CHECK_WHY(net.why(e), behind, priority);
        net.server.view(net.peer.id).clear_priority(e);
        net.step();
        CHECK_WHY(net.why(e), behind, in_flight);
    }

    TEST_CASE("why: larger than any message") {
        LoopbackConfig links;
        links.reliable_bytes_max = 1400;
        Net net(Net::plain(), links);
        const Entity small = net.world.spawn(Name{"small"}, Replicated{});
        const Entity large = net.world.spawn(Name{std::string(1800, 'x')}, Replicated{});
        net.step();
        CHECK_WHY(net.why(large), oversize, oversize);
        CHECK_FALSE(net.why(large).held);
        CHECK_FALSE(net.why(large).last_sections.carried);
        CHECK_WHY(net.why(small), in_flight, in_flight);
        CHECK(net.why(small).last_sections.carried);
        CHECK(net.why(small).last_sections.lanes == 1);
        net.steps(3);
        CHECK_WHY(net.why(small), current, current);
        CHECK_WHY(net.why(large), oversize, oversize);
        net.world.mut<Name>(large)->text = "not so large";
        net.settle();
        CHECK_WHY(net.why(large), current, current);
        net.world.mut<Name>(large)->text = std::string(1800, 'y');
        net.step();
        CHECK_WHY(net.why(large), behind, oversize);
    }

    TEST_CASE("why: what the sections of its chunk last cost") {
        Net net;
        std::vector<Entity> all;
        for (int i = 0; i < 4; ++i)
            all.push_back(net.spawn(i));
        const TickReport first = net.step();
        Why why = net.why(all[0]);
        CHECK(why.last_sections.tick == first.tick);
        CHECK(why.last_sections.bytes == first.bytes - 8); // the head of the message
        CHECK(why.last_sections.lanes == 4);
        CHECK(why.last_sections.carried);
        net.settle();
        CHECK(net.why(all[0]).last_sections.tick == first.tick); // nothing has gone since
        for (const std::size_t i : {0u, 1u})
            net.world.mut<Health>(all[i])->hp += 1;
        const TickReport second = net.step();
        why = net.why(all[0]);
        CHECK(why.last_sections.tick == second.tick);
        CHECK(why.last_sections.bytes == second.bytes - 8);
        CHECK(why.last_sections.lanes == 2);
        CHECK(why.last_sections.carried);
        CHECK_FALSE(net.why(all[3]).last_sections.carried); // it rests
        CHECK(net.why(all[3]).last_sections.tick == second.tick);
        // A delta, a full section and one that is gone: all of one tick.
        net.settle();
        net.world.mut<Health>(all[0])->hp += 1;
        net.view().hide(all[1]);
        const Entity fifth = net.spawn(5);
        const TickReport third = net.step();
        why = net.why(fifth);
        CHECK(why.last_sections.bytes == third.bytes - 8);
        CHECK(why.last_sections.lanes == 3);
        for (const Entity e : {all[0], all[1], fifth})
            CHECK(net.why(e).last_sections.carried);
        CHECK_FALSE(net.why(all[2]).last_sections.carried);
    }

    TEST_CASE("why: where chunks_max leaves no room, for entities or for clusters, what is said holds, and is never the next tick") {
        u32 reached = 0;
        std::set<WhyReason> reasons;
        std::set<WhyCluster> clusters;
        for (u32 seed = 1; seed <= 12; ++seed) {
            CAPTURE(seed);
            auto protocol = std::make_unique<Protocol>();
            const Range map{-1000, 1000, 0.01};
            protocol->component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
            protocol->component<Health>("health").field(&Health::hp).field(&Health::angry);
            protocol->component<Link>("link").field(&Link::target).related(&Link::target);
            REQUIRE(protocol->finish() == Error::none);
            ServerConfig config = Net::plain();
            config.chunks_max = 1 + seed % 4;
            ReplicationWorld net(config, {.seed = seed}, std::move(protocol));
            const auto& peer = net.connect({.loss_percent = 10});
            while (!net.server.joined(peer.id))
                net.step();
            net.server.view(peer.id).look_at(0, 0, {.radius = 60});
            std::mt19937 random(seed);
            const auto below = [&](u32 n) { return static_cast<u32>(random() % n); };
            const auto place = [&] { return Place{static_cast<float>(below(80)) - 40, static_cast<float>(below(80)) - 40}; };
            std::vector<Entity> all;
            for (int tick = 0; tick < 120; ++tick) {
                for (u32 left = tick < 90 ? below(8) : 0; left > 0; --left) {
                    const Entity e = all.empty() ? Entity{} : all[below(static_cast<u32>(all.size()))];
                    if (!e || (all.size() < 200 && below(3) == 0))
                        all.push_back(below(3) ? net.world.spawn(place(), Health{}, Replicated{})
                                               : net.world.spawn(Health{}, Replicated{}));
                    else if (below(6) == 0) {
                        net.world.destroy(e);
                        std::erase(all, e);
                    } else if (Link* link = net.world.mut<Link>(e))
                        below(2) ? void(link->target = all[below(static_cast<u32>(all.size()))]) : void(net.world.remove<Link>(e));
                    else
                        net.world.add<Link>(e, Link{all[below(static_cast<u32>(all.size()))]});
                }
                reached |= net.step().limits;
                for (const Entity e : all) {
                    const Why why = net.server.why(e, peer.id);
                    reasons.insert(why.reason);
                    clusters.insert(why.cluster);
                    CHECK_MESSAGE(why.reason != WhyReason::next_tick, to_string(why.cause));
                    CHECK_MESSAGE(why.cause != WhyReason::next_tick, to_string(why.reason));
                    CHECK(why.visible == net.server.visible(peer.id, e));
                    CHECK((why.reason != WhyReason::no_lane || !net.server.net_id(e)));
                    if (why.reason == WhyReason::current)
                        CHECK(peer.client->entity(why.net_id));
                }
            }
            for (const Entity e : all) { // the world is still: who has a lane has arrived
                const WhyReason reason = net.server.why(e, peer.id).reason;
                CHECK((reason == WhyReason::current || reason == WhyReason::no_lane || reason == WhyReason::out_of_radius));
            }
        }
        CHECK((reached & limit_chunks) != 0);
        CHECK((reached & limit_clusters) != 0);
        for (const WhyReason reason : {WhyReason::no_lane, WhyReason::in_flight, WhyReason::current})
            CHECK(reasons.contains(reason));
        CHECK(clusters.contains(WhyCluster::together));
        CHECK(clusters.contains(WhyCluster::apart));
    }
}
