#pragma once
// The worlds of the committed files: golden.json and golden.scene, of version 1, and golden_resources.json and .scene, of version 2.
#include "tests/scene/scene_support.hpp"

namespace scene_test {

inline void fill_golden(World& world) {
    const Entity first = world.spawn(Place{1.5f, -2, 0.1}, Replicated{});
    Body body;
    body.yaw = 3.25f;
    body.lean = -3;
    body.heat = -300;
    body.hp = 70'000;
    body.score = -5'000'000'000;
    body.level = 200;
    body.ammo = 60'000;
    body.flags = 4'000'000'000;
    body.serial = ~u64{0};
    body.armed = true;
    body.mood = Mood::furious;
    const Entity second = world.spawn(std::move(body), Title{"A \"title\""}, Replicated{});
    world.add<Bond>(second, Bond{first, world.create()}); // the second is not saved
    const Entity third = world.spawn(Place{std::bit_cast<float>(0x7fc00001u), std::bit_cast<float>(0xff800000u), -0.0}, Body{}, Mark{},
                                     Title{}, Replicated{});
    world.add<Bond>(third, Bond{third, {}});
    world.add<ChildOf>(third, ChildOf{first});
    for (u32 i = 0; i < 300; ++i) // far apart, so that owners are listed by gaps
        world.spawn(Replicated{});
    world.add<Mark>(world.spawn(Replicated{}));
}

inline void fill_golden_resources(World& world) {
    const Entity first = world.spawn(Place{1, 2, 3}, Replicated{});
    world.spawn(Bond{first, {}}, Replicated{});
    world.resources().emplace<Weather>(Weather{0.1f, true, 300, first});
    world.resources().emplace<Motto>().text = "A \"motto\"";
}

/// A pair of files.
struct GoldenFiles {
    const char* name;
    bool resources;
    void (*fill)(World& world);
};
inline constexpr GoldenFiles golden_files[] = {{"golden", false, fill_golden}, {"golden_resources", true, fill_golden_resources}};
inline std::string golden_name(const GoldenFiles& files, SceneForm form) {
    return std::string(files.name) + (form == SceneForm::json ? ".json" : ".scene");
}

} // namespace scene_test
