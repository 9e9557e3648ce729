#include "throng/server.hpp"
#include "src/registry/message.hpp"
#include "src/server/admission.hpp"
#include "src/server/state.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <new>

namespace throng {

const char* to_string(Stage stage) {
    constexpr const char* names[stage_count] = {"acks", "mark", "structure", "capture", "interest", "plan", "encode", "assemble", "flush"};
    return names[static_cast<u32>(stage)];
}

namespace {
/// Makes the config's allocator one that counts.
ServerConfig& count_memory(ServerConfig& config, CountedAllocator& memory) {
    config.allocator = memory.allocator();
    return config;
}
} // namespace

ServerState::ServerState(World& w, const Protocol& p, ServerBackend& b, ServerConfig c, const ServerEvents& e)
    : world(w), protocol(p), layout(p.layout()), backend(b), memory(c.allocator), config(count_memory(c, memory)), events(e),
      executor(c.executor),
      own_executor(c.executor ? ExecutorHandle() : make_serial_executor()),
      mirror(p.layout(), std::clamp(c.history_ticks, 2u, history_max), c.allocator), grid(c.allocator), slots(c.allocator),
      net_entities(c.allocator), net_generations(c.allocator), net_free(c.allocator), touched(c.allocator), fresh_rows(c.allocator),
      fresh(c.allocator), denied(c.allocator), once_due(c.allocator),
      touched_chunks(c.allocator), dirty_chunks(c.allocator), touched_list(c.allocator), touched_dirty(c.allocator),
      viewers(c.allocator), moves(c.allocator), dangling(c.allocator), bound_now(c.allocator), unbound_alive(c.allocator),
      lasting_ended(c.allocator), rule_changes(w), priority_changes(w), owner_changes(w), group_changes(w), scope_changes(w),
      filters(c.allocator), owners(c.allocator), network_ids(c.allocator), slow_chunks(c.allocator),
      relations(p.layout().related_count, Server::cluster_entities_max, c.allocator), cluster_members(c.allocator),
      crowded_clusters(c.allocator), former_chunks(c.allocator),
      homeless(c.allocator), paused(c.allocator), last_pauses(c.allocator), unlogged(c.allocator), orphans(c.allocator),
      ending(c.allocator),
      closing(c.allocator), overflowed(c.allocator),
      in_review(c.allocator), table_message(c.allocator),
      outbox(c.allocator),
      dispatcher(p.messages(), Route::to_server, c.allocator), clients(c.allocator), client_counts(c.allocator),
      keys(std::min(worker_count_max, (c.executor ? c.executor : own_executor.get())->worker_count()), c.allocator),
      key_starts(c.allocator), key_order(c.allocator), payload_blocks(TickArena::block_bytes, c.allocator), workers(c.allocator),
      userdata(c.allocator), ops(c.allocator), op_room(c.allocator) {
    if (!executor)
        executor = own_executor.get();
    table_message.push_back(static_cast<std::byte>(MessageKind::table));
    table_message.append(p.table().data(), static_cast<u32>(p.table().size()));
    add_group_filter(*this);
    u32 replayed_bytes = 0, replay_object_bytes = 0;
    for (u32 d = layout.diffs; d; d &= d - 1) {
        const ComponentInfo& info = *layout.components[std::countr_zero(d)].info;
        replayed_bytes = std::max(replayed_bytes, info.opaque_bytes_max);
        replay_object_bytes = std::max(replay_object_bytes, info.size_bytes + replay_alignment);
        info.ensure_pool(world);
        THRONG_ASSERT(world.pool_of(info.id)->ops().alignment <= replay_alignment);
    }
    workers.reserve(executor->worker_count());
    for (u32 i = 0; i < executor->worker_count(); ++i) {
        workers.push_back(WorkerState(payload_blocks, c.allocator));
        workers.back().wire_objects.reserve(p);
        workers.back().replayed.resize(replayed_bytes);
        workers.back().replay_object.resize(replay_object_bytes);
        workers.back().scratch =
            new (c.allocator.allocate(sizeof(SectionScratch), alignof(SectionScratch))) SectionScratch(p.dictionary(), c.allocator);
    }
}

ServerState::~ServerState() {
    end_filters(*this);
    for (WorkerState& worker : workers) {
        worker.scratch->~SectionScratch();
        config.allocator.free(worker.scratch, sizeof(SectionScratch), alignof(SectionScratch));
    }
}

bool ServerState::wide_cells() const {
    for (u32 c = 0; c < layout.column_count; ++c)
        if (layout.columns[c].spatial_axis == 0)
            return layout.columns[c].element_bytes == 4;
    return false;
}

void reset_client(ServerState& state, ClientId id) {
    ClientState& client = state.clients[id];
    if (client.joined)
        --state.joined_count;
    for (const ClientChunk& view : client.chunks)
        --state.viewers[view.chunk];
    state.orphans_due = true;
    leave_groups(state.outbox, id);
    forget_filter_values(state, id);
    forget_admission(state, id);
    if (client.connected)
        state.network_ids.remove(client.network_id, id);
    client = ClientState(state.config.allocator);
    state.client_counts[id] = ClientCounts(state.config.allocator);
}

void forget_closing(ServerState& state, ClientId id) {
    for (u32 i = 0; i < state.closing.size(); ++i)
        if (state.closing[i].client == id)
            state.closing.erase_unordered(i--);
}

bool sees(const ClientState& client, u32 place) {
    const ClientChunk* view = find_client_chunk(const_cast<ClientState&>(client), place / lane_count, 0);
    return view && (view->visible >> place % lane_count & 1);
}

namespace {

void refuse(ServerState& state, Error error, const char* problem) {
    state.error = error;
    state.problem = problem;
}

constexpr u32 packet_bytes_min = 128; // beside the userdata

/// How much of a section fits into a message.
void size_payloads(ServerState& state) {
    const u32 overhead = header_bytes(state.userdata.size()) + section_header_bytes_max;
    state.payload_bytes = state.message_bytes - overhead;
    const u32 ordered = state.backend.message_bytes_max(Channel::ordered);
    state.ordered_bytes = std::max(state.payload_bytes, std::min(section_bytes_max, ordered > overhead ? ordered - overhead : 0));
}

void check_config(ServerState& state) {
    const ServerConfig& config = state.config;
    const u32 packet = std::min(config.message_bytes_max, state.backend.message_bytes_max(Channel::unreliable));
    if (packet < packet_bytes_min)
        return refuse(state, Error::bad_value, "message_bytes_max: a packet needs 128 bytes at least");
    state.message_bytes = packet;
    size_payloads(state);
    if (state.executor->worker_count() > worker_count_max)
        return refuse(state, Error::limit_reached, "executor: at most 255 workers");
    if (config.history_ticks < 2 || config.history_ticks > history_max)
        return refuse(state, Error::bad_value, "history_ticks: 2 to 16");
    if (config.authorization == Authorization::custom && !state.events.on_hello)
        return refuse(state, Error::bad_value, "authorization: custom needs ServerEvents::on_hello");
    if (config.records_max < 16 || config.records_max > 32768 || (config.records_max & (config.records_max - 1)))
        return refuse(state, Error::bad_value, "records_max: a power of two from 16 to 32768");
    u32 lane_bits = 48;
    for (u32 c = 0; c < state.layout.column_count; ++c)
        lane_bits += state.layout.columns[c].element_bytes * 5;
    state.full_lane_cost = lane_bits * 2;
    if (state.layout.spatial_component < 0)
        return;
    const double step = state.layout.spatial_step;
    const double cell = config.cell_size / step, radius = config.radius_min / step;
    if (!(cell >= place_units) || cell > 2e9 || (cell > 32000 && !state.wide_cells()))
        return refuse(state, Error::bad_value, "cell_size: 128 to 32,000 steps of the spatial axes (more with wide_cells)");
    if (!(radius >= 1) || radius > 1e9)
        return refuse(state, Error::bad_value, "radius_min: must be positive and fit the map");
    if (!state.grid.configure(state.layout.spatial_min, state.layout.spatial_max, static_cast<i32>(cell), static_cast<i32>(radius),
                              config.cells_max))
        return refuse(state, Error::limit_reached, "cell_size: more than cells_max cells, or too large for radius_min to keep the promise");
}

void tell_host(const ServerState& state, const Gone& gone) {
    const auto event = gone.joined ? state.events.on_leave : gone.waited ? state.events.on_withdraw : nullptr;
    if (event)
        event(state.events.context, gone.client);
}

struct Receiver final : ServerBackendSink {
    explicit Receiver(ServerState& s) : state(s) {}
    ServerState& state;

