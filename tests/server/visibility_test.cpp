#include "tests/support/replication_world.hpp"
#include <algorithm>
#include <doctest/doctest.h>
#include <limits>
#include <string_view>

using namespace throng;
using namespace throng_test;

namespace {
constexpr u64 red = 1, blue = 2, ghosts = u64(1) << 63;

/// Which of the clients were sent a text.
struct Leaks {
    std::string_view text;
    u32 clients = 0; // bits
    static void look(void* context, const TraceRecord& record) {
        auto& leaks = *static_cast<Leaks*>(context);
        if (record.direction != Direction::down || record.fate != Fate::sent)
            return;
        const auto* begin = reinterpret_cast<const char*>(record.message.data());
        if (std::string_view(begin, record.message.size()).find(leaks.text) != std::string_view::npos)
            leaks.clients |= 1u << record.client;
    }
};

struct Teams : ReplicationWorld {
    explicit Teams(TraceHook hook = {})
        : ReplicationWorld({.compression = Compression::never}, {.trace = hook}), none(connect()), reds(connect()), both(connect()) {
        steps(2);
        for (const Peer* peer : {&none, &reds, &both})
            server.view(peer->id).look_at(0, 0, {.radius = 60});
        server.view(reds.id).set_layers(red);
        server.view(both.id).set_layers(red | blue | ghosts);
    }
    bool shows(const Peer& peer, Entity entity) { return peer.world->alive(peer.client->entity(server.net_id(entity))); }
    /// Bits: none, reds, both.
    u32 who(Entity entity) {
        steps(4);
        for (const Peer* peer : {&none, &reds, &both})
            CHECK(server.visible(peer->id, entity) == shows(*peer, entity));
        return u32(shows(none, entity)) | u32(shows(reds, entity)) << 1 | u32(shows(both, entity)) << 2;
    }
    Peer &none, &reds, &both;
};
} // namespace

