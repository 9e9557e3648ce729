#include "bench/random.hpp"
#include "bench/traces/trace.hpp"
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <zstd.h>

using namespace scenarios;

static std::vector<std::byte> bytes_of(const std::string& text) {
    std::vector<std::byte> out(text.size());
    if (!text.empty())
        std::memcpy(out.data(), text.data(), text.size());
    return out;
}
static std::string parse(const std::string& text, Trace& out, const TraceLimits& limits = {}) {
    return parse_trace(bytes_of(text), "f", out, limits);
}
static std::string problem(const std::string& text, const TraceLimits& limits = {}) {
    Trace t;
    const std::string result = parse(text, t, limits);
    CHECK(t.sample_count() == 0);
    CHECK(result.find('\n') == std::string::npos);
    return result;
}
static std::vector<std::byte> compress(const std::vector<std::byte>& in) {
    std::vector<std::byte> out(ZSTD_compressBound(in.size()));
    out.resize(ZSTD_compress(out.data(), out.size(), in.data(), in.size(), 3));
    return out;
}

static const char* const fcd = R"(<?xml version="1.0"?>
<!-- made by <hand> -->
<fcd-export xmlns:xsi="x">
  <timestep time="1.00">
    <vehicle id="a" x="10" y="20" angle="90" speed="5" lane="e_0"/>
    <person id='a' x="1.5" y="2" angle="0.00" speed="1"/>
  </timestep>
  <timestep time="1.05"/>
  <timestep time="1.10">
    <vehicle id="b" x="1" y="2" angle="180" speed="0"></vehicle>
    <vehicle id="a" x="10.5" y="20" z="3" angle="270" speed="5"/>
  </timestep>
</fcd-export>
)";

