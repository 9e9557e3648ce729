#pragma once
// One direction of a connection: what was sent and not flushed, what is under way, and the model that decides the fate of
// each packet.
#include "src/transport/message_pool.hpp"
#include "throng/loopback.hpp"

namespace throng::transport {

/// What a link needs from its network for one call.
struct LinkContext {
    MessagePool& pool;
    TraceHook trace;
    u32 in_flight_max;
    ClientId client;
    Direction direction;
    bool raw;
    u32 retry_us; // from the loss of a reliable message to its next departure
};

/// Mixes all bits of `x` (the finaliser of splitmix64).
constexpr u64 mix64(u64 x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/// A LinkConfig as the model uses it. Probabilities are thresholds for 31-bit draws.
struct LinkModel {
    static constexpr u32 certain = 1u << 31;
    u32 loss = 0;
    u32 burst_enter = 0;
    u32 burst_leave = 0;
    u32 burst_loss = 0;
    u32 reorder = 0;
    u32 duplicate = 0;
    u32 truncate = 0;
    u32 corrupt = 0;
    u32 delay_us = 0;
    u32 jitter_us = 0;
    u32 reorder_extra_us = 0;
    u32 packet_overhead_bytes = 0;
    u64 rate_bytes_per_s = 0;
    u64 queue_ns_max = 0; // time that a full queue takes to drain
};

class alignas(64) Link {
public:
    Link() = default;
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    /// Replaces the model; state and what is under way stay.
    void configure(const LinkConfig& config, Allocator allocator);
    /// Starts a new connection with its own generator. The link must be empty.
    void open(u64 key);
    /// Frees blackouts and script.
    void release_tables(Allocator allocator);

    u32 delay_us() const { return model_.delay_us; }
    u32 mtu_bytes() const { return mtu_bytes_; }
    const LinkCounters& counters() const { return counters_; }

    /// Copies a message behind those sent since the last departure. Refuses by `limits`.
    SendResult send(MessagePool& pool, u32 hint, Channel channel, Bytes message, const ChannelLimits& limits);
    /// As ServerBackend's: room for an unreliable message, and sending what was written there. `size_bytes` within the link's limit.
    std::span<std::byte> room_in_place(MessagePool& pool, u32 hint, u32 size_bytes);
    SendResult send_in_place(u32 size_bytes, const ChannelLimits& limits);
    SendResult refuse();
    /// Everything sent departs, with `now_us` as its time.
    void depart(const LinkContext& context, TimeUs now_us);
    /// Brings what depart looks at into the caches: first the link, then its messages.
    void prefetch() const {
        for (std::size_t byte = 0; byte < sizeof(Link); byte += 64)
            detail::prefetch_write(reinterpret_cast<const std::byte*>(this) + byte);
    }
    void prefetch_staged() const {
        if (staged_.head)
            detail::prefetch_write(staged_.head);
        if (flight_.tail)
            detail::prefetch_write(flight_.tail);
    }
    /// The next message to deliver by `now_us`, unlinked, or null. The caller releases it. Runs the repeats that are due.
    Message* next_arrival(const LinkContext& context, TimeUs now_us);
    /// When next_arrival has something to do; ~0 when nothing is under way.
    TimeUs due_us() const { return flight_.head ? flight_.head->event_us : ~TimeUs(0); }
    /// Drops all messages.
    void discard(const LinkContext& context);
    std::size_t table_bytes() const { return blackout_count_ * sizeof(Blackout) + script_count_ * sizeof(ScriptStep); }

private:
    struct List {
        Message* head = nullptr;
        Message* tail = nullptr;
        void insert_after(Message* position, Message* message); // null position: at the front
        Message* pop_front();
    };
    struct Queue {
        u32 bytes = 0;
        u32 messages = 0;
    };
    struct ScriptEffects {
        bool drop = false;
        bool corrupt = false;
        u32 delay_us = 0;
        u32 kept_bytes = ~0u;
    };
    struct Damage {
        bool truncate = false;
        bool corrupt = false;
        u32 kept_bytes = 0;
    };

    bool fits(Channel channel, u32 size_bytes, const ChannelLimits& limits) const;
    void make_room(MessagePool& pool, u32 hint, u32 size_bytes);
    Message* add_to_sheet(u32 size_bytes);
    void close_sheet(MessagePool& pool, u32 hint);
    void stage(Message* message, Channel channel);
    void transmit(const LinkContext& context, Message* message, TimeUs time_us, TimeUs now_us);
    void lose(const LinkContext& context, Message* message, Fate fate, TimeUs time_us, TimeUs now_us, TimeUs until_us);
    void duplicate(const LinkContext& context, Message* message, TimeUs time_us, TimeUs arrival_us);
    void take_off(Message* message, TimeUs event_us); // into flight_, by time, then packet number
    Damage plan_damage(const Message* message, const ScriptEffects& script) const;
    void apply_damage(const LinkContext& context, Message* message, const Damage& damage, TimeUs time_us);
    Message* hand_over(const LinkContext& context, Message* message);
    u32 draw(const Message* message, u32 stream) const;
    u32 draw_below(const Message* message, u32 stream, u32 bound) const;
    const Blackout* blackout_at(TimeUs time_us) const;
    const ScriptStep* script_at(u64 packet) const;                    // the first step for it, or null
    const ScriptStep* script_after(const ScriptStep* step) const;    // the next one for the same packet, or null
    void trace(const LinkContext& context, Fate fate, TimeUs time_us, Message* message);
    void count(const LinkContext& context, Fate fate, TimeUs time_us, Message* message);

    // What a send touches comes first, in one cache line.
    List staged_; // `prev` of one is the message staged `depart_ahead` later
    Queue queues_[channel_count];
    u32 ordered_sent_ = 0;
    u32 ordered_next_ = 0;
    u32 mtu_bytes_ = 0;
    bool in_burst_ = false;
    u64 packets_ = 0;

    static constexpr u32 depart_ahead = 3;
    Message* staged_last_[depart_ahead] = {}; // a ring
    u32 staged_count_ = 0;
    // What is sent between two departures shares a sheet, as long as it is unreliable: a reliable message may stay for long.
    Sheet* sheet_ = nullptr;
    u32 sheets_bytes_ = 0;        // taken of sheets since the last departure
    u32 sheets_bytes_before_ = 0; // and between the two before
    u64 key_ = 0;
    LinkModel model_;
    u64 busy_until_ns_ = 0; // the rate limit's transmitter
    List flight_;           // by event time, then packet number
    List held_;             // ordered messages that wait for an earlier one, by sequence
    TimeUs ordered_us_ = 0; // arrival of the last ordered message
    Blackout* blackouts_ = nullptr;
    ScriptStep* script_ = nullptr; // by packet
    u32 blackout_count_ = 0;
    u32 script_count_ = 0;
    LinkCounters counters_;
};

} // namespace throng::transport
