#pragma once
// Random changes of what goes in a bundle: components that clients get together, or not at all.
#include "tests/sim/components.hpp"
#include "tests/sim/random.hpp"

namespace throng_sim {

class BundleActions {
public:
    BundleActions(throng::u64 seed, throng::World& world) : random_(seed), world_(world) {}
    bool chance(double share) { return random_.chance(share); }
    /// Parts of an entity's bundle come, change, go, or both in one tick.
    void perform();

private:
    void put_ammo(throng::Entity entity);
    void put_barrel(throng::Entity entity);

    Random random_;
    throng::World& world_;
    throng::u32 sequence_ = 0;
};

} // namespace throng_sim
