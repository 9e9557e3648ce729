// Listings of docs/guide.md: rules of components.
#include "throng/client.hpp"
#include "throng/loopback.hpp"
#include "throng/server.hpp"
#include <doctest/doctest.h>
#include <vector>

using namespace throng;

namespace {
struct Velocity { float x = 0, z = 0; };
struct Ammo { u16 count = 0; };
struct Weapon { u16 kind = 0; };
struct Mana { i32 points = 0; };
struct Origin { u32 village = 0; };
struct Duel {};
struct Hidden {};
struct Wizard {};
struct Witch {};

// [another_type]
struct Heat { double kelvin = 0; std::vector<double> past; }; // of the game
struct WireHeat { i32 tenths = 0; };                          // what travels
WireHeat pack(const Heat& heat) { return {static_cast<i32>(heat.kelvin * 10)}; }
Heat unpack(const WireHeat& wire) { return {wire.tenths / 10.0, {}}; }

void register_heat(Protocol& protocol) {
    protocol.component_as("heat", pack, unpack).field(&WireHeat::tenths);
}
// [/another_type]

// [resource]
struct Weather { float wind = 0; };
void register_weather(Protocol& protocol) {
    protocol.resource<Weather>("weather").field(&Weather::wind, Range{0, 50, 0.1});
}
void storm(World& world) {
    if (Weather* weather = world.resources().mut<Weather>())
        weather->wind = 40; // clients: world.resources().get<Weather>()
    else
        world.resources().emplace<Weather>(Weather{40});
}
// [/resource]

// [rules]
Error register_with_rules(Protocol& protocol) {
    const Range rough{-20, 20, 0.5}, exact{-20, 20, 0.001};
    protocol.component<Velocity>("velocity").field(&Velocity::x, rough).field(&Velocity::z, rough);
    protocol.component<Velocity>("exact velocity").field(&Velocity::x, exact).field(&Velocity::z, exact)
        .when(with<Duel>); // instead of the other: a type that is named counts 1 more
    protocol.component<Mana>("mana").field(&Mana::points)
        .when(without<Hidden> && any_of<Wizard, Witch>) // one of these, or the next
        .when(with<Duel>);
    protocol.component<Origin>("origin").field(&Origin::village).once();
    protocol.component<Ammo>("ammo").field(&Ammo::count);
    protocol.component<Weapon>("weapon").field(&Weapon::kind);
    protocol.bundle<Ammo, Weapon>(); // together, or not at all
    return protocol.finish();
}
// [/rules]

TEST_CASE("guide: rules of components") {
    Protocol protocol;
    register_heat(protocol);
    register_weather(protocol);
    REQUIRE_MESSAGE(register_with_rules(protocol) == Error::none, protocol.problem());
    World world, client_world;
    LoopbackNetwork network({.seed = 3});
    Server server(world, protocol, network.server());
    const ClientId id = network.connect();
    Client client(client_world, protocol, network.client(id));
    TimeUs now = 0;
    const auto steps = [&] {
        for (int i = 0; i < 10; ++i) {
            now += 50'000;
            server.receive(now);
            server.tick(now);
            REQUIRE(client.receive(now) == Error::none);
            REQUIRE(client.send(now) == Error::none);
        }
    };
    const Entity e = world.spawn(Velocity{1.234f, 0}, Mana{5}, Wizard{}, Origin{3}, Ammo{9}, Heat{20.5, {1}}, Replicated{});
    storm(world);
    steps();
    REQUIRE(client_world.resources().has<Weather>());
    CHECK(client_world.resources().get<Weather>()->wind == 40);
    const Entity there = client.entity(server.net_id(e));
    CHECK(client_world.get<Velocity>(there)->x == 1);
    CHECK(client_world.get<Mana>(there)->points == 5);
    CHECK(client_world.get<Heat>(there)->kelvin == 20.5);
    CHECK_FALSE(client_world.has<Ammo>(there));
    world.add<Duel>(e);
    world.add<Hidden>(e);
    world.add<Weapon>(e, Weapon{1});
    world.mut<Origin>(e)->village = 4;
    steps();
    CHECK(client_world.get<Velocity>(there)->x == doctest::Approx(1.234).epsilon(0.0001));
    CHECK(client_world.has<Mana>(there));
    CHECK(client_world.get<Ammo>(there)->count == 9);
    CHECK(client_world.get<Weapon>(there)->kind == 1);
    CHECK(client_world.get<Origin>(there)->village == 3);
}
} // namespace
