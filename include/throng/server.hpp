#pragma once
// The server half of replication. One Server replicates one World to many clients through one backend.
//
// Each tick: game systems change the world through marking accessors (mut, add, each_mut); then tick() captures what
// changed, finds what each client may see, encodes each distinct (chunk, baseline, lanes) once, and hands every client its
// messages. docs/architecture.md draws it.
//
// Thread rule: all calls come from one thread; tick() uses the executor for its stages.
#include "throng/admission.hpp"
#include "throng/executor.hpp"
#include "throng/memory.hpp"
#include "throng/scopes.hpp"
#include "throng/server_report.hpp"
#include "throng/transport.hpp"
#include "throng/typed.hpp"
#include "throng/update_priority.hpp"
#include "throng/view_filter.hpp"
#include "throng/visibility.hpp"
#include <string_view>

namespace throng {

struct ServerConfig {
    Executor* executor = nullptr;      // null: everything on the calling thread
    Allocator allocator = default_allocator();
    // interest
    double cell_size = 64;             // edge of an interest cell, in units of the spatial axes; best when 40 to 64 entities share one
    double radius_min = 60;            // smallest view radius in use: decides how fine lanes are placed inside a cell
    u32 cells_max = 1u << 22;          // whole map / cell_size^2
    // limits
    u32 clients_max = 16384;
    u32 chunks_max = 1u << 20;
    Authorization authorization = Authorization::protocol;
    u32 verdict_wait_ms = 10'000;      // a client that waits for a verdict for longer is refused; 0: the host sees to it
    u32 lasting_max = 4096;            // Lasting entities that one client may have; beyond it, further ones are not shown to it
    u32 records_max = 4096;            // messages in flight to one client; then state stays pending until the oldest is acked or lost
    // sending
    u32 budget_bytes = 0;              // a client and tick, all state messages; 0: no budget. A token bucket: may be exceeded for
                                       // one tick and is then paid back
    u32 message_bytes_max = 1200;      // also limited by the backend
    u32 history_ticks = 16;            // versions a chunk keeps, 2..16: baselines older than these cost full state
    u32 loss_timeout_ticks = 12;       // an unacked message counts as lost after max(this, 2 * round trip + 4)
    u32 heartbeat_ticks = 20;          // a client that gets nothing else is told the tick this often; 0: never
    u32 hash_ticks = 0;                // settled clients are asked for their state hash this often; 0: never
    u32 diff_tick_bytes_max = 1u << 20; // diffs applied between two ticks, in bytes; what goes beyond is sent as whole components
    // typed messages
    u32 typed_tick_bytes_max = 4u << 20;    // sent between two ticks, in all; beyond it send_message is an Error
    u32 typed_backlog_bytes_max = 256u << 10; // reliable ones that the backend has refused, a client; beyond it the client is disconnected
    u32 typed_receive_max = 1024;           // taken from one client between two ticks; beyond it they are dropped
    Tick first_tick = 1;               // number of the first tick; any, since ticks wrap
    Compression compression = Compression::automatic;
    /// For TickReport's stage times: CPU time of the calling thread and wall time, in nanoseconds. Null: all times are 0. The
    /// library reads no clock of its own.
    u64 (*thread_cpu_ns)() = nullptr;
    u64 (*wall_ns)() = nullptr;
};

enum class Stage : u8 { acks, mark, structure, capture, interest, plan, encode, assemble, flush };
inline constexpr u32 stage_count = 9;
const char* to_string(Stage stage);

struct StageTime {
    u64 cpu_ns = 0;      // summed over workers
    u64 cpu_max_ns = 0;  // the busiest worker
    u64 wall_ns = 0;
};

/// A limit that was reached during the tick; the name of the knob is in the comment.
enum LimitBit : u32 {
    limit_chunks = 1u << 0,         // chunks_max: entities were left out
    limit_records = 1u << 1,        // records_max: messages were not sent, or ones in flight were given up as lost
    limit_backend_refused = 1u << 2, // the backend's queue limits: state stays pending
    limit_budget = 1u << 3,         // budget_bytes: state stays pending
    limit_opaque = 1u << 4,         // an opaque component did not fit its bytes_max: replicated as absent
    limit_oversize = 1u << 5,       // a lane's state exceeds the backend's largest message: not sent
    limit_net_ids = 1u << 6,        // a generation wrapped
    limit_position = 1u << 7,       // a position outside the registered Range: clamped
    limit_clients = 1u << 8,        // clients_max: a connection was refused
    limit_typed_backlog = 1u << 9,  // typed_backlog_bytes_max: a client was disconnected
    limit_typed_receive = 1u << 10, // typed_receive_max: messages of a client were dropped
    limit_lasting = 1u << 11,       // lasting_max: an entity is not shown to a client
    limit_clusters = 1u << 12,      // cluster_entities_max, or too wide, or larger than the largest message: related entities go apart
};

/// Typed messages of a tick, and those received since the tick before.
struct TypedCounts {
    u64 sent = 0;               // send_message calls
    u64 encoded = 0;            // bodies encoded: equals sent, whatever the number of receivers
    u64 deliveries = 0;         // (message, client) handed to the backend, or queued for it
    u64 bundles = 0;            // backend messages that carried them
    u64 bytes = 0;              // of these
    u64 backlogged = 0;         // (message, client), reliable: the backend refused, tried again in the next tick
    u64 refused = 0;            // (message, client), unreliable: the backend refused, dropped
    u64 null_references = 0;    // to entities that are not replicated: read as null
    u64 received = 0;           // from clients, handled
    u64 unhandled = 0;          // from clients, without a handler
    u64 unseen_references = 0;  // from clients, dropped: they name an entity that the client does not see
    u64 dead_references = 0;    // from clients, dropped: they name an entity that is no more
    u64 flooded = 0;            // from clients, dropped: typed_receive_max
    TypedCounts& operator+=(const TypedCounts& other);
};

/// What one tick did. Counts are exact and equal for any executor.
struct TickReport {
    Tick tick = 0;
    StageTime stages[stage_count];
    u32 clients = 0;              // joined
    u32 entities = 0;             // replicated
    u32 chunks = 0;               // that hold an entity
    u32 chunks_dirty = 0;
    u64 lanes_dirty = 0;
    u64 client_chunks = 0;        // (client, chunk) states held
    u64 pairs = 0;                // (client, visible entity) with a value that the client has not acknowledged, carried now
    u64 sent_lanes = 0;           // lanes carried in all, repeats and gone lanes included
    u64 sent_full_lanes = 0;      // of these, in full
    u64 gone_lanes = 0;
    u64 keys = 0;                 // distinct (chunk, baseline, lanes)
    u64 encodes = 0;              // sections encoded: equals keys
    u64 messages = 0;
    u64 bytes = 0;                // of state messages with sections
    u64 payload_bytes = 0;
    u64 shared_bytes = 0;         // payload bytes delivered from keys that more than one client used
    u64 zstd_bytes = 0;           // payload bytes delivered from compressed keys
    u64 heartbeats = 0;
    u64 heartbeat_bytes = 0;
    u32 client_bytes_max = 0;
    u64 acked_messages = 0;
    u64 lost_messages = 0;
    u64 unapplied_sections = 0;   // reported by clients
    u64 repeated_lanes = 0;       // put in line again: what carried them was lost, or could not be used
    u64 baseline_age_sum = 0;     // over delta sections sent, in ticks
    u64 delta_sections = 0;
    u64 malformed_messages = 0;   // from clients, dropped
    TypedCounts typed;
    u64 hashes_equal = 0;
    u64 hashes_different = 0;     // a client's settled state is not what the server thinks
    u32 limits = 0;               // LimitBit
};

/// All that the server holds of ServerConfig::allocator.
struct ServerMemory {
    u64 client_chunk_bytes = 0;   // one (client, chunk) state
    u64 client_chunks = 0;
    u64 side_table_bytes = 0;     // in-flight records and other per-client tables
    u64 mirror_bytes = 0;         // chunks and their rings
    u64 opaque_bytes = 0;         // opaque values, and the ops that made them (DiffOptions::history)
    u64 other_bytes = 0;          // all the rest: keys, payloads, slots, relations, scratch of the workers
    u64 total_bytes() const { return client_chunk_bytes * client_chunks + side_table_bytes + mirror_bytes + opaque_bytes + other_bytes; }
};

struct ServerState;

/// What one client looks at. A value that refers to the server; cheap to copy; valid while the client is connected.
class View {
public:
    View(ServerState& state, ClientId client) : state_(&state), client_(client) {}
    struct Options {
        double radius = 60; // units. Everything within 0.85 radius is visible, nothing beyond 1.2 radius
    };
    /// Centres interest on a replicated entity that has the spatial component, and goes with it.
    void follow(Entity entity, Options options);
    /// Centres interest on a point of the ground plane.
    void look_at(double a, double b, Options options);
    /// Hides an entity from this client whatever its place; exact, from the next tick on.
    void hide(Entity entity);
    void show(Entity entity);
    bool hidden(Entity entity) const;
    /// The list begins anew, and is one of what may be seen: all entities are hidden, those that come later too, until show() names them.
    void hide_all();
    /// The list begins anew, and is one of what is hidden, as at first: nothing is, until hide() names it.
    void show_all();
    /// The layers this client is on, for VisibleTo and ScopedTo. Exact, from the next tick on.
    void set_layers(u64 layers);
    u64 layers() const;
    /// What this client is for filters (Server::add_filter) that ask for a C; at first it has none. Exact, from the next tick on. A value
    /// ends with the connection. bad_value: no filter asks for a C.
    template <class C>
    Error set(const C& value) {
        return set_value(&detail::filter_value_type<C>, &value);
    }
    template <class C>
    Error clear() {
        return set_value(&detail::filter_value_type<C>, nullptr);
    }
    /// The value that was set, or null. Valid until a value is set or cleared, or a client leaves.
    template <class C>
    const C* get() const {
        return static_cast<const C*>(get_value(&detail::filter_value_type<C>));
    }
    /// Another priority of an entity for this client than its UpdatePriority: higher, 1 for every tick, or lower. Such an entity is encoded
    /// for this client alone, unless others have the same for it, so this is for few: returns false, and changes nothing, if the client has
    /// priorities_max of them. They end with clear_priority and with the entity. What was lost waits for its tick, too.
    bool set_priority(Entity entity, float priority);
    void clear_priority(Entity entity);
    static constexpr u32 priorities_max = 256;

private:
    Error set_value(const void* type, const void* value);
    const void* get_value(const void* type) const;
    ServerState* state_;
    ClientId client_;
};

/// Called during receive(); on_join also in Server::accept. They may call the server, but neither receive nor tick.
struct ServerEvents {
    void* context = nullptr;
    /// The client speaks our protocol and will get state from the next tick on.
    void (*on_join)(void* context, ClientId client) = nullptr;
    /// A client that had joined is gone.
    void (*on_leave)(void* context, ClientId client) = nullptr;
    /// With Authorization::custom: whether the client may join. Once a connection, before it is told anything of the protocol. `later`: it
    /// waits until accept or refuse is called for it, or verdict_wait_ms have passed, and gets independent messages only. A call of one of
    /// these in here counts more than what is returned.
    Verdict (*on_hello)(void* context, ClientId client, const ClientHello& hello) = nullptr;
    /// A client that waited is gone, or was refused for verdict_wait_ms: its id may be another's from now on.
    void (*on_withdraw)(void* context, ClientId client) = nullptr;
};

class Server {
public:
    /// World, protocol (finished) and backend outlive the server. Returns problems of the configuration through valid().
    Server(World& world, const Protocol& protocol, ServerBackend& backend, ServerConfig config = {}, ServerEvents events = {});
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    /// none, or what is wrong with the configuration (problem() says which); then receive and tick do nothing.
    Error valid() const;
    const char* problem() const;

