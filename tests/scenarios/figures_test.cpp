#include "bench/figures.hpp"
#include "bench/instruction_counter.hpp"
#include <cmath>
#include <doctest/doctest.h>

using namespace scenarios;

TEST_SUITE("scenarios") {
    TEST_CASE("median and percentile") {
        CHECK(median({}) == 0);
        CHECK(median({3, 1, 2}) == 2);
        CHECK(median({4, 1, 2, 3}) == 2.5);
        CHECK(percentile({1, 2, 3, 4}, 0.5) == 2);
        CHECK(percentile({1, 2, 3, 4}, 0.99) == 4);
        CHECK(percentile({5}, 0) == 5);
    }

    TEST_CASE("JSON and CSV") {
        Run run;
        run.scenario = "crowd \"x\"";
        run.set("pairs", 2'000'000);
        run.set("bytes_per_pair", 5.25);
        run.set("speedup", std::nan(""));
        run.set("pairs", 3);
        run.stages.push_back({"ack", 10, 20.5, true});
        CHECK(to_json({run}) ==
              "{\"runs\": [\n {\"scenario\": \"crowd \\\"x\\\"\", \"workers\": 1, \"executor\": \"serial\", \"engine\": \"throng\", "
              "\"seed\": 1, \"repeat\": 1, \"quick\": false,\n  \"pairs\": 3,\n  \"bytes_per_pair\": 5.25,\n  \"stages\": {\n   "
              "\"ack\": {\"cpu_ns\": 10, \"wall_ns\": 20.5, \"parallel\": true}}}\n]}\n");
        const std::string csv = to_csv({run});
        CHECK(csv.find("quick,output_hash,pairs,bytes_per_pair,speedup\n") != std::string::npos);
        CHECK(csv.find("\"crowd \"\"x\"\"\",,,throng,serial,1,1,1,false,,3,5.25,\n") != std::string::npos);
        Run ecs;
        ecs.scenario = "ecs_each", ecs.bench_case = "each_pos12_1m", ecs.cache = "warm";
        CHECK(to_json({ecs}).find("\"ecs_each\", \"case\": \"each_pos12_1m\", \"cache\": \"warm\", \"workers\"") != std::string::npos);
        CHECK(to_csv({ecs}).find("\necs_each,each_pos12_1m,warm,throng,") != std::string::npos);
        CHECK(hash_text(1, 0xab) == "000000000000000100000000000000ab");
    }

    TEST_CASE("the median of repeats, the worst of maxima, the mean of allocations, and hashes that differ") {
        Run a, b, c;
        a.set("pairs", 1), b.set("pairs", 9), c.set("pairs", 4);
        a.set("tick_ms_max", 1), b.set("tick_ms_max", 9), c.set("tick_ms_max", 4);
        a.set("allocs_per_tick", 0), b.set("allocs_per_tick", 6), c.set("allocs_per_tick", 0);
        a.output_hash = b.output_hash = c.output_hash = hash_text(1, 2);
        a.stages = {{"ack", 1, 1, true}}, b.stages = {{"ack", 3, 1, true}}, c.stages = {{"ack", 2, 1, true}};
        Run m = median_run({a, b, c});
        CHECK(*m.get("pairs") == 4);
        CHECK(*m.get("tick_ms_max") == 9);
        CHECK(*m.get("allocs_per_tick") == 2);
        CHECK(m.stages[0].cpu_ns == 2);
        CHECK(m.repeat == 3);
        CHECK(m.output_hash == hash_text(1, 2));
        c.output_hash = hash_text(1, 3);
        CHECK(median_run({a, b, c}).output_hash == "");
    }

    TEST_CASE("instructions are counted where the system allows it, and only while the counter runs") {
        InstructionCounter counter;
        const auto work = [] {
            for (int i = 0; i < 100'000; ++i)
                asm volatile("" : : "r"(i)); // not left out
        };
        work();
        CHECK(counter.count().value_or(0) == 0);
        counter.start();
        work();
        counter.stop();
        const auto counted = counter.count();
        work();
        CHECK(counter.count() == counted);
        CHECK((!counted || *counted >= 100'000));
    }
    TEST_CASE("memory is copied at some speed, and always the same one") {
        CHECK(memcpy_gb_s() > 0.01);
        CHECK(memcpy_gb_s() == memcpy_gb_s());
    }

    TEST_CASE("the metered executor charges work to its stage, nested loops once") {
        const throng::ExecutorHandle inner = throng::make_threads_executor(2);
        MeteredExecutor meter(*inner);
        volatile double sink = 0;
        const auto work = [&] {
            double x = 1;
            for (int i = 0; i < 200'000; ++i)
                x = x * 1.0000001 + 1e-9;
            sink = sink + x;
        };
        meter.start();
        meter.stage("serial");
        work();
        meter.stage("parallel");
        throng::u32 calls[64] = {};
        throng::for_ranges(meter, 4, 1, [&](throng::u32 begin, throng::u32, throng::u32) {
            throng::for_ranges(meter, 16, 16, [&](throng::u32 b, throng::u32 e, throng::u32) {
                for (throng::u32 i = b; i < e; ++i)
                    ++calls[begin * 16 + i];
            });
        });
        meter.stop();
        for (const throng::u32 c : calls)
            CHECK(c == 1);
        REQUIRE(meter.stages().size() == 2);
        CHECK(meter.stages()[0].cpu_ns > 0);
        CHECK(!meter.stages()[0].parallel);
        CHECK(meter.stages()[1].parallel);
        CHECK(meter.cpu_ns() >= meter.stages()[0].cpu_ns);
        CHECK(meter.max_worker_ns() <= meter.cpu_ns());
    }
}