    void on_connect(ClientId id) override {
        if (id >= state.config.clients_max) {
            reject(state, id, {RejectReason::full, "the server is full"});
            state.pending_limits |= limit_clients;
            return;
        }
        while (state.clients.size() <= id) {
            state.clients.push_back(ClientState(state.config.allocator));
            state.client_counts.push_back(ClientCounts(state.config.allocator));
        }
        reset_client(state, id);
        state.clients[id].connected = true;
        state.clients[id].connection = ++state.connections;
        state.clients[id].network_id = state.backend.network_id(id);
        state.network_ids.add(state.clients[id].network_id, id);
        state.clients[id].connected_sequence = state.outbox.sequence;
    }

    void on_disconnect(ClientId id) override {
        forget_closing(state, id);
        if (id >= state.clients.size() || !state.clients[id].connected)
            return;
        const Gone gone = as_gone(state.clients[id], id);
        reset_client(state, id);
        tell_host(state, gone);
    }

    void on_message(ClientId id, Channel channel, Bytes message) override {
        if (id >= state.clients.size() || !state.clients[id].connected)
            return;
        ++input(id).messages;
        input(id).bytes += message.size();
        Error error = Error::bad_value;
        if (!message.empty() && message[0] == static_cast<std::byte>(MessageKind::hello) && channel == Channel::ordered)
            error = take_hello(state, id, message);
        else if (!message.empty() && message[0] == static_cast<std::byte>(MessageKind::ack))
            error = acks(id, message);
        else if (!message.empty() && message[0] == bundle_kind)
            error = typed(id, channel, message);
        if (error != Error::none)
            count_malformed(id);
    }
    void count_malformed(ClientId id) {
        ++state.malformed;
        ++input(id).malformed_messages;
    }
    ClientInput& input(ClientId id) const { return state.client_counts[id].input; }