    /// Polls the backend: connections, acks. Bad messages are counted and dropped; the client stays.
    void receive(TimeUs now);
    /// Runs one replication step and flushes the backend. The report is valid until the next call.
    const TickReport& tick(TimeUs now);

    View view(ClientId client);
    Tick current_tick() const;
    bool joined(ClientId client) const;
    static constexpr ClientId nobody = 0xffffffff;
    static constexpr u64 no_network_id = ~u64(0);
    /// What the backend calls a client (ServerBackend::network_id), from its connection on, joined or not, until it ends: in on_leave and
    /// on_withdraw it has none any more. no_network_id: nobody is connected under this id.
    u64 network_id(ClientId client) const;
    /// The client that is connected with this network id, or nobody. Of several, as when a peer comes back before its old connection has
    /// ended, the newest; when that leaves, the one before it. O(log clients).
    ClientId client_of(u64 network_id) const;
    /// Whether the client waits for a verdict.
    bool waiting(ClientId client) const;
    /// The verdict about a client that waits. It joins at once, or once it has read the table. no_connection: it does not wait.
    Error accept(ClientId client);
    /// The same: the client is told the text, of which refusal_text_max bytes go, and is disconnected closing_ticks later.
    /// no_connection: it does not wait.
    Error refuse(ClientId client, std::string_view text = "not authorized");

