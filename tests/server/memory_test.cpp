// What Server::memory and Client::memory report is all that they hold.
#include "src/memory/counted_allocator.hpp"
#include "tests/support/journal.hpp"
#include "tests/support/replication_world.hpp"
#include <doctest/doctest.h>

using namespace throng;
using namespace throng_test;

namespace {

std::unique_ptr<Protocol> make_journal_protocol() {
    auto protocol = std::make_unique<Protocol>();
    const Range map{-1000, 1000, 0.01};
    protocol->component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
    protocol->component<Link>("link").field(&Link::target).related(&Link::target);
    protocol->opaque<Name>("name", 2000, write_name, read_name);
    journal(*protocol);
    if (protocol->finish() != Error::none)
        throw std::runtime_error(protocol->problem());
    return protocol;
}

} // namespace

TEST_SUITE("server") {
    TEST_CASE("memory: the kinds add up to what was taken from the allocator, to the byte") {
        CountedAllocator servers(default_allocator()), clients(default_allocator());
        {
            const auto protocol = make_journal_protocol();
            World world, shown;
            LoopbackNetwork network({});
            Server server(world, *protocol, network.server(), {.allocator = servers.allocator()});
            const ClientId id = network.connect({.loss_percent = 5});
            auto client = std::make_unique<Client>(shown, *protocol, network.client(id),
                                                   ClientConfig{.allocator = clients.allocator(), .confirm_history = true});
            TimeUs now = 0;
            for (int tick = 0; tick < 200; ++tick) {
                if (tick % 4 == 0)
                    world.spawn(Place{static_cast<float>(tick) / 4, 1}, Name{std::string(static_cast<std::size_t>(tick), 'n')},
                                Replicated{});
                const Entity last = world.entity_at(world.entity_slots() - 1);
                if (tick == 50)
                    world.add<Journal>(last, Journal{"begin "});
                if (tick > 50 && tick % 4)
                    world.each<Journal>(
                        [&](Entity e, const Journal&) { CHECK(server.apply_diff<Journal>(e, Line{"line"}) == Error::none); });
                world.add<Link>(last, Link{world.entity_at(0)});
                server.receive(now += 50'000);
                if (server.joined(id))
                    server.view(id).look_at(0, 0, {.radius = 60});
                server.tick(now);
                CHECK(client->receive(now) == Error::none);
                CHECK(client->send(now) == Error::none);
                CHECK(server.memory().total_bytes() == servers.bytes());
                CHECK(client->memory().total_bytes() == clients.bytes());
            }
            CHECK(shown.entity_count() > 20);
            CHECK(server.memory().opaque_bytes > 10'000); // stores of 64 lanes, texts, ops
            CHECK(client->memory().ring_bytes == client->ring_bytes());
            CHECK(client->memory().scratch_bytes > 100'000);
            CHECK(server.memory().mirror_bytes > 0);
        }
        CHECK(servers.bytes() == 0);
        CHECK(clients.bytes() == 0);
    }

    TEST_CASE("memory: ops and opaque values show as such") {
        ReplicationWorld net({}, {}, make_journal_protocol());
        net.connect();
        net.steps(5);
        const u64 nothing = net.server.memory().opaque_bytes;
        CHECK(nothing == 0);
        const Entity e = net.world.spawn(Journal{"begin "}, Replicated{});
        net.steps(2);
        const u64 value = net.server.memory().opaque_bytes;
        CHECK(value > 0);
        REQUIRE(net.server.apply_diff<Journal>(e, Line{std::string(20, 'x')}) == Error::none);
        net.steps(2);
        CHECK(net.server.memory().opaque_bytes >= value + 64 * 16); // the logs of a chunk
    }
}
