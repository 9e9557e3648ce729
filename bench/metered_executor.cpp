#include "bench/metered_executor.hpp"
#include <algorithm>
#include <cstring>
#include <ctime>

namespace scenarios {

static double read_clock(clockid_t id) {
    timespec t{};
    clock_gettime(id, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}
double thread_cpu_ns() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }
double wall_ns() { return read_clock(CLOCK_MONOTONIC); }

static thread_local bool inside_piece = false; // nested loops belong to the piece they are called from

MeteredExecutor::MeteredExecutor(throng::Executor& inner) : inner_(inner), workers_(inner.worker_count()), tick_ns_(inner.worker_count()) {
    stages_.reserve(32);
}

void MeteredExecutor::parallel_for(throng::u32 count, throng::u32 grain, RangeFn fn, void* context) {
    if (!running_ || inside_piece) {
        inner_.parallel_for(count, grain, fn, context);
        return;
    }
    serial_ns_ += thread_cpu_ns() - serial_mark_ns_;
    looped_ = true;
    Call call{this, fn, context};
    inner_.parallel_for(
        count, grain,
        [](void* opaque, throng::u32 begin, throng::u32 end, throng::u32 worker) {
            const Call& c = *static_cast<const Call*>(opaque);
            struct Piece { // a piece may throw
                MeteredExecutor& self;
                throng::u32 worker;
                double from;
                ~Piece() {
                    self.workers_[worker].ns += thread_cpu_ns() - from;
                    inside_piece = false;
                }
            };
            inside_piece = true;
            const Piece piece{*c.self, worker, thread_cpu_ns()};
            c.fn(c.context, begin, end, worker);
        },
        &call);
    serial_mark_ns_ = thread_cpu_ns();
}

void MeteredExecutor::start() {
    running_ = true;
    cpu_ns_ = max_worker_ns_ = serial_ns_ = 0;
    std::fill(tick_ns_.begin(), tick_ns_.end(), 0.0);
    for (Worker& w : workers_)
        w.ns = 0;
    stage_ = ~std::size_t(0);
    looped_ = false;
    wall_mark_ns_ = wall_ns();
    serial_mark_ns_ = thread_cpu_ns();
}

// Charges what was measured since the last mark to the current stage.
void MeteredExecutor::close_stage() {
    serial_ns_ += thread_cpu_ns() - serial_mark_ns_;
    const double wall = wall_ns();
    double sum = serial_ns_;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
        sum += workers_[w].ns;
        tick_ns_[w] += workers_[w].ns;
        workers_[w].ns = 0;
    }
    tick_ns_[0] += serial_ns_; // the caller is worker 0
    cpu_ns_ += sum;
    if (stage_ < stages_.size()) {
        stages_[stage_].cpu_ns += sum;
        stages_[stage_].wall_ns += wall - wall_mark_ns_;
        stages_[stage_].parallel = stages_[stage_].parallel || looped_;
    }
    serial_ns_ = 0;
    looped_ = false;
    wall_mark_ns_ = wall_ns();
    serial_mark_ns_ = thread_cpu_ns();
}

void MeteredExecutor::stage(const char* name) {
    close_stage();
    for (stage_ = 0; stage_ < stages_.size(); ++stage_)
        if (stages_[stage_].name == name)
            return;
    stages_.push_back({name});
}

void MeteredExecutor::stop() {
    close_stage();
    running_ = false;
    max_worker_ns_ = *std::max_element(tick_ns_.begin(), tick_ns_.end());
}

} // namespace scenarios
