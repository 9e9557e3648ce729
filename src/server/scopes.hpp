#pragma once
// Scopes: of some lanes not all clients see the same components (throng/scopes.hpp). What a client sees of a lane is a mask of components,
// by protocol index. Nearly always it is Layout::plain(); the lanes of which a client sees something else are listed with the client
// (LaneMasks), and lanes that it sees alike make a key. A component outside the mask is encoded as absent, at the baseline too. A full
// section also says which of the absent ones the client keeps as they are (Lifetime), from the mask alone, whatever the entity has. Nothing
// else knows of kept components: for rings, baselines, acks and hashes they are absent.
//
// A lane becomes scoped when its entity gets a component with an audience, or a ScopedTo; it stays so until another entity takes it. Of
// scoped lanes the chunk keeps when each component changed, so that a change that a client does not see is none for it.
#include "src/server/mirror.hpp"
#include "throng/scopes.hpp"
#include <span>

namespace throng {

/// What ScopedTo says, in components of the protocol.
struct LaneRules {
    struct Rule {
        u32 components = 0;
        VisibleTo to;
        Lifetime lifetime = Lifetime::while_visible;
    };
    Rule* rules = nullptr; // room for `room` of them
    u32 count = 0, room = 0;
};

/// Written by structure (what entities say) and, one worker a chunk, by capture (what changed); read by all stages after it.
struct ChunkScopes {
    u64 scoped = 0; // lanes
    u64 ruled = 0;  // lanes whose entity has ScopedTo
    u64 waited = 0; // of Chunk::announced: lanes of which a change had waited (R16)
    Tick bound[lane_count];                // of scoped lanes: no older than the tick in which the occupant took it
    Tick plain_changed[lane_count];        // newest change of a component in Layout::plain()
    u32 owner_connections[lane_count];     // ClientState::connection of the owner; 0: nobody
    GroupId groups[lane_count];            // no_group: none
    LaneRules* rules = nullptr;            // [lane]; null until a lane is ruled
    u32 component_count = 0, plain = 0;    // Layout::plain()
    Tick* changed = nullptr;               // [lane * component_count + component]: newest change

    Tick* changed_of(u32 lane) { return changed + lane * component_count; }
    const Tick* changed_of(u32 lane) const { return changed + lane * component_count; }
    u32 changed_in[history_max][lane_count]; // by version of the ring, of scoped lanes that changed in it: which components did

    /// All components of a lane changed at the tick, and in whatever version the lane did.
    void reset(u32 lane, Tick tick);
};
inline constexpr GroupId no_group = 0xffffffffu;

/// What a client sees of a lane, in one number: a mask of components, and above it one of those that it keeps although it does not see
/// them.
constexpr u64 sees_of(u32 components, u32 kept) {
    return components | u64(kept) << 32;
}
constexpr u32 seen_of(u64 sees) {
    return static_cast<u32>(sees);
}
constexpr u32 kept_of(u64 sees) {
    return static_cast<u32>(sees >> 32);
}

/// What the rules of a lane come to for one client.
struct SeenComponents {
    u32 components = 0;      // that it sees
    u32 kept = 0;            // hidden ones that it keeps ...
    u32 initial = 0;         // ... those of them that come with the entity, once
    bool introduces = false; // there may be some, for other layers
};

/// Of which of a client's visible lanes it sees other components than Layout::plain(), and which ones; and those with components that come
/// with the entity. Ascending by place.
class LaneMasks {
public:
    struct Entry {
        u32 place = 0; // chunk * 64 + lane
        u32 components = 0;
        u32 kept = 0;
        u32 had = 0;             // of the kept ones, those that it may have been sent
        bool introduced = false; // it has acknowledged the lane with what comes with the entity, or had the entity before
        u64 sees() const { return sees_of(components, kept); }
        friend bool operator==(const Entry&, const Entry&) = default;
    };
    explicit LaneMasks(Allocator allocator) : entries_(allocator) {}

    std::span<const Entry> of(u32 chunk) const;
    void replace(u32 chunk, std::span<const Entry> entries);
    u32 size() const { return entries_.size(); }
    u64 capacity_bytes() const { return u64(entries_.capacity()) * sizeof(Entry); }

private:
    Array<Entry> entries_;
};

/// The tick of the newest change of a lane so far, or `otherwise` if none is known.
Tick newest_change(const Chunk& chunk, u32 lane, Tick otherwise);
/// Makes lanes scoped that were not: until now all components may have changed whenever the lane did.
void scope_lanes(Chunk& chunk, ChunkScopes& scopes, u64 lanes, Tick now);

} // namespace throng
