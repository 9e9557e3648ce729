#pragma once
// What the server says of single components, against what the simulator knows itself: Server::component_report, and Server::why of a
// component.
#include "tests/sim/peer.hpp"
#include "tests/sim/tally.hpp"
#include <memory>
#include <vector>

namespace throng_sim {

class ComponentCounts {
public:
    ComponentCounts(throng::u64 seed, const Build& server_build, throng::World& world, throng::Server& server, const Truth& truth,
                    const std::vector<std::unique_ptr<Peer>>& peers, Failure& failure, Tally& tally);
    /// After Server::tick, when truth and sights of the tick are recorded. One component a tick, and each client about a few entities.
    void check(const throng::TickReport& report);

private:
    void check_report(throng::u32 component, throng::ComponentId id, const throng::TickReport& report);
    void check_held(throng::u32 component, const throng::ComponentReport& report);
    void check_changed(throng::u32 component, const throng::ComponentReport& report, const throng::TickReport& tick);
    void check_opaque(throng::u32 component, const throng::ComponentReport& report);
    void check_why(throng::Entity entity, const Peer& peer);
    bool registered(throng::u32 component) const;
    bool ruled_out(throng::u32 component, throng::Entity entity) const;
    void note_viewed();

    Random random_;
    const Build& build_;
    throng::World& world_;
    throng::Server& server_;
    const Truth& truth_;
    const std::vector<std::unique_ptr<Peer>>& peers_;
    Failure& failure_;
    Tally& tally_;
    throng::ComponentCost totals_[component_count]; // as of the last look
    std::vector<bool> viewed_;                      // by chunk, in the last tick: what no client is near is not looked at
};

} // namespace throng_sim
