// oneTBB. A worker's number is its slot in the arena, which is unique among the threads inside the arena at one time.
//
// TBB runs one thread per core in the whole process unless told otherwise. An executor with an arena of its own and more
// workers than that raises the limit while it lives (or else four workers on two cores would never run as four). Where a
// host set a tbb::global_control, the smallest one counts, so that ours lifts nothing; in a host's arena there is none.
#include "jobs/executors/first_failure.hpp"
#include "jobs/executors/worker_scope.hpp"
#include "throng/assert.hpp"
#include "throng/executor.hpp"
#include <algorithm>
#include <mutex>
#include <optional>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

namespace throng {
namespace {

void run_in_arena(const Executor& executor, tbb::task_arena& arena, u32 worker_count, const jobs::Loop& loop) {
    jobs::FirstFailure failure;
    const auto run_pieces = [&](const tbb::blocked_range<u64>& pieces) {
        const int slot = tbb::this_task_arena::current_thread_index();
        THRONG_ASSERT(slot >= 0 && static_cast<u32>(slot) < worker_count);
        const u32 worker = static_cast<u32>(slot);
        const jobs::WorkerScope scope(executor, worker);
        u64 piece = pieces.begin();
        std::exception_ptr exception;
        try {
            // A piece that waits for TBB work of its own must not be given another piece meanwhile: that one would run
            // as the same worker, in the middle of this one.
            tbb::this_task_arena::isolate([&] {
                for (; piece < pieces.end() && !failure.stopped(); ++piece)
                    loop.run(piece, worker);
            });
        } catch (...) {
            exception = std::current_exception();
        }
        if (exception)
            failure.record(piece, std::move(exception));
    };
    arena.execute([&] {
        // And a caller that waits for its loop must not be given an unrelated task of the host.
        tbb::this_task_arena::isolate([&] { tbb::parallel_for(tbb::blocked_range<u64>(0, loop.piece_count()), run_pieces); });
    });
    failure.rethrow();
}

class OwnArenaExecutor final : public Executor {
public:
    explicit OwnArenaExecutor(u32 workers)
        : worker_count_(std::min(workers, max_workers)), arena_(static_cast<int>(worker_count_)) {
        constexpr auto limit = tbb::global_control::max_allowed_parallelism;
        if (worker_count_ > tbb::global_control::active_value(limit))
            raised_limit_.emplace(limit, worker_count_);
        arena_.initialize();
    }

    u32 worker_count() const override { return worker_count_; }

    void parallel_for(u32 count, u32 grain, RangeFn fn, void* context) override {
        THRONG_ASSERT(grain >= 1);
        const jobs::Loop loop{count, grain, fn, context};
        if (const u32 worker = jobs::WorkerScope::current(*this); worker != jobs::WorkerScope::none)
            return loop.run_all(worker);
        if (count == 0)
            return;
        // A second outside caller of a full arena would make TBB add a helper thread beyond the slots of a one-slot
        // arena; taking turns keeps every number below worker_count.
        const std::lock_guard turn(turn_);
        run_in_arena(*this, arena_, worker_count_, loop);
    }

private:
    static constexpr u32 max_workers = 1024;
    u32 worker_count_;
    std::mutex turn_;
    std::optional<tbb::global_control> raised_limit_;
    tbb::task_arena arena_;
};

class HostArenaExecutor final : public Executor {
public:
    // TBB gives even a one-slot arena a second slot (for the thread that runs what is enqueued there).
    explicit HostArenaExecutor(tbb::task_arena& arena)
        : arena_(arena), worker_count_(static_cast<u32>(std::max(arena.max_concurrency(), 2))) {}

    u32 worker_count() const override { return worker_count_; }

    void parallel_for(u32 count, u32 grain, RangeFn fn, void* context) override {
        THRONG_ASSERT(grain >= 1);
        const jobs::Loop loop{count, grain, fn, context};
        if (const u32 worker = jobs::WorkerScope::current(*this); worker != jobs::WorkerScope::none)
            return loop.run_all(worker);
        // No turns here: a lock would block a thread of the host's arena. Slots are unique, so two loops may overlap.
        if (count != 0)
            run_in_arena(*this, arena_, worker_count_, loop);
    }

private:
    tbb::task_arena& arena_;
    u32 worker_count_;
};

} // namespace

ExecutorHandle make_tbb_executor(u32 workers) {
    THRONG_ASSERT(workers >= 1);
    return ExecutorHandle(new OwnArenaExecutor(workers));
}

ExecutorHandle make_tbb_executor_in(void* task_arena) {
    THRONG_ASSERT(task_arena);
    return ExecutorHandle(new HostArenaExecutor(*static_cast<tbb::task_arena*>(task_arena)));
}

} // namespace throng
