#pragma once
// Reports of single clients against what else is known of a tick.
#include "tests/sim/peer.hpp"

namespace throng_sim {

/// The sums of the clients' reports are the tick's; what the masks of a client say agrees with what can be asked one by one.
void check_counts(throng::Server& server, const throng::TickReport& report, Failure& failure);

} // namespace throng_sim
