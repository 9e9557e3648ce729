// Acks: what clients report as applied moves baselines (R4, R5); what is inferred as lost makes its chunks pending again (R6).
// Runs before this tick's capture, so the mirror still shows the state of the last tick.
#include "jobs/stages/stages.hpp"
#include "src/base/seeded_bug.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <bit>

namespace throng {

ClientChunk* find_client_chunk(ClientState& client, u32 chunk, u32 hint) {
    if (hint < client.chunks.size() && client.chunks[hint].chunk == chunk)
        return &client.chunks[hint];
    ClientChunk* end = client.chunks.end();
    ClientChunk* found = std::lower_bound(client.chunks.begin(), end, chunk, [](const ClientChunk& view, u32 n) { return view.chunk < n; });
    return found != end && found->chunk == chunk ? found : nullptr;
}

namespace {

/// Lanes that have been sent are to be sent again.
[[gnu::cold, gnu::noinline]] void repeat(ClientChunk& view, u64 lanes, TickReport& counts) {
    counts.repeated_lanes += static_cast<u32>(std::popcount(lanes & ~view.pending));
    view.pending |= lanes;
}

/// How long B may be held back because an ack would strand lanes. Without an end, acks of parts could be refused forever.
constexpr i32 held_back_ticks_max = 32;

/// R4: the ack of message tick T that carried `lanes`. `companions()`: lanes that other sections of the same tick and chunk carried;
/// they come out of limbo again when those are acknowledged.
template <class Companions>
void ack_section(const ClientState& client, ClientChunk& view, const Chunk& chunk, Tick tick, u64 lanes, TickReport& counts,
                 Companions&& companions) {
    lanes &= view.known;
    u64 usable = lanes; // lanes that this ack may take out of limbo: not those bound or shown anew after T
    if (const u64 in_limbo = lanes & view.limbo)
        usable &= ~(in_limbo & rebound_since(chunk, tick));
    view.pending |= lanes & ~usable & ~view.visible; // gone, but not for certain the one that is there now: it is said again
    // R2: a lane that is not visible was carried as gone, else it would be blocked.
    const u64 gone = usable & ~view.visible;
    view.known &= ~gone;
    view.limbo &= ~gone;
    view.pending &= ~gone;
    lanes &= ~gone;
    usable &= ~gone;
    if (tick_newer(tick, view.baseline)) {
        const u64 rest = view.known & ~view.limbo & ~lanes;
        if (rest == 0) { // it carried all there is: nothing can be stranded, and what changed since does not matter
            view.limbo = seeded_bug(SeededBug::dropped_limbo_lane) ? 0 : view.known & ~usable;
            view.baseline = tick;
            return;
        }
        const u64 since = changed_for(client, view, chunk, view.baseline, tick);
        const u64 stranded = rest & since;
        const u64 gained = usable & (view.limbo | since);
        if (std::popcount(gained) < std::popcount(stranded) && static_cast<i32>(tick - view.baseline) <= held_back_ticks_max &&
            std::popcount(gained) < std::popcount(stranded & ~companions())) {
            repeat(view, gained, counts); // B would strand more lanes than it gains; this ack will not be heard again
            return;
        }
        const u64 valid = (rest & ~since) | usable;
        view.limbo = seeded_bug(SeededBug::dropped_limbo_lane) ? 0 : view.known & ~valid;
        view.baseline = tick;
    } else
        view.limbo &= ~(usable & ~changed_for(client, view, chunk, tick, view.baseline));
}

/// A message without sections is lost: what it may have said of ends goes again.
void lose_ends(ClientState& client, u32 message) {
    if (!client.lasting.open_ends())
        return;
    client.lasting.lost(message);
    client.ends_unsent = client.lasting.unsent_ends() > 0;
    client.attention |= client.ends_unsent;
}

struct Acks {
    ServerState& state;
    ClientState& client;
    WorkerState& worker;
    Tick present; // the newest captured tick

