#pragma once
// The stages of a server tick, in order. Each runs in parallel over the thing in its comment and finishes before the next begins;
// within a stage every piece of data has one writer (or is a commutative atomic), so the result is the same for any executor.
#include "src/server/state.hpp"

namespace throng {

void run_acks_stage(ServerState& state);      // over clients: what was acknowledged, what is lost
void run_mark_stage(ServerState& state);      // over pool blocks: changed rows -> touched lanes, moves between cells
void run_structure_stage(ServerState& state); // serial, over structural events only: lanes taken and left
void run_capture_stage(ServerState& state);   // over touched chunks with viewers: quantise, compare, open versions
void run_views_stage(ServerState& state);     // over clients: where each looks, and so which chunks; timed as interest
void run_interest_stage(ServerState& state);  // over clients: which lanes of its chunks each sees
void run_plan_stage(ServerState& state);      // over clients: what to send now, as keys
void run_encode_stage(ServerState& state);    // over keys: one payload each
void run_assemble_stage(ServerState& state);  // over clients: messages of at most one packet, handed to the backend

// Typed messages (typed.cpp).
void find_departed_observers(ServerState& state); // before structure; over clients, if an observed entity ends
void resolve_typed(ServerState& state);           // before assemble; serial
void send_typed(ServerState& state, ClientState& client, ClientId id, WorkerState& worker); // in assemble
void finish_typed(ServerState& state);            // after flush; serial

/// Quantises the present value of a component that is sent once into the lane's fresh row, or stores its bytes. In structure; serial
/// (capture.cpp).
void take_once_value(ServerState& state, u32 place, u32 component);

/// Clients a piece: enough pieces to balance, few enough that taking one costs nothing.
inline u32 client_grain(const ServerState& state) {
    const u32 even = static_cast<u32>(state.clients.size()) / (state.executor->worker_count() * 8);
    return even < 1 ? 1 : even > 64 ? 64 : even;
}

/// Runs f(begin, end, WorkerState&, worker) in parallel and adds the time to the stage's.
template <class F>
void parallel_stage(ServerState& state, Stage stage, u32 count, u32 grain, F&& f) {
    const auto wall = state.config.wall_ns;
    const auto cpu = state.config.thread_cpu_ns;
    const u64 wall_start = wall ? wall() : 0;
    for_ranges(*state.executor, count, grain, [&](u32 begin, u32 end, u32 worker) {
        WorkerState& scratch = state.workers[worker];
        const u64 start = cpu ? cpu() : 0;
        f(begin, end, scratch, worker);
        if (cpu)
            scratch.counts.stages[static_cast<u32>(stage)].cpu_ns += cpu() - start;
    });
    if (wall)
        state.report.stages[static_cast<u32>(stage)].wall_ns += wall() - wall_start;
}

} // namespace throng
