// ScopedTo beyond its limit in a build without asserts: what cannot be kept must not show what it was to hide. A program of its own, since
// the level of asserts is one of a program.
#include "tests/support/replication_world.hpp"
#include <doctest/doctest.h>

using namespace throng;
using namespace throng_test;

TEST_SUITE("server") {
    TEST_CASE("scopes: without asserts, one too many hides all components from everybody") {
        static_assert(THRONG_ASSERT_LEVEL == 0);
        ReplicationWorld net;
        const auto& peer = net.connect();
        for (int i = 0; i < 100 && !net.server.joined(peer.id); ++i)
            net.step();
        REQUIRE(net.server.joined(peer.id));
        net.server.view(peer.id).set_layers(~u64(0));
        ScopedTo scoped;
        for (u32 k = 0; k < ScopedTo::scopes_max; ++k)
            scoped.also(Scope::of<Health>(), {.any_of = u64(1) << k});
        const Entity e = net.world.spawn(Health{7, false}, Speed{1, 0}, ScopedTo(scoped), Replicated{});
        net.steps(10);
        const auto shown = [&] { return peer.client->entity(net.server.net_id(e)); };
        REQUIRE(peer.world->has<Health>(shown()));
        REQUIRE(peer.world->has<Speed>(shown()));
        for (const int too_many : {1, 2}) {
            CAPTURE(too_many);
            net.world.mut<ScopedTo>(e)->also(Scope::of<Health>(), {});
            net.world.mut<Health>(e)->hp = 7 + too_many;
            CHECK(net.world.get<ScopedTo>(e)->count() == ScopedTo::scopes_max);
            for (const u64 layers : {~u64(0), u64(0), u64(1), u64(1) << 63}) {
                net.server.view(peer.id).set_layers(layers);
                net.steps(10);
                CHECK(peer.world->alive(shown()));
                CHECK_FALSE(peer.world->has<Health>(shown()));
                CHECK_FALSE(peer.world->has<Speed>(shown()));
            }
        }
        *net.world.mut<ScopedTo>(e) = scoped; // said anew, it holds
        net.server.view(peer.id).set_layers(~u64(0));
        net.steps(10);
        REQUIRE(peer.world->has<Health>(shown()));
        CHECK(peer.world->get<Health>(shown())->hp == 9);
    }
}
