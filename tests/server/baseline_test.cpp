// How soon lanes get a baseline, and keep it: what a moving view, a short ring and a budget must not prevent.
#include "src/server/state.hpp"
#include "tests/support/replication_world.hpp"
#include <bit>
#include <doctest/doctest.h>
#include <map>

using namespace throng;
using namespace throng_test;

namespace {

constexpr LinkConfig slow_link{.delay_us = 140'000}; // three ticks each way

/// Lanes that the client is meant to see, and those of them that it holds with a baseline.
struct Held {
    int visible = 0, held = 0;
};
Held count_held(Server& server, ClientId id) {
    Held sum;
    for (const ClientChunk& view : server.state().clients[id].chunks) {
        sum.visible += std::popcount(view.visible);
        sum.held += std::popcount(view.visible & view.known & ~view.limbo);
    }
    return sum;
}

} // namespace

TEST_SUITE("server") {
    TEST_CASE("at the edge of a view that never rests, every lane gets a baseline after one round trip") {
        ReplicationWorld net({.cell_size = 64, .radius_min = 60});
        for (int i = 0; i < 1200; ++i)
            net.world.spawn(Place{float(i % 40) * 5 - 100, float(i / 40) * 5 - 75}, Health{i, false}, Replicated{});
        auto& peer = net.connect(slow_link, slow_link);
        net.steps(8);
        REQUIRE(net.server.joined(peer.id));
        std::map<u32, int> waiting; // place -> ticks in a row without a baseline
        int longest = 0, gained = 0;
        for (int tick = 0; tick < 80; ++tick) {
            net.server.view(peer.id).look_at(-60 + tick * 1.5, 0, {.radius = 60});
            net.step();
            for (const ClientChunk& view : net.server.state().clients[peer.id].chunks)
                for (u32 lane = 0; lane < lane_count; ++lane) {
                    const u64 bit = u64(1) << lane;
                    int& ticks = waiting[view.chunk * lane_count + lane];
                    if (!(view.visible & bit) || (view.known & ~view.limbo & bit)) {
                        gained += ticks > 0;
                        ticks = 0;
                    } else
                        longest = std::max(longest, ++ticks);
                }
        }
        CHECK(gained > 500);
        CHECK(longest <= 7); // six ticks of round trip, and the tick in which the ack is read
    }

    TEST_CASE("with a ring shorter than the round trip, lanes that rest keep their baseline beside one that moves") {
        ReplicationWorld net({.history_ticks = 2});
        const Entity mover = net.world.spawn(Place{0, 0}, Health{0, false}, Replicated{});
        for (int i = 1; i < 60; ++i)
            net.world.spawn(Place{float(i % 8), float(i / 8)}, Health{i, false}, Replicated{});
        auto& peer = net.connect(slow_link, slow_link);
        net.steps(8);
        net.server.view(peer.id).look_at(0, 0, {.radius = 60});
        u64 sent_full = 0;
        for (int tick = 0; tick < 40; ++tick) {
            net.world.mut<Health>(mover)->hp++;
            const u64 full = net.step().sent_full_lanes;
            if (tick >= 10)
                sent_full += full;
        }
        const Held now = count_held(net.server, peer.id);
        CHECK(now.visible == 60);
        CHECK(now.held >= 59);
        CHECK(sent_full <= 30); // the mover alone: its baseline is never in the ring
    }

    TEST_CASE("under a budget a joining client holds everything after its bytes and one round trip") {
        constexpr u32 budget = 600;
        ReplicationWorld net({.budget_bytes = budget});
        std::vector<Entity> all;
        for (int i = 0; i < 300; ++i)
            all.push_back(
                net.world.spawn(Place{float(i % 20) * 5 - 50, float(i / 20) * 5 - 40}, Speed{1, 0}, Health{i, false}, Replicated{}));
        auto& peer = net.connect(slow_link, slow_link);
        net.steps(8);
        net.server.view(peer.id).follow(all[150], {.radius = 60});
        u64 bytes = 0;
        int ticks = 0;
        for (bool loaded = false; !loaded && ticks < 100; ++ticks) {
            for (int i = 0; i < 100; ++i)
                net.world.mut<Place>(all[static_cast<std::size_t>(i)])->x += 0.1f;
            net.world.mut<Place>(all[150])->x += 0.25f;
            bytes += net.step().bytes;
            const Held now = count_held(net.server, peer.id);
            loaded = now.visible > 200 && now.held * 20 >= now.visible * 19;
        }
        CHECK(ticks <= static_cast<int>(bytes / budget) + 8);
        CHECK(bytes < u64(budget) * static_cast<u64>(ticks + 2));
    }
}
