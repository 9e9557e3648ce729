// Typed messages at the client. What arrives is delivered at once, or waits until the entities that it names are shown (R11).
#include "src/base/seeded_bug.hpp"
#include "src/client/client_impl.hpp"
#include <algorithm>

namespace throng {

Entity Client::Impl::shown(NetId id) const {
    const u32 record = id ? index.find(id) : no_record;
    return record != no_record ? index[record].entity : Entity{};
}

Error Client::Impl::read_bundle(Channel channel, Bytes in) {
    ProtocolHash hash;
    if (const Error error = read_bundle_head(in, hash); error != Error::none)
        return error;
    if (hash != ProtocolHash{} && hash != spoken->hash()) {
        ++stats.typed.wrong_protocol;
        return Error::none;
    }
    while (!in.empty()) {
        Item item;
        if (const Error error = read_item(spoken->messages(), in, item); error != Error::none)
            return error;
        if (!dispatcher.arrives(*item.layout) || item.layout->info->options.channel != channel)
            return Error::bad_value;
        if (item.layout->handler < 0) {
            ++stats.typed.unknown;
            continue;
        }
        ++stats.typed.received;
        const bool behind = waiting.blocked(*item.layout) && !seeded_bug(SeededBug::overtaking_message);
        if (item.layout->info->options.independent || (!behind && ready(item)))
            deliver(item);
        else
            wait(item);
    }
    return Error::none;
}

/// Whether the gates of a message are open.
bool Client::Impl::ready(const Item& item) const {
    if (!joined || (item.layout->info->options.waits_for_tick && tick_newer(item.tick, newest_tick)))
        return false;
    for (u32 r = 0; r < item.layout->reference_count; ++r)
        if (item.references[r] && !world.alive(shown(item.references[r])) && !seeded_bug(SeededBug::early_message))
            return false;
    return true;
}

/// A message whose bytes say nothing is dropped alone: those behind it are whole.
void Client::Impl::deliver(const Item& item) {
    Entity references[FieldList::fields_max];
    for (u32 r = 0; r < item.layout->reference_count; ++r) {
        references[r] = shown(item.references[r]);
        if (!world.alive(references[r]))
            references[r] = {}; // the game has destroyed it
        stats.typed.null_references += item.references[r] && !references[r];
    }
    bool handled = false;
    const Error error = dispatcher.deliver(item, references, {}, handled);
    if (error == Error::none)
        ++(handled ? stats.typed.delivered : stats.typed.unhandled);
    else
        count_error(error);
}

void Client::Impl::wait(const Item& item) {
    ++stats.typed.waited;
    const bool unreliable = item.layout->info->options.channel == Channel::unreliable;
    const u32 limit = unreliable ? config.typed_waiting_unreliable_max : config.typed_waiting_max;
    if (limit == 0 || item.payload.size() > config.typed_waiting_bytes_max) {
        ++stats.typed.dropped_limit;
        return;
    }
    if ((unreliable ? waiting.unreliable_count() : waiting.reliable_count()) >= limit) {
        waiting.drop_oldest(unreliable);
        ++stats.typed.dropped_limit;
    }
    for (; waiting.size_bytes() + item.payload.size() > config.typed_waiting_bytes_max; ++stats.typed.dropped_limit)
        waiting.drop_oldest(waiting.unreliable_count() > 0);
    waiting.add(item, now_us);
}

/// Delivers what may be delivered now. Without `expire`, only if an entity or a tick has come since the last look.
void Client::Impl::release_waiting(bool expire) {
    if (!expire && spawns_at_release == stats.spawns && tick_at_release == newest_tick)
        return;
    spawns_at_release = stats.spawns;
    tick_at_release = newest_tick;
    waiting.scan([&](const Item& item, TimeUs since_us) {
        if (ready(item)) {
            deliver(item);
            return WaitingMessages::Verdict::remove;
        }
        // What has overtaken the welcome waits for it as long as it takes.
        if (!expire || !joined || now_us - std::max(since_us, joined_us) < TimeUs(config.typed_wait_ms) * 1000)
            return WaitingMessages::Verdict::keep;
        ++stats.typed.dropped_wait;
        return WaitingMessages::Verdict::remove;
    });
}

/// A new session starts with nothing of the old one.
void Client::Impl::drop_typed() {
    stats.typed.dropped_disconnect += waiting.size();
    waiting.clear();
    for (ItemQueue& queue : outgoing) {
        stats.typed.dropped_disconnect += queue.count();
        queue.clear();
    }
}

Error Client::Impl::flush_typed() {
    Error error = Error::none;
    for (const Channel channel : {Channel::ordered, Channel::unordered, Channel::unreliable}) {
        ItemQueue& queue = outgoing[static_cast<u32>(channel)];
        if (queue.empty())
            continue;
        const u32 packet = backend.message_bytes_max(Channel::unreliable);
        queue.flush({&bundle_kind, 1}, packet, typed_buffer, [&](Bytes bundle) {
            const SendResult result = backend.send(channel, bundle);
            stats.typed.bundles += result == SendResult::accepted;
            return result;
        });
        if (queue.empty())
            continue;
        error = Error::limit_reached;
        if (channel == Channel::unreliable) {
            stats.typed.refused += queue.count();
            queue.clear();
        }
    }
    return error;
}

Error Client::send_typed(u16 type, const void* message) {
    Impl& impl = *impl_;
    const MessageTable& table = impl.spoken->messages();
    const MessageLayout* layout = table.find(type);
    if (!layout)
        return impl.protocol.messages().find(type) ? Error::wrong_protocol : Error::bad_value;
    if (!(static_cast<u32>(layout->info->options.route) & static_cast<u32>(Route::to_server)))
        return Error::bad_value;
    if (!impl.joined)
        return Error::no_connection;
    NetId references[FieldList::fields_max];
    for (u32 r = 0; r < layout->reference_count; ++r) {
        Entity entity;
        if (layout->references[r]->offset_bytes != no_offset)
            std::memcpy(&entity, static_cast<const std::byte*>(message) + layout->references[r]->offset_bytes, sizeof entity);
        references[r] = net_id(entity);
        if (entity && !references[r])
            return Error::bad_value;
    }
    Array<std::byte>& body = impl.typed_buffer;
    body.clear();
    if (const Error error = append_body(*layout, message, body); error != Error::none)
        return error;
    const Channel channel = layout->info->options.channel;
    ItemQueue& queue = impl.outgoing[static_cast<u32>(channel)];
    const u32 item_max = item_head_bytes_max + payload_bytes_max(*layout) - layout->value_bytes + body.size();
    if (1 + item_max > impl.backend.message_bytes_max(channel))
        return Error::too_large;
    if (queue.size_bytes() + item_max > impl.config.typed_outgoing_bytes_max)
        return Error::limit_reached;
    append_item(*layout, table.number(*layout), impl.newest_tick, references, {body.data(), body.size()}, queue.bytes());
    ++impl.stats.typed.sent;
    return Error::none;
}

Error Client::set_handlers(std::span<const MessageHandler> handlers) {
    return impl_->dispatcher.set(handlers);
}
const char* Client::missing_handler() const {
    return impl_->dispatcher.missing();
}

} // namespace throng
