// The committed files are what is written today, and are read.
#include "tests/scene/golden_world.hpp"
#include <cstdlib>
#include <fstream>
#include <iterator>

using namespace scene_test;

namespace {
std::string committed(const std::string& name) {
    const char* const folder = std::getenv("THRONG_SCENE_GOLDEN");
    REQUIRE(folder);
    std::ifstream file(std::string(folder) + "/" + name, std::ios::binary);
    REQUIRE(file.good());
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
} // namespace

TEST_SUITE("scene") {
    TEST_CASE("the golden files are written the same and are read") {
        for (const GoldenFiles& files : golden_files) {
            CAPTURE(std::string(files.name));
            const SceneProtocol protocol(0.01, files.resources);
            World world;
            files.fill(world);
            SceneReport saved_report;
            for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
                const std::string golden = committed(golden_name(files, form));
                Array<std::byte> file;
                REQUIRE(save_scene(world, protocol, file, saved_report, {.form = form}) == Error::none);
                CHECK(text_of(file) == golden);
                CHECK(saved_report.references_dropped == !files.resources);
                World other;
                SceneReport report;
                REQUIRE(load_scene(other, protocol, bytes_of(golden), report) == Error::none);
                CHECK(difference(world, other, saved_report.entities, report.entities) == "");
                CHECK(resource_difference(world, other, saved_report.entities, report.entities) == "");
                CHECK(report.resources == (files.resources ? 2 : 0));
            }
        }
    }

    TEST_CASE("files of version 1 are read by a protocol that has resources, and leave those of the world alone") {
        const SceneProtocol protocol(0.01, true);
        for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
            World world;
            world.resources().emplace<Weather>().days = 7;
            SceneReport report;
            REQUIRE(load_scene(world, protocol, bytes_of(committed(golden_name(golden_files[0], form))), report) == Error::none);
            CHECK(report.created > 300);
            CHECK(report.resources == 0);
            CHECK(world.resources().get<Weather>()->days == 7);
            CHECK_FALSE(world.resources().has<Motto>());
        }
    }
} // TEST_SUITE
