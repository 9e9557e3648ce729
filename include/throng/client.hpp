#pragma once
// The client half: receives the state of a server and keeps a World equal to the part of it that the client may see.
//
//     throng::World world;
//     throng::Client client{world, protocol, backend};
//     for (;;) {
//         client.receive(now);   // the world is up to date with what has arrived
//         client.send(now);      // acks; without them the server goes on sending everything
//     }
//
// Entities appear and vanish whole, with all their replicated components; values may skip ticks, but never go back. The game
// may add components of its own to replicated entities, and must not remove replicated components. An entity that it destroys stays away
// until the server shows it anew. Entities that it has made itself may become the server's: throng/spawn_signature.hpp.
//
// Thread rule: one thread at a time per client; different clients are independent unless they share a ClientScratch.
#include "throng/admission.hpp"
#include "throng/client_history.hpp"
#include "throng/client_report.hpp"
#include "throng/client_rules.hpp"
#include "throng/ecs.hpp"
#include "throng/transport.hpp"
#include "throng/typed.hpp"

namespace throng {

/// Working memory of receive(), about half a megabyte. Clients that live on one thread may share one; otherwise each makes
/// its own.
class ClientScratch {
public:
    /// Both are kept: the protocol (finished) by reference.
    explicit ClientScratch(const Protocol& protocol, Allocator allocator = default_allocator());
    ~ClientScratch();
    ClientScratch(const ClientScratch&) = delete;
    ClientScratch& operator=(const ClientScratch&) = delete;

private:
    friend class Client;
    struct Impl;
    Impl* impl_;
};

/// Called at the end of a message, when all that it says is in the world. Must not call the client or destroy entities.
using ClientEntityFn = void (*)(void* context, Entity entity, NetId id);
/// The same, with the tick of the message. May ask the client, and must not let it receive, send or clear.
using ClientCarriedFn = void (*)(void* context, Entity entity, NetId id, Tick tick);
/// A tick has been confirmed. As ClientCarriedFn.
using ClientTickFn = void (*)(void* context, Tick tick);

/// What the server has attached to a message (Server::set_userdata): called before the message is applied, once for each that is. Messages
/// come in any order, so ticks may go back. `data` is not empty, and valid during the call. As ClientCarriedFn, and must not destroy
/// entities.
using ClientUserdataFn = void (*)(void* context, Tick tick, Bytes data);

struct ClientConfig {
    Allocator allocator = default_allocator();
    const ReceiveRules* rules = nullptr; // of the same protocol, kept by reference; null: components are written as received
    ClientScratch* scratch = nullptr; // of the same protocol; null: the client makes its own

    // Limits. A message that would pass one is dropped and not acked (the server takes it for lost), and counted.
    u32 ring_versions_max = 24;  // earlier states per chunk that deltas may refer to, 2..64; the oldest go first
    u32 max_late_ticks = 32;     // messages older than this are dropped; how long the dead are remembered
    u32 chunks_max = 65536;      // chunks known at a time
    u32 entities_max = 65536;    // net ids known at a time: shown, remembered as dead, or referred to
    u32 references_max = 65536;  // reference fields that are not null; beyond it they read as null, and are counted
    u32 sections_max = 1024;     // in a message
    u32 opaque_bytes_max = 1u << 20; // opaque bytes in a message, after expansion
    std::size_t memory_bytes_max = std::size_t(256) << 20; // of chunks and their earlier states

    // Typed messages.
    u32 typed_wait_ms = 3000;                     // that one waits for the entities that it names, or for its tick; then it is dropped
    u32 typed_waiting_max = 1024;                 // that wait at a time, of the reliable channels; beyond it the oldest is dropped
    u32 typed_waiting_unreliable_max = 64;        // the same for the unreliable channel
    u32 typed_waiting_bytes_max = 256u << 10;     // of all that wait
    u32 typed_outgoing_bytes_max = 64u << 10;     // sent and not taken by the backend yet; beyond it send_message is an Error