    Error acks(ClientId id, Bytes message) {
        ClientState& client = state.clients[id];
        if (!client.joined)
            return Error::bad_value;
        if (client.acks.size() > ack_blocks_max || client.unapplied.size() > ack_blocks_max * 4)
            return Error::limit_reached; // a flood: what it repeats will be said again
        struct Context {
            ServerState& state;
            ClientState& client;
        } context{state, client};
        AckSink sink;
        sink.context = &context;
        sink.block = [](void* c, u16 newest, u64 mask) {
            ClientState& from = static_cast<Context*>(c)->client;
            from.acks.push_back({newest, mask});
            from.acks_waiting = true;
        };
        sink.unapplied = [](void* c, u16 m, u16 s) { static_cast<Context*>(c)->client.unapplied.push_back({m, s}); };
        sink.hash = [](void* c, Tick settled, u64 hash) {
            auto& [s, k] = *static_cast<Context*>(c);
            if (!k.hash_waiting || k.hash_tick != settled)
                return; // an older question; each is answered several times
            k.hash_waiting = false;
            ++(k.hash == hash ? s.hashes_equal : s.hashes_different);
        };
        return read_acks(message, sink);
    }

    Error typed(ClientId id, Channel channel, Bytes in) {
        if (!state.clients[id].joined)
            return Error::bad_value;
        const u64 connection = state.clients[id].connected_sequence;
        ProtocolHash hash;
        if (const Error error = read_bundle_head(in, hash); error != Error::none)
            return error;
        // A handler may disconnect the client.
        while (!in.empty() && state.clients[id].joined && state.clients[id].connected_sequence == connection) {
            Item item;
            if (const Error error = read_item(state.protocol.messages(), in, item); error != Error::none)
                return error;
            if (!state.dispatcher.arrives(*item.layout) || item.layout->info->options.channel != channel)
                return Error::bad_value;
            if (!accept(state.clients[id])) {
                ++state.typed.flooded;
                ++input(id).typed_dropped;
                state.pending_limits |= limit_typed_receive;
                continue;
            }
            Entity references[FieldList::fields_max];
            if (!resolve(state.clients[id], item, references)) {
                ++input(id).typed_dropped;
                continue;
            }
            bool handled = false;
            if (state.dispatcher.deliver(item, references, {Sender::Origin::client, id}, handled) != Error::none) {
                count_malformed(id); // it alone: those behind it are whole
                continue;
            }
            ++(handled ? state.typed.received : state.typed.unhandled);
            ++(handled ? input(id).typed_messages : input(id).typed_dropped);
            if (handled)
                ++state.client_counts[id].typed_of(state.protocol.messages(), *item.layout).received;
        }
        return Error::none;
    }

