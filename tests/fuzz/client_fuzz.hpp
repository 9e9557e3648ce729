#pragma once
// A client under any sequence of messages. The input is a list of messages, each behind a u16 of its length; a welcome comes first
// by itself, and before it the table of the server's protocol, where that is not the client's. The client has entities of its own, with
// signatures. Whatever arrives, the world holds what the client says it holds, what nobody took of its own entities is as it was, and
// memory stays below its limit.
#include "src/registry/message.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/fuzz_protocol.hpp"
#include "throng/client.hpp"
#include <vector>

namespace throng::fuzz {

struct ScriptedBackend final : ClientBackend {
    ClientBackendSink* sink = nullptr;
    Bytes next;
    void poll(TimeUs, ClientBackendSink& to) override {
        if (!next.empty())
            to.on_message(Channel::unreliable, next);
        next = {};
    }
    SendResult send(Channel, Bytes) override { return SendResult::accepted; }
    void flush(TimeUs) override {}
    u32 message_bytes_max(Channel) const override { return 1200; }
};

/// Entities that the client's game has made, two of them with one signature.
struct MadeAhead {
    std::vector<Entity> all;
    explicit MadeAhead(World& world) {
        for (u32 i = 0; i <= signatures; ++i) {
            const Entity entity = world.spawn(Life{-5, true, 1, {}}, SpawnSignature{i ? i : 1});
            if (i % 2)
                world.add<Note>(entity);
            else
                world.add<Place>(entity, Place{9, 9});
            all.push_back(entity);
        }
    }
    /// Those that are the game's still; they are unchanged.
    u64 untaken(const World& world, const Client& client) const {
        u64 count = 0;
        for (const Entity entity : all)
            if (world.alive(entity) && !client.net_id(entity)) {
                require(world.get<Life>(entity)->hp == -5 && !world.get<Life>(entity)->target && world.has<SpawnSignature>(entity));
                ++count;
            }
        return count;
    }
};

inline void run_client(const Protocol& server, const u8* data, std::size_t size_bytes) {
    static FuzzProtocol fixture;
    static ClientScratch scratch(fixture.protocol);
    World world(WorldOptions{.block_rows = 64});
    ScriptedBackend backend;
    ClientConfig config;
    config.scratch = &scratch;
    config.ring_versions_max = 4;
    config.entities_max = 200;
    config.references_max = 100;
    config.memory_bytes_max = 1u << 20;
    config.typed_waiting_unreliable_max = 20;
    config.typed_waiting_bytes_max = 500;
    config.typed_wait_ms = 20;
    config.on_userdata = [](void*, Tick, Bytes userdata) { require(!userdata.empty() && userdata.size() <= 255); };
    Client client(world, fixture.protocol, backend, config);
    Listener listener{world};
    require(client.set_handlers(handlers<Hit, Say, Bell>(listener)) == Error::none);
    std::byte welcome[welcome_bytes];
    std::vector<std::byte> table{std::byte{8}};
    table.insert(table.end(), server.table().begin(), server.table().end());
    if (server.hash() != fixture.protocol.hash())
        backend.next = table;
    (void)client.receive(0);
    write_welcome(welcome, {server.hash(), welcome_tick, static_cast<u16>(fixture.protocol.tick_hz()), 10000});
    backend.next = welcome;
    (void)client.receive(0);
    require(client.joined());
    const MadeAhead own(world);
    Bytes in{reinterpret_cast<const std::byte*>(data), size_bytes};
    TimeUs now = 0;
    while (in.size() >= 2) {
        const std::size_t length = static_cast<std::size_t>(in[0]) | static_cast<std::size_t>(in[1]) << 8;
        in = in.subspan(2);
        backend.next = in.first(length < in.size() ? length : in.size());
        in = in.subspan(backend.next.size());
        (void)client.receive(now += 1000);
        (void)client.send(now);
        (void)client.state_hash();
        const ClientStats& stats = client.stats();
        const ClientTypedStats& typed = stats.typed;
        require(typed.unhandled == 0 && typed.waited >= typed.dropped_wait + typed.dropped_limit && typed.received >= typed.waited);
        const u64 untaken = own.all.size() - stats.adoptions, shown = stats.spawns - stats.despawns;
        require(own.untaken(world, client) == untaken && world.entity_count() == shown + untaken && shown <= config.entities_max &&
                client.ring_bytes() <= 2 * config.memory_bytes_max);
    }
    accepted_count += client.stats().lanes > 0 || listener.heard > 0;
}

} // namespace throng::fuzz
