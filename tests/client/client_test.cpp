#include "tests/allocation_count.hpp"
#include "tests/client/fake_server.hpp"
#include "src/registry/state_hash.hpp"
#include <doctest/doctest.h>
#include <string>

using namespace client_test;

namespace {
const NetId X = NetId::make(1, 1), Y = NetId::make(2, 1), Z = NetId::make(3, 7, 2);
}

TEST_SUITE("client") {
    TEST_CASE("hello on connect; state before the welcome is neither applied nor acked") {
        Setup s({}, false);
        s.server.world[0][0] = unit(X, 5);
        s.server.snapshot(100);
        CHECK(s.receive(s.server.message(100, {{0, bit(0)}})) == Error::none);
        CHECK_FALSE(s.client->joined());
        CHECK(s.client->send(0) == Error::none);
        REQUIRE(s.backend.sent_count == 1);
        Hello hello;
        CHECK(read_hello(s.backend.sent[0], hello) == Error::none);
        CHECK(hello.format_version == wire_format_version);
        CHECK(hello.hash == s.protocol->hash());
        CHECK(s.client->stats().early_drops == 1);
        CHECK(s.receive(s.server.welcome(99)) == Error::none);
        CHECK(s.client->joined());
        CHECK(s.client->newest_tick() == 99);
        CHECK(s.acks().judged.empty());
        CHECK(s.world.entity_count() == 0);
        CHECK(s.receive(s.server.message(100, {{0, bit(0)}})) == Error::none);
        CHECK(s.hp(X) == 5);
    }
    TEST_CASE("a refused hello is sent again") {
        Setup s({}, false);
        s.backend.refuse = true;
        (void)s.client->receive(0);
        CHECK(s.client->send(0) == Error::limit_reached);
        s.backend.refuse = false;
        CHECK(s.client->send(0) == Error::none);
        CHECK(s.backend.sent_count == 1);
    }
    TEST_CASE("another tick rate, or a reject, ends the session") {
        Setup s({}, false);
        auto welcome = s.server.welcome(100);
        welcome[21] ^= std::byte{1};
        CHECK(s.receive(welcome) == Error::wrong_protocol);
        CHECK(std::string(s.client->problem()) == "the welcome is of another protocol");
        CHECK(s.receive(s.server.welcome(100)) == Error::wrong_protocol);
        CHECK_FALSE(s.client->joined());
        s.backend.connect = true;
        CHECK(s.client->receive(0) == Error::none);
        CHECK(s.client->problem()[0] == 0);
        std::byte reject[2 + reject_text_max];
        const u32 bytes = write_reject(reject, {RejectReason::full, "the server is full"});
        CHECK(s.receive({reject, reject + bytes}) == Error::limit_reached);
        CHECK(std::string(s.client->problem()) == "the server is full");
    }
    TEST_CASE("a welcome of another protocol waits for the table") {
        Setup s({}, false);
        auto welcome = s.server.welcome(100);
        welcome[1] ^= std::byte{1};
        CHECK(s.receive(welcome) == Error::none);
        CHECK_FALSE(s.client->joined());
        std::vector<std::byte> table{std::byte{8}};
        table.insert(table.end(), s.protocol->table().begin(), s.protocol->table().end());
        CHECK(s.receive(table) == Error::wrong_protocol); // of yet another one
        CHECK_FALSE(s.client->joined());
        s.backend.connect = true;
        CHECK(s.client->receive(0) == Error::none);
        CHECK(s.receive(s.server.welcome(100)) == Error::none);
        CHECK(s.client->joined());
    }
    TEST_CASE("spawn, change, despawn") {
        Setup s;
        s.server.world[7][3] = unit(X, 10, 150, -250);
        CHECK(s.tick(101, {{7, bit(3)}}) == Error::none);
        REQUIRE(s.get<Place>(X));
        CHECK(s.get<Place>(X)->x == doctest::Approx(201.5)); // origin 20000 + 150 steps
        CHECK(s.get<Place>(X)->z == doctest::Approx(-102.5));
        CHECK(s.client->net_id(s.entity(X)) == X);
        const Entity entity = s.entity(X);
        s.server.world[7][3].hp = 11;
        s.server.world[7][3].place = {151, -250};
        CHECK(s.tick(102, {{7, bit(3), 101}}) == Error::none);
        CHECK(s.hp(X) == 11);
        CHECK(s.get<Place>(X)->x == doctest::Approx(201.51));
        CHECK(s.entity(X) == entity);
        s.server.world[7].clear();
        CHECK(s.tick(103, {{7, 0, {}, bit(3)}}) == Error::none);
        CHECK_FALSE(s.entity(X));
        CHECK_FALSE(s.world.alive(entity));
        CHECK(s.client->stats().spawns == 1);
        CHECK(s.client->stats().despawns == 1);
    }
    TEST_CASE("only rows whose value differs are marked changed") {
        Setup s;
        s.server.world[0][0] = unit(X, 1);
        s.server.world[0][1] = unit(Y, 2);
        (void)s.tick(101, {{0, bit(0) | bit(1)}});
        s.world.clear_changes();
        s.server.world[0][1].hp = 3;
        (void)s.tick(102, {{0, bit(0) | bit(1), 101}});
        const PoolBase& life = *s.world.pool_of(component_id<Life>());
        const PoolBase& place = *s.world.pool_of(component_id<Place>());
        CHECK_FALSE(life.changed(s.world.dense_index(s.entity(X).entity_idx, component_id<Life>())));
        CHECK(life.changed(s.world.dense_index(s.entity(Y).entity_idx, component_id<Life>())));
        CHECK_FALSE(place.changed(s.world.dense_index(s.entity(Y).entity_idx, component_id<Place>())));
    }
    TEST_CASE("components come and go; remove and insert in one tick makes a new component") {
        Setup s;
        s.server.world[0][0] = unit(X, 1);
        (void)s.tick(101, {{0, bit(0)}});
        s.server.world[0][0].hp.reset();
        (void)s.tick(102, {{0, bit(0), 101}});
        CHECK(s.entity(X));
        CHECK_FALSE(s.get<Life>(X));
        s.server.world[0][0].hp = 4;
        s.server.world[0][0].counter[life_index] = 1;
        (void)s.tick(103, {{0, bit(0), 102}});
        CHECK(s.hp(X) == 4);
        s.world.log_structure(component_id<Life>(), true);
        s.server.world[0][0].counter[life_index] = 2;
        (void)s.tick(104, {{0, bit(0), 103}});
        REQUIRE(s.world.structure_log().size() == 2);
        CHECK(s.world.structure_log()[0].kind == StructureEvent::Kind::removed);
        CHECK(s.world.structure_log()[1].kind == StructureEvent::Kind::added);
        CHECK(s.hp(X) == 4);
    }
    TEST_CASE("an entity may have no components at all") {
        Setup s;
        s.server.world[0][0] = {};
        s.server.world[0][0].id = X;
        (void)s.tick(101, {{0, bit(0)}});
        CHECK(s.entity(X));
        CHECK(s.world.signature(s.entity(X)).count() == 0);
        CHECK(s.client->state_hash() != 0);
    }
    TEST_CASE("late, doubled and reordered messages never turn a value back") {
        Setup s;
        s.server.world[0][0] = unit(X, 1);
        (void)s.tick(101, {{0, bit(0)}});
        s.server.world[0][0].hp = 2;
        s.server.snapshot(102);
        const auto late = s.server.message(102, {{0, bit(0), 101}});
        s.server.world[0][0].hp = 3;
        (void)s.tick(103, {{0, bit(0), 101}});
        CHECK(s.hp(X) == 3);
        (void)s.receive(late);
        CHECK(s.hp(X) == 3);
        CHECK(s.client->stats().old_lanes == 1);
        (void)s.receive(late);
        CHECK(s.client->stats().duplicates == 1);
        CHECK(s.hp(X) == 3);
    }
    TEST_CASE("a late message patches the ring, so that a delta against it decodes (R7)") {
        Setup s;
        s.server.world[0][0] = unit(X, 1);
        s.server.world[0][1] = unit(Y, 1);
        (void)s.tick(101, {{0, bit(0) | bit(1)}});
        s.server.world[0][0].hp = 2;
        s.server.world[0][1].hp = 12;
        s.server.snapshot(102);
        const auto late = s.server.message(102, {{0, bit(0), 101}}); // X = 2
        (void)s.tick(103, {{0, bit(1), 101}});                         // Y only
        (void)s.receive(late);
        CHECK(s.hp(X) == 2);
        s.server.world[0][0].hp = 3;
        s.server.snapshot(104);
        CHECK(s.receive(s.server.message(104, {{0, bit(0) | bit(1), 103}})) == Error::none);
        CHECK(s.hp(X) == 3);
        CHECK(s.hp(Y) == 12);
    }
    TEST_CASE("a lane carried long ago decodes against a newer baseline (R7)") {
        Setup s({}, true, 0);
        s.server.world[0][0] = unit(X, 1);
        s.server.world[0][1] = unit(Y, 0);
        (void)s.tick(5, {{0, bit(0) | bit(1)}});
        for (Tick t = 6; t <= 100; ++t) {
            s.server.world[0][1].hp = static_cast<i32>(t);
            (void)s.tick(t, {{0, bit(1), t - 1}});
        }
        s.server.world[0][0].hp = 77;
        CHECK(s.tick(101, {{0, bit(0), 99}}) == Error::none);
        CHECK(s.unapplied().empty());
        CHECK(s.hp(X) == 77);
        CHECK(s.hp(Y) == 100);
    }
    TEST_CASE("an unlisted component takes the baseline's value, not the live one") {
        Setup s;
        s.server.world[0][0] = unit(X, 1);
        (void)s.tick(101, {{0, bit(0)}});
        s.server.world[0][0].hp = 2;
        (void)s.tick(102, {{0, bit(0), 101}});
        CHECK(s.hp(X) == 2);
        s.server.world[0][0].hp = 1; // as at 101, so the section does not list it
        s.server.world[0][0].place = {9, 9};
        (void)s.tick(103, {{0, bit(0), 101}});
        CHECK(s.hp(X) == 1);
    }
    TEST_CASE("a baseline that is not held is reported, and full state repairs it") {
        Setup s;
        s.server.world[0][0] = unit(X, 1);
        s.server.snapshot(101);
        s.server.world[0][0].hp = 2;
        CHECK(s.tick(102, {{0, bit(0), 101}}) == Error::none);
        CHECK(s.unapplied() == std::vector<u16>{0});
        CHECK(s.client->stats().unapplied_baseline == 1);
        CHECK_FALSE(s.entity(X));
        (void)s.tick(103, {{0, bit(0)}});
        CHECK(s.hp(X) == 2);
    }
    TEST_CASE("the ring keeps no more versions than its cap") {
        ClientConfig config;
        config.ring_versions_max = 4;
        Setup s(config);
        s.server.world[0][0] = unit(X, 0);
        (void)s.tick(101, {{0, bit(0)}});
        std::size_t bytes = 0;
        for (Tick t = 102; t < 130; ++t) {
            s.server.world[0][0].hp = static_cast<i32>(t);
            (void)s.tick(t, {{0, bit(0)}}); // in full: no baseline is named
            if (t == 110)
                bytes = s.client->ring_bytes();
        }
        CHECK(s.client->ring_bytes() == bytes);
        s.server.world[0][0].hp = 500;
        (void)s.tick(130, {{0, bit(0), 126}});
        CHECK(s.hp(X) == 500);
        s.server.world[0][0].hp = 501;
        (void)s.tick(131, {{0, bit(0), 120}});
        CHECK(s.unapplied() == std::vector<u16>{0});
        CHECK(s.hp(X) == 500);
    }
    TEST_CASE("what is older than all that is kept of a lane is superseded, and acked (R5)") {
        ClientConfig config;
        config.ring_versions_max = 2;
        Setup s(config);
        s.server.world[0][0] = unit(X, 1);
        (void)s.tick(101, {{0, bit(0)}});
        s.server.world[0][0].hp = 2;
        s.server.snapshot(102);
        const auto late = s.server.message(102, {{0, bit(0), 101}});
        for (Tick t = 103; t < 110; ++t) {
            s.server.world[0][0].hp = static_cast<i32>(t);
            (void)s.tick(t, {{0, bit(0)}});
        }
        (void)s.receive(late);
        const Acks acks = s.acks();
        const u16 id = static_cast<u16>(s.server.next_id - 8);
        REQUIRE(acks.judged.count(id) == 1);
        CHECK(acks.judged.at(id).empty());
        CHECK(s.hp(X) == 109);
    }
    TEST_CASE("the place is newest-tick-wins, and the dead stay dead (R3)") {
        Setup s;
        s.server.world[0][0] = unit(X, 1);
        (void)s.tick(101, {{0, bit(0)}});
        const Entity entity = s.entity(X);
        s.server.world[0].clear();
        s.server.world[1][0] = unit(X, 10);
        s.server.snapshot(110);
        const auto move_to_b = s.server.message(110, {{0, 0, {}, bit(0)}, {1, bit(0)}});
        s.server.world[1].clear();
        s.server.world[0][5] = unit(X, 12);
        (void)s.tick(112, {{0, bit(5), {}, bit(0)}, {1, 0, {}, bit(0)}});
        CHECK(s.hp(X) == 12);
        CHECK(s.entity(X) == entity); // moved, not made again
        s.server.world[0].clear();
        (void)s.tick(115, {{0, 0, {}, bit(5)}});
        CHECK_FALSE(s.entity(X));
        (void)s.receive(move_to_b);
        CHECK_FALSE(s.entity(X));
        CHECK(s.client->stats().spawns == 1);
        CHECK(s.world.entity_count() == 0);
    }
    TEST_CASE("a move keeps the entity, whichever half comes first, unless the old lane is cleared alone") {
        Setup s;
        s.server.world[0][0] = unit(X, 1);
        (void)s.tick(101, {{0, bit(0)}});
        const Entity first = s.entity(X);
        s.server.world[0].clear();
        s.server.world[1][9] = unit(X, 2);
        s.server.snapshot(102);
        SUBCASE("one message, old lane first") { (void)s.receive(s.server.message(102, {{0, 0, {}, bit(0)}, {1, bit(9)}})); }
        SUBCASE("new lane first") {
            (void)s.receive(s.server.message(102, {{1, bit(9)}}));
            (void)s.receive(s.server.message(102, {{0, 0, {}, bit(0)}}));
        }
        CHECK(s.entity(X) == first);
        CHECK(s.hp(X) == 2);
        CHECK(s.client->stats().despawns == 0);
        s.server.world[1].clear();
        s.server.world[0][4] = unit(X, 3);
        s.server.snapshot(103);
        (void)s.receive(s.server.message(103, {{1, 0, {}, bit(9)}}));
        CHECK_FALSE(s.entity(X)); // a flicker that the rules allow
        (void)s.receive(s.server.message(103, {{0, bit(4)}}));
        CHECK(s.hp(X) == 3);
    }
    TEST_CASE("a section stopped by a tombstone is unapplied, and takes other limbo sections along (R1, R3)") {
        Setup s;
        s.server.world[0][0] = unit(X, 1);
        (void)s.tick(101, {{0, bit(0)}});
        s.server.world[1][0] = unit(X, 2); // spawn in another lane, sent at 102, overtaken by the end at 103
        s.server.world[2][0] = unit(Y, 3);
        s.server.snapshot(102);
        const auto late = s.server.message(102, {{1, bit(0)}, {2, bit(0)}});
        (void)s.tick(103, {{0, 0, {}, bit(0)}});
        CHECK_FALSE(s.entity(X));
        (void)s.receive(late);
        CHECK_FALSE(s.entity(X));
        CHECK_FALSE(s.entity(Y));
        CHECK(s.client->stats().unapplied_tombstone == 1);
        CHECK(s.client->stats().unapplied_together == 1);
        const Acks acks = s.acks();
        CHECK(acks.judged.at(static_cast<u16>(s.server.next_id - 2)) == std::vector<u16>{0, 1});
    }
    TEST_CASE("an entity that newer state has overtaken in one lane does not appear in parts (R1)") {
        Setup s;
        s.server.world[0][0] = unit(X, 1);
        s.server.world[1][0] = unit(Z, 1);
        s.server.snapshot(101);
        const auto late = s.server.message(101, {{0, bit(0)}, {1, bit(0)}});
        s.server.world[0][0] = unit(Y, 2);
        (void)s.tick(102, {{0, bit(0)}});
        (void)s.receive(late);
        CHECK(s.client->stats().unapplied_overtaken == 2);
        CHECK_FALSE(s.entity(Z));
        CHECK(s.hp(Y) == 2);
    }
    TEST_CASE("what goes with a move that newer state has overtaken waits (R12)") {
        Setup s;
        s.server.world[0][0] = unit(X, 1);
        s.server.world[1][0] = unit(Y, 1);
        s.server.snapshot(101);
        (void)s.receive(s.server.message(101, {{0, bit(0)}, {1, bit(0)}}));
        s.server.world[1].clear(); // Y comes to X, and ends
        s.server.world[0][1] = unit(Y, 2);
        s.server.world[0][0] = unit(X, 2);
        s.server.snapshot(102);
        const auto late = s.server.message(102, {{0, bit(0) | bit(1)}});
        (void)s.tick(103, {{0, 0, {}, bit(1)}});
        (void)s.receive(late);
        CHECK(s.client->stats().unapplied_overtaken == 1);
        CHECK(s.hp(X) == 1); // as of 101, like Y
        CHECK(s.hp(Y) == 1);
        CHECK(s.acks().judged.at(static_cast<u16>(s.server.next_id - 2)) == std::vector<u16>{0});
        SUBCASE("that it left its old lane") { (void)s.tick(104, {{0, bit(0)}, {1, 0, {}, bit(0)}}); }
        SUBCASE("one that is shown newer than the message") {
            s.server.world[1][0] = unit(Y, 3);
            s.server.snapshot(104);
            const auto later = s.server.message(104, {{0, bit(0)}});
            (void)s.tick(105, {{1, bit(0)}});
            (void)s.receive(later);
            CHECK(s.hp(Y) == 3);
        }
        CHECK(s.hp(X) == 2);
    }
    TEST_CASE("a gone lane of an unknown chunk still stops the older spawn") {
        Setup s;
        s.server.world[4][1] = unit(X, 1);
        s.server.snapshot(101);
        const auto late = s.server.message(101, {{4, bit(1)}});
        (void)s.tick(102, {{4, 0, {}, bit(1)}});
        (void)s.receive(late);
        CHECK_FALSE(s.entity(X));
    }
    TEST_CASE("messages beyond max_late_ticks are dropped and not acked") {
        Setup s;
        s.server.world[0][0] = unit(X, 1);
        s.server.snapshot(101);
        const auto late = s.server.message(101, {{0, bit(0)}});
        const u16 late_id = static_cast<u16>(s.server.next_id - 1);
        (void)s.receive(s.server.message(134, {}));
        (void)s.receive(late);
        CHECK(s.client->stats().late_drops == 1);
        CHECK(s.client->stats().heartbeats == 1);
        CHECK_FALSE(s.acked(late_id));
        CHECK_FALSE(s.entity(X));
    }
    TEST_CASE("the dead and empty chunks are forgotten in the end") {
        Setup s;
        const std::size_t nothing = s.client->ring_bytes();
        s.server.world[0][0] = unit(X, 1);
        (void)s.tick(101, {{0, bit(0)}});
        s.server.world[0].clear();
        (void)s.tick(102, {{0, 0, {}, bit(0)}});
        CHECK(s.client->ring_bytes() > nothing);
        (void)s.receive(s.server.message(140, {}));
        (void)s.client->receive(0);
        CHECK(s.client->ring_bytes() == nothing);
        s.server.world[0][0] = unit(X, 5);
        (void)s.tick(141, {{0, bit(0)}});
        CHECK(s.hp(X) == 5);
    }
    TEST_CASE("ticks wrap") {
        Setup s({}, true, 0xfffffff0u);
        s.server.world[0][0] = unit(X, 0);
        (void)s.tick(0xfffffff1u, {{0, bit(0)}});
        for (Tick t = 0xfffffff2u; t != 10; ++t) {
            s.server.world[0][0].hp = static_cast<i32>(t & 0xff);
            CHECK(s.tick(t, {{0, bit(0), t - 1}}) == Error::none);
        }
        CHECK(s.hp(X) == 9);
        CHECK(s.client->newest_tick() == 9);
    }
    TEST_CASE("references read as null until the target is shown, and again when it goes (R11)") {
        Setup s;
        LaneValue holder = unit(X, 1);
        holder.link = Y;
        s.server.world[0][0] = holder;
        (void)s.tick(101, {{0, bit(0)}});
        REQUIRE(s.get<Link>(X));
        CHECK_FALSE(s.get<Link>(X)->target);
        s.server.world[1][0] = unit(Y, 2);
        (void)s.tick(102, {{1, bit(0)}});
        CHECK(s.get<Link>(X)->target == s.entity(Y));
        s.server.world[0][0].link = X; // itself
        (void)s.tick(103, {{0, bit(0), 102}});
        CHECK(s.get<Link>(X)->target == s.entity(X));
        s.server.world[0][0].link = Y;
        (void)s.tick(104, {{0, bit(0), 103}});
        s.server.world[1].clear();
        (void)s.tick(105, {{1, 0, {}, bit(0)}});
        CHECK_FALSE(s.get<Link>(X)->target);
        s.server.world[1][3] = unit(Y, 2);
        (void)s.tick(106, {{1, bit(3)}});
        CHECK(s.get<Link>(X)->target == s.entity(Y));
        s.server.world[0][0].link.reset();
        (void)s.tick(107, {{0, bit(0), 106}});
        CHECK_FALSE(s.get<Link>(X));
    }
    TEST_CASE("a reference and its target may come in one message, in either order") {
        Setup s;
        LaneValue a = unit(X, 1), b = unit(Y, 1);
        a.link = Y;
        b.link = X;
        s.server.world[0][0] = a;
        s.server.world[1][0] = b;
        (void)s.tick(101, {{0, bit(0)}, {1, bit(0)}});
        CHECK(s.get<Link>(X)->target == s.entity(Y));
        CHECK(s.get<Link>(Y)->target == s.entity(X));
    }
    TEST_CASE("more references than the limit read as null and are counted") {
        ClientConfig config;
        config.references_max = 1;
        Setup s(config);
        LaneValue a = unit(X, 1), b = unit(Y, 1);
        a.link = Y;
        b.link = X;
        s.server.world[0][0] = a;
        s.server.world[0][1] = b;
        (void)s.tick(101, {{0, bit(0) | bit(1)}});
        CHECK(s.get<Link>(X)->target == s.entity(Y));
        CHECK_FALSE(s.get<Link>(Y)->target);
        CHECK(s.client->stats().references_dropped == 1);
    }
    TEST_CASE("opaque components keep the newest bytes (R15)") {
        Setup s;
        LaneValue value = unit(X, 1);
        value.note = "first";
        value.note_changed = 101;
        s.server.world[0][0] = value;
        SUBCASE("packed") { s.server.compression = Compression::never; }
        SUBCASE("zstd") { s.server.compression = Compression::always; }
        (void)s.tick(101, {{0, bit(0)}});
        REQUIRE(s.get<Note>(X));
        CHECK(std::string(s.get<Note>(X)->text) == "first");
        s.server.world[0][0].note = "second";
        s.server.world[0][0].note_changed = 102;
        s.server.snapshot(102);
        const auto late = s.server.message(102, {{0, bit(0), 101}});
        s.server.world[0][0].note = "third";
        s.server.world[0][0].note_changed = 103;
        (void)s.tick(103, {{0, bit(0), 101}});
        (void)s.receive(late);
        CHECK(std::string(s.get<Note>(X)->text) == "third");
        s.server.world[0][0].hp = 2; // the note is not carried
        (void)s.tick(104, {{0, bit(0), 103}});
        CHECK(std::string(s.get<Note>(X)->text) == "third");
    }
    TEST_CASE("bytes that the deserialize function refuses leave the section unapplied") {
        Setup s;
        LaneValue value = unit(X, 1);
        value.note = "!no";
        value.note_changed = 101;
        s.server.world[0][0] = value;
        CHECK(s.tick(101, {{0, bit(0)}}) == Error::none);
        CHECK(s.unapplied() == std::vector<u16>{0});
        CHECK(s.client->stats().unapplied_opaque == 1);
        CHECK_FALSE(s.entity(X));
    }
    TEST_CASE("acks repeat in three sends, and again after a duplicate") {
        Setup s;
        const auto heartbeat = s.server.message(101, {});
        const u16 id = static_cast<u16>(s.server.next_id - 1);
        (void)s.receive(heartbeat);
        for (int i = 0; i < 3; ++i)
            CHECK(s.acked(id));
        CHECK_FALSE(s.acked(id));
        (void)s.receive(heartbeat);
        CHECK(s.acked(id));
        s.backend.refuse = true;
        CHECK(s.client->send(0) == Error::limit_reached); // does not count as a repetition
        s.backend.refuse = false;
        CHECK(s.acked(id));
        CHECK(s.acked(id));
        CHECK_FALSE(s.acked(id));
    }
    TEST_CASE("acks of many messages use more blocks; ids wrap") {
        Setup s;
        const u16 first = s.server.next_id = 65450;
        for (int i = 0; i < 200; ++i) {
            s.backend.deliver(s.server.message(101, {}));
            if (i % 5 == 0)
                ++s.server.next_id; // lost
        }
        (void)s.client->receive(0);
        const Acks acks = s.acks();
        CHECK(acks.valid);
        CHECK(acks.judged.size() == 200);
        CHECK(acks.judged.count(first) == 1);
        CHECK(acks.judged.count(static_cast<u16>(first + 1)) == 0);
    }
    TEST_CASE("the state hash equals the server's and is reported at settled ticks only") {
        Setup s;
        LaneValue value = unit(X, 4, 7, 8);
        value.note = "note";
        value.note_changed = 101;
        s.server.world[2][0] = value;
        s.server.world[2][1] = unit(Y, 9);
        (void)s.tick(101, {{2, bit(0) | bit(1)}});
        const FakeServer::Image image = s.server.image(2, 101);
        u64 note_hashes[lane_count] = {opaque_hash(reinterpret_cast<const std::byte*>("note"), 4)};
        const u64* hashes[component_count] = {nullptr, nullptr, nullptr, note_hashes};
        const u64 expected = state_hash_lanes(s.protocol->layout(), 2, image.state(), bit(0) | bit(1), hashes);
        CHECK(s.client->state_hash() == expected);
        (void)s.receive(s.server.message(102, {}, 2, true)); // settled at 100: newer state is applied
        CHECK_FALSE(s.acks().hash);
        (void)s.receive(s.server.message(102, {}, 1, true));
        const Acks acks = s.acks();
        REQUIRE(acks.hash);
        CHECK(acks.hash->first == 101);
        CHECK(acks.hash->second == expected);
        CHECK(s.client->settled_tick() == 101);
        (void)s.receive(s.server.message(103, {}, 0));
        CHECK(s.client->confirmed_tick(s.entity(X)) == 103); // settled, though carried at 101
    }
    TEST_CASE("callbacks come when the message is applied in full") {
        struct Log {
            Setup* s = nullptr;
            std::string text;
        } log;
        ClientConfig config;
        config.context = &log;
        config.on_spawn = [](void* context, Entity entity, NetId id) {
            Log& l = *static_cast<Log*>(context);
            const Link* link = l.s->world.get<Link>(entity);
            l.text += "+" + std::to_string(id.index()) + (link && link->target ? "r" : "");
        };
        config.on_despawn = [](void* context, Entity entity, NetId id) {
            Log& l = *static_cast<Log*>(context);
            l.text += "-" + std::to_string(id.index()) + (l.s->world.alive(entity) ? "" : "?");
        };
        Setup s(config);
        log.s = &s;
        LaneValue a = unit(X, 1);
        a.link = Y;
        s.server.world[0][0] = a;
        s.server.world[0][1] = unit(Y, 1);
        (void)s.tick(101, {{0, 3}});
        CHECK(log.text == "+1r+2");
        s.server.world[0][0] = unit(Z, 1); // takes X's lane
        (void)s.tick(102, {{0, bit(0)}});
        CHECK(log.text == "+1r+2-1+3");
    }
    TEST_CASE("malformed messages change nothing, at any length") {
        Setup s;
        LaneValue value = unit(X, 4, 7, 8);
        value.note = "note";
        value.note_changed = 101;
        s.server.world[2][0] = value;
        s.server.world[3][1] = unit(Y, 9);
        s.server.snapshot(101);
        const auto first = s.server.message(101, {{2, bit(0)}});
        --s.server.next_id;
        const auto message = s.server.message(101, {{2, bit(0)}, {3, bit(1), {}, bit(5)}});
        for (std::size_t n = 0; n < message.size(); ++n) {
            if (n == state_header_bytes || n == first.size())
                continue; // whole sections, so good messages
            const std::vector<std::byte> prefix(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(n));
            CHECK(s.receive(prefix) != Error::none);
            CHECK(s.client->stats().applied == 0);
            CHECK(s.world.entity_count() == 0);
            CHECK(s.client->ring_bytes() == 0);
        }
        CHECK(s.acks().judged.empty());
        CHECK(s.receive(message) == Error::none);
        CHECK(s.hp(X) == 4);
        CHECK(s.hp(Y) == 9);
        auto both = s.server.message(102, {{3, 0, {}, bit(1)}});
        both.push_back(std::byte{9}); // a broken section behind a good one
        CHECK(s.receive(both) == Error::truncated);
        CHECK(s.entity(Y));
    }
    TEST_CASE("limits drop the message whole, unacked") {
        ClientConfig config;
        SUBCASE("entities") { config.entities_max = 1; }
        SUBCASE("chunks") { config.chunks_max = 1; }
        SUBCASE("sections") { config.sections_max = 1; }
        SUBCASE("memory") { config.memory_bytes_max = 4000; }
        Setup s(config);
        s.server.world[0][0] = unit(X, 1);
        s.server.world[1][0] = unit(Y, 1);
        CHECK(s.tick(101, {{0, bit(0)}, {1, bit(0)}}) == Error::limit_reached);
        CHECK(s.client->stats().limit_drops == 1);
        CHECK(s.world.entity_count() == 0);
        CHECK(s.client->ring_bytes() == 0);
        CHECK(s.acks().judged.empty());
    }
    TEST_CASE("a new session starts from nothing") {
        Setup s;
        s.server.world[0][0] = unit(X, 1);
        (void)s.tick(101, {{0, bit(0)}});
        s.backend.disconnect = true;
        (void)s.client->receive(0);
        CHECK_FALSE(s.client->joined());
        CHECK(s.hp(X) == 1); // frozen
        s.backend.connect = true;
        CHECK(s.receive(s.server.welcome(50)) == Error::none);
        CHECK(s.world.entity_count() == 0);
        CHECK(s.tick(51, {{0, bit(0)}}) == Error::none);
        CHECK(s.hp(X) == 1);
    }
    TEST_CASE("clients on one thread share a scratch") {
        auto protocol = make_protocol();
        ClientScratch scratch(*protocol);
        FakeBackend backends[2];
        World worlds[2];
        ClientConfig config;
        config.scratch = &scratch;
        Client a(worlds[0], *protocol, backends[0], config), b(worlds[1], *protocol, backends[1], config);
        FakeServer server(*protocol);
        server.world[0][0] = unit(X, 1);
        server.snapshot(101);
        const auto message = server.message(101, {{0, bit(0)}});
        for (int i = 0; i < 2; ++i) {
            backends[i].deliver(server.welcome(100));
            backends[i].deliver(message);
        }
        CHECK(a.receive(0) == Error::none);
        CHECK(b.receive(0) == Error::none);
        CHECK(worlds[0].entity_count() + worlds[1].entity_count() == 2);
    }
    TEST_CASE("entities that the game destroyed are left alone") {
        Setup s;
        s.server.world[0][0] = unit(X, 1);
        (void)s.tick(101, {{0, bit(0)}});
        s.world.destroy(s.entity(X));
        const Entity other = s.world.spawn(Life{55}); // takes the slot
        s.server.world[0][0].hp = 2;
        (void)s.tick(102, {{0, bit(0), 101}});
        CHECK(s.world.get<Life>(other)->hp == 55);
        s.server.world[0].clear();
        (void)s.tick(103, {{0, 0, {}, bit(0)}});
        CHECK(s.world.alive(other));
    }
    TEST_CASE("no allocation in steady state" * doctest::skip(!throng::tests::counts_allocations)) {
        Setup s;
        for (u32 lane = 0; lane < 64; ++lane)
            s.server.world[0][lane] = unit(NetId::make(lane + 1, 1), 0);
        (void)s.tick(101, {{0, ~u64(0)}});
        std::vector<std::vector<std::byte>> messages;
        for (Tick t = 102; t < 300; ++t) {
            for (u32 lane = 0; lane < 64; ++lane)
                s.server.world[0][lane].place = {static_cast<i16>(t), static_cast<i16>(lane)};
            s.server.world[0][t % 64].hp = static_cast<i32>(t);
            s.server.snapshot(t);
            messages.push_back(s.server.message(t, {{0, ~u64(0), t - (t > 104 ? 3 : 1)}}));
        }
        s.backend.deliver(messages[0]); // the backend's own buffer
        (void)s.client->receive(0);
        for (std::size_t i = 1; i < messages.size(); ++i) {
            const u64 before = tests::allocation_count();
            s.backend.sent_count = 0;
            s.backend.deliver(messages[i]);
            (void)s.client->receive(0);
            (void)s.client->send(0);
            if (i > 20 && tests::allocation_count() != before)
                FAIL_CHECK("message " << i << " allocated");
        }
        CHECK(s.client->stats().applied == 1 + messages.size());
        CHECK(s.hp(NetId::make(299 % 64 + 1, 1)) == 299);
    }
}