    MessageRecord& record(u32 message) { return client.records[message & (client.records.size() - 1)]; }
    SectionRecord& section(u32 index) { return client.sections[index & (client.sections.size() - 1)]; }
    u64 companions(u32 message, u32 chunk);
    void settle(ClientChunk& view, const Chunk& chunk, bool was_in_flight);
    void acked(u32 message);
    void lost(u32 message);
    void infer_losses();
};

/// After a section of a record is resolved. Without any left in flight, what is still unacked is sent again (R6). The ack of a
/// message that was taken for lost counts here too: it may have stranded lanes.
void Acks::settle(ClientChunk& view, const Chunk& chunk, bool was_in_flight) {
    THRONG_ASSERT(!was_in_flight || view.in_flight > 0);
    view.in_flight = static_cast<u16>(view.in_flight - was_in_flight);
    if (view.in_flight == 0)
        if (const u64 left = unacked(client, view, chunk, present) & ~waiting_lanes(chunk)) {
            repeat(view, left, worker.counts);
            client.attention = true;
        }
}

/// Lanes of a chunk that the messages of one tick carried. A chunk's lanes are often split over several sections and messages.
u64 Acks::companions(u32 message, u32 chunk) {
    const Tick tick = record(message).tick;
    u32 first = message, end = message + 1;
    while (first != client.oldest_message && record(first - 1).tick == tick)
        --first;
    while (end != client.next_message && record(end).tick == tick)
        ++end;
    u64 lanes = 0;
    for (; first != end; ++first)
        for (u32 i = 0; i < record(first).count; ++i)
            if (const SectionRecord& s = section(record(first).first + i); s.chunk == chunk)
                lanes |= s.lanes;
    return lanes;
}

void Acks::acked(u32 message) {
    MessageRecord& r = record(message);
    const bool was_in_flight = r.state == record_in_flight, any_unapplied = !client.unapplied.empty();
    const u32 count = r.count;
    for (u32 i = 0; i < count; ++i) {
        if (i + 2 < count)
            state.mirror.prefetch(section(r.first + i + 2).chunk);
        const SectionRecord& s = section(r.first + i);
        ClientChunk* view = find_client_chunk(client, s.chunk, s.hint);
        if (!view)
            continue;
        const Chunk& chunk = state.mirror.chunk(s.chunk);
        const u16 id = static_cast<u16>(message);
        if (any_unapplied && std::any_of(client.unapplied.begin(), client.unapplied.end(),
                                         [&](const UnappliedSection& u) { return u.message == id && u.section == i; })) {
            ++worker.counts.unapplied_sections;
            view->limbo |= s.lanes & view->known;
            repeat(*view, s.lanes & view->known, worker.counts);
            client.attention = true;
        } else
            ack_section(client, *view, chunk, r.tick, s.lanes, worker.counts, [&] { return companions(message, s.chunk); });
        // Before capture drops a version of the ring: what it still knows to be unchanged would look changed afterwards.
        promote_baseline(client, *view, chunk, present + 1);
        settle(*view, chunk, was_in_flight);
    }
    if (r.count == 0 && client.lasting.open_ends()) {
        client.lasting.acked(message);
        client.attention = true;
    }
    const i32 sample = static_cast<i32>(present + 1 - r.tick);
    if (r.reliable) [[unlikely]] {
        client.ordered_in_flight -= was_in_flight;
        if (sample > loss_timeout(state, client)) // it has waited behind others
            client.ordered_window -= client.ordered_window > 1;
        else
            client.ordered_window += client.ordered_window < ordered_window_max;
    } else // smoothed round trip in 1/8 ticks
        client.round_trip_eighths += sample - client.round_trip_eighths / 8;
    r.state = record_free;
    ++worker.counts.acked_messages;
    if (!client.any_acked || tick_newer(r.tick, client.newest_acked_tick))
        client.newest_acked_tick = r.tick;
    client.any_acked = true;
    if (static_cast<i32>(message + 1 - client.first_unheard) > 0)
        client.first_unheard = message + 1;
}

/// R6: loss needs no record of what was in the message, only of which chunks.
void Acks::lost(u32 message) {
    MessageRecord& r = record(message);
    r.state = record_lost;
    if (r.reliable) {
        --client.ordered_in_flight;
        client.ordered_window = 1;
    }
    ++worker.counts.lost_messages;
    if (r.count == 0)
        lose_ends(client, message);
    for (u32 i = 0; i < r.count; ++i) {
        const SectionRecord& s = section(r.first + i);
        ClientChunk* view = find_client_chunk(client, s.chunk, s.hint);
        if (!view)
            continue;
        const Chunk& chunk = state.mirror.chunk(s.chunk);
        repeat(*view, unacked(client, *view, chunk, present) & (s.lanes | ~waiting_lanes(chunk)), worker.counts);
        client.attention |= view->pending != 0;
        settle(*view, chunk, true);
    }
}

/// How many timeouts a message on a reliable channel gets. Sending it again early would only lengthen the queue that it waits in; but
/// a client drops it if it is too old on arrival, so it must count as lost in the end.
constexpr i32 reliable_patience = 6;

/// A message of tick t is lost when one of tick t + 2 or later has been acknowledged, or on a timeout. A lost one still counts if its
/// ack comes, until it is forgotten.
void Acks::infer_losses() {
    const i32 timeout = loss_timeout(state, client);
    const auto age = [&](const MessageRecord& r) { return static_cast<i32>(present + 1 - r.tick); };
    const auto patience = [&](const MessageRecord& r) { return timeout * (r.reliable ? reliable_patience : 1); };
    // Records stand in the order of their ticks, so the first that is neither overtaken nor too old ends the search.
    bool all_before = true; // none before this one is in flight
    for (u32 message = client.first_in_flight; message != client.next_message; ++message) {
        MessageRecord& r = record(message);
        const bool overtaken = client.any_acked && tick_newer(client.newest_acked_tick, r.tick + 1);
        if (!overtaken && age(r) <= timeout)
            break;
        if (r.state == record_in_flight && (r.reliable ? age(r) > patience(r) : true))
            lost(message);
        all_before &= r.state != record_in_flight;
        if (all_before)
            client.first_in_flight = message + 1;
    }
    while (client.oldest_message != client.next_message) {
        const MessageRecord& r = record(client.oldest_message);
        if (r.state == record_in_flight || (r.state == record_lost && age(r) <= 2 * patience(r)))
            break;
        ++client.oldest_message;
    }
    if (static_cast<i32>(client.first_in_flight - client.oldest_message) < 0)
        client.first_in_flight = client.oldest_message;
}

void process_client(ServerState& state, ClientState& client, WorkerState& worker) {
    Acks acks{state, client, worker, state.tick - 1};
    const u64 acked = worker.counts.acked_messages, unapplied = worker.counts.unapplied_sections;
    const u64 lost = worker.counts.lost_messages, repeated = worker.counts.repeated_lanes;
    for (const AckBlock& block : client.acks)
        for (u64 left = block.mask; left; left &= left - 1) {
            const u16 id = static_cast<u16>(block.newest - std::countr_zero(left));
            const u32 back = static_cast<u16>(static_cast<u16>(client.next_message - 1) - id);
            const u32 message = client.next_message - 1 - back;
            if (back >= client.next_message - client.oldest_message || acks.record(message).state == record_free)
                continue; // resolved, or never sent
            acks.acked(message);
        }
    client.acks.clear();
    client.acks_waiting = false;
    client.unapplied.clear();
    if (client.oldest_message != client.next_message)
        acks.infer_losses();
    if (worker.counts.acked_messages == acked && worker.counts.lost_messages == lost)
        return;
    ClientTraffic& traffic = state.traffic(client);
    traffic.acked_messages += worker.counts.acked_messages - acked;
    traffic.unapplied_sections += worker.counts.unapplied_sections - unapplied;
    traffic.lost_messages += worker.counts.lost_messages - lost;
    traffic.repeated_lanes += worker.counts.repeated_lanes - repeated;
}

} // namespace

void give_up_oldest(ServerState& state, ClientState& client, TickReport& counts) {
    MessageRecord& r = client.records[client.oldest_message & (client.records.size() - 1)];
    if (r.state == record_in_flight) {
        client.ordered_in_flight -= r.reliable;
        const u64 repeated = counts.repeated_lanes;
        if (r.count == 0)
            lose_ends(client, client.oldest_message);
        for (u32 i = 0; i < r.count; ++i) {
            const SectionRecord& s = client.sections[(r.first + i) & (client.sections.size() - 1)];
            if (ClientChunk* view = find_client_chunk(client, s.chunk, s.hint)) {
                repeat(*view, unacked(client, *view, state.mirror.chunk(s.chunk), state.tick), counts);
                --view->in_flight;
                client.attention = true;
            }
        }
        ++counts.lost_messages;
        ClientTraffic& traffic = state.traffic(client);
        ++traffic.lost_messages;
        traffic.repeated_lanes += counts.repeated_lanes - repeated;
    }
    r.state = record_free;
    ++client.oldest_message;
    if (static_cast<i32>(client.first_in_flight - client.oldest_message) < 0)
        client.first_in_flight = client.oldest_message;
}

namespace {

/// Records were written round trips ago, so all of this is cold: the client, then its records, then what they lead to. Acks are repeated,
/// and what they say first is known; what is new most likely follows the newest message that has been acknowledged.
void prefetch_ahead(const ServerState& state, u32 id, u32 end) {
    prefetch_clients(state.clients, id + 1, end);
    if (id + 2 < end)
        if (const ClientState& client = state.clients[id + 2]; client.acks_waiting && client.records.size()) {
            constexpr u32 a_line = 64 / sizeof(MessageRecord);
            for (u32 i = 0; i < 2 * client.tick_messages && i < 8 * a_line; i += a_line)
                detail::prefetch_write(&client.records[(client.first_unheard + i) & (client.records.size() - 1)]);
        }
    if (id + 1 < end) {
        const ClientState& client = state.clients[id + 1];
        if (client.acks_waiting && client.records.size() && client.sections.size())
            prefetch_sections(client, client.records[client.first_unheard & (client.records.size() - 1)].first, client.tick_sections);
    }
}

} // namespace

void run_acks_stage(ServerState& state) {
    parallel_stage(state, Stage::acks, state.clients.size(), client_grain(state), [&](u32 begin, u32 end, WorkerState& worker, u32) {
        for (u32 id = begin; id < end; ++id) {
            ClientState& client = state.clients[id];
            if (state.any_dirty) // in the last tick, so that many clients have something to say
                prefetch_ahead(state, id, end);
            if (client.joined && (client.acks_waiting || client.oldest_message != client.next_message))
                process_client(state, client, worker);
        }
    });
}

} // namespace throng
