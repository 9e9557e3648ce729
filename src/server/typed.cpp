// Typed messages at the server: sending, groups. The tick's part is in jobs/stages/typed.cpp, receiving in server.cpp.
#include "src/server/state.hpp"
#include <algorithm>

namespace throng {

TypedCounts& TypedCounts::operator+=(const TypedCounts& other) {
    sent += other.sent;
    encoded += other.encoded;
    deliveries += other.deliveries;
    bundles += other.bundles;
    bytes += other.bytes;
    backlogged += other.backlogged;
    refused += other.refused;
    null_references += other.null_references;
    received += other.received;
    unhandled += other.unhandled;
    unseen_references += other.unseen_references;
    dead_references += other.dead_references;
    flooded += other.flooded;
    return *this;
}

namespace {

TypedOutbox::Group* find_group(TypedOutbox& outbox, GroupId group) {
    return group < outbox.groups.size() && outbox.groups[group].used ? &outbox.groups[group] : nullptr;
}

void leave_group(TypedOutbox::Group& group, ClientId client) {
    ClientId* at = std::lower_bound(group.members.begin(), group.members.end(), client);
    if (at == group.members.end() || *at != client)
        return;
    std::copy(at + 1, group.members.end(), at);
    group.members.pop_back();
}

/// What the client sees of entities that are shared with groups, and which ones it sees, may be something else from the next tick on.
void membership_changed(ServerState& state, ClientId id) {
    group_sight_changed(state, id);
    if (state.layout.of_group && id < state.clients.size())
        state.clients[id].view_changed = state.clients[id].attention = state.views_changed = true;
}

/// Sets the target of a message whose sequence number and layout are there. Nothing is kept of one that is refused.
Error aim(ServerState& state, const To& to, OutMessage& message) {
    TypedOutbox& outbox = state.outbox;
    message.target = to.kind;
    switch (to.kind) {
    case To::Kind::client:
        message.who = to.id;
        if (to.id >= state.clients.size() || !receives(state.clients[to.id], message))
            return Error::no_connection;
        break;
    case To::Kind::all:
        break;
    case To::Kind::all_except:
        message.who = outbox.excepted.size();
        message.who_count = static_cast<u32>(to.except.size());
        outbox.excepted.append(to.except.data(), to.except.size());
        std::sort(outbox.excepted.begin() + message.who, outbox.excepted.end());
        break;
    case To::Kind::layers:
        message.any_of = to.any_of;
        break;
    case To::Kind::group:
        message.who = to.group_id;
        if (!find_group(outbox, to.group_id))
            return Error::bad_value;
        break;
    case To::Kind::observers:
        message.observed = to.entity;
        if (!state.world.alive(to.entity))
            return Error::bad_value;
        break;
    }
    return Error::none;
}

} // namespace

Error Server::send_typed(const To& to, u16 type, const void* object) {
    ServerState& state = *state_;
    TypedOutbox& outbox = state.outbox;
    if (state.error != Error::none)
        return state.error;
    OutMessage message;
    message.layout = state.protocol.messages().find(type);
    if (!message.layout || !(static_cast<u32>(message.layout->info->options.route) & static_cast<u32>(Route::to_client)))
        return Error::bad_value;
    const MessageLayout& layout = *message.layout;
    message.sequence = outbox.sequence;
    if (outbox.bytes() + layout.info->options.bytes_max > state.config.typed_tick_bytes_max)
        return Error::limit_reached;
    message.body = outbox.bodies.size();
    Error error = append_body(layout, object, outbox.bodies);
    message.body_bytes = outbox.bodies.size() - message.body;
    const u32 front = payload_bytes_max(layout) - layout.value_bytes;
    if (error == Error::none && bundle_head_bytes_max + item_head_bytes_max + front + message.body_bytes >
                                    state.backend.message_bytes_max(layout.info->options.channel))
        error = Error::too_large;
    if (error == Error::none)
        error = aim(state, to, message);
    if (error != Error::none) {
        outbox.bodies.resize(message.body);
        return error;
    }
    message.first_reference = outbox.references.size();
    for (u32 r = 0; r < layout.reference_count; ++r) {
        OutReference& reference = outbox.references.emplace_back();
        std::memcpy(&reference.entity, static_cast<const std::byte*>(object) + layout.references[r]->offset_bytes, sizeof(Entity));
        reference.id = net_id(reference.entity);
    }
    outbox.messages.push_back(message);
    ++outbox.sequence;
    ++state.typed.sent;
    ++state.typed.encoded;
    return Error::none;
}

Error Server::set_handlers(std::span<const MessageHandler> handlers) {
    return state_->dispatcher.set(handlers);
}
const char* Server::missing_handler() const {
    return state_->dispatcher.missing();
}

GroupId Server::make_group() {
    TypedOutbox& outbox = state_->outbox;
    GroupId group = 0;
    while (group < outbox.groups.size() && outbox.groups[group].used)
        ++group;
    if (group == outbox.groups.size())
        outbox.groups.emplace_back(state_->config.allocator);
    outbox.groups[group].used = true;
    return group;
}

void Server::drop_group(GroupId group) {
    if (TypedOutbox::Group* found = find_group(state_->outbox, group)) {
        for (const ClientId member : found->members)
            membership_changed(*state_, member);
        found->members.clear();
        found->used = false;
        for (OutMessage& message : state_->outbox.messages) // its id may be another's at the tick
            if (message.target == To::Kind::group && message.who == group) {
                message.target = To::Kind::client;
                message.who = local_player; // nobody
            }
    }
}

void Server::add_to_group(GroupId group, ClientId client) {
    TypedOutbox::Group* found = find_group(state_->outbox, group);
    THRONG_ASSERT(found);
    Array<ClientId>& members = found->members;
    ClientId* at = std::lower_bound(members.begin(), members.end(), client);
    if (at != members.end() && *at == client)
        return;
    const std::ptrdiff_t place = at - members.begin();
    members.push_back(client);
    std::rotate(members.begin() + place, members.end() - 1, members.end());
    membership_changed(*state_, client);
}

void Server::remove_from_group(GroupId group, ClientId client) {
    if (TypedOutbox::Group* found = find_group(state_->outbox, group)) {
        leave_group(*found, client);
        membership_changed(*state_, client);
    }
}

bool Server::in_group(GroupId group, ClientId client) const {
    return has_member(state_->outbox, group, client);
}

bool has_member(const TypedOutbox& outbox, GroupId group, ClientId client) {
    if (group >= outbox.groups.size() || !outbox.groups[group].used)
        return false;
    const Array<ClientId>& members = outbox.groups[group].members;
    return std::binary_search(members.begin(), members.end(), client);
}

void leave_groups(TypedOutbox& outbox, ClientId client) {
    for (TypedOutbox::Group& group : outbox.groups)
        leave_group(group, client);
}

void Server::disconnect_after_flush(ClientId id) {
    if (id >= state_->clients.size() || !state_->clients[id].connected || state_->clients[id].left_sequence != ~u64(0))
        return;
    state_->clients[id].left_sequence = state_->outbox.sequence;
    state_->closing.push_back({id, state_->tick + 1 + closing_ticks});
}

} // namespace throng
