#pragma once
// What a server tells its operator when asked: what one client has and costs, what one component has and costs, and why an entity is or
// is not on a client. Counts are exact, and equal for any executor. Server::client_report, component_report, why.
#include "throng/entity.hpp"
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
    u32 visible = 0;               // entities that it is meant to see, and those that it keeps since they were destroyed while paused
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
                                // is not looked at, and counts when a client comes; nor what was lost with a change of lane
    u64 opaque_bytes = 0;       // of values now, of an opaque component
    ComponentCost last;         // in the last tick
    ComponentCost total;        // since the server was made
};

/// Why an entity is or is not on a client, in the order in which it is decided.
enum class WhyReason : u8 {
    // for all clients
    not_alive,      // no such entity in the world
    not_replicated, // it has no Replicated, and had none before
    paused,         // it has lost Replicated: who has not seen it before does not see it; those that do have what is `current` for them
    no_lane,        // chunks_max
    // for all entities
    not_connected, // there is no such client
    not_joined,    // it has not said hello yet, or was refused
    // out of sight
    no_view,           // the entity has a place, and the client looks nowhere, or follows what has had no place yet
    out_of_radius,     // of the client's view
    hidden,            // View::hide
    not_shown,         // View::hide_all, and no show
    refused_by_layers, // VisibleTo
    refused_by_filter, // VisibleToGroup, or a filter: which, Why::filter says
    lasting_limit,     // lasting_max
    // in sight, but for a component
    not_registered, // the protocol does not have the component
    not_its_audience, // it is of the owner's, of the others or of a group's, and the client is not one of them
    out_of_scope,     // a ScopedTo hides it
    ruled_out,        // the component's own rules (when, with, without) keep it from the entity, for all clients
    // out of sight, and yet there
    frozen,  // a Lasting entity, or component of a Lifetime, that the client may have: it stays as it was. Why it is out of sight:
             // Why::cause
    leaving, // it is gone, or what was in its lane before: the client has not acknowledged that. Why it is out of sight: Why::cause
    // in sight
    next_tick,       // what has changed since the last tick, or was given up in it (records_max), counts in the next one
    oversize,        // larger than the backend's largest message
    budget,          // budget_bytes: it has not had its turn
    priority,        // an UpdatePriority, or the view's own priority for it: it has not had its turn
    backend_refused, // the backend took no more in the last tick
    ordered_busy,    // larger than a packet, and what went before on the Ordered channel is not acknowledged yet
    in_flight,       // sent, in full, and not acknowledged
    limbo,           // no state that the client has acknowledged is of use: it goes in full once more. What it waits for: Why::cause
    behind,          // the client has it, but not its newest state. What that waits for: Why::cause
    current,         // the client has acknowledged the newest state
};
inline constexpr u32 why_reason_count = 29;
const char* to_string(WhyReason reason);

/// How an entity goes with those that it is related to (ComponentBuilder::related).
enum class WhyCluster : u8 {
    none,      // there are none
    together,  // all of them at once
    too_large, // apart: more than Server::cluster_entities_max
    apart      // apart: too far from the root for one chunk to hold both (guide, "Related entities"), or no room (chunks_max)
};

/// One entity on one client, as of the last tick; of View, filters and VisibleTo, what they say now.
struct Why {
    WhyReason reason = WhyReason::not_alive;
    WhyReason cause = WhyReason::not_alive; // what stands behind it (see there), or the same
    WhyCluster cluster = WhyCluster::none;
    bool visible = false; // the client is meant to see it
    bool held = false;    // it has been sent at least once since it came into sight, or is frozen
    NetId net_id;         // none without a lane
    const char* filter = nullptr; // of a cause `refused_by_filter`: the first filter that refuses
    u32 behind_ticks = 0; // of `behind`: the client has its state of so many ticks ago, or a newer one
    double distance = 0;  // of the entity, or of the root of its cluster, from the middle of the client's view, and ...
    double radius = 0;    // ... that view's radius, in units of the spatial axes; 0 without a place, or a view
    /// The sections that last went to the client about the up to 64 entities of its chunk. Those that rest take no part.
    struct Sections {
        Tick tick = 0; // when they went
        u32 bytes = 0; // heads included; 0: none went since the chunk came into sight, or the backend refused all of them
        u32 lanes = 0; // entities that they carried, gone ones included
        bool carried = false; // this one among them: its share is about bytes / lanes
    } last_sections;
};

} // namespace throng
