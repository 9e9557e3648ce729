#pragma once
// How the library runs loops in parallel. A host passes one Executor; three are provided (make_serial_executor,
// make_threads_executor, make_tbb_executor). Results never depend on which one, or on the number of workers.
#include "throng/base.hpp"
#include <type_traits>

namespace throng {

class Executor {
public:
    /// Called for disjoint ranges that cover [0, count). `worker` < worker_count(), and no two calls with the same
    /// worker run at the same time.
    using RangeFn = void (*)(void* context, u32 begin, u32 end, u32 worker);

    virtual ~Executor() = default;
    virtual u32 worker_count() const = 0;
    /// Calls fn over [0, count) in pieces of at most `grain` (>= 1) and returns when all are done. A call from inside a
    /// running piece runs serially on that worker (nested use is allowed). If a piece throws, no new piece is started and
    /// the exception of the lowest-numbered failed piece is rethrown to the caller. Allocates: no, after the first call.
    /// Thread rule: several threads may call the provided executors; their loops take turns (in a host's arena they overlap,
    /// on different workers). `fn` must not wait for a loop that another thread runs on the same executor.
    virtual void parallel_for(u32 count, u32 grain, RangeFn fn, void* context) = 0;
};

/// parallel_for with a callable `f(begin, end, worker)`.
template <class F>
void for_ranges(Executor& executor, u32 count, u32 grain, F&& f) {
    using Fn = std::remove_reference_t<F>;
    executor.parallel_for(
        count, grain,
        [](void* context, u32 begin, u32 end, u32 worker) { (*static_cast<Fn*>(context))(begin, end, worker); },
        const_cast<void*>(static_cast<const void*>(&f)));
}

/// Owns an executor made by the functions below (move only).
class ExecutorHandle {
public:
    ExecutorHandle() = default;
    explicit ExecutorHandle(Executor* executor) : executor_(executor) {}
    ExecutorHandle(ExecutorHandle&& other) noexcept : executor_(std::exchange(other.executor_, nullptr)) {}
    ExecutorHandle& operator=(ExecutorHandle&& other) noexcept {
        std::swap(executor_, other.executor_);
        return *this;
    }
    ~ExecutorHandle() { delete executor_; }
    Executor& operator*() const { return *executor_; }
    Executor* operator->() const { return executor_; }
    Executor* get() const { return executor_; }

private:
    Executor* executor_ = nullptr;
};

/// Everything on the calling thread.
ExecutorHandle make_serial_executor();
/// `workers` >= 1 threads in all, the caller included. Pieces are dealt out statically (worker k takes k, k + n, ...), so a
/// data race shows under a thread sanitizer; idle workers spin for some microseconds before they sleep. Where the system
/// refuses a thread, the executor has as many workers as it got: ask worker_count().
ExecutorHandle make_threads_executor(u32 workers);
/// oneTBB with its own arena of `workers` >= 1 slots (at most 1024). More workers than TBB's process-wide limit (one per
/// core) raise that limit while the executor lives, except where the host set a smaller one through tbb::global_control.
ExecutorHandle make_tbb_executor(u32 workers);
/// oneTBB inside a host's arena: `task_arena` points to a tbb::task_arena that outlives the executor. May be called from
/// inside that arena. worker_count() is the arena's concurrency, but at least 2 (TBB keeps a second slot in reserve).
ExecutorHandle make_tbb_executor_in(void* task_arena);

} // namespace throng
