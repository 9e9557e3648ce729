// A server under any sequence of messages of one client, beside another client that behaves. The input is a list of messages, each
// behind a u8 channel (0 unreliable, 1 unordered, 2 ordered, 3: the client connects anew, 4: a tick passes) and a u16 of its length. The
// host admits by the first byte of a hello's data.
// Whatever arrives, the server goes on, and the other client ends up settled with all entities.
#include "src/registry/message.hpp"
#include "src/server/state.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/fuzz_protocol.hpp"
#include "throng/client.hpp"
#include "throng/server.hpp"
#include <array>
#include <vector>

throng::u64 throng::fuzz::accepted_count = 0;

namespace {
using namespace throng;
using namespace throng::fuzz;

/// Client 0 is the input; client 1 a real one, on perfect links without delay.
struct Backend final : ServerBackend, ClientBackend {
    std::vector<std::vector<std::byte>> down, up;
    struct Hostile {
        Channel channel = Channel::unreliable;
        Bytes message;
        bool connects = false;
    };
    std::vector<Hostile> hostile;
    bool server_told = false, client_told = false;

    void poll(TimeUs, ServerBackendSink& sink) override {
        for (const Hostile& each : hostile)
            if (each.connects) {
                sink.on_disconnect(0);
                sink.on_connect(0);
            } else {
                sink.on_message(0, each.channel, each.message);
            }
        hostile.clear();
        if (!server_told)
            sink.on_connect(1);
        server_told = true;
        for (const auto& message : up)
            sink.on_message(1, message[0] == std::byte{1} ? Channel::ordered : Channel::unreliable, message);
        up.clear();
    }
    SendResult send(ClientId client, Channel, Bytes message) override {
        if (client == 1)
            down.emplace_back(message.begin(), message.end());
        return SendResult::accepted;
    }
    void disconnect(ClientId client) override { require(client == 0); }
    void poll(TimeUs, ClientBackendSink& sink) override {
        if (!client_told)
            sink.on_connect();
        client_told = true;
        for (const auto& message : down)
            sink.on_message(Channel::unreliable, message);
        down.clear();
    }
    SendResult send(Channel, Bytes message) override {
        up.emplace_back(message.begin(), message.end());
        return SendResult::accepted;
    }
    void flush(TimeUs) override {}
    u32 message_bytes_max(Channel channel) const override { return channel == Channel::unreliable ? 1200 : 65536; }
};

Verdict admit(void*, ClientId client, const ClientHello& hello) {
    require(hello.data.size() <= hello_data_bytes_max);
    if (client == 1 || hello.data.empty())
        return Verdict::yes;
    return static_cast<Verdict>(static_cast<u32>(hello.data[0]) % 3);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const throng::u8* data, std::size_t size_bytes) {
    static FuzzProtocol fixture;
    static ClientScratch scratch(fixture.protocol);
    constexpr u32 entities = 20;
    Backend backend;
    World world(WorldOptions{.block_rows = 64}), client_world(WorldOptions{.block_rows = 64});
    std::array<Entity, entities> all;
    for (u32 i = 0; i < entities; ++i)
        all[i] = world.spawn(Place{float(i) * 3, 5}, Life{static_cast<i32>(i), false, 1, {}}, Replicated{});
    for (u32 i = 0; i < entities; i += 3)
        world.add<SpawnSignature>(all[i], SpawnSignature{1 + i});
    constexpr u32 made_ahead = 4; // by the other client: one of them is never answered
    for (const u64 hash : {1, 7, 10, 99})
        client_world.spawn(Life{-5, true, 1, {}}, SpawnSignature{hash});
    Server server(world, fixture.protocol, backend,
                  {.cell_size = cell_size,
                   .radius_min = 100,
                   .authorization = Authorization::custom,
                   .verdict_wait_ms = 300,
                   .records_max = 16,
                   .hash_ticks = 2,
                   .first_tick = welcome_tick + 1,
                   .compression = Compression::never},
                  {.on_hello = admit});
    Client client(client_world, fixture.protocol, backend, {.scratch = &scratch});
    Listener listener{world}, client_listener{client_world};
    require(server.set_handlers(handlers<Hit, Say>(listener)) == Error::none);
    require(client.set_handlers(handlers<Hit, Say, Bell>(client_listener)) == Error::none);
    TimeUs now = 0;
    u64 good_acks = 0;
    const auto tick = [&] {
        now += 50'000;
        server.receive(now);
        if (now % 200'000 == 0 && server.waiting(0))
            require(server.accept(0) == Error::none);
        for (const ClientId id : {0u, 1u})
            if (server.joined(id) && !server.state().clients[id].has_point)
                server.view(id).look_at(0, 0, {.radius = 300});
        if (now % 100'000 == 0)
            world.mut<Place>(all[(now / 100'000) % entities])->x += 1;
        if (now % 400'000 == 0) // a signature that comes later matches nothing
            world.mut<SpawnSignature>(all[9])->hash = 99 + now / 800'000 % 2;
        const Entity spoken_of = all[(now / 50'000) % entities];
        require(server.send_message(To::observers(spoken_of), some_hit(7, spoken_of, all[0])) == Error::none);
        const TickReport& report = server.tick(now);
        good_acks += report.acked_messages;
        require(report.encodes == report.keys && client.receive(now) == Error::none && client.send(now) == Error::none);
    };
    std::byte hello[hello_bytes];
    write_hello(hello, {wire_format_version, fixture.protocol.hash()});
    backend.hostile.push_back({Channel::ordered, {}, true});
    backend.hostile.push_back({Channel::ordered, hello, false});
    for (u32 i = 0; i < 4; ++i)
        tick();
    const u64 honest_acks = good_acks;
    Bytes in{reinterpret_cast<const std::byte*>(data), size_bytes};
    u32 ticks = 0;
    while (in.size() >= 3 && ticks < 200) {
        const u32 kind = static_cast<u32>(in[0]);
        const std::size_t length = static_cast<std::size_t>(in[1]) | static_cast<std::size_t>(in[2]) << 8;
        in = in.subspan(3);
        const Bytes message = in.first(length < in.size() ? length : in.size());
        in = in.subspan(message.size());
        if (kind < 3)
            backend.hostile.push_back({static_cast<Channel>(kind), message, false});
        else if (kind == 3)
            backend.hostile.push_back({Channel::ordered, {}, true});
        else
            tick(), ++ticks;
    }
    u64 malformed = 0;
    for (u32 i = 0; i < 40 && !(i > 4 && server.settled(1)); ++i) {
        now += 50'000;
        server.receive(now);
        const TickReport& report = server.tick(now);
        malformed += report.malformed_messages;
        require(report.encodes == report.keys && client.receive(now) == Error::none && client.send(now) == Error::none);
    }
    require(server.settled(1) && client_world.entity_count() == entities + 1 && client.stats().unapplied_baseline == 0);
    require(client.stats().adoptions == made_ahead - 1);
    // The honest client acks one message a tick at most; more is the input's.
    throng::fuzz::accepted_count += (good_acks > honest_acks + ticks && malformed == 0) || listener.heard > 0;
    return 0;
}
