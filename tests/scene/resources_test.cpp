// Resources in scenes.
#include "tests/scene/scene_support.hpp"

using namespace scene_test;

namespace {
Error load(World& world, const Protocol& protocol, const std::string& text, SceneReport& report, const SceneLoadOptions& options = {}) {
    return load_scene(world, protocol, bytes_of(text), report, options);
}
std::string scene(const std::string& resources, const std::string& entities = "") {
    return "{\"throng_scene\":2,\"resources\":{" + resources + "},\"entities\":[" + entities + "]}";
}
} // namespace

TEST_SUITE("scene") {
    TEST_CASE("resources come back from both forms, exact, and their references lead to the new entities") {
        const SceneProtocol protocol(10, true), other_protocol(0.001, true);
        std::mt19937 random(5);
        for (u32 seed = 0; seed < 64; ++seed) {
            CAPTURE(seed);
            RandomWorld source(seed);
            Resources& resources = source.world.resources();
            const Entity dead = source.world.create();
            source.world.destroy(dead);
            if (seed & 1)
                resources.emplace<Weather>(Weather{std::bit_cast<float>(static_cast<u32>(random())), seed % 3 == 0,
                                                   static_cast<u32>(random()), source.entities.empty() ? dead : source.entities[0]});
            if (seed & 2)
                resources.emplace<Motto>().text = std::string(seed % (title_bytes_max + 1), 'm');
            if (seed & 4)
                resources.emplace<Season>(Season{static_cast<i32>(random())});
            for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
                Array<std::byte> file;
                SceneReport saved_report, report;
                REQUIRE(save_scene(source.world, protocol, file, saved_report, {.form = form}) == Error::none);
                CHECK(saved_report.resources == static_cast<u32>(std::popcount(seed & 7)));
                World world;
                REQUIRE(load_scene(world, other_protocol, bytes_of(file), report) == Error::none);
                CHECK(report.resources == saved_report.resources);
                CHECK(report.components == saved_report.components);
                CHECK(difference(source.world, world, saved_report.entities, report.entities) == "");
                CHECK(resource_difference(source.world, world, saved_report.entities, report.entities) == "");
                CHECK(text_of(saved(world, protocol, form)) == text_of(file));
                const std::string text = text_of(file);
                const bool first = form == SceneForm::json ? text.find("\"throng_scene\":1") != std::string::npos : text[8] == 1;
                CHECK(first == ((seed & 7) == 0)); // without resources an older build reads it
            }
        }
    }

    TEST_CASE("resources of a world that goes on are written over, those that the file does not have stay") {
        const SceneProtocol protocol(0.01, true);
        World world;
        const Entity old = world.spawn(Place{1, 1, 1}, Replicated{});
        world.resources().emplace<Weather>(Weather{5, true, 9, old});
        world.resources().emplace<Season>(Season{1066});
        const Weather* const there = world.resources().get<Weather>();
        const u32 weather = world.resources().version<Weather>(), season = world.resources().version<Season>();
        SceneReport report;
        REQUIRE(load(world, protocol, scene("\"weather\":{\"wind\":7,\"3\":1},\"motto\":\"6162\"", "{},{}"), report) == Error::none);
        CHECK(report.resources == 2);
        CHECK(world.resources().get<Weather>() == there); // it is the same one
        CHECK(there->wind == 7);
        CHECK(there->days == 9); // left out: as it was
        CHECK(there->centre == report.entities[1]);
        CHECK(world.resources().get<Motto>()->text == "ab");
        CHECK(world.resources().get<Season>()->year == 1066);
        CHECK(world.resources().version<Weather>() != weather); // counts as a change
        CHECK(world.resources().version<Season>() == season);
        World fresh;
        REQUIRE(load(fresh, protocol, scene("\"weather\":{\"days\":3}"), report) == Error::none);
        CHECK(fresh.resources().get<Weather>()->wind == 2); // its default
        CHECK(fresh.resources().get<Weather>()->days == 3);
        CHECK(fresh.entity_count() == 0);
        const Entity existing[] = {old};
        REQUIRE(load(world, protocol, scene("\"weather\":{\"3\":0}", "{}"), report, {.existing = existing}) == Error::none);
        CHECK(there->centre == old);
    }

    TEST_CASE("resources can be left out of a save; references out of the scene are null and counted") {
        const SceneProtocol protocol(0.01, true), without;
        World world;
        world.resources().emplace<Weather>(Weather{5, true, 9, world.spawn(Place{})}); // not in the scene
        world.resources().emplace<Local>(Local{4});                                    // not registered
        for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
            World other;
            SceneReport report;
            Array<std::byte> file;
            REQUIRE(save_scene(world, protocol, file, report, {.form = form}) == Error::none);
            CHECK(report.references_dropped == 1);
            REQUIRE(load_scene(other, protocol, bytes_of(file), report) == Error::none);
            CHECK_FALSE(other.resources().get<Weather>()->centre);
            CHECK_FALSE(other.resources().has<Local>());
            REQUIRE(save_scene(world, protocol, file, report, {.form = form, .resources = false}) == Error::none);
            CHECK(report.resources == 0);
            World third;
            REQUIRE(load_scene(third, without, bytes_of(file), report) == Error::none);
            CHECK_FALSE(third.resources().has<Weather>());
        }
    }

    TEST_CASE("what is wrong with a resource is said with its name, and nothing changes") {
        const SceneProtocol protocol(0.01, true);
        World world;
        world.resources().emplace<Weather>(Weather{5, true, 9, {}});
        const u32 version = world.resources().version<Weather>();
        SceneReport report;
        const auto problem = [&](Error expected, const std::string& text) {
            CHECK(load(world, protocol, text, report) == expected);
            CHECK(world.resources().version<Weather>() == version);
            CHECK_FALSE(world.resources().has<Motto>());
            CHECK(world.entity_count() == 0);
            return std::string(report.problem);
        };
        CHECK(problem(Error::wrong_protocol, scene("\"wether\":{}")) == "line 1, column 32: unknown resource \"wether\"");
        CHECK(problem(Error::wrong_protocol, scene("\"place\":{}")) == "line 1, column 32: unknown resource \"place\"");
        CHECK(problem(Error::wrong_protocol, scene("", "{\"weather\":{}}")) == "line 1, column 47: unknown component \"weather\"");
        CHECK(problem(Error::wrong_protocol, scene("\"weather\":{\"rain\":1}")) ==
              "line 1, column 43: unknown field \"rain\" of resource \"weather\"");
        CHECK(problem(Error::bad_value, scene("\"weather\":{},\"weather\":{}")) == "line 1, column 45: resource \"weather\" twice");
        CHECK(problem(Error::bad_value, scene("\"motto\":\"61\",\"weather\":{\"days\":-1}")) ==
              "line 1, column 63: field \"days\" of resource \"weather\" needs an unsigned integer that it can hold");
        CHECK(problem(Error::bad_value, scene("\"motto\":\"2161\"")) ==
              "line 1, column 40: resource \"motto\" refuses these bytes: bad_value");
        CHECK(problem(Error::bad_value, scene("\"motto\":\"61\",\"weather\":{\"3\":1}", "{}")) ==
              "line 1, column 60: entity 1 is beyond the last one");
        CHECK(problem(Error::bad_value, scene("\"motto\":\"61\"},\"resources\":{")) ==
              "line 1, column 46: expected \"entities\", not \"resources\"");
        CHECK(problem(Error::bad_value, "{\"throng_scene\":1,\"resources\":{},\"entities\":[]}") ==
              "line 1, column 19: expected \"protocol\" or \"entities\", not \"resources\"");
        CHECK(problem(Error::bad_value, "{\"throng_scene\":2,\"people\":{},\"entities\":[]}") ==
              "line 1, column 19: expected \"protocol\" or \"resources\" or \"entities\", not \"people\"");
        CHECK(problem(Error::bad_value, "{\"throng_scene\":2,\"resources\":[],\"entities\":[]}") ==
              "line 1, column 31: expected '{' of the resources");
        CHECK(problem(Error::unsupported, "{\"throng_scene\":3,\"entities\":[]}") == "line 1, column 17: another version of the format");

        World source;
        source.resources().emplace<Weather>(Weather{1, false, 2, source.spawn(Replicated{})});
        source.resources().emplace<Motto>().text = "ok";
        const std::string good = text_of(saved(source, protocol, SceneForm::binary));
        const auto at = [&](const char* name) { return good.find(name); };
        const auto changed = [&](std::size_t where, int value) {
            std::string text = good;
            text[where] = static_cast<char>(value);
            return text;
        };
        const auto byte = [](std::size_t where, const std::string& what) { return "byte " + std::to_string(where) + ": " + what; };
        CHECK(problem(Error::wrong_protocol, changed(at("weather"), 'W')) == byte(at("weather"), "unknown resource \"Weather\""));
        CHECK(problem(Error::unsupported, changed(8, 3)) == byte(8, "another version of the format"));
        CHECK(problem(Error::bad_value, changed(8, 1)) == byte(good.find("\x07weather") - 1, "something behind the end"));
        CHECK(problem(Error::bad_value, changed(good.size() - 2, '!')) ==
              byte(good.size() - 3, "resource \"motto\" refuses these bytes: bad_value"));
        CHECK(problem(Error::too_large, changed(good.size() - 3, 41)) == byte(good.size() - 3, "resource \"motto\" has at most 40 bytes"));
        for (std::size_t length = 0; length < good.size(); ++length)
            CHECK(load(world, protocol, good.substr(0, length), report) == Error::truncated);
        CHECK(world.resources().version<Weather>() == version);
        CHECK(load(world, protocol, good, report) == Error::none);
        CHECK(world.resources().get<Motto>()->text == "ok");

        source.resources().mut<Motto>()->text.assign(title_bytes_max + 1, 'x');
        for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
            Array<std::byte> file;
            CHECK(save_scene(source, protocol, file, report, {.form = form}) == Error::too_large);
            CHECK(std::string(report.problem) == "resource \"motto\" needs more than 40 bytes");
            CHECK(file.empty());
        }
    }
} // TEST_SUITE
