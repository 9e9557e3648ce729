#pragma once
// Everything a Server owns. The stages in jobs/stages work on it; who writes what, and when, is said per member.
#include "src/base/seeded_bug.hpp"
#include "src/events/dispatcher.hpp"
#include "src/events/item_queue.hpp"
#include "src/memory/counted_allocator.hpp"
#include "src/registry/wire_objects.hpp"
#include "src/server/entity_list.hpp"
#include "src/server/keys.hpp"
#include "src/server/lasting_list.hpp"
#include "src/server/mirror.hpp"
#include "src/server/network_ids.hpp"
#include "src/server/op_queue.hpp"
#include "src/server/relation_graph.hpp"
#include "src/server/scopes.hpp"
#include "src/server/typed_outbox.hpp"
#include "src/server/view_filters.hpp"
#include "src/visibility/interest_grid.hpp"
#include "throng/server.hpp"

namespace throng {

inline constexpr u32 no_slot = 0xffffffffu;

/// Where an entity of the world is replicated; indexed by entity_idx. Written by the structure stage, and `ending` between ticks.
struct Slot {
    u64 entity_id = 0; // 0: not replicated
    NetId net_id;
    u32 place = no_slot; // chunk * 64 + lane
    Tick bound_tick = 0;
    i16 cell_a = 0, cell_b = 0; // cell coordinates, if spatial
    bool spatial = false;
    bool lasting : 1 = false, from_start : 1 = false; // by its Lasting, when it got its net id
    bool paused = false; // no place as far as the stages are concerned: ServerState::paused has it
    bool ending = false; // it is in ServerState::ending
};
static_assert(sizeof(Slot) == 32);

/// State of one (client, chunk) (R4). One cache line. Written by the worker that has the client.
struct alignas(64) ClientChunk {
    u64 visible = 0;      // lanes the client is meant to see
    u64 known = 0;        // lanes it may hold
    u64 limbo = 0;        // known lanes without a usable baseline: sent in full
    u64 pending = 0;      // known lanes with something unsent
    u32 chunk = 0;
    Tick baseline = 0; // B
    Tick sent_tick = 0; // last section sent, for priorities
    u16 in_flight = 0;  // sections in unlost records
    u16 masked = 0;     // lanes in ClientState::masks
    // What was planned last: the lanes of it that the backend took, gone ones included, and the bytes of its sections, heads included.
    // It went at sent_tick if these are not 0.
    u32 sent_bytes = 0;
    u64 sent_lanes = 0;
};
static_assert(sizeof(ClientChunk) == 64);

/// One section of a message in flight. Serves acks only (R6).
struct SectionRecord {
    u32 chunk = 0;
    u32 hint = 0;  // where its ClientChunk was
    u64 lanes = 0; // gone lanes included
};

struct MessageRecord {
    Tick tick = 0;
    u32 first = 0; // of its SectionRecords, running index
    u16 count = 0;
    u8 state = 0;          // RecordState
    bool reliable = false; // by a channel that delivers in any case: patience before it counts as lost
};
/// State on the Ordered channel, that is what is larger than a packet: messages that may be under way to a client at first, and at most.
/// An acknowledgement in time allows one more, a late one one less, and after a loss it is one in all. A channel that delivers in any case,
/// and too late, would else be given what it is too slow for again and again, behind what waits in it already, and never get free.
inline constexpr u32 ordered_window_first = 32, ordered_window_max = 1024;

enum RecordState : u8 { record_free = 0, record_in_flight = 1, record_lost = 2 };

struct Send {
    const Key* key = nullptr; // null: only lanes that are gone
    u64 gone = 0;
    u32 client_chunk = 0; // index
};

struct AckBlock {
    u16 newest = 0;
    u64 mask = 0;
};
struct UnappliedSection {
    u16 message = 0;
    u16 section = 0;
};

/// Of a client that is connected: no hello yet; waits for the host's verdict; may join, and has, or is about to.
enum class Admission : u8 { none, waiting, accepted };

struct alignas(64) ClientState {
    explicit ClientState(Allocator a)
        : chunks(a), records(a), sections(a), sends(a), acks(a), unapplied(a), listed(a), priorities(a), lasting(a), masks(a), typed(a),
          backlog{ItemQueue(a), ItemQueue(a)} {
        THRONG_ASSERT(reinterpret_cast<std::byte*>(&lasting) - reinterpret_cast<std::byte*>(this) <= std::ptrdiff_t(hot_bytes));
    }
    ClientState(ClientState&&) = default;
    ClientState& operator=(ClientState&&) = default;

