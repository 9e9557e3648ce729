// What is saved comes back: random worlds, both forms, to the bit.
#include "tests/scene/scene_support.hpp"
#include <limits>

using namespace scene_test;

TEST_SUITE("scene") {
    TEST_CASE("random worlds come back equal from both forms, and are saved again to the same bytes") {
        const SceneProtocol protocol;
        u64 components = 0, references_dropped = 0;
        for (u32 seed = 0; seed < 300; ++seed) {
            CAPTURE(seed);
            const RandomWorld source(seed);
            for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
                Array<std::byte> file;
                SceneReport saved_report, report;
                REQUIRE(save_scene(source.world, protocol, file, saved_report, {.form = form}) == Error::none);
                components += saved_report.components;
                references_dropped += saved_report.references_dropped;
                World world;
                const Error error = load_scene(world, protocol, bytes_of(file), report);
                INFO(std::string(report.problem));
                REQUIRE(error == Error::none);
                REQUIRE(report.same_protocol);
                REQUIRE(report.created == saved_report.entities.size());
                REQUIRE(report.extended == 0);
                REQUIRE(report.components == saved_report.components);
                REQUIRE(world.entity_count() == report.created);
                REQUIRE(difference(source.world, world, saved_report.entities, report.entities) == "");
                REQUIRE(text_of(saved(world, protocol, form)) == text_of(file));
                const SceneForm other = form == SceneForm::json ? SceneForm::binary : SceneForm::json;
                REQUIRE(text_of(saved(world, protocol, other)) == text_of(saved(source.world, protocol, other)));
            }
        }
        CHECK(components > 10'000);
        CHECK(references_dropped > 1'000);
    }

    TEST_CASE("a type under several names is saved under the first") {
        struct Chosen {};
        Protocol protocol;
        protocol.component<Place>("rough place").field(&Place::x, Range{-1000, 1000, 1}, "x");
        protocol.component<Place>("place").field(&Place::x, Range{-1000, 1000, 0.01}, "x").when(with<Chosen>);
        REQUIRE(protocol.finish() == Error::none);
        World world;
        world.spawn(Place{12.25f, 0, 0}, Chosen{}, Replicated{});
        for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
            World other;
            SceneReport report;
            REQUIRE(load_scene(other, protocol, bytes_of(saved(world, protocol, form)), report) == Error::none);
            CHECK(report.components == 1);
            other.each<Place>([](const Place& place) { CHECK(place.x == 12.25f); });
        }
    }

    TEST_CASE("the files do not depend on the order of rows") {
        const SceneProtocol protocol;
        RandomWorld source(7);
        const std::string json = text_of(saved(source.world, protocol, SceneForm::json));
        const std::string binary = text_of(saved(source.world, protocol, SceneForm::binary));
        source.world.sort<Place>([](const Place& a, const Place& b) { return a.x > b.x; });
        const Entity last = source.world.entity_at(source.world.pool<Replicated>().owner(0));
        source.world.remove<Replicated>(last);
        source.world.add<Replicated>(last);
        CHECK(text_of(saved(source.world, protocol, SceneForm::json)) == json);
        CHECK(text_of(saved(source.world, protocol, SceneForm::binary)) == binary);
    }

    TEST_CASE("values are exact whatever the quantiser, and a file outlives a change of it") {
        const SceneProtocol coarse(10), fine(0.001);
        World world;
        world.spawn(Place{123456.789f, 0.1f, 1e300}, Replicated{}); // beyond the Range, too
        for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
            World other;
            SceneReport report;
            REQUIRE(load_scene(other, fine, bytes_of(saved(world, coarse, form)), report) == Error::none);
            CHECK_FALSE(report.same_protocol);
            const Place& place = *other.get<Place>(report.entities[0]);
            CHECK(place.x == 123456.789f);
            CHECK(place.z == 0.1f);
            CHECK(place.height == 1e300);
        }
    }

    TEST_CASE("every float comes back to the same bits from JSON") {
        const SceneProtocol protocol;
        World world;
        std::mt19937 random(3);
        std::vector<float> values{0.0f, -0.0f, 1e-45f, -1e-45f, 1.17549435e-38f, 3.4028235e38f, 16777216.0f, 0.1f};
        for (const u32 bits : {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u, 0x7f800001u, 0x7fffffffu})
            values.push_back(std::bit_cast<float>(bits));
        for (u32 i = 0; i < 20'000; ++i)
            values.push_back(std::bit_cast<float>(static_cast<u32>(random())));
        for (const float value : values)
            world.spawn(Place{value, 0, static_cast<double>(value) * 3}, Replicated{});
        World other;
        SceneReport report;
        REQUIRE(load_scene(other, protocol, bytes_of(saved(world, protocol, SceneForm::json)), report) == Error::none);
        u32 different = 0;
        for (u32 i = 0; i < values.size(); ++i)
            different += !same_bits(other.get<Place>(report.entities[i])->x, values[i]);
        CHECK(different == 0);
    }

    TEST_CASE("an empty world is a scene, and so are entities without components") {
        const SceneProtocol protocol;
        for (const SceneForm form : {SceneForm::json, SceneForm::binary})
            for (const u32 count : {0u, 1u, 9u}) {
                World world, other;
                for (u32 i = 0; i < count; ++i)
                    world.spawn(Replicated{});
                SceneReport report;
                REQUIRE(load_scene(other, protocol, bytes_of(saved(world, protocol, form)), report) == Error::none);
                CHECK(report.created == count);
                CHECK(report.components == 0);
                CHECK(other.entity_count() == count);
            }
    }

    TEST_CASE("the binary form is compact") {
        const SceneProtocol protocol;
        World world;
        for (u32 i = 0; i < 1000; ++i) {
            Body body;
            body.hp = static_cast<i32>(i % 100) - 50;
            world.spawn(std::move(body), Replicated{});
        }
        world.spawn(Mark{}, Replicated{});
        const u32 binary = saved(world, protocol, SceneForm::binary).size(), json = saved(world, protocol, SceneForm::json).size();
        // hp, score (-1) and ammo (7) a byte each, the rest none; a bit for each entity, and names.
        CHECK(binary < 3 * 1000 + 1001 / 8 + 200);
        CHECK(json > 20 * binary);
    }
} // TEST_SUITE
