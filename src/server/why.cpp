// Why an entity is or is not on a client. The reasons come in the order in which the stages decide: structure, views and interest, plan,
// encode, assemble, acks. All that they decided is still there after a tick, the sends of each client and their keys included, so
// answering needs nothing that a tick would have to keep for it.
#include "src/server/sight.hpp"
#include <bit>
#include <cmath>
#include <cstdlib>
#include <iterator>

namespace throng {

const char* to_string(WhyReason reason) {
    constexpr const char* names[] = {
        "not alive",
        "not replicated",
        "paused",
        "no lane: chunks_max",
        "the client is not connected",
        "the client has not joined",
        "the client has no view",
        "out of the view's radius",
        "hidden from the client",
        "not shown to the client",
        "refused by layers: VisibleTo",
        "refused by a filter",
        "lasting_max",
        "not a component of the protocol",
        "not of its audience: OwnedBy, SharedWith",
        "out of scope: ScopedTo",
        "ruled out: the component's rules",
        "frozen: kept out of sight",
        "leaving: not acknowledged",
        "decided in the next tick",
        "larger than the largest message",
        "waits: budget_bytes",
        "waits: its priority",
        "waits: the backend refused",
        "waits: the ordered channel",
        "in flight: not acknowledged",
        "limbo: goes in full again",
        "behind",
        "current",
    };
    static_assert(std::size(names) == why_reason_count);
    return static_cast<u32>(reason) < why_reason_count ? names[static_cast<u32>(reason)] : "";
}

namespace {

struct Question {
    const ServerState& state;
    const ClientState& client;
    const Slot& slot;
    const Chunk& chunk;
    const ClientChunk* view; // null: the chunk is not in the client's list
    u64 bit;                 // of the entity's lane