    // The first hot_bytes are what every tick looks at, the first line of them what acks, plan and assemble read of a client that rests
    // (plan counts its chunks, too).
    bool connected = false;
    bool joined = false;         // hello accepted
    bool attention = true;       // something may be unsent although no chunk changed
    bool clean = false;          // nothing unsent or unacked at settled_tick
    bool ever_settled = false;
    bool sending = false;        // sends is not empty
    bool acks_waiting = false;   // acks is not empty
    bool any_acked = false;
    bool tick_wanted = false;    // a message waits for this tick: say it, if only with a heartbeat
    bool hash_wanted = false;    // ask for its state hash in the next message
    bool hash_waiting = false;
    bool ends_unsent = false;    // lasting has unsent ends
    Tick settled_tick = 0;
    Tick last_sent_tick = 0;
    Tick hash_tick = 0;
    Tick newest_acked_tick = 0;  // of acked messages
    u32 next_message = 0;        // running number; its low 16 bits travel
    u32 oldest_message = 0;      // first that is not resolved
    u32 first_in_flight = 0;     // none before it is in flight
    u32 next_section = 0;
    u32 first_unheard = 0;       // none from here on has been acknowledged
    u32 tick_messages = 0, tick_sections = 0; // sent in the last tick
    i32 round_trip_eighths = 32; // smoothed, in 1/8 ticks
    i32 tokens = 0;              // byte budget, in 1/16
    // view
    Entity focus;
    bool has_focus = false;
    bool has_point = false;
    bool view_changed = false; // follow/look_at/hide/show/.../set_layers since the last interest stage
    bool held_valid = false;
    bool shows_listed_only = false; // hide_all
    i32 point[2] = {0, 0};
    i32 radius = 0;         // steps
    i32 held[2] = {0, 0};   // the held view position
    i32 now[2] = {0, 0};
    Array<ClientChunk> chunks; // ascending by chunk number
    // in flight: rings of powers of two
    Array<MessageRecord> records;
    Array<SectionRecord> sections;
    u32 ordered_in_flight = 0, ordered_window = ordered_window_first; // messages of state on the Ordered channel
    // this tick
    Array<Send> sends;
    Array<AckBlock> acks; // inbox, filled by receive, emptied by the acks stage
    Array<UnappliedSection> unapplied;
    EntityList listed;     // those hidden, or, after hide_all, those shown
    EntityList priorities; // those with a priority for this client: log2 of their periods
    static constexpr u32 hot_bytes = 512;
    LastingList lasting;   // those that it may have
    LaneMasks masks;       // visible lanes of which it sees other components than most
    u64 layers = 0;        // for VisibleTo and ScopedTo
    u32 connection = 0;    // running number of this connection, for OwnedBy
    u64 network_id = 0;    // of the backend
    Tick budget_tick = 0;  // of which `tokens` is
    bool budget_tick_known = false;
    u64 hash = 0;          // of the state at hash_tick
    // typed messages: it gets those from `joined_sequence` on (independent ones: connected_sequence) and before left_sequence
    u64 connected_sequence = 0, joined_sequence = 0, left_sequence = ~u64(0);
    Array<u32> typed;     // of this tick, those to it alone, to a group, or of departed entities
    ItemQueue backlog[2]; // unordered, ordered: what the backend has refused
    bool table_told = false;
    Admission admission = Admission::none;
    bool in_review = false;  // it is in ServerState::in_review
    ProtocolHash hello_hash; // of its last hello
    TimeUs hello_us = 0;     // since when it waits
    Tick typed_tick = 0;    // of typed_received
    u32 typed_received = 0; // since that tick
    bool overflowed = false;  // backlog beyond its limit: disconnected after the tick
};

/// A client that is no more, and what it was.
struct Gone {
    ClientId client;
    bool joined, waited;
};
inline Gone as_gone(const ClientState& client, ClientId id) { return {id, client.joined, client.admission == Admission::waiting}; }

/// What is counted of a client for reports, written once or so a tick: apart from what the stages read.
struct ClientCounts {
    explicit ClientCounts(Allocator a) : typed(a) {}
    ClientCounts(ClientCounts&&) = default;
    ClientCounts& operator=(ClientCounts&&) = default;
    Tick tick = 0;
    ClientTraffic traffic;      // of that tick; written by the worker that has the client
    ClientTraffic past_traffic; // of the ticks before
    ClientInput input;          // written by receive
    struct Typed {
        u64 sent = 0, received = 0;
    };
    Array<Typed> typed; // by message number; empty before the first one