    ClientEntityFn on_spawn = nullptr;
    ClientEntityFn on_despawn = nullptr; // the entity still exists
    ClientCarriedFn on_carried = nullptr; // a message became the newest state of this entity; once a message, after on_spawn
    ClientTickFn on_settled = nullptr;    // settled_tick() has risen to this: it and all ticks before are here in full
    ClientUserdataFn on_userdata = nullptr;
    bool confirm_history = false;         // keep a ConfirmHistory of each entity: 16 bytes a net id, some work a lane carried
    void* context = nullptr;
};

/// Typed messages, since the client was made.
struct ClientTypedStats {
    u64 received = 0;           // arrived and readable so far
    u64 delivered = 0;          // to a handler
    u64 unhandled = 0;          // for want of one
    u64 waited = 0;             // of received: not delivered at once
    u64 dropped_wait = 0;       // typed_wait_ms
    u64 dropped_limit = 0;      // typed_waiting_max and its kin
    u64 dropped_disconnect = 0; // waiting, or unsent, when the connection ended
    u64 null_references = 0;    // of independent ones: to entities that are not shown
    u64 wrong_protocol = 0;     // bundles before the welcome, of another protocol
    u64 unknown = 0;            // dropped: of types that only the server's build has
    u64 sent = 0;               // send_message calls
    u64 bundles = 0;            // backend messages that carried these
    u64 refused = 0;            // unreliable ones that the backend refused: dropped
};

/// Counted since the client was made.
struct ClientStats {
    static constexpr u32 error_count = 11;
    u64 messages = 0;             // of any kind
    u64 bytes = 0;
    u64 heartbeats = 0;           // state messages without sections
    u64 applied = 0;              // state messages judged, and so acked
    u64 applied_bytes = 0;        // of these, heartbeats left out
    u64 duplicates = 0;
    u64 late_drops = 0;           // older than max_late_ticks, or than the ids remembered
    u64 early_drops = 0;          // state before the welcome
    u64 limit_drops = 0;          // a limit of ClientConfig
    u64 malformed[error_count] = {}; // messages, by Error; dropped whole
    u64 sections = 0;             // applied
    u64 lanes = 0;                // that became the newest state of an entity
    u64 old_lanes = 0;            // that newer state had overtaken
    u64 gone_lanes = 0;
    u64 unapplied_baseline = 0;   // sections: a baseline that is not held
    u64 unapplied_tombstone = 0;  // a newer message says that the entity has left
    u64 unapplied_overtaken = 0;  // an entity would appear in parts (the limbo sections of its message)
    u64 unapplied_together = 0;   // limbo sections taken along by another one
    u64 unapplied_opaque = 0;     // a deserialize function refused
    u64 mappings = 0;             // net ids that got an entity
    u64 adoptions = 0;            // of these, one of the game's own, by SpawnSignature
    u64 signature_collisions = 0; // further ones with the same signature, which stayed the game's
    u64 spawns = 0;
    u64 despawns = 0;
    u64 component_inserts = 0;
    u64 component_removes = 0;
    u64 component_writes = 0;     // values, those of inserts included
    u64 structural_moves = 0;     // of an entity by a message: all its removals and insertions in one
    u64 references_dropped = 0;   // references_max or entities_max
    u64 ack_messages = 0;
    u64 ack_refusals = 0;         // by the backend
    u64 hash_reports = 0;
    ClientTypedStats typed;
};

/// All that a client holds of ClientConfig::allocator.
struct ClientMemory {
    u64 ring_bytes = 0;    // chunks and their earlier states: Client::ring_bytes()
    u64 scratch_bytes = 0; // working memory of receive(); 0 where a ClientScratch is shared
    u64 other_bytes = 0;   // all the rest: net ids, messages that wait, room that rings do not use at present
    u64 total_bytes() const { return ring_bytes + scratch_bytes + other_bytes; }
};

class Client {
public:
    /// All three are kept by reference and must outlive the client; the protocol is finished. Makes the pools of all replicated
    /// components. Allocates little; memory grows with what is seen.
    Client(World& world, const Protocol& protocol, ClientBackend& backend, const ClientConfig& config = {});
    /// Leaves the entities in the world.
    ~Client();
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    /// Takes what has arrived from the backend and applies it. wrong_protocol: the server's protocol is not compatible, and problem() says
    /// what differs; nothing is applied until the next connection. limit_reached: the server is full. unauthorized: its host refused this
    /// client, and problem() is what it says. Otherwise the first error of a message dropped in this call (see stats), or none. Allocates
    /// only while more is seen than ever before.
    Error receive(TimeUs now);
    /// Sends the hello after a connect, and acks; flushes the backend. Call it once after each receive, or a few times a tick's
    /// worth of messages at least: each message is acked by three sends. limit_reached: the backend refused something; it is
    /// tried again in the next send.
    Error send(TimeUs now);
    /// What the hellos of connections to come carry for ServerEvents::on_hello, such as a ticket: copied, none at first. The network reads
    /// along, so secrets want a backend that encrypts. too_large: more than hello_data_bytes_max; then it stays what it was.
    Error set_hello_data(Bytes data);

