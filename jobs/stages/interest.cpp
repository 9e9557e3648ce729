// Views and interest: which chunks a client holds state for, settled before capture, and after it which of their lanes the client is
// meant to see. A chunk that is left keeps its ClientChunk until everything the client may hold of it has been acknowledged as gone
// (R2, R10).
#include "jobs/stages/stages.hpp"
#include "src/base/seeded_bug.hpp"
#include "src/server/sight.hpp"
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace throng {
namespace {

/// The present value of a spatial field. Capture has not been there yet: mark's row, unless structure has touched the lane.
i32 present_steps(ServerState& state, const Slot& slot, u32 entity_idx, u32 axis) {
    const u32 index = static_cast<u32>(state.layout.spatial_component);
    const LayoutComponent& component = state.layout.components[index];
    const u32 field = static_cast<u32>(component.info->spatial_fields[axis]);
    const Column& column = state.layout.columns[component.first_column + field];
    const u32 chunk = slot.place / lane_count;
    if (!(state.touched[chunk * state.layout.component_count + index] >> slot.place % lane_count & 1))
        return state.mirror.chunk(chunk).origin[axis] + static_cast<i32>(row_element(state.fresh_row(slot.place), column));
    i32 steps[2] = {0, 0};
    bool clamped = false; // mark or structure has reported that
    world_position(state, entity_idx, steps, clamped);
    return steps[axis];
}

/// An entity without a place of its own, in a cluster that has one.
bool goes_without_place(const ServerState& state, const Slot& slot, u32 entity_idx) {
    return state.relations.used() && slot.spatial && goes_with_cluster(state, slot) &&
           state.world.dense_index(entity_idx, state.layout.components[state.layout.spatial_component].info->id) == no_row;
}

bool update_position(ServerState& state, ClientState& client) {
    if (client.has_focus) {
        const Slot* slot = state.slot_of(client.focus);
        u32 entity_idx = client.focus.entity_idx;
        if (slot && goes_without_place(state, *slot, entity_idx)) {
            entity_idx = root_of(state, entity_idx);
            slot = &state.slots[entity_idx];
        }
        if (slot && slot->place != no_slot && slot->spatial) {
            for (u32 axis = 0; axis < 2; ++axis)
                client.now[axis] = present_steps(state, *slot, entity_idx, axis);
        } else if (!client.held_valid)
            return false; // nothing to centre on yet; later the last place is kept
    } else if (client.has_point) {
        client.now[0] = client.point[0];
        client.now[1] = client.point[1];
    } else
        return false;
    const i32 hold = state.grid.hold_steps();
    if (client.held_valid && std::abs(client.now[0] - client.held[0]) <= hold && std::abs(client.now[1] - client.held[1]) <= hold)
        return false;
    client.held[0] = client.now[0];
    client.held[1] = client.now[1];
    client.held_valid = true;
    return true;
}

/// Rebuilds the client's chunk list: what its circle touches, plus what it may still hold.
void rebuild_chunks(ServerState& state, ClientState& client, WorkerState& worker) {
    worker.cells.clear();
    worker.numbers.clear();
    if (sees_space(client))
        state.grid.cells_in_circle(client.held[0], client.held[1],
                                   static_cast<i32>(client.radius * visible_ratio) + state.grid.cell_margin_steps(), worker.cells);
    for (const u32 cell : worker.cells)
        for (u32 number = state.grid.chunks(cell).first; number != no_chunk; number = state.mirror.chunk(number).next_in_cell)
            worker.numbers.push_back(number);
    for (u32 number = state.everywhere.first; number != no_chunk; number = state.mirror.chunk(number).next_in_cell)
        worker.numbers.push_back(number);
    std::sort(worker.numbers.begin(), worker.numbers.end());
    // Merge with what is there: a chunk that is left keeps its state until it holds nothing.
    worker.merged.clear();
    u32 old = 0;
    const u32 old_count = client.chunks.size();
    const auto keep = [&](const ClientChunk& view) {
        if (view.known || view.in_flight)
            worker.merged.push_back(view);
        else {
            __atomic_fetch_sub(&state.viewers[view.chunk], 1u, __ATOMIC_RELAXED);
            if (view.masked)
                client.masks.replace(view.chunk, {});
        }
    };
    for (const u32 number : worker.numbers) {
        while (old < old_count && client.chunks[old].chunk < number)
            keep(client.chunks[old++]);
        if (old < old_count && client.chunks[old].chunk == number)
            worker.merged.push_back(client.chunks[old++]);
        else {
            ClientChunk view;
            view.chunk = number;
            view.baseline = view.sent_tick = state.tick;
            worker.merged.push_back(view);
            __atomic_fetch_add(&state.viewers[number], 1u, __ATOMIC_RELAXED);
        }
    }
    while (old < old_count)
        keep(client.chunks[old++]);
    client.chunks.resize(worker.merged.size());
    client.sends.reserve(2 * client.chunks.capacity()); // a delta and a full section of each
    std::copy(worker.merged.begin(), worker.merged.end(), client.chunks.begin());
}

/// Of the lanes that are `near` and of those that are visible, the Lasting ones: the client may have them from now on, so they are listed.
/// Those that it gets in any case are visible until it has acknowledged them. Returns what is visible.
u64 list_lasting(const ServerState& state, ClientState& client, WorkerState& worker, const ClientChunk& view, const Chunk& chunk, u64 near,
                 u64 visible) {
    const u64 applied = view.known & ~view.limbo & ~(chunk.dirty_tick == state.tick ? chunk.rebound : 0);
    for (u64 left = chunk.lasting & near & (visible | chunk.from_start); left; left &= left - 1) {
        const u64 bit = left & (~left + 1);
        const NetId id = chunk.occupants->net_id[std::countr_zero(bit)];
        LastingList::Entry* const entry = client.lasting.find(id);
        if (entry && (applied & bit))
            entry->introduced = true;
        const bool introduces = (chunk.from_start & bit) && !(entry && entry->introduced);
        visible |= introduces ? bit : 0;
        if (!entry && (visible & bit)) {
            if (!lasting_full(state, client))
                client.lasting.add(id);
            else {
                visible &= ~bit;
                worker.counts.limits |= limit_lasting;
                client.view_changed = worker.view_due = true; // until there is room
            }
        }
        if (introduces)
            client.view_changed = worker.view_due = true; // until it has arrived
    }
    return visible;
}

u64 visible_lanes(const ServerState& state, ClientState& client, WorkerState& worker, const ClientChunk& view, const Chunk& chunk) {
    const u64 paused = paused_lanes(chunk); // who sees them goes on doing so, and nobody else
    const u64 near = near_lanes(state, client, chunk, chunk.alive & ~paused);
    u64 mask = unhidden_lanes(state, client, chunk, near);
    if (chunk.ruled & mask)
        mask &= ~refused_lanes(client, chunk, mask);
    if (chunk.filters)
        mask &= ~filtered_lanes(state, client, chunk, mask);
    if (chunk.lasting & near)
        mask = list_lasting(state, client, worker, view, chunk, near, mask);
    return mask | (view.visible & paused);
}

/// R4: what a difference in visibility means for one (client, chunk): of whole lanes, or of components of lanes that are `remasked`.
void update_view(ServerState& state, ClientState& client, WorkerState& worker, ClientChunk& view, const Chunk& chunk, u64 visible,
                 u64 remasked) {
    const u64 rebound =
        (chunk.dirty_tick == state.tick && !seeded_bug(SeededBug::reused_lane) ? chunk.rebound : 0) & (view.known | visible | view.visible);
    const u64 appeared_or_left = (view.visible ^ visible) | remasked;
    const u64 structural = appeared_or_left | rebound;
    view.visible = visible;
    if (!structural)
        return;
    // Re-bindings are in the mirror's ring for all clients; private changes of visibility are told to the records in flight.
    if (const u64 own = appeared_or_left & ~rebound)
        worker.withdrawn.push_back({view.chunk, own});
    promote_baseline(client, view, chunk, state.tick); // before limbo makes it impossible
    view.limbo |= structural & view.known;
    view.pending |= structural & view.known;
    client.attention = true;
}

/// R4: what was sent before a lane appeared or left says nothing about it any more, so it is taken out of the records of older
/// messages. Exact for each lane: a tick per chunk would hold back all acks of a chunk at the edge of a moving view for ever.
void withdraw(ClientState& client, const Array<WorkerState::ChunkLanes>& withdrawn) {
    if (client.oldest_message == client.next_message)
        return;
    const u32 first = client.records[client.oldest_message & (client.records.size() - 1)].first;
    prefetch_sections(client, first, client.next_section - first);
    u64 places = 0; // bit i: of a chunk whose number is i modulo 64; most sections are of no such chunk
    for (const WorkerState::ChunkLanes& entry : withdrawn)
        places |= u64(1) << entry.chunk % 64;
    for (u32 message = client.oldest_message; message != client.next_message; ++message) {
        const MessageRecord& record = client.records[message & (client.records.size() - 1)];
        if (record.state == record_free)
            continue;
        u32 at = 0; // both lists ascend by chunk
        for (u32 i = 0; i < record.count; ++i) {
            SectionRecord& section = client.sections[(record.first + i) & (client.sections.size() - 1)];
            if (!(places >> section.chunk % 64 & 1)) [[likely]]
                continue;
            while (at < withdrawn.size() && withdrawn[at].chunk < section.chunk)
                ++at;
            if (at == withdrawn.size())
                break;
            if (withdrawn[at].chunk == section.chunk)
                section.lanes &= ~withdrawn[at].lanes;
        }
    }
}

/// What update_position looks at, some clients ahead: one thing leads to the next.
void prefetch_focus(ServerState& state, u32 id, u32 end) {
    if (id + 3 < end)
        detail::prefetch(&state.clients[id + 3]);
    if (id + 2 < end)
        if (const ClientState& client = state.clients[id + 2]; client.has_focus && client.focus.entity_idx < state.slots.size())
            detail::prefetch(&state.slots[client.focus.entity_idx]);
    if (id + 1 < end)
        if (const Slot* slot = state.clients[id + 1].has_focus ? state.slot_of(state.clients[id + 1].focus) : nullptr;
            slot && slot->place != no_slot && slot->spatial) {
            const u32 chunk = slot->place / lane_count;
            state.mirror.prefetch(chunk);
            detail::prefetch(&state.touched[chunk * state.layout.component_count + static_cast<u32>(state.layout.spatial_component)]);
            detail::prefetch(state.fresh_row(slot->place));
        }
}

void update_chunks(ServerState& state, ClientState& client, WorkerState& worker, bool topology_changed) {
    client.view_changed |= update_position(state, client);
    if (client.view_changed || topology_changed)
        rebuild_chunks(state, client, worker);
}

void update_lanes(ServerState& state, ClientState& client, WorkerState& worker, bool topology_changed) {
    for (const NetId id : state.lasting_ended)
        if (client.lasting.end(id))
            client.ends_unsent = client.attention = true;
    const bool changed = std::exchange(client.view_changed, false);
    if (!changed && !topology_changed && !state.any_view_change)
        return;
    worker.withdrawn.clear();
    for (u32 i = 0; i < client.chunks.size(); ++i) {
        if (i + 3 < client.chunks.size())
            state.mirror.prefetch_places(client.chunks[i + 3].chunk);
        ClientChunk& view = client.chunks[i];
        const Chunk& chunk = state.mirror.chunk(view.chunk);
        if (changed || chunk.view_tick == state.tick || (view.visible == 0 && view.known == 0)) {
            const u64 visible = visible_lanes(state, client, worker, view, chunk);
            bool due = false;
            const u64 remasked = chunk.scoped_any ? mask_lanes(state, client, view, chunk, visible, due) : 0;
            if (due)
                client.view_changed = worker.view_due = true; // until it has arrived
            update_view(state, client, worker, view, chunk, visible, remasked);
        }
    }
    if (worker.withdrawn.size())
        withdraw(client, worker.withdrawn);
}

} // namespace

void run_views_stage(ServerState& state) {
    for (WorkerState& worker : state.workers) {
        state.any_view_change |= std::exchange(worker.marked, false);
        state.views_changed |= std::exchange(worker.view_due, false);
    }
    state.topology_changed = state.topology != state.last_topology;
    state.last_topology = state.topology;
    state.interest_due = state.any_view_change || state.topology_changed || state.views_changed;
    state.views_changed = false;
    if (!state.interest_due)
        return; // nothing has moved, and nobody looks elsewhere
    const bool topology_changed = state.topology_changed;
    parallel_stage(state, Stage::interest, state.clients.size(), client_grain(state), [&](u32 begin, u32 end, WorkerState& worker, u32) {
        for (u32 id = begin; id < end; ++id) {
            prefetch_focus(state, id, end);
            if (state.clients[id].joined)
                update_chunks(state, state.clients[id], worker, topology_changed);
        }
    });
}

void run_interest_stage(ServerState& state) {
    if (!state.interest_due)
        return;
    const bool topology_changed = state.topology_changed;
    parallel_stage(state, Stage::interest, state.clients.size(), client_grain(state), [&](u32 begin, u32 end, WorkerState& worker, u32) {
        for (u32 id = begin; id < end; ++id) {
            prefetch_clients(state.clients, id, end);
            if (state.clients[id].joined)
                update_lanes(state, state.clients[id], worker, topology_changed);
        }
    });
    state.any_view_change = false;
    state.lasting_ended.clear();
}

} // namespace throng
