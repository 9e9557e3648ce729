#pragma once
// What a client tells when asked: what it has of the server's state, and what the present connection has brought. Counts are exact.
// Client::report, Client::component_report; Client::stats has all counts since the client was made.
#include "throng/base.hpp"

namespace throng {

/// The counts begin anew with each connection; between connections they are 0. Those of messages equal what the server counts as
/// sent (ClientTraffic) if every message arrived once.
struct ReceivedReport {
    u32 entities = 0;           // replicated entities here, now
    u32 frozen = 0;             // of these, Lasting ones out of sight
    u32 components = 0;         // replicated components of them
    u64 messages = 0;           // of state, or of ends: read, applied as far as they can be, and so acked. No heartbeats, no copies
    u64 bytes = 0;              // of these
    u64 entities_changed = 0;   // times that newer state of an entity was applied, its first included
    u64 components_changed = 0; // values that were written
    u64 mappings = 0;           // net ids that got an entity
    u64 despawns = 0;           // entities that went
};

/// One replicated type, all its registrations together: what is here now, and what the present connection has brought.
struct ReceivedComponent {
    const char* name = nullptr; // null: not registered; then all is 0
    u32 entities = 0;           // replicated entities that have it, now
    u64 inserts = 0;
    u64 removes = 0;            // from entities that stay
    u64 writes = 0;             // values written, those of inserts included
    u64 opaque_bytes = 0;       // of these, of an opaque component, as received: of its diffs, where these came
};

} // namespace throng
