// Files that are refused: with which error, in which words, and without a trace in the world.
#include "tests/scene/scene_support.hpp"

using namespace scene_test;

namespace {
struct Refusal {
    SceneProtocol protocol;
    World world;
    Entity old = world.spawn(Place{1, 2, 3});
    SceneReport report;

    Error load(Bytes file, SceneLoadOptions options = {}) {
        const Entity existing[] = {old};
        options.existing = existing;
        const Error error = load_scene(world, protocol, file, report, options);
        if (error != Error::none) {
            REQUIRE(world.entity_count() == 1);
            REQUIRE(world.signature(old).count() == 1);
            REQUIRE(world.get<Place>(old)->x == 1);
            REQUIRE(report.entities.empty());
            REQUIRE(report.problem[0] != 0);
            REQUIRE(report.problem_offset <= file.size());
        }
        return error;
    }
};

std::string head() {
    return "{\"throng_scene\": 1,\n\"entities\": [\n";
}
} // namespace

TEST_SUITE("scene") {
    TEST_CASE("what is wrong with a JSON file is said with its name, line and column") {
        struct Case {
            std::string text;
            Error error;
            const char* problem;
        };
        const std::string body = head() + "{\"body\": {\"hp\": ", place = head() + "{\"place\": {\"x\": ";
        const Case cases[] = {
            {"", Error::truncated, "line 1, column 1: expected '{'"},
            {"<scene/>", Error::unsupported, "line 1, column 1: neither JSON nor the binary form of a scene"},
            {"{\"nodes\": 1}", Error::unsupported, "line 1, column 2: expected \"throng_scene\", not \"nodes\""},
            {"{\"throng_scene\": 3, \"what\": []}", Error::unsupported, "line 1, column 18: another version of the format"},
            {"{\"throng_scene\": 1, \"protocol\": \"12\", \"entities\": []}", Error::bad_value,
             "line 1, column 33: the protocol hash has 16 digits 0-9, a-f"},
            {"{\"throng_scene\": 1, \"people\": []}", Error::bad_value,
             "line 1, column 21: expected \"protocol\" or \"entities\", not \"people\""},
            {head() + "] } x", Error::bad_value, "line 3, column 5: something behind the end"},
            {head() + "{}, ]}", Error::bad_value, "line 3, column 5: expected '{' of an entity"},
            {head() + "{} {}]}", Error::bad_value, "line 3, column 4: expected ',' or ']' behind an entity"},
            {head() + "{\"place\": {}}, {},\n  {\"positon\": {}}]}", Error::wrong_protocol,
             "line 4, column 4: unknown component \"positon\""},
            {head() + "{\"po\\u00e4\\u0001\": {}}]}", Error::wrong_protocol, "line 3, column 2: unknown component \"po???\""},
            {head() + "{\"" + std::string(100, 'n') + "\": {}}]}", Error::wrong_protocol,
             "line 3, column 2: unknown component \"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...\""},
            {head() + "{\"" + std::string(300, 'n') + "\": {}}]}", Error::too_large, "line 3, column 2: a longer name than any"},
            {head() + "{\"place\": {}, \"place\": {}}]}", Error::bad_value, "line 3, column 15: component \"place\" twice in one entity"},
            {head() + "{\"place\": {\"y\": 1}}]}", Error::wrong_protocol, "line 3, column 12: unknown field \"y\" of component \"place\""},
            {head() + "{\"bond\": {\"2\": 1}}]}", Error::wrong_protocol, "line 3, column 11: unknown field \"2\" of component \"bond\""},
            {head() + "{\"place\": {\"x\": 1, \"x\": 2}}]}", Error::bad_value,
             "line 3, column 20: field \"x\" twice in component \"place\""},
            {head() + "{\"place\": [1, 2]}]}", Error::bad_value, "line 3, column 11: component \"place\" needs '{' and its fields"},
            {head() + "{\"title\": {}}]}", Error::bad_value,
             "line 3, column 11: component \"title\" needs a string of bytes, two digits 0-9, a-f each"},
            {head() + "{\"title\": \"6A\"}]}", Error::bad_value,
             "line 3, column 12: component \"title\" needs a string of bytes, two digits 0-9, a-f each"},
            {head() + "{\"title\": \"" + std::string(2 * title_bytes_max + 2, '6') + "\"}]}", Error::too_large,
             "line 3, column 92: component \"title\" has at most 40 bytes"},
            {head() + "{\"title\": \"2161\"}]}", Error::bad_value, "line 3, column 11: component \"title\" refuses these bytes: bad_value"},
            {body + "1.5}}]}", Error::bad_value,
             "line 3, column 17: field \"hp\" of component \"body\" needs a signed integer that it can hold"},
            {body + "2147483648}}]}", Error::bad_value,
             "line 3, column 17: field \"hp\" of component \"body\" needs a signed integer that it can hold"},
            {body + "{\"hp\": {\"hp\": {\"hp\": 1}}}}}]}", Error::bad_value,
             "line 3, column 17: field \"hp\" of component \"body\" needs a signed integer that it can hold"},
            {head() + "{\"body\": {\"level\": -1}}]}", Error::bad_value,
             "line 3, column 20: field \"level\" of component \"body\" needs an unsigned integer that it can hold"},
            {head() + "{\"body\": {\"armed\": 1}}]}", Error::bad_value,
             "line 3, column 20: field \"armed\" of component \"body\" needs a bool that it can hold"},
            {place + "1e39}}]}", Error::bad_value,
             "line 3, column 17: field \"x\" of component \"place\" needs a 32-bit float that it can hold"},
            {place + "\"0x3f800000\"}}]}", Error::bad_value,
             "line 3, column 17: field \"x\" of component \"place\" needs a 32-bit float that it can hold"},
            {place + "NaN}}]}", Error::bad_value,
             "line 3, column 17: field \"x\" of component \"place\" needs a 32-bit float that it can hold"},
            {place + "01}}]}", Error::bad_value,
             "line 3, column 17: field \"x\" of component \"place\" needs a 32-bit float that it can hold"},
            {place + "1.", Error::truncated, "line 3, column 19: field \"x\" of component \"place\" needs a 32-bit float that it can hold"},
            {head() + "{\"bond\": {\"1\": 7}}, {}\n]}", Error::bad_value, "line 3, column 16: entity 7 is beyond the last one"},
            {head() + "{\"bond\": {\"1\": -1}}]}", Error::bad_value,
             "line 3, column 16: field \"1\" of component \"bond\" needs a reference that it can hold"},
        };
        Refusal test;
        for (const Case& one : cases) {
            CAPTURE(one.text);
            CHECK(test.load(bytes_of(one.text)) == one.error);
            CHECK(std::string(test.report.problem) == one.problem);
        }
    }

    TEST_CASE("JSON that others write is read: spaces, escapes, any order of components and fields") {
        Refusal test;
        const std::string text = "\t{ \"throng_scene\" : 1.0e0 , \"entities\" : [ ] }";
        CHECK(test.load(bytes_of(text)) == Error::unsupported); // the version is a whole number
        const std::string spaced = " {\r\n\"throng_scene\" : 1 ,\"entities\":[ {\"a \\\"\\u006darked\\\" one\\\\\\t\":{ } , "
                                   "\"\\u0070lace\" : { \"z\" : -0.0 , \"x\" : 25E-1 } } , {\"title\" : \"6869\"}]\n}\n";
        REQUIRE(test.load(bytes_of(spaced)) == Error::none);
        CHECK(test.world.get<Place>(test.old)->x == 2.5f);
        CHECK(same_bits(test.world.get<Place>(test.old)->z, -0.0f));
        CHECK(test.world.has<Mark>(test.old));
        CHECK(test.world.get<Title>(test.report.entities[1])->text == "hi");
    }

    TEST_CASE("what is wrong with a binary file is said with its name and byte") {
        Refusal test;
        World source;
        const Entity a = source.spawn(Place{1, 2, 3}, Replicated{});
        source.add<Bond>(a, Bond{a, {}});
        source.add<Title>(source.spawn(Replicated{}), Title{"ab"});
        const Array<std::byte> good = saved(source, test.protocol, SceneForm::binary);
        const std::string text = text_of(good);
        const auto changed = [&](std::size_t at, char to) {
            std::string file = text;
            file[at] = to;
            return file;
        };
        const std::size_t place = text.find("place"), bond = text.find("bond"), title = text.find("title");
        struct Case {
            std::string text;
            Error error;
            std::string problem;
        };
        const auto byte = [](std::size_t at, const std::string& what) { return "byte " + std::to_string(at) + ": " + what; };
        const std::size_t bond_owners = bond + 4 + 1 + 6, title_owners = title + 6, height = text.find("height"), place_owners = height + 7;
        const Case cases[] = {
            {"THRSC", Error::truncated, byte(5, "the file ends too early")},
            {changed(0, 't'), Error::unsupported, "line 1, column 1: neither JSON nor the binary form of a scene"},
            {changed(8, 9), Error::unsupported, byte(8, "another version of the format")},
            {changed(place, 'P'), Error::wrong_protocol, byte(place, "unknown component \"Place\"")},
            {changed(place + 7, 'w'), Error::wrong_protocol, byte(place + 7, "unknown field \"w\" of component \"place\"")},
            {changed(place + 10, 'x'), Error::bad_value, byte(place + 10, "field \"x\" twice in component \"place\"")},
            {changed(place + 8, 1), Error::wrong_protocol,
             byte(place + 8, "field \"x\" of component \"place\" is a 64-bit float, but here a 32-bit float")},
            {changed(place + 8, 9), Error::bad_value, byte(place + 8, "no kind of field")},
            {changed(place + 5, char(255)), Error::wrong_protocol, byte(place + 5, "component \"place\" is opaque, but has fields here")},
            {changed(title + 5, 0), Error::wrong_protocol, byte(title + 5, "component \"title\" has fields, but is opaque here")},
            {changed(place_owners, 2), Error::bad_value, byte(place_owners, "no list of the entities that have component \"place\"")},
            {changed(place_owners + 1, 0), Error::bad_value, byte(place_owners, "no list of the entities that have component \"place\"")},
            {changed(place_owners + 1, 4), Error::bad_value, byte(place_owners, "no list of the entities that have component \"place\"")},
            {changed(place_owners + 2, 9), Error::bad_value,
             byte(place_owners + 2, "field \"x\" of component \"place\" needs a 32-bit float that it can hold")},
            {changed(bond_owners + 3, 3), Error::bad_value,
             byte(bond_owners + 3, "field \"0\" of component \"bond\" needs a reference that it can hold")},
            {changed(title_owners + 2, 41), Error::too_large, byte(title_owners + 2, "component \"title\" has at most 40 bytes")},
            {changed(title_owners + 3, '!'), Error::bad_value,
             byte(title_owners + 2, "component \"title\" refuses these bytes: bad_value")},
            {text + "x", Error::bad_value, byte(text.size(), "something behind the end")},
        };
        REQUIRE(bond_owners < title);
        for (const Case& one : cases) {
            CAPTURE(one.problem);
            CHECK(test.load(bytes_of(one.text)) == one.error);
            CHECK(std::string(test.report.problem) == one.problem);
        }
        CHECK(test.load(bytes_of(good)) == Error::none);
    }

    TEST_CASE("a file that ends too early is refused at every length") {
        const RandomWorld source(11);
        for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
            Refusal test;
            const Array<std::byte> file = saved(source.world, test.protocol, form);
            const u32 end = form == SceneForm::json ? file.size() - 1 : file.size(); // the last newline is not missed
            u32 refused = 0;
            for (u32 length = 0; length < end; ++length)
                refused += test.load(bytes_of(file).first(length)) == Error::truncated;
            CHECK(refused == end);
            CHECK(test.load(bytes_of(file)) == Error::none);
        }
    }

    TEST_CASE("limits of a load") {
        SceneProtocol protocol;
        for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
            World source;
            for (u32 i = 0; i < 5; ++i)
                source.spawn(Mark{}, Replicated{});
            const Array<std::byte> file = saved(source, protocol, form);
            World world(WorldOptions{.entities_max = 6});
            SceneReport report;
            CHECK(load_scene(world, protocol, bytes_of(file), report, {.entities_max = 4}) == Error::limit_reached);
            CHECK(load_scene(world, protocol, bytes_of(file), report, {.bytes_max = file.size() - 1}) == Error::too_large);
            CHECK(world.entity_count() == 0);
            REQUIRE(load_scene(world, protocol, bytes_of(file), report, {.entities_max = 5, .bytes_max = file.size()}) == Error::none);
            CHECK(load_scene(world, protocol, bytes_of(file), report) == Error::limit_reached); // of the world
            CHECK(std::string(report.problem) == "the world has no room for 5 more entities");
            CHECK(world.entity_count() == 5);
            const Entity existing[] = {world.entity_at(0), world.entity_at(1), world.entity_at(2), world.entity_at(3)};
            CHECK(load_scene(world, protocol, bytes_of(file), report, {.existing = existing}) == Error::none);
            CHECK(world.entity_count() == 6);
        }
    }

    TEST_CASE("names of fields are checked at registration") {
        const auto problem = [](const char* first, const char* second) {
            Protocol protocol;
            protocol.component<Bond>("bond").field(&Bond::friend_of, first).field(&Bond::foe, second);
            CHECK(protocol.finish() == Error::bad_value);
            return std::string(protocol.problem());
        };
        CHECK(problem("foe", "foe") == "component \"bond\": two fields of one name");
        CHECK(problem("0", nullptr) == "component \"bond\": the name of a field has 1 to 47 bytes, and no digit first");
        CHECK(problem("", nullptr) == "component \"bond\": the name of a field has 1 to 47 bytes, and no digit first");
        const std::string longest(47, 'n');
        CHECK(problem((longest + "n").c_str(), nullptr) == "component \"bond\": the name of a field has 1 to 47 bytes, and no digit first");
        Protocol with_names, without;
        with_names.component<Bond>("bond").field(&Bond::friend_of, longest.c_str()).field(&Bond::foe, "foe");
        without.component<Bond>("bond").field(&Bond::friend_of).field(&Bond::foe);
        REQUIRE(with_names.finish() == Error::none);
        REQUIRE(without.finish() == Error::none);
        CHECK(with_names.hash() != without.hash()); // two builds find each other's fields by their names
    }
} // TEST_SUITE
