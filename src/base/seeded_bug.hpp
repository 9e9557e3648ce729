#pragma once
// Defects on purpose. The simulator test must catch each of them; they exist only in builds with -Dseeded_bugs=true, and there only one at
// a time is switched on.
#include "throng/base.hpp"

namespace throng {

enum class SeededBug : u8 {
    none,
    ack_before_apply,          // a section that could not be applied is acknowledged as if it had been
    lost_gone,                 // "gone" is sent once and then forgotten
    reused_lane,               // a new occupant in a lane goes unnoticed
    promotion_without_changed, // a baseline is promoted past changes
    off_by_one_baseline,       // a delta is taken against the tick after the baseline
    dropped_limbo_lane,        // an ack takes lanes out of limbo that it did not carry
    resurrected_entity,        // the client forgets who is dead
    wrong_reference,           // a reference to a dead entity names whoever has its slot now
    torn_cluster,              // of a cluster, only what is unsent goes
    overtaking_message,        // an ordered typed message does not wait behind one of its type
    early_message,             // a typed message does not wait for the entities that it names
    forgotten_exception,       // To::all_except goes to all
    count
};

#ifdef THRONG_SEEDED_BUGS
/// The one that is on. Set before any server or client is made.
inline SeededBug active_seeded_bug = SeededBug::none;
inline bool seeded_bug(SeededBug bug) { return active_seeded_bug == bug; }
#else
constexpr bool seeded_bug(SeededBug) { return false; }
#endif

} // namespace throng
