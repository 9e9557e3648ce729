#pragma once
// What a server tells its operator when asked: what one client has and costs, what one component has and costs. Counts are exact, and
// equal for any executor. Server::client_report, Server::component_report.
#include "throng/transport.hpp"

namespace throng {

/// What went to one client and what came of it, in some ticks. A message of state has sections, or says which Lasting entities have ended;
/// one with neither is a heartbeat. Only what the backend accepted counts as sent.
struct ClientTraffic {
    u64 messages = 0;         // of state
    u64 bytes = 0;            // of these
    u64 sections = 0;         // in these
    u64 payload_bytes = 0;    // of these sections
    u64 delta_sections = 0;   // of these, those against a baseline
    u64 baseline_age_sum = 0; // over delta sections, in ticks
    u64 lanes = 0;            // entities carried
    u64 full_lanes = 0;       // of these, in full
    u64 gone_lanes = 0;       // entities said to be gone, beside `lanes`
    u64 ends = 0;             // Lasting entities said to have ended
    u64 repeated_lanes = 0;   // lanes put in line again, because what carried them was lost or could not be used
    u64 heartbeats = 0;
    u64 heartbeat_bytes = 0;
    u64 acked_messages = 0;   // of state, heartbeats included
    u64 lost_messages = 0;
    u64 unapplied_sections = 0; // reported by the client
    u64 typed_messages[channel_count] = {}; // by Channel: given to the backend, or queued for it
    u64 typed_bundles = 0;    // backend messages that carried them
    u64 typed_bytes = 0;      // of these
    u64 typed_backlogged = 0; // of reliable channels: the backend refused, tried again in the next tick
    u64 typed_refused = 0;    // of the unreliable channel: the backend refused, dropped
    ClientTraffic& operator+=(const ClientTraffic& other);
};

/// What came from one client since it connected.
struct ClientInput {
    u64 messages = 0; // of the backend, of any kind
    u64 bytes = 0;    // of these
    u64 malformed_messages = 0;
    u64 typed_messages = 0; // handled
    u64 typed_dropped = 0;  // for want of a handler, or by typed_receive_max, or for what they name (TypedCounts)
};

/// One client, as of the last tick. A client that is not connected has zeros.
struct ClientReport {
    Tick tick = 0;
    bool connected = false;
    bool joined = false;
    bool settled = false;          // nothing is unsent or unacknowledged
    u32 chunks = 0;                // (client, chunk) states, 64 bytes each
    u32 visible = 0;               // entities that it is meant to see
    u32 held = 0;                  // of these, those that it may have: sent once at least. The others wait for their first time
    u32 current = 0;               // of those held, those whose newest state it has acknowledged
    u32 limbo = 0;                 // of those held, those without an acknowledged state: they went, or go, in full
    u32 unsent = 0;                // of those visible, those with something that has not been sent yet
    u32 leaving = 0;               // lanes that are gone, which the client has not acknowledged
    u32 lasting = 0;               // Lasting entities that it may have, seen or not
    u32 open_ends = 0;             // of these, ended, which the client has not acknowledged
    u32 messages_in_flight = 0;    // neither acknowledged nor lost
    u32 chunks_behind = 0;         // with something held that is not current
    u32 baseline_age_max = 0;      // of these, the oldest baseline, in ticks
    double round_trip_ticks = 0;   // smoothed; 4 before the first acknowledgement
    ClientTraffic last;            // in the last tick
    ClientTraffic total;           // since it connected
    ClientInput input;
};

/// What encoding a component came to. Sections are encoded once for all their receivers. Counted in the packed form, before zstd; where
/// `Compression::always` leaves no packed form, in the wide one.
struct ComponentCost {
    u64 sections = 0; // that carry something of it
    u64 bits = 0;     // of it, presence included: a component of which a section carries nothing takes one bit of it
};

/// One replicated component, as of the last tick.
struct ComponentReport {
    const char* name = nullptr; // null: not registered; then all is 0
    u32 entities = 0;           // replicated entities that have it
    u64 held = 0;               // (client, entity): entities that have it, and that a client may have
    u32 changed = 0;            // entities that got it, lost it or have another value on the wire in the last tick. What no client is near
                                // is not looked at, and counts when a client comes
    u64 opaque_bytes = 0;       // of values now, of an opaque component
    ComponentCost last;         // in the last tick
    ComponentCost total;        // since the server was made
};

} // namespace throng
