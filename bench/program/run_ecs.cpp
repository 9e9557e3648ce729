#include "bench/program/run_ecs.hpp"
#include "bench/ecs/access_cases.hpp"
#include "bench/ecs/loop_cases.hpp"
#include "bench/ecs/rollback_cases.hpp"
#include "bench/ecs/throng_subject.hpp"
#include "bench/ecs/touched_heap.hpp"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

// The variant whose cases end in _direct.
template <>
inline constexpr bool throng::direct_index<ecs_bench::PosOf<1>> = true;
template <>
inline constexpr bool throng::direct_index<ecs_bench::VelOf<1>> = true;
template <>
inline constexpr bool throng::direct_index<ecs_bench::HpOf<1>> = true;
template <>
inline constexpr bool throng::direct_index<ecs_bench::LvlOf<1>> = true;

namespace bench {
namespace {

using ecs_bench::Case;
using ecs_bench::Measure;

constexpr const char* names[] = {"ecs_each",  "ecs_create", "ecs_destroy", "ecs_access", "ecs_change",
                                 "ecs_views", "ecs_churn",  "ecs_copy",    "ecs_memory", "ecs"};

ecs_bench::TouchedHeap heap;

std::vector<Case> all_cases(ecs_bench::Scale scale) {
    using Plain = ecs_bench::ThrongSubject<0>;
    std::vector<Case> cases;
    ecs_bench::each_cases<Plain>(cases, scale);
    ecs_bench::access_cases<Plain>(cases, scale);
    ecs_bench::view_cases<Plain>(cases, scale);
    using Direct = ecs_bench::ThrongSubject<1>;
    ecs_bench::access_cases<Direct>(cases, scale, "_direct");
    ecs_bench::view_cases<Direct>(cases, scale, "_direct");
    ecs_bench::change_cases<Plain>(cases, scale);
    ecs_bench::add_structure_cases<Plain>(cases, scale);
    ecs_bench::rollback_cases<Plain>(cases, scale);
    return cases;
}

/// The plain loop that does the same, where there is one.
Measure vector_loop(const Case& c) {
    using C = ecs_bench::ComponentSet<0>;
    const auto has = [&](const char* part) { return c.name.find(part) != std::string::npos; };
    if (c.workers > 1)
        return {};
    if (std::strcmp(c.scenario, "ecs_each") == 0 || has("mark_bulk") || has("mark_none")) {
        if (has("lvl4"))
            return ecs_bench::vector_each<C::Lvl>(c.entities);
        if (has("hp8"))
            return ecs_bench::vector_each<C::Hp>(c.entities);
        if (has("buff32"))
            return ecs_bench::vector_each<ecs_bench::Buff>(c.entities);
        if (has("stats64"))
            return ecs_bench::vector_each<ecs_bench::Stats>(c.entities);
        return ecs_bench::vector_each<C::Pos>(c.entities);
    }
    if (std::strcmp(c.scenario, "ecs_views") == 0 && !has("mixed"))
        return ecs_bench::vector_views<C::Pos, C::Vel, C::Hp>(c.entities, has("three"));
    return {};
}

} // namespace

std::span<const char* const> ecs_scenarios() {
    return names;
}

bool is_ecs_scenario(std::string_view name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::vector<scenarios::Run> run_ecs(const Options& options, std::string_view scenario, const std::string& filter) {
    ecs_bench::subject_allocator = heap.allocator();
    ecs_bench::live_bytes = [] { return heap.live_bytes(); };
    std::vector<scenarios::Run> runs;
    for (const Case& c : all_cases({options.quick})) {
        if ((scenario != "ecs" && scenario != c.scenario) || c.name.find(filter) == std::string::npos)
            continue;
        const Measure subject = c.prepare();
        const Measure vector = vector_loop(c);
        std::vector<double> times, ratios;
        subject(); // what it needs is taken from the heap once
        for (u32 i = 0; i < options.repeat; ++i) {
            times.push_back(subject());
            if (vector)
                ratios.push_back(times.back() / vector());
        }
        scenarios::Run run;
        run.scenario = c.scenario;
        run.bench_case = c.name;
        run.cache = c.cold ? "cold" : "warm";
        run.executor = c.workers > 1 ? "tbb" : "serial";
        run.workers = c.workers;
        run.repeat = options.repeat;
        run.seed = options.seed;
        run.quick = options.quick;
        run.set("entities", c.entities);
        run.set(std::strcmp(c.scenario, "ecs_memory") == 0 ? "bytes_per_entity" : "ns_per_op", scenarios::median(times));
        if (vector)
            run.set("ratio_to_vector", scenarios::median(ratios));
        runs.push_back(std::move(run));
    }
    return runs;
}

} // namespace bench
