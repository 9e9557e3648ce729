#pragma once
// How the ECS cases are timed. Thread CPU time, so that what else runs on the machine shows through caches only; parallel loops
// take wall time.
#include "bench/random.hpp"
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ecs_bench {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// Runs a case once on what was prepared for it; nanoseconds an operation (bytes an entity in ecs_memory).
using Measure = std::function<double()>;

struct Case {
    const char* scenario = "";
    std::string name = {};
    u32 entities = 0;
    bool cold = false; // caches are emptied before; else what fits in them is there
    u32 workers = 1;
    std::function<Measure()> prepare = {};
};

/// 1M becomes 20,000 and 100k becomes 5,000 in quick runs.
struct Scale {
    bool quick = false;
    u32 million() const { return quick ? 20'000 : 1'000'000; }
    u32 hundred_thousand() const { return quick ? 5'000 : 100'000; }
};

class Stopwatch {
public:
    explicit Stopwatch(clockid_t clock = CLOCK_THREAD_CPUTIME_ID) : clock_(clock), start_ns_(now()) {}
    double ns() const { return now() - start_ns_; }

private:
    double now() const {
        timespec time{};
        clock_gettime(clock_, &time);
        return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
    }
    clockid_t clock_;
    double start_ns_;
};

/// The compiler must believe that the memory behind `pointer` is read and written here.
inline void keep(const void* pointer) {
    asm volatile("" : : "g"(pointer) : "memory");
}

/// Empties the caches of data: reads more than they hold.
inline void evict_caches() {
    static std::vector<u64> filler(std::size_t(96) << 17, 1); // 96 MiB
    u64 sum = 0;
    for (std::size_t i = 0; i < filler.size(); i += 8)
        sum += filler[i]++;
    keep(&sum);
}

template <class T>
void shuffle(std::vector<T>& values, u64 seed) {
    scenarios::Random random(seed);
    for (std::size_t i = values.size(); i > 1; --i)
        std::swap(values[i - 1], values[random.below(static_cast<u32>(i))]);
}

/// Mean time of `pass` an operation, over as many passes as `operations` asks for, after one that is not timed.
template <class F>
double timed_passes(u32 operations, F&& pass, clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
    pass();
    const u32 passes = 4'000'000 / operations + 1;
    const Stopwatch watch(clock);
    for (u32 i = 0; i < passes; ++i)
        pass();
    return watch.ns() / passes / operations;
}

/// Bytes that the program has taken from its allocator and not given back. Set by the program.
inline u64 (*live_bytes)() = nullptr;

} // namespace ecs_bench
