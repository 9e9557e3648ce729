// The contract of throng/executor.hpp, for every executor and 1, 2 and 4 workers. Cases that run oneTBB carry "[tbb]" in
// their names: a thread sanitizer reports false races inside the distribution's library.
#include "throng/executor.hpp"
#include "tests/allocation_count.hpp"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <thread>
#include <vector>

using throng::ExecutorHandle;
using throng::u32;
using throng::u64;

namespace {

using Make = ExecutorHandle (*)(u32 workers);
ExecutorHandle make_serial(u32) { return throng::make_serial_executor(); }

struct Range {
    u32 begin, end, worker;
};

/// Fails if two calls of one worker overlap in time.
class WorkerGuards {
public:
    explicit WorkerGuards(u32 workers) : workers_(workers), busy_(new std::atomic<int>[workers]()) {}
    template <class F>
    void hold(u32 worker, F&& f) {
        if (worker >= workers_ || busy_[worker].fetch_add(1) != 0)
            broken_ = true;
        f();
        if (worker < workers_)
            busy_[worker].fetch_sub(1);
    }
    bool broken() const { return broken_; }

private:
    u32 workers_;
    std::unique_ptr<std::atomic<int>[]> busy_;
    std::atomic<bool> broken_{false};
};

/// Some work that the optimiser keeps, so that pieces overlap.
void work_a_little() {
    for (volatile int i = 0; i < 2000;)
        i = i + 1;
}

/// A plain array, one writer per index: the thread sanitizer sees a double visit and a missing hand-over.
void check_cover(throng::Executor& executor, u32 count, u32 grain) {
    CAPTURE(count);
    CAPTURE(grain);
    std::vector<u32> visits(count);
    std::atomic<u32> pieces{0};
    std::atomic<bool> bad_range{false};
    WorkerGuards guards(executor.worker_count());
    throng::for_ranges(executor, count, grain, [&](u32 begin, u32 end, u32 worker) {
        guards.hold(worker, [&] {
            if (begin >= end || end > count || end - begin > grain)
                bad_range = true;
            for (u32 i = begin; i < end && i < count; ++i)
                ++visits[i];
            ++pieces;
        });
    });
    CHECK_FALSE(guards.broken());
    CHECK_FALSE(bad_range);
    CHECK(std::count(visits.begin(), visits.end(), 1u) == static_cast<std::ptrdiff_t>(count));
    CHECK(pieces >= (u64{count} + grain - 1) / grain);
}

void check_contract(throng::Executor& executor) {
    {
        INFO("every index once");
        for (const u32 count : {0u, 1u, 2u, 3u, 63u, 64u, 1000u, 4097u})
            for (const u32 grain : {1u, 2u, 7u, 64u, 5000u})
                check_cover(executor, count, grain);
    }
    {
        INFO("the largest count does not wrap");
        std::atomic<u64> sum{0};
        std::atomic<u32> last_end{0};
        throng::for_ranges(executor, 0xffffffffu, 0x40000001u, [&](u32 begin, u32 end, u32) {
            sum += end - begin;
            if (end == 0xffffffffu)
                ++last_end;
        });
        CHECK(sum == 0xffffffffu);
        CHECK(last_end == 1);
        throng::for_ranges(executor, 0xffffffffu, 0xffffffffu, [&](u32 begin, u32 end, u32) { sum += end - begin; });
        CHECK(sum == 2 * u64{0xffffffffu});
    }
    {
        INFO("a worker runs one piece at a time");
        WorkerGuards guards(executor.worker_count());
        for (int round = 0; round < 20; ++round)
            throng::for_ranges(executor, 64, 1, [&](u32, u32, u32 worker) { guards.hold(worker, work_a_little); });
        CHECK_FALSE(guards.broken());
    }
    {
        INFO("loops see what earlier loops wrote");
        std::vector<u32> values(512), next(512);
        for (u32 round = 0; round < 50; ++round) {
            throng::for_ranges(executor, 512, 8, [&](u32 begin, u32 end, u32) {
                for (u32 i = begin; i < end; ++i)
                    next[i] = values[511 - i] + i; // that another worker wrote
            });
            values.swap(next);
        }
        CHECK(std::count(values.begin(), values.end(), 25 * 511u) == 512);
    }
    {
        INFO("a nested call runs inline, in order, as the same worker");
        std::atomic<u32> inner_total{0};
        std::atomic<bool> elsewhere{false};
        throng::for_ranges(executor, 40, 1, [&](u32, u32, u32 worker) {
            const std::thread::id self = std::this_thread::get_id();
            u32 next = 0;
            throng::for_ranges(executor, 10, 3, [&](u32 begin, u32 end, u32 inner) {
                if (inner != worker || std::this_thread::get_id() != self || begin != next)
                    elsewhere = true;
                next = end;
                throng::for_ranges(executor, end - begin, 1, [&](u32, u32, u32) { ++inner_total; });
            });
        });
        CHECK(inner_total == 400);
        CHECK_FALSE(elsewhere);
    }
    {
        INFO("an exception reaches the caller, once the pieces that run have ended");
        std::atomic<int> running{0};
        const auto one_fails = [&](u32 failing) {
            throng::for_ranges(executor, 100, 1, [&](u32 begin, u32, u32) {
                ++running;
                work_a_little();
                --running;
                if (begin == failing)
                    throw std::runtime_error("piece " + std::to_string(begin));
            });
        };
        for (const u32 failing : {0u, 1u, 50u, 99u}) {
            CHECK_THROWS_WITH_AS(one_fails(failing), ("piece " + std::to_string(failing)).c_str(), std::runtime_error);
            CHECK(running == 0);
            check_cover(executor, 1000, 7); // usable afterwards
        }
    }
    {
        INFO("the lowest-numbered failed piece wins");
        for (int round = 0; round < 20; ++round) {
            std::atomic<u32> lowest{~0u};
            u32 caught = 0;
            std::atomic<u32> started{0};
            try {
                throng::for_ranges(executor, 400, 2, [&](u32 begin, u32, u32) {
                    ++started;
                    work_a_little();
                    for (u32 now = lowest; begin < now && !lowest.compare_exchange_weak(now, begin);) {
                    }
                    throw begin;
                });
                FAIL("nothing was thrown");
            } catch (const u32 begin) {
                caught = begin;
            }
            CHECK(caught == lowest);
            CHECK(started <= executor.worker_count()); // each worker stops at its own failure
        }
    }
    {
        INFO("an exception of a nested call passes through");
        const auto nested_failure = [&] {
            throng::for_ranges(executor, 8, 1, [&](u32, u32, u32) {
                throng::for_ranges(executor, 8, 1, [](u32 begin, u32, u32) {
                    if (begin == 3)
                        throw std::logic_error("inner");
                });
            });
        };
        CHECK_THROWS_WITH_AS(nested_failure(), "inner", std::logic_error);
        check_cover(executor, 100, 1);
    }
    {
        INFO("callers on two threads do not disturb each other");
        WorkerGuards guards(executor.worker_count());
        std::atomic<u32> done{0};
        const auto call = [&] {
            for (int round = 0; round < 50; ++round)
                throng::for_ranges(executor, 20, 1, [&](u32, u32, u32 worker) { guards.hold(worker, [&] { ++done; }); });
        };
        std::thread other(call);
        call();
        other.join();
        CHECK(done == 2 * 50 * 20);
        CHECK_FALSE(guards.broken());
    }
}

void check_all_worker_counts(Make make) {
    for (const u32 workers : {1u, 2u, 4u}) {
        CAPTURE(workers);
        const ExecutorHandle executor = make(workers);
        check_contract(*executor);
    }
}

u64 allocations_of_loops(throng::Executor& executor) {
    std::vector<u64> sums(executor.worker_count() * 16);
    const auto loop = [&] {
        throng::for_ranges(executor, 1000, 10, [&](u32 begin, u32 end, u32 worker) {
            for (u32 i = begin; i < end; ++i)
                sums[worker * 16] += i;
            throng::for_ranges(executor, 3, 1, [&](u32, u32, u32 inner) { ++sums[inner * 16 + 1]; });
        });
    };
    for (int i = 0; i < 10; ++i)
        loop();
    const u64 before = throng::tests::allocation_count();
    for (int i = 0; i < 200; ++i)
        loop();
    return throng::tests::allocation_count() - before;
}

} // namespace

