// Both multiplexers under any messages. The input is a list of messages, each behind a u8 (bits 0 and 1: channel, 3: the connection ends
// and begins anew; bit 2: to the server; bit 3: worlds poll; bit 4: a world lets a client out) and a u8 of its length. Whatever arrives, a
// client that behaves is served.
#include "src/sync/multiplexer_parts.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/fuzz_protocol.hpp"
#include <vector>

throng::u64 throng::fuzz::accepted_count = 0;

namespace {
using namespace throng;
using fuzz::require;

/// Connection 0 is the input's, 1 a client that behaves.
struct Backend final : ServerBackend, ClientBackend {
    ServerBackendSink* server = nullptr;
    ClientBackendSink* client = nullptr;
    std::vector<std::pair<Channel, std::vector<std::byte>>> to_client, to_server;
    bool connects = false, renews = false;
    Channel channel{};
    Bytes hostile;
    bool any_hostile = false, hostile_to_server = false;

    void poll(TimeUs, ServerBackendSink& sink) override {
        if (renews)
            sink.on_disconnect(0);
        if (renews || connects)
            sink.on_connect(0);
        if (connects)
            sink.on_connect(1);
        connects = renews = false;
        if (any_hostile && hostile_to_server)
            sink.on_message(0, channel, hostile);
        for (const auto& [by, message] : to_server)
            sink.on_message(1, by, message);
        to_server.clear();
    }
    SendResult send(ClientId id, Channel by, Bytes message) override {
        if (id == 1)
            to_client.emplace_back(by, std::vector(message.begin(), message.end()));
        return SendResult::accepted;
    }
    void disconnect(ClientId) override {}
    void poll(TimeUs, ClientBackendSink& sink) override {
        if (!client)
            sink.on_connect();
        client = &sink;
        for (const auto& [by, message] : to_client)
            sink.on_message(by, message);
        to_client.clear();
    }
    SendResult send(Channel by, Bytes message) override {
        to_server.emplace_back(by, std::vector(message.begin(), message.end()));
        return SendResult::accepted;
    }
    void flush(TimeUs) override {}
    u32 message_bytes_max(Channel) const override { return 1200; }
};

/// A client's backend that says what the input says.
struct Liar final : ClientBackend {
    Bytes next;
    Channel channel{};
    bool any = false, told = false;
    void poll(TimeUs, ClientBackendSink& sink) override {
        if (!std::exchange(told, true))
            sink.on_connect();
        if (std::exchange(any, false))
            sink.on_message(channel, next);
    }
    SendResult send(Channel, Bytes) override { return SendResult::accepted; }
    void flush(TimeUs) override {}
    u32 message_bytes_max(Channel) const override { return 1200; }
};

struct Sink final : ServerBackendSink, ClientBackendSink {
    std::vector<int> connected; // by client
    u64 messages = 0;
    bool here = false;
    void on_connect(ClientId id) override {
        if (connected.size() <= id)
            connected.resize(id + 1);
        require(!std::exchange(connected[id], 1));
    }
    void on_disconnect(ClientId id) override { require(std::exchange(connected.at(id), 0)); }
    void on_message(ClientId id, Channel, Bytes) override {
        require(connected.at(id));
        ++messages;
    }
    void on_connect() override { require(!std::exchange(here, true)); }
    void on_disconnect() override { require(std::exchange(here, false)); }
    void on_message(Channel, Bytes) override {
        require(here);
        ++messages;
    }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const throng::u8* data, std::size_t size_bytes) {
    Backend backend;
    Liar liar;
    MultiplexerConfig config;
    config.worlds_max = 3;
    config.inbox_bytes_max = 600;
    ServerMultiplexer server(backend, config);
    ClientMultiplexer honest(backend, config), deceived(liar, config);
    ServerBackend* const worlds[] = {&server.open(0), &server.open(1)};
    ClientBackend* const home = honest.join(0);
    for (const u32 world : {0u, 1u, 2u})
        require(deceived.join(world) != nullptr);
    Sink at[2], at_home, at_deceived[3];
    backend.connects = true;
    TimeUs now = 0;
    Bytes in{reinterpret_cast<const std::byte*>(data), size_bytes};
    const auto honest_turn = [&] {
        honest.poll(now);
        home->poll(now, at_home);
        honest.flush(now);
        server.poll(now);
        backend.any_hostile = false;
        for (u32 k = 0; k < 2; ++k)
            worlds[k]->poll(now, at[k]);
        const std::byte word[] = {std::byte{1}};
        const ClientId seat = server.client(0, 1);
        require(seat != ServerMultiplexer::nobody && server.connection(0, seat) == 1);
        require(worlds[0]->send(seat, Channel::ordered, word) == SendResult::accepted);
        server.flush(now);
    };
    honest_turn();
    while (in.size() >= 2) {
        const u32 how = std::to_integer<u32>(in[0]);
        const std::size_t length = std::to_integer<std::size_t>(in[1]);
        in = in.subspan(2);
        const Bytes message = in.first(length < in.size() ? length : in.size());
        in = in.subspan(message.size());
        const bool to_server = how >> 2 & 1;
        if ((how & 3) == 3) {
            backend.renews = true;
        } else if (to_server) {
            backend.hostile = message;
            backend.channel = static_cast<Channel>(how & 3);
            backend.any_hostile = backend.hostile_to_server = true;
        } else {
            liar.next = message;
            liar.channel = static_cast<Channel>(how & 3);
            liar.any = true;
        }
        if (!(how >> 3 & 1)) { // the worlds are slow
            server.poll(now);
            backend.any_hostile = false;
            deceived.poll(now);
            continue;
        }
        honest_turn();
        deceived.poll(now);
        for (const u32 world : {0u, 1u, 2u}) {
            ClientBackend* const room = deceived.join(world); // again, if it was let out
            require(room != nullptr);
            room->poll(now, at_deceived[world]);
        }
        deceived.flush(now);
        if (how >> 4 & 1) // the world lets out whoever the input brought in
            if (const ClientId seat = server.client(1, 0); seat != ServerMultiplexer::nobody)
                worlds[1]->disconnect(seat), at[1].connected.at(seat) = 0;
        ++now;
    }
    const u64 heard = at_home.messages;
    honest_turn();
    honest_turn();
    require(at_home.here && at_home.messages > heard);
    fuzz::accepted_count += at[0].messages > 0 || at[1].messages > 0 || at_deceived[0].messages > 0;
    return 0;
}