    /// Counts a message against typed_receive_max.
    bool accept(ClientState& client) const {
        if (client.typed_tick != state.tick)
            client.typed_received = 0;
        client.typed_tick = state.tick;
        return client.typed_received++ < state.config.typed_receive_max;
    }

    /// Ids of a client are not trusted: it may name what it is meant to see, and nothing else.
    bool resolve(const ClientState& client, const Item& item, Entity* references) {
        for (u32 r = 0; r < item.layout->reference_count; ++r) {
            const NetId id = item.references[r];
            references[r] = {};
            if (!id)
                continue;
            const u32 entity_idx = id.index() < state.net_entities.size() ? state.net_entities[id.index()] : no_slot;
            const Slot* slot = entity_idx < state.slots.size() ? &state.slots[entity_idx] : nullptr;
            const bool known = slot && slot->entity_id && slot->net_id == id;
            if (known)
                references[r] = state.world.entity_at(entity_idx);
            const u32 place = known ? state.place_of(references[r]) : no_slot;
            if (place == no_slot) {
                ++state.typed.dead_references;
                return false;
            }
            if (!sees(client, place)) {
                ++state.typed.unseen_references;
                return false;
            }
        }
        return true;
    }
};

} // namespace

Server::Server(World& world, const Protocol& protocol, ServerBackend& backend, ServerConfig config, ServerEvents events)
    : state_(new (config.allocator.allocate(sizeof(ServerState), alignof(ServerState)))
                 ServerState(world, protocol, backend, config, events)) {
    state_->tick = config.first_tick - 1;
    check_config(*state_);
    for (const ComponentInfo& info : protocol.components()) {
        info.ensure_pool(world);
        world.log_structure(info.id, true);
        state_->logged.set(info.id);
    }
    world.pool<Replicated>();
    world.log_structure(component_id<Replicated>(), true);
    protocol.layout().rule_types.for_each([&](u32 id) {
        world.log_structure(static_cast<ComponentId>(id), true);
        state_->logged.set(id);
    });
    state_->logged.reset(component_id<Replicated>());
    state_->restore_count = world.restore_count();
    state_->adopt_world = true; // entities that are there already are bound in the first tick
}

Server::~Server() {
    for (const ComponentInfo& info : state_->protocol.components())
        state_->world.log_structure(info.id, false);
    state_->world.log_structure(component_id<Replicated>(), false);
    state_->layout.rule_types.for_each([&](u32 id) { state_->world.log_structure(static_cast<ComponentId>(id), false); });
    const Allocator allocator = state_->memory.upstream();
    state_->~ServerState();
    allocator.free(state_, sizeof(ServerState), alignof(ServerState));
}

Error Server::valid() const {
    return state_->error;
}
const char* Server::problem() const {
    return state_->problem;
}
Tick Server::current_tick() const {
    return state_->tick;
}

void Server::receive(TimeUs now) {
    if (state_->error != Error::none)
        return;
    state_->now = now;
    for (const Gone& gone : state_->overflowed)
        tell_host(*state_, gone);
    state_->overflowed.clear();
    review_admissions(*state_);
    Receiver receiver(*state_);
    state_->backend.poll(now, receiver);
}

bool Server::joined(ClientId client) const {
    return client < state_->clients.size() && state_->clients[client].joined;
}

u64 Server::network_id(ClientId client) const {
    return client < state_->clients.size() && state_->clients[client].connected ? state_->clients[client].network_id : no_network_id;
}

ClientId Server::client_of(u64 network_id) const {
    return state_->network_ids.find(network_id, nobody);
}

View Server::view(ClientId client) {
    THRONG_ASSERT(client < state_->clients.size() && state_->clients[client].connected);
    return View(*state_, client);
}

NetId Server::net_id(Entity entity) const {
    return state_->net_id_of(entity);
}

bool end_in_tick(ServerState& state, Entity entity) {
    if (Slot* const slot = state.slot_of(entity)) {
        if (slot->ending)
            return true;
        slot->ending = true;
    } else if (std::none_of(state.orphans.begin(), state.orphans.end(),
                            [&](const ServerState::Orphan& orphan) { return orphan.entity_id == entity.entity_id; }))
        return false;
    state.ending.push_back(entity);
    return true;
}

bool Server::end_replication(Entity entity) {
    const bool marked = state_->world.remove<Replicated>(entity);
    return end_in_tick(*state_, entity) || marked;
}

Entity Server::cluster_root(Entity entity) const {
    const Slot* const slot = state_->slot_of(entity);
    return slot ? state_->world.entity_at(root_of(*state_, entity.entity_idx)) : entity;
}

bool Server::visible(ClientId client, Entity entity) const {
    const u32 place = state_->place_of(entity);
    return place != no_slot && client < state_->clients.size() && sees(state_->clients[client], place);
}

bool Server::visible(ClientId id, Entity entity, ComponentId component) const {
    if (!visible(id, entity))
        return false;
    const u32 place = state_->place_of(entity);
    const i32 index = registered_for(*state_, component, place);
    if (index < 0)
        return false;
    const ClientState& client = state_->clients[id];
    const ClientChunk* const view = find_client_chunk(const_cast<ClientState&>(client), place / lane_count, 0);
    return mask_of(*state_, client, *view, place % lane_count).components >> index & 1;
}

void Server::each_visible(ClientId client, void (*f)(void*, Entity), void* context) const {
    if (client >= state_->clients.size())
        return;
    for (const ClientChunk& view : state_->clients[client].chunks) {
        const Chunk& chunk = state_->mirror.chunk(view.chunk);
        const u64 shown = view.visible & ~chunk.orphaned;
        for (u32 lane = 0; lane < lane_count; ++lane)
            if (shown >> lane & 1)
                f(context, state_->world.entity_at(chunk.entity_idx[lane]));
    }
}

bool Server::settled(ClientId client) const {
    return client < state_->clients.size() && state_->clients[client].joined && state_->clients[client].clean;
}

Error Server::set_userdata(Bytes data) {
    if (data.size() > userdata_bytes_max)
        return Error::too_large;
    const u32 bytes = static_cast<u32>(data.size());
    if (header_bytes(bytes) - state_header_bytes + packet_bytes_min > state_->message_bytes)
        return Error::too_large;
    state_->userdata.reserve(userdata_bytes_max); // once
    state_->userdata.clear();
    state_->userdata.append(data.data(), bytes);
    if (state_->error == Error::none)
        size_payloads(*state_);
    return Error::none;
}

void Server::disconnect(ClientId client) {
    if (client >= state_->clients.size() || !state_->clients[client].connected)
        return;
    state_->backend.disconnect(client);
    forget_closing(*state_, client);
    reset_client(*state_, client);
}

ServerMemory Server::memory() const {
    ServerMemory memory;
    memory.client_chunk_bytes = sizeof(ClientChunk);
    for (const ClientState& client : state_->clients) {
        memory.client_chunks += client.chunks.size();
        memory.side_table_bytes += client.records.capacity() * sizeof(MessageRecord) + client.sections.capacity() * sizeof(SectionRecord) +
                                   client.sends.capacity() * sizeof(Send) + client.listed.capacity_bytes() +
                                   client.priorities.capacity_bytes() +
                                   client.lasting.capacity_bytes() + client.masks.capacity_bytes();
    }
    memory.side_table_bytes += state_->client_counts.capacity() * sizeof(ClientCounts);
    for (const ClientCounts& counts : state_->client_counts)
        memory.side_table_bytes += counts.typed.capacity() * sizeof(ClientCounts::Typed);
    memory.mirror_bytes = state_->mirror.bytes();
    memory.opaque_bytes = state_->mirror.opaque_bytes();
    memory.other_bytes = sizeof(ServerState) + state_->memory.bytes() - memory.total_bytes();
    return memory;
}

namespace {
void view_changed(ServerState& state, ClientState& client) {
    client.view_changed = client.attention = state.views_changed = true;
}
} // namespace

namespace {
/// Units of the map in steps, as far as steps reach. 0 in a protocol without a map, and for what is not a number.
i32 in_steps(const ServerState& state, double units) {
    constexpr double reach = 2e9;
    if (state.layout.spatial_component < 0 || std::isnan(units))
        return 0;
    return static_cast<i32>(std::clamp(units / state.layout.spatial_step, -reach, reach));
}
} // namespace

void View::follow(Entity entity, Options options) {
    ClientState& client = state_->clients[client_];
    client.focus = entity;
    client.has_focus = true;
    client.has_point = false;
    client.radius = in_steps(*state_, options.radius);
    view_changed(*state_, client);
}

void View::look_at(double a, double b, Options options) {
    ClientState& client = state_->clients[client_];
    client.has_focus = false;
    client.has_point = true;
    client.point[0] = in_steps(*state_, a);
    client.point[1] = in_steps(*state_, b);
    client.radius = in_steps(*state_, options.radius);
    view_changed(*state_, client);
}

namespace {
/// Begins the client's list anew.
void set_listing(ServerState& state, ClientId id, bool shows_listed_only) {
    ClientState& client = state.clients[id];
    if (client.shows_listed_only == shows_listed_only && client.listed.empty())
        return;
    client.shows_listed_only = shows_listed_only;
    client.listed.clear();
    view_changed(state, client);
}

/// Puts an entity into the client's list, or takes it out.
void set_listed(ServerState& state, ClientId id, Entity entity, bool listed) {
    ClientState& client = state.clients[id];
    if (listed ? client.listed.add(entity) : client.listed.remove(entity))
        view_changed(state, client);
}
} // namespace

void View::hide(Entity entity) {
    set_listed(*state_, client_, entity, !state_->clients[client_].shows_listed_only);
}

void View::show(Entity entity) {
    set_listed(*state_, client_, entity, state_->clients[client_].shows_listed_only);
}

void View::hide_all() {
    set_listing(*state_, client_, true);
}

void View::show_all() {
    set_listing(*state_, client_, false);
}

void View::set_layers(u64 layers) {
    ClientState& client = state_->clients[client_];
    if (client.layers == layers)
        return;
    client.layers = layers;
    view_changed(*state_, client);
}

u64 View::layers() const {
    return state_->clients[client_].layers;
}

bool View::set_priority(Entity entity, float priority) {
    EntityList& list = state_->clients[client_].priorities;
    if (list.size() >= priorities_max && !list.has(entity.entity_idx, entity.entity_id)) {
        list.remove_if([&](const EntityList::Entry& e) { return state_->world.entity_at(e.entity_idx).entity_id != e.entity_id; });
        if (list.size() >= priorities_max)
            return false;
    }
    list.add(entity, update_period_log2(priority));
    return true;
}

void View::clear_priority(Entity entity) {
    state_->clients[client_].priorities.remove(entity);
}

bool View::hidden(Entity entity) const {
    const ClientState& client = state_->clients[client_];
    return client.listed.has(entity.entity_idx, entity.entity_id) != client.shows_listed_only;
}

} // namespace throng
