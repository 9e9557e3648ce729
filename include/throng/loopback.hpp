#pragma once
// A server and its clients in one process, joined by simulated links. Every link has a model of faults, a generator of its
// own and runs in virtual time (the `now` of poll and flush), so a run repeats exactly from its seed.
//
// What a link does to its packet number n is a pure function of (seed, client slot, number of connections that the slot has
// had, direction, n) and of the link's own history: never of other links, or of the order in which threads send to
// different clients. Each fault draws from its own stream: switching one on does not move the others.
//
// Thread rule: server().send may be called from several threads at the same time for different clients, and so may the
// calls of different ClientBackends. Calls for one client must not overlap (either half). Everything else, server().poll and
// flush included, must not overlap with any other call on the network. A trace hook runs on the thread that polls or
// flushes: with a hook set, drive the clients from one thread or make the hook thread-safe.
//
// Allocation: a message is copied once, into memory of a pool that all links share; what one link sends between two flushes lies
// together. The pool grows by slabs while what is under way reaches new heights (or see reserve_messages), and is bounded by the limits
// below.
#include "throng/memory.hpp"
#include "throng/transport.hpp"

namespace throng {

enum class Direction : u8 { down /* server to client */, up /* client to server */ };

/// Packets that leave in [from_us, until_us) of virtual time are lost.
struct Blackout {
    TimeUs from_us = 0;
    TimeUs until_us = ~TimeUs(0);
};

enum class ScriptAction : u8 {
    drop,      // loses the first transmission
    delay,     // adds `value` microseconds
    duplicate, // delivers it again, `value` microseconds after the first; unreliable only
    truncate,  // cuts it to its first `value` bytes, if it has more
    corrupt,   // changes some bytes
};
/// What happens to packet number `packet` of a link: messages in departure order over all channels, the first of a connection
/// is 0. Several steps may name the same packet.
struct ScriptStep {
    u64 packet = 0;
    ScriptAction action = ScriptAction::drop;
    u32 value = 0;
};

/// One direction of a connection. The default is a perfect link. Percentages are in [0, 100].
struct LinkConfig {
    double loss_percent = 0; // independent per packet
    // Bursts (Gilbert-Elliott): before each packet the link may enter or leave its bad state, which has a loss of its own.
    double burst_enter_percent = 0;
    double burst_leave_percent = 100;
    double burst_loss_percent = 100;
    u32 delay_us = 0;  // one way; like the next two at most an hour
    u32 jitter_us = 0; // adds a uniform 0..jitter_us, so packets may overtake each other
    double reorder_percent = 0;
    u32 reorder_extra_us = 0;      // added to the packets that reorder_percent picks
    double duplicate_percent = 0;   // delivered twice, each with its own jitter; reliable kinds drop the copy
    double truncate_percent = 0;   // cut: lost by the frame checksum, delivered cut in raw mode
    double corrupt_percent = 0;    // bytes changed: likewise
    u64 rate_bytes_per_s = 0;       // at least 1000; 0 = unlimited
    u32 queue_bytes_max = 65'536;  // waiting for the rate limit; what does not fit is dropped. Reliable kinds wait instead.
    u32 packet_overhead_bytes = 36; // counted against the rate for each packet: IPv4, UDP and a frame checksum of 8 bytes
    u32 mtu_bytes = 0;             // a larger unreliable message is refused at send; 0 = only the network's own limit
    // Both are copied by connect and set_link. They need not be sorted.
    std::span<const Blackout> blackouts = {};
    std::span<const ScriptStep> script = {};
};
/// Name of the first field that is out of range, or null. connect and set_link assert on it; programs check options with it.
const char* invalid_field(const LinkConfig& config);

/// What happened to a message. The first five end a transmission; of lost ones a reliable message is transmitted again.
enum class Fate : u8 {
    delivered,
    lost,         // independent loss, or by script
    burst,        // lost in a burst
    blacked_out,  // lost in a blackout
    rate_dropped, // lost because the queue of the rate limit was full
    overflowed,   // lost because in_flight_messages_max was reached
    truncated,    // cut; lost unless raw (then `delivered` follows)
    corrupted,    // bytes changed; likewise
    discarded,    // under way when the connection ended
    sent,         // departed, once per message, before anything else happens to it
    duplicated,   // a second copy is under way
    reordered,    // held back by reorder_percent
    retransmitted, // a reliable message departs again
};
inline constexpr u32 fate_count = 13;
const char* to_string(Fate fate);

struct TraceRecord {
    TimeUs time_us = 0; // virtual: of departure, of arrival
    ClientId client = 0;
    Direction direction = Direction::down;
    Channel channel = Channel::unreliable;
    Fate fate = Fate::sent;
    u64 packet = 0; // number on this link
    Bytes message;  // valid during the call
};

/// Called in deterministic order: flush walks clients in ascending order and messages in send order; poll in delivery order.
/// It must not call the network.
struct TraceHook {
    void (*record)(void* context, const TraceRecord& record) = nullptr;
    void* context = nullptr;
};

/// Of one link, or summed. Transmissions balance: sent + duplicated + retransmitted == delivered + lost + discarded + in_flight.
struct LinkCounters {
    u64 sent = 0;          // messages that departed
    u64 sent_bytes = 0;    // of those
    u64 delivered = 0;     // messages handed to the receiver, copies included
    u64 delivered_bytes = 0;
    u64 lost = 0;          // transmissions that did not arrive, for any reason, the next four and damage included
    u64 burst = 0;
    u64 blacked_out = 0;
    u64 rate_dropped = 0;
    u64 overflowed = 0;
    u64 truncated = 0;     // also counted as lost, except in raw mode
    u64 corrupted = 0;     // likewise
    u64 duplicated = 0;
    u64 reordered = 0;
    u64 retransmitted = 0; // counted when the transmission before it is lost
    u64 discarded = 0;
    u64 refused = 0;       // sends that returned SendResult::refused on an open connection
    u64 in_flight = 0;     // departed and not yet delivered
    LinkCounters& operator+=(const LinkCounters& other);
    friend bool operator==(const LinkCounters&, const LinkCounters&) = default;
};

/// Of one channel of one direction of one client. For unreliable, what was sent since the last flush; for the reliable kinds,
/// what was sent and is not delivered yet. A message that would exceed either is refused.
struct ChannelLimits {
    u32 queue_bytes_max = 1 << 20;
    u32 queue_messages_max = 1024;
};

inline constexpr u32 loopback_message_bytes_limit = 1 << 20; // most that reliable_bytes_max may be
inline constexpr u32 loopback_retry_us_min = 1000;           // a lost reliable message departs again after one RTT, at least this

struct LoopbackConfig {
    u64 seed = 1;
    u32 client_max = 64;          // connections at a time
    u32 unreliable_bytes_max = 1200; // largest unreliable message: the payload of one packet
    u32 reliable_bytes_max = 65'536; // largest message of the reliable kinds, up to loopback_message_bytes_limit
    ChannelLimits unreliable{1 << 18, 256};
    ChannelLimits unordered = {};
    ChannelLimits ordered = {};
    u32 in_flight_messages_max = 4096; // per link; an unreliable message beyond it is lost (`overflowed`)
    u32 reserve_messages = 0;          // room for so many messages of up to 1536 bytes is made at construction
    bool raw = false;                  // damaged frames are delivered as they are, to feed decoders
    TraceHook trace = {};
    Allocator allocator = default_allocator();
};

class LoopbackNetwork {
public:
    /// Asserts on a limit of 0 and on channel limits that cannot take one message of the largest size.
    explicit LoopbackNetwork(const LoopbackConfig& config);
    LoopbackNetwork(const LoopbackNetwork&) = delete;
    LoopbackNetwork& operator=(const LoopbackNetwork&) = delete;
    ~LoopbackNetwork();

