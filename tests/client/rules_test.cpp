// ReceiveRules: functions in place of components, markers, what is required, what is left alone.
#include "tests/allocation_count.hpp"
#include "tests/client/fake_server.hpp"
#include <doctest/doctest.h>

using namespace client_test;

namespace {
const NetId X = NetId::make(1, 1), Y = NetId::make(2, 1), Z = NetId::make(3, 7, 2);
using Lines = std::vector<std::string>;

struct Mine {}; // markers
struct Past {};
struct Model { // required
    int lod = 3;
};
struct Shadow {};

/// Writes down what functions are told.
struct Diary {
    Lines lines;
    Lines take() { return std::exchange(lines, {}); }
    static std::string head(const Received& r) {
        return std::to_string(r.id.index()) + "@" + std::to_string(r.tick) + (r.older ? " older" : "");
    }
    static void life(const Received& r, const Life& life) { note(r, "life " + std::to_string(life.hp)); }
    static void past_life(const Received& r, const Life& life) { note(r, "past " + std::to_string(life.hp)); }
    static void no_life(const Received& r) { note(r, "no life"); }
    static void place(const Received& r, const Place& place) { note(r, "place " + std::to_string(int(place.x * 100 + 0.5f))); }
    static void link(const Received& r, const Link& link) {
        note(r, link.target ? r.world.alive(link.target) ? "link" : "dead link" : "null link");
    }
    static void text(const Received& r, const Note& n) { note(r, std::string("note ") + n.text); }
    static void note(const Received& r, const std::string& what) {
        static_cast<Diary*>(r.context)->lines.push_back(head(r) + " " + what);
    }
};

struct Ruled {
    std::unique_ptr<Protocol> protocol = make_protocol();
    ReceiveRules rules{*protocol};
    Diary diary;
    std::unique_ptr<Setup> made;
    Setup& start(ClientConfig config = {}) {
        config.rules = &rules;
        made = std::make_unique<Setup>(config, true, 100, std::move(protocol));
        return *made;
    }
};
} // namespace

