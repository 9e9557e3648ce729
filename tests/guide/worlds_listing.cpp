// Listings of docs/guide.md: several worlds over one set of connections.
#include "throng/client.hpp"
#include "throng/loopback.hpp"
#include "throng/multiplexer.hpp"
#include "throng/server.hpp"
#include <doctest/doctest.h>
#include <thread>

using namespace throng;

namespace {
struct Lamp { u32 oil = 0; };
} // namespace

TEST_SUITE("guide") {
    TEST_CASE("several worlds") {
        Protocol protocol;
        protocol.component<Lamp>("lamp").field(&Lamp::oil);
        REQUIRE(protocol.finish() == Error::none);
        World city_world, dungeon_world, city_screen, dungeon_screen;
        LoopbackNetwork network({.seed = 1});
        const ClientId id = network.connect();
        // [server_worlds]
        ServerMultiplexer worlds(network.server());
        Server city(city_world, protocol, worlds.open(0)), dungeon(dungeon_world, protocol, worlds.open(1));
        const auto step = [&](TimeUs now) {
            worlds.poll(now);
            std::thread other([&] { // each world on a thread of its own, of a pool rather
                dungeon.receive(now);
                dungeon.tick(now);
            });
            city.receive(now);
            city.tick(now);
            other.join();
            worlds.flush(now); // once all have ended
        };
        // [/server_worlds]
        city_world.spawn(Lamp{7}, Replicated{});
        dungeon_world.spawn(Lamp{1}, Replicated{});
        dungeon_world.spawn(Lamp{2}, Replicated{});
        const auto play = [&](auto&& frame) {
            for (TimeUs now = 50'000; now < 1'000'000; now += 50'000) {
                step(now);
                frame(now);
            }
        };
        {
            // [client_worlds]
            ClientMultiplexer rooms(network.client(id));
            Client city_client(city_screen, protocol, *rooms.join(0)), dungeon_client(dungeon_screen, protocol, *rooms.join(1));
            const auto frame = [&](TimeUs now) {
                rooms.poll(now);
                for (Client* client : {&city_client, &dungeon_client})
                    if (client->receive(now) != Error::none || client->send(now) != Error::none)
                        FAIL(client->problem());
                rooms.flush(now);
            };
            // [/client_worlds]
            play(frame);
        }
        CHECK(worlds.connection(1, 0) == id);
        CHECK(city_screen.entity_count() == 1);
        CHECK(dungeon_screen.entity_count() == 2);
    }
}
