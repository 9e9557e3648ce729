#pragma once
// A server of one build and clients of any, in one process.
#include "tests/versions/builds.hpp"
#include "throng/loopback.hpp"
#include <memory>
#include <vector>

namespace versions_test {

template <class ServerBuild>
class Play {
public:
    explicit Play(const ServerConfig& config = {.hash_ticks = 4}, const LoopbackConfig& links = {})
        : network(links), server(world, server_build.protocol, network.server(), config, {this, on_join, nullptr}) {
        if (server.valid() != Error::none)
            throw std::runtime_error(server.problem());
    }

    struct Peer {
        ClientId id = 0;
        World world{WorldOptions{.block_rows = 64}};
        std::unique_ptr<Client> client;
        Error last = Error::none; // of receive
        bool left = false;
    };
    Peer& connect(const Protocol& protocol, const LinkConfig& link = {}) {
        Peer& peer = *peers.emplace_back(std::make_unique<Peer>());
        peer.id = network.connect(link, link);
        peer.client = std::make_unique<Client>(peer.world, protocol, network.client(peer.id));
        return peer;
    }
    const TickReport& step() {
        now += 50'000;
        server.receive(now);
        const TickReport& report = server.tick(now);
        equal += report.hashes_equal;
        different += report.hashes_different;
        malformed += report.malformed_messages;
        for (const auto& peer : peers)
            if (!peer->left) {
                peer->last = peer->client->receive(now);
                send_errors += peer->client->send(now) != Error::none;
            }
        return report;
    }
    void steps(u32 count) {
        for (u32 i = 0; i < count; ++i)
            step();
    }
    template <class Condition>
    bool until(Condition&& condition) {
        for (u32 i = 0; i < 400 && !condition(); ++i)
            step();
        return condition();
    }
    /// All that the client may see is acknowledged.
    bool settle(const Peer& peer) {
        steps(3);
        return until([&] { return server.settled(peer.id); });
    }
    Entity shown(const Peer& peer, Entity entity) const { return peer.client->entity(server.net_id(entity)); }

    BuildProtocol<ServerBuild> server_build;
    World world;
    LoopbackNetwork network;
    Server server;
    std::vector<std::unique_ptr<Peer>> peers;
    TimeUs now = 0;
    u64 equal = 0, different = 0, malformed = 0, send_errors = 0;

private:
    static void on_join(void* context, ClientId id) { static_cast<Play*>(context)->server.view(id).look_at(0, 0, {.radius = 3000}); }
};

} // namespace versions_test
