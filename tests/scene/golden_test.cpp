// The committed files are what is written today, and are read.
#include "tests/scene/golden_world.hpp"
#include <cstdlib>
#include <fstream>
#include <iterator>

using namespace scene_test;

namespace {
std::string committed(const char* name) {
    const char* const folder = std::getenv("THRONG_SCENE_GOLDEN");
    REQUIRE(folder);
    std::ifstream file(std::string(folder) + "/" + name, std::ios::binary);
    REQUIRE(file.good());
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
} // namespace

TEST_SUITE("scene") {
    TEST_CASE("the golden files are written the same and are read") {
        const SceneProtocol protocol;
        World world;
        fill_golden(world);
        SceneReport saved_report;
        for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
            const std::string golden = committed(form == SceneForm::json ? "golden.json" : "golden.scene");
            Array<std::byte> file;
            REQUIRE(save_scene(world, protocol, file, saved_report, {.form = form}) == Error::none);
            CHECK(text_of(file) == golden);
            CHECK(saved_report.references_dropped == 1);
            World other;
            SceneReport report;
            REQUIRE(load_scene(other, protocol, bytes_of(golden), report) == Error::none);
            CHECK(difference(world, other, saved_report.entities, report.entities) == "");
        }
    }
} // TEST_SUITE