    /// Valid as long as the network. Client calls: poll reports per client in ascending ClientId; for one client first
    /// on_connect, then messages by arrival time (ties in send order). send is refused before on_connect was reported and
    /// once the client has left. disconnect discards what is under way in both directions, and the client's next poll reports
    /// it. A sink may call send and disconnect; it must not poll or flush.
    ServerBackend& server();

    /// Opens a connection in the lowest free slot and returns it. The server is told by its next poll, the client by its own.
    /// Asserts when client_max connections are open. Allocates: once per 64 slots, and for blackouts and scripts.
    ClientId connect(const LinkConfig& down, const LinkConfig& up);
    ClientId connect(const LinkConfig& both = {}) { return connect(both, both); }

    /// The client's half. Valid until the slot is reused. Messages may be sent from connect on; after the server closed the
    /// connection send is refused, and poll reports on_disconnect.
    ClientBackend& client(ClientId client);

    /// The client leaves: both directions are discarded; the server is told by its next poll, unless it has closed the connection
    /// itself or was never told of it. The slot is free once both sides know: after the server's poll, or after a close by
    /// the server and either the client's poll or this call. No effect on a client that has left.
    void disconnect(ClientId client);

    /// Replaces the model of one direction of an open connection; holds for what departs from now on, repeats included.
    /// What is under way keeps its fate. Script packet numbers go on counting. Allocates for blackouts and scripts.
    void set_link(ClientId client, Direction direction, const LinkConfig& config);

    /// What ServerBackend::network_id says of a connection. Without a call it is the ClientId. Asserts when the server has been told of the
    /// connection already, which is when it asks.
    void set_network_id(ClientId client, u64 network_id);

    /// True until the client leaves or the server closes the connection.
    bool connected(ClientId client) const;
    /// One above the highest slot ever used.
    u32 slot_count() const;
    /// Of the slot's present (or last) connection.
    LinkCounters counters(ClientId client, Direction direction) const;
    /// Over all connections so far. Cost: one visit per slot.
    LinkCounters totals(Direction direction) const;
    /// Taken from the allocator: all of it, and the part that holds messages.
    std::size_t memory_bytes() const;
    std::size_t message_memory_bytes() const;

private:
    struct Impl;
    Impl* impl_;
};

/// Digest of what a server sent: XXH3-128 chained over (tick or time, client, channel, message). Equal digests mean equal
/// bytes on every link in the same order.
struct OutputHash {
    u64 low = 0;
    u64 high = 0;
    void add(u64 tick_or_time, ClientId client, Channel channel, Bytes message);
    /// A hook that adds every message the server sends, with its departure time. The hash must outlive the network.
    TraceHook hook();
    friend bool operator==(const OutputHash&, const OutputHash&) = default;
};

} // namespace throng
