// Listings of docs/guide.md: scenes.
#include "throng/ecs.hpp"
#include "throng/scene.hpp"
#include <cstdio>
#include <doctest/doctest.h>
#include <string>

using namespace throng;

namespace {
// [scene_components]
struct Place { float x = 0, z = 0; };
struct Guard { i32 courage = 10; Entity post; };

Error register_components(Protocol& protocol) {
    const Range map{-8192, 8192, 0.01};
    protocol.component<Place>("place").field(&Place::x, map, "x").field(&Place::z, map, "z");
    protocol.component<Guard>("guard").field(&Guard::courage, "courage").field(&Guard::post, "post");
    return protocol.finish();
}
// [/scene_components]

TEST_CASE("save and load") {
    Protocol protocol;
    REQUIRE(register_components(protocol) == Error::none);
    World world;
    const Entity gate = world.spawn(Place{4, 0.1f}, Replicated{});
    world.spawn(Place{3, 0}, Guard{12, gate}, Replicated{});
    // [save_scene]
    Array<std::byte> file;
    SceneReport report;
    if (save_scene(world, protocol, file, report, {.form = SceneForm::binary}) != Error::none)
        std::puts(report.problem);
    // [/save_scene]
    REQUIRE(report.entities.size() == 2);
    // [load_scene]
    World other;
    if (load_scene(other, protocol, {file.data(), file.size()}, report) != Error::none)
        std::puts(report.problem); // and the world is as it was
    const Entity guard = report.entities[1]; // by scene id: in order of their making
    const Place* post = other.get<Place>(other.get<Guard>(guard)->post);
    // [/load_scene]
    REQUIRE(post);
    CHECK(post->x == 4);
    CHECK(post->z == 0.1f);
}

TEST_CASE("a text by hand extends a world") {
    Protocol protocol;
    REQUIRE(register_components(protocol) == Error::none);
    World world;
    const Entity gate = world.spawn(Place{4, 7}, Replicated{});
    SceneReport report;
    // [extend_scene]
    const std::string text = R"({"throng_scene": 1, "entities": [
        {"place": {"x": 5}},
        {"place": {"x": 5, "z": 2}, "guard": {"post": 0}}
    ]})";
    const Entity existing[] = {gate}; // scene id 0 is the gate; others are made
    const Error error = load_scene(world, protocol, std::as_bytes(std::span(text)), report, {.existing = existing});
    // [/extend_scene]
    REQUIRE(error == Error::none);
    CHECK(world.get<Place>(gate)->x == 5);
    CHECK(world.get<Place>(gate)->z == 7);
    CHECK(world.get<Guard>(report.entities[1])->courage == 10);
    CHECK(world.get<Guard>(report.entities[1])->post == gate);
    const std::string wrong = R"({"throng_scene": 1, "entities": [
        {"plaec": {}}]})";
    CHECK(load_scene(world, protocol, std::as_bytes(std::span(wrong)), report) == Error::wrong_protocol);
    CHECK(std::string(report.problem) == "line 2, column 10: unknown component \"plaec\"");
}
} // namespace
