#include "src/transport/link.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <cstring>
#include <utility>
#include <xxhash.h>

namespace throng::transport {

namespace {

// Streams of draws; see Link::draw.
enum Stream : u32 {
    stream_loss,
    stream_burst_move,
    stream_burst_loss,
    stream_jitter,
    stream_reorder,
    stream_duplicate,
    stream_duplicate_jitter,
    stream_truncate,
    stream_truncate_at,
    stream_corrupt,
    stream_corrupt_at, // the last: uses the following numbers too
};
constexpr u32 streams_per_attempt = 32;
constexpr u32 corrupt_bytes_max = 4;

u32 threshold(double percent) { return static_cast<u32>(percent / 100.0 * LinkModel::certain + 0.5); }

u64 checksum_of(Message* message) { return XXH3_64bits(message->data(), message->size_bytes); }

/// A message on a sheet of its own.
Message* alone(MessagePool& pool, u32 hint, u32 size_bytes) {
    Sheet* sheet = pool.acquire(hint, MessagePool::message_bytes(size_bytes));
    Message* message = MessagePool::add(*sheet, size_bytes);
    pool.release(hint, sheet);
    return message;
}

template <class T>
void copy_table(std::span<const T> from, T*& to, u32& count, Allocator allocator) {
    allocator.free(to, count * sizeof(T), alignof(T));
    to = nullptr;
    count = static_cast<u32>(from.size());
    if (count == 0)
        return;
    to = static_cast<T*>(allocator.allocate(count * sizeof(T), alignof(T)));
    std::copy(from.begin(), from.end(), to);
}

} // namespace

void Link::List::insert_after(Message* position, Message* message) {
    message->prev = position;
    message->next = position ? position->next : head;
    (position ? position->next : head) = message;
    (message->next ? message->next->prev : tail) = message;
}

Message* Link::List::pop_front() {
    Message* message = head;
    head = message->next;
    (head ? head->prev : tail) = nullptr;
    message->next = nullptr;
    return message;
}

void Link::configure(const LinkConfig& config, Allocator allocator) {
    THRONG_ASSERT(invalid_field(config) == nullptr);
    model_.loss = threshold(config.loss_percent);
    model_.burst_enter = threshold(config.burst_enter_percent);
    model_.burst_leave = threshold(config.burst_leave_percent);
    model_.burst_loss = threshold(config.burst_loss_percent);
    model_.reorder = threshold(config.reorder_percent);
    model_.duplicate = threshold(config.duplicate_percent);
    model_.truncate = threshold(config.truncate_percent);
    model_.corrupt = threshold(config.corrupt_percent);
    model_.delay_us = config.delay_us;
    model_.jitter_us = config.jitter_us;
    model_.reorder_extra_us = config.reorder_extra_us;
    model_.packet_overhead_bytes = config.packet_overhead_bytes;
    mtu_bytes_ = config.mtu_bytes;
    model_.rate_bytes_per_s = config.rate_bytes_per_s;
    model_.queue_ns_max = config.rate_bytes_per_s ? config.queue_bytes_max * u64(1'000'000'000) / config.rate_bytes_per_s : 0;
    if (model_.burst_enter == 0)
        in_burst_ = false;
    copy_table(config.blackouts, blackouts_, blackout_count_, allocator);
    copy_table(config.script, script_, script_count_, allocator);
    // Not stable, so compare whole steps: the order of equal ones must not matter.
    std::sort(script_, script_ + script_count_, [](const ScriptStep& a, const ScriptStep& b) {
        return a.packet != b.packet ? a.packet < b.packet : a.action != b.action ? a.action < b.action : a.value < b.value;
    });
}

void Link::open(u64 key) {
    THRONG_ASSERT(!staged_.head && !flight_.head && !held_.head && !sheet_);
    sheets_bytes_before_ = 0;
    key_ = key;
    packets_ = 0;
    busy_until_ns_ = 0;
    ordered_us_ = 0;
    ordered_sent_ = ordered_next_ = 0;
    for (Queue& queue : queues_)
        queue = {};
    in_burst_ = false;
    counters_ = {};
}

void Link::release_tables(Allocator allocator) {
    copy_table({}, blackouts_, blackout_count_, allocator);
    copy_table({}, script_, script_count_, allocator);
}

SendResult Link::refuse() {
    ++counters_.refused;
    return SendResult::refused;
}

bool Link::fits(Channel channel, u32 size_bytes, const ChannelLimits& limits) const {
    const Queue& queue = queues_[static_cast<u32>(channel)];
    return queue.messages < limits.queue_messages_max && size_bytes <= limits.queue_bytes_max - queue.bytes;
}

SendResult Link::send(MessagePool& pool, u32 hint, Channel channel, Bytes message, const ChannelLimits& limits) {
    const u32 size_bytes = static_cast<u32>(message.size());
    if (!fits(channel, size_bytes, limits))
        return refuse();
    const bool shares = channel == Channel::unreliable && MessagePool::message_bytes(size_bytes) <= MessagePool::shared_bytes_max;
    if (shares)
        make_room(pool, hint, size_bytes);
    Message* copy = shares ? add_to_sheet(size_bytes) : alone(pool, hint, size_bytes);
    if (size_bytes)
        std::memcpy(copy->data(), message.data(), size_bytes);
    stage(copy, channel);
    return SendResult::accepted;
}

std::span<std::byte> Link::room_in_place(MessagePool& pool, u32 hint, u32 size_bytes) {
    if (MessagePool::message_bytes(size_bytes) > MessagePool::shared_bytes_max)
        return {};
    make_room(pool, hint, size_bytes);
    return {MessagePool::next_data(*sheet_), size_bytes};
}

SendResult Link::send_in_place(u32 size_bytes, const ChannelLimits& limits) {
    THRONG_ASSERT(sheet_ && MessagePool::message_bytes(size_bytes) <= sheet_->capacity_bytes - sheet_->used_bytes);
    if (!fits(Channel::unreliable, size_bytes, limits))
        return refuse();
    stage(add_to_sheet(size_bytes), Channel::unreliable);
    return SendResult::accepted;
}

/// On the link's sheet, for its next message.
void Link::make_room(MessagePool& pool, u32 hint, u32 size_bytes) {
    const u32 bytes = MessagePool::message_bytes(size_bytes);
    if (sheet_ && sheet_->capacity_bytes - sheet_->used_bytes >= bytes)
        return;
    close_sheet(pool, hint);
    // As much as last time, and a little more.
    const u32 expected = sheets_bytes_before_ + sheets_bytes_before_ / 8;
    const u32 wanted = expected > sheets_bytes_ ? std::min(expected - sheets_bytes_, MessagePool::shared_bytes_max) : 0;
    sheet_ = pool.acquire(hint, std::max(wanted, bytes), bytes);
}

Message* Link::add_to_sheet(u32 size_bytes) {
    Message* message = MessagePool::add(*sheet_, size_bytes);
    const u32 bytes = MessagePool::message_bytes(size_bytes);
    sheets_bytes_ += bytes;
    // The next one, most likely as long: the sheet is cold.
    const std::byte* const next = reinterpret_cast<const std::byte*>(message) + bytes;
    const u32 left = sheet_->capacity_bytes - sheet_->used_bytes;
    for (u32 byte = 0; byte < std::min(bytes, left); byte += 64)
        detail::prefetch_write(next + byte);
    return message;
}

void Link::close_sheet(MessagePool& pool, u32 hint) {
    if (sheet_)
        pool.release(hint, std::exchange(sheet_, nullptr));
}

/// Messages are cold again when they depart, and a list shows only the next one, so each also tells of one further on.
void Link::stage(Message* message, Channel channel) {
    message->channel = channel;
    message->attempt = 0;
    message->waiting = false;
    message->damaged = false;
    message->queued_bytes = message->size_bytes;
    message->sequence = channel == Channel::ordered ? ordered_sent_++ : 0;
    Queue& queue = queues_[static_cast<u32>(channel)];
    queue.bytes += message->size_bytes;
    ++queue.messages;
    Message*& earlier = staged_last_[staged_count_ % depart_ahead];
    if (staged_count_ >= depart_ahead)
        earlier->prev = message;
    earlier = message;
    ++staged_count_;
    (staged_.tail ? staged_.tail->next : staged_.head) = message;
    staged_.tail = message;
}

void Link::depart(const LinkContext& context, TimeUs now_us) {
    if (staged_.head && flight_.tail)
        detail::prefetch_write(flight_.tail);
    close_sheet(context.pool, context.client);
    sheets_bytes_before_ = std::exchange(sheets_bytes_, 0);
    staged_count_ = 0;
    Message* message = std::exchange(staged_, {}).head;
    for (Message* next = nullptr; message; message = next) {
        next = message->next;
        if (message->prev)
            detail::prefetch_write(message->prev);
        message->packet = packets_++;
        ++counters_.in_flight;
        if (message->channel == Channel::unreliable) {
            Queue& queue = queues_[static_cast<u32>(Channel::unreliable)];
            queue.bytes -= message->size_bytes;
            --queue.messages;
        }
        count(context, Fate::sent, now_us, message);
        transmit(context, message, now_us, now_us);
    }
}

// Every draw is a function of the link's key, the packet's number, how often it was lost and the stream, so that no fault
// shifts the randomness of another.
u32 Link::draw(const Message* message, u32 stream) const {
    const u64 packet_key = mix64(key_ + (message->packet + 1) * 0x9e3779b97f4a7c15u);
    return static_cast<u32>(mix64(packet_key + (u64(message->attempt) * streams_per_attempt + stream + 1) * 0xd1342543de82ef95u) >> 33);
}

u32 Link::draw_below(const Message* message, u32 stream, u32 bound) const {
    return static_cast<u32>(u64(draw(message, stream)) * bound >> 31);
}

const Blackout* Link::blackout_at(TimeUs time_us) const {
    for (u32 i = 0; i < blackout_count_; ++i)
        if (time_us >= blackouts_[i].from_us && time_us < blackouts_[i].until_us)
            return &blackouts_[i];
    return nullptr;
}

/// One transmission at `time_us` (<= now_us). The message ends up in flight, waiting for its next departure, or released.
void Link::transmit(const LinkContext& context, Message* message, TimeUs time_us, TimeUs now_us) {
    const bool unreliable = message->channel == Channel::unreliable;
    if (unreliable && counters_.in_flight > context.in_flight_max)
        return lose(context, message, Fate::overflowed, time_us, now_us, 0);

    TimeUs leave_us = time_us;
    if (model_.rate_bytes_per_s) {
        const u64 time_ns = time_us * 1000;
        const u64 free_ns = std::max(busy_until_ns_, time_ns);
        const u64 packet_ns =
            (u64(message->size_bytes) + model_.packet_overhead_bytes) * 1'000'000'000 / model_.rate_bytes_per_s;
        // Reliable kinds pace themselves: they wait in their own queue, whose limit is checked at send.
        if (unreliable && free_ns - time_ns + packet_ns > model_.queue_ns_max)
            return lose(context, message, Fate::rate_dropped, time_us, now_us, 0);
        busy_until_ns_ = free_ns + packet_ns;
        leave_us = (busy_until_ns_ + 999) / 1000;
    }

    ScriptEffects script;
    if (message->attempt == 0)
        for (const ScriptStep* step = script_at(message->packet); step; step = script_after(step)) {
            switch (step->action) {
            case ScriptAction::drop: script.drop = true; break;
            case ScriptAction::delay: script.delay_us += step->value; break;
            case ScriptAction::duplicate: break; // below, when the packet is known to arrive
            case ScriptAction::truncate: script.kept_bytes = std::min(script.kept_bytes, step->value); break;
            case ScriptAction::corrupt: script.corrupt = true; break;
            }
        }

    // The burst state moves with every packet, whatever else happens to it.
    if (model_.burst_enter)
        in_burst_ = draw(message, stream_burst_move) < (in_burst_ ? LinkModel::certain - model_.burst_leave : model_.burst_enter);
    if (script.drop)
        return lose(context, message, Fate::lost, leave_us, now_us, 0);
    if (const Blackout* blackout = blackout_at(leave_us))
        return lose(context, message, Fate::blacked_out, leave_us, now_us, blackout->until_us);
    if (in_burst_ && draw(message, stream_burst_loss) < model_.burst_loss)
        return lose(context, message, Fate::burst, leave_us, now_us, 0);
    if (model_.loss && draw(message, stream_loss) < model_.loss)
        return lose(context, message, Fate::lost, leave_us, now_us, model_.loss == LinkModel::certain ? ~TimeUs(0) : 0);

    const Damage damage = plan_damage(message, script);
    if (damage.truncate || damage.corrupt) {
        if (!unreliable && !context.raw) // the receiver's check fails: nothing arrives, and our bytes must stay whole
            return lose(context, message, damage.corrupt ? Fate::corrupted : Fate::truncated, leave_us, now_us, 0);
        apply_damage(context, message, damage, leave_us);
    }

    TimeUs arrival_us = leave_us + model_.delay_us + script.delay_us;
    const TimeUs copy_base_us = arrival_us;
    if (model_.jitter_us)
        arrival_us += draw_below(message, stream_jitter, model_.jitter_us + 1);
    if (model_.reorder && draw(message, stream_reorder) < model_.reorder) {
        arrival_us += model_.reorder_extra_us;
        count(context, Fate::reordered, leave_us, message);
    }
    take_off(message, arrival_us);
    if (!unreliable)
        return; // the receiver drops copies of reliable messages by their number
    if (model_.duplicate && draw(message, stream_duplicate) < model_.duplicate) {
        const u32 jitter_us = model_.jitter_us ? draw_below(message, stream_duplicate_jitter, model_.jitter_us + 1) : 0;
        duplicate(context, message, leave_us, copy_base_us + jitter_us);
    }
    for (const ScriptStep* step = script_at(message->packet); step; step = script_after(step))
        if (step->action == ScriptAction::duplicate)
            duplicate(context, message, leave_us, arrival_us + step->value);
}

/// A transmission does not arrive. Repeats before `until_us` would not arrive either and are skipped, as far as `now_us`:
/// later the link may have another model.
void Link::lose(const LinkContext& context, Message* message, Fate fate, TimeUs time_us, TimeUs now_us, TimeUs until_us) {
    ++counters_.lost;
    count(context, fate, time_us, message);
    if (message->channel == Channel::unreliable) {
        --counters_.in_flight;
        context.pool.release(context.client, message);
        return;
    }
    ++message->attempt;
    ++counters_.retransmitted;
    message->waiting = true;
    u64 rounds = 1;
    if (until_us > time_us && now_us > time_us)
        rounds = std::min((until_us - time_us - 1) / context.retry_us, (now_us - time_us) / context.retry_us) + 1;
    take_off(message, time_us + rounds * context.retry_us);
}

void Link::duplicate(const LinkContext& context, Message* message, TimeUs time_us, TimeUs arrival_us) {
    if (counters_.in_flight >= context.in_flight_max)
        return; // a copy is no promise
    Message* copy = alone(context.pool, context.client, message->size_bytes);
    copy->packet = message->packet;
    copy->checksum = message->checksum;
    copy->attempt = 0;
    copy->sequence = 0;
    copy->channel = message->channel;
    copy->waiting = false;
    copy->damaged = message->damaged;
    copy->queued_bytes = 0;
    if (message->size_bytes)
        std::memcpy(copy->data(), message->data(), message->size_bytes);
    ++counters_.in_flight;
    count(context, Fate::duplicated, time_us, copy);
    take_off(copy, arrival_us);
}

void Link::take_off(Message* message, TimeUs event_us) {
    message->event_us = event_us;
    // From the back: nearly all packets arrive after those before them. Costs one step per packet overtaken.
    Message* position = flight_.tail;
    while (position && (position->event_us > event_us || (position->event_us == event_us && position->packet > message->packet)))
        position = position->prev;
    flight_.insert_after(position, message);
}

Link::Damage Link::plan_damage(const Message* message, const ScriptEffects& script) const {
    Damage damage;
    damage.kept_bytes = std::min(message->size_bytes, script.kept_bytes);
    damage.truncate = damage.kept_bytes < message->size_bytes;
    if (model_.truncate && draw(message, stream_truncate) < model_.truncate) {
        damage.truncate = true; // of an empty message, the frame itself is cut
        damage.kept_bytes = std::min(damage.kept_bytes, draw_below(message, stream_truncate_at, message->size_bytes));
    }
    damage.corrupt = script.corrupt || (model_.corrupt && draw(message, stream_corrupt) < model_.corrupt);
    return damage;
}

/// A checksum over an undamaged frame cannot fail. So it is computed here, over the bytes before the damage, and not for
/// every frame.
void Link::apply_damage(const LinkContext& context, Message* message, const Damage& damage, TimeUs time_us) {
    message->damaged = true;
    message->checksum = checksum_of(message);
    if (message->size_bytes == 0)
        message->checksum = ~message->checksum; // the checksum is all there is to hit
    if (damage.corrupt) {
        // One byte in each of up to four equal parts, so that no change undoes another.
        const u32 parts = std::min(message->size_bytes, 1 + draw_below(message, stream_corrupt_at, corrupt_bytes_max));
        for (u32 i = 0; i < parts; ++i) {
            const u32 begin = static_cast<u32>(u64(message->size_bytes) * i / parts);
            const u32 end = static_cast<u32>(u64(message->size_bytes) * (i + 1) / parts);
            const u32 at = begin + draw_below(message, stream_corrupt_at + 1 + 2 * i, end - begin);
            message->data()[at] ^= static_cast<std::byte>(1 + draw_below(message, stream_corrupt_at + 2 + 2 * i, 255));
        }
        count(context, Fate::corrupted, time_us, message);
    }
    if (damage.truncate) {
        message->size_bytes = damage.kept_bytes;
        count(context, Fate::truncated, time_us, message);
    }
}

Message* Link::next_arrival(const LinkContext& context, TimeUs now_us) {
    for (;;) {
        if (held_.head && held_.head->sequence == ordered_next_) {
            held_.head->event_us = ordered_us_;
            return hand_over(context, held_.pop_front());
        }
        if (!flight_.head || flight_.head->event_us > now_us)
            return nullptr;
        Message* message = flight_.pop_front();
        if (message->waiting) {
            message->waiting = false;
            trace(context, Fate::retransmitted, message->event_us, message);
            transmit(context, message, message->event_us, now_us);
        } else if (message->damaged && !context.raw && checksum_of(message) != message->checksum) {
            ++counters_.lost;
            --counters_.in_flight;
            context.pool.release(context.client, message);
        } else if (message->channel == Channel::ordered && message->sequence != ordered_next_) {
            Message* position = held_.tail;
            while (position && static_cast<i32>(position->sequence - message->sequence) > 0)
                position = position->prev;
            held_.insert_after(position, message);
        } else {
            return hand_over(context, message);
        }
    }
}

Message* Link::hand_over(const LinkContext& context, Message* message) {
    if (message->channel == Channel::ordered) {
        ++ordered_next_;
        ordered_us_ = message->event_us;
    }
    if (message->channel != Channel::unreliable) {
        Queue& queue = queues_[static_cast<u32>(message->channel)];
        queue.bytes -= message->queued_bytes;
        --queue.messages;
    }
    --counters_.in_flight;
    count(context, Fate::delivered, message->event_us, message);
    return message;
}

void Link::discard(const LinkContext& context) {
    close_sheet(context.pool, context.client);
    sheets_bytes_ = 0;
    staged_count_ = 0;
    for (Message* message = std::exchange(staged_, {}).head; message;)
        context.pool.release(context.client, std::exchange(message, message->next));
    for (List* list : {&flight_, &held_})
        while (list->head) {
            Message* message = list->pop_front();
            --counters_.in_flight;
            count(context, Fate::discarded, message->event_us, message);
            context.pool.release(context.client, message);
        }
}

void Link::trace(const LinkContext& context, Fate fate, TimeUs time_us, Message* message) {
    if (context.trace.record)
        context.trace.record(context.trace.context, TraceRecord{time_us, context.client, context.direction, message->channel, fate,
                                                                message->packet, message->bytes()});
}

void Link::count(const LinkContext& context, Fate fate, TimeUs time_us, Message* message) {
    switch (fate) {
    case Fate::delivered:
        ++counters_.delivered;
        counters_.delivered_bytes += message->size_bytes;
        break;
    case Fate::sent:
        ++counters_.sent;
        counters_.sent_bytes += message->size_bytes;
        break;
    case Fate::lost: break; // lose() counts every reason
    case Fate::retransmitted: break; // likewise
    case Fate::burst: ++counters_.burst; break;
    case Fate::blacked_out: ++counters_.blacked_out; break;
    case Fate::rate_dropped: ++counters_.rate_dropped; break;
    case Fate::overflowed: ++counters_.overflowed; break;
    case Fate::truncated: ++counters_.truncated; break;
    case Fate::corrupted: ++counters_.corrupted; break;
    case Fate::discarded: ++counters_.discarded; break;
    case Fate::duplicated: ++counters_.duplicated; break;
    case Fate::reordered: ++counters_.reordered; break;
    }
    trace(context, fate, time_us, message);
}

const ScriptStep* Link::script_at(u64 packet) const {
    const ScriptStep* end = script_ + script_count_;
    const ScriptStep* step = std::lower_bound(static_cast<const ScriptStep*>(script_), end, packet,
                                              [](const ScriptStep& s, u64 p) { return s.packet < p; });
    return step != end && step->packet == packet ? step : nullptr;
}

const ScriptStep* Link::script_after(const ScriptStep* step) const {
    const ScriptStep* next = step + 1;
    return next != script_ + script_count_ && next->packet == step->packet ? next : nullptr;
}

} // namespace throng::transport
