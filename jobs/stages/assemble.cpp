// Assemble: private headers and shared payloads become messages of at most one packet. What a client may hold (known) and what is unsent
// (pending) change here only, and only for what the backend accepted (R13).
#include "jobs/stages/stages.hpp"
#include "src/base/seeded_bug.hpp"
#include "src/registry/message.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

namespace throng {
namespace {

class Assembler {
public:
    Assembler(ServerState& state, ClientState& client, ClientId id, WorkerState& worker)
        : state_(state), client_(client), id_(id), worker_(worker) {
        worker_.message.resize(std::max<u32>(state.message_bytes, 64));
        worker_.lanes.clear();
    }
    /// Nothing to say, and no heartbeat due.
    static bool rests(const ServerState& state, const ClientState& client);
    void run();

private:
    static bool heartbeat_due(const ServerState& state, const ClientState& client);
    bool add(const Send& send, const Part* part, u64 gone, bool shared);
    bool oversize(const Send& send, const Part& part, u64 gone, bool shared);
    [[gnu::always_inline]] inline void tally(const Send& send, const Part* part, u64 gone, u32 bytes, bool shared);
    [[gnu::noinline]] bool add_parts(const Send& send, bool shared);
    void prefetch_ahead(u32 i) const;
    u32 write_header(std::byte* out, bool ends = false) const;
    void open_message();
    bool close_open() { return close(Channel::unreliable, open_.first(used_)); }
    bool close(Channel channel, Bytes message, bool ends = false);
    bool send_ends();
    bool has_record() const {
        return client_.next_message - client_.oldest_message < state_.config.records_max || client_.records.empty() || oldest_may_go();
    }
    [[gnu::cold, gnu::noinline]] bool oldest_may_go() const;
    MessageRecord& new_record();
    template <class T>
    void grow(Array<T>& ring, u32 size, u32 from, u32 to) const;
    u32 oldest_section() const;
    void reserve_rings(u32 messages, u32 sections);
    void count_sent();
    void correct_sent_lanes();

