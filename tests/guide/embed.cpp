// The program of README.md: a server and a client in one process, over a link that loses packets.
// [embed]
#include <cstdio>
#include <throng/client.hpp>
#include <throng/loopback.hpp>
#include <throng/server.hpp>
using namespace throng;
struct Place { float x = 0, z = 0; static constexpr Range map{-1000, 1000, 0.01}; }; // sent to 1 cm
int main() {
    Protocol protocol; // both sides register the same components in the same order
    protocol.component<Place>("place").field(&Place::x, Place::map).field(&Place::z, Place::map).spatial(&Place::x, &Place::z);
    if (protocol.finish() != Error::none) return 1;
    World world, seen;
    LoopbackNetwork network({.seed = 1});
    Server server(world, protocol, network.server());
    const ClientId id = network.connect({.loss_percent = 5, .delay_us = 40'000});
    Client client(seen, protocol, network.client(id));
    const Entity car = world.spawn(Place{0, 5}, Replicated{});
    for (TimeUs now = 0; now < 10'000'000; now += 50'000) { // 20 ticks a second
        server.receive(now);
        if (now == 1'000'000) server.view(id).follow(car, {.radius = 60});
        if (now < 9'000'000) world.mut<Place>(car)->x += 0.5f;
        server.tick(now);
        if (client.receive(now) != Error::none || client.send(now) != Error::none) return 1;
    }
    if (const Place* shown = seen.get<Place>(client.entity(server.net_id(car)))) std::printf("the client sees x = %.2f\n", shown->x);
}
// [/embed]
