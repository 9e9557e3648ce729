#include "bench/naive/client.hpp"
#include "bench/naive/server.hpp"
#include "bench/random.hpp"
#include "throng/loopback.hpp"
#include <cmath>
#include <doctest/doctest.h>
#include <map>

using namespace scenarios;

namespace {
constexpr throng::TimeUs tick_us = 50'000;

struct Rig {
    throng::World world{throng::WorldOptions{.block_rows = 256}};
    throng::ExecutorHandle executor;
    throng::LoopbackNetwork network;
    naive::Server server;
    std::vector<std::unique_ptr<naive::Client>> clients = {};
    throng::Tick tick = 100;

    Rig(u32 count, float radius_m, u32 workers, const throng::LinkConfig& link, throng::OutputHash* hash = nullptr)
        : executor(workers == 1 ? throng::make_serial_executor() : throng::make_threads_executor(workers)),
          network([&] {
              throng::LoopbackConfig c;
              c.client_max = count;
              if (hash)
                  c.trace = hash->hook();
              return c;
          }()),
          server(world, network.server(), *executor, {.radius_m = radius_m, .client_max = count}) {
        for (u32 c = 0; c < count; ++c) {
            network.connect(link);
            clients.push_back(std::make_unique<naive::Client>(network.client(c)));
        }
    }
    naive::TickReport step() {
        ++tick;
        const throng::TimeUs now = tick * tick_us;
        server.receive(now);
        const naive::TickReport report = server.tick(tick, now);
        for (auto& c : clients)
            c->update(now);
        return report;
    }
};

/// What differs between what a client holds and what it should hold.
u32 differences(const naive::Server& server, const naive::Client& client, throng::ClientId id) {
    std::map<u32, std::pair<naive::u8, naive::State>> wanted;
    server.each_visible(id, [&](u32 entity, naive::u8 generation, const naive::State& s) { wanted[entity] = {generation, s}; });
    u32 wrong = 0;
    client.each([&](u32 entity, naive::u8 generation, const naive::State& s) {
        const auto it = wanted.find(entity);
        if (it == wanted.end() || it->second.first != generation || !(it->second.second == s))
            ++wrong;
        else
            wanted.erase(it);
    });
    return wrong + static_cast<u32>(wanted.size());
}
} // namespace

