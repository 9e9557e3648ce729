#include "tests/sim/counts.hpp"
#include "src/server/state.hpp"
#include <bit>

namespace throng_sim {
using namespace throng;

namespace {

void compare(const char* what, u64 counted, u64 expected, Failure& failure) {
    if (counted != expected)
        failure.report("reports of clients: %s %llu, not %llu", what, static_cast<unsigned long long>(counted),
                       static_cast<unsigned long long>(expected));
}

u32 visible_count(const Server& server, ClientId id) {
    u32 count = 0;
    server.each_visible(
        id, [](void* sum, Entity) { ++*static_cast<u32*>(sum); }, &count);
    return count;
}

/// Of entities that were destroyed while they were paused: what nobody can ask `why` about.
struct LeftBehind {
    u32 visible = 0, held = 0, current = 0;
    LeftBehind(const ServerState& state, const ClientState& client) {
        for (const ClientChunk& view : client.chunks) {
            const Chunk& chunk = state.mirror.chunk(view.chunk);
            const u64 lanes = view.visible & chunk.orphaned, there = held_lanes(view, chunk) & lanes;
            visible += static_cast<u32>(std::popcount(lanes));
            held += static_cast<u32>(std::popcount(there));
            current += static_cast<u32>(std::popcount(there & ~unacked(client, view, chunk, state.tick)));
        }
    }
};

bool in_sight(WhyReason reason) {
    return reason >= WhyReason::oversize;
}

void check_why_of(Server& server, const TickReport& report, const World& world, const Peer& peer, Failure& failure) {
    auto [visible, held, current] = LeftBehind(server.state(), server.state().clients[peer.id]);
    const ClientReport client = server.client_report(peer.id);
    for (const Slot& slot : server.state().slots) {
        const Entity entity = slot.entity_id ? world.entity_at(static_cast<u32>(&slot - server.state().slots.data())) : Entity{};
        if (!entity || entity.entity_id != slot.entity_id)
            continue;
        const Why why = server.why(entity, peer.id);
        const auto fail = [&](const char* what) {
            failure.report("why(%llu, client %u) is \"%s\" (\"%s\"): %s", static_cast<unsigned long long>(slot.net_id.value), peer.name,
                           to_string(why.reason), to_string(why.cause), what);
        };
        visible += why.visible;
        held += why.visible && why.held;
        current += why.reason == WhyReason::current;
        if (why.visible != server.visible(peer.id, entity))
            fail("visible() says the opposite");
        const bool given_up = report.limits & limit_records; // what records_max gave up goes in the next tick
        if (why.reason == WhyReason::next_tick ? !given_up : in_sight(why.reason) != why.visible)
            fail("not what the tick decided");
        if (why.cause == WhyReason::next_tick && !why.held && !given_up)
            fail("nothing is known to hold it up");
        if (why.reason == WhyReason::out_of_radius && why.distance < 0.85 * why.radius)
            fail("it is near");
        if (why.reason == WhyReason::current && !peer.dirty && !peer.limited && !peer.has_ended(slot.net_id) &&
            !peer.world.alive(peer.client.entity(slot.net_id)))
            fail("the client does not have it");
    }
    compare("visible by why", visible, client.visible, failure);
    compare("held by why", held, client.held, failure);
    compare("current by why", current, client.current, failure);
}

} // namespace

void check_counts(Server& server, const TickReport& report, bool cut_off, Failure& failure) {
    ClientTraffic sum;
    for (ClientId id = 0; id < server.state().clients.size(); ++id) {
        const ClientReport client = server.client_report(id);
        sum += client.last;
        const LeftBehind left(server.state(), server.state().clients[id]);
        compare("visible", client.visible, visible_count(server, id) + left.visible, failure);
        compare("settled", client.settled, server.settled(id), failure);
        if (client.settled && (client.current != client.visible || client.unsent || client.leaving || client.limbo || client.open_ends))
            failure.report("client %u is settled, but not in its report", id);
        if (client.last.repeated_lanes && !client.last.lost_messages && !client.last.acked_messages)
            failure.report("client %u: lanes are repeated, though nothing was lost or heard of", id);
    }
    if (cut_off)
        return; // and what it was sent is no longer known
    compare("messages", sum.messages, report.messages, failure);
    compare("bytes", sum.bytes, report.bytes, failure);
    compare("payload_bytes", sum.payload_bytes, report.payload_bytes, failure);
    compare("lanes", sum.lanes, report.pairs, failure);
    compare("full_lanes", sum.full_lanes, report.sent_full_lanes, failure);
    compare("gone_lanes", sum.gone_lanes, report.gone_lanes, failure);
    compare("heartbeats", sum.heartbeats, report.heartbeats, failure);
    compare("acked_messages", sum.acked_messages, report.acked_messages, failure);
    compare("lost_messages", sum.lost_messages, report.lost_messages, failure);
    compare("unapplied_sections", sum.unapplied_sections, report.unapplied_sections, failure);
    u64 deliveries = 0;
    for (const u64 of_channel : sum.typed_messages)
        deliveries += of_channel;
    compare("typed messages", deliveries, report.typed.deliveries, failure);
    compare("typed_bundles", sum.typed_bundles, report.typed.bundles, failure);
    compare("typed_bytes", sum.typed_bytes, report.typed.bytes, failure);
    compare("typed_backlogged", sum.typed_backlogged, report.typed.backlogged, failure);
    compare("typed_refused", sum.typed_refused, report.typed.refused, failure);
    compare("repeated_lanes", sum.repeated_lanes, report.repeated_lanes, failure);
}

void check_why(Server& server, const TickReport& report, const World& world, const std::vector<std::unique_ptr<Peer>>& peers,
               Failure& failure) {
    for (const auto& peer : peers)
        if (peer->joined && server.joined(peer->id))
            check_why_of(server, report, world, *peer, failure);
}

} // namespace throng_sim
