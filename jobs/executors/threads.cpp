// Persistent threads and a static deal of pieces. The caller is worker 0. Each other worker has a gate of its own, so a
// loop of few pieces wakes only the workers that get one, and nobody reads a loop that he has no part in.
#include "jobs/executors/first_failure.hpp"
#include "jobs/executors/worker_scope.hpp"
#include "throng/assert.hpp"
#include "throng/executor.hpp"
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace throng {
namespace {

// A pause takes 10 to 140 cycles, so this is between 1 and 30 microseconds: longer than the serial gap between two
// loops of a tick, shorter than a sleep and a wake-up.
constexpr u32 spin_pauses = 700;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/// A counter that one thread waits on and another one moves: first by spinning, then by sleeping.
class alignas(128) Gate {
public:
    u32 value() const { return value_.load(std::memory_order_acquire); }

    /// Returns once the value differs from `seen`. One waiter at a time.
    u32 wait(u32 seen, u32 spins) {
        for (u32 i = 0; i < spins; ++i) {
            if (const u32 now = value(); now != seen)
                return now;
            pause();
        }
        std::unique_lock lock(mutex_);
        // Either the mover sees this flag or the waiter sees the new value: both are in the single total order.
        sleeping_.store(true, std::memory_order_seq_cst);
        u32 now = value_.load(std::memory_order_seq_cst);
        while (now == seen) {
            wake_.wait(lock);
            now = value_.load(std::memory_order_seq_cst);
        }
        sleeping_.store(false, std::memory_order_relaxed);
        return now;
    }

    void move() {
        value_.fetch_add(1, std::memory_order_seq_cst);
        if (sleeping_.load(std::memory_order_seq_cst)) {
            { const std::lock_guard lock(mutex_); } // the waiter is inside wake_.wait by now
            wake_.notify_one();
        }
    }

private:
    std::atomic<u32> value_{0};
    std::atomic<bool> sleeping_{false};
    std::mutex mutex_;
    std::condition_variable wake_;
};

class ThreadsExecutor final : public Executor {
public:
    explicit ThreadsExecutor(u32 workers) : gates_(new Gate[workers]), threads_(new std::thread[workers]) {
        // With more workers than cores a spinning worker takes the core from one that has work.
        const u32 cores = std::thread::hardware_concurrency();
        spins_ = cores != 0 && workers > cores ? spin_pauses / 32 : spin_pauses;
        for (; worker_count_ < workers; ++worker_count_) {
            try {
                threads_[worker_count_] = std::thread([this, worker = worker_count_] { work(worker); });
            } catch (const std::system_error&) {
                break; // the system has no more threads: go on with those that exist
            }
        }
    }

    ~ThreadsExecutor() override {
        loop_ = nullptr;
        for (u32 worker = 1; worker < worker_count_; ++worker)
            gates_[worker].move();
        for (u32 worker = 1; worker < worker_count_; ++worker)
            threads_[worker].join();
    }

    u32 worker_count() const override { return worker_count_; }

    void parallel_for(u32 count, u32 grain, RangeFn fn, void* context) override {
        THRONG_ASSERT(grain >= 1);
        const jobs::Loop loop{count, grain, fn, context};
        if (const u32 worker = jobs::WorkerScope::current(*this); worker != jobs::WorkerScope::none)
            return loop.run_all(worker);
        if (count == 0)
            return;

        const std::lock_guard turn(turn_); // callers on different threads take turns
        const u32 helpers = static_cast<u32>(std::min<u64>(worker_count_, loop.piece_count())) - 1;
        if (helpers == 0) {
            const jobs::WorkerScope scope(*this, 0);
            return loop.run_all(0);
        }
        jobs::FirstFailure failure;
        loop_ = &loop;
        failure_ = &failure;
        unfinished_.store(helpers, std::memory_order_relaxed); // published by the gates
        const u32 seen = finished_.value();
        for (u32 worker = 1; worker <= helpers; ++worker)
            gates_[worker].move();
        run_share(0);
        finished_.wait(seen, spins_);
        failure.rethrow();
    }

private:
    void work(u32 worker) {
        Gate& gate = gates_[worker];
        for (u32 seen = 0;;) {
            seen = gate.wait(seen, spins_);
            if (!loop_)
                return;
            run_share(worker);
            // The last touch of loop_ and failure_ is before this; acq_rel passes on what every worker wrote.
            if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1)
                finished_.move();
        }
    }

    void run_share(u32 worker) {
        const jobs::WorkerScope scope(*this, worker);
        const jobs::Loop& loop = *loop_;
        jobs::FirstFailure& failure = *failure_;
        const u64 pieces = loop.piece_count();
        u64 piece = worker;
        std::exception_ptr exception;
        try {
            for (; piece < pieces && !failure.stopped(); piece += worker_count_)
                loop.run(piece, worker);
        } catch (...) {
            exception = std::current_exception();
        }
        if (exception)
            failure.record(piece, std::move(exception));
    }

    u32 spins_ = 0;
    u32 worker_count_ = 1;
    std::mutex turn_;
    // Written by the caller while all workers wait; a worker reads them after its gate moved.
    const jobs::Loop* loop_ = nullptr;
    jobs::FirstFailure* failure_ = nullptr;
    alignas(128) std::atomic<u32> unfinished_{0};
    Gate finished_;
    std::unique_ptr<Gate[]> gates_; // [0] is unused: worker 0 is the caller
    std::unique_ptr<std::thread[]> threads_;
};

} // namespace

ExecutorHandle make_threads_executor(u32 workers) {
    THRONG_ASSERT(workers >= 1);
    return ExecutorHandle(new ThreadsExecutor(workers));
}

} // namespace throng