    const char* refusing_filter() const;
    WhyReason out_of_sight(Why& why) const;
    WhyReason unsent() const;
    void answer(Why& why) const;
    void measure(Why& why, u32 entity_idx) const;
};

/// Whether the view was set to another place after the last tick.
bool view_was_set(const ServerState& state, const ClientState& client) {
    const i32 hold = state.grid.hold_steps();
    return client.has_point && (!client.held_valid || std::abs(i64(client.point[0]) - client.held[0]) > hold ||
                                std::abs(i64(client.point[1]) - client.held[1]) > hold);
}

/// Name of the first filter that keeps the entity from the client; null: none.
const char* Question::refusing_filter() const {
    const u32 lane = static_cast<u32>(std::countr_zero(bit));
    for (u64 some = chunk.filters ? chunk.filters->some : 0; some; some &= some - 1) {
        const u32 f = static_cast<u32>(std::countr_zero(some));
        if ((chunk.filters->lanes[f] & bit) && !filter_allows(state, id_of(state, client), f, chunk.filters->numbers[f][lane]))
            return state.filters.list[f].type.name;
    }
    return nullptr;
}

/// Of an entity that the last tick did not find visible.
WhyReason Question::out_of_sight(Why& why) const {
    if (slot.paused)
        return WhyReason::paused;
    if (chunk.spatial && !(view && near_lanes(state, client, chunk, bit)))
        return view_was_set(state, client) ? WhyReason::next_tick : sees_space(client) ? WhyReason::out_of_radius : WhyReason::no_view;
    if (!unhidden_lanes(state, client, chunk, bit))
        return client.shows_listed_only ? WhyReason::not_shown : WhyReason::hidden;
    if (refused_lanes(client, chunk, bit))
        return WhyReason::refused_by_layers;
    why.filter = refusing_filter();
    if (why.filter)
        return WhyReason::refused_by_filter;
    if (slot.lasting && lasting_full(state, client) && !client.lasting.find(slot.net_id))
        return WhyReason::lasting_limit;
    return WhyReason::next_tick;
}

/// What a lane waits for that the last tick has not sent. Its plan is still there.
WhyReason Question::unsent() const {
    for (const Send& send : client.sends) {
        if (&client.chunks[send.client_chunk] != view || !send.key || !(send.key->lanes & bit))
            continue;
        for (u32 p = 0; p < send.key->part_count; ++p)
            if (const Part& part = send.key->parts[p]; part.lanes & bit)
                return part.bytes > state.payload_bytes && client.ordered_in_flight >= client.ordered_window ? WhyReason::ordered_busy
                                                                                                          : WhyReason::backend_refused;
        return WhyReason::oversize;
    }
    if (client.priorities.has(chunk.entity_idx[std::countr_zero(bit)], slot.entity_id))
        return WhyReason::priority;
    return state.config.budget_bytes ? WhyReason::budget : WhyReason::next_tick;
}

void Question::answer(Why& why) const {
    why.visible = view && (view->visible & bit);
    if (!why.visible) {
        why.cause = out_of_sight(why);
        why.held = client.lasting.find(slot.net_id) != nullptr;
        why.reason = why.held ? WhyReason::frozen : view && (view->known & bit) ? WhyReason::leaving : why.cause;
        return;
    }
    why.held = held_lanes(*view, chunk) & bit;
    if (!why.held) {
        why.reason = why.cause = unsent();
        return;
    }
    if (!(unacked(client, *view, chunk, state.tick) & bit)) {
        why.reason = WhyReason::current;
        why.cause = slot.paused ? WhyReason::paused : WhyReason::current;
        return;
    }
    why.cause = view->pending & bit          ? unsent()
                : waiting_lanes(chunk) & bit ? WhyReason::priority
                                             : WhyReason::in_flight;
    if (!(view->limbo & bit)) {
        why.reason = WhyReason::behind;
        why.behind_ticks = state.tick - view->baseline;
    } else
        why.reason = why.cause == WhyReason::in_flight ? why.cause : WhyReason::limbo;
}

void Question::measure(Why& why, u32 entity_idx) const {
    i32 at[2];
    bool clamped = false;
    if (chunk.spatial && client.held_valid && world_position(state, root_of(state, entity_idx), at, clamped)) {
        why.distance = std::hypot(double(at[0]) - client.held[0], double(at[1]) - client.held[1]) * state.layout.spatial_step;
        why.radius = client.radius * state.layout.spatial_step;
    }
    if (!view || !view->sent_bytes)
        return;
    u64 rebound = 0;
    if (chunk.rebound_any && tick_newer(chunk.rebound_tick, view->sent_tick))
        rebound = rebound_in_ring(chunk, view->sent_tick);
    why.last_sections = {view->sent_tick, view->sent_bytes, static_cast<u32>(std::popcount(view->sent_lanes)),
                         (view->sent_lanes & ~rebound & bit) != 0};
}

/// Whether the entity has a component of which the rules of each registration say that it is not sent.
bool ruled_out(const ServerState& state, Entity entity, u32 place, ComponentId component) {
    bool any = false;
    for (i32 c = state.layout.index_of[component]; c >= 0; c = state.layout.next_of_type[c]) {
        if (!state.denies(static_cast<u32>(c), place))
            return false;
        any = true;
    }
    return any && state.world.dense_index(entity.entity_idx, component) != no_row;
}

/// One that found no lane, or was paused before anyone was told of the one that it had. A client may have kept it from an earlier one.
Why without_lane(const ServerState& state, const Slot& slot, ClientId id) {
    Why why;
    why.reason = why.cause = slot.paused ? WhyReason::paused : WhyReason::no_lane;
    if (!slot.paused || !slot.lasting || id >= state.clients.size() || !state.clients[id].lasting.find(slot.net_id))
        return why;
    why.net_id = slot.net_id;
    why.reason = WhyReason::frozen;
    why.held = true;
    return why;
}

} // namespace

Why Server::why(Entity entity, ClientId id) const {
    const ServerState& state = *state_;
    Why why;
    const auto because = [&](WhyReason reason) {
        why.reason = why.cause = reason;
        return why;
    };
    if (!state.world.alive(entity))
        return because(WhyReason::not_alive);
    const Slot* const slot = state.slot_of(entity);
    if (!slot)
        return because(state.world.has<Replicated>(entity) ? WhyReason::next_tick : WhyReason::not_replicated);
    const u32 place = state.place_of(entity);
    if (place == no_slot)
        return without_lane(state, *slot, id);
    why.net_id = slot->net_id;
    if (state.relations.used())
        if (const u32 cluster = state.relations.cluster_of(entity.entity_idx); cluster != RelationGraph::none)
            why.cluster = goes_with_cluster(state, *slot)      ? WhyCluster::together
                          : state.relations.too_large(cluster) ? WhyCluster::too_large
                                                               : WhyCluster::apart;
    if (id >= state.clients.size() || !state.clients[id].connected)
        return because(WhyReason::not_connected);
    const ClientState& client = state.clients[id];
    if (!client.joined)
        return because(WhyReason::not_joined);
    const u32 number = place / lane_count;
    const ClientChunk* const view = find_client_chunk(const_cast<ClientState&>(client), number, 0);
    const Question question{state, client, *slot, state.mirror.chunk(number), view, u64(1) << place % lane_count};
    question.answer(why);
    question.measure(why, entity.entity_idx);
    return why;
}

Why Server::why(Entity entity, ClientId id, ComponentId component) const {
    Why why = this->why(entity, id);
    const ServerState& state = *state_;
    const u32 place = state.place_of(entity);
    const i32 index = registered_for(state, component, place);
    if (index < 0)
        why.reason = why.cause = WhyReason::not_registered;
    if (index < 0 || !why.visible)
        return why;
    if (ruled_out(state, entity, place, component)) {
        why.reason = why.cause = WhyReason::ruled_out;
        why.held = false;
        return why;
    }
    const u32 lane = place % lane_count, bit = 1u << index;
    const ClientState& client = state.clients[id];
    const ClientChunk* const view = find_client_chunk(const_cast<ClientState&>(client), place / lane_count, 0);
    const LaneMasks::Entry mask = mask_of(state, client, *view, lane);
    if (mask.components & bit)
        return why;
    const ChunkScopes* const scopes = state.mirror.chunk(place / lane_count).scopes;
    bool out_of_scope = false;
    if (scopes && (scopes->ruled >> lane & 1))
        for (u32 i = 0; i < scopes->rules[lane].count; ++i)
            out_of_scope |= (scopes->rules[lane].rules[i].components & bit) && !scopes->rules[lane].rules[i].to.allows(client.layers);
    why.cause = out_of_scope ? WhyReason::out_of_scope : WhyReason::not_its_audience;
    why.held = mask.had & bit;
    why.reason = why.held ? WhyReason::frozen : why.cause;
    return why;
}

} // namespace throng
