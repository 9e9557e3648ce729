#pragma once
// Rows of ecs_copy: a rollback ring beside the copies of a whole world. Times are by entity of the world, as there.
#include "bench/ecs/structure_cases.hpp"
#include "bench/ecs/throng_subject.hpp"

namespace ecs_bench {

/// A world of entities of eight components that is written in part, tick by tick.
template <class S>
class RollbackWorld {
public:
    explicit RollbackWorld(u32 count) : entities_(create_all<S, 8>(subject_, count)), ring_(subject_.world(), 8) {}
    /// Writes all components of random entities.
    void write(u32 count) {
        using C = typename S::C;
        for (u32 i = 0; i < count; ++i) {
            const auto e = entities_[count == entities_.size() ? i : random_.below(static_cast<u32>(entities_.size()))];
            subject_.template mut<typename C::Pos>(e)->x += 1;
            subject_.template mut<typename C::Vel>(e)->x += 1;
            subject_.template mut<typename C::Hp>(e)->now += 1;
            subject_.template mut<typename C::Lvl>(e)->value += 1;
            subject_.template mut<Tgt>(e)->id += 1;
            subject_.template mut<Buff>(e)->values[0] += 1;
            subject_.template mut<Stats>(e)->values[0] += 1;
            subject_.template mut<Flg>(e)->value += 1;
        }
    }
    /// Writes two components of all entities.
    void move() { subject_.template each<typename S::C::Pos, typename S::C::Vel>(Move2{}); }
    bool save() { return ring_.save(++frame_) == throng::Error::none; }
    bool restore() { return ring_.restore(frame_) == throng::Error::none; }

private:
    S subject_ = {};
    std::vector<typename S::Handle> entities_;
    throng::RollbackRing ring_;
    scenarios::Random random_{11};
    u64 frame_ = 0;
};

/// What is written between two saves: a share of the entities, in thousandths, or all rows of two types.
struct Written {
    const char* name;
    u32 thousandths;
};

template <class S>
void rollback_case(std::vector<Case>& cases, const std::string& name, u32 count, u32 thousandths, bool restore) {
    cases.push_back({"ecs_copy", name, count, false, 1, [=]() -> Measure {
                         auto world = std::make_shared<RollbackWorld<S>>(count);
                         for (u32 i = 0; i < 10; ++i) { // all memory is taken
                             world->write(count);
                             world->save();
                         }
                         return [=] {
                             double ns = 0;
                             bool done = true;
                             for (u32 round = 0; round < 10; ++round) {
                                 thousandths == 0 ? world->move() : world->write(static_cast<u32>(u64(count) * thousandths / 1000));
                                 const Stopwatch watch;
                                 done = done && (restore ? world->restore() : world->save());
                                 ns += watch.ns();
                             }
                             return done ? ns / 10 / count : -1;
                         };
                     }});
}

template <class S>
void rollback_cases(std::vector<Case>& cases, Scale scale) {
    for (const Written what :
         {Written{"0.1_percent", 1}, Written{"10_percent", 100}, Written{"100_percent", 1000}, Written{"two_types", 0}}) {
        rollback_case<S>(cases, std::string("rollback_save_") + what.name + "_c8_100k", scale.hundred_thousand(), what.thousandths, false);
        rollback_case<S>(cases, std::string("rollback_restore_") + what.name + "_c8_100k", scale.hundred_thousand(), what.thousandths,
                         true);
    }
}

} // namespace ecs_bench
