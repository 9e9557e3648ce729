// What Server::memory and Client::memory report is all that they hold.
#include "src/memory/counted_allocator.hpp"
#include "tests/support/journal.hpp"
#include "tests/support/replication_world.hpp"
#include <algorithm>
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

/// All work to one of its workers.
class OneAtATime final : public Executor {
public:
    u32 worker_count() const override { return 3; }
    void parallel_for(u32 count, u32 grain, RangeFn fn, void* context) override {
        for (u32 begin = 0; begin < count; begin += std::min(grain, count - begin))
            fn(context, begin, begin + std::min(grain, count - begin), worker);
    }
    u32 worker = 0;
};

struct Count {
    u64 calls = 0;
    Allocator allocator() {
        return {[](void* self, std::size_t bytes, std::size_t alignment) {
                    ++static_cast<Count*>(self)->calls;
                    return default_allocator().allocate(bytes, alignment);
                },
                [](void*, void* memory, std::size_t bytes, std::size_t alignment) { default_allocator().free(memory, bytes, alignment); },
                this};
    }
};

} // namespace

TEST_SUITE("server") {
    TEST_CASE("memory: a worker that comes late has room for what others have needed") {
        OneAtATime executor;
        Count count;
        ReplicationWorld net({.executor = &executor, .allocator = count.allocator()});
        const auto& peer = net.connect();
        net.connect();
        net.steps(5);
        for (const auto& each : net.peers) {
            REQUIRE(net.server.joined(each->id));
            net.server.view(each->id).look_at(0, 0, {.radius = 60});
        }
        std::vector<Entity> all;
        for (int i = 0; i < 100; ++i) {
            all.push_back(net.world.spawn(Place{static_cast<float>(i % 10), 0}, Health{i, false}, Replicated{}));
            if (i % 3 == 0) // some are seen in part, and some seldom
                net.world.add<ScopedTo>(all.back(), Scope::of<Health>(), VisibleTo{.any_of = 2});
            if (i % 7 == 0)
                REQUIRE(net.server.view(peer.id).set_priority(all.back(), 0.3f));
        }
        const auto step = [&] {
            for (const Entity e : all) {
                net.world.mut<Place>(e)->x += 0.02f;
                ++net.world.mut<Health>(e)->hp;
            }
            net.step();
        };
        for (int i = 0; i < 40; ++i)
            step();
        const u64 before = count.calls;
        for (executor.worker = 1; executor.worker < 3; ++executor.worker)
            for (int i = 0; i < 8; ++i)
                step();
        CHECK(count.calls == before);
        CHECK(peer.world->entity_count() == 100);
    }

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
