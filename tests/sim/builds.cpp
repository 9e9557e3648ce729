// Which builds a seed has.
#include "tests/sim/plan.hpp"

using namespace throng;

namespace throng_sim {
namespace {

/// Pieces that came later: seeds keep what they drew without them.
bool is_later(Piece piece) {
    return piece == Piece::ammo || piece == Piece::barrel || piece == Piece::child_of;
}

/// `leaves_out`: how many of the pieces it lacks.
Build some_build(Random& random, Random& later, double leaves_out) {
    Build build;
    for (u32 p = static_cast<u32>(Piece::place) + 1; p < piece_count; ++p)
        if ((is_later(static_cast<Piece>(p)) ? later : random).chance(leaves_out))
            build.lacks |= bit(static_cast<Piece>(p));
    build.reversed = random.chance(0.4);
    return build;
}

} // namespace

void mix_builds(Plan& plan) {
    Random random(plan.seed ^ 0xb1d5), later(plan.seed ^ 0xb1d6);
    plan.mixed = true;
    plan.server_build = some_build(random, later, random.pick({0.0, 0.0, 0.1, 0.3}));
    plan.other_build = some_build(random, later, random.pick({0.0, 0.1, 0.1, 0.4, 0.9}));
    plan.other_build.coarse = random.chance(0.4);
    if (random.chance(0.2))
        plan.other_build.lacks |= bit(Piece::place); // it does not show where things are
    if (plan.other_build.lacks == plan.server_build.lacks)
        plan.other_build.lacks ^= bit(random.pick({Piece::vitals, Piece::note, Piece::place_y, Piece::link_second, Piece::bond}));
    plan.other_share = random.pick({0.5, 1.0});
}

} // namespace throng_sim
