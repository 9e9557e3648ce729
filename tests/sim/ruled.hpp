#pragma once
// Random operations on what rules of components look at: types that they name, and the components themselves.
#include "tests/sim/components.hpp"
#include "tests/sim/random.hpp"

namespace throng_sim {

class RuledActions {
public:
    RuledActions(throng::u64 seed, throng::World& world) : random_(seed), world_(world) {}
    /// One operation on some entity.
    void perform();
    /// Whether something with this chance happens.
    bool chance(double chance) { return random_.chance(chance); }

private:
    template <class T>
    void toggle(throng::Entity entity);
    void change_mood(throng::Entity entity);
    void change_heat(throng::Entity entity);
    void change_weather();
    void change_birth(throng::Entity entity);

    Random random_;
    throng::World& world_;
    throng::u32 sequence_ = 0;
};

} // namespace throng_sim
