// Many clients, each with a world of its own: nothing is shared, and nobody pays for the others.
#include "src/server/state.hpp"
#include "tests/sim/random.hpp"
#include "tests/support/replication_world.hpp"
#include <doctest/doctest.h>
#include <set>
#include <tuple>

using namespace throng;
using namespace throng_test;

TEST_SUITE("server") {
    TEST_CASE("a thousand clients that see nothing in common: one encoding a distinct key, and bytes by what each sees") {
        constexpr u32 clients = 1000, side = 32, ticks = 12;
        constexpr u32 seen[] = {0, 1, 4, 16}; // entities, by client modulo 4
        ReplicationWorld net({.cell_size = 32, .radius_min = 15, .heartbeat_ticks = 0, .compression = Compression::never},
                             {.client_max = clients});
        std::vector<Entity> entities;
        std::vector<u32> first; // entity of each client
        for (u32 i = 0; i < clients; ++i) {
            const float x = static_cast<float>(i % side) * 60 - 930, z = static_cast<float>(i / side) * 60 - 930;
            first.push_back(static_cast<u32>(entities.size()));
            for (u32 k = 0; k < seen[i % 4]; ++k)
                entities.push_back(
                    net.world.spawn(Place{x + static_cast<float>(k % 4), z + static_cast<float>(k / 4)}, Health{}, Replicated{}));
            net.connect();
        }
        const auto all_joined = [&] {
            return std::all_of(net.peers.begin(), net.peers.end(), [&](const auto& peer) { return net.server.joined(peer->id); });
        };
        for (int i = 0; i < 10 && !all_joined(); ++i)
            net.step();
        REQUIRE(all_joined());
        for (u32 i = 0; i < clients; ++i)
            net.server.view(net.peers[i]->id).look_at(i % side * 60.0 - 930, i / side * 60.0 - 930, {.radius = 15});
        net.steps(8);
        std::vector<ClientTraffic> before;
        for (const auto& peer : net.peers)
            before.push_back(net.server.client_report(peer->id).total);
        throng_sim::Random random(6);
        for (u32 tick = 0; tick < ticks; ++tick) {
            for (const Entity e : entities)
                net.world.mut<Health>(e)->hp = static_cast<int>(random.next() >> 33);
            const TickReport& report = net.step();
            std::set<std::tuple<u32, Tick, u64, bool, u64>> distinct;
            net.server.state().keys.each([&](const Key& key) {
                distinct.insert({key.chunk, key.baseline, key.lanes, key.full, key.sees});
            });
            CHECK(report.keys == distinct.size());
            CHECK(report.encodes == distinct.size());
            CHECK(report.encodes >= clients * 3 / 4); // of those who see something, none shares with another
            CHECK(report.shared_bytes == 0);
            CHECK(report.sent_lanes == entities.size());
        }
        u32 wrong = 0;
        u64 bytes_of[4] = {};
        for (u32 i = 0; i < clients; ++i) {
            const u32 count = seen[i % 4];
            const ClientTraffic now = net.server.client_report(net.peers[i]->id).total;
            const u64 bytes = now.bytes - before[i].bytes;
            bytes_of[i % 4] += bytes;
            wrong += net.peers[i]->world->entity_count() != count;
            // A value has 31 bits; a section its head, a message its own. Spots on the border of a cell have several of them.
            wrong += bytes < u64(count) * ticks * 3 || bytes > u64(count) * ticks * 5 + u64(count != 0) * ticks * 60;
            wrong += count == 0 && bytes != 0;
            for (u32 k = 0; k < count; ++k) {
                const Entity e = entities[first[i] + k], there = net.peers[i]->client->entity(net.server.net_id(e));
                const Health* const health = net.peers[i]->world->get<Health>(there);
                wrong += !health || health->hp != net.world.get<Health>(e)->hp;
            }
        }
        CHECK(wrong == 0);
        CHECK(bytes_of[0] == 0);
        // Per tick and client: a part that does not grow with what it sees, and 4 to 5 bytes for each entity.
        CHECK(bytes_of[3] - bytes_of[1] > u64(16 - 1) * 4 * ticks * (clients / 4));
        CHECK(bytes_of[3] - bytes_of[1] < u64(16 - 1) * 5 * ticks * (clients / 4));
        CHECK(bytes_of[1] < u64(30) * ticks * (clients / 4));
        CHECK(net.client_errors == 0);
    }
}
