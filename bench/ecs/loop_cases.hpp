#pragma once
// ecs_each, ecs_views and ecs_change for any subject, and the same loops over plain vectors.
#include "bench/ecs/components.hpp"
#include "bench/ecs/measure.hpp"
#include <memory>

namespace ecs_bench {

enum class Form { rows, fast, index, entity, resolved, parallel };

/// Entities with the type and two others.
template <class S, class T>
std::shared_ptr<S> populated(u32 count) {
    auto subject = std::make_shared<S>();
    for (u32 i = 0; i < count; ++i)
        subject->create(T{}, Tgt{}, Flg{});
    return subject;
}

template <class S, class T, Form form>
void each_case(std::vector<Case>& cases, const char* name, u32 count) {
    cases.push_back({"ecs_each", name, count, false, form == Form::parallel ? 2u : 1u, [count]() -> Measure {
                         auto subject = populated<S, T>(count);
                         return [subject, count] {
                             std::vector<typename S::Handle> rare;
                             [[maybe_unused]] const auto collect = [&](auto&& handle, auto& row) {
                                 Step{}(row);
                                 if (Rare{}(row))
                                     rare.push_back(static_cast<typename S::Handle>(handle));
                             };
                             return timed_passes(
                                 count,
                                 [&] {
                                     if constexpr (form == Form::rows)
                                         subject->template each<T>(Step{});
                                     else if constexpr (form == Form::fast)
                                         subject->template each_fast<T>(Step{});
                                     else if constexpr (form == Form::index)
                                         subject->template each_index<T>([](auto number, T& row) {
                                             Step{}(row);
                                             if constexpr (requires { row.z; })
                                                 row.z = static_cast<float>(number);
                                         });
                                     else if constexpr (form == Form::entity)
                                         subject->template each_entity<T>(collect);
                                     else if constexpr (form == Form::resolved)
                                         subject->template each_resolved<T>(collect);
                                     else
                                         subject->template each_parallel<T>(Step{});
                                     keep(subject.get());
                                 },
                                 form == Form::parallel ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID);
                         };
                     }});
}

template <class S>
void each_cases(std::vector<Case>& cases, Scale scale) {
    using C = typename S::C;
    const u32 million = scale.million();
    each_case<S, typename C::Lvl, Form::rows>(cases, "each_lvl4_1m", million);
    each_case<S, typename C::Hp, Form::rows>(cases, "each_hp8_1m", million);
    each_case<S, typename C::Pos, Form::rows>(cases, "each_pos12_1m", million);
    each_case<S, Buff, Form::rows>(cases, "each_buff32_1m", million);
    each_case<S, Stats, Form::rows>(cases, "each_stats64_1m", million);
    each_case<S, typename C::Lvl, Form::fast>(cases, "each_blocks_lvl4_1m", million);
    each_case<S, typename C::Hp, Form::fast>(cases, "each_blocks_hp8_1m", million);
    each_case<S, typename C::Pos, Form::fast>(cases, "each_blocks_pos12_1m", million);
    each_case<S, Buff, Form::fast>(cases, "each_blocks_buff32_1m", million);
    each_case<S, Stats, Form::fast>(cases, "each_blocks_stats64_1m", million);
    each_case<S, typename C::Pos, Form::index>(cases, "each_index_pos12_1m", million);
    each_case<S, typename C::Lvl, Form::entity>(cases, "each_entity_lvl4_1m", million);
    each_case<S, typename C::Pos, Form::entity>(cases, "each_entity_pos12_1m", million);
    each_case<S, Stats, Form::entity>(cases, "each_entity_stats64_1m", million);
    if constexpr (requires(S & s) { s.template each_resolved<Stats>([](auto&&, Stats&) {}); })
        each_case<S, typename C::Pos, Form::resolved>(cases, "each_resolved_pos12_1m", million);
    each_case<S, typename C::Pos, Form::rows>(cases, "each_pos12_100k", scale.hundred_thousand());
    each_case<S, typename C::Pos, Form::parallel>(cases, "each_parallel_pos12_1m", million);
    each_case<S, Stats, Form::parallel>(cases, "each_parallel_stats64_1m", million);
    each_case<S, typename C::Pos, Form::parallel>(cases, "each_parallel_pos12_100k", scale.hundred_thousand());
}

enum class Mix { fresh, churned, shuffled, mixed };

/// Entities with Pos, Vel and Hp in different states of order.
template <class S, Mix mix>
std::shared_ptr<S> mixture(u32 count) {
    using C = typename S::C;
    using Pos = typename C::Pos;
    using Vel = typename C::Vel;
    using Hp = typename C::Hp;
    auto subject = std::make_shared<S>();
    std::vector<typename S::Handle> entities;
    for (u32 i = 0; i < count; ++i) {
        if constexpr (mix == Mix::shuffled)
            entities.push_back(subject->create(Pos{}));
        else
            entities.push_back(subject->create(Pos{}, Vel{}, Hp{}));
    }
    if constexpr (mix == Mix::churned) { // twice as many replaced as there are
        scenarios::Random random(3);
        for (u32 i = 0; i < 2 * count; ++i) {
            typename S::Handle& e = entities[random.below(count)];
            subject->destroy(e);
            e = subject->create(Pos{}, Vel{}, Hp{});
        }
    } else if constexpr (mix == Mix::shuffled) { // all have all, in another order for each type
        shuffle(entities, 1);
        for (const auto& e : entities)
            subject->add(e, Vel{});
        shuffle(entities, 2);
        for (const auto& e : entities)
            subject->add(e, Hp{});
    } else if constexpr (mix == Mix::mixed) { // 16 sets of types, at random
        scenarios::Random random(7);
        for (const auto& e : entities) {
            const u32 kinds = random.below(16);
            if (kinds & 1)
                subject->add(e, typename C::Lvl{});
            if (kinds & 2)
                subject->add(e, Tgt{});
            if (kinds & 4)
                subject->add(e, Flg{});
            if (kinds & 8)
                subject->template remove<Vel>(e);
        }
    }
    return subject;
}

template <class S, Mix mix>
void view_cases(std::vector<Case>& cases, const std::string& suffix, u32 count) {
    using C = typename S::C;
    cases.push_back({"ecs_views", "two_" + suffix, count, false, 1, [count]() -> Measure {
                         auto subject = mixture<S, mix>(count);
                         return [subject, count] {
                             return timed_passes(count, [&] {
                                 subject->template each<typename C::Pos, const typename C::Vel>(Move2{});
                                 keep(subject.get());
                             });
                         };
                     }});
    cases.push_back({"ecs_views", "three_" + suffix, count, false, 1, [count]() -> Measure {
                         auto subject = mixture<S, mix>(count);
                         return [subject, count] {
                             return timed_passes(count, [&] {
                                 subject->template each<typename C::Pos, const typename C::Vel, typename C::Hp>(Move3{});
                                 keep(subject.get());
                             });
                         };
                     }});
}

/// Times are by entity, also where only half of them have Vel.
template <class S>
void view_cases(std::vector<Case>& cases, Scale scale, const std::string& suffix = "") {
    for (const bool million : {false, true}) {
        const u32 count = million ? scale.million() : scale.hundred_thousand();
        const std::string size = (million ? "_1m" : "_100k") + suffix;
        if (suffix.empty()) {
            view_cases<S, Mix::fresh>(cases, "fresh" + size, count);
            view_cases<S, Mix::churned>(cases, "churned" + size, count);
        }
        view_cases<S, Mix::shuffled>(cases, "shuffled" + size, count);
        view_cases<S, Mix::mixed>(cases, "mixed16" + size, count);
    }
}

/// How much of a pool is written.
struct Share {
    const char* percent;
    u32 per_mille;
    std::string name(const char* what) const { return std::string(what) + "_" + percent + "_percent_1m"; }
};
inline constexpr Share shares[] = {{"0.1", 1}, {"10", 100}, {"100", 1000}};

/// Writes a share of the rows by handle, each round the next ones of a shuffled list, after all marks were cleared. Times are by
/// written row.
template <class S>
void mark_case(std::vector<Case>& cases, Share share, u32 count) {
    using Pos = typename S::C::Pos;
    cases.push_back({"ecs_change", share.name("mark"), count, false, 1, [=]() -> Measure {
                         auto subject = std::make_shared<S>();
                         std::vector<typename S::Handle> entities;
                         for (u32 i = 0; i < count; ++i)
                             entities.push_back(subject->create(Pos{}));
                         shuffle(entities, 5);
                         const u32 marked = count / 1000 * share.per_mille;
                         return [=, from = u32(0)]() mutable {
                             const u32 rounds = 200'000 / marked + 5;
                             double ns = 0;
                             for (u32 round = 0; round < rounds; ++round) {
                                 subject->template clear_changes<Pos>();
                                 const Stopwatch watch;
                                 for (u32 i = from; i < from + marked; ++i)
                                     if (Pos* row = subject->template mut<Pos>(entities[i]))
                                         row->x += 1;
                                 ns += round == 0 ? 0 : watch.ns();
                                 from = (from + marked) % count;
                             }
                             return ns / (rounds - 1) / marked;
                         };
                     }});
}

/// Marks, and scans for what is marked. Times are by row of the pool, not by marked row, but for those of mark_case.
template <class S>
void change_cases(std::vector<Case>& cases, Scale scale) {
    using Pos = typename S::C::Pos;
    const u32 count = scale.million();
    for (const Share share : shares) {
        mark_case<S>(cases, share, count);
        cases.push_back({"ecs_change", share.name("scan"), count, false, 1, [=]() -> Measure {
                             auto subject = std::make_shared<S>();
                             std::vector<typename S::Handle> entities;
                             for (u32 i = 0; i < count; ++i)
                                 entities.push_back(subject->create(Pos{}));
                             subject->template clear_changes<Pos>();
                             scenarios::Random random(5);
                             for (const auto& e : entities)
                                 if (random.below(1000) < share.per_mille)
                                     subject->template mut<Pos>(e)->x += 1;
                             return [subject, count] {
                                 float sum = 0;
                                 const double ns = timed_passes(count, [&] {
                                     subject->template each_changed<Pos>([&](const Pos& p) { sum += p.x; });
                                     keep(subject.get());
                                 });
                                 keep(&sum);
                                 return ns;
                             };
                         }});
    }
    cases.push_back({"ecs_change", "mark_bulk_1m", count, false, 1, [=]() -> Measure {
                         auto subject = populated<S, Pos>(count);
                         return [subject, count] {
                             double ns = 0; // marks are cleared between the passes: what is marked already costs less
                             for (u32 pass = 0; pass < 5; ++pass) {
                                 subject->template clear_changes<Pos>();
                                 const Stopwatch watch;
                                 subject->template each<Pos>(Step{});
                                 keep(subject.get());
                                 ns += pass == 0 ? 0 : watch.ns();
                             }
                             return ns / 4 / count;
                         };
                     }});
    each_case<S, Pos, Form::fast>(cases, "mark_none_1m", count);
    cases.back().scenario = "ecs_change";
}

// --- the same loops over vectors

template <class T>
Measure vector_each(u32 count) {
    auto rows = std::make_shared<std::vector<T>>(count);
    return [rows, count] {
        return timed_passes(count, [&] {
            for (T& row : *rows)
                Step{}(row);
            keep(rows->data());
        });
    };
}

template <class Pos, class Vel, class Hp>
Measure vector_views(u32 count, bool three) {
    struct Rows {
        std::vector<Pos> pos;
        std::vector<Vel> vel;
        std::vector<Hp> hp;
    };
    auto rows = std::make_shared<Rows>(Rows{std::vector<Pos>(count), std::vector<Vel>(count), std::vector<Hp>(count)});
    return [rows, count, three] {
        return timed_passes(count, [&] {
            Pos* const pos = rows->pos.data();
            const Vel* const vel = rows->vel.data();
            Hp* const hp = rows->hp.data();
            if (three)
                for (u32 i = 0; i < count; ++i)
                    Move3{}(pos[i], vel[i], hp[i]);
            else
                for (u32 i = 0; i < count; ++i)
                    Move2{}(pos[i], vel[i]);
            keep(rows.get());
        });
    };
}

} // namespace ecs_bench