TEST_SUITE("scenarios") {
    TEST_CASE("naive: motion, churn and loss, then every client converges to the world around it") {
        for (const u64 seed : {1, 2, 3}) {
            throng::LinkConfig link;
            link.loss_percent = 10;
            link.delay_us = 75'000;
            link.jitter_us = 60'000;
            link.duplicate_percent = 3;
            Rig rig(12, 60, seed == 2 ? 2 : 1, link);
            Scenario scenario = *find_scenario("dispersed");
            scenario.entities = 1500;
            scenario.side_m = 400;
            SyntheticMotion motion(scenario, seed);
            motion.populate(rig.world, *rig.executor);
            Random random(seed);
            std::vector<throng::Entity> extra;
            u64 pairs = 0;
            for (int t = 0; t < 150; ++t) {
                motion.step(rig.world, *rig.executor);
                for (u32 c = 0; c < 12; ++c)
                    rig.server.follow(c, motion.followed(c, 12));
                for (int k = 0; k < 5; ++k) { // slots are reused at once, so generations matter
                    if (extra.size() > 40) {
                        const u32 at = random.below(static_cast<u32>(extra.size()));
                        rig.world.destroy(extra[at]);
                        extra[at] = extra.back();
                        extra.pop_back();
                    }
                    const Position place{random.uniform(-200, 200), 0, random.uniform(-200, 200)};
                    const Vitals vitals{static_cast<u16>(random.below(5000)), 1};
                    extra.push_back(rig.world.spawn(place, Heading{}, Velocity{}, vitals, throng::Replicated{}));
                }
                const naive::TickReport report = rig.step();
                pairs += report.pairs;
                CHECK(report.pairs <= report.sent_lanes);
                CHECK(report.bad_acks == 0);
            }
            CHECK(pairs > 10'000);
            u32 held = 0;
            for (const auto& c : rig.clients)
                held += c->entity_count();
            CHECK(held > 500);
            throng::LinkConfig healed;
            healed.delay_us = 50'000;
            for (u32 c = 0; c < 12; ++c)
                for (const throng::Direction d : {throng::Direction::down, throng::Direction::up})
                    rig.network.set_link(c, d, healed);
            u32 ticks = 0;
            bool settled = false;
            while (!settled && ticks < 120) {
                rig.step();
                ++ticks;
                settled = ticks > 8;
                for (u32 c = 0; c < 12; ++c)
                    settled = settled && rig.server.settled(c);
            }
            CHECK(settled);
            for (u32 c = 0; c < 12; ++c) {
                CHECK(differences(rig.server, *rig.clients[c], c) == 0);
                CHECK(rig.clients[c]->bad_messages() == 0);
            }
            const naive::TickReport idle = rig.step();
            CHECK(idle.bytes == 0); // idle is free
        }
    }

    TEST_CASE("naive: the visibility promise, entity by entity") {
        throng::LinkConfig link;
        link.delay_us = 50'000;
        Rig rig(4, 60, 1, link);
        Scenario scenario = *find_scenario("dispersed");
        scenario.entities = 1000;
        scenario.side_m = 400;
        SyntheticMotion motion(scenario, 5);
        motion.populate(rig.world, *rig.executor);
        u32 seen = 0;
        for (int t = 0; t < 60; ++t) {
            motion.step(rig.world, *rig.executor);
            for (u32 c = 0; c < 4; ++c)
                rig.server.follow(c, motion.followed(c, 4));
            rig.step();
            for (u32 c = 0; c < 4 && t > 4; ++c) {
                std::vector<char> visible(rig.world.entity_slots(), 0);
                rig.server.each_visible(c, [&](u32 entity, naive::u8, const naive::State&) {
                    visible[rig.server.world_index(entity)] = 1;
                });
                const Position center = *rig.world.get<Position>(motion.followed(c, 4));
                rig.world.each<Position>([&](u32 entity, const Position& p) {
                    const float d = std::hypot(p.x - center.x, p.z - center.z);
                    if (d < 0.85f * 60)
                        CHECK(visible[entity]);
                    if (d > 1.2f * 60)
                        CHECK(!visible[entity]);
                    seen += visible[entity] != 0;
                });
            }
        }
        CHECK(seen > 1000);
    }

    TEST_CASE("naive: the same bytes for any number of workers") {
        throng::OutputHash hashes[2];
        for (u32 k = 0; k < 2; ++k) {
            throng::LinkConfig link;
            link.loss_percent = 5;
            link.delay_us = 60'000;
            Rig rig(40, 80, k == 0 ? 1 : 3, link, &hashes[k]);
            Scenario scenario = *find_scenario("crowd");
            scenario.entities = 600;
            SyntheticMotion motion(scenario, 4);
            motion.populate(rig.world, *rig.executor);
            for (int t = 0; t < 40; ++t) {
                motion.step(rig.world, *rig.executor);
                for (u32 c = 0; c < 40; ++c)
                    rig.server.follow(c, motion.followed(c, 40));
                rig.step();
            }
        }
        CHECK(hashes[0] == hashes[1]);
        CHECK(hashes[0].low != 0);
    }

    TEST_CASE("naive: any bytes are survived on both sides") {
        throng::LoopbackConfig config;
        config.raw = true;
        throng::LoopbackNetwork network(config);
        network.connect();
        naive::Client client(network.client(0));
        throng::World world;
        const throng::ExecutorHandle serial = throng::make_serial_executor();
        throng::LoopbackNetwork other(config);
        other.connect();
        naive::Server server(world, other.server(), *serial, {});
        server.receive(1);
        Random random(11);
        u64 bad_acks = 0;
        for (int round = 0; round < 3000; ++round) {
            std::byte bytes[80];
            for (std::byte& b : bytes)
                b = static_cast<std::byte>(random.below(4) == 0 ? random.below(256) : random.below(4));
            const throng::Bytes message(bytes, random.below(80));
            client.on_message(throng::Channel::unreliable, message);
            server.on_message(0, throng::Channel::unreliable, message);
            bad_acks += server.tick(static_cast<throng::Tick>(round + 1), static_cast<throng::TimeUs>(round)).bad_acks;
        }
        CHECK(client.bad_messages() > 500);
        CHECK(bad_acks > 1000);
    }
}
