#pragma once
// The exception rule of parallel_for, shared by the executors that really run in parallel.
#include "throng/base.hpp"
#include <atomic>
#include <exception>
#include <mutex>

namespace throng::jobs {

/// Keeps the exception of the lowest-numbered failed piece of one loop. Thread rule: everything but rethrow() may be
/// called from any worker.
class FirstFailure {
public:
    /// True once a piece failed: start no other.
    bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

    /// Call after the catch block, not inside it: then the reference given here is the only one of this thread, and the
    /// mutex orders the destruction of an exception that loses.
    void record(u64 piece, std::exception_ptr exception) {
        stopped_.store(true, std::memory_order_relaxed);
        const std::lock_guard lock(mutex_);
        if (!exception_ || piece < piece_) {
            piece_ = piece;
            exception_.swap(exception);
        }
    }

    /// After all pieces ended; throws if one failed.
    void rethrow() {
        if (exception_)
            std::rethrow_exception(std::move(exception_));
    }

private:
    std::atomic<bool> stopped_{false};
    std::mutex mutex_;
    u64 piece_ = 0;
    std::exception_ptr exception_;
};

} // namespace throng::jobs
