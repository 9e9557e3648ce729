// Clusters of related entities at the server: what they cost, and that it does not matter who computes them.
#include "src/server/state.hpp"
#include "tests/support/replication_world.hpp"
#include "throng/executor.hpp"
#include <doctest/doctest.h>
#include <random>

using namespace throng;
using throng_test::Health;
using throng_test::Link;
using throng_test::Place;
using throng_test::ReplicationWorld;

namespace {

std::unique_ptr<Protocol> related_protocol() {
    auto protocol = std::make_unique<Protocol>();
    const Range map{-1000, 1000, 0.01};
    protocol->component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
    protocol->component<Health>("health").field(&Health::hp).field(&Health::angry);
    protocol->component<Link>("link").field(&Link::target).related(&Link::target);
    REQUIRE(protocol->finish() == Error::none);
    return protocol;
}

/// Entities that walk about and find others to be related to.
struct Relating {
    explicit Relating(const ServerConfig& config) : net(config, {}, related_protocol()) {
        for (u32 i = 0; i < 200; ++i)
            all.push_back(net.world.spawn(Place{at(), at()}, Health{1, false}, Link{}, Replicated{}));
        for (u32 i = 0; i < 3; ++i)
            net.connect({.loss_percent = 10});
        net.steps(3);
        for (const auto& peer : net.peers)
            net.server.view(peer->id).look_at(0, 0, {.radius = 80});
    }
    float at() { return static_cast<float>(random() % 200) - 100.0f; }
    u32 random() { return static_cast<u32>(generator()); }
    const TickReport& step() {
        for (u32 i = 0; i < 10; ++i) {
            Place& place = *net.world.mut<Place>(all[random() % 200]);
            place.x += static_cast<float>(random() % 9) - 4.0f;
            ++net.world.mut<Health>(all[random() % 200])->hp;
        }
        for (u32 i = 0; i < 4; ++i)
            net.world.mut<Link>(all[random() % 200])->target = random() % 3 ? all[random() % 200] : Entity{};
        return net.step();
    }
    std::mt19937 generator{5};
    ReplicationWorld net;
    std::vector<Entity> all;
};

} // namespace

TEST_SUITE("server") {
    TEST_CASE("clusters: links that change allocate nothing in the long run") {
        static u64 allocations;
        allocations = 0;
        const Allocator counted{
            [](void*, std::size_t bytes, std::size_t alignment) {
                ++allocations;
                return default_allocator().allocate(bytes, alignment);
            },
            [](void*, void* memory, std::size_t bytes, std::size_t alignment) { default_allocator().free(memory, bytes, alignment); }};
        Relating game({.allocator = counted});
        u32 formers = 0;
        for (u32 i = 0; i < 1500; ++i) {
            game.step();
            formers += game.net.server.state().former_chunks.size();
        }
        CHECK(formers > 1000);
        const u64 before = allocations;
        for (u32 i = 0; i < 300; ++i)
            game.step();
        CHECK(allocations - before < 10); // as many as new chunks and longer rings take
        CHECK(game.net.server.state().former_chunks.size() < 200);
    }

    TEST_CASE("clusters: members lie in the chunk of their root, and masks say so") {
        Relating game({});
        const ServerState& state = game.net.server.state();
        for (u32 i = 0; i < 200; ++i) {
            game.step();
            for (const Entity e : game.all) {
                const Slot& slot = state.slots[e.entity_idx];
                REQUIRE(slot.place != no_slot);
                const u32 cluster = state.relations.cluster_of(e.entity_idx);
                const bool together = cluster != RelationGraph::none && !state.relations.too_large(cluster);
                REQUIRE(goes_with_cluster(state, slot) == together);
                if (!together)
                    continue;
                const ChunkClusters& clusters = *state.mirror.chunk(slot.place / lane_count).clusters;
                u64 lanes = 0;
                state.relations.each_member(cluster, [&](u32 member) {
                    REQUIRE(state.slots[member].place / lane_count == slot.place / lane_count);
                    lanes |= u64(1) << state.slots[member].place % lane_count;
                });
                REQUIRE(clusters.mates[slot.place % lane_count] == lanes);
                REQUIRE(root_of(state, e.entity_idx) == state.relations.root(cluster));
            }
        }
    }

    TEST_CASE("clusters: the same bytes for any number of workers") {
        const auto executor = make_threads_executor(4);
        Relating serial({}), threads({.executor = executor.get()});
        for (u32 i = 0; i < 150; ++i) {
            const TickReport &a = serial.step(), &b = threads.step();
            REQUIRE(a.bytes == b.bytes);
            REQUIRE(a.keys == b.keys);
            REQUIRE(a.sent_lanes == b.sent_lanes);
            REQUIRE(a.limits == b.limits);
        }
        for (u32 p = 0; p < 3; ++p)
            CHECK(serial.net.peers[p]->world->entity_count() == threads.net.peers[p]->world->entity_count());
    }
}
