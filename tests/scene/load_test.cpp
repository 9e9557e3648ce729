// Loading into a world that goes on: which entity becomes which, what stays, hooks, marks.
#include "tests/scene/scene_support.hpp"
#include "throng/changes.hpp"

using namespace scene_test;

namespace {
Error load(World& world, const Protocol& protocol, const std::string& text, SceneReport& report, const SceneLoadOptions& options = {}) {
    return load_scene(world, protocol, bytes_of(text), report, options);
}
std::string scene(const std::string& entities) {
    return "{\"throng_scene\":1,\"entities\":[" + entities + "]}";
}
} // namespace

TEST_SUITE("scene") {
    TEST_CASE("a load extends given entities and makes the others; references lead to both") {
        const SceneProtocol protocol;
        World world;
        Body body;
        body.ammo = 3;
        const Entity old = world.spawn(Place{1, 2, 3}, std::move(body), Local{5});
        const Entity stranger = world.spawn(Place{9, 9, 9}, Replicated{});
        for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
            World source;
            const Entity a = source.spawn(Place{7, 8, 9}, Replicated{});
            const Entity b = source.spawn(Place{-1, -2, -3}, Title{"old"}, Replicated{});
            source.add<Bond>(a, Bond{b, a});
            source.add<Bond>(b, Bond{a, {}});
            SceneReport report;
            const Entity existing[] = {{}, old};
            const u32 before = world.entity_count();
            REQUIRE(load_scene(world, protocol, bytes_of(saved(source, protocol, form)), report, {.existing = existing}) == Error::none);
            CHECK(report.created == 1);
            CHECK(report.extended == 1);
            CHECK(report.entities[1] == old);
            CHECK(world.entity_count() == before + 1);
            const Entity made = report.entities[0];
            CHECK(made != old);
            CHECK(world.get<Place>(old)->x == -1);
            CHECK(world.get<Title>(old)->text == "old");
            CHECK(world.get<Body>(old)->ammo == 3); // not in the scene
            CHECK(world.get<Local>(old)->value == 5);
            CHECK(world.has<Replicated>(old));
            CHECK(world.get<Bond>(old)->friend_of == made);
            CHECK(world.get<Bond>(made)->friend_of == old);
            CHECK(world.get<Bond>(made)->foe == made);
            CHECK(world.get<Place>(stranger)->x == 9);
        }
    }

    TEST_CASE("a list of given entities may be shorter than the scene, not longer; dead and repeated ones are refused") {
        const SceneProtocol protocol;
        World world;
        const Entity old = world.spawn(Place{1, 1, 1}), dead = world.create();
        world.destroy(dead);
        SceneReport report;
        const std::string two = scene("{\"place\":{\"x\":5}},{}");
        const Entity one[] = {old};
        REQUIRE(load(world, protocol, two, report, {.existing = one}) == Error::none);
        CHECK(world.get<Place>(old)->x == 5);
        CHECK(report.created == 1);
        const Entity three[] = {old, {}, {}}, twice[] = {old, old}, gone[] = {{}, dead};
        const u32 before = world.entity_count();
        for (const std::span<const Entity> list :
             {std::span<const Entity>(three), std::span<const Entity>(twice), std::span<const Entity>(gone)}) {
            CHECK(load(world, protocol, scene("{\"place\":{\"x\":6}},{}"), report, {.existing = list}) == Error::bad_value);
            CHECK(report.entities.empty());
            CHECK(report.problem[0] != 0);
        }
        CHECK(world.entity_count() == before);
        CHECK(world.get<Place>(old)->x == 5);
    }

    TEST_CASE("a field that the file leaves out keeps its value, or its default where the component is new") {
        const SceneProtocol protocol;
        World world;
        const Entity old = world.spawn(Place{1, 2, 3});
        SceneReport report;
        const Entity existing[] = {old};
        REQUIRE(load(world, protocol, scene("{\"place\":{\"z\":20}},{\"place\":{\"z\":20},\"body\":{}}"), report, {.existing = existing}) ==
                Error::none);
        const Place &kept = *world.get<Place>(old), &fresh = *world.get<Place>(report.entities[1]);
        CHECK(kept.x == 1);
        CHECK(kept.z == 20);
        CHECK(kept.height == 3);
        CHECK(fresh.x == 0);
        CHECK(fresh.height == 1.5);
        CHECK(world.get<Body>(report.entities[1])->ammo == 7);
    }

    TEST_CASE("rows are marked, and hooks run at the end with everything in place") {
        const SceneProtocol protocol;
        World world;
        const Entity old = world.spawn(Place{1, 2, 3}, Replicated{});
        const Entity untouched = world.spawn(Place{}, Replicated{});
        world.clear_changes();
        struct Heard {
            std::vector<std::string> calls;
        } heard;
        world.on_add<Bond>([&heard](World& w, Entity entity, Bond& bond) {
            CHECK(w.has<Replicated>(entity));
            CHECK(w.has<Place>(bond.foe));
            heard.calls.push_back("bond");
        });
        world.on_add<Replicated>([&heard](World&, Entity) { heard.calls.push_back("replicated"); });
        world.on_change<Place>([&heard](World&, Entity, Place& place) { heard.calls.push_back("place " + std::to_string(int(place.x))); });
        const Entity existing[] = {old};
        SceneReport report;
        REQUIRE(load(world, protocol, scene("{\"place\":{\"x\":50},\"bond\":{\"1\":1}},{\"place\":{}}"), report, {.existing = existing}) ==
                Error::none);
        CHECK(heard.calls == std::vector<std::string>{"bond", "replicated", "place 50"});
        const Pool<Place>& pool = world.pool<Place>();
        u32 marked = 0;
        for (u32 word = 0; word < pool.block_rows() / 64; ++word)
            marked += static_cast<u32>(std::popcount(pool.change_words(0)[word]));
        CHECK(marked == 2);
        CHECK(world.alive(untouched));
    }

    TEST_CASE("a given entity that is ending gets nothing new") {
        const SceneProtocol protocol;
        World world;
        const Entity old = world.spawn(Place{1, 2, 3});
        Error error = Error::io;
        SceneReport report;
        world.on_destroy([&](World& w, Entity entity) {
            const Entity existing[] = {entity};
            error = load(w, protocol, scene("{\"body\":{\"hp\":3},\"title\":\"61\"},{\"bond\":{\"0\":0,\"1\":1}}"), report,
                         {.existing = existing});
            CHECK_FALSE(w.has<Body>(entity));
        });
        CHECK(world.destroy(old));
        CHECK(error == Error::none);
        CHECK(world.entity_count() == 1);
        CHECK(world.get<Bond>(report.entities[1])->foe == report.entities[1]);
    }

    TEST_CASE("relations of the scene are linked, and cycles in a file do no harm") {
        const SceneProtocol protocol;
        World world;
        SceneReport report;
        REQUIRE(load(world, protocol, scene("{},{\"child of\":{\"parent\":0}},{\"child of\":{\"parent\":1}}"), report) == Error::none);
        CHECK(world.root<ChildOf>(report.entities[2]) == report.entities[0]);
        CHECK(world.source_count<ChildOf>(report.entities[0]) == 1);
        REQUIRE(load(world, protocol, scene("{\"child of\":{\"parent\":1}},{\"child of\":{\"parent\":0}},{\"child of\":{\"parent\":2}}"),
                     report) == Error::none);
        u32 walked = 0;
        world.each_ancestor<ChildOf>(report.entities[0], [&](Entity) { ++walked; });
        CHECK(walked <= world.entity_count());
    }

    TEST_CASE("only replicated entities and those asked for are saved; references out of the scene are null and counted") {
        const SceneProtocol protocol;
        World world;
        const Entity out = world.spawn(Place{1, 1, 1}), dead = world.create(), asked = world.spawn(Place{2, 2, 2});
        const Entity in = world.spawn(Bond{out, dead}, Replicated{});
        const Entity in_too = world.spawn(Bond{in, asked}, Replicated{});
        world.destroy(dead);
        for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
            Array<std::byte> file;
            SceneReport report, loaded;
            REQUIRE(save_scene(world, protocol, file, report, {.form = form}) == Error::none);
            CHECK(report.entities.size() == 2);
            CHECK(report.entities[0] == in);
            CHECK(report.references_dropped == 3);
            const Entity also[] = {asked, in, asked};
            REQUIRE(save_scene(world, protocol, file, report, {.form = form, .also = also}) == Error::none);
            CHECK(report.entities.size() == 3);
            CHECK(report.entities[0] == asked);
            CHECK(report.references_dropped == 2);
            World other;
            REQUIRE(load_scene(other, protocol, bytes_of(file), loaded) == Error::none);
            CHECK(other.get<Bond>(loaded.entities[2])->foe == loaded.entities[0]);
            CHECK_FALSE(other.get<Bond>(loaded.entities[1])->foe);
            CHECK(other.has<Replicated>(loaded.entities[0]));
        }
        CHECK(world.alive(in_too));
    }

    TEST_CASE("a save that fails says why and leaves no file") {
        const SceneProtocol protocol;
        World world;
        world.spawn(Title{std::string(title_bytes_max, 'x')}, Replicated{});
        const Entity second = world.spawn(Title{"short"}, Replicated{}), dead = world.create();
        world.destroy(dead);
        for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
            Array<std::byte> file;
            SceneReport report;
            const auto failure = [&](const SceneSaveOptions& options) {
                const Error error = save_scene(world, protocol, file, report, options);
                CHECK(file.empty());
                CHECK(report.entities.empty());
                CHECK(report.problem[0] != 0);
                return error;
            };
            CHECK(failure({.form = form, .entities_max = 1}) == Error::limit_reached);
            CHECK(failure({.form = form, .bytes_max = 60}) == Error::too_large);
            const Entity also[] = {dead};
            CHECK(failure({.form = form, .also = also}) == Error::bad_value);
            world.mut<Title>(second)->text.assign(title_bytes_max + 1, 'y');
            CHECK(failure({.form = form}) == Error::too_large);
            CHECK(std::string(report.problem) == "component \"title\" of entity 1 needs more than 40 bytes");
            world.mut<Title>(second)->text = "short";
            const u32 size = saved(world, protocol, form).size();
            CHECK(saved(world, protocol, form, {.entities_max = 2, .bytes_max = size}).size() == size);
            CHECK(failure({.form = form, .bytes_max = size - 1}) == Error::too_large);
        }
    }
} // TEST_SUITE
