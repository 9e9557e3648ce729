// Clusters of related entities (R12): all of one in lanes of one chunk, where its root is, and moving as one. Which entities those are
// RelationGraph knows; here they get their lanes, and chunks learn which lanes go together. Serial, part of the structure stage; its work
// is proportional to the clusters that have changed.
#include "jobs/stages/lanes.hpp"
#include "src/server/sight.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <bit>
#include <cstring>

namespace throng {
namespace {

/// Chunks of a cell that are looked at for room, before a new one is made.
constexpr u32 chunk_tries_max = 16;

/// Which lanes are followers follows from tied and root.
void find_followers(ChunkClusters& clusters) {
    clusters.followers = 0;
    for (u64 left = clusters.tied; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        clusters.followers |= u64(clusters.root[lane] != lane) << lane;
    }
}

/// The lanes have gone together up to now, and so they do until every client has them as they are from this tick on.
void add_former(ServerState& state, const Chunk& chunk, u64 lanes) {
    ChunkClusters& clusters = *chunk.clusters;
    if (std::has_single_bit(lanes) || state.viewers[chunk.number] == 0)
        return;
    if (clusters.former_count == 0)
        state.former_chunks.push_back(chunk.number);
    for (u32 i = 0; i < clusters.former_count; ++i)
        if (ChunkClusters::Former& former = clusters.former[i]; former.end == state.tick && (lanes & ~former.lanes) == 0)
            return;
    if (clusters.former_count == ChunkClusters::former_max) { // more lanes together than need be
        ChunkClusters::Former& last = clusters.former[ChunkClusters::former_max - 1];
        last = {last.lanes | lanes, state.tick};
    } else
        clusters.former[clusters.former_count++] = {lanes, state.tick};
}

/// Forgets what no client has needed in the last tick.
void drop_formers(ServerState& state) {
    u32 kept_chunks = 0;
    for (const u32 number : state.former_chunks) {
        ChunkClusters& clusters = *state.mirror.chunk(number).clusters;
        u32 kept = 0;
        for (u32 i = 0; i < clusters.former_count; ++i)
            if ((clusters.needed >> i & 1) || clusters.former[i].end == state.tick)
                clusters.former[kept++] = clusters.former[i];
        clusters.former_count = kept;
        clusters.needed = 0;
        if (kept)
            state.former_chunks[kept_chunks++] = number;
    }
    state.former_chunks.resize(kept_chunks);
}

/// Other places count for the lanes from now on: they are looked up again.
void look_up_places(ServerState& state, const Chunk& chunk, u64 lanes) {
    if (!chunk.spatial)
        return;
    state.touched[chunk.number * state.layout.component_count + static_cast<u32>(state.layout.spatial_component)] |= lanes;
    state.any_view_change = true;
    state.touch_chunk(chunk.number);
}

/// From now on these lanes go together.
void tie(ServerState& state, Chunk& chunk, u64 lanes, u32 root) {
    ChunkClusters& clusters = state.mirror.clusters(chunk);
    bool changed = false;
    for (u64 left = lanes; left; left &= left - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(left));
        if (clusters.mates[lane] & ~lanes)
            add_former(state, chunk, clusters.mates[lane]);
        changed |= clusters.mates[lane] != lanes || clusters.root[lane] != root;
        clusters.mates[lane] = lanes;
        clusters.root[lane] = static_cast<u8>(root);
    }
    clusters.tied |= lanes;
    find_followers(clusters);
    if (changed)
        look_up_places(state, chunk, lanes);
}

/// An entity that goes by itself: in no cluster, or apart from it.
void place_alone(ServerState& state, u32 entity_idx) {
    const Slot& slot = state.slots[entity_idx];
    if (slot.paused)
        return;
    if (slot.place == no_slot) {
        if (slot.bound_tick == state.tick) // else it is homeless already
            move_alone(state, entity_idx);
        return;
    }
    Chunk& chunk = state.mirror.chunk(slot.place / lane_count);
    if (chunk.clusters)
        untie(state, chunk, slot.place % lane_count);
    move_alone(state, entity_idx);
}

/// The member whose place counts for all: one that has a place, without a relation to another, with the lowest index.
u32 find_root(const ServerState& state, const Array<u32>& members) {
    u32 root = RelationGraph::none;
    u64 least = ~u64(0);
    for (const u32 member : members) {
        i32 steps[2];
        bool clamped = false;
        const u64 order = u64(!world_position(state, member, steps, clamped)) << 63 | u64(state.relations.leads_on(member)) << 62 |
                          state.slots[member].net_id.index();
        if (order < least) {
            least = order;
            root = member;
        }
    }
    return root;
}

/// Where the root belongs. As for others, its cell is left only when it is out of it by the margin.
Target root_target(ServerState& state, u32 root) {
    const Slot& slot = state.slots[root];
    i32 steps[2];
    bool clamped = false;
    if (slot.place == no_slot || !world_position(state, root, steps, clamped))
        return target_of(state, root);
    const Chunk& chunk = state.mirror.chunk(slot.place / lane_count);
    const i64 edge = state.grid.cell_steps(), margin = state.grid.cell_margin_steps();
    for (u32 axis = 0; axis < 2; ++axis)
        if (const i64 relative = i64(steps[axis]) - chunk.origin[axis]; !chunk.spatial || relative < -margin || relative >= edge + margin)
            return target_of(state, root);
    return {true, chunk.cell};
}

/// Whether a chunk of the target can hold the entity's position: it is relative to the cell, in 16 bits unless cells are wide.
bool reaches(const ServerState& state, Target target, u32 entity_idx) {
    i32 steps[2];
    bool clamped = false;
    if (!target.spatial || !world_position(state, entity_idx, steps, clamped))
        return true;
    const CellPosition cell = state.grid.cell_coordinates(target.cell);
    const i64 edge = state.grid.cell_steps(), reach = state.wide_cells() ? 2147483647 : 32767;
    return std::abs(steps[0] - cell.a * edge) <= reach && std::abs(steps[1] - cell.b * edge) <= reach;
}

/// A chunk of the target with room for all members, those that it has already included. The root's, if that will do; no_chunk if there is
/// none, and chunks_max is reached.
u32 find_chunk(ServerState& state, Target target, u32 root, const Array<u32>& members) {
    const auto has_room = [&](u32 number) {
        const Chunk& chunk = state.mirror.chunk(number);
        u32 wanted = 0;
        for (const u32 member : members)
            wanted += state.slots[member].place == no_slot || state.slots[member].place / lane_count != number;
        return static_cast<u32>(std::popcount(~chunk.alive)) >= wanted;
    };
    if (const u32 place = state.slots[root].place; place != no_slot) {
        const Chunk& chunk = state.mirror.chunk(place / lane_count);
        if (chunk.spatial == target.spatial && (!target.spatial || chunk.cell == target.cell) && has_room(chunk.number))
            return chunk.number;
    }
    const InterestGrid::ChunkList& list = list_of(state, target);
    u32 number = list.open;
    for (u32 tries = 0; number != no_chunk && tries < chunk_tries_max; ++tries, number = state.mirror.chunk(number).next_in_cell)
        if (has_room(number))
            return number;
    return number != no_chunk && has_room(list.last) ? list.last : add_chunk(state, target);
}

void place_cluster(ServerState& state, u32 cluster) {
    RelationGraph& graph = state.relations;
    Array<u32>& members = state.cluster_members;
    members.clear();
    graph.each_member(cluster, [&](u32 member) { members.push_back(member); });
    const u32 root = graph.too_large(cluster) ? RelationGraph::none : find_root(state, members);
    u32 chunk_number = no_chunk;
    if (root != RelationGraph::none) {
        const Target target = root_target(state, root);
        u32 near = 0; // those that go together come first
        for (u32 i = 0; i < members.size(); ++i)
            if (reaches(state, target, members[i]))
                std::swap(members[near++], members[i]);
        const u32 count = members.size();
        members.resize(near); // keeps what is behind
        if (near > 1) {
            chunk_number = find_chunk(state, target, root, members);
            if (chunk_number == no_chunk) {
                state.report.limits |= limit_chunks;
                state.crowded_clusters.push_back(cluster);
            }
        }
        graph.set_root(cluster, root, count - (chunk_number == no_chunk ? 0 : near));
    } else
        graph.set_root(cluster, root, members.size());
    if (chunk_number != no_chunk) {
        u64 lanes = 0;
        for (const u32 member : members)
            if (state.slots[member].place == no_slot || state.slots[member].place / lane_count != chunk_number)
                move_into(state, member, chunk_number);
        for (const u32 member : members)
            lanes |= u64(1) << state.slots[member].place % lane_count;
        tie(state, state.mirror.chunk(chunk_number), lanes, state.slots[root].place % lane_count);
    }
    if (graph.apart_of(cluster) == 0)
        return;
    graph.each_member(cluster, [&](u32 member) {
        const bool together = chunk_number != no_chunk && std::find(members.begin(), members.end(), member) != members.end();
        if (!together)
            place_alone(state, member);
    });
}

} // namespace

