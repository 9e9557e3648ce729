// The server's tick: the stages in order, then the report.
#include "jobs/stages/stages.hpp"
#include <algorithm>

namespace throng {
namespace {

void add_counts(TickReport& sum, const TickReport& part) {
    for (u32 s = 0; s < stage_count; ++s) {
        sum.stages[s].cpu_ns += part.stages[s].cpu_ns;
        sum.stages[s].cpu_max_ns = std::max(sum.stages[s].cpu_max_ns, part.stages[s].cpu_ns);
    }
    sum.chunks_dirty += part.chunks_dirty;
    sum.lanes_dirty += part.lanes_dirty;
    sum.client_chunks += part.client_chunks;
    sum.pairs += part.pairs;
    sum.sent_lanes += part.sent_lanes;
    sum.sent_full_lanes += part.sent_full_lanes;
    sum.gone_lanes += part.gone_lanes;
    sum.encodes += part.encodes;
    sum.messages += part.messages;
    sum.bytes += part.bytes;
    sum.payload_bytes += part.payload_bytes;
    sum.shared_bytes += part.shared_bytes;
    sum.zstd_bytes += part.zstd_bytes;
    sum.heartbeats += part.heartbeats;
    sum.heartbeat_bytes += part.heartbeat_bytes;
    sum.client_bytes_max = std::max(sum.client_bytes_max, part.client_bytes_max);
    sum.acked_messages += part.acked_messages;
    sum.lost_messages += part.lost_messages;
    sum.unapplied_sections += part.unapplied_sections;
    sum.repeated_lanes += part.repeated_lanes;
    sum.baseline_age_sum += part.baseline_age_sum;
    sum.delta_sections += part.delta_sections;
    sum.typed += part.typed;
    sum.limits |= part.limits;
}

void flush(ServerState& state) {
    const auto wall = state.config.wall_ns;
    const auto cpu = state.config.thread_cpu_ns;
    const u64 wall_start = wall ? wall() : 0, cpu_start = cpu ? cpu() : 0;
    state.backend.flush(state.now);
    if (cpu)
        state.workers[0].counts.stages[static_cast<u32>(Stage::flush)].cpu_ns += cpu() - cpu_start;
    if (wall)
        state.report.stages[static_cast<u32>(Stage::flush)].wall_ns += wall() - wall_start;
}

template <class T>
void level(ServerState& state, Array<T> WorkerState::*list) {
    u32 most = 0;
    for (const WorkerState& worker : state.workers)
        most = std::max(most, (worker.*list).capacity());
    for (WorkerState& worker : state.workers)
        (worker.*list).reserve(most);
}

/// Which worker is given what differs from run to run. So each gets room for what any of them has needed, and all of them together for
/// what all have needed: or else a worker that comes late, or gets more than its share, would allocate in the middle of a steady game.
void level_workers(ServerState& state) {
    level(state, &WorkerState::moves);
    level(state, &WorkerState::relinked);
    level(state, &WorkerState::dangling);
    level(state, &WorkerState::cells);
    level(state, &WorkerState::numbers);
    level(state, &WorkerState::merged);
    level(state, &WorkerState::withdrawn);
    level(state, &WorkerState::waiting);
    level(state, &WorkerState::candidates);
    level(state, &WorkerState::message);
    level(state, &WorkerState::opaque);
    level(state, &WorkerState::masked_rows);
    level(state, &WorkerState::ops);
    level(state, &WorkerState::lanes);
    level(state, &WorkerState::typed);
    level(state, &WorkerState::bundle);
    u32 blocks = 0;
    for (const WorkerState& worker : state.workers)
        blocks += worker.arena.used_blocks();
    // A payload leaves an eighth of a block unused at most.
    blocks += blocks / 8 + state.workers.size();
    state.payload_blocks.provide(blocks);
    for (WorkerState& worker : state.workers)
        worker.arena.reserve_blocks(blocks);
}

void close_due(ServerState& state) {
    for (u32 i = 0; i < state.closing.size(); ++i)
        if (!tick_newer(state.closing[i].at, state.tick)) {
            const ClientId id = state.closing[i].client;
            state.backend.disconnect(id);
            if (id < state.clients.size() && state.clients[id].connected)
                reset_client(state, id);
            state.closing.erase_unordered(i--);
        }
}

} // namespace

const TickReport& Server::tick(TimeUs now) {
    ServerState& state = *state_;
    TickReport& report = state.report;
    report = {};
    if (state.error != Error::none)
        return report;
    state.now = now;
    ++state.tick;
    state.restored = std::exchange(state.restore_count, state.world.restore_count()) != state.restore_count;
    if (state.restored || state.adopt_world) [[unlikely]]
        find_resource_entity(state);
    if (state.layout.resources)
        publish_resources(state);
    for (WorkerState& worker : state.workers)
        worker.counts = {};
    state.slots.resize(std::max<u32>(state.slots.size(), state.world.entity_slots()));

    run_acks_stage(state);
    run_mark_stage(state);
    if (!state.outbox.messages.empty())
        find_departed_observers(state);
    run_structure_stage(state);
    run_views_stage(state);
    run_capture_stage(state);
    state.ops.clear(); // of lanes that were not captured too: clients get these whole
    run_interest_stage(state);
    run_plan_stage(state);
    run_encode_stage(state);
    resolve_typed(state);
    run_assemble_stage(state);
    flush(state);
    if (!state.outbox.messages.empty() || state.any_backlog)
        finish_typed(state);
    close_due(state);
    level_workers(state);

    for (const WorkerState& worker : state.workers)
        add_counts(report, worker.counts);
    report.tick = state.tick;
    report.clients = state.joined_count;
    report.entities = state.entity_count;
    report.chunks = state.occupied_chunks;
    report.typed += std::exchange(state.typed, TypedCounts{});
    report.malformed_messages = std::exchange(state.malformed, 0);
    report.hashes_equal = std::exchange(state.hashes_equal, 0);
    report.hashes_different = std::exchange(state.hashes_different, 0);
    report.limits |= std::exchange(state.pending_limits, 0);
    return report;
}

} // namespace throng
