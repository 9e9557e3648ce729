#pragma once
// Random operations on what filters of views look at, on both sides, and what the filters must come to by what was said.
#include "tests/sim/peer.hpp"
#include <memory>
#include <vector>

namespace throng_sim {

/// Whether one of the server's filters, or VisibleToGroup, keeps the entity from the client.
bool refused_by_filter(const throng::World& world, const throng::Server& server, const Peer& peer, throng::Entity entity);

class FilterActions {
public:
    FilterActions(throng::u64 seed, throng::World& world, throng::Server& server, const std::vector<std::unique_ptr<Peer>>& peers)
        : random_(seed), world_(world), server_(server), peers_(peers) {}
    /// The server gets its filters. False: it refuses them.
    bool add();
    /// One operation on an entity, a client or a group. False: the server refuses what it should not.
    bool perform();
    bool chance(double chance) { return random_.chance(chance); }
    /// For Verifier::filtered; `context` is a FilterActions.
    static bool filtered(const void* context, throng::ClientId client, throng::Entity entity);

private:
    bool change_client(Peer& peer);
    void change_group(const Peer& peer);
    void change_entity(throng::Entity entity);
    throng::u32 any_number();

    Random random_;
    throng::World& world_;
    throng::Server& server_;
    const std::vector<std::unique_ptr<Peer>>& peers_;
    std::vector<throng::GroupId> groups_;
};

} // namespace throng_sim
