#pragma once
// The hierarchy at random: entities get parents and lose them, and parents take theirs along when they end.
#include "tests/sim/actions.hpp"
#include "tests/sim/peer.hpp"
#include "tests/sim/tally.hpp"

namespace throng_sim {

class FamilyActions {
public:
    FamilyActions(throng::u64 seed, throng::World& world, throng::Server& server, Actions& actions, Failure& failure, Tally& tally)
        : random_(seed), world_(world), server_(server), actions_(actions), failure_(failure), tally_(tally) {}
    bool chance(double share) { return random_.chance(share); }
    void perform();

private:
    throng::Entity any();
    void adopt(throng::Entity child, throng::Entity parent);

    Random random_;
    throng::World& world_;
    throng::Server& server_;
    Actions& actions_;
    Failure& failure_;
    Tally& tally_;
};

/// Whether the world's way back agrees with what its entities say. An empty text: it does.
std::string check_family(const throng::World& world);

} // namespace throng_sim
