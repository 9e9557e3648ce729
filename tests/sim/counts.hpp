#pragma once
// Reports of single clients against what else is known of a tick.
#include "tests/sim/peer.hpp"
#include <memory>
#include <vector>

namespace throng_sim {

/// The sums of the clients' reports are the tick's; what the masks of a client say agrees with what can be asked one by one.
/// `cut_off`: the tick has closed a connection.
void check_counts(throng::Server& server, const throng::TickReport& report, bool cut_off, Failure& failure);

/// Why each entity is or is not on each client, before it has received what this tick sent: agrees with what the server says that it sees,
/// with the sums of its report, and with what it has.
void check_why(throng::Server& server, const throng::TickReport& report, const throng::World& world,
               const std::vector<std::unique_ptr<Peer>>& peers, Failure& failure);

} // namespace throng_sim