    /// Network identity of a replicated entity; none before the first tick that saw it.
    NetId net_id(Entity entity) const;
    /// Ends the replication of an entity that the server keeps, in the next tick: takes Replicated away, and clients lose the entity
    /// wherever they look, hidden or paused, as if it were destroyed. Given Replicated afterwards, in the same tick too, it is another
    /// entity for them, with another net id. Also of an entity that was destroyed while it was paused, by the handle that it had: then the
    /// clients that have it still lose it. False, and nothing changes: it has no Replicated, and no client can have it. Like all changes of
    /// structure not from inside a loop over Replicated.
    bool end_replication(Entity entity);
    /// The entity that resources travel with (Protocol::resource): made in the tick that finds one, destroyed in the tick that finds none.
    /// Everyone sees it who may: a client whose list shows only what is on it (View::hide_all) needs View::show of it. Null without.
    Entity resource_entity() const;
    /// The same entity, made now if there is none, and kept from now on when there is no resource: what it is given before the first value,
    /// or between two, says who sees that (OwnedBy, SharedWith, VisibleTo, ScopedTo, View::hide) and how often it is sent (UpdatePriority).
    /// Clients show it without a component meanwhile. Null: entities_max, or a protocol without resources. A world that was restored to a
    /// time before has lost it: then call this again.
    Entity keep_resource_entity();
    /// Most entities that a cluster of related ones may have, to go together.
    static constexpr u32 cluster_entities_max = 64;
    /// The root of the entity's cluster as of the last tick: clients see all of the cluster where they would see the root. The one with a
    /// place and without a relation to another of them; of several, or where they go round in a circle, the one with the lowest net index.
    /// The entity itself if it has no cluster, or goes apart from it.
    Entity cluster_root(Entity entity) const;
    /// From the next tick on, entities with an E are seen by those clients only of whose C (View::set) the function says so: at any time
    /// between ticks, and for good. See throng/view_filter.hpp. `name` is what Why::filter says, and outlives the server. bad_value: no
    /// name, no function, or there is a filter of the same E and C. limit_reached: filters_max.
    template <class E, class C>
    Error add_filter(const char* name, FilterFunction<E, C> function) {
        return add_view_filter(detail::FilterType::of<E, C>(name, function));
    }
    /// True when the client is meant to see the entity as of the last tick.
    bool visible(ClientId client, Entity entity) const;
    /// True when the client is meant to see the entity, and has or would have a component of it, as of the last tick: neither its Audience
    /// nor a ScopedTo hides it. False for what the protocol does not have.
    bool visible(ClientId client, Entity entity, ComponentId component) const;
    template <class T>
    bool visible(ClientId client, Entity entity) const {
        return visible(client, entity, component_id<T>());
    }
    /// Calls f(context, entity) for each entity that the client is meant to see, in no particular order.
    void each_visible(ClientId client, void (*f)(void* context, Entity entity), void* context) const;
    /// True when nothing is unsent or unacknowledged for the client as of the last tick.
    bool settled(ClientId client) const;
    /// Bytes that each state message carries from the next tick on, heartbeats too, until they are set anew; none at first, and none if
    /// empty. Copied. They make no messages of their own, and take their room in each packet. too_large: more than userdata_bytes_max, or
    /// packets would have fewer than 128 bytes for the rest; then they stay what they were.
    Error set_userdata(Bytes data);
    static constexpr u32 userdata_bytes_max = 255;
    /// What a client has and costs. Looks at its chunks, and at nothing if it is not connected.
    ClientReport client_report(ClientId client) const;
    /// What a component has and costs: by its id, or by its type. Looks at all its rows, and at all chunks of all clients.
    ComponentReport component_report(ComponentId component) const;
    template <class T>
    ComponentReport component_report() const {
        return component_report(component_id<T>());
    }
    /// Why an entity is or is not on a client, and what it last cost there. A few look-ups; changes nothing.
    Why why(Entity entity, ClientId client) const;
    /// The same for a component of the entity: where the client sees the entity, and not the component, it says so. Whether the entity
    /// has it is not looked at.
    Why why(Entity entity, ClientId client, ComponentId component) const;
    template <class T>
    Why why(Entity entity, ClientId client) const {
        return why(entity, client, component_id<T>());
    }
    /// Typed messages of one type that were given to the backend for a client, or queued for it, and those of the client that were
    /// handled, since it connected.
    template <class T>
    u64 messages_sent(ClientId client) const {
        return typed_count(client, message_type_id<T>(), true);
    }
    template <class T>
    u64 messages_received(ClientId client) const {
        return typed_count(client, message_type_id<T>(), false);
    }
    /// Disconnects a client. on_leave is not called.
    void disconnect(ClientId client);
    /// The same, once what was sent before has been flushed and has had closing_ticks to arrive. Until then the client gets state as
    /// ever, but no message that is sent after this call. on_leave is called only if the client leaves first.
    void disconnect_after_flush(ClientId client);
    static constexpr u32 closing_ticks = 20;

