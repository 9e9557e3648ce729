// UpdatePriority and View::set_priority beyond what the conformance tests state: sharing, limits, values.
#include "tests/support/replication_world.hpp"
#include <cmath>
#include <doctest/doctest.h>
#include <limits>

namespace {

using namespace throng;
using throng_test::Health;

struct Net : throng_test::ReplicationWorld {
    Peer& join() {
        Peer& peer = connect();
        steps(6);
        CHECK(server.joined(peer.id));
        return peer;
    }
    void settle() {
        steps(10);
        for (const auto& peer : peers)
            CHECK(server.settled(peer->id));
    }
};

static_assert(update_period_log2(1) == 0 && update_period_log2(7) == 0);
static_assert(update_period_log2(0.99f) == 1 && update_period_log2(0.5f) == 1);
static_assert(update_period_log2(0.26f) == 2 && update_period_log2(0.25f) == 2 && update_period_log2(0.24f) == 3);
static_assert(update_period_log2(0) == 6 && update_period_log2(-3) == 6 && update_period_log2(0.001f) == 6);

TEST_SUITE("server") {
    TEST_CASE("a priority that is not a number counts as the lowest") {
        CHECK(update_period_log2(std::numeric_limits<float>::quiet_NaN()) == update_period_log2_max);
        CHECK(update_period_log2(std::numeric_limits<float>::infinity()) == 0);
    }

    TEST_CASE("entities of low priority are encoded once for all clients") {
        Net net;
        for (int i = 0; i < 5; ++i)
            net.join();
        std::vector<Entity> slow;
        for (int i = 0; i < 20; ++i)
            slow.push_back(net.world.spawn(Health{i, false}, UpdatePriority{0.25f}, Replicated{}));
        net.settle();
        u64 encodes = 0, lanes = 0;
        for (int tick = 0; tick < 40; ++tick) {
            for (const Entity e : slow)
                ++net.world.mut<Health>(e)->hp;
            const TickReport& report = net.step();
            encodes += report.encodes;
            lanes += report.sent_lanes;
        }
        CHECK(lanes == 10 * 20 * 5);
        CHECK(encodes == 10);
    }

    TEST_CASE("a client has room for so many priorities, without those of entities that are no more") {
        Net net;
        auto& peer = net.join();
        View view = net.server.view(peer.id);
        std::vector<Entity> all;
        for (u32 i = 0; i <= View::priorities_max; ++i)
            all.push_back(net.world.spawn(Health{1, false}, Replicated{}));
        for (u32 i = 0; i < View::priorities_max; ++i)
            CHECK(view.set_priority(all[i], 0.5f));
        CHECK(!view.set_priority(all.back(), 0.5f));
        CHECK(view.set_priority(all[3], 0.25f)); // it has one
        net.world.destroy(all[0]);
        CHECK(view.set_priority(all.back(), 0.5f));
        CHECK(!view.set_priority(net.world.spawn(Replicated{}), 0.5f));
    }

    TEST_CASE("an entity keeps its turns in another cell, and gives up a slot without leaving a priority behind") {
        Net net;
        auto& peer = net.join();
        net.server.view(peer.id).look_at(0, 0, {.radius = 500});
        const Entity e = net.world.spawn(throng_test::Place{0, 0}, Health{1, false}, UpdatePriority{0.125f}, Replicated{});
        net.settle();
        net.world.mut<throng_test::Place>(e)->x = 100;
        net.settle();
        u64 lanes = 0;
        for (int tick = 0; tick < 32; ++tick) {
            ++net.world.mut<Health>(e)->hp;
            lanes += net.step().sent_lanes;
        }
        CHECK(lanes == 4);
        net.world.destroy(e);
        const Entity next = net.world.spawn(throng_test::Place{100, 0}, Health{1, false}, Replicated{});
        net.settle();
        lanes = 0;
        for (int tick = 0; tick < 8; ++tick) {
            ++net.world.mut<Health>(next)->hp;
            lanes += net.step().sent_lanes;
        }
        CHECK(lanes == 8);
    }
}

} // namespace
