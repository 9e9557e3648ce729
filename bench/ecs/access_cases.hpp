#pragma once
// ecs_access for any subject: components by handle, in random and in creation order.
#include "bench/ecs/structure_cases.hpp"

namespace ecs_bench {

enum class Access { get, get3, has, mut };

template <class S, Access access>
float access_pass(S& subject, const std::vector<typename S::Handle>& entities) {
    using C = typename S::C;
    float sum = 0;
    // The answer is checked: else a compiler that sees a null used may take it for impossible, and drop the check of the handle.
    const auto use = [](auto* row, auto&& f) {
        if (row)
            f(*row);
    };
    for (const auto& e : entities) {
        if constexpr (access == Access::has) {
            sum += subject.template has<typename C::Lvl>(e) ? 1.f : 0.f;
        } else if constexpr (access == Access::mut) {
            use(subject.template mut<typename C::Pos>(e), [](auto& pos) { pos.x += 1; });
        } else {
            use(subject.template get<typename C::Pos>(e), [&](const auto& pos) { sum += pos.x; });
            if constexpr (access == Access::get3) {
                use(subject.template get<typename C::Vel>(e), [&](const auto& vel) { sum += vel.x; });
                use(subject.template get<typename C::Hp>(e), [&](const auto& hp) { sum += static_cast<float>(hp.now); });
            }
        }
    }
    return sum;
}

template <class S, Access access>
void access_case(std::vector<Case>& cases, const std::string& name, u32 count, bool random, bool cold) {
    cases.push_back({"ecs_access", name, count, cold, 1, [=]() -> Measure {
                         auto subject = std::make_shared<S>();
                         std::vector<typename S::Handle> entities;
                         for (u32 i = 0; i < count; ++i) // has finds half of them
                             entities.push_back(access == Access::has && i % 2 == 0 ? create_of<S, 3>(*subject)
                                                                                    : create_of<S, 4>(*subject));
                         if (random)
                             shuffle(entities, 42);
                         return [=] {
                             float sum = 0;
                             double ns = 0;
                             if (cold) {
                                 evict_caches();
                                 const Stopwatch watch;
                                 sum += access_pass<S, access>(*subject, entities);
                                 ns = watch.ns() / count;
                             } else {
                                 ns = timed_passes(count, [&] { sum += access_pass<S, access>(*subject, entities); });
                             }
                             keep(&sum);
                             return ns;
                         };
                     }});
}

template <class S>
void access_cases(std::vector<Case>& cases, Scale scale, const std::string& suffix = "") {
    const u32 small = scale.hundred_thousand();
    const u32 large = scale.million();
    access_case<S, Access::get>(cases, "get_in_order_1m" + suffix, large, false, false);
    access_case<S, Access::get>(cases, "get_random_100k" + suffix, small, true, false);
    access_case<S, Access::get>(cases, "get_random_cold_100k" + suffix, small, true, true);
    access_case<S, Access::get>(cases, "get_random_1m" + suffix, large, true, false);
    access_case<S, Access::get3>(cases, "get3_random_100k" + suffix, small, true, false);
    access_case<S, Access::get3>(cases, "get3_random_1m" + suffix, large, true, false);
    access_case<S, Access::has>(cases, "has_random_100k" + suffix, small, true, false);
    access_case<S, Access::has>(cases, "has_random_1m" + suffix, large, true, false);
    access_case<S, Access::mut>(cases, "mut_random_1m" + suffix, large, true, false);
}

/// Every case that a subject takes part in.
template <class S>
void add_structure_cases(std::vector<Case>& cases, Scale scale) {
    create_cases<S>(cases, scale);
    destroy_cases<S>(cases, scale);
    churn_cases<S>(cases, scale);
    if constexpr (S::has_copy)
        copy_cases<S>(cases, scale);
    memory_cases<S>(cases, scale);
}

} // namespace ecs_bench