    /// Does an Op to a component that has diffs (OpaqueBuilder::diffs), and marks it changed, like World::mut; the Op goes to the
    /// clients in the next tick. Several are done in order. bad_value: a dead entity, one without a T, or a T that is not registered with
    /// diffs of this type; or what `apply` returns. Then nothing has changed. Allocates nothing in steady state.
    template <class T, class Op>
    Error apply_diff(Entity entity, const Op& op) {
        return apply_op(component_id<T>(), entity, &detail::op_type<Op>, &op);
    }
    /// The same for a resource of the server's world. bad_value: there is none.
    template <class T, class Op>
    Error apply_resource_diff(const Op& op) {
        return apply_op(component_id<ResourceValue<T>>(), {}, &detail::op_type<Op>, &op);
    }

    /// Sends a typed message in the next tick, before its state. The message is encoded now; who gets it is decided in the tick, among
    /// those that have joined by now (or are connected, for independent messages). bad_value: not a registered message to clients, a group
    /// that is not there, an entity that is dead. no_connection: To::client names nobody. too_large: beyond bytes_max, or the
    /// backend's largest message. limit_reached: typed_tick_bytes_max. Allocates nothing in steady state.
    template <class T>
    Error send_message(const To& to, const T& message) {
        return send_typed(to, message_type_id<T>(), &message);
    }
    /// What is called, in receive(), for messages of clients. Entities that a message names are those of the server's world; the client
    /// sees each of them. bad_value: a type that is not registered, or goes to clients only; then none is set.
    Error set_handlers(std::span<const MessageHandler> handlers);
    /// Name of a message that may arrive here and has no handler, or null.
    const char* missing_handler() const;

    /// Sets of clients for To::group, any number of them (of layers there are 64). A client that leaves is taken out.
    GroupId make_group();
    void drop_group(GroupId group);
    void add_to_group(GroupId group, ClientId client);
    void remove_from_group(GroupId group, ClientId client);
    bool in_group(GroupId group, ClientId client) const;

    ServerMemory memory() const;
    /// For the tick's stages and tests.
    ServerState& state() { return *state_; }

private:
    friend class Messenger;
    Error add_view_filter(const detail::FilterType& type);
    Error apply_op(ComponentId component, Entity entity, const void* op_type, const void* op);
    Error send_typed(const To& to, u16 type, const void* message);
    u64 typed_count(ClientId client, u16 type, bool sent) const;
    ServerState* state_;
};

} // namespace throng
