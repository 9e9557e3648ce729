// Listings of docs/guide.md: rules of a client.
#include "tests/guide/ticks.hpp"
#include "throng/client.hpp"
#include "throng/loopback.hpp"
#include "throng/server.hpp"
#include <doctest/doctest.h>

using namespace throng;

namespace {
struct Position {
    float x = 0, z = 0;
};
struct Body {
    u16 hp = 100;
};

// [rules]
struct Predicted {};                       // the game's own: a marker
struct Model { int lod = 0; };             // ... and what the renderer needs
struct Ghost { float x = 0, z = 0; Tick tick = 0; };

void to_ghost(const Received& received, const Position& position) { // the server's view of an entity that is predicted
    if (Ghost* ghost = received.older ? nullptr : received.world.mut<Ghost>(received.entity))
        *ghost = {position.x, position.z, received.tick};
}
Error make_rules(ReceiveRules& rules) {
    Error error = rules.marker<Predicted>({.priority = 1, .history = true});
    if (error == Error::none)
        error = rules.functions_for<Predicted, Position>(to_ghost, nullptr);
    if (error == Error::none)
        error = rules.require<Position, Model>();
    if (error == Error::none)
        error = rules.write_if_different<Body>();
    return error;
}
// [/rules]
} // namespace

TEST_SUITE("guide") {
    TEST_CASE("rules of a client") {
        Protocol protocol;
        protocol.component<Position>("position").field(&Position::x, Range{-100, 100, 0.01}).field(&Position::z, Range{-100, 100, 0.01});
        protocol.component<Body>("body").field(&Body::hp);
        REQUIRE(protocol.finish() == Error::none);
        ReceiveRules rules(protocol);
        REQUIRE(make_rules(rules) == Error::none);
        World world, client_world;
        LoopbackNetwork network({.seed = 1});
        Server server(world, protocol, network.server());
        const ClientId id = network.connect();
        Client client(client_world, protocol, network.client(id), {.rules = &rules});
        const Entity player = world.spawn(Position{1, 2}, Body{}, Replicated{});
        auto steps = [&, now = TimeUs(0)](int count) mutable { play(server, client, now, count); };
        steps(10);
        const Entity shown = client.entity(server.net_id(player));
        REQUIRE(client_world.has<Model>(shown));
        client_world.add<Predicted>(shown);
        client_world.add<Ghost>(shown);
        client_world.mut<Position>(shown)->x = 9; // foreseen
        world.mut<Position>(player)->x = 8;
        steps(3);
        CHECK(client_world.get<Position>(shown)->x == 9);
        CHECK(client_world.get<Ghost>(shown)->x == doctest::Approx(8));
        CHECK(client_world.get<Ghost>(shown)->tick > 0);
    }
}
