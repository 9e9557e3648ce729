// Marks of parallel loops, while bodies mark rows of other workers' words: none gets lost.
#include "support.hpp"
#include "throng/ecs.hpp"
#include <barrier>
#include <doctest/doctest.h>

using namespace throng;
using namespace ecs_test;

namespace {
struct Near {
    u32 writes;
};
struct Far {
    u32 writes;
};
struct Other {
    u32 value;
};
} // namespace
template <>
inline constexpr bool throng::direct_index<Far> = true;
template <>
inline constexpr bool throng::direct_index<Other> = true;

namespace {
/// Two threads that begin each pair of pieces together.
class PairsForTest : public Executor {
public:
    u32 worker_count() const override { return 2; }
    void parallel_for(u32 count, u32 grain, RangeFn fn, void* context) override {
        std::barrier together(2);
        const auto work = [&](u32 worker) {
            for (u64 begin = u64(worker) * grain; begin < count; begin += u64(2) * grain) {
                together.arrive_and_wait();
                fn(context, static_cast<u32>(begin), static_cast<u32>(std::min<u64>(begin + grain, count)), worker);
            }
            together.arrive_and_drop();
        };
        std::thread second([&] { work(1); });
        work(0);
        second.join();
    }
};

/// Rows of which the even ones are the loop's own, and each odd one is written by the worker of a row in a piece that runs at the same
/// time: the word of the one is that of the other.
template <class T>
class Exchange {
public:
    static constexpr u32 rows = 255 * 64, rounds = 200;
    static constexpr u32 apart = 32 * 64; ///< rows of a piece: 255 words for two workers

    Exchange() {
        for (u32 i = 0; i < rows; ++i)
            entities_.push_back(world.spawn(T{0}));
    }
    /// Gives Other to the even rows, and to more entities than have T: the loop is over the rows of T.
    void add_others() {
        for (u32 i = 0; i < rows; i += 2)
            world.add<Other>(entities_[i], i);
        for (u32 i = 0; i < rows; ++i)
            world.spawn(Other{i});
    }
    /// For the body of an even row: writes an odd one.
    void write_far(u32 even) {
        const u32 victim = (even + 1) ^ apart;
        if (victim < rows)
            ++world.mut_shared<T>(entities_[victim])->writes;
    }
    /// The number of rows without a mark, and of those that were not written once a round, over all rounds of loop().
    template <class F>
    u32 lost(F&& loop) {
        u32 wrong = 0;
        for (u32 round = 1; round <= rounds; ++round) {
            world.clear_changes();
            loop();
            const Pool<T>& pool = *world.find_pool<T>();
            for (u32 i = 0; i < rows; ++i) {
                const bool chosen = i % 2 == 0 || (i ^ apart) < rows;
                wrong += pool.changed(i) != chosen || pool[i].writes != (chosen ? round : 0);
            }
        }
        return wrong;
    }
    World world{WorldOptions{}};
    PairsForTest executor;

private:
    std::vector<Entity> entities_;
};
} // namespace

TEST_SUITE("ecs") {
    TEST_CASE("no mark is lost where a parallel each_row writes single rows, and its bodies rows of others") {
        Exchange<Near> x;
        CHECK(x.lost([&] {
            x.world.each_row<Near>(x.executor, [&](Row<Near> row) {
                if (row.dense() % 2 != 0)
                    return;
                ++row.mut().writes;
                x.write_far(row.dense());
            });
        }) == 0);
    }
    TEST_CASE("no mark is lost where a parallel each_block_mut writes parts of words, and its bodies rows of others") {
        Exchange<Near> x;
        x.add_others();
        CHECK(x.lost([&] {
            x.world.each_block_mut<Near, const Other>(x.executor, [&](std::span<Near> near, std::span<const Other> others) {
                for (u32 i = 0; i < near.size(); ++i) {
                    ++near[i].writes;
                    x.write_far(others[i].value);
                }
            });
        }) == 0);
    }
    TEST_CASE("no mark is lost where a parallel each_mut finds rows by direct indexes, and its bodies write rows of others") {
        Exchange<Far> x;
        x.add_others();
        CHECK(x.lost([&] {
            x.world.each_mut<Far, const Other>(x.executor, [&](Far& far, const Other& other) {
                ++far.writes;
                x.write_far(other.value);
            });
        }) == 0);
    }
}