    /// Where what goes to the client in this tick is counted.
    ClientTraffic& traffic_at(Tick now) {
        if (tick != now) {
            past_traffic += traffic;
            traffic = {};
            tick = now;
        }
        return traffic;
    }
    Typed& typed_of(const MessageTable& messages, const MessageLayout& layout) {
        if (typed.empty())
            typed.resize(messages.layouts.size());
        return typed[messages.number(layout)];
    }
};

/// Counters and scratch of one worker, on lines of its own.
struct alignas(128) WorkerState {
    WorkerState(BlockStock& payloads, Allocator a)
        : arena(payloads, a), moves(a), relinked(a), dangling(a), cells(a), numbers(a), merged(a), withdrawn(a), waiting(a), candidates(a),
          message(a), opaque(a), masked_rows(a), lanes(a), typed(a), bundle(a), wire_objects(a), replayed(a), replay_object(a), ops(a) {}
    WorkerState(WorkerState&&) = default;
    WorkerState& operator=(WorkerState&&) = default;
    TickReport counts; // summed into the report
    TickArena arena;
    struct Move {
        u32 row; // dense row in the spatial pool: the order moves are carried out in
        u32 entity_idx;
    };
    Array<Move> moves;
    Array<u32> relinked; // entity_idx of those of which mark found a component with a related field changed
    struct Dangling { // a reference to an entity that is not replicated (yet)
        u64 target_id;
        u32 target_idx;
        u32 place; // of the entity that holds the reference
        u32 component;
    };
    Array<Dangling> dangling;
    Array<u32> cells;
    Array<u32> numbers;
    Array<ClientChunk> merged;
    struct ChunkLanes {
        u32 chunk;
        u64 lanes;
    };
    Array<ChunkLanes> withdrawn; // that appeared to or left a client; ascending by chunk
    Array<ChunkLanes> waiting;   // that a client's own priorities hold back; ascending by chunk
    struct Candidate {
        u64 lanes; // that have something unsent
        u32 client_chunk;
        u32 urgency;
    };
    Array<Candidate> candidates;
    bool marked = false; // mark found a changed row of a replicated entity
    bool view_due = false; // a client's view is computed again in the next tick
    Array<std::byte> message;
    Array<std::byte> opaque;
    Array<std::byte> masked_rows; // encode: rows without what some clients do not see ...
    BlockHeader masked_headers[2][Protocol::component_count_max]; // ... and which lanes have what is left, now and at the baseline
    u64 kept_lanes[Protocol::component_count_max] = {};           // encode: of components that clients keep although they do not see them
    struct InMessage {                                            // a section of the message being put together
        u32 client_chunk;
        u32 bytes; // head included
        u64 lanes;
        u64 gone;
    };
    Array<InMessage> lanes;
    Array<u32> typed;        // messages to the client at hand, in the order of sending
    Array<std::byte> bundle; // the one being put together
    WireObjects wire_objects;
    bool any_backlog = false, any_overflow = false;
    SectionScratch* scratch = nullptr;
    u64 full_lanes = 0, full_bytes = 0; // encoded in full this tick
    struct FullPayloads {               // delivered in full since the server was made
        u64 sent = 0, packed = 0;       // bytes as they were sent, and as they would have been without zstd (Part)
    } full_payloads;
    // ComponentCost of what was encoded this tick.
    u64 component_bits[Protocol::component_count_max] = {}, component_sections[Protocol::component_count_max] = {};
    Array<std::byte> replayed;      // capture: a component that diffs were applied to again, as bytes ...
    Array<std::byte> replay_object; // ... and room for any, with replay_alignment
    Array<Bytes> ops;               // of the lane at hand
};

inline constexpr u32 replay_alignment = 64;

struct ServerState {
    ServerState(World& world, const Protocol& protocol, ServerBackend& backend, ServerConfig config, const ServerEvents& events);
    ~ServerState();