    ServerState& state_;
    ClientState& client_;
    ClientId id_;
    WorkerState& worker_;
    std::span<std::byte> open_; // where the open message is written
    bool in_place_ = false;     // the backend's memory
    bool waits_ = false;        // something has, for the Ordered channel
    u32 used_ = 0;              // bytes of the open message; 0: none is open
    u32 last_chunk_ = 0;
    struct Tally { // of the open message, counted once it is accepted
        u64 payload = 0, shared = 0, zstd = 0, full_lanes = 0, delta_sections = 0, baseline_ages = 0, ends = 0;
        WorkerState::FullPayloads full;
    } tally_;
    ClientTraffic sent_; // in this tick
};

u32 Assembler::write_header(std::byte* out, bool ends) const {
    StateHeader header;
    header.ends = ends;
    header.id = static_cast<u16>(client_.next_message);
    header.tick = state_.tick;
    const u32 age = state_.tick - client_.settled_tick;
    header.settled_age = client_.ever_settled && age < 255 ? static_cast<u8>(age) : u8(255);
    header.hash_wanted = client_.hash_wanted && client_.settled_tick == client_.hash_tick;
    header.userdata = {state_.userdata.data(), state_.userdata.size()};
    return write_state_header(out, header);
}

template <class T>
void Assembler::grow(Array<T>& ring, u32 size, u32 from, u32 to) const {
    const u32 old = ring.size();
    Array<T> bigger(state_.config.allocator);
    bigger.resize(size);
    for (u32 i = from; i != to; ++i)
        bigger[i & (size - 1)] = ring[i & (old - 1)];
    ring = std::move(bigger);
}

u32 Assembler::oldest_section() const {
    return client_.oldest_message == client_.next_message ? client_.next_section
                                                          : client_.records[client_.oldest_message & (client_.records.size() - 1)].first;
}

/// A lost message is kept for two timeouts, and all after it with it. Room for that many ticks like the last two is made at once, so
/// that a loss in a steady game, however late the first one comes, finds it there. (One tick may be a burst: a join.)
void Assembler::reserve_rings(u32 messages, u32 sections) {
    const u32 ticks = 2 * static_cast<u32>(loss_timeout(state_, client_)) + 2;
    const u32 records_wanted = std::min(std::bit_ceil(std::min(messages, client_.tick_messages) * ticks), state_.config.records_max);
    const u32 sections_wanted = std::bit_ceil(std::min(sections, client_.tick_sections) * ticks);
    if (records_wanted > client_.records.size())
        grow(client_.records, records_wanted, client_.oldest_message, client_.next_message);
    if (sections_wanted > client_.sections.size())
        grow(client_.sections, sections_wanted, oldest_section(), client_.next_section);
    client_.tick_messages = messages;
    client_.tick_sections = sections;
}

/// There is room for one more message in flight only if the oldest one is given up. One that is so young that its ack is to be expected
/// is not: else of many messages a tick none would ever be acknowledged.
bool Assembler::oldest_may_go() const {
    const MessageRecord& oldest = client_.records[client_.oldest_message & (client_.records.size() - 1)];
    return oldest.state != record_in_flight || static_cast<i32>(state_.tick - oldest.tick) > loss_timeout(state_, client_);
}

/// The next record of the ring; the ring grows to records_max, then the oldest message counts as lost.
MessageRecord& Assembler::new_record() {
    if (client_.next_message - client_.oldest_message == client_.records.size()) {
        if (client_.records.size() < state_.config.records_max)
            grow(client_.records, client_.records.size() * 2, client_.oldest_message, client_.next_message);
        else {
            give_up_oldest(state_, client_, worker_.counts);
            worker_.counts.limits |= limit_records;
        }
    }
    const u32 needed = worker_.lanes.size();
    while (client_.next_section - oldest_section() + needed > client_.sections.size())
        grow(client_.sections, client_.sections.size() * 2, oldest_section(), client_.next_section);
    MessageRecord& record = client_.records[client_.next_message & (client_.records.size() - 1)];
    record.tick = state_.tick;
    record.first = client_.next_section;
    record.count = static_cast<u16>(needed);
    record.state = record_in_flight;
    return record;
}

/// A client that gets several packets a tick has them written into the backend's memory: one copy less. A single, shorter one would take
/// a packet's room of it, and is copied.
void Assembler::open_message() {
    open_ = worker_.message;
    if (client_.tick_messages > 1)
        if (const std::span<std::byte> room = state_.backend.room_in_place(id_, static_cast<u32>(open_.size())); !room.empty()) {
            open_ = room;
            in_place_ = true;
        }
    used_ = write_header(open_.data());
}

/// Hands the open message to the backend and, if it is accepted, applies what it carries to the client's state.
bool Assembler::close(Channel channel, Bytes message, bool ends) {
    used_ = 0;
    last_chunk_ = 0;
    const bool state = ends || worker_.lanes.size() != 0, in_place = std::exchange(in_place_, false);
    const bool recorded = has_record();
    if (!recorded || (in_place ? state_.backend.send_in_place(id_, static_cast<u32>(message.size()))
                               : state_.backend.send(id_, channel, message)) != SendResult::accepted) [[unlikely]] {
        worker_.counts.limits |= recorded ? limit_backend_refused : limit_records;
        if (state) { // all of it stays pending
            client_.attention = true;
            client_.clean = false;
        }
        worker_.lanes.clear();
        tally_ = {};
        return false;
    }
    const bool reliable = channel != Channel::unreliable;
    new_record().reliable = reliable;
    if (reliable) [[unlikely]]
        ++client_.ordered_in_flight;
    u32 pairs = 0, gone_lanes = 0;
    const Tick tick = state_.tick;
    SectionRecord* const ring = client_.sections.data();
    const u32 ring_mask = client_.sections.size() - 1;
    u32 next_section = client_.next_section;
    for (const WorkerState::InMessage& in : worker_.lanes) {
        ClientChunk& view = client_.chunks[in.client_chunk];
        // Plan has left no lane in that the client has acknowledged, so each is a pair.
        THRONG_ASSERT_SLOW((in.lanes & ~(~view.known | unacked(client_, view, state_.mirror.chunk(view.chunk), state_.tick))) == 0);
        pairs += static_cast<u32>(std::popcount(in.lanes));
        gone_lanes += static_cast<u32>(std::popcount(in.gone));
        view.limbo |= in.lanes & ~view.known;
        view.known |= in.lanes;
        view.pending &= ~(in.lanes | in.gone);
        view.sent_tick = tick;
        view.sent_bytes += in.bytes;
        if (seeded_bug(SeededBug::lost_gone)) {
            view.known &= ~in.gone;
            view.limbo &= ~in.gone;
        }
        ++view.in_flight;
        ring[next_section++ & ring_mask] = {view.chunk, in.client_chunk, in.lanes | in.gone};
    }
    client_.next_section = next_section;
    ++client_.next_message;
    client_.last_sent_tick = tick;
    client_.hash_wanted = false;
    const u32 bytes = static_cast<u32>(message.size());
    if (state) {
        ++sent_.messages;
        sent_.bytes += bytes;
        sent_.sections += worker_.lanes.size();
        sent_.payload_bytes += tally_.payload;
        sent_.delta_sections += tally_.delta_sections;
        sent_.baseline_age_sum += tally_.baseline_ages;
        sent_.lanes += pairs;
        sent_.full_lanes += tally_.full_lanes;
        sent_.gone_lanes += gone_lanes;
        sent_.ends += tally_.ends;
        worker_.counts.shared_bytes += tally_.shared;
        worker_.counts.zstd_bytes += tally_.zstd;
        worker_.full_payloads.sent += tally_.full.sent;
        worker_.full_payloads.packed += tally_.full.packed;
        client_.clean = false;
    } else {
        ++sent_.heartbeats;
        sent_.heartbeat_bytes += bytes;
    }
    tally_ = {};
    worker_.lanes.clear();
    return true;
}

/// Says which Lasting entities are no more, in messages of their own. Returns false when the backend refuses.
bool Assembler::send_ends() {
    while (client_.ends_unsent) {
        std::byte* const out = worker_.message.data();
        u32 used = write_header(out, true);
        const u32 message = client_.next_message;
        client_.lasting.send_ends((worker_.message.size() - used) / 8, message, [&](NetId id) {
            std::memcpy(out + used, &id.value, 8); // little-endian hosts only
            used += 8;
            ++tally_.ends;
        });
        const bool accepted = close(Channel::unreliable, {out, used}, true);
        if (!accepted)
            client_.lasting.lost(message);
        client_.ends_unsent = client_.lasting.unsent_ends() > 0;
        if (!accepted)
            return false;
    }
    return true;
}

/// A section goes into the open message.
inline void Assembler::tally(const Send& send, const Part* part, u64 gone, u32 bytes, bool shared) {
    worker_.lanes.push_back({send.client_chunk, bytes, part ? part->lanes : 0, gone});
    if (!part)
        return;
    const Key& key = *send.key;
    tally_.payload += part->bytes;
    tally_.shared += shared ? part->bytes : 0;
    tally_.zstd += key.zstd ? part->bytes : 0;
    if (key.full) {
        tally_.full_lanes += static_cast<u32>(std::popcount(part->lanes));
        tally_.full.sent += part->bytes;
        tally_.full.packed += part->packed_bytes;
    } else {
        ++tally_.delta_sections;
        tally_.baseline_ages += state_.tick - key.baseline;
    }
}

/// Adds one section. Returns false when the backend refuses.
bool Assembler::add(const Send& send, const Part* part, u64 gone, bool shared) {
    const ClientChunk& view = client_.chunks[send.client_chunk];
    const u32 payload = part ? part->bytes : 0;
    if (part && payload > state_.payload_bytes)
        return oversize(send, *part, gone, shared);
    if (used_ && used_ + section_header_bytes_max + payload > open_.size() && !close_open())
        return false;
    if (!used_)
        open_message();
    std::byte* out = open_.data();
    const u32 head = write_section_header(out + used_, view.chunk - last_chunk_, payload, gone);
    last_chunk_ = view.chunk;
    tally(send, part, gone, head + payload, shared);
    out += used_ + head;
    used_ += head + payload;
    if (part)
        std::memcpy(out, part->data, payload);
    return true;
}

/// A lane larger than a packet: a message of its own on the Ordered channel. While the channel is busy, it stays unsent.
bool Assembler::oversize(const Send& send, const Part& part, u64 gone, bool shared) {
    if (client_.ordered_in_flight >= client_.ordered_window) {
        waits_ = client_.attention = true;
        client_.clean = false;
        return true;
    }
    if (used_ && !close_open())
        return false;
    const u32 normal = worker_.message.size();
    worker_.message.resize(header_bytes(state_.userdata.size()) + section_header_bytes_max + part.bytes);
    std::byte* out = worker_.message.data();
    const u32 start = write_header(out);
    const u32 head = write_section_header(out + start, client_.chunks[send.client_chunk].chunk, part.bytes, gone);
    std::memcpy(out + start + head, part.data, part.bytes);
    tally(send, &part, gone, head + part.bytes, shared);
    const bool accepted = close(Channel::ordered, {out, start + head + part.bytes});
    worker_.message.resize(normal);
    return accepted;
}

/// Keys and payloads were written in another order, perhaps by other workers.
void Assembler::prefetch_ahead(u32 i) const {
    const auto key_at = [&](u32 index) { return index < client_.sends.size() ? client_.sends[index].key : nullptr; };
    if (const Key* later = key_at(i + 6))
        detail::prefetch(later);
    if (const Key* next = key_at(i + 3))
        for (u32 byte = 0; byte < std::min(next->first.bytes, 256u); byte += 64)
            detail::prefetch(next->first.data + byte);
}

bool Assembler::heartbeat_due(const ServerState& state, const ClientState& client) {
    const u32 heartbeat = state.config.heartbeat_ticks;
    return (heartbeat && state.tick - client.last_sent_tick >= heartbeat) || client.tick_wanted ||
           (client.hash_wanted && client.settled_tick == client.hash_tick);
}

bool Assembler::rests(const ServerState& state, const ClientState& client) {
    return !client.sending && !client.ends_unsent && client.tick_messages == 0 && !heartbeat_due(state, client);
}

void Assembler::run() {
    const u32 first_message = client_.next_message, first_section = client_.next_section;
    bool open = !client_.ends_unsent || send_ends();
    for (u32 i = 0; open && i < client_.sends.size(); ++i) {
        prefetch_ahead(i);
        const Send& send = client_.sends[i];
        if (!send.key) {
            open = add(send, nullptr, send.gone, false);
            continue;
        }
        const Key& key = *send.key;
        const bool shared = key.shared.load(std::memory_order_relaxed);
        u64 gone = send.gone;
        if (key.part_count == 0 && gone)
            open = add(send, nullptr, gone, false);
        if (gone && key.part_count > 1 && state_.relations.used()) [[unlikely]]
            open = add_parts(send, shared);
        else
            for (u32 p = 0; open && p < key.part_count; ++p, gone = 0)
                open = add(send, &key.parts[p], gone, shared);
    }
    if (open && used_)
        open = close_open();
    if (!open)
        client_.attention = true;
    if (!open || waits_ || state_.any_oversize)
        correct_sent_lanes();
    client_.tokens -= static_cast<i32>(sent_.bytes * 16);
    reserve_rings(client_.next_message - first_message, client_.next_section - first_section);
    const bool due = heartbeat_due(state_, client_);
    client_.tick_wanted = false;
    if (open && client_.last_sent_tick != state_.tick && due)
        close(Channel::unreliable, {worker_.message.data(), write_header(worker_.message.data())});
    count_sent();
}

/// Parts of a payload, each with the gone lanes of its clusters; the first one also with those of no other part.
bool Assembler::add_parts(const Send& send, bool shared) {
    const Key& key = *send.key;
    const ChunkClusters* const clusters = state_.mirror.chunk(key.chunk).clusters;
    u64 with_part[lane_count] = {}, others = 0;
    for (u32 p = 1; clusters && p < key.part_count; ++p) {
        with_part[p] = send.gone & together(*clusters, key.parts[p].lanes);
        others |= with_part[p];
    }
    with_part[0] = send.gone & ~others;
    bool open = true;
    for (u32 p = 0; open && p < key.part_count; ++p)
        open = add(send, &key.parts[p], with_part[p], shared);
    return open;
}

/// Not all that was planned has gone: the rest is still unsent.
void Assembler::correct_sent_lanes() {
    for (const Send& send : client_.sends) {
        ClientChunk& view = client_.chunks[send.client_chunk];
        view.sent_lanes &= view.known & ~view.pending;
    }
}

/// Once a client, not once a section.
void Assembler::count_sent() {
    TickReport& counts = worker_.counts;
    counts.messages += sent_.messages;
    counts.bytes += sent_.bytes;
    counts.payload_bytes += sent_.payload_bytes;
    counts.delta_sections += sent_.delta_sections;
    counts.baseline_age_sum += sent_.baseline_age_sum;
    counts.pairs += sent_.lanes;
    counts.sent_lanes += sent_.lanes + sent_.gone_lanes;
    counts.sent_full_lanes += sent_.full_lanes;
    counts.gone_lanes += sent_.gone_lanes;
    counts.heartbeats += sent_.heartbeats;
    counts.heartbeat_bytes += sent_.heartbeat_bytes;
    counts.client_bytes_max = std::max(counts.client_bytes_max, static_cast<u32>(sent_.bytes));
    if (sent_.messages + sent_.heartbeats)
        state_.traffic(client_) += sent_;
}

/// The ends of the next client's rings, of which one was read and the other written ticks ago.
void prefetch_rings(const ServerState& state, u32 id, u32 end) {
    if (id + 1 >= end || !state.clients[id + 1].records.size() || !state.clients[id + 1].sections.size())
        return;
    const ClientState& client = state.clients[id + 1];
    const u32 mask = client.records.size() - 1;
    detail::prefetch(&client.records[client.oldest_message & mask]);
    detail::prefetch_write(&client.records[client.next_message & mask]);
    for (u32 byte = 0; byte < client.sends.size() * sizeof(Send) && byte < 2048; byte += 64)
        detail::prefetch(reinterpret_cast<const std::byte*>(client.sends.data()) + byte);
    prefetch_sections(client, client.next_section, client.tick_sections);
}

} // namespace

void run_assemble_stage(ServerState& state) {
    const bool any_typed = !state.outbox.messages.empty() || state.any_backlog;
    parallel_stage(state, Stage::assemble, state.clients.size(), client_grain(state), [&](u32 begin, u32 end, WorkerState& worker, u32) {
        for (u32 id = begin; id < end; ++id) {
            if (state.any_dirty) {
                prefetch_clients(state.clients, id, end);
                prefetch_rings(state, id, end);
            }
            ClientState& client = state.clients[id];
            if (any_typed)
                send_typed(state, client, id, worker);
            if (client.joined && !Assembler::rests(state, client))
                Assembler(state, client, id, worker).run();
        }
    });
}

} // namespace throng
