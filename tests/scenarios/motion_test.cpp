#include "bench/random.hpp"
#include "bench/scenarios.hpp"
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>

using namespace scenarios;

static u64 digest(const throng::World& world) {
    u64 sum = 0;
    world.each<Position, Heading, Velocity, Vitals>(
        [&](u32 entity, const Position& p, const Heading& h, const Velocity& v, const Vitals& life) {
            u32 bits[6];
            const float values[6] = {p.x, p.y, p.z, h.yaw, v.x, v.z};
            std::memcpy(bits, values, sizeof bits);
            u64 m = mix64(entity + u64(life.hp) * 257 + life.state);
            for (const u32 b : bits)
                m = mix64(m ^ b);
            sum += m;
        });
    return sum;
}

static Scenario small(const char* name, u32 entities) {
    Scenario s = *find_scenario(name);
    s.entities = entities;
    return s;
}

TEST_SUITE("scenarios") {
    TEST_CASE("the table") {
        CHECK(all_scenarios().size() == 9);
        const Scenario* dispersed = find_scenario("dispersed");
        REQUIRE(dispersed);
        CHECK(dispersed->movers() == 30'000);
        CHECK(find_scenario("crowd_budget")->budget_bytes == 1200);
        CHECK(find_scenario("join")->join);
        CHECK(find_scenario("nothing") == nullptr);
        u32 seen[8] = {};
        for (u32 c = 0; c < 1000; ++c) {
            const u32 rtt = rtt_ticks(*dispersed, 1, c);
            REQUIRE(rtt >= 2);
            REQUIRE(rtt <= 6);
            ++seen[rtt];
        }
        for (u32 rtt = 2; rtt <= 6; ++rtt)
            CHECK(seen[rtt] > 140);
    }

    TEST_CASE("the components make a protocol") {
        throng::Protocol protocol{throng::ProtocolConfig{}};
        add_components(protocol);
        CHECK(protocol.finish() == throng::Error::none);
        CHECK(protocol.components().size() == 4);
    }

    TEST_CASE("synthetic motion: the same for any executor, inside the map, only what changes is marked") {
        const Scenario scenario = small("dispersed", 3000);
        const throng::ExecutorHandle serial = throng::make_serial_executor(), threads = throng::make_threads_executor(3);
        throng::World a, b, other;
        SyntheticMotion ma(scenario, 7), mb(scenario, 7), mo(scenario, 8);
        ma.populate(a, *serial);
        mb.populate(b, *threads);
        mo.populate(other, *serial);
        CHECK(a.entity_count() == 3000);
        for (int tick = 0; tick < 30; ++tick) {
            a.clear_changes();
            ma.step(a, *serial);
            mb.step(b, *threads);
            mo.step(other, *serial);
        }
        CHECK(digest(a) == digest(b));
        CHECK(digest(a) != digest(other));
        u32 positions = 0, vitals = 0;
        float fastest = 0;
        const throng::Pool<Position>& pool = a.pool<Position>();
        for (u32 row = 0; row < 3000; ++row) {
            positions += pool.changed(row);
            vitals += a.pool<Vitals>().changed(row);
            CHECK(std::fabs(pool[row].x) <= scenario.side_m / 2);
            CHECK(std::fabs(pool[row].z) <= scenario.side_m / 2);
            CHECK(std::fabs(pool[row].y - 10) <= 4);
            fastest = std::max(fastest, std::fabs(a.pool<Velocity>()[row].x));
        }
        CHECK(positions == scenario.movers());
        CHECK(vitals > 20); // 2 % of 3000 is 60
        CHECK(vitals < 120);
        CHECK(fastest > 2);
        CHECK(fastest < 8);
    }

    TEST_CASE("an idle scenario changes nothing") {
        const throng::ExecutorHandle serial = throng::make_serial_executor();
        throng::World world;
        SyntheticMotion motion(small("idle", 500), 1);
        motion.populate(world, *serial);
        world.clear_changes();
        const u64 before = digest(world);
        motion.step(world, *serial);
        CHECK(digest(world) == before);
        for (u32 row = 0; row < 500; ++row)
            CHECK(!world.pool<Position>().changed(row));
        CHECK(motion.followed(1, 2) == world.entity_at(world.pool<Position>().owner(250)));
    }

    TEST_CASE("a recording moves a world; who stands still is not marked") {
        Trace trace;
        trace.entity_count = 2; // the second one stands
        trace.frame_s = 0.05;
        for (u32 f = 0; f < 40; ++f) {
            trace.time_s.push_back(f * 0.05);
            trace.begin.push_back(trace.sample_count());
            for (u32 id = 0; id < 2; ++id) {
                trace.id.push_back(id);
                trace.x.push_back(id == 0 ? static_cast<float>(f) : 3.0f);
                trace.y.push_back(static_cast<float>(id));
                trace.z.push_back(0);
                trace.heading.push_back(0);
                trace.speed.push_back(id == 0 ? 20.0f : 0.0f);
            }
        }
        trace.begin.push_back(trace.sample_count());
        const throng::ExecutorHandle serial = throng::make_serial_executor(), threads = throng::make_threads_executor(2);
        TiledConfig config;
        config.entity_count = 64;
        TraceMotion ma(trace, config, 20), mb(trace, config, 20);
        throng::World a, b;
        ma.populate(a, *serial);
        mb.populate(b, *threads);
        CHECK(a.entity_count() == 64);
        for (int tick = 0; tick < 50; ++tick) {
            a.clear_changes();
            ma.step(a, *serial);
            mb.step(b, *threads);
        }
        CHECK(digest(a) == digest(b));
        CHECK(a.entity_count() == ma.entity_count());
        u32 moved = 0;
        for (u32 row = 0; row < a.pool<Position>().size(); ++row)
            moved += a.pool<Position>().changed(row);
        CHECK(moved > 0);
        CHECK(moved < 50); // half of them stand
        const throng::Entity followed = ma.followed(3, 4);
        CHECK(a.alive(followed));
    }
}
