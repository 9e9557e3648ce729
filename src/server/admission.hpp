#pragma once
// How a client comes to join, or is turned away: hello, verdict, table, welcome, reject.
#include "src/registry/message.hpp"
#include "throng/base.hpp"

namespace throng {

struct ServerState;

/// Says why, and disconnects some ticks later: a message sent just before a disconnect would be discarded.
void reject(ServerState& state, ClientId id, const Reject& reason);
/// Of a client that is connected.
Error take_hello(ServerState& state, ClientId id, Bytes message);
/// Looks at those that wait for a verdict, and answers those that the backend refused to answer before. In receive().
void review_admissions(ServerState& state);
/// The client need not be looked at any more.
void forget_admission(ServerState& state, ClientId id);

} // namespace throng
