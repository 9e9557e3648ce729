// Writes the committed files anew: usage: record_scene FOLDER (or `ninja -C build record_scene_files`).
#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/scene/golden_world.hpp"
#include <cstdio>

int main(int count, char** values) {
    using namespace scene_test;
    if (count != 2) {
        std::fputs("usage: record_scene FOLDER\n", stderr);
        return 2;
    }
    for (const GoldenFiles& files : golden_files) {
        const SceneProtocol protocol(0.01, files.resources);
        World world;
        files.fill(world);
        for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
            Array<std::byte> file;
            SceneReport report;
            if (save_scene(world, protocol, file, report, {.form = form}) != Error::none)
                return 1;
            const std::string path = std::string(values[1]) + "/" + golden_name(files, form);
            std::FILE* out = std::fopen(path.c_str(), "wb");
            if (!out || std::fwrite(file.data(), 1, file.size(), out) != file.size() || std::fclose(out) != 0) {
                std::fprintf(stderr, "record_scene: cannot write %s\n", path.c_str());
                return 2;
            }
        }
    }
    return 0;
}
