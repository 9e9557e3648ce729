#include "tests/sim/ruled.hpp"
#include <algorithm>

using namespace throng;

namespace throng_sim {

template <class T>
void RuledActions::toggle(Entity entity) {
    if (!world_.remove<T>(entity))
        world_.add<T>(entity);
    else if (random_.chance(0.2)) // in one tick
        world_.add<T>(entity);
}

void RuledActions::change_mood(Entity entity) {
    const Mood mood{random_.range(-1100, 1100), ++sequence_};
    if (Mood* now = world_.mut<Mood>(entity))
        *now = mood;
    else
        world_.add<Mood>(entity, mood);
}

void RuledActions::change_heat(Entity entity) {
    if (!world_.has<Heat>(entity))
        world_.add<Heat>(entity);
    *world_.mut<Heat>(entity) = {random_.between(0, 1000), ++sequence_};
}

void RuledActions::change_weather() {
    Resources& resources = world_.resources();
    if (random_.chance(0.3))
        resources.remove<Weather>();
    else if (Weather* weather = resources.mut<Weather>())
        *weather = {random_.range(-9, 9), ++sequence_};
    else
        resources.emplace<Weather>(Weather{random_.range(-9, 9), ++sequence_});
}

void RuledActions::change_birth(Entity entity) {
    if (Birth* birth = world_.mut<Birth>(entity))
        birth->value = random_.range(0, 1 << 20);
    else
        world_.add<Birth>(entity, Birth{random_.range(0, 1 << 20), ++sequence_});
}

void RuledActions::perform() {
    const u32 slot = random_.below(std::max(1u, world_.entity_slots()));
    const Entity entity = slot < world_.entity_slots() ? world_.entity_at(slot) : Entity{};
    const u32 kind = random_.below(16);
    if (kind == 15)
        return change_weather();
    if (!world_.alive(entity))
        return;
    switch (kind) {
    case 0:
        return toggle<Hero>(entity);
    case 1:
        return toggle<Shy>(entity);
    case 2:
        world_.remove<Mood>(entity);
        return;
    case 3:
        world_.remove<Birth>(entity);
        if (random_.chance(0.4))
            change_birth(entity);
        return;
    case 4: // in one tick
        world_.remove<Mood>(entity);
        return change_mood(entity);
    case 5:
    case 6:
    case 7:
        return change_birth(entity);
    case 8:
        world_.remove<Heat>(entity);
        if (random_.chance(0.5))
            change_heat(entity);
        return;
    case 9:
    case 10:
    case 11:
        return change_heat(entity);
    default:
        return change_mood(entity);
    }
}

} // namespace throng_sim
