#pragma once
// A server, some clients and a simulated network in one process: what tests of replication start from.
#include "throng/client.hpp"
#include "throng/loopback.hpp"
#include "throng/server.hpp"
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace throng_test {

struct Place {
    float x = 0, z = 0;
};
struct Speed {
    float x = 0, z = 0;
};
struct Health {
    int hp = 0;
    bool angry = false;
};
struct Link {
    throng::Entity target;
};
struct Name {
    std::string text;
};

inline throng::u32 write_name(const void* component, std::span<std::byte> out) {
    const std::string& text = static_cast<const Name*>(component)->text;
    if (text.size() <= out.size())
        std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), out.data());
    return static_cast<throng::u32>(text.size());
}
inline throng::Error read_name(void* component, std::span<const std::byte> in) {
    static_cast<Name*>(component)->text.assign(reinterpret_cast<const char*>(in.data()), in.size());
    return throng::Error::none;
}

/// Place, Speed, Health, Link and Name in a map of +-1000 units, 1 cm; and Lasting, if asked for.
inline std::unique_ptr<throng::Protocol> make_protocol(throng::u32 name_bytes_max = 2000, bool lasting = false) {
    auto protocol = std::make_unique<throng::Protocol>();
    const throng::Range map{-1000, 1000, 0.01};
    protocol->component<Place>("place")
        .field(&Place::x, map)
        .field(&Place::z, map)
        .spatial(&Place::x, &Place::z)
        .extrapolated_by(&Speed::x, &Speed::z);
    protocol->component<Speed>("speed").field(&Speed::x, throng::Range{-20, 20, 0.01}).field(&Speed::z, throng::Range{-20, 20, 0.01});
    protocol->component<Health>("health").field(&Health::hp).field(&Health::angry);
    protocol->component<Link>("link").field(&Link::target);
    protocol->opaque<Name>("name", name_bytes_max, write_name, read_name);
    if (lasting)
        protocol->component<throng::Lasting>("lasting");
    if (protocol->finish() != throng::Error::none)
        throw std::runtime_error(protocol->problem());
    return protocol;
}

class ReplicationWorld {
public:
    struct Peer {
        throng::ClientId id = 0;
        std::unique_ptr<throng::World> world;
        std::unique_ptr<throng::Client> client;
        bool left = false;
    };

    explicit ReplicationWorld(throng::ServerConfig config = {}, throng::LoopbackConfig network_config = {},
                              std::unique_ptr<throng::Protocol> chosen = make_protocol(), throng::ServerEvents events = {})
        : protocol(std::move(chosen)), network(network_config), server(world, *protocol, network.server(), config, events) {
        if (server.valid() != throng::Error::none)
            throw std::runtime_error(server.problem());
    }

    Peer& connect(const throng::LinkConfig& down = {}, const throng::LinkConfig& up = {}) {
        peers.push_back(std::make_unique<Peer>());
        Peer& peer = *peers.back();
        peer.id = network.connect(down, up);
        peer.world = std::make_unique<throng::World>(throng::WorldOptions{.block_rows = 64});
        peer.client = std::make_unique<throng::Client>(*peer.world, *protocol, network.client(peer.id));
        return peer;
    }

    /// One tick of 50 ms: the server receives and replicates, then the clients receive and acknowledge.
    const throng::TickReport& step() {
        now_us += 50'000;
        server.receive(now_us);
        const throng::TickReport& report = server.tick(now_us);
        for (auto& peer : peers)
            if (!peer->left) {
                if (peer->client->receive(now_us) != throng::Error::none)
                    ++client_errors;
                if (peer->client->send(now_us) != throng::Error::none)
                    ++client_errors;
            }
        return report;
    }
    void steps(int count) {
        for (int i = 0; i < count; ++i)
            step();
    }

    std::unique_ptr<throng::Protocol> protocol;
    throng::World world;
    throng::LoopbackNetwork network;
    throng::Server server;
    std::vector<std::unique_ptr<Peer>> peers;
    throng::TimeUs now_us = 0;
    int client_errors = 0;
};

} // namespace throng_test
