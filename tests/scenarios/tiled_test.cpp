#include "bench/traces/tiled.hpp"
#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>

using namespace scenarios;

/// Three that drive along x at 10 m/s, one of them only in the middle; 10 frames at 20 Hz.
static Trace small_trace() {
    Trace t;
    t.entity_count = 3;
    t.frame_s = 0.05;
    for (std::uint32_t f = 0; f < 10; ++f) {
        t.time_s.push_back(f * 0.05);
        t.begin.push_back(t.sample_count());
        for (std::uint32_t id = 0; id < 3; ++id) {
            if (id == 2 && (f < 3 || f > 6))
                continue;
            t.id.push_back(id);
            t.x.push_back(static_cast<float>(f) * 0.5f);
            t.y.push_back(static_cast<float>(id) * 10);
            t.z.push_back(1);
            t.heading.push_back(0);
            t.speed.push_back(10);
        }
    }
    t.begin.push_back(t.sample_count());
    return t;
}

TEST_SUITE("scenarios") {
    TEST_CASE("tiles: events and states agree, the count is capped, everything lies inside the world") {
        const Trace trace = small_trace();
        TiledConfig config;
        config.entity_count = 500;
        config.seed = 3;
        TiledTrace tiles(trace, config);
        CHECK(tiles.tile_count() > 150);
        const throng::ExecutorHandle serial = throng::make_serial_executor();
        std::vector<char> there(500, 0);
        std::uint32_t left = 0;
        for (int tick = 0; tick < 60; ++tick) {
            tiles.advance(tick * 0.05, *serial);
            for (const std::uint32_t slot : tiles.went()) {
                CHECK(there[slot] == 1);
                there[slot] = 0;
                ++left;
            }
            for (const std::uint32_t slot : tiles.came()) {
                CHECK(there[slot] == 0);
                there[slot] = 1;
            }
            CHECK(tiles.present_count() <= 500);
            CHECK(tiles.present_count() > 400);
            CHECK(static_cast<std::uint32_t>(std::count(there.begin(), there.end(), 1)) == tiles.present_count());
            for (std::uint32_t slot = 0; slot < 500; ++slot) {
                CHECK(tiles.present(slot) == (there[slot] != 0));
                const TiledTrace::State& s = tiles.state(slot);
                CHECK(std::fabs(s.x) <= tiles.half_edge_m() + 0.01);
                CHECK(std::fabs(s.z) <= tiles.half_edge_m() + 0.01);
            }
        }
        CHECK(left > 500); // every tile has wrapped several times
        CHECK(tiles.half_edge_m() < 8192);
    }

    TEST_CASE("tiles: between two frames the position is interpolated; on a frame it is the recording's") {
        const Trace trace = small_trace();
        TiledConfig config;
        config.entity_count = 2;
        const throng::ExecutorHandle serial = throng::make_serial_executor();
        TiledTrace whole(trace, config), half(trace, config);
        for (int tick = 0; tick < 6; ++tick) {
            whole.advance(tick * 0.05, *serial);
            half.advance(tick * 0.05, *serial);
            const float x = whole.state(0).x, y = whole.state(0).y;
            CHECK(y == 1.0f);
            half.advance(tick * 0.05 + 0.025, *serial);
            const float step = half.state(0).x - x;
            // Half a frame is 0.25 m; a tile that is in its last frame holds still.
            CHECK((std::fabs(step - 0.25f) < 1e-4f || std::fabs(step) < 1e-4f));
        }
    }

    TEST_CASE("tiles: the same for any executor, another for another seed") {
        const Trace trace = small_trace();
        TiledConfig config;
        config.entity_count = 300;
        const throng::ExecutorHandle serial = throng::make_serial_executor(), threads = throng::make_threads_executor(3);
        TiledTrace a(trace, config), b(trace, config);
        config.seed = 2;
        TiledTrace c(trace, config);
        bool differs = false;
        for (int tick = 0; tick < 40; ++tick) {
            a.advance(tick * 0.033, *serial);
            b.advance(tick * 0.033, *threads);
            c.advance(tick * 0.033, *serial);
            CHECK(std::equal(a.came().begin(), a.came().end(), b.came().begin(), b.came().end()));
            CHECK(std::equal(a.went().begin(), a.went().end(), b.went().begin(), b.went().end()));
            for (std::uint32_t slot = 0; slot < 300; ++slot) {
                CHECK(a.state(slot).x == b.state(slot).x);
                CHECK(a.state(slot).vx == b.state(slot).vx);
                differs = differs || a.state(slot).x != c.state(slot).x;
            }
        }
        CHECK(differs);
    }
}