    World& world;
    const Protocol& protocol;
    const Layout& layout;
    ServerBackend& backend;
    CountedAllocator memory; // all that the server holds, but this itself
    ServerConfig config;     // its allocator is `memory`
    ServerEvents events;
    Executor* executor = nullptr;
    ExecutorHandle own_executor;
    Error error = Error::none;
    const char* problem = "";

    Tick tick = 0;
    TimeUs now = 0;
    Mirror mirror;
    InterestGrid grid;
    InterestGrid::ChunkList everywhere; // chunks of entities without a position: visible to all
    u32 topology = 0;                   // rises when a chunk is added
    u32 last_topology = 0;
    Array<Slot> slots;       // by entity_idx
    Array<u32> net_entities; // net index -> entity_idx
    Array<u32> net_generations;
    Array<u32> net_free;
    u32 entity_count = 0;
    u32 occupied_chunks = 0; // that hold an entity
    Array<u64> touched; // [chunk * component_count + component]: lanes to look up; written by structure, atomic OR in mark
    // By place (chunk * 64 + lane): what mark has quantised. A row is as in the mirror, and equal to it between ticks. Mark writes the
    // columns of the components that have changed, capture all of a touched lane.
    Array<std::byte> fresh_rows;
    Array<u8> fresh; // 1: mark has written
    // [chunk * component_count + component]: lanes that the rules of a ruled component keep from having it. Written by structure.
    Array<u64> denied;
    Entity resource_entity;
    bool keep_resource_entity = false; // also without a resource
    u32 resource_versions[Protocol::component_count_max] = {}; // that its components are of
    Array<u64> once_due;       // entity_idx * 2^32 + component sent once: its value is taken at the end of structure
    Array<u64> touched_chunks; // bit per chunk; atomic OR in mark, cleared by capture
    Array<u64> dirty_chunks;   // bit per chunk: changed at this tick
    Array<u32> touched_list;   // those that capture visits
    Array<u8> touched_dirty;   // of these, which it found changed
    Array<u32> viewers;        // [chunk]: clients that have it in their list; atomic. Without any it stays touched until it gets one
    Array<u64> moves;          // of all workers, sorted
    Array<WorkerState::Dangling> dangling; // sorted by target
    Array<u32> bound_now;                  // entity_idx bound this tick
    Array<u64> unbound_alive;              // entity_id of those that lost their net id this tick and live on; sorted after use
    Array<NetId> lasting_ended;            // Lasting entities that ended since the last interest stage
    ChangeReader<VisibleTo> rule_changes;
    ChangeReader<UpdatePriority> priority_changes;
    ChangeReader<OwnedBy> owner_changes;
    ChangeReader<SharedWith> group_changes;
    ChangeReader<ScopedTo> scope_changes;
    ViewFilters filters;
    struct Owner {
        u64 entity_id = 0;
        ClientId client = 0;
        u32 connection = 0; // ClientState::connection of the client when the entity got its OwnedBy
    };
    Array<Owner> owners;          // by entity_idx, as far as one has OwnedBy
    u32 connections = 0;          // so far
    NetworkIds network_ids;       // of connected clients
    Array<u32> slow_chunks; // those that have had an entity with a period
    bool any_dirty = false;                // a chunk changed at this tick
    bool any_oversize = false;             // a lane was too large for any message in this tick
    bool any_view_change = false;      // a row was marked or a lane touched in this tick
    bool topology_changed = false;
    bool interest_due = false;
    bool views_changed = false; // some client's view_changed
    // Related entities; written by structure.
    RelationGraph relations;
    Array<u32> cluster_members;  // of the cluster at hand
    Array<u32> crowded_clusters; // those that found no chunk with room (chunks_max): tried again each tick
    Array<u32> former_chunks;    // those that have ChunkClusters::former
    Array<u32> homeless; // entity_idx of replicated entities without a lane (chunks_max): tried again each tick
    struct PausedEntity {
        u32 place;     // its lane, or no_slot
        u32 given;     // components that it was given since
        bool unlogged; // it is in `unlogged`
    };
    Array<PausedEntity> paused; // by entity_idx; meaningful if Slot::paused
    Signature<default_max_components> logged; // types whose changes the structural log tells, but Replicated
    Array<u64> last_pauses; // entity_idx * 2^32 + number in the log of what paused or resumed entities that end in this tick
    Array<Entity> unlogged; // paused entities without any of these: the log does not tell their end, so they are looked at each tick
    struct Orphan {
        u64 entity_id;
        u32 entity_idx;
        NetId net_id;
        u32 place; // no_slot: it had none any more, but a client may have it frozen
        bool lasting;
    };
    Array<Orphan> orphans;    // lanes of entities that ended while they were paused, until no client has them
    Array<Entity> ending;     // what end_in_tick was called for, bound or orphans; read by structure
    bool orphans_due = false; // some may have become free
    struct Closing {
        ClientId client;
        Tick at; // when it is disconnected; until then the reason travels
    };
    Array<Closing> closing;     // refused clients, and those to be disconnected after a flush
    Array<Gone> overflowed;     // disconnected in the last tick: the host is told in receive
    Array<ClientId> in_review;  // those that wait for a verdict, or whose answer the backend has refused
    Array<std::byte> table_message; // for clients of other protocols
    TypedOutbox outbox;
    Dispatcher dispatcher; // of messages from clients
    TypedCounts typed;     // since the last report, serial parts
    bool any_backlog = false;
    Array<ClientState> clients; // by ClientId
    Array<ClientCounts> client_counts; // the same
    u32 joined_count = 0;
    KeyTable keys;
    Array<u32> key_starts;          // encode: where each chunk's keys begin
    Array<Key*> key_order;          // encode: keys by chunk
    BlockStock payload_blocks; // of the workers' arenas
    Array<WorkerState> workers;
    TickReport report;
    bool adopt_world = false; // bind what the world holds already
    u64 restore_count = 0;    // World::restore_count() that the server knows of
    bool restored = false;    // the world has been restored since the last tick
    Array<std::byte> userdata; // of each state message
    OpQueue ops;               // by apply_diff, since the last tick
    Array<std::byte> op_room;  // one of them, as bytes
    u32 message_bytes = 1200;  // a packet
    u32 payload_bytes = 1100;  // largest payload that fits a packet beside the userdata
    u32 ordered_bytes = 0;     // the same of a message on the Ordered channel
    u32 full_lane_cost = 0; // estimate of a lane in full, 1/16 bytes: learnt from what was encoded
    ComponentCost component_costs[Protocol::component_count_max];      // of the last tick ...
    ComponentCost past_component_costs[Protocol::component_count_max]; // ... and of those before
    u64 malformed = 0;      // since the last report
    u64 hashes_equal = 0, hashes_different = 0;
    u32 pending_limits = 0;

