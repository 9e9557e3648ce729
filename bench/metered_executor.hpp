#pragma once
// Measures the CPU of a server tick from outside: an Executor that passes every loop on and takes each worker's thread clock
// around the pieces. What the calling thread does between loops counts as serial work; waiting and spinning do not count.
#include "throng/executor.hpp"
#include <string>
#include <vector>

namespace scenarios {

struct StageFigure {
    std::string name = {};
    double cpu_ns = 0, wall_ns = 0; // CPU summed over workers
    bool parallel = false;
};

/// CLOCK_THREAD_CPUTIME_ID and CLOCK_MONOTONIC, nanoseconds.
double thread_cpu_ns();
double wall_ns();

class MeteredExecutor final : public throng::Executor {
public:
    /// `inner` must outlive this.
    explicit MeteredExecutor(throng::Executor& inner);
    throng::u32 worker_count() const override { return inner_.worker_count(); }
    void parallel_for(throng::u32 count, throng::u32 grain, RangeFn fn, void* context) override;

    /// Between start and stop, on one thread: time counts. start clears the tick's figures, not the stages' sums.
    void start();
    /// What follows belongs to this stage. Names are compared by content; order of first use is kept.
    void stage(const char* name);
    void stop();

    /// Of the last start..stop.
    double cpu_ns() const { return cpu_ns_; }
    double max_worker_ns() const { return max_worker_ns_; }
    /// Sums since construction or clear_stages().
    const std::vector<StageFigure>& stages() const { return stages_; }
    void clear_stages() { stages_.clear(); }

private:
    struct alignas(128) Worker {
        double ns = 0;
    };
    struct Call {
        MeteredExecutor* self;
        RangeFn fn;
        void* context;
    };
    void close_stage();

    throng::Executor& inner_;
    std::vector<Worker> workers_;
    std::vector<double> tick_ns_;
    std::vector<StageFigure> stages_ = {};
    std::size_t stage_ = 0;
    double serial_mark_ns_ = 0, wall_mark_ns_ = 0;
    double serial_ns_ = 0, cpu_ns_ = 0, max_worker_ns_ = 0;
    bool running_ = false, looped_ = false;
};

} // namespace scenarios
