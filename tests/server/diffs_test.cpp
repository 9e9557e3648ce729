// Diffs between a server and its clients: what they cost, and what their hashes say. Behaviours are in tests/conformance/diff.cpp.
#include "tests/support/journal.hpp"
#include "tests/support/replication_world.hpp"
#include <atomic>
#include <doctest/doctest.h>

using namespace throng;
using namespace throng_test;

namespace {
struct Table { // of fixed size, so that it takes no memory of its own
    u32 cells[50] = {};
};
struct Cell {
    u8 at = 0;
    u32 value = 0;
};
u32 write_table(const void* component, std::span<std::byte> out) {
    if (out.size() >= sizeof(Table))
        std::memcpy(out.data(), component, sizeof(Table));
    return sizeof(Table);
}
Error read_table(void* component, std::span<const std::byte> in) {
    if (in.size() != sizeof(Table))
        return Error::truncated;
    std::memcpy(component, in.data(), sizeof(Table));
    return Error::none;
}
u32 write_cell(const Cell& cell, std::span<std::byte> out) {
    if (out.size() >= 5) {
        out[0] = std::byte(cell.at);
        std::memcpy(out.data() + 1, &cell.value, 4);
    }
    return 5;
}
Error read_cell(Cell& cell, std::span<const std::byte> in) {
    if (in.size() != 5)
        return Error::truncated;
    cell.at = static_cast<u8>(in[0]);
    std::memcpy(&cell.value, in.data() + 1, 4);
    return Error::none;
}
Error set_cell(Table& table, const Cell& cell) {
    if (cell.at >= std::size(table.cells))
        return Error::bad_value;
    table.cells[cell.at] = cell.value;
    return Error::none;
}
std::unique_ptr<Protocol> table_protocol() {
    auto protocol = std::make_unique<Protocol>();
    protocol->opaque<Table>("table", sizeof(Table), write_table, read_table).diffs(write_cell, read_cell, set_cell);
    if (protocol->finish() != Error::none)
        throw std::runtime_error(protocol->problem());
    return protocol;
}
} // namespace

TEST_SUITE("server") {
    TEST_CASE("diffs take no memory in steady state") {
        std::atomic<u64> allocations{0};
        const Allocator counted{
            [](void* context, std::size_t bytes, std::size_t alignment) {
                static_cast<std::atomic<u64>*>(context)->fetch_add(1);
                return default_allocator().allocate(bytes, alignment);
            },
            [](void*, void* memory, std::size_t bytes, std::size_t alignment) { default_allocator().free(memory, bytes, alignment); },
            &allocations};
        ReplicationWorld net({.allocator = counted, .heartbeat_ticks = 0}, {}, table_protocol());
        auto& peer = net.connect({.loss_percent = 10, .delay_us = 30'000}, {});
        peer.client = std::make_unique<Client>(*peer.world, *net.protocol, net.network.client(peer.id), ClientConfig{.allocator = counted});
        std::vector<Entity> all;
        for (int i = 0; i < 100; ++i)
            all.push_back(net.world.spawn(Table{}, Replicated{}));
        u64 warm = 0, whole = 0;
        for (u32 tick = 0; tick < 600; ++tick) {
            for (u32 i = 0; i < 30; ++i)
                CHECK(net.server.apply_diff<Table>(all[(tick * 7 + i * 3) % 100], Cell{static_cast<u8>((tick + i) % 50), tick * 31 + i}) ==
                      Error::none);
            net.step();
            if (tick == 300) {
                warm = allocations;
                whole = peer.client->component_report<Table>().opaque_bytes;
            }
        }
        CHECK(allocations == warm);
        CHECK(peer.client->component_report<Table>().opaque_bytes - whole < u64(299) * 30 * sizeof(Table) / 4);
        net.network.set_link(peer.id, Direction::down, {});
        for (int i = 0; i < 60 && !net.server.settled(peer.id); ++i)
            net.step();
        REQUIRE(net.server.settled(peer.id));
        for (const Entity e : all) {
            const Table* const there = peer.world->get<Table>(peer.client->entity(net.server.net_id(e)));
            REQUIRE(there);
            CHECK(std::equal(there->cells, there->cells + 50, net.world.get<Table>(e)->cells));
        }
    }

    TEST_CASE("state hashes hold for what diffs made, and a client that does not know the component reports none") {
        for (const bool unknown : {false, true}) {
            Protocol ours;
            if (!unknown)
                ours.opaque<Table>("table", sizeof(Table), write_table, read_table).diffs(write_cell, read_cell, set_cell);
            ours.component<Health>("health").field(&Health::hp).field(&Health::angry);
            REQUIRE(ours.finish() == Error::none);
            ReplicationWorld net({.hash_ticks = 1}, {}, table_protocol());
            auto& peer = net.connect();
            peer.client = std::make_unique<Client>(*peer.world, ours, net.network.client(peer.id));
            const Entity e = net.world.spawn(Table{}, Replicated{});
            net.steps(4);
            u64 equal = 0, different = 0;
            for (u32 tick = 0; tick < 60; ++tick) {
                if (tick % 4 == 0)
                    CHECK(net.server.apply_diff<Table>(e, Cell{static_cast<u8>(tick % 50), tick}) == Error::none);
                const TickReport& report = net.step();
                equal += report.hashes_equal;
                different += report.hashes_different;
            }
            CHECK(different == 0);
            CHECK((equal > 0) == !unknown);
            CHECK(net.client_errors == 0);
            peer.client.reset();
            peer.left = true;
        }
    }

    TEST_CASE("diffs beyond diff_tick_bytes_max are done, and go as whole components") {
        ReplicationWorld net({.heartbeat_ticks = 0, .diff_tick_bytes_max = 500}, {}, table_protocol());
        auto& peer = net.connect();
        std::vector<Entity> all;
        for (int i = 0; i < 40; ++i)
            all.push_back(net.world.spawn(Table{}, Replicated{}));
        net.steps(5);
        const u64 before = peer.client->component_report<Table>().opaque_bytes;
        for (u32 i = 0; i < 40; ++i)
            CHECK(net.server.apply_diff<Table>(all[i], Cell{1, i + 1}) == Error::none);
        net.steps(3);
        for (u32 i = 0; i < 40; ++i)
            CHECK(peer.world->get<Table>(peer.client->entity(net.server.net_id(all[i])))->cells[1] == i + 1);
        const u64 bytes = peer.client->component_report<Table>().opaque_bytes - before;
        CHECK(bytes > 10 * sizeof(Table));
        CHECK(bytes < 35 * sizeof(Table));
    }
}
