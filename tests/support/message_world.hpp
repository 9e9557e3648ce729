#pragma once
// A server, clients and typed messages of every kind: what tests of messages start from. Each side writes down what its handlers hear.
#include "throng/loopback.hpp"
#include "throng/messenger.hpp"
#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace message_test {
using namespace throng;

struct Place {
    float x = 0, z = 0;
};

// To clients, unless said otherwise ordered.
struct Hit {
    Entity target;
    i32 value = 0;
};
struct Shout { // of another size
    Entity target;
    u64 value = 0;
    u64 more = 0;
};
struct Alarm { // independent
    Entity target;
    i32 value = 0;
};
struct Round { // waits for its tick
    i32 value = 0;
};
struct Rumour { // unordered
    Entity target;
    i32 value = 0;
};
struct Spark { // unreliable
    Entity target;
    i32 value = 0;
};
// To the server.
struct Attack {
    Entity target;
    i32 value = 0;
};
struct Stir { // unreliable
    i32 value = 0;
};
// Both ways.
struct Chat {
    Entity speaker;
    std::string text;
};

inline u32 write_text(const void* message, std::span<std::byte> out) {
    const std::string& text = static_cast<const Chat*>(message)->text;
    if (text.size() <= out.size())
        std::transform(text.begin(), text.end(), out.begin(), [](char c) { return static_cast<std::byte>(c); });
    return static_cast<u32>(text.size());
}
inline Error read_text(void* message, std::span<const std::byte> in) {
    if (!in.empty() && in[0] == std::byte{'!'})
        return Error::bad_value;
    static_cast<Chat*>(message)->text.assign(reinterpret_cast<const char*>(in.data()), in.size());
    return Error::none;
}

/// Messages of every kind.
inline void register_messages(Protocol& protocol) {
    protocol.message<Hit>("hit").field(&Hit::target).field(&Hit::value);
    protocol.message<Shout>("shout").field(&Shout::target).field(&Shout::value).field(&Shout::more);
    protocol.message<Alarm>("alarm", {.independent = true}).field(&Alarm::target).field(&Alarm::value);
    protocol.message<Round>("round", {.waits_for_tick = true}).field(&Round::value);
    protocol.message<Rumour>("rumour", {.channel = Channel::unordered}).field(&Rumour::target).field(&Rumour::value);
    protocol.message<Spark>("spark", {.channel = Channel::unreliable}).field(&Spark::target).field(&Spark::value);
    protocol.message<Attack>("attack", {.route = Route::to_server}).field(&Attack::target).field(&Attack::value);
    protocol.message<Stir>("stir", {.channel = Channel::unreliable, .route = Route::to_server}).field(&Stir::value);
    protocol.message<Chat>("chat", {.route = Route::both, .bytes_max = 3000}).field(&Chat::speaker).rest(write_text, read_text);
}

inline std::unique_ptr<Protocol> make_protocol() {
    auto protocol = std::make_unique<Protocol>();
    const Range map{-1000, 1000, 0.01};
    protocol->component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
    protocol->component<Lasting>("lasting");
    register_messages(*protocol);
    if (protocol->finish() != Error::none)
        throw std::runtime_error(protocol->problem());
    return protocol;
}

struct Heard {
    std::string what;
    i64 value = 0;
    Entity entity;
    Sender sender;
};

/// Handles all messages.
struct Ear {
    std::vector<Heard> heard;
    void handle(const Hit& m, const Sender& s) { heard.push_back({"hit", m.value, m.target, s}); }
    void handle(const Shout& m, const Sender& s) { heard.push_back({"shout", static_cast<i64>(m.value), m.target, s}); }
    void handle(const Alarm& m, const Sender& s) { heard.push_back({"alarm", m.value, m.target, s}); }
    void handle(const Round& m, const Sender& s) { heard.push_back({"round", m.value, {}, s}); }
    void handle(const Rumour& m, const Sender& s) { heard.push_back({"rumour", m.value, m.target, s}); }
    void handle(const Spark& m, const Sender& s) { heard.push_back({"spark", m.value, m.target, s}); }
    void handle(const Attack& m, const Sender& s) { heard.push_back({"attack", m.value, m.target, s}); }
    void handle(const Stir& m, const Sender& s) { heard.push_back({"stir", m.value, {}, s}); }
    void handle(const Chat& m, const Sender& s) { heard.push_back({"chat " + m.text, static_cast<i64>(m.text.size()), m.speaker, s}); }

