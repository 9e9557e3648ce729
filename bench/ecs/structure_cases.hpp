#pragma once
// ecs_create, ecs_destroy, ecs_churn, ecs_copy and ecs_memory for any subject.
#include "bench/ecs/components.hpp"
#include "bench/ecs/measure.hpp"
#include <memory>

namespace ecs_bench {

template <class S, int components>
typename S::Handle create_of(S& subject) {
    using C = typename S::C;
    if constexpr (components == 1)
        return subject.create(typename C::Pos{});
    else if constexpr (components == 3)
        return subject.create(typename C::Pos{}, typename C::Vel{}, typename C::Hp{});
    else if constexpr (components == 4)
        return subject.create(typename C::Pos{}, typename C::Vel{}, typename C::Hp{}, typename C::Lvl{});
    else
        return subject.create(typename C::Pos{}, typename C::Vel{}, typename C::Hp{}, typename C::Lvl{}, Tgt{}, Buff{}, Stats{}, Flg{});
}

template <class S>
void create_n8(S& subject, typename S::Handle* out, std::size_t count) {
    using C = typename S::C;
    subject.create_n(out, count, typename C::Pos{}, typename C::Vel{}, typename C::Hp{}, typename C::Lvl{}, Tgt{}, Buff{}, Stats{}, Flg{});
}

template <class S, int components>
std::vector<typename S::Handle> create_all(S& subject, u32 count) {
    std::vector<typename S::Handle> entities(count);
    for (auto& e : entities)
        e = create_of<S, components>(subject);
    return entities;
}

/// A new world; its types are known, its memory is not taken yet.
template <class S, int components>
std::shared_ptr<S> empty_world() {
    auto subject = std::make_shared<S>();
    subject->destroy(create_of<S, components>(*subject));
    return subject;
}

template <class S, int components>
void create_case(std::vector<Case>& cases, const char* name, u32 count, bool again) {
    cases.push_back({"ecs_create", name, count, false, 1, [=]() -> Measure {
                         auto entities = std::make_shared<std::vector<typename S::Handle>>(count);
                         return [=] {
                             auto subject = empty_world<S, components>();
                             if (again) { // everything was there once, and went
                                 for (auto& e : *entities)
                                     e = create_of<S, components>(*subject);
                                 for (std::size_t i = count; i > 0; --i)
                                     subject->destroy((*entities)[i - 1]);
                             }
                             const Stopwatch watch;
                             for (auto& e : *entities)
                                 e = create_of<S, components>(*subject);
                             return watch.ns() / count;
                         };
                     }});
}

template <class S>
void create_cases(std::vector<Case>& cases, Scale scale) {
    create_case<S, 1>(cases, "create_c1_100k", scale.hundred_thousand(), false);
    create_case<S, 8>(cases, "create_c8_100k", scale.hundred_thousand(), false);
    create_case<S, 8>(cases, "create_again_c8_100k", scale.hundred_thousand(), true);
    create_case<S, 1>(cases, "create_c1_1m", scale.million(), false);
    create_case<S, 3>(cases, "create_c3_1m", scale.million(), false);
    create_case<S, 8>(cases, "create_c8_1m", scale.million(), false);
    for (const bool again : {false, true}) {
        const u32 count = scale.hundred_thousand();
        cases.push_back({"ecs_create", again ? "instantiate_again_c8_100k" : "instantiate_c8_100k", count, false, 1, [=]() -> Measure {
                             auto entities = std::make_shared<std::vector<typename S::Handle>>(count);
                             return [=] {
                                 auto subject = empty_world<S, 8>();
                                 if (again) {
                                     create_n8(*subject, entities->data(), count);
                                     for (std::size_t i = count; i > 0; --i)
                                         subject->destroy((*entities)[i - 1]);
                                 }
                                 const Stopwatch watch;
                                 create_n8(*subject, entities->data(), count);
                                 return watch.ns() / count;
                             };
                         }});
    }
}

/// How entities go: all of them or the first tenth of the shuffled ones.
struct Destruction {
    bool shuffled, tenth, batch;
};

template <class S, int components>
void destroy_case(std::vector<Case>& cases, const char* name, u32 count, Destruction how) {
    cases.push_back({"ecs_destroy", name, count, false, 1, [=]() -> Measure {
                         return [=] {
                             S subject;
                             auto entities = create_all<S, components>(subject, count);
                             if (how.shuffled)
                                 shuffle(entities, 42);
                             const u32 going = how.tenth ? count / 10 : count;
                             const Stopwatch watch;
                             if (how.batch)
                                 subject.destroy_n(entities.data(), going);
                             else
                                 for (u32 i = 0; i < going; ++i)
                                     subject.destroy(entities[i]);
                             return watch.ns() / going;
                         };
                     }});
}

template <class S>
void destroy_cases(std::vector<Case>& cases, Scale scale) {
    destroy_case<S, 8>(cases, "destroy_in_order_c8_100k", scale.hundred_thousand(), {false, false, false});
    destroy_case<S, 8>(cases, "destroy_random_c8_100k", scale.hundred_thousand(), {true, false, false});
    destroy_case<S, 8>(cases, "destroy_tenth_c8_100k", scale.hundred_thousand(), {true, true, false});
    destroy_case<S, 8>(cases, "destroy_tenth_batch_c8_100k", scale.hundred_thousand(), {true, true, true});
    destroy_case<S, 1>(cases, "destroy_random_c1_1m", scale.million(), {true, false, false});
    destroy_case<S, 8>(cases, "destroy_random_c8_1m", scale.million(), {true, false, false});
    destroy_case<S, 8>(cases, "destroy_tenth_c8_1m", scale.million(), {true, true, false});
    destroy_case<S, 8>(cases, "destroy_tenth_batch_c8_1m", scale.million(), {true, true, true});
}

/// A tenth of the entities is replaced, a round; times are by replaced entity.
template <class S>
void churn_case(std::vector<Case>& cases, const char* name, u32 count, bool batch) {
    struct State {
        S subject = {};
        std::vector<typename S::Handle> entities = {};
        scenarios::Random random{3};
    };
    cases.push_back({"ecs_churn", name, count, false, 1, [=]() -> Measure {
                         auto state = std::make_shared<State>();
                         state->entities = create_all<S, 8>(state->subject, count);
                         return [=] {
                             const u32 replaced = count / 10;
                             auto& entities = state->entities;
                             double ns = 0;
                             for (u32 round = 0; round < 6; ++round) {
                                 for (u32 i = 0; i < replaced; ++i) // a random tenth to the front
                                     std::swap(entities[i], entities[i + state->random.below(count - i)]);
                                 const Stopwatch watch;
                                 if (batch) {
                                     state->subject.destroy_n(entities.data(), replaced);
                                     create_n8(state->subject, entities.data(), replaced);
                                 } else {
                                     for (u32 i = 0; i < replaced; ++i) {
                                         state->subject.destroy(entities[i]);
                                         entities[i] = create_of<S, 8>(state->subject);
                                     }
                                 }
                                 ns += round == 0 ? 0 : watch.ns();
                             }
                             return ns / 5 / replaced;
                         };
                     }});
}

template <class S>
void churn_cases(std::vector<Case>& cases, Scale scale) {
    const u32 small = scale.hundred_thousand();
    churn_case<S>(cases, "churn_c8_100k", small, false);
    churn_case<S>(cases, "churn_batch_c8_100k", small, true);
    churn_case<S>(cases, "churn_c8_1m", scale.million(), false);
    churn_case<S>(cases, "churn_batch_c8_1m", scale.million(), true);
    for (const bool random : {false, true})
        cases.push_back(
            {"ecs_churn", random ? "add_remove_fifth_random_100k" : "add_remove_fifth_in_order_100k", small, false, 1, [=]() -> Measure {
                 auto subject = std::make_shared<S>();
                 auto entities = create_all<S, 4>(*subject, small);
                 if (random)
                     shuffle(entities, 42);
                 return [=] {
                     return timed_passes(small, [&] {
                         for (const auto& e : entities) {
                             subject->add(e, Extra{});
                             subject->template remove<Extra>(e);
                         }
                     });
                 };
             }});
    for (const bool add : {true, false})
        cases.push_back({"ecs_churn", add ? "add_fifth_random_100k" : "remove_fifth_random_100k", small, false, 1, [=]() -> Measure {
                             auto subject = std::make_shared<S>();
                             auto entities = create_all<S, 4>(*subject, small);
                             shuffle(entities, 42);
                             return [=] {
                                 double ns = 0;
                                 for (u32 round = 0; round < 11; ++round) {
                                     const Stopwatch adding;
                                     for (const auto& e : entities)
                                         subject->add(e, Extra{});
                                     const double add_ns = adding.ns();
                                     const Stopwatch removing;
                                     for (const auto& e : entities)
                                         subject->template remove<Extra>(e);
                                     ns += round == 0 ? 0 : add ? add_ns : removing.ns();
                                 }
                                 return ns / 10 / small;
                             };
                         }});
}

template <class S, int components, bool back>
void copy_case(std::vector<Case>& cases, const std::string& suffix, u32 count) {
    for (const bool again : {false, true})
        cases.push_back({"ecs_copy", (again ? "copy_again_" : "copy_") + suffix, count, false, 1, [=]() -> Measure {
                             auto subject = std::make_shared<S>();
                             create_all<S, components>(*subject, count);
                             auto reused = std::make_shared<typename S::Copy>();
                             if (again)
                                 reused->take(*subject);
                             return [=] {
                                 auto target = again ? reused : std::make_shared<typename S::Copy>();
                                 const Stopwatch watch;
                                 target->take(*subject);
                                 return watch.ns() / count;
                             };
                         }});
    if constexpr (back)
        cases.push_back({"ecs_copy", "restore_" + suffix, count, false, 1, [=]() -> Measure {
                             auto subject = std::make_shared<S>();
                             create_all<S, components>(*subject, count);
                             auto copy = std::make_shared<typename S::Copy>();
                             copy->take(*subject);
                             return [=] {
                                 const Stopwatch watch;
                                 copy->give_back(*subject);
                                 return watch.ns() / count;
                             };
                         }});
}

template <class S>
void copy_cases(std::vector<Case>& cases, Scale scale) {
    constexpr bool back = requires(typename S::Copy copy, S subject) {
        copy.give_back(subject);
    };
    copy_case<S, 8, back>(cases, "c8_100k", scale.hundred_thousand());
    copy_case<S, 3, false>(cases, "c3_1m", scale.million());
}

/// Bytes an entity.
template <class S, int components>
void memory_case(std::vector<Case>& cases, const char* name, u32 count) {
    cases.push_back({"ecs_memory", name, count, false, 1, [=]() -> Measure {
                         return [=] {
                             std::vector<typename S::Handle> entities(count);
                             auto subject = std::make_unique<S>();
                             const u64 before = live_bytes();
                             for (auto& e : entities)
                                 e = create_of<S, components>(*subject);
                             return static_cast<double>(live_bytes() - before) / count;
                         };
                     }});
}

template <class S>
void memory_cases(std::vector<Case>& cases, Scale scale) {
    memory_case<S, 1>(cases, "memory_c1_100k", scale.hundred_thousand());
    memory_case<S, 3>(cases, "memory_c3_100k", scale.hundred_thousand());
    memory_case<S, 8>(cases, "memory_c8_100k", scale.hundred_thousand());
    memory_case<S, 1>(cases, "memory_c1_1m", scale.million());
    memory_case<S, 8>(cases, "memory_c8_1m", scale.million());
}

} // namespace ecs_bench