TEST_SUITE("server") {
    TEST_CASE("visibility: all of, any of and none of a client's layers decide who may see an entity") {
        Teams net;
        const Entity all = net.world.spawn(Place{1, 0}, VisibleTo{.all_of = red | blue}, Replicated{});
        const Entity any = net.world.spawn(Place{2, 0}, VisibleTo{.any_of = red | blue}, Replicated{});
        const Entity not_blue = net.world.spawn(Place{3, 0}, VisibleTo{.none_of = blue}, Replicated{});
        const Entity mixed = net.world.spawn(Place{4, 0}, VisibleTo{.all_of = ghosts, .any_of = red, .none_of = 4}, Replicated{});
        const Entity plain = net.world.spawn(Place{5, 0}, VisibleTo{}, Replicated{});
        const Entity nowhere = net.world.spawn(Health{3, false}, VisibleTo{.any_of = blue}, Replicated{});
        CHECK(net.who(all) == 4);
        CHECK(net.who(any) == 6);
        CHECK(net.who(not_blue) == 3);
        CHECK(net.who(mixed) == 4);
        CHECK(net.who(plain) == 7);
        CHECK(net.who(nowhere) == 4);
        CHECK(net.client_errors == 0);
    }

    TEST_CASE("visibility: a view may be of any numbers") {
        ReplicationWorld net;
        const auto& peer = net.connect();
        net.steps(4);
        const Entity middle = net.world.spawn(Place{0, 0}, Replicated{}), edge = net.world.spawn(Place{900, 0}, Replicated{});
        View view = net.server.view(peer.id);
        const auto sees = [&](double a, double radius) {
            view.look_at(a, 0, {.radius = radius});
            net.steps(2);
            return std::pair(net.server.visible(peer.id, middle), net.server.visible(peer.id, edge));
        };
        const double infinite = std::numeric_limits<double>::infinity(), nothing = std::numeric_limits<double>::quiet_NaN();
        CHECK(sees(0, infinite) == std::pair(true, true));
        CHECK(sees(infinite, 60) == std::pair(false, false));
        CHECK(sees(nothing, 60) == std::pair(true, false)); // as 0
        CHECK(sees(0, nothing) == std::pair(false, false));
        CHECK(sees(-1e300, 1e300) == std::pair(true, true)); // as far as steps reach
    }

    TEST_CASE("visibility: a rule that changes, goes or comes, and a client that changes its layers, count from the next tick on") {
        Teams net;
        const Entity flag = net.world.spawn(Place{1, 0}, Health{7, false}, Replicated{});
        CHECK(net.who(flag) == 7);
        net.world.add<VisibleTo>(flag, VisibleTo{.any_of = red});
        net.step();
        CHECK_FALSE(net.server.visible(net.none.id, flag));
        CHECK(net.who(flag) == 6);
        net.world.mut<VisibleTo>(flag)->any_of = ghosts;
        CHECK(net.who(flag) == 4);
        net.server.view(net.none.id).set_layers(ghosts);
        CHECK(net.server.view(net.none.id).layers() == ghosts);
        net.world.mut<Health>(flag)->hp = 8; // while it comes
        CHECK(net.who(flag) == 5);
        CHECK(net.none.world->get<Health>(net.none.client->entity(net.server.net_id(flag)))->hp == 8);
        net.server.view(net.both.id).set_layers(0);
        CHECK(net.who(flag) == 1);
        net.world.remove<VisibleTo>(flag);
        CHECK(net.who(flag) == 7);
        net.server.view(net.reds.id).hide(flag); // both must allow it
        net.world.add<VisibleTo>(flag, VisibleTo{.any_of = red});
        CHECK(net.who(flag) == 0);
        net.server.view(net.reds.id).show(flag);
        CHECK(net.who(flag) == 2);
    }

    TEST_CASE("visibility: a rule goes with its entity into another cell, and not to the next entity in its lane") {
        Teams net;
        const Entity secret = net.world.spawn(Place{-5, -5}, VisibleTo{.any_of = blue}, Replicated{});
        CHECK(net.who(secret) == 4);
        *net.world.mut<Place>(secret) = {40, 5}; // another cell
        const Entity open = net.world.spawn(Place{-5, -5}, Replicated{});
        CHECK(net.who(secret) == 4);
        CHECK(net.who(open) == 7);
        net.world.destroy(secret);
        const Entity next = net.world.spawn(Place{40, 5}, Replicated{});
        CHECK(net.who(next) == 7);
    }

    TEST_CASE("visibility: after hide_all a client sees what was shown to it, and after show_all what was not hidden from it") {
        Teams net;
        const Entity first = net.world.spawn(Place{1, 0}, Replicated{}), second = net.world.spawn(Place{2, 0}, Replicated{});
        View view = net.server.view(net.none.id);
        view.hide(second);
        CHECK(net.who(second) == 6);
        view.hide_all();
        CHECK(view.hidden(first));
        CHECK(net.who(first) == 6);
        CHECK(net.who(net.world.spawn(Place{3, 0}, Replicated{})) == 6); // those that come later, too
        view.show(second);
        CHECK_FALSE(view.hidden(second));
        CHECK(net.who(second) == 7);
        CHECK(net.who(first) == 6);
        net.world.add<VisibleTo>(second, VisibleTo{.any_of = red}); // both must allow it
        CHECK(net.who(second) == 6);
        net.world.remove<VisibleTo>(second);
        *net.world.mut<Place>(second) = {500, 0}; // and it must be near
        CHECK(net.who(second) == 0);
        *net.world.mut<Place>(second) = {2, 0};
        view.hide(second);
        CHECK(net.who(second) == 6);
        view.show_all();
        CHECK(net.who(first) == 7);
        CHECK(net.who(second) == 7);
        CHECK(net.server.settled(net.none.id));
        CHECK(net.client_errors == 0);
    }

    TEST_CASE("visibility: a list names entities, not their slots") {
        Teams net;
        const Entity named = net.world.spawn(Place{1, 0}, Replicated{});
        View view = net.server.view(net.none.id);
        view.hide_all();
        view.show(named);
        CHECK(net.who(named) == 7);
        net.world.destroy(named);
        const Entity next = net.world.spawn(Place{1, 0}, Replicated{});
        REQUIRE(next.entity_idx == named.entity_idx);
        CHECK(net.who(next) == 6);
        view.show(named); // it is dead: this says nothing of the one in its slot
        CHECK(net.who(next) == 6);
        view.show(next);
        CHECK(net.who(next) == 7);
    }

    TEST_CASE("visibility: nothing of what a client may not see is in the bytes it gets") {
        Leaks leaks{"the password is swordfish"};
        Teams net({Leaks::look, &leaks});
        const Entity secret = net.world.spawn(Place{1, 0}, Name{std::string(leaks.text)}, VisibleTo{.any_of = red}, Replicated{});
        for (int i = 0; i < 30; ++i) {
            net.world.mut<Place>(secret)->x += 1;
            net.world.mut<Name>(secret)->text = "say: " + std::string(leaks.text) + std::to_string(i);
            net.step();
        }
        CHECK(leaks.clients == (1u << net.reds.id | 1u << net.both.id));
        leaks.clients = 0;
        net.world.mut<VisibleTo>(secret)->any_of = blue;
        for (int i = 0; i < 30; ++i) {
            net.world.mut<Name>(secret)->text = std::string(leaks.text) + std::to_string(i);
            net.step();
        }
        CHECK(leaks.clients == 1u << net.both.id);
    }

    TEST_CASE("visibility: a rule and the end of its entity in one tick leave nothing on any client") {
        Teams net;
        const Entity brief = net.world.spawn(Place{1, 0}, Replicated{});
        CHECK(net.who(brief) == 7);
        const NetId id = net.server.net_id(brief);
        net.world.add<VisibleTo>(brief, VisibleTo{.any_of = blue});
        net.world.destroy(brief);
        net.steps(4);
        for (const auto& peer : net.peers) {
            CHECK_FALSE(peer->world->alive(peer->client->entity(id)));
            CHECK(peer->world->entity_count() == 0);
            CHECK(net.server.settled(peer->id));
        }
    }
}
