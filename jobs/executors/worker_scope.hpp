#pragma once
// Which worker the current thread is, and of which executor: what makes a nested call run inline.
#include "throng/executor.hpp"

namespace throng::jobs {

/// Lives on the stack of a thread while it runs pieces of `executor` as `worker`. Scopes of one thread form a chain, so
/// that a piece of one executor may use another one and come back to the first.
class WorkerScope {
public:
    static constexpr u32 none = ~u32{0};

    WorkerScope(const Executor& executor, u32 worker);
    ~WorkerScope();
    WorkerScope(const WorkerScope&) = delete;
    WorkerScope& operator=(const WorkerScope&) = delete;

    /// The worker of `executor` that the calling thread is at this moment, or `none`.
    static u32 current(const Executor& executor);

private:
    const Executor& executor_;
    u32 worker_;
    WorkerScope* outer_;
};

/// One parallel_for, cut into pieces. Piece numbers are 64 bits wide so that stepping past the last one cannot wrap.
struct Loop {
    u32 count;
    u32 grain;
    Executor::RangeFn fn;
    void* context;

    u64 piece_count() const { return u64{count} / grain + (count % grain != 0); }
    void run(u64 piece, u32 worker) const {
        const u64 begin = piece * grain;
        const u64 end = begin + grain;
        fn(context, static_cast<u32>(begin), end < count ? static_cast<u32>(end) : count, worker);
    }
    /// All pieces in order. The first exception is that of the lowest failed piece, so it simply leaves.
    void run_all(u32 worker) const {
        for (u64 piece = 0, pieces = piece_count(); piece < pieces; ++piece)
            run(piece, worker);
    }
};

} // namespace throng::jobs