TEST_SUITE("jobs") {
    TEST_CASE("serial executor") {
        const ExecutorHandle executor = make_serial(1);
        CHECK(executor->worker_count() == 1);
        check_contract(*executor);
    }
    TEST_CASE("threads executor, contract") { check_all_worker_counts(throng::make_threads_executor); }
    TEST_CASE("[tbb] oneTBB executor, contract") { check_all_worker_counts(throng::make_tbb_executor); }
    TEST_CASE("[tbb] oneTBB in the host's arena, contract") {
        for (const int slots : {1, 2, 4}) {
            CAPTURE(slots);
            const tbb::global_control host_limit(tbb::global_control::max_allowed_parallelism, 4);
            tbb::task_arena arena(slots);
            const ExecutorHandle executor = throng::make_tbb_executor_in(&arena);
            CHECK(executor->worker_count() >= static_cast<u32>(slots));
            check_contract(*executor);
        }
    }

    TEST_CASE("worker counts are what was asked for") {
        for (const u32 workers : {1u, 2u, 4u})
            CHECK(throng::make_threads_executor(workers)->worker_count() == workers);
    }
    TEST_CASE("[tbb] worker counts are what was asked for") {
        for (const u32 workers : {1u, 2u, 4u})
            CHECK(throng::make_tbb_executor(workers)->worker_count() == workers);
    }

    TEST_CASE("threads executor deals pieces statically") {
        const ExecutorHandle executor = throng::make_threads_executor(3);
        std::vector<u32> worker_of(100);
        const std::thread::id caller = std::this_thread::get_id();
        std::atomic<bool> zero_is_caller{true};
        throng::for_ranges(*executor, 300, 3, [&](u32 begin, u32, u32 worker) {
            worker_of[begin / 3] = worker;
            if ((worker == 0) != (std::this_thread::get_id() == caller))
                zero_is_caller = false;
        });
        bool dealt = true;
        for (u32 piece = 0; piece < 100; ++piece)
            dealt = dealt && worker_of[piece] == piece % 3;
        CHECK(dealt);
        CHECK(zero_is_caller);
    }
    TEST_CASE("threads executor wakes workers that went to sleep") {
        const ExecutorHandle executor = throng::make_threads_executor(4);
        for (int round = 0; round < 5; ++round) {
            std::this_thread::sleep_for(std::chrono::milliseconds(3)); // far beyond the spinning
            check_cover(*executor, 16, 1);
        }
    }
    TEST_CASE("one executor inside a piece of another, and back") {
        const ExecutorHandle outer = throng::make_threads_executor(2);
        const ExecutorHandle inner = throng::make_threads_executor(2);
        std::atomic<u32> calls{0};
        throng::for_ranges(*outer, 8, 1, [&](u32, u32, u32 worker) {
            const std::thread::id self = std::this_thread::get_id();
            throng::for_ranges(*inner, 1, 1, [&](u32, u32, u32) {
                throng::for_ranges(*outer, 2, 1, [&](u32, u32, u32 again) {
                    if (again == worker && std::this_thread::get_id() == self)
                        ++calls;
                });
            });
        });
        CHECK(calls == 16);
    }
    TEST_CASE("[tbb] a piece that waits for other TBB work is given no second piece") {
        for (const bool host_arena : {false, true}) {
            tbb::task_arena arena(2);
            const ExecutorHandle executor = host_arena ? throng::make_tbb_executor_in(&arena) : throng::make_tbb_executor(2);
            WorkerGuards guards(executor->worker_count());
            std::atomic<u32> done{0};
            throng::for_ranges(*executor, 200, 1, [&](u32, u32, u32 worker) {
                guards.hold(worker, [&] { tbb::parallel_for(0, 8, [&](int) { work_a_little(), ++done; }); });
            });
            CHECK(done == 1600);
            CHECK_FALSE(guards.broken());
        }
    }
    TEST_CASE("[tbb] the host's own tasks may call the executor of their arena") {
        const tbb::global_control host_limit(tbb::global_control::max_allowed_parallelism, 4);
        tbb::task_arena arena(4);
        const ExecutorHandle executor = throng::make_tbb_executor_in(&arena);
        WorkerGuards guards(executor->worker_count());
        std::atomic<u32> done{0};
        arena.execute([&] {
            tbb::parallel_for(0, 16, [&](int) {
                throng::for_ranges(*executor, 10, 1, [&](u32, u32, u32 worker) { guards.hold(worker, [&] { ++done; }); });
            });
        });
        CHECK(done == 160);
        CHECK_FALSE(guards.broken());
    }

    TEST_CASE("no allocation per call" * doctest::skip(!throng::tests::counts_allocations)) {
        CHECK(throng::tests::allocation_count() > 0); // the counter is at work
        CHECK(allocations_of_loops(*make_serial(1)) == 0);
        for (const u32 workers : {1u, 2u, 4u})
            CHECK(allocations_of_loops(*throng::make_threads_executor(workers)) == 0);
    }
    TEST_CASE("[tbb] no allocation per call through operator new" * doctest::skip(!throng::tests::counts_allocations)) {
        for (const u32 workers : {1u, 2u, 4u})
            CHECK(allocations_of_loops(*throng::make_tbb_executor(workers)) == 0);
    }
    TEST_CASE("a handle owns and moves its executor") {
        ExecutorHandle first = throng::make_threads_executor(2);
        throng::Executor* const raw = first.get();
        ExecutorHandle second = std::move(first);
        CHECK(first.get() == nullptr);
        CHECK(second.get() == raw);
        first = std::move(second);
        check_cover(*first, 10, 1);
    }
}
