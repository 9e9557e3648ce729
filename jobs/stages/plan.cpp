// Plan: what each client gets now, as references to keys. A lane goes once, in a delta against the client's baseline, in full (limbo) or as
// gone; what is in flight is not repeated (R4, R6). Under a byte budget the most urgent chunks go first, by estimates in fixed units (R17).
#include "jobs/stages/stages.hpp"
#include "src/base/seeded_bug.hpp"
#include "src/registry/state_hash.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <bit>
#include <optional>
#include <span>

namespace throng {
namespace {

struct Plan {
    ServerState& state;
    ClientState& client;
    WorkerState& worker;
    u32 worker_index;
    u32 from = 0; // the client's candidates, of the worker's ...
    u32 end = 0;  // ... once they are all found

    template <bool any_clusters>
    [[gnu::always_inline]] inline void add(const WorkerState::Candidate& candidate);
    void send(u32 index, u64 delta, u64 full, u64 sees, u64& unsent_gone, u64& gone_with_full);
    void send_masked(u32 index, u64 delta, u64 full, u64& unsent_gone, u64& gone_with_full);
    [[gnu::always_inline]] inline void prefetch(const WorkerState::Candidate& candidate) const;
    [[gnu::noinline]] void with_budget();
    u32 estimate(const ClientChunk& view, u64 lanes) const;
    bool clean() const;
    u64 with_mates(const ClientChunk& view, u64 lanes) const;
    void need_formers(const ClientChunk& view) const;
    void own_priorities();
    u64 news(const ClientChunk& view, const Chunk& chunk, u64 lanes) const;
};

u64 wanted(const ClientChunk& view) {
    return (view.pending & view.known) | (view.visible & ~view.known);
}

/// R12: what goes with the lanes, and the client does not have as it is now. What is in flight counts as not there: it may be lost, and
/// then the client would show the lanes of two ticks.
u64 Plan::with_mates(const ClientChunk& view, u64 lanes) const {
    const Chunk& chunk = state.mirror.chunk(view.chunk);
    if (!chunk.clusters || seeded_bug(SeededBug::torn_cluster))
        return lanes;
    return lanes | (together(*chunk.clusters, lanes) & (unacked(client, view, chunk, state.tick) | (view.visible & ~view.known)));
}

/// Says which former clusters of the chunk the client may still have as they were.
void Plan::need_formers(const ClientChunk& view) const {
    const Chunk& chunk = state.mirror.chunk(view.chunk);
    if (!chunk.clusters || !chunk.clusters->former_count || !view.known)
        return;
    ChunkClusters& clusters = *chunk.clusters;
    u32 needed = 0;
    for (u32 i = 0; i < clusters.former_count; ++i) {
        const bool newer = tick_newer(clusters.former[i].end, view.baseline);
        const u64 behind = newer ? unacked(client, view, chunk, state.tick) : view.limbo & view.known;
        needed |= u32((clusters.former[i].lanes & behind) != 0) << i;
    }
    if (needed)
        __atomic_fetch_or(&clusters.needed, needed, __ATOMIC_RELAXED);
}

/// Appends the sections of one chunk.
template <bool any_clusters>
inline void Plan::add(const WorkerState::Candidate& candidate) {
    const u32 index = candidate.client_chunk;
    ClientChunk& view = client.chunks[index];
    const Chunk& chunk = state.mirror.chunk(view.chunk);
    const u64 lanes = candidate.lanes;
    view.sent_bytes = 0;
    view.sent_lanes = lanes;
    const u64 gone = lanes & ~view.visible;
    u64 full = lanes & view.visible & (view.limbo | ~view.known);
    u64 delta = lanes & view.visible & ~full;
    if (delta) {
        if (!serves(chunk, view.baseline)) {
            full |= delta; // R14: the version that serves B has been dropped
            delta = 0;
        } else {
            THRONG_ASSERT_SLOW((delta & rebound_since(chunk, view.baseline)) == 0); // R2-absolute: re-binding put such lanes in limbo
        }
    }
    u64 unsent_gone = gone, gone_with_full = 0;
    if (any_clusters && full && chunk.clusters) { // a cluster goes in one section
        const u64 mates = together(*chunk.clusters, full);
        full |= delta & mates;
        delta &= ~mates;
        gone_with_full = gone & mates;
        unsent_gone &= ~mates;
    }
    if (view.masked == 0)
        send(index, delta, full, state.layout.plain(), unsent_gone, gone_with_full);
    else
        send_masked(index, delta, full, unsent_gone, gone_with_full);
    if (unsent_gone | gone_with_full)
        client.sends.push_back({nullptr, unsent_gone | gone_with_full, index});
}

/// Of a chunk with lanes of which the client sees other components than most do: sections of what it sees alike. A cluster goes in one
/// section, so one whose lanes are not alike goes in a section of this client's own.
[[gnu::noinline]] void Plan::send_masked(u32 index, u64 delta, u64 full, u64& unsent_gone, u64& gone_with_full) {
    const ClientChunk& view = client.chunks[index];
    const ChunkClusters* const clusters = state.mirror.chunk(view.chunk).clusters;
    const u64 lanes = delta | full;
    u64 mixed = 0;
    if (clusters)
        each_mask(state, client, view, lanes, [&](u64 alike, u64) {
            if (const u64 others = together(*clusters, alike) & lanes & ~alike)
                mixed |= together(*clusters, others) & lanes;
        });
    each_mask(state, client, view, lanes & ~mixed, [&](u64 alike, u64 sees) {
        u64 with_these = clusters ? gone_with_full & together(*clusters, full & alike) : 0;
        gone_with_full &= ~with_these;
        send(index, delta & alike, full & alike, sees, unsent_gone, with_these);
    });
    const ClientId id = static_cast<ClientId>(&client - state.clients.data());
    if (mixed)
        send(index, delta & mixed, full & mixed, sees_as(id), unsent_gone, gone_with_full);
}

/// A delta and a full section of lanes; who `sees` what of them is the key's. What is kept is said in full sections only.
inline void Plan::send(u32 index, u64 delta, u64 full, u64 sees, u64& unsent_gone, u64& gone_with_full) {
    const ClientChunk& view = client.chunks[index];
    if (delta) {
        client.sends.push_back(
            {state.keys.find(worker_index, view.chunk, view.baseline, delta, false, viewer_of(sees) ? sees : seen_of(sees)), unsent_gone,
             index});
        unsent_gone = 0;
    }
    if (full) {
        client.sends.push_back(
            {state.keys.find(worker_index, view.chunk, 0, full, true, sees), unsent_gone | gone_with_full, index});
        gone_with_full = 0;
        unsent_gone = 0;
    }
}

/// The slot of the key table that add() will most likely look at.
inline void Plan::prefetch(const WorkerState::Candidate& candidate) const {
    const ClientChunk& view = client.chunks[candidate.client_chunk];
    const u64 lanes = candidate.lanes & view.visible, full = lanes & (view.limbo | ~view.known);
    if (lanes & ~full)
        state.keys.prefetch(worker_index, view.chunk, view.baseline, lanes & ~full, false, state.layout.plain());
    else if (full)
        state.keys.prefetch(worker_index, view.chunk, 0, full, true, state.layout.plain());
}

/// Expected bytes of a chunk's sections, in 1/16: from what lanes of the chunk cost last time they were encoded.
u32 Plan::estimate(const ClientChunk& view, u64 lanes) const {
    const Chunk& chunk = state.mirror.chunk(view.chunk);
    const u32 full = static_cast<u32>(std::popcount(lanes & view.visible & (view.limbo | ~view.known)));
    const u32 delta = static_cast<u32>(std::popcount(lanes & view.visible)) - full;
    const u32 lane_cost = chunk.lane_cost ? chunk.lane_cost : 6 * 16;
    return 8 * 16 + full * state.full_lane_cost + delta * lane_cost;
}

void Plan::with_budget() {
    const i32 budget = static_cast<i32>(state.config.budget_bytes) * 16;
    // Also for the ticks in which there was nothing to send, so that a debt is paid off meanwhile.
    const i64 ticks = client.budget_tick_known ? state.tick - client.budget_tick : 1;
    client.tokens = static_cast<i32>(std::min<i64>(client.tokens + ticks * budget, i64(budget) * 2));
    client.budget_tick = state.tick;
    client.budget_tick_known = true;
    // The longest unsent first, but a chunk that goes in full although the client holds it already waits twice as long. Else one
    // jam of full states, each several times as large as a delta, keeps every baseline waiting until the ring has dropped it.
    const auto begin = worker.candidates.begin() + from;
    for (WorkerState::Candidate& candidate : std::span(begin, worker.candidates.end())) {
        const ClientChunk& view = client.chunks[candidate.client_chunk];
        const bool first = !view.known || (view.known & ~view.visible);
        const bool delta = (view.known & ~view.limbo) && serves(state.mirror.chunk(view.chunk), view.baseline);
        candidate.urgency = (state.tick - view.sent_tick) * (first || delta ? 2 : 1);
    }
    std::sort(begin, worker.candidates.end(), [](const auto& x, const auto& y) {
        return x.urgency != y.urgency ? x.urgency > y.urgency : x.client_chunk < y.client_chunk;
    });
    u32 chosen = 0;
    i32 left = client.tokens; // assemble takes what was really sent
    for (const WorkerState::Candidate& candidate : std::span(begin, worker.candidates.end())) {
        if (left <= 0)
            break;
        const ClientChunk& view = client.chunks[candidate.client_chunk];
        left -= static_cast<i32>(estimate(view, candidate.lanes));
        ++chosen;
    }
    if (from + chosen < worker.candidates.size()) {
        worker.counts.limits |= limit_budget;
        client.attention = true;
    }
    worker.candidates.resize(from + chosen);
    std::sort(begin, worker.candidates.end(), [](const auto& x, const auto& y) { return x.client_chunk < y.client_chunk; });
}

/// Of lanes that have changed in this tick, or are announced in it, those in which the client sees what has changed.
inline u64 Plan::news(const ClientChunk& view, const Chunk& chunk, u64 lanes) const {
    if (!chunk.scoped_any)
        return lanes;
    return lanes & ~unseen_changes(client, view, chunk, state.tick - 1, state.tick, lanes & ~chunk.scopes->waited);
}

/// Entities to which the client gives priorities of its own: what has changed is pending, whatever others wait for, and the lanes whose
/// period is not over are listed, by chunk.
void Plan::own_priorities() {
    Array<WorkerState::ChunkLanes>& waiting = worker.waiting;
    waiting.reserve(View::priorities_max); // once: later ticks take no memory
    for (const EntityList::Entry& entry : client.priorities) {
        const Slot* const slot = state.slot_of({entry.entity_id, entry.entity_idx, 0});
        if (!slot || slot->place == no_slot)
            continue;
        const u32 number = slot->place / lane_count;
        ClientChunk* const view = find_client_chunk(client, number, 0);
        if (!view)
            continue;
        const Chunk& chunk = state.mirror.chunk(number);
        const u64 bit = u64(1) << slot->place % lane_count;
        const bool changed_now = chunk.dirty_tick == state.tick;
        view->pending |= changed_now ? news(*view, chunk, chunk.dirty & bit) & view->known & view->visible : 0;
        const bool said_at_once = (~view->visible | (changed_now ? chunk.rebound : 0)) & bit;
        if (!said_at_once && !period_is_over(chunk, state.tick, entry.number))
            waiting.push_back({number, bit});
    }
    std::sort(waiting.begin(), waiting.end(), [](const auto& x, const auto& y) { return x.chunk < y.chunk; });
    u32 kept = 0;
    for (u32 i = 0; i < waiting.size(); ++i)
        if (kept && waiting[kept - 1].chunk == waiting[i].chunk)
            waiting[kept - 1].lanes |= waiting[i].lanes;
        else
            waiting[kept++] = waiting[i];
    waiting.resize(kept);
}

/// R9: nothing unsent or unacked.
bool Plan::clean() const {
    if (client.lasting.open_ends())
        return false;
    for (const ClientChunk& view : client.chunks)
        if (view.known != view.visible || view.limbo || unacked(client, view, state.mirror.chunk(view.chunk), state.tick))
            return false;
    return true;
}

/// What the client has to get, as candidates, whose keys are fetched ahead. False: it can be nothing.
/// any_clusters: of a protocol with related fields. Others are spared even the question.
template <bool any_clusters>
bool find_candidates(Plan& plan) {
    ServerState& state = plan.state;
    ClientState& client = plan.client;
    if (client.sending)
        client.sends.clear();
    client.sending = false;
    if (!state.any_dirty && !client.attention && client.clean)
        return false; // idle is free
    client.attention = false;
    const bool any_dirty = state.any_dirty;
    plan.worker.waiting.clear();
    if (!client.priorities.empty())
        plan.own_priorities();
    const WorkerState::ChunkLanes* own = plan.worker.waiting.begin();
    for (u32 index = 0; index < client.chunks.size(); ++index) {
        if (index + 3 < client.chunks.size())
            state.mirror.prefetch(client.chunks[index + 3].chunk);
        ClientChunk& view = client.chunks[index];
        if (any_dirty && (state.dirty_chunks[view.chunk / 64] >> view.chunk % 64 & 1)) {
            const Chunk& chunk = state.mirror.chunk(view.chunk);
            promote_baseline(client, view, chunk, state.tick);
            // Gone is said once, whatever changes meanwhile.
            view.pending |= plan.news(view, chunk, chunk.announced) & view.known & view.visible;
            if (view.in_flight == 0) // R6: otherwise nothing would send it again
                view.pending |= unacked(client, view, chunk, state.tick) & ~waiting_lanes(chunk);
        }
        if constexpr (any_clusters)
            plan.need_formers(view);
        u64 waiting = 0;
        if (own != plan.worker.waiting.end() && own->chunk == view.chunk) {
            waiting = own++->lanes & view.known & ~view.limbo; // what has not arrived yet does not wait
            if (waiting & view.pending) // what has been acknowledged since does not keep it busy
                client.attention |= (waiting & view.pending & unacked(client, view, state.mirror.chunk(view.chunk), state.tick)) != 0;
        }
        if (!wanted(view))
            continue;
        // A pending lane whose state has been acknowledged since needs nothing.
        view.pending &= unacked(client, view, state.mirror.chunk(view.chunk), state.tick);
        if (const u64 lanes = wanted(view) & ~waiting)
            plan.worker.candidates.push_back({any_clusters ? plan.with_mates(view, lanes) : lanes, index, 0});
    }
    if (state.config.budget_bytes && plan.worker.candidates.size() != plan.from)
        plan.with_budget();
    plan.end = plan.worker.candidates.size();
    for (u32 i = plan.from; i < plan.end; ++i)
        plan.prefetch(plan.worker.candidates[i]);
    return true;
}

template <bool any_clusters>
void add_candidates(Plan& plan) {
    for (u32 i = plan.from; i < plan.end; ++i)
        plan.add<any_clusters>(plan.worker.candidates[i]);
    plan.client.sending = plan.client.sends.size() != 0;
    plan.client.clean = plan.from == plan.end && !plan.client.attention && plan.clean();
}

/// Of lanes of which the client sees `components`.
u64 hash_of_chunk(const ServerState& state, const Chunk& chunk, u64 lanes, u32 components) {
    u64 hashes[Protocol::component_count_max][lane_count];
    const u64* tables[Protocol::component_count_max] = {};
    for (u32 c = 0; c < state.layout.component_count; ++c) {
        const OpaqueLanes* opaque = chunk.opaque[c];
        if (!opaque)
            continue;
        tables[c] = hashes[c];
        for (u64 left = lanes; left; left &= left - 1) {
            const u32 lane = static_cast<u32>(std::countr_zero(left));
            hashes[c][lane] = opaque->data[lane] ? opaque_hash(opaque->data[lane], opaque->bytes[lane]) : 0;
        }
    }
    RowState present = state.mirror.present(chunk);
    BlockHeader headers[Protocol::component_count_max];
    if (components != state.layout.all) {
        for (u32 c = 0; c < state.layout.component_count; ++c)
            if (components >> c & 1)
                headers[c] = present.headers[c];
        present.headers = headers;
    }
    return state_hash_lanes(state.layout, chunk.number, *chunk.occupants, present, lanes, tables);
}

/// Sum of the hashes of what the client should hold now.
u64 hash_of_view(const ServerState& state, const ClientState& client) {
    u64 sum = 0;
    for (const ClientChunk& view : client.chunks)
        if (view.known) {
            const Chunk& chunk = state.mirror.chunk(view.chunk);
            each_mask(state, client, view, view.known,
                      [&](u64 lanes, u64 sees) { sum += hash_of_chunk(state, chunk, lanes, seen_of(sees)); });
        }
    return sum;
}

/// After the client's plan: whether it has all there is (R9), and then the hash of that.
void settle(const ServerState& state, ClientState& client) {
    if (!client.clean)
        return;
    client.settled_tick = state.tick;
    client.ever_settled = true;
    if (const u32 hash_ticks = state.config.hash_ticks; hash_ticks && state.tick % hash_ticks == 0) {
        client.hash = hash_of_view(state, client);
        client.hash_tick = state.tick;
        client.hash_wanted = client.hash_waiting = true;
    }
}

template <bool any_clusters>
void plan_clients(ServerState& state) {
    parallel_stage(state, Stage::plan, state.clients.size(), client_grain(state), [&](u32 begin, u32 end, WorkerState& worker, u32 index) {
        worker.candidates.clear();
        // Most clients need one key or two, too few to fetch some while others are looked up: so each one's keys are looked up after the
        // next one's are known.
        std::optional<Plan> before;
        const auto finish = [&] {
            if (!before)
                return;
            add_candidates<any_clusters>(*before);
            settle(state, before->client);
            before.reset();
        };
        for (u32 id = begin; id < end; ++id) {
            ClientState& client = state.clients[id];
            if (state.any_dirty)
                prefetch_clients(state.clients, id, end);
            if (!client.joined)
                continue;
            worker.counts.client_chunks += client.chunks.size();
            Plan plan{state, client, worker, index, worker.candidates.size()};
            if (!find_candidates<any_clusters>(plan)) {
                settle(state, client);
                continue;
            }
            finish();
            before.emplace(plan);
        }
        finish();
    });
}

} // namespace

void run_plan_stage(ServerState& state) {
    state.keys.begin_tick(state.tick);
    state.relations.used() ? plan_clients<true>(state) : plan_clients<false>(state);
}

} // namespace throng