void relink(ServerState& state, u32 entity_idx) {
    for (u32 r = 0; r < state.layout.related_count; ++r) {
        const Layout::Related& related = state.layout.related[r];
        const ComponentId id = state.layout.components[related.component].info->id;
        const u32 dense = state.world.dense_index(entity_idx, id);
        Entity target;
        if (dense != no_row)
            std::memcpy(&target, static_cast<const std::byte*>(state.world.pool_of(id)->row(dense)) + related.offset_bytes, sizeof target);
        state.relations.link(entity_idx, r, target);
    }
}

void untie(ServerState& state, Chunk& chunk, u32 lane) {
    ChunkClusters& clusters = *chunk.clusters;
    const u64 bit = u64(1) << lane;
    if (!(clusters.tied & bit))
        return;
    const u64 mates = clusters.mates[lane];
    add_former(state, chunk, mates);
    u64 alone = bit;
    for (u64 left = mates & ~bit; left; left &= left - 1) {
        const u32 mate = static_cast<u32>(std::countr_zero(left));
        clusters.mates[mate] &= ~bit;
        if (std::has_single_bit(clusters.mates[mate]))
            alone |= u64(1) << mate;
    }
    clusters.tied &= ~alone;
    for (u64 left = alone; left; left &= left - 1)
        clusters.mates[std::countr_zero(left)] = 0;
    find_followers(clusters);
    look_up_places(state, chunk, mates);
}