    /// Sends a typed message with the next send(). References must name replicated entities that the client shows. no_connection: not
    /// joined. wrong_protocol: the server's build lacks this type. bad_value: not a registered message to the server, or a reference that
    /// names no replicated entity. too_large: beyond bytes_max, of the server's build, or the backend's largest message. limit_reached:
    /// typed_outgoing_bytes_max. Allocates nothing in steady state.
    template <class T>
    Error send_message(const T& message) {
        return send_typed(message_type_id<T>(), &message);
    }
    /// What is called, in receive(), for messages of the server: on arrival, or when the entities that a message names are shown and, where
    /// it waits for one, its tick is heard of. Messages of one type on the ordered channel keep their order. Handlers may change the
    /// game's own state and send; like on_spawn they must not call receive, or destroy replicated entities. bad_value: a type that is not
    /// registered, or goes to the server only; then none is set.
    Error set_handlers(std::span<const MessageHandler> handlers);
    /// Name of a message that may arrive here and has no handler, or null.
    const char* missing_handler() const;

    /// The entity that shows a net id, or null.
    Entity entity(NetId id) const;
    /// The net id of a replicated entity, or none.
    NetId net_id(Entity entity) const;

    /// Whether the entity is a Lasting one that the client does not see at present: it stays as it was when it last did.
    bool frozen(Entity entity) const;
    /// Whether the entity has the component, and it stays as it was when the client last saw it: the entity is frozen, or a scope with a
    /// Lifetime hides it. False where the client has no such component of the server's.
    bool frozen(Entity entity, ComponentId component) const;
    template <class T>
    bool frozen(Entity entity) const {
        return frozen(entity, component_id<T>());
    }

    /// Why receive() says that the server will not have this client, or the client this server: names what differs, such as
    /// `component "health", field "hp": another kind or type`. Empty if nothing is wrong. Good until the next receive().
    const char* problem() const;

    bool connected() const;
    /// Welcomed: state is being received.
    bool joined() const;
    /// Newest tick heard of; the welcome's at first.
    Tick newest_tick() const;
    /// Newest tick that the server knows to be here in full; any() says if there is one yet.
    Tick settled_tick() const;
    bool any_settled() const;
    /// Newest tick for which the entity's state is known to be the server's: that at which it was carried, or the settled tick. Of a frozen
    /// entity the former. 0 for an unknown entity.
    Tick confirmed_tick(Entity entity) const;
    /// Whether the entity's state of this very tick is known to have been here: it was carried then, or the tick is not after the settled
    /// one, while the entity was seen. Carried ticks are remembered for 64 ticks. False for an unknown entity, and without
    /// ClientConfig::confirm_history.
    bool confirmed(Entity entity, Tick tick) const;
    /// The same for any tick of first..last.
    bool confirmed_any(Entity entity, Tick first, Tick last) const;
    /// Whether all of the tick's state is known to have been here: it is not after the settled tick, and not before the session.
    bool confirmed(Tick tick) const;
    /// Null as `confirmed` is false. Valid until the next receive().
    const ConfirmHistory* confirm_history(Entity entity) const;

    /// Hash of all that is shown (docs/wire.md); equal to the server's for this client at a settled tick. Costs about 30 ns per
    /// component shown.
    u64 state_hash() const;
    const ClientStats& stats() const;
    /// What is here, and what the present connection has brought. Looks at all rows of all replicated components.
    ReceivedReport report() const;
    /// The same of one component: by its id, or by its type. Looks at all its rows.
    ReceivedComponent component_report(ComponentId component) const;
    template <class T>
    ReceivedComponent component_report() const {
        return component_report(component_id<T>());
    }
    /// Bytes in use for chunks and their earlier states.
    std::size_t ring_bytes() const;
    ClientMemory memory() const;

    /// Destroys all replicated entities and forgets all state. A welcome does it too. Only between connections.
    void clear();

private:
    friend class Messenger;
    Error send_typed(u16 type, const void* message);
    struct Impl;
    Impl* impl_;
};

} // namespace throng
