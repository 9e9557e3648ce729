// Typed messages in the tick. find_departed_observers, before structure: who saw entities that end in this tick. resolve_typed, after
// interest: references and targets become final, items complete; serial, and nothing where nothing was sent. send_typed, in assemble,
// by the client's worker: its items are copied into bundles. The state of the tick follows them.
#include "jobs/stages/stages.hpp"
#include <algorithm>

namespace throng {
namespace {

/// Puts a message on the list of the chunk of its entity.
void observe(ServerState& state, u32 index, u32 place) {
    TypedOutbox& outbox = state.outbox;
    const u32 chunk = place / lane_count;
    if (chunk >= outbox.chunk_heads.size())
        outbox.chunk_heads.resize(std::max(chunk + 1, state.viewers.size()), no_message);
    if (outbox.chunk_heads[chunk] == no_message)
        outbox.observed_chunks.push_back(chunk);
    outbox.messages[index].next = outbox.chunk_heads[chunk];
    outbox.messages[index].who = place % lane_count;
    outbox.chunk_heads[chunk] = index;
    outbox.any_observed = true;
}

/// Adds the messages about entities that the client sees, in no order.
void collect_observed(const ServerState& state, const ClientState& client, Array<u32>& out) {
    const TypedOutbox& outbox = state.outbox;
    for (const ClientChunk& view : client.chunks) {
        const u32 head = view.chunk < outbox.chunk_heads.size() ? outbox.chunk_heads[view.chunk] : no_message;
        for (u32 i = head; i != no_message; i = outbox.messages[i].next)
            if (view.visible >> outbox.messages[i].who & 1 && receives(client, outbox.messages[i]))
                out.push_back(i);
    }
}

void forget_observed(TypedOutbox& outbox) {
    for (const u32 chunk : outbox.observed_chunks)
        outbox.chunk_heads[chunk] = no_message;
    outbox.observed_chunks.clear();
    outbox.any_observed = false;
}

/// References that had no net id when the message was sent may have one now.
void complete_item(ServerState& state, OutMessage& message) {
    TypedOutbox& outbox = state.outbox;
    NetId ids[FieldList::fields_max];
    for (u32 r = 0; r < message.layout->reference_count; ++r) {
        const OutReference& reference = outbox.references[message.first_reference + r];
        ids[r] = reference.id ? reference.id : state.net_id_of(reference.entity);
        state.typed.null_references += reference.entity && !ids[r];
    }
    message.item = outbox.items.size();
    append_item(*message.layout, state.protocol.messages().number(*message.layout), state.tick, ids,
                {outbox.bodies.data() + message.body, message.body_bytes}, outbox.items);
    message.item_bytes = outbox.items.size() - message.item;
}

/// Lists the message where its receivers will look for it.
void address(ServerState& state, u32 index) {
    TypedOutbox& outbox = state.outbox;
    const OutMessage& message = outbox.messages[index];
    const auto give = [&](ClientId id) {
        if (id < state.clients.size() && receives(state.clients[id], message))
            state.clients[id].typed.push_back(index);
    };
    switch (message.target) {
    case To::Kind::client:
        give(message.who);
        break;
    case To::Kind::group:
        for (const ClientId id : outbox.groups[message.who].members)
            give(id);
        break;
    case To::Kind::observers:
        if (!message.departed)
            if (const u32 place = state.place_of(message.observed); place != no_slot)
                observe(state, index, place);
        break;
    default:
        outbox.broad.push_back(index);
    }
}

class TypedSender {
public:
    TypedSender(ServerState& state, ClientState& client, ClientId id, WorkerState& worker)
        : state_(state), client_(client), id_(id), worker_(worker), counts_(worker.counts.typed) {}
    void run();

private:
    void gather();
    void send_channel(Channel channel);
    void close(Channel channel);
    SendResult hand_over(Channel channel, Bytes bundle);
    void count();
    ItemQueue* backlog(Channel channel) { return channel == Channel::unreliable ? nullptr : &client_.backlog[channel == Channel::ordered]; }
    /// Kind, and for a client that has not joined the protocol hash, so that it knows what the numbers mean.
    u32 write_head(std::byte* out) const;

