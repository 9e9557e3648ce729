#pragma once
// Random operations on components with diffs, and on a resource with diffs: diffs, and changes beside them.
#include "tests/sim/components.hpp"
#include "tests/sim/random.hpp"

namespace throng_sim {

class DiffActions {
public:
    DiffActions(throng::u64 seed, const Build& build, throng::World& world, throng::Server& server)
        : random_(seed), build_(build), world_(world), server_(server) {}
    /// Some operations, on one entity or on the resource.
    void perform();
    /// Whether something with this chance happens.
    bool chance(double chance) { return random_.chance(chance); }
    /// Diffs that were refused although they should not, and the other way round.
    throng::u32 mistakes() const { return mistakes_; }

private:
    Stroke stroke();
    void change(Scroll& scroll);
    void on_resource();

    Random random_;
    const Build build_; // of the server
    throng::World& world_;
    throng::Server& server_;
    throng::u32 sequence_ = 0, mistakes_ = 0;
};

} // namespace throng_sim