    Slot* slot_of(Entity entity) {
        if (entity.entity_idx >= slots.size() || !entity.entity_id)
            return nullptr;
        Slot& slot = slots[entity.entity_idx];
        return slot.entity_id == entity.entity_id ? &slot : nullptr;
    }
    const Slot* slot_of(Entity entity) const { return const_cast<ServerState*>(this)->slot_of(entity); }
    /// The entity's lane, that of a paused one included; no_slot: it has none.
    u32 place_of(Entity entity) const {
        const Slot* slot = slot_of(entity);
        return !slot ? no_slot : slot->paused ? paused[entity.entity_idx].place : slot->place;
    }
    /// A paused Lasting entity may have lost its lane, and clients still have it.
    NetId net_id_of(Entity entity) const {
        const Slot* slot = slot_of(entity);
        return slot && (place_of(entity) != no_slot || (slot->paused && slot->lasting)) ? slot->net_id : NetId{};
    }
    bool wide_cells() const;
    ClientTraffic& traffic(const ClientState& client) { return client_counts[static_cast<u32>(&client - clients.data())].traffic_at(tick); }
    bool denies(u32 component, u32 place) const {
        return (layout.ruled >> component & 1) &&
               (denied[place / lane_count * layout.component_count + component] >> place % lane_count & 1);
    }
    std::byte* fresh_row(u32 place) { return fresh_rows.data() + u64(place) * layout.row_bytes; }
    void touch_chunk(u32 chunk) {
        u64& word = touched_chunks[chunk / 64];
        const u64 bit = u64(1) << chunk % 64;
        if (!(__atomic_load_n(&word, __ATOMIC_RELAXED) & bit))
            __atomic_fetch_or(&word, bit, __ATOMIC_RELAXED);
    }
};

/// The next tick ends an entity for all clients, paused or not; false: none can have it.
bool end_in_tick(ServerState& state, Entity entity);
/// Before the stages: what has changed of the world's resources goes to their entity.
void publish_resources(ServerState& state);
/// The world was restored, or had a server before: which entity is that of the resources now? All of them are published anew.
void find_resource_entity(ServerState& state);
/// The lanes of `view` of which the client sees something else than Layout::plain().
inline std::span<const LaneMasks::Entry> masks_of(const ClientState& client, const ClientChunk& view) {
    return view.masked ? client.masks.of(view.chunk) : std::span<const LaneMasks::Entry>();
}
/// Of `lanes`, those in which nothing has changed in (after, until] that the client sees. Of the chunk: scoped_any.
u64 unseen_changes(const ClientState& client, const ClientChunk& view, const Chunk& chunk, Tick after, Tick until, u64 lanes);
/// The components that the client may see of the entity in a lane of a chunk that has scopes, and those that it keeps.
SeenComponents seen_components(const ServerState& state, const ClientState& client, const Chunk& chunk, u32 lane);
/// Settles what the client sees of its `visible` lanes. Returns those of which it is something else than before. Sets `due` if it has to be
/// asked again in the next tick: some lane has not been introduced. `view` still has what was visible before.
u64 mask_lanes(const ServerState& state, ClientState& client, ClientChunk& view, const Chunk& chunk, u64 visible, bool& due);
/// Of the registrations of a type, the one that rules choose for a lane, or the first one; -1: there is none.
i32 registered_for(const ServerState& state, ComponentId component, u32 place);
/// What mask_lanes has settled for a visible lane, or would, if its entity had all components.
LaneMasks::Entry mask_of(const ServerState& state, const ClientState& client, const ClientChunk& view, u32 lane);

/// Calls f(lanes, sees) for those of `lanes` that the client sees alike, together. See sees_of.
template <class F>
void each_mask(const ServerState& state, const ClientState& client, const ClientChunk& view, u64 lanes, F&& f) {
    const std::span<const LaneMasks::Entry> masks = masks_of(client, view);
    u64 special = 0;
    const u64 plain = sees_of(state.layout.plain(), 0);
    for (const LaneMasks::Entry& entry : masks)
        special |= u64(entry.sees() != plain) << entry.place % lane_count;
    if (lanes & ~special)
        f(lanes & ~special, plain);
    for (const LaneMasks::Entry* entry = masks.data(); lanes & special; ++entry) {
        u64 alike = 0;
        for (const LaneMasks::Entry* other = entry; other != masks.data() + masks.size(); ++other)
            alike |= u64(other->sees() == entry->sees()) << other->place % lane_count;
        alike &= lanes & special;
        special &= ~alike;
        if (alike)
            f(alike, entry->sees());
    }
}

/// changed(), as far as the client sees it.
inline u64 changed_for(const ClientState& client, const ClientChunk& view, const Chunk& chunk, Tick after, Tick until) {
    const u64 lanes = changed(chunk, after, until);
    return chunk.scoped_any && lanes ? lanes & ~unseen_changes(client, view, chunk, after, until, lanes) : lanes;
}

/// Lanes of `view` with state that the client has not acknowledged.
inline u64 unacked(const ClientState& client, const ClientChunk& view, const Chunk& chunk, Tick now) {
    return (view.limbo | changed_for(client, view, chunk, view.baseline, now)) & view.known;
}

/// Visible lanes of `view` whose entity has been sent. A lane that is known for the entity that it held before does not count.
inline u64 held_lanes(const ClientChunk& view, const Chunk& chunk) {
    const u64 held = view.known & view.visible, waiting = held & view.limbo & view.pending;
    if (waiting && chunk.rebound_any && tick_newer(chunk.rebound_tick, view.sent_tick))
        return held & ~(waiting & rebound_in_ring(chunk, view.sent_tick));
    return held;
}

/// An unacknowledged message counts as lost after so many ticks, and is forgotten after twice as many.
inline i32 loss_timeout(const ServerState& state, const ClientState& client) {
    const i32 two_round_trips = 2 * client.round_trip_eighths / 8 + 4, least = static_cast<i32>(state.config.loss_timeout_ticks);
    return two_round_trips > least ? two_round_trips : least;
}

/// R4, done lazily when a chunk is visited at `now`: while nothing known has changed and nothing is in limbo, the baseline follows the
/// tick before without any ack.
inline void promote_baseline(const ClientState& client, ClientChunk& view, const Chunk& chunk, Tick now) {
    if (view.limbo == 0 && view.baseline != now - 1 && tick_newer(now - 1, view.baseline) &&
        ((changed_for(client, view, chunk, view.baseline, now - 1) & view.known) == 0 || seeded_bug(SeededBug::promotion_without_changed)))
        view.baseline = now - 1;
}

/// For loops over clients: the chunk states of the next one, and where the one after it is. Clients are large, and what they point to
/// is known only once they are there.
inline void prefetch_clients(const Array<ClientState>& clients, u32 id, u32 end) {
    if (id + 2 < end)
        for (u32 byte = 0; byte < ClientState::hot_bytes; byte += 64)
            detail::prefetch_write(reinterpret_cast<const std::byte*>(&clients[id + 2]) + byte);
    if (id + 1 < end) {
        const Array<ClientChunk>& chunks = clients[id + 1].chunks;
        for (u32 i = 0; i < chunks.size() && i < 64; ++i)
            detail::prefetch_write(chunks.data() + i);
    }
}

/// Brings `count` sections of a client's ring into the caches, from running number `first` on. The client has a ring.
inline void prefetch_sections(const ClientState& client, u32 first, u32 count) {
    constexpr u32 a_line = 64 / sizeof(SectionRecord), lines_max = 32;
    for (u32 i = 0; i < count && i < lines_max * a_line; i += a_line)
        detail::prefetch_write(&client.sections[(first + i) & (client.sections.size() - 1)]);
}

/// Whether what is sent of the entity goes with its cluster.
inline bool goes_with_cluster(const ServerState& state, const Slot& slot) {
    if (slot.place == no_slot)
        return false;
    const ChunkClusters* const clusters = state.mirror.chunk(slot.place / lane_count).clusters;
    return clusters && (clusters->tied >> slot.place % lane_count & 1);
}
/// The entity whose place counts for this one: the root of its cluster, or itself. entity_idx.
inline u32 root_of(const ServerState& state, u32 entity_idx) {
    const Slot& slot = state.slots[entity_idx];
    if (!state.relations.used() || !goes_with_cluster(state, slot))
        return entity_idx;
    const Chunk& chunk = state.mirror.chunk(slot.place / lane_count);
    return chunk.entity_idx[chunk.clusters->root[slot.place % lane_count]];
}
ClientChunk* find_client_chunk(ClientState& client, u32 chunk, u32 hint);
/// Whether the client is meant to see the entity in this lane, as of the last interest stage.
bool sees(const ClientState& client, u32 place);
/// Whether the client gets a message. See OutMessage.
inline bool receives(const ClientState& client, const OutMessage& message) {
    const bool independent = message.layout->info->options.independent;
    return client.connected && (client.joined || independent) && message.sequence < client.left_sequence &&
           message.sequence >= (independent ? client.connected_sequence : client.joined_sequence);
}
inline ClientId id_of(const ServerState& state, const ClientState& client) {
    return static_cast<ClientId>(&client - state.clients.data());
}

/// Whether a filter lets the client see entities with a value, as both are now. Asks its function.
bool filter_allows(const ServerState& state, ClientId client, u32 filter, u32 number);
/// The same, into the client's row of the filter's verdicts, by any worker. Returns the verdict.
u32 decide_filter(const ServerState& state, ClientId client, u32 filter, u32 number, u64* row);
/// What has numbers by now gets room for verdicts; the last that structure does about filters.
void reserve_verdicts(ServerState& state);
/// The client is in other groups than before.
void group_sight_changed(ServerState& state, ClientId client);
/// Gives a client a value, or none (null).
void set_filter_value(ServerState& state, ClientId client, u32 kind, const void* value);
/// A client leaves.
void forget_filter_values(ServerState& state, ClientId client);
/// That of VisibleToGroup is the first one.
void add_group_filter(ServerState& state);
Error add_filter(ServerState& state, const detail::FilterType& type);
void end_filters(ServerState& state);

/// Gives up the oldest message in flight: it counts as lost and its ack no longer means anything (R6).
void give_up_oldest(ServerState& state, ClientState& client, TickReport& counts);
inline constexpr u32 homeless_tries_max = 256; // a tick
inline constexpr u32 ack_blocks_max = 1024;    // taken from one client between two ticks
/// Drops all state of a client; the slot can be used again.
void reset_client(ServerState& state, ClientId id);
/// The connection has ended, so it need not be closed.
void forget_closing(ServerState& state, ClientId id);

} // namespace throng