void place_clusters(ServerState& state) {
    RelationGraph& graph = state.relations;
    drop_formers(state);
    for (WorkerState& worker : state.workers) {
        for (const u32 entity_idx : worker.relinked)
            state.cluster_members.push_back(entity_idx);
        worker.relinked.clear();
    }
    std::sort(state.cluster_members.begin(), state.cluster_members.end()); // whichever worker found them
    for (const u32 entity_idx : state.cluster_members)
        if (state.slots[entity_idx].entity_id && !state.slots[entity_idx].paused)
            relink(state, entity_idx);
    state.cluster_members.clear();
    for (const u32 cluster : state.crowded_clusters)
        if (graph.count(cluster))
            graph.list(cluster);
    state.crowded_clusters.clear();
    graph.settle();
    for (const u32 entity_idx : graph.left()) {
        const u32 cluster = graph.cluster_of(entity_idx);
        if (state.slots[entity_idx].entity_id && (cluster == RelationGraph::none || graph.too_large(cluster)))
            place_alone(state, entity_idx);
    }
    for (const u32 cluster : graph.changed())
        if (graph.count(cluster))
            place_cluster(state, cluster);
    graph.clear_changes();
    state.cluster_members.clear();
    if (graph.apart())
        state.report.limits |= limit_clusters;
}

} // namespace throng