    ServerState& state_;
    ClientState& client_;
    ClientId id_;
    WorkerState& worker_;
    TypedCounts& counts_;
    ClientTraffic traffic_; // in this tick
    u32 open_items_ = 0; // in worker_.bundle
    bool blocked_ = false;
};

u32 TypedSender::write_head(std::byte* out) const {
    out[0] = bundle_kind;
    if (client_.joined)
        return 1;
    out[0] |= bundle_hash_bit;
    write_hash(out + 1, state_.protocol.hash());
    return bundle_head_bytes_max;
}

void TypedSender::gather() {
    TypedOutbox& outbox = state_.outbox;
    Array<u32>& list = worker_.typed;
    list.clear();
    list.append(client_.typed.data(), client_.typed.size());
    client_.typed.clear();
    for (const u32 index : outbox.broad) {
        const OutMessage& message = outbox.messages[index];
        if (message.target == To::Kind::layers && !(message.any_of & client_.layers))
            continue;
        const auto excepted = outbox.excepted_of(message);
        const bool left_out = std::binary_search(excepted.begin(), excepted.end(), id_) && !seeded_bug(SeededBug::forgotten_exception);
        if (receives(client_, message) && !left_out)
            list.push_back(index);
    }
    if (outbox.any_observed)
        collect_observed(state_, client_, list);
    std::sort(list.begin(), list.end()); // by time of sending
}

SendResult TypedSender::hand_over(Channel channel, Bytes bundle) {
    const SendResult result = state_.backend.send(id_, channel, bundle);
    if (result == SendResult::accepted) {
        ++traffic_.typed_bundles;
        traffic_.typed_bytes += bundle.size();
    } else {
        worker_.counts.limits |= limit_backend_refused;
    }
    return result;
}

void TypedSender::close(Channel channel) {
    if (open_items_ == 0)
        return;
    Array<std::byte>& bundle = worker_.bundle;
    if (hand_over(channel, {bundle.data(), bundle.size()}) != SendResult::accepted) {
        if (ItemQueue* queue = backlog(channel)) {
            const u32 head = client_.joined ? 1 : bundle_head_bytes_max;
            queue->append({bundle.data() + head, bundle.size() - head});
            traffic_.typed_backlogged += open_items_;
            blocked_ = true;
        } else {
            traffic_.typed_refused += open_items_;
        }
    }
    open_items_ = 0;
}

void TypedSender::send_channel(Channel channel) {
    Array<std::byte>& bundle = worker_.bundle;
    std::byte head[bundle_head_bytes_max];
    const u32 head_bytes = write_head(head), packet = state_.message_bytes;
    ItemQueue* const queue = backlog(channel);
    blocked_ = false;
    if (queue && !queue->empty()) {
        queue->flush({head, head_bytes}, packet, bundle, [&](Bytes bytes) { return hand_over(channel, bytes); });
        blocked_ = !queue->empty(); // what is new waits behind it
    }
    for (const u32 index : worker_.typed) {
        const OutMessage& message = state_.outbox.messages[index];
        if (message.layout->info->options.channel != channel)
            continue;
        const Bytes item{state_.outbox.items.data() + message.item, message.item_bytes};
        if (open_items_ != 0 && bundle.size() + item.size() > packet)
            close(channel);
        ++traffic_.typed_messages[static_cast<u32>(channel)];
        ++state_.client_counts[id_].typed_of(state_.protocol.messages(), *message.layout).sent;
        client_.tick_wanted |= message.layout->info->options.waits_for_tick;
        if (blocked_) {
            queue->append(item);
            ++traffic_.typed_backlogged;
            continue;
        }
        if (open_items_++ == 0) {
            bundle.clear();
            bundle.append(head, head_bytes);
        }
        bundle.append(item.data(), item.size());
    }
    close(channel);
}

void TypedSender::run() {
    gather();
    for (const Channel channel : {Channel::ordered, Channel::unordered, Channel::unreliable})
        send_channel(channel);
    count();
    const u32 waiting = client_.backlog[0].size_bytes() + client_.backlog[1].size_bytes();
    worker_.any_backlog |= waiting != 0;
    client_.overflowed = waiting > state_.config.typed_backlog_bytes_max;
    worker_.any_overflow |= client_.overflowed;
}

void TypedSender::count() {
    u64 messages = 0;
    for (const u64 of_channel : traffic_.typed_messages)
        messages += of_channel;
    counts_.deliveries += messages;
    counts_.bundles += traffic_.typed_bundles;
    counts_.bytes += traffic_.typed_bytes;
    counts_.backlogged += traffic_.typed_backlogged;
    counts_.refused += traffic_.typed_refused;
    if (messages + traffic_.typed_bundles)
        state_.traffic(client_) += traffic_;
}

} // namespace

void find_departed_observers(ServerState& state) {
    TypedOutbox& outbox = state.outbox;
    for (u32 i = 0; i < outbox.messages.size(); ++i) {
        OutMessage& message = outbox.messages[i];
        if (message.target != To::Kind::observers)
            continue;
        const Slot* const slot = state.slot_of(message.observed);
        if (state.world.alive(message.observed) && !(slot && slot->ending))
            continue;
        message.departed = true;
        if (const u32 place = state.place_of(message.observed); place != no_slot)
            observe(state, i, place);
    }
    if (!outbox.any_observed)
        return;
    parallel_stage(state, Stage::assemble, state.clients.size(), client_grain(state), [&](u32 begin, u32 end, WorkerState&, u32) {
        for (u32 id = begin; id < end; ++id)
            collect_observed(state, state.clients[id], state.clients[id].typed);
    });
    forget_observed(outbox);
}

void resolve_typed(ServerState& state) {
    TypedOutbox& outbox = state.outbox;
    for (u32 i = 0; i < outbox.messages.size(); ++i) {
        complete_item(state, outbox.messages[i]);
        address(state, i);
    }
}

void send_typed(ServerState& state, ClientState& client, ClientId id, WorkerState& worker) {
    if (client.connected && (!state.outbox.messages.empty() || !client.backlog[0].empty() || !client.backlog[1].empty()))
        TypedSender(state, client, id, worker).run();
}

void finish_typed(ServerState& state) {
    state.any_backlog = false;
    bool overflow = false;
    for (WorkerState& worker : state.workers) {
        state.any_backlog |= std::exchange(worker.any_backlog, false);
        overflow |= std::exchange(worker.any_overflow, false);
    }
    for (ClientId id = 0; overflow && id < state.clients.size(); ++id) {
        if (!state.clients[id].overflowed)
            continue;
        state.report.limits |= limit_typed_backlog;
        state.overflowed.push_back(as_gone(state.clients[id], id));
        state.backend.disconnect(id);
        forget_closing(state, id);
        reset_client(state, id);
    }
    state.outbox.clear();
}

} // namespace throng
