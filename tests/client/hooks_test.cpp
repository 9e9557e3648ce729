// What the hooks of the game see of applied state.
#include "tests/client/fake_server.hpp"
#include <doctest/doctest.h>
#include <string>

using namespace client_test;

namespace {
const NetId X = NetId::make(1, 1), Y = NetId::make(2, 1), Z = NetId::make(3, 7, 2);
using Lines = std::vector<std::string>;

struct Watched : Setup {
    Lines lines;
    Watched() {
        world.on_add<Life>([this](World& w, Entity e, Life& life) {
            note("+life", life.hp);
            CHECK(w.has<Place>(e)); // the whole entity is there
        });
        world.on_change<Life>([this](World&, Entity, Life& life) { note("=life", life.hp); });
        world.on_remove<Life>([this](World&, Entity, Life& life) { note("-life", life.hp); });
        world.on_add<Note>([this](World&, Entity, Note& n) { lines.push_back(std::string("+note ") + n.text); });
        world.on_change<Note>([this](World&, Entity, Note& n) { lines.push_back(std::string("=note ") + n.text); });
        world.on_change<Link>([this](World& w, Entity, Link& link) { lines.push_back(w.alive(link.target) ? "=link" : "=null"); });
        world.on_add<Link>([this](World& w, Entity, Link& link) { lines.push_back(w.alive(link.target) ? "+link" : "+null"); });
    }
    void note(const char* what, i32 value) { lines.push_back(std::string(what) + " " + std::to_string(value)); }
    Lines take() { return std::exchange(lines, {}); }
};
} // namespace

TEST_SUITE("client") {
    TEST_CASE("hooks see applied values, of the whole entity") {
        Watched s;
        s.server.world[0][0] = unit(X, 7);
        s.server.world[0][0].note = "hello";
        s.server.world[0][0].note_changed = 101;
        (void)s.tick(101, {{0, bit(0)}});
        CHECK(s.take() == Lines{"+life 7", "+note hello"});
        s.server.world[0][0].hp = 8;
        (void)s.tick(102, {{0, bit(0), 101}});
        CHECK(s.take() == Lines{"=life 8"});
        s.server.world[0][0].note = "bye";
        s.server.world[0][0].note_changed = 103;
        (void)s.tick(103, {{0, bit(0), 102}});
        CHECK(s.take() == Lines{"=note bye"});
        s.server.world[0][0].hp = 9;
        s.server.world[0][0].counter[life_index] = 1; // another component
        (void)s.tick(104, {{0, bit(0), 103}});
        CHECK(s.take() == Lines{"-life 8", "+life 9"});
        (void)s.tick(105, {{0, bit(0), 104}});
        CHECK(s.take().empty()); // nothing differs
        s.server.world[0].clear();
        (void)s.tick(106, {{0, 0, {}, bit(0)}});
        CHECK(s.take() == Lines{"-life 9"});
    }
    TEST_CASE("hooks hear of references that become and cease to be") {
        Watched s;
        s.server.world[0][0] = unit(X, 1);
        s.server.world[0][0].link = Y;
        (void)s.tick(101, {{0, bit(0)}});
        CHECK(s.take() == Lines{"+life 1", "+null"});
        s.server.world[0][1] = unit(Y, 2);
        (void)s.tick(102, {{0, bit(1)}});
        CHECK(s.take() == Lines{"=link", "+life 2"});
        s.server.world[0].erase(1);
        (void)s.tick(103, {{0, 0, {}, bit(1)}});
        CHECK(s.take() == Lines{"=null", "-life 2"});
    }
    TEST_CASE("hooks that end and make entities while state is applied harm nothing") {
        Setup s;
        std::vector<Entity> made;
        s.server.world[0][0] = unit(X, 1);
        s.server.world[0][1] = unit(Y, 2);
        s.server.world[0][2] = unit(Z, 3);
        (void)s.tick(101, {{0, bit(0) | bit(1) | bit(2)}});
        const Entity y = s.entity(Y), z = s.entity(Z);
        // X's loss of its life ends Y, whose slot becomes a bystander's, which has the types that Y's lane carries.
        s.world.on_remove<Life>([&](World& w, Entity e, Life& life) {
            if (life.hp != 1)
                return;
            CHECK(w.destroy(y));
            made.push_back(w.spawn(Place{1, 2}, Life{77}));
            CHECK(made.back().entity_idx == y.entity_idx);
            CHECK(w.alive(e));
        });
        s.server.world[0][0].hp.reset();
        s.server.world[0][1].hp = 20;
        s.server.world[0][2].hp = 30;
        (void)s.tick(102, {{0, bit(0) | bit(1) | bit(2), 101}});
        REQUIRE(made.size() == 1);
        CHECK(s.world.get<Life>(made[0])->hp == 77);
        CHECK(s.world.get<Place>(made[0])->x == 1);
        CHECK(s.world.get<Life>(z)->hp == 30);
        CHECK_FALSE(s.world.alive(y));
        // Y leaves the server, too: the bystander in its slot stays
        s.server.world[0].erase(1);
        (void)s.tick(103, {{0, 0, {}, bit(1)}});
        CHECK(s.world.alive(made[0]));
        // a hook that ends what has just been added
        s.world.on_add<Life>([](World& w, Entity e, Life& life) {
            if (life.hp == 5)
                w.destroy(e);
        });
        s.server.world[0][4] = unit(NetId::make(9, 1), 5);
        s.server.world[0][5] = unit(NetId::make(10, 1), 6);
        (void)s.tick(104, {{0, bit(4) | bit(5)}});
        CHECK_FALSE(s.world.alive(s.entity(NetId::make(9, 1))));
        CHECK(s.hp(NetId::make(10, 1)) == 6);
    }
}
