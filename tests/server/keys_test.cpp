#include "src/server/keys.hpp"
#include <doctest/doctest.h>
#include <thread>
#include <vector>

using namespace throng;

TEST_SUITE("server") {
    // The first tick after a jump in load, when many clients join: nothing has been provided for so many keys, and each worker looks at
    // keys that others make.
    TEST_CASE("workers share keys while their blocks grow") {
        constexpr u32 workers = 4, chunks = 30'000; // far more than one block each; the slots do not suffice either
        KeyTable keys(workers, default_allocator());
        for (Tick tick = 1; tick <= 3; ++tick) {
            keys.begin_tick(tick);
            std::vector<const Key*> found[workers];
            std::vector<std::thread> threads;
            for (u32 worker = 0; worker < workers; ++worker)
                threads.emplace_back([&, worker] {
                    for (u32 i = 0; i < chunks; ++i)
                        found[worker].push_back(keys.find(worker, i, tick, i + 1, i % 2 != 0, 1));
                });
            for (std::thread& thread : threads)
                thread.join();
            u32 wrong = 0, different = 0;
            for (u32 worker = 0; worker < workers; ++worker)
                for (u32 i = 0; i < chunks; ++i) {
                    const Key& key = *found[worker][i];
                    wrong += key.chunk != i || key.baseline != tick || key.lanes != i + 1 || key.full != (i % 2 != 0);
                    different += found[worker][i] != found[0][i];
                }
            CHECK(wrong == 0);
            if (tick > 1) { // the table has grown: each key exists once
                CHECK(different == 0);
                CHECK(keys.total() == chunks);
            }
        }
    }
}
