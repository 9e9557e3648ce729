// The same input gives the same bytes for any executor and any number of workers, and a settled world takes no memory.
#include "tests/allocation_count.hpp"
#include "tests/support/replication_world.hpp"
#include <cmath>
#include <doctest/doctest.h>

using namespace throng;
using namespace throng_test;

namespace {

void drive(World& world) {
    world.each_mut<Place, Speed>([](Place& p, Speed& s) {
        p.x += s.x * 0.05f;
        p.z += s.z * 0.05f;
        if (std::abs(p.x) > 150)
            s.x = -s.x;
        if (std::abs(p.z) > 150)
            s.z = -s.z;
    });
}

/// What goes over all links, both ways.
struct LinkBytes {
    OutputHash down, up;
    friend bool operator==(const LinkBytes&, const LinkBytes&) = default;
    TraceHook hook() {
        return {[](void* context, const TraceRecord& record) {
                    LinkBytes& self = *static_cast<LinkBytes*>(context);
                    if (record.fate == Fate::sent)
                        (record.direction == Direction::down ? self.down : self.up)
                            .add(record.time_us, record.client, record.channel, record.message);
                },
                this};
    }
};

/// Everything that is sent in a run with spawns, despawns, moves between cells, hiding, loss and a byte budget.
LinkBytes bytes_of(Executor* executor, u32 budget_bytes) {
    LinkBytes hash;
    ReplicationWorld net({.executor = executor, .budget_bytes = budget_bytes}, {.seed = 5, .trace = hash.hook()});
    std::vector<Entity> all;
    const auto spawn = [&](int i) {
        const Entity e = net.world.spawn(Place{float(i % 31) * 9 - 140, float(i % 37) * 8 - 148}, Speed{float(i % 9) - 4, float(i % 7) - 3},
                                         Health{i, i % 3 == 0}, Link{all.empty() ? Entity{} : all[all.size() / 2]}, Replicated{});
        if (i % 5 == 0)
            net.world.add<Name>(e, Name{"entity " + std::to_string(i) + " of the determinism test"});
        all.push_back(e);
    };
    for (int i = 0; i < 700; ++i)
        spawn(i);
    const LinkConfig link{.loss_percent = 5, .delay_us = 60'000, .jitter_us = 30'000};
    for (int i = 0; i < 9; ++i)
        net.connect(link, link);
    for (int tick = 0; tick < 60; ++tick) {
        for (auto& peer : net.peers)
            if (net.server.joined(peer->id) && tick == 8 + int(peer->id))
                net.server.view(peer->id).follow(all[peer->id * 70], {.radius = 60});
        if (tick % 6 == 5) {
            net.world.destroy(all[static_cast<std::size_t>(tick) * 7]);
            spawn(1000 + tick);
        }
        if (tick == 30)
            net.server.view(3).hide(all[215]);
        drive(net.world);
        const TickReport& report = net.step();
        CHECK(report.encodes == report.keys);
    }
    return hash;
}

} // namespace

TEST_SUITE("server") {
    TEST_CASE("the same bytes from serial and threads executors with 1, 2 and 4 workers") {
        for (const u32 budget : {0u, 700u}) {
            const LinkBytes expected = bytes_of(nullptr, budget);
            CHECK(expected.down.low != 0);
            CHECK(expected.up.low != 0);
            for (const u32 workers : {1u, 2u, 4u}) {
                const ExecutorHandle executor = make_threads_executor(workers);
                CHECK(bytes_of(executor.get(), budget) == expected);
            }
        }
        CHECK_FALSE(bytes_of(nullptr, 0) == bytes_of(nullptr, 700)); // the hash sees a difference
    }

    TEST_CASE("[tbb] the same bytes from oneTBB with 1, 2 and 4 workers") {
        for (const u32 budget : {0u, 700u}) {
            const LinkBytes expected = bytes_of(nullptr, budget);
            for (const u32 workers : {1u, 2u, 4u}) {
                const ExecutorHandle executor = make_tbb_executor(workers);
                CHECK(bytes_of(executor.get(), budget) == expected);
            }
        }
    }

    TEST_CASE("no allocation in steady state, sending and receiving" * doctest::skip(!throng::tests::counts_allocations)) {
        // A closed crowd that everybody sees, over lossy links: after the warm-up nothing new ever comes.
        const ExecutorHandle executor = make_threads_executor(2);
        ReplicationWorld net({.executor = executor.get(), .cell_size = 300, .radius_min = 900}, {.seed = 3});
        for (int i = 0; i < 150; ++i)
            net.world.spawn(Place{float(i % 15) * 10 - 75, float(i / 15) * 10 - 50}, Speed{float(i % 5) * 8 - 16, float(i % 3) * 8 - 8},
                            Health{i, false}, Replicated{});
        const LinkConfig link{.loss_percent = 2, .delay_us = 100'000};
        for (int i = 0; i < 4; ++i)
            net.connect(link, link);
        const auto step = [&] {
            drive(net.world);
            net.world.each_mut<Health>([](Health& h) { ++h.hp; });
            return net.step().bytes;
        };
        for (int tick = 0; tick < 12; ++tick)
            step();
        for (auto& peer : net.peers)
            net.server.view(peer->id).look_at(0, 0, {.radius = 900});
        for (int tick = 0; tick < 300; ++tick)
            step();
        const u64 before = throng::tests::allocation_count();
        u64 bytes = 0;
        for (int tick = 0; tick < 100; ++tick)
            bytes += step();
        CHECK(throng::tests::allocation_count() - before == 0);
        CHECK(bytes > 50'000);
    }
}
