// The verifier finds nothing where all is right, and names each kind of damage.
#include "bench/verify.hpp"
#include "tests/support/replication_world.hpp"
#include <cmath>
#include <doctest/doctest.h>

using namespace throng;
using namespace throng_test;
using throng_verify::Difference;
using throng_verify::Kind;
using throng_verify::Verifier;

namespace {

/// Two clients that see 40 entities of 41: the last one is hidden from the first client, and others refer to it.
struct Fixture {
    Fixture() : net({.heartbeat_ticks = 2}), verifier(*net.protocol, net.world, net.server) {
        for (int i = 0; i < 40; ++i)
            all.push_back(net.world.spawn(Place{float(i) * 1.005f - 20, 0.125f * float(i)}, Speed{0.3f, -0.7f}, Replicated{}));
        secret = net.world.spawn(Place{3, 3}, Replicated{});
        net.world.add<Health>(all[3], Health{100, true});
        net.world.add<Name>(all[4], Name{"Grace"});
        net.world.add<Link>(all[5], Link{all[7]});
        net.world.add<Link>(all[6], Link{secret});
        for (int i = 0; i < 2; ++i)
            net.connect();
        net.steps(2);
        for (u32 id = 0; id < 2; ++id)
            net.server.view(id).look_at(0, 0, {.radius = 60});
        net.server.view(0).hide(secret);
        still_since = net.server.current_tick() + 1;
        net.steps(12);
    }
    Difference check(u32 client) {
        return verifier.check(net.peers[client]->id, *net.peers[client]->world, *net.peers[client]->client, still_since);
    }
    Kind after_sabotage(Kind kind) {
        REQUIRE(throng_verify::sabotage(kind, *net.protocol, *net.peers[0]->world, *net.peers[0]->client));
        const Difference found = check(0);
        MESSAGE(found.text);
        CHECK(check(1).kind == Kind::none);
        return found.kind;
    }
    ReplicationWorld net;
    std::vector<Entity> all;
    Entity secret;
    Verifier verifier;
    Tick still_since = 0;
};

} // namespace

TEST_SUITE("sim") {
    TEST_CASE("a settled client has no difference, and everything was looked at") {
        Fixture f;
        const Difference found = f.check(0);
        CHECK_MESSAGE(found.kind == Kind::none, found.text);
        CHECK(f.verifier.entities_compared() == 40);
        CHECK(f.verifier.fields_compared() == 40 * 4 + 2 + 1 + 2);
        CHECK(f.check(1).kind == Kind::none);
        CHECK(f.verifier.entities_compared() == 81);
    }

    TEST_CASE("each kind of sabotage is found under its name") {
        CHECK(Fixture().after_sabotage(Kind::value) == Kind::value);
        CHECK(Fixture().after_sabotage(Kind::ghost) == Kind::ghost);
        CHECK(Fixture().after_sabotage(Kind::missing) == Kind::missing);
        CHECK(Fixture().after_sabotage(Kind::reference) == Kind::reference);
    }

    TEST_CASE("a client that stopped listening is stale") {
        Fixture f;
        f.net.peers[0]->left = true; // it is stepped no more
        f.net.world.mut<Place>(f.all[0])->x = 1;
        f.net.step();
        f.still_since = f.net.server.current_tick();
        f.net.steps(30);
        const Difference found = f.check(0);
        CHECK_MESSAGE(found.kind == Kind::stale, found.text);
        CHECK(f.check(1).kind == Kind::none);
    }

    TEST_CASE("components and opaque bytes count") {
        Fixture f;
        World& world = *f.net.peers[0]->world;
        const Entity shown = f.net.peers[0]->client->entity(f.net.server.net_id(f.all[4]));
        world.mut<Name>(shown)->text = "Grave";
        Difference found = f.check(0);
        CHECK(found.kind == Kind::value);
        CHECK(found.text.find("component name") != std::string::npos);
        CHECK(found.text.find("at byte 3") != std::string::npos);
        world.remove<Name>(shown);
        CHECK(f.check(0).kind == Kind::component);
        world.add<Name>(shown, Name{"Grace"});
        CHECK(f.check(0).kind == Kind::none);
        world.add<Health>(shown);
        CHECK(f.check(0).kind == Kind::component);
    }

    TEST_CASE("one step of a range is a difference, a rounding is not") {
        Fixture f;
        World& world = *f.net.peers[0]->world;
        const Entity shown = f.net.peers[0]->client->entity(f.net.server.net_id(f.all[1]));
        world.mut<Place>(shown)->z = 0.13f; // 0.125 is half way between 0.12 and 0.13: even is 0.12
        CHECK(f.check(0).kind == Kind::value);
        world.mut<Place>(shown)->z = 0.12f;
        CHECK(f.check(0).kind == Kind::none);
        world.mut<Place>(shown)->z = 0.125f;
        CHECK(f.check(0).kind == Kind::value);
    }

    TEST_CASE("the promise of visibility is checked on both sides") {
        Fixture f;
        CHECK(f.verifier.check_promise(0, 0, 0, 60).kind == Kind::none);
        f.net.world.mut<Place>(f.all[0])->x = 80; // not yet seen by a tick
        CHECK(f.verifier.check_promise(0, 0, 0, 60).kind == Kind::promise);
        f.net.steps(1);
        CHECK(f.verifier.check_promise(0, 0, 0, 60).kind == Kind::none);
        f.net.world.mut<Place>(f.all[0])->x = 20;
        CHECK(f.verifier.check_promise(0, 0, 0, 60).kind == Kind::promise);
    }

    TEST_CASE("names of sabotage") {
        CHECK(throng_verify::sabotage_kind("stale") == Kind::stale);
        CHECK(throng_verify::sabotage_kind("component") == Kind::none);
    }
}