TEST_SUITE("client") {
    TEST_CASE("rules: wrong registrations are refused") {
        Ruled r;
        CHECK(r.rules.functions<Model>(nullptr, nullptr) == Error::bad_value);
        CHECK((r.rules.functions_for<Mine, Life>(Diary::life, nullptr)) == Error::bad_value); // no marker yet
        CHECK(r.rules.marker<Mine>() == Error::none);
        CHECK((r.rules.functions_for<Mine, Life>(Diary::life, nullptr)) == Error::none);
        CHECK((r.rules.functions_for<Mine, Model>(nullptr, nullptr)) == Error::bad_value);
        CHECK(r.rules.write_if_different<Model>() == Error::bad_value);
        CHECK(r.rules.write_if_different<Note>() == Error::unsupported);
        CHECK(r.rules.write_if_different<Life>() == Error::none);
        CHECK((r.rules.require<Life, Place>()) == Error::bad_value);
        CHECK((r.rules.require<Model, Shadow>()) == Error::bad_value);
        CHECK((r.rules.require<Life, Model>()) == Error::none);
    }
    TEST_CASE("rules: functions hear of insertions, changes, removals and a new component, and moves between chunks are none of these") {
        Ruled r;
        REQUIRE(r.rules.functions<Life>(Diary::life, Diary::no_life, &r.diary) == Error::none);
        Setup& s = r.start();
        s.server.world[0][0] = unit(X, 1);
        (void)s.tick(101, {{0, bit(0)}});
        CHECK(r.diary.take() == Lines{"1@101 life 1"});
        CHECK_FALSE(s.get<Life>(X));
        CHECK(s.get<Place>(X));
        s.server.world[0][0].place = {5, 5};
        (void)s.tick(102, {{0, bit(0), 101}});
        CHECK(r.diary.take().empty()); // not its value
        s.server.world[0][0].hp = 2;
        (void)s.tick(103, {{0, bit(0), 102}});
        (void)s.tick(104, {{0, bit(0), 102}}); // sent again
        CHECK(r.diary.take() == Lines{"1@103 life 2"});
        s.server.world[3][9] = s.server.world[0][0];
        s.server.world[0].clear();
        (void)s.tick(105, {{0, 0, {}, bit(0)}, {3, bit(9)}});
        CHECK(r.diary.take() == Lines{"1@105 life 2"}); // written in full: its value
        CHECK(s.client->stats().component_inserts == 2);
        s.server.world[3][9].counter[life_index] = 1; // removed and inserted
        (void)s.tick(106, {{3, bit(9), 105}});
        CHECK(r.diary.take() == Lines{"1@106 no life", "1@106 life 2"});
        s.server.world[3][9].hp.reset();
        s.server.world[3][9].counter[life_index] = 0;
        (void)s.tick(107, {{3, bit(9), 106}});
        CHECK(r.diary.take() == Lines{"1@107 no life"});
        s.server.world[3].clear();
        (void)s.tick(108, {{3, 0, {}, bit(9)}});
        CHECK(r.diary.take().empty());
        CHECK(s.world.entity_count() == 0);
    }
    TEST_CASE("rules: a marker that comes and goes takes values over and gives them back") {
        Ruled r;
        REQUIRE(r.rules.marker<Mine>() == Error::none);
        REQUIRE((r.rules.functions_for<Mine, Life>(Diary::life, Diary::no_life, &r.diary)) == Error::none);
        REQUIRE((r.rules.functions_for<Mine, Note>(Diary::text, nullptr, &r.diary)) == Error::none);
        Setup& s = r.start();
        s.server.world[0][0].id = X;
        (void)s.tick(101, {{0, bit(0)}});
        s.world.add<Mine>(s.entity(X));
        LaneValue& x = s.server.world[0][0];
        x.hp = 1;
        x.note = "a";
        x.note_changed = 102;
        (void)s.tick(102, {{0, bit(0), 101}});
        CHECK(r.diary.take() == Lines{"1@102 life 1", "1@102 note a"});
        CHECK_FALSE(s.get<Life>(X));
        CHECK_FALSE(s.get<Note>(X));
        s.world.remove<Mine>(s.entity(X));
        int added = 0;
        s.world.on_add<Life>([&](World&, Entity, Life& life) { added += life.hp; });
        x.hp = 2;
        x.note = "b";
        x.note_changed = 103;
        (void)s.tick(103, {{0, bit(0), 102}});
        CHECK(r.diary.take().empty());
        CHECK(s.hp(X) == 2); // though the server does not call it an insertion
        CHECK(added == 2);
        REQUIRE(s.get<Note>(X));
        CHECK(std::string(s.get<Note>(X)->text) == "b");
        s.world.add<Mine>(s.entity(X));
        x.hp = 3;
        (void)s.tick(104, {{0, bit(0), 103}});
        CHECK(r.diary.take() == Lines{"1@104 life 3"});
        CHECK(s.hp(X) == 2); // stays
        x.hp.reset();
        (void)s.tick(105, {{0, bit(0), 104}});
        CHECK(r.diary.take() == Lines{"1@105 no life"});
        CHECK(s.hp(X) == 2);
        x.hp = 4;
        s.world.remove<Mine>(s.entity(X));
        (void)s.tick(106, {{0, bit(0), 105}});
        CHECK(s.hp(X) == 4);
    }
    TEST_CASE("rules: references are null until their target is shown, and then come again") {
        Ruled r;
        REQUIRE(r.rules.functions<Link>(Diary::link, nullptr, &r.diary) == Error::none);
        Setup& s = r.start();
        s.server.world[0][0] = unit(X, 1);
        s.server.world[0][0].link = Y;
        (void)s.tick(101, {{0, bit(0)}});
        CHECK(r.diary.take() == Lines{"1@101 null link"});
        s.server.world[0][1] = unit(Y, 2);
        (void)s.tick(102, {{0, bit(1)}});
        CHECK(r.diary.take() == Lines{"1@101 link"}); // the value is of then
        s.server.world[0].erase(1);
        (void)s.tick(103, {{0, 0, {}, bit(1)}});
        CHECK(r.diary.take() == Lines{"1@101 null link"});
        s.server.world[0][2] = unit(Z, 3);
        s.server.world[0][0].link = Z;
        (void)s.tick(104, {{0, bit(0) | bit(2)}});
        CHECK(r.diary.take() == Lines{"1@104 link"}); // once
        s.server.world[0][0].link.reset();
        (void)s.tick(105, {{0, bit(0), 104}});
        s.server.world[0].erase(2);
        (void)s.tick(106, {{0, 0, {}, bit(2)}});
        CHECK(r.diary.take().empty()); // not its business any more
    }
    TEST_CASE("rules: markers with history get what newer values have overtaken, within 64 ticks, others do not") {
        Ruled r;
        REQUIRE(r.rules.marker<Mine>() == Error::none);
        REQUIRE(r.rules.marker<Past>({.history = true}) == Error::none);
        REQUIRE((r.rules.functions_for<Mine, Life>(Diary::life, nullptr, &r.diary)) == Error::none);
        REQUIRE((r.rules.functions_for<Past, Life>(Diary::past_life, nullptr, &r.diary)) == Error::none);
        REQUIRE((r.rules.functions_for<Past, Note>(Diary::text, nullptr, &r.diary)) == Error::none);
        REQUIRE((r.rules.functions_for<Past, Place>(Diary::place, nullptr, &r.diary)) == Error::none);
        Setup& s = r.start({.ring_versions_max = 64, .max_late_ticks = 200});
        for (u32 lane = 0; lane < 3; ++lane)
            s.server.world[0][lane].id = lane == 0 ? X : lane == 1 ? Y : Z;
        (void)s.tick(101, {{0, 7}});
        s.world.add<Mine>(s.entity(X));
        s.world.add<Past>(s.entity(Y));
        std::vector<std::vector<std::byte>> late;
        const auto change = [&](Tick tick, i32 hp, const char* note) {
            for (u32 lane = 0; lane < 3; ++lane) {
                LaneValue& value = s.server.world[0][lane];
                value.hp = hp;
                value.note = note;
                value.note_changed = tick;
            }
            s.server.snapshot(tick);
        };
        change(102, 2, "two");
        late.push_back(s.server.message(102, {{0, 7, 101}}));
        change(103, 3, "three");
        late.push_back(s.server.message(103, {{0, 7, 101}}));
        change(104, 4, "four");
        (void)s.tick(104, {{0, 7, 101}});
        CHECK(r.diary.take() == Lines{"2@104 past 4", "1@104 life 4", "2@104 note four"});
        (void)s.receive(late[1]);
        CHECK(r.diary.take() == Lines{"2@103 older past 3", "2@103 older note three"});
        (void)s.receive(late[0]);
        CHECK(r.diary.take() == Lines{"2@102 older past 2", "2@102 older note two"});
        CHECK(s.hp(Z) == 4); // without a marker, the world's
        // the same value as before is no news
        s.server.snapshot(105);
        const auto same = s.server.message(105, {{0, 7, 104}});
        s.server.world[0][1].place = {100, 0};
        (void)s.tick(106, {{0, 7, 104}});
        CHECK(r.diary.take().size() == 1);
        (void)s.receive(same);
        CHECK(r.diary.take().empty());
        // 63 ticks late is in time, 64 are not; the baseline is kept as long
        change(107, 7, "seven");
        const auto too_old = s.server.message(107, {{0, 7, 106}});
        change(108, 8, "eight");
        const auto in_time = s.server.message(108, {{0, 7, 106}});
        change(170, 70, "seventy");
        (void)s.tick(170, {{0, 7, 106}});
        s.server.snapshot(171);
        (void)s.tick(171, {{0, 0, {}, bit(5)}});
        CHECK(r.diary.take().size() == 3);
        (void)s.receive(too_old);
        CHECK(r.diary.take() == Lines{"2@107 older past 7", "2@107 older note seven"}); // 63
        (void)s.receive(in_time);
        CHECK(r.diary.take() == Lines{"2@108 older past 8", "2@108 older note eight"});
        change(172, 72, "more");
        const auto old = s.server.message(172, {{0, 7, 170}});
        change(236, 80, "newest");
        (void)s.tick(236, {{0, 7, 170}});
        CHECK(r.diary.take().size() == 3);
        (void)s.receive(old); // 64
        CHECK(r.diary.take().empty());
        CHECK(s.hp(Z) == 80);
    }
    TEST_CASE("rules: rows that have the value already are not marked, and their hooks not called") {
        Ruled r;
        REQUIRE(r.rules.write_if_different<Life>() == Error::none);
        REQUIRE(r.rules.write_if_different<Link>() == Error::none);
        Setup& s = r.start();
        s.server.world[0][0] = unit(X, 1);
        s.server.world[0][1] = unit(Y, 1);
        s.server.world[0][1].link = X;
        (void)s.tick(101, {{0, 3}});
        int changes = 0;
        s.world.on_change<Life>([&](World&, Entity, Life&) { ++changes; });
        s.world.on_change<Link>([&](World&, Entity, Link&) { ++changes; });
        s.world.mut<Life>(s.entity(X))->hp = 5; // predicted
        s.world.mut<Link>(s.entity(Y))->target = {};
        s.world.clear_changes();
        s.server.world[0][0].hp = 5;
        s.server.world[0][1].hp = 6;
        s.server.world[0][1].link.reset();
        (void)s.tick(102, {{0, 3, 101}});
        const PoolBase& life = *s.world.pool_of(component_id<Life>());
        CHECK_FALSE(life.changed(s.world.dense_index(s.entity(X).entity_idx, component_id<Life>())));
        CHECK(life.changed(s.world.dense_index(s.entity(Y).entity_idx, component_id<Life>())));
        CHECK_FALSE(s.get<Link>(Y));
        CHECK(changes == 1);
        CHECK(s.hp(X) == 5);
        CHECK(s.hp(Y) == 6);
    }
    TEST_CASE("opaque bytes that are sent again change nothing") {
        Setup s;
        s.server.world[0][0] = unit(X, 1);
        s.server.world[0][0].note = "a";
        s.server.world[0][0].note_changed = 101;
        (void)s.tick(101, {{0, bit(0)}});
        s.server.world[0][0].note_changed = 102;
        s.server.world[0][0].note = "b";
        (void)s.tick(102, {{0, bit(0), 101}});
        int changes = 0;
        s.world.on_change<Note>([&](World&, Entity, Note&) { ++changes; });
        s.world.clear_changes();
        (void)s.tick(103, {{0, bit(0), 101}});
        CHECK(changes == 0);
        CHECK_FALSE(s.world.pool_of(component_id<Note>())->changed(0));
        s.server.world[0][0].counter[note_index] = 1; // another one, of the same bytes
        s.server.world[0][0].note_changed = 104;
        s.world.on_add<Note>([&](World&, Entity, Note& n) { changes += n.text[0] == 'b' ? 10 : 100; });
        (void)s.tick(104, {{0, bit(0), 102}});
        CHECK(changes == 10);
    }
    TEST_CASE("rules: required components come along and stay, or go if asked for and no longer required") {
        Ruled r;
        REQUIRE((r.rules.require<Life, Model>()) == Error::none);
        REQUIRE((r.rules.require<Life, Shadow>(ReceiveRules::OnRemoval::remove)) == Error::none);
        REQUIRE((r.rules.require<Place, Shadow>()) == Error::none);
        Setup& s = r.start();
        s.server.world[0][0] = unit(X, 1);
        s.server.world[0][1] = unit(Y, 1);
        s.server.world[0][1].place.reset();
        s.server.world[0][2].id = Z;
        (void)s.tick(101, {{0, 7}});
        CHECK(s.client->stats().structural_moves == 2);
        REQUIRE(s.get<Model>(X));
        CHECK(s.get<Model>(X)->lod == 3);
        CHECK(s.get<Model>(Y));
        CHECK(s.world.has<Shadow>(s.entity(Y)));
        CHECK(s.world.signature(s.entity(Z)).count() == 0);
        s.world.add<Model>(s.entity(Z), Model{9});
        s.server.world[0][0].hp.reset();
        s.server.world[0][1].hp.reset();
        s.server.world[0][2].hp = 1;
        (void)s.tick(102, {{0, 7, 101}});
        CHECK(s.client->stats().structural_moves == 5);
        CHECK(s.get<Model>(X));
        CHECK(s.get<Model>(Y));
        CHECK(s.get<Model>(Z)->lod == 9); // there already
        CHECK(s.world.has<Shadow>(s.entity(X))); // its place requires it
        CHECK_FALSE(s.world.has<Shadow>(s.entity(Y)));
        CHECK(s.world.has<Shadow>(s.entity(Z)));
    }
    TEST_CASE("rules: entities are ended by the game's function") {
        Ruled r;
        r.rules.despawn([](const Received& received) { Diary::note(received, "ends"); }, &r.diary);
        Setup& s = r.start();
        s.server.world[0][0] = unit(X, 1);
        s.server.world[0][1] = unit(Y, 1);
        (void)s.tick(101, {{0, 3}});
        const Entity x = s.entity(X);
        s.server.world[0].erase(0);
        (void)s.tick(102, {{0, 0, {}, bit(0)}});
        CHECK(r.diary.take() == Lines{"1@102 ends"});
        CHECK(s.world.alive(x));
        CHECK_FALSE(s.entity(X));
        CHECK_FALSE(s.client->net_id(x));
        s.backend.disconnect = true;
        (void)s.client->receive(1);
        s.client->clear();
        CHECK(r.diary.take() == Lines{"2@102 ends"});
        CHECK(s.world.entity_count() == 2);
    }
    TEST_CASE("rules: functions that end entities harm nothing") {
        Ruled r;
        REQUIRE(r.rules.functions<Life>(
                    [](const Received& received, const Life& life) {
                        if (life.hp == 13)
                            received.world.destroy(received.entity);
                    },
                    [](const Received& received) { received.world.destroy(received.entity); }) == Error::none);
        Setup& s = r.start();
        for (u32 lane = 0; lane < 64; ++lane)
            s.server.world[0][lane] = unit(NetId::make(lane + 1, 1), lane % 7 == 0 ? 13 : 1);
        (void)s.tick(101, {{0, ~u64(0)}});
        CHECK(s.world.entity_count() == 54);
        for (u32 lane = 0; lane < 64; ++lane) {
            s.server.world[0][lane].place = {7, 7};
            if (lane % 5 == 0)
                s.server.world[0][lane].hp.reset();
        }
        (void)s.tick(102, {{0, ~u64(0), 101}});
        u32 left = 0;
        for (u32 lane = 0; lane < 64; ++lane) {
            const bool gone = lane % 7 == 0 || lane % 5 == 0;
            left += !gone;
            CHECK((s.get<Place>(NetId::make(lane + 1, 1)) == nullptr) == gone);
        }
        CHECK(s.world.entity_count() == left);
    }
    TEST_CASE("rules: no allocation in steady state" * doctest::skip(!throng::tests::counts_allocations)) {
        Ruled r;
        struct Sum {
            i64 lives = 0, places = 0;
        } sum;
        REQUIRE(r.rules.marker<Past>({.history = true}) == Error::none);
        REQUIRE((r.rules.functions_for<Past, Life>(
                    [](const Received& received, const Life& life) { static_cast<Sum*>(received.context)->lives += life.hp; }, nullptr,
                    &sum)) == Error::none);
        REQUIRE(r.rules.functions<Place>(
                    [](const Received& received, const Place&) { ++static_cast<Sum*>(received.context)->places; }, nullptr, &sum) ==
                Error::none);
        Setup& s = r.start({.ring_versions_max = 8});
        for (u32 lane = 0; lane < 64; ++lane)
            s.server.world[0][lane] = unit(NetId::make(lane + 1, 1), 0);
        (void)s.tick(101, {{0, ~u64(0)}});
        for (u32 lane = 0; lane < 64; lane += 2)
            s.world.add<Past>(s.entity(NetId::make(lane + 1, 1)));
        std::vector<std::vector<std::byte>> messages;
        for (Tick t = 102; t < 300; ++t) {
            for (u32 lane = 0; lane < 64; ++lane) {
                s.server.world[0][lane].place = {static_cast<i16>(t), static_cast<i16>(lane)};
                s.server.world[0][lane].hp = 1;
            }
            s.server.world[0][t % 64].hp = static_cast<i32>(t);
            s.server.snapshot(t);
            messages.push_back(s.server.message(t, {{0, ~u64(0), t - (t > 104 ? 3 : 1)}}));
            if (messages.size() % 5 == 0)
                std::swap(messages[messages.size() - 1], messages[messages.size() - 2]);
        }
        u64 allocated = 0;
        for (std::size_t i = 0; i < messages.size(); ++i) {
            s.backend.sent_count = 0;
            s.backend.deliver(messages[i]);
            const u64 before = tests::allocation_count();
            (void)s.client->receive(0);
            (void)s.client->send(0);
            allocated += i > 40 ? tests::allocation_count() - before : 0;
        }
        CHECK(allocated == 0);
        CHECK(sum.places > 64 * 150);
        CHECK(sum.lives > 1000);
    }
}