TEST_SUITE("scenarios") {
    TEST_CASE("SUMO FCD XML: vehicles, persons, empty steps, angles") {
        Trace t;
        REQUIRE(parse(fcd, t) == "");
        CHECK(t.source == "SUMO FCD XML");
        CHECK(t.entity_count == 3);
        REQUIRE(t.frame_count() == 3);
        CHECK(t.begin == std::vector<std::uint32_t>{0, 2, 2, 4});
        CHECK(t.id == std::vector<std::uint32_t>{0, 1, 0, 2});
        CHECK(t.frame_s == doctest::Approx(0.05));
        CHECK(t.heading[0] == doctest::Approx(0));                   // east is +x
        CHECK(t.heading[1] == doctest::Approx(1.5707963f));          // north is +y
        CHECK(std::fabs(t.heading[2]) == doctest::Approx(3.1415927f)); // west
        CHECK(t.heading[3] == doctest::Approx(-1.5707963f));         // south
        CHECK(t.x[2] == 10.5f);
        CHECK(t.z[2] == 3.0f);
    }

    TEST_CASE("CSV: with and without a header, columns in any order, rows sorted by id, derived motion") {
        Trace a, b, c;
        REQUIRE(parse("id,time,x,y\r\n7,0,0,0\n7,0.5,0,1\n\n8,0,5,5\n8,0.5,5,5", a) == "");
        REQUIRE(a.frame_count() == 2);
        CHECK(a.entity_count == 2);
        CHECK(a.heading[0] == doctest::Approx(1.5707963f)); // the first sample takes the motion that follows
        CHECK(a.speed[0] == doctest::Approx(2));
        CHECK(a.speed[3] == 0);
        REQUIRE(parse("# note\nSpeed, y, x, time, \"id\", Z\n3,2,1,0,v,9\n", b) == "");
        CHECK(b.x[0] == 1);
        CHECK(b.y[0] == 2);
        CHECK(b.z[0] == 9);
        CHECK(b.speed[0] == 3);
        REQUIRE(parse("v1,0,1,2,3,0.25,4\n", c) == "");
        CHECK(c.z[0] == 3);
        CHECK(c.heading[0] == 0.25f);
        CHECK(c.speed[0] == 4);
    }

    TEST_CASE("the text formats of other recordings are told by content") {
        Trace city, people;
        REQUIRE(parse("T 420.00\n1001 400.95 241.60 270.00 13.05\n\nT 420.05\n1001 400.30 241.60 270.00 13.05\n", city) == "");
        CHECK(city.source == "city traffic text");
        CHECK(city.frame_s == doctest::Approx(0.05));
        CHECK(city.speed[0] == doctest::Approx(13.05f));
        REQUIRE(parse("1 16 100 200 170\n1 17 110 200 170\n2 16 0 0 160\n", people) == "");
        CHECK(people.source == "pedestrian text");
        CHECK(people.frame_count() == 2);
        CHECK(people.speed[0] == doctest::Approx(1.6)); // 10 cm in 1/16 s
        CHECK(people.z[0] == doctest::Approx(1.7));
    }

    TEST_CASE("cubes") {
        std::vector<std::int32_t> v(std::size_t(cube_count) * 8 * 2, 0);
        for (std::size_t i = 0; i < v.size(); i += 8) {
            v[i] = 3;
            v[i + 1] = v[i + 2] = v[i + 3] = 256;
            v[i + 4] = static_cast<std::int32_t>(i / 8 % cube_count) * 512;
        }
        std::vector<std::byte> raw(v.size() * 4);
        std::memcpy(raw.data(), v.data(), raw.size());
        Trace t;
        REQUIRE(parse_trace(raw, "f", t) == "");
        CHECK(t.source == "cubes");
        CHECK(t.sample_count() == 2 * cube_count);
        CHECK(t.x[900] == 900);
        CHECK(t.heading[0] == 0);
        raw.pop_back();
        CHECK(parse_trace(raw, "f", t) == "f: frame 1 is cut short");
        raw.push_back(std::byte{0x7f});
        CHECK(parse_trace(raw, "f", t) == "f: frame 1, cube 900: a value outside its range");
    }

    TEST_CASE("zstd is told by its magic; a broken or cut frame is one line") {
        const std::vector<std::byte> packed = compress(bytes_of(fcd));
        Trace t;
        CHECK(parse_trace(packed, "f", t) == "");
        CHECK(t.sample_count() == 4);
        std::vector<std::byte> cut(packed.begin(), packed.end() - 5);
        CHECK(parse_trace(cut, "f", t) == "f: the compressed data ends too early");
        CHECK(t.sample_count() == 0);
        TraceLimits small;
        small.unpacked_bytes_max = 100;
        CHECK(parse_trace(packed, "f", t, small) == "f: larger than 100 bytes unpacked");
    }

    TEST_CASE("malformed input names file, line and problem") {
        CHECK(problem("") == "f: is empty");
        CHECK(problem("hello") ==
              "f: not a recording of a known format (SUMO FCD XML, CSV, city or pedestrian text, cubes, throngtrace)");
        CHECK(problem("<html></html>") == "f:1: the root is \"html\", not fcd-export");
        CHECK(problem("<fcd-export>\n<timestep time=\"0\">\n") == "f:2: the file ends before </fcd-export>");
        CHECK(problem("<fcd-export>\n<timestep time=\"0\"") == "f:2: a tag is not closed before the end of the file");
        CHECK(problem("<fcd-export>\n<timestep time=\"1\">\n<vehicle id=\"a\" x=\"1\" y=\"oops\"/>") == "f:3: \"oops\" is no number (y)");
        CHECK(problem("<fcd-export>\n<vehicle id=\"a\" x=\"1\" y=\"1\"/>") == "f:2: expected <timestep>");
        CHECK(problem("<fcd-export><timestep time=\"1\"><vehicle x=\"1\" y=\"1\"/>") == "f:1: a vehicle without id, x and y");
        CHECK(problem("<fcd-export><timestep time=\"1\"></timestep><timestep time=\"1\">") ==
              "f:1: time 1 is not after the time before it");
        CHECK(problem("<fcd-export></fcd-export>") == "f: no samples");
        CHECK(problem("<fcd-export><timestep time=\"nan\"/>") == "f:1: \"nan\" is no number (time)");
        CHECK(problem("id,x,y\n1,2,3\n") == "f:1: the header must name the columns id, time, x and y");
        CHECK(problem("id,time,x,y\n1,2,3\n") == "f:2: 3 columns instead of 4");
        CHECK(problem("id,time,x,y\n1,2,3,inf\n") == "f:2: \"inf\" is no number (y)");
        CHECK(problem("id,time,x,y\n1,0,3,4\n1,0,3,4\n") == "f:3: id 1 occurs twice at time 0.000000");
        CHECK(problem("1,0,1,2\n,0,1,2\n") == "f:2: an id is empty");
        CHECK(problem("T 1\n5 1 2 3\n") == "f:2: 4 values instead of 5");
        CHECK(problem("T 1\nT 0.5\n") == "f:2: time 0.5 is not after the time before it");
        CHECK(problem("1 2 3 4 5 6\n") == "f:1: more than 5 values");
        TraceLimits few;
        few.samples_max = 1;
        CHECK(problem("1,0,1,2\n2,0,1,2\n", few) == "f:2: more than 1 samples");
        TraceLimits narrow;
        narrow.line_bytes_max = 100;
        std::string endless = "1,0,1,2\n";
        endless.append(1000, '1');
        CHECK(problem(endless, narrow) == "f:2: longer than 100 bytes");
        Trace t;
        CHECK(load_trace("/nonexistent/x", t) == "/nonexistent/x: cannot be opened: No such file or directory");
    }

    TEST_CASE("a recording comes back to its quantisation, whoever enters and leaves") {
        Trace t;
        t.entity_count = 40;
        t.frame_s = 0.05;
        Random random(5);
        for (std::uint32_t f = 0; f < 60; ++f) {
            t.time_s.push_back(3 + f * 0.05);
            t.begin.push_back(t.sample_count());
            for (std::uint32_t id = f / 2; id < std::min(40u, f / 2 + 10); ++id) {
                t.id.push_back(id);
                t.x.push_back(static_cast<float>(f) * 0.6f + random.uniform(-0.1f, 0.1f) - 500);
                t.y.push_back(random.uniform(-2000, 2000));
                t.z.push_back(random.uniform(-5, 5));
                t.heading.push_back(random.uniform(-3.1f, 3.1f));
                t.speed.push_back(random.uniform(0, 30));
            }
        }
        t.begin.push_back(t.sample_count());
        std::vector<std::byte> packed;
        REQUIRE(write_recording(t, packed) == "");
        Trace back;
        REQUIRE(parse_trace(packed, "f", back) == "");
        CHECK(back.id == t.id);
        CHECK(back.begin == t.begin);
        for (std::uint32_t i = 0; i < t.sample_count(); ++i) {
            CHECK(std::fabs(back.x[i] - t.x[i]) < 0.0052f);
            CHECK(std::fabs(back.y[i] - t.y[i]) < 0.0052f);
            CHECK(std::fabs(back.z[i] - t.z[i]) < 0.0052f);
            CHECK(std::fabs(back.speed[i] - t.speed[i]) < 0.0052f);
            CHECK(std::fabs(std::remainder(back.heading[i] - t.heading[i], 6.2831853f)) < 0.0008f);
        }
        std::vector<std::byte> again;
        REQUIRE(write_recording(back, again) == "");
        CHECK(again == packed); // nothing drifts
        // Any damage is one line, or (a changed time, say) a trace: never a crash.
        std::uint32_t refused = 0;
        for (std::size_t i = 0; i < 400; ++i) {
            std::vector<std::byte> broken = packed;
            broken[random.below(static_cast<std::uint32_t>(i < 200 ? 72 : packed.size()))] ^= std::byte(1u << random.below(8));
            refused += !parse_trace(broken, "f", back).empty();
            broken.resize(random.below(static_cast<std::uint32_t>(broken.size())));
            CHECK(parse_trace(broken, "f", back) != "");
        }
        CHECK(refused > 300);
    }

    TEST_CASE("random damage to text never crashes and is one line") {
        Random random(9);
        const std::string sources[] = {fcd,
                                       "id,time,x,y,z\n1,0,1,2,3\n2,0,1,2,3\n1,1,1,2,3\n",
                                       "T 1\n1 2 3 4 5\nT 2\n1 2 3 4 5\n",
                                       "1 2 3 4 5\n1 3 3 4 5\n"};
        std::uint32_t refused = 0;
        for (int round = 0; round < 2000; ++round) {
            std::string text = sources[round % 4];
            for (std::uint32_t k = random.below(4) + 1; k > 0; --k) {
                const std::uint32_t at = random.below(static_cast<std::uint32_t>(text.size()));
                if (random.below(3) == 0)
                    text.erase(at, random.below(20));
                else
                    text[at] = static_cast<char>(random.below(256));
                if (text.empty())
                    text.assign(1, ' ');
            }
            Trace t;
            const std::string result = parse(text, t);
            CHECK(result.find('\n') == std::string::npos);
            CHECK(result.empty() == (t.sample_count() > 0));
            refused += !result.empty();
        }
        CHECK(refused > 200);
    }

    TEST_CASE("who leaves and comes back is split in two for a recording") {
        Trace t;
        REQUIRE(parse("a,0,1,1\nb,0,2,2\nb,1,2,2\na,2,3,3\nb,2,2,2\n", t) == "");
        std::vector<std::byte> out;
        CHECK(write_recording(t, out) == "id 0 leaves and comes back, which this format does not hold");
        split_returning(t);
        CHECK(t.entity_count == 3);
        CHECK(t.id == std::vector<std::uint32_t>{0, 1, 1, 1, 2});
        CHECK(t.x[4] == 3);
        CHECK(write_recording(t, out) == "");
    }
}
