#include "jobs/executors/worker_scope.hpp"

namespace throng::jobs {
namespace {
thread_local WorkerScope* innermost = nullptr;
} // namespace

WorkerScope::WorkerScope(const Executor& executor, u32 worker) : executor_(executor), worker_(worker), outer_(innermost) {
    innermost = this;
}

WorkerScope::~WorkerScope() { innermost = outer_; }

u32 WorkerScope::current(const Executor& executor) {
    for (const WorkerScope* scope = innermost; scope; scope = scope->outer_)
        if (&scope->executor_ == &executor)
            return scope->worker_;
    return none;
}

} // namespace throng::jobs
