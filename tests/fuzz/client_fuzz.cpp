// A client under any sequence of messages. The input is a list of messages, each behind a u16 of its length; a welcome comes first
// by itself. Whatever arrives, the world holds what the client says it holds, and memory stays below its limit.
#include "src/registry/message.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "throng/client.hpp"
#include <cstdlib>
#include <cstring>

throng::u64 throng::fuzz::accepted_count = 0;

namespace {
using namespace throng;

struct Place {
    float x = 0, z = 0;
};
struct Speed {
    float x = 0, z = 0;
};
struct Life {
    i32 hp = 0;
    bool angry = false;
    Entity target;
};
struct Note {
    u8 bytes[16] = {};
};

u32 write_note(const void* component, std::span<std::byte> out) {
    if (out.size() >= sizeof(Note))
        std::memcpy(out.data(), component, sizeof(Note));
    return sizeof(Note);
}
Error read_note(void* component, std::span<const std::byte> in) {
    if (in.size() > sizeof(Note))
        return Error::too_large;
    if (!in.empty())
        std::memcpy(component, in.data(), in.size());
    return Error::none;
}

struct Backend final : ClientBackend {
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

struct Fixture {
    Protocol protocol;
    Fixture() {
        const Range map{-1000, 1000, 0.01};
        protocol.component<Place>("place")
            .field(&Place::x, map)
            .field(&Place::z, map)
            .spatial(&Place::x, &Place::z)
            .extrapolated_by(&Speed::x, &Speed::z);
        protocol.component<Speed>("speed").field(&Speed::x, Range{-20, 20, 0.01}).field(&Speed::z, Range{-20, 20, 0.01});
        protocol.component<Life>("life").field(&Life::hp).field(&Life::angry).field(&Life::target);
        protocol.opaque<Note>("note", sizeof(Note), write_note, read_note);
        if (protocol.finish() != Error::none)
            std::abort();
    }
};
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const throng::u8* data, std::size_t size_bytes) {
    static Fixture fixture;
    static ClientScratch scratch(fixture.protocol);
    World world(WorldOptions{.block_rows = 64});
    Backend backend;
    ClientConfig config;
    config.scratch = &scratch;
    config.ring_versions_max = 4;
    config.entities_max = 200;
    config.references_max = 100;
    config.memory_bytes_max = 1u << 20;
    Client client(world, fixture.protocol, backend, config);
    std::byte welcome[welcome_bytes];
    write_welcome(welcome, {fixture.protocol.hash(), 100, static_cast<u16>(fixture.protocol.tick_hz()), 10000});
    backend.next = welcome;
    (void)client.receive(0);
    Bytes in{reinterpret_cast<const std::byte*>(data), size_bytes};
    while (in.size() >= 2) {
        const std::size_t length = static_cast<std::size_t>(in[0]) | static_cast<std::size_t>(in[1]) << 8;
        in = in.subspan(2);
        backend.next = in.first(length < in.size() ? length : in.size());
        in = in.subspan(backend.next.size());
        (void)client.receive(0);
        (void)client.send(0);
        (void)client.state_hash();
        const ClientStats& stats = client.stats();
        if (world.entity_count() != stats.spawns - stats.despawns || world.entity_count() > config.entities_max ||
            client.ring_bytes() > 2 * config.memory_bytes_max)
            std::abort();
    }
    throng::fuzz::accepted_count += client.stats().lanes > 0;
    return 0;
}
