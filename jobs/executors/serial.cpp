#include "jobs/executors/worker_scope.hpp"
#include "throng/assert.hpp"
#include "throng/executor.hpp"
#include <mutex>

namespace throng {
namespace {

class SerialExecutor final : public Executor {
public:
    u32 worker_count() const override { return 1; }

    void parallel_for(u32 count, u32 grain, RangeFn fn, void* context) override {
        THRONG_ASSERT(grain >= 1);
        // There is only worker 0, so callers on different threads take turns; recursive for nested calls.
        const std::lock_guard turn(turn_);
        jobs::Loop{count, grain, fn, context}.run_all(0);
    }

private:
    std::recursive_mutex turn_;
};

} // namespace

ExecutorHandle make_serial_executor() { return ExecutorHandle(new SerialExecutor); }

} // namespace throng
