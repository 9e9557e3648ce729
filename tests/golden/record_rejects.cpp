// Prints a golden file (format: tools/wire_check.py) of a server that turns clients away, for every reason there is, while one plays: other
// protocols, each told the table and at odds with it elsewhere; another wire format; the host's no; no room.
#include "src/server/state.hpp"
#include "tests/golden/golden_print.hpp"
#include "throng/client.hpp"
#include "throng/loopback.hpp"
#include "throng/wire.hpp"
#include <cstring>
#include <memory>
#include <string>
#include <vector>

using namespace throng;

namespace {
struct Place {
    float x = 0, z = 0;
};
struct Speed {
    float x = 0, z = 0;
};
struct Mood {
    u16 anger = 0;
};
struct Words {
    u8 text = 0;
};
struct Say {
    u16 word = 0;
};
u32 write_words(const void* component, std::span<std::byte> out) {
    out[0] = static_cast<std::byte>(static_cast<const Words*>(component)->text);
    return 1;
}
Error read_words(void* component, Bytes in) {
    if (in.size() != 1)
        return Error::bad_value;
    static_cast<Words*>(component)->text = static_cast<u8>(in[0]);
    return Error::none;
}

/// What a build of the game may have otherwise.
enum class Build { same, tick_hz, field, opaque, message };
std::unique_ptr<Protocol> protocol_of(Build build) {
    auto protocol = std::make_unique<Protocol>(ProtocolConfig{.tick_hz = build == Build::tick_hz ? 30u : 20u});
    const Range map{-1000, 1000, 0.01}, speeds{-20, 20, 0.05};
    protocol->component<Place>("place")
        .field(&Place::x, map, "metres to the east")
        .field(&Place::z, map, "metres to the north")
        .spatial(&Place::x, &Place::z);
    protocol->component<Speed>("speed")
        .field(&Speed::x, speeds, "metres a second to the east")
        .field(&Speed::z, speeds, "metres a second to the north");
    if (build == Build::field)
        protocol->component<Mood>("mood").field(&Mood::anger, Range{0, 100, 1}, "anger");
    else
        protocol->component<Mood>("mood").field(&Mood::anger, "anger");
    if (build == Build::opaque)
        protocol->component<Words>("words").field(&Words::text, "text");
    else
        protocol->opaque<Words>("words", 30, write_words, read_words);
    protocol->message<Say>("say", {.channel = build == Build::message ? Channel::ordered : Channel::unordered})
        .field(&Say::word, "number in the list of all words");
    return protocol->finish() == Error::none ? std::move(protocol) : nullptr;
}

constexpr char ticket[] = "ticket";
Verdict on_hello(void*, ClientId, const ClientHello& hello) {
    return hello.data.size() == sizeof ticket && std::memcmp(hello.data.data(), ticket, sizeof ticket) == 0 ? Verdict::yes : Verdict::no;
}

struct Peer {
    Peer(Build build, const char* p, Error e) : protocol(protocol_of(build)), problem(p), error(e) {}
    std::unique_ptr<Protocol> protocol;
    const char* problem; // what the client says in the end
    Error error;         // none: it plays
    ClientId id = 0;
    World world{WorldOptions{.block_rows = 64}};
    std::unique_ptr<Client> client;
    bool refused = false;
};

/// The client of another wire format: it understands that it is rejected, and no more.
struct Later final : ClientBackendSink {
    std::string told;
    bool closed = false;
    void on_connect() override {}
    void on_disconnect() override { closed = true; }
    void on_message(Channel, Bytes message) override {
        for (const std::byte byte : message.subspan(1))
            told += static_cast<char>(byte);
    }
};

void record(void*, const TraceRecord& record) {
    golden::print_delivered(record);
}
} // namespace

int main() {
    const auto protocol = protocol_of(Build::same);
    World world;
    LoopbackNetwork network({.seed = 31, .trace = {&record, nullptr}});
    constexpr LinkConfig link{.loss_percent = 10, .delay_us = 40'000, .jitter_us = 30'000};
    Server server(world, *protocol, network.server(),
                  {.cell_size = 60, .clients_max = 7, .authorization = Authorization::custom, .hash_ticks = 8}, {.on_hello = on_hello});
    if (server.valid() != Error::none)
        return 1;
    golden::print_protocol(protocol->layout(), static_cast<u32>(server.state().grid.cell_steps()), {}, ", \"hashes\": true",
                           &protocol->messages());
    for (u32 i = 0; i < 20; ++i)
        world.spawn(Place{static_cast<float>(i), static_cast<float>(i % 7)}, Mood{static_cast<u16>(i)}, Words{static_cast<u8>(i)},
                    Replicated{});

    std::vector<std::unique_ptr<Peer>> peers;
    const auto connect = [&](Build build, const char* problem, Error error, bool invited = true) {
        Peer& peer = *peers.emplace_back(std::make_unique<Peer>(build, problem, error));
        peer.id = network.connect(link, link);
        peer.client = std::make_unique<Client>(peer.world, *peer.protocol, network.client(peer.id));
        if (build != Build::same)
            golden::print_own_table(peer.id, peer.protocol->table(), problem);
        return !invited || peer.client->set_hello_data(std::as_bytes(std::span(ticket))) == Error::none;
    };
    bool good = connect(Build::same, "", Error::none);
    good &= connect(Build::tick_hz, "tick_hz: 20 there, 30 here", Error::wrong_protocol);
    good &= connect(Build::field, "component \"mood\", field \"anger\": another kind or type", Error::wrong_protocol);
    good &= connect(Build::opaque, "component \"words\": opaque on one side only", Error::wrong_protocol);
    good &= connect(Build::message, "message \"say\": another channel, route, option or rest", Error::wrong_protocol);
    good &= connect(Build::same, "not authorized", Error::unauthorized, false);
    // One of a later wire format, of whose hello nothing but kind and version is known.
    const ClientId later = network.connect(link, link);
    std::byte hello[64] = {std::byte{1}, static_cast<std::byte>(wire_format_version + 1)};
    good &= network.client(later).send(Channel::ordered, hello) == SendResult::accepted;
    good &= connect(Build::same, "the server is full", Error::limit_reached);

    Later at_later;
    TimeUs now = 0;
    for (u32 tick = 0; tick < 40; ++tick) {
        now += 50'000;
        server.receive(now);
        if (server.joined(0))
            server.view(0).look_at(10, 3, {.radius = 60});
        server.tick(now);
        for (const auto& peer : peers) {
            peer->refused |= peer->client->receive(now) == peer->error && std::strcmp(peer->client->problem(), peer->problem) == 0;
            good &= peer->client->send(now) == Error::none || peer->error != Error::none; // the connection may be closed
        }
        network.client(later).poll(now, at_later);
        network.client(later).flush(now);
    }
    for (const auto& peer : peers) {
        const bool plays = peer->error == Error::none;
        good &= peer->refused && peer->client->connected() == plays && (peer->world.entity_count() > 0) == plays;
    }
    good &= server.settled(0) && at_later.closed && at_later.told == "\1another wire format version";
    if (!good)
        std::fprintf(stderr, "record_rejects: the session did not go as it should\n");
    return good ? 0 : 1;
}