    u32 count(const std::string& what) const {
        return static_cast<u32>(std::count_if(heard.begin(), heard.end(), [&](const Heard& h) { return h.what == what; }));
    }
    std::vector<i64> values(const std::string& what) const {
        std::vector<i64> out;
        for (const Heard& h : heard)
            if (h.what == what)
                out.push_back(h.value);
        return out;
    }
};
inline auto client_handlers(Ear& ear) {
    return handlers<Hit, Shout, Alarm, Round, Rumour, Spark, Chat>(ear);
}
inline auto server_handlers(Ear& ear) {
    return handlers<Attack, Stir, Chat>(ear);
}

struct MessageWorldOptions {
    ServerConfig server{.cell_size = 64};
    LoopbackConfig network;
    ClientConfig client;
    LinkConfig link; // both ways, of connections
};

class MessageWorld {
public:
    struct Peer {
        ClientId id = 0;
        World world{WorldOptions{.block_rows = 64}};
        Ear ear;
        std::unique_ptr<Client> client;
        bool left = false;
    };

    explicit MessageWorld(MessageWorldOptions chosen = {})
        : options(chosen), protocol(make_protocol()), network(options.network),
          server(world, *protocol, network.server(), options.server, 
                 {this, &MessageWorld::on_join, &MessageWorld::on_leave, &MessageWorld::on_hello, &MessageWorld::on_withdraw}) {
        if (server.valid() != Error::none || server.set_handlers(server_handlers(ear)) != Error::none)
            throw std::runtime_error(server.problem());
    }

    /// A connection that has not said hello yet, since no step has run.
    Peer& connect() { return connect(options.link, options.link); }
    Peer& connect(const LinkConfig& down, const LinkConfig& up) {
        Peer& peer = *peers.emplace_back(std::make_unique<Peer>());
        peer.id = network.connect(down, up);
        peer.client = std::make_unique<Client>(peer.world, *protocol, network.client(peer.id), options.client);
        if (peer.client->set_handlers(client_handlers(peer.ear)) != Error::none)
            throw std::runtime_error("handlers");
        return peer;
    }
    Peer& join() {
        Peer& peer = connect();
        until([&] { return server.joined(peer.id) && peer.client->joined(); });
        return peer;
    }

    void server_step() {
        now_us += tick_us;
        server.receive(now_us);
        report = &server.tick(now_us);
        typed += report->typed;
    }
    void client_step(Peer& peer) {
        if (peer.left)
            return;
        client_errors += peer.client->receive(now_us) != Error::none;
        client_errors += peer.client->send(now_us) != Error::none;
    }
    /// One tick of 50 ms: the server receives and ticks, then the clients receive and send.
    void step() {
        server_step();
        for (auto& peer : peers)
            client_step(*peer);
    }
    void steps(u32 count) {
        for (u32 i = 0; i < count; ++i)
            step();
    }
    /// Steps until the condition holds, or 300 times. Returns whether it holds.
    template <class Condition>
    bool until(Condition&& condition) {
        for (u32 i = 0; i < 300 && !condition(); ++i)
            step();
        return condition();
    }
    /// A replicated entity that everybody sees.
    Entity spawn() { return world.spawn(Replicated{}); }
    Entity shown(Peer& peer, Entity entity) { return peer.client->entity(server.net_id(entity)); }

    static constexpr TimeUs tick_us = 50'000;
    MessageWorldOptions options;
    std::unique_ptr<Protocol> protocol;
    World world;
    LoopbackNetwork network;
    Server server;
    Ear ear; // of the server
    std::vector<std::unique_ptr<Peer>> peers;
    std::vector<ClientId> joins, leaves, withdrawals;
    void (*joined)(MessageWorld&, ClientId) = nullptr; // called in on_join
    std::function<Verdict(ClientId, const ClientHello&)> verdict; // called in on_hello
    TimeUs now_us = 0;
    const TickReport* report = nullptr;
    TypedCounts typed; // summed over the reports
    int client_errors = 0;

private:
    static void on_join(void* context, ClientId id) {
        MessageWorld& self = *static_cast<MessageWorld*>(context);
        self.joins.push_back(id);
        if (self.joined)
            self.joined(self, id);
    }
    static void on_leave(void* context, ClientId id) { static_cast<MessageWorld*>(context)->leaves.push_back(id); }
    static Verdict on_hello(void* context, ClientId id, const ClientHello& hello) {
        return static_cast<MessageWorld*>(context)->verdict(id, hello);
    }
    static void on_withdraw(void* context, ClientId id) { static_cast<MessageWorld*>(context)->withdrawals.push_back(id); }
};

} // namespace message_test
