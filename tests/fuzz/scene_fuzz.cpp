// Scene files of both forms. A refused file leaves no trace in the world; one that is read is what a save writes again, in either form.
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/fuzz_protocol.hpp"
#include "throng/ecs.hpp"
#include "throng/scene.hpp"

throng::u64 throng::fuzz::accepted_count = 0;

namespace {
using namespace throng;
using throng::fuzz::require;

Array<std::byte> saved(const World& world, const Protocol& protocol, SceneForm form) {
    Array<std::byte> file;
    SceneReport report;
    require(save_scene(world, protocol, file, report, {.form = form}) == Error::none && report.references_dropped == 0);
    return file;
}

bool same(const Array<std::byte>& a, const Array<std::byte>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const throng::u8* data, std::size_t size_bytes) {
    static fuzz::SceneFuzzProtocol fixture;
    const Protocol& protocol = fixture.protocol;
    const Bytes in{reinterpret_cast<const std::byte*>(data), size_bytes};
    World world(WorldOptions{.block_rows = 64});
    const Entity old = world.spawn(fuzz::Place{1, 2});
    const Entity existing[] = {old};
    world.resources().emplace<fuzz::Season>(fuzz::Season{7, old});
    const u32 version = world.resources().version<fuzz::Season>();
    SceneReport report;
    const Error error = load_scene(world, protocol, in, report, {.existing = existing, .entities_max = 500, .bytes_max = 100'000});
    if (error != Error::none) {
        require(world.entity_count() == 1 && world.signature(old).count() == 1 && world.get<fuzz::Place>(old)->x == 1);
        require(report.entities.empty() && report.problem[0] != 0 && report.problem_offset <= size_bytes);
        require(world.resources().version<fuzz::Season>() == version && !world.resources().has<fuzz::Motto>());
        return 0;
    }
    const fuzz::Season& season = *world.resources().get<fuzz::Season>();
    require(!season.ruler || world.alive(season.ruler));
    const u32 seasons = world.resources().version<fuzz::Season>() != version, mottos = world.resources().has<fuzz::Motto>();
    require(report.resources == seasons + mottos);
    require(report.extended == 1 && report.created + 1 == report.entities.size() && world.entity_count() == report.entities.size());
    for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
        const Array<std::byte> file = saved(world, protocol, form);
        World other(WorldOptions{.block_rows = 64});
        require(load_scene(other, protocol, {file.data(), file.size()}, report) == Error::none && report.same_protocol);
        for (const SceneForm again : {SceneForm::json, SceneForm::binary})
            require(same(saved(other, protocol, again), saved(world, protocol, again)));
    }
    ++throng::fuzz::accepted_count;
    return 0;
}
