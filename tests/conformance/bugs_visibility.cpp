// Bugs that were reported against other systems, by number (docs/conformance.md): who sees what.
#include "tests/conformance/state_support.hpp"

using namespace throng;
using namespace conformance::state;

namespace {
bool exact() {
    return conformance::setting().loss_percent == 0;
}
/// Spawns and despawns that a client was told of.
u64 structural(const StateNet::Peer& peer) {
    return peer.client->stats().spawns + peer.client->stats().despawns;
}
} // namespace

TEST_CASE("bug/25_one_of_two_reasons_is_left") {
    StateNet net;
    auto& peer = net.join();
    net.server.view(peer.id).set_layers(1 | 2);
    const Entity e = net.world.spawn(Health{1, false}, VisibleTo{.any_of = 1 | 2}, Replicated{});
    net.agree();
    net.world.mut<VisibleTo>(e)->any_of = 2;
    CHECK(net.state_bytes(10) == 0);
    CHECK(net.hp(peer, e) == 1);
    net.server.view(peer.id).set_layers(1);
    net.agree();
    CHECK_FALSE(net.shown(peer, e));
    CHECK(peer.client->stats().despawns == 1);
}

TEST_CASE("bug/26_nothing_of_what_was_never_shown") {
    const auto sent_to_client = [](bool with_hidden) {
        OutputHash sent;
        StateNet net({.heartbeat_ticks = 20}, {.trace = sent.hook()});
        net.join();
        const Entity open = net.world.spawn(Health{0, false}, Replicated{});
        net.settle();
        for (int tick = 0; tick < 40; ++tick) {
            Entity lasting;
            if (with_hidden) {
                const Entity brief = net.world.spawn(Health{1, false}, VisibleTo{.any_of = 1}, Replicated{});
                net.world.mut<Health>(brief)->hp = 2;
                net.world.remove<Health>(brief);
                net.world.destroy(brief);
                if (tick % 10 == 0)
                    lasting = net.world.spawn(Health{1, false}, VisibleTo{.any_of = 1}, Replicated{});
            }
            if (tick % 4 == 0)
                net.world.mut<Health>(open)->hp++;
            net.step();
            if (lasting) {
                net.world.mut<Health>(lasting)->hp++;
                net.world.remove<Health>(lasting);
            }
        }
        if (with_hidden) {
            std::vector<Entity> left;
            net.world.each<VisibleTo>([&](Entity e, const VisibleTo&) { left.push_back(e); });
            CHECK(left.size() == 4);
            for (const Entity e : left)
                net.world.destroy(e);
        }
        net.steps(40);
        return sent;
    };
    CHECK(sent_to_client(true) == sent_to_client(false));

    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.agree();
    net.server.view(peer.id).hide(e);
    net.agree();
    CHECK(peer.client->stats().despawns == 1);
    net.world.destroy(e);
    CHECK(net.state_bytes(20) == 0);
    CHECK(peer.client->stats().despawns == 1);
}

TEST_CASE("bug/27_hidden_and_shown_again_and_again") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{3, true}, Speed{1, 2}, Name{"the same"}, Replicated{});
    net.agree();
    std::vector<u64> bytes;
    for (int i = 0; i < 5; ++i) {
        net.server.view(peer.id).hide(e);
        net.steps(20);
        net.agree();
        CHECK_FALSE(net.shown(peer, e));
        net.server.view(peer.id).show(e);
        bytes.push_back(net.state_bytes(20));
        net.agree(); // with all components
        CHECK(net.hp(peer, e) == 3);
    }
    if (exact())
        CHECK(bytes == std::vector<u64>(5, bytes[0]));
}

TEST_CASE("bug/29_removed_while_hidden") {
    for (const bool lasts : {false, true}) { // without a copy meanwhile, and with one that stays as it was
        StateNet net;
        auto& peer = net.join();
        View view = net.server.view(peer.id);
        const Entity e = net.world.spawn(Health{1, false}, Speed{1, 0}, Replicated{});
        if (lasts)
            net.world.add<Lasting>(e);
        net.agree();
        view.hide(e);
        net.settle();
        net.world.remove<Speed>(e);
        net.steps(500);
        CHECK(bool(net.value<Speed>(peer, e)) == lasts);
        view.show(e);
        net.agree();
        CHECK(net.hp(peer, e) == 1);
        CHECK_FALSE(net.value<Speed>(peer, e));
        net.world.add<Speed>(e, Speed{2, 0});
        net.agree();
        REQUIRE(net.value<Speed>(peer, e));
        view.hide(e);
        net.step();
        view.show(e); // in the tick of the removal
        net.world.remove<Speed>(e);
        net.agree();
        CHECK(net.hp(peer, e) == 1);
        CHECK_FALSE(net.value<Speed>(peer, e));
    }
}

TEST_CASE("bug/30_client_and_entity_move_together") {
    for (int order = 0; order < 4; ++order) {
        StateNet net;
        auto& peer = net.join();
        View view = net.server.view(peer.id);
        const Entity e = net.world.spawn(Place{12, 10}, Replicated{});
        const Entity avatar = net.world.spawn(Place{10, 10}, Replicated{});
        const bool follows = order & 1, view_first = order & 2;
        const auto look = [&](float x) {
            *net.world.mut<Place>(avatar) = {x, 10};
            if (!follows)
                view.look_at(double(x), 10, {.radius = 60});
        };
        if (follows)
            view.follow(avatar, {.radius = 60});
        const auto move = [&](float to, float view_to) {
            if (view_first)
                look(view_to);
            *net.world.mut<Place>(e) = {to, 10};
            if (!view_first)
                look(view_to);
            const u64 before = structural(peer);
            net.agree();
            return structural(peer) - before;
        };
        move(12, 10);
        const u64 together = move(102, 100), apart = move(900, -900), back = move(102, 100);
        if (exact()) {
            CHECK(together == 0);
            CHECK(apart == 1);
            CHECK(back == 1);
        }
        CHECK(peer.world->alive(net.shown(peer, e)));
    }
}

TEST_CASE("bug/32_each_client_has_its_own_column") {
    StateNet net;
    StateNet::Peer* peers[4];
    std::vector<Entity> all;
    for (u64 i = 0; i < 4; ++i) {
        peers[i] = &net.join();
        net.server.view(peers[i]->id).set_layers(u64(1) << i);
    }
    for (u64 row = 0; row < 16; ++row) // the table's row says who sees the entity; none: a layer of nobody
        all.push_back(net.world.spawn(Health{int(row), false}, VisibleTo{.any_of = row | 16}, Replicated{}));
    const auto wrong = [&](auto&& expected) {
        int count = 0;
        for (u64 i = 0; i < 4; ++i)
            for (u64 row = 0; row < 16; ++row)
                count += bool(net.shown(*peers[i], all[row])) != expected(i, row);
        return count;
    };
    net.agree();
    CHECK(wrong([](u64 i, u64 row) { return (row >> i & 1) != 0; }) == 0);
    bool hidden[4] = {};
    for (u64 tick = 0; tick < 101; ++tick) {
        const u64 i = tick * 7 % 4;
        hidden[i] = !hidden[i];
        if (hidden[i])
            net.server.view(peers[i]->id).hide(all[15]);
        else
            net.server.view(peers[i]->id).show(all[15]);
        net.step();
        for (u64 other = 0; other < 4; ++other)
            CHECK(net.server.visible(peers[other]->id, all[15]) == !hidden[other]);
    }
    net.agree();
    CHECK(wrong([&](u64 i, u64 row) { return (row >> i & 1) != 0 && !(row == 15 && hidden[i]); }) == 0);
}

TEST_CASE("bug/33_owner_changes_where_the_owner_sees_nothing") {
    StateNet net;
    auto& a = net.join();
    auto& b = net.join();
    net.server.view(a.id).set_layers(1);
    const Entity first = net.world.spawn(Replicated{}), second = net.world.spawn(Replicated{});
    const Entity e = net.world.spawn(Link{}, Health{1, false}, VisibleTo{.any_of = 1}, Replicated{});
    net.agree();
    const u64 sent = net.network.counters(b.id, Direction::down).sent;
    net.world.mut<Link>(e)->target = first;
    net.agree();
    net.world.mut<Link>(e)->target = second;
    net.agree();
    CHECK(net.network.counters(b.id, Direction::down).sent == sent);
    net.server.view(b.id).set_layers(1);
    net.world.mut<Link>(e)->target = first;
    net.world.mut<Health>(e)->hp = 2;
    REQUIRE(net.until([&] { return bool(net.shown(b, e)); }));
    CHECK(net.hp(b, e) == 2); // all of it with the first look
    CHECK(net.value<Link>(b, e)->target == net.shown(b, first));
    net.agree();
}

TEST_CASE("bug/34_hidden_and_shown_in_one_tick") {
    StateNet net;
    auto& peer = net.join();
    View view = net.server.view(peer.id);
    const Entity e = net.world.spawn(Health{0, false}, Replicated{});
    const Entity other = net.world.spawn(Health{1, false}, Replicated{});
    net.agree();
    for (const bool changes : {false, true})
        for (const std::string_view calls : {"hs", "sh", "hsh", "shs", "hshs"}) {
            for (const char call : calls) {
                if (call == 'h')
                    view.hide(e);
                else
                    view.show(e);
                if (changes)
                    net.world.mut<Health>(e)->hp++;
            }
            const u64 before = structural(peer);
            const u64 bytes = net.state_bytes(1);
            net.agree();
            CHECK(bool(net.shown(peer, e)) == (calls.back() == 's'));
            if (calls.back() == 's' && calls != "shs" && !changes) {
                CHECK(structural(peer) - before == (calls.front() == 'h' ? 0 : 1)); // hidden before the call: "sh" came before
                CHECK((bytes == 0) == (calls.front() == 'h'));
            }
            view.show(e);
            net.agree();
        }
    view.hide(other); // one goes and one comes
    net.agree();
    view.hide(e);
    view.show(other);
    net.agree();
    CHECK_FALSE(net.shown(peer, e));
    CHECK(net.hp(peer, other) == 1);
}

TEST_CASE("bug/34_shown_by_the_hook_of_a_spawn") {
    StateNet net;
    auto& peer = net.join();
    net.world.on_add<Health>([&](World&, Entity e, Health&) {
        net.server.view(peer.id).hide(e);
        net.server.view(peer.id).show(e);
    });
    const Entity e = net.world.spawn(Health{4, false}, Replicated{});
    net.agree();
    CHECK(net.hp(peer, e) == 4);
    CHECK(peer.client->stats().spawns == 1);
}

TEST_CASE("bug/36_seen_from_afar") {
    StateNet net;
    auto& peer = net.join();
    const Entity sun = net.world.spawn(Health{1, false}, Replicated{}); // no place: seen from everywhere
    const Entity tower = net.world.spawn(Place{50, 0}, Replicated{});
    for (int step = 0; step < 100; ++step) {
        net.server.view(peer.id).look_at(step, 0, {.radius = 60}); // never farther than 0.85 radius from the tower
        if (step > 50)
            net.world.mut<Health>(sun)->hp++;
        net.step();
    }
    net.agree();
    CHECK(net.hp(peer, sun) == 50);
    CHECK(peer.world->alive(net.shown(peer, tower)));
    CHECK(peer.client->stats().spawns == 2);
    CHECK(peer.client->stats().despawns == 0);
}

TEST_CASE("bug/38_cells_at_zero_and_at_the_edge") {
    StateNet net({.cell_size = 16, .radius_min = 15, .heartbeat_ticks = 0});
    auto& peer = net.join();
    const float edge = 1000, above = 1e7f;
    const float points[] = {-0.3f, -0.f, 0.f, 0.3f, -1, 1, 0.99999994f, -16, 16, 15.99f, -15.99f, 48, -48, edge, -edge, above, -above};
    for (const float x : points)
        for (const float z : points)
            net.world.spawn(Place{x, z}, Replicated{});
    throng_verify::Verifier verifier(*net.protocol, net.world, net.server);
    u32 random = 7;
    const auto coordinate = [&] {
        random = random * 1664525u + 1013904223u;
        return double(random >> 8) / double(1 << 24) * 100 - 50;
    };
    u32 limits = 0;
    for (int i = 0; i < 200; ++i) {
        const double a = coordinate(), b = coordinate();
        net.server.view(peer.id).look_at(a, b, {.radius = 15});
        limits |= net.step().limits;
        const auto difference = verifier.check_promise(peer.id, a, b, 15);
        CHECK_MESSAGE(!difference, difference.text);
    }
    CHECK((limits & limit_position) != 0); // beyond the map: clamped to its edge, and said so
    net.server.view(peer.id).look_at(edge, edge, {.radius = 15});
    net.agree();
    CHECK(peer.world->entity_count() == 4); // 1000 and 1e7 of both axes
}

TEST_CASE("bug/40_to_and_fro_at_the_edge_of_sight") {
    StateNet net({.radius_min = 50, .heartbeat_ticks = 0});
    auto& peer = net.join();
    net.server.view(peer.id).look_at(0, 0, {.radius = 50});
    const Entity e = net.world.spawn(Place{0, 0}, Replicated{});
    net.agree();
    u64 worst = 0;
    for (float far = 40; far < 65; far += 0.1f) { // 0.85 radius to beyond 1.2
        const u64 before = structural(peer);
        for (int tick = 0; tick < 20; ++tick) {
            *net.world.mut<Place>(e) = {far + (tick % 2 ? 0.99f : -0.99f), 0};
            net.step();
        }
        worst = std::max(worst, structural(peer) - before);
    }
    CHECK(worst <= 2); // the margin is 2 % of radius_min, one unit; it goes out of sight somewhere, once
    net.agree();
    CHECK_FALSE(net.shown(peer, e));
}

TEST_CASE("bug/41_each_of_64_layers_is_one_of_its_own") {
    StateNet net;
    auto& peer = net.join();
    std::vector<Entity> all;
    for (u64 i = 0; i < 64; ++i)
        all.push_back(net.world.spawn(Health{int(i), false}, VisibleTo{.any_of = u64(1) << i}, Replicated{}));
    int wrong = 0;
    for (u64 i = 0; i < 64; ++i)
        for (const bool inverse : {false, true}) {
            net.server.view(peer.id).set_layers(inverse ? ~(u64(1) << i) : u64(1) << i);
            net.step();
            for (u64 k = 0; k < 64; ++k)
                wrong += net.server.visible(peer.id, all[k]) != ((k == i) != inverse);
        }
    CHECK(wrong == 0);
    net.agree();
    CHECK(peer.world->entity_count() == 63);
}

TEST_CASE("bug/41_each_of_64_layers_scopes_its_own") {
    StateNet net;
    auto& peer = net.join();
    std::vector<Entity> all;
    for (u64 i = 0; i < 64; ++i)
        all.push_back(net.world.spawn(Health{int(i), false}, ScopedTo{Scope::of<Health>(), {.any_of = u64(1) << i}}, Replicated{}));
    int wrong = 0;
    for (u64 i = 0; i < 64; ++i) {
        net.server.view(peer.id).set_layers(u64(1) << i);
        net.step();
        for (u64 k = 0; k < 64; ++k)
            wrong += net.server.visible<Health>(peer.id, all[k]) != (k == i);
    }
    CHECK(wrong == 0);
    net.agree();
    CHECK(peer.world->entity_count() == 64);
    for (u64 k = 0; k < 64; ++k)
        wrong += net.hp(peer, all[k]) != (k == 63 ? 63 : -1);
    CHECK(wrong == 0);
}

TEST_CASE("bug/43_passengers") {
    StateNet net;
    auto& peer = net.join();
    const auto board = [&](float x) {
        std::vector<Entity> all{net.world.spawn(Place{x, 0}, Replicated{})};
        for (int i = 0; i < 3; ++i)
            all.push_back(net.world.spawn(Place{x + 1, float(i)}, ChildOf{all[0]}, Health{i, false}, Replicated{}));
        return all;
    };
    const auto vehicle = board(10);
    net.server.view(peer.id).follow(vehicle[1], {.radius = 60});
    net.agree();
    REQUIRE(peer.world->entity_count() == 4);
    const u64 before = structural(peer);
    for (const float x : {60.f, 70.f, -800.f}) { // over a border of cells, and far away at once
        for (const Entity e : vehicle)
            net.world.mut<Place>(e)->x = x;
        net.step();
        if (exact())
            CHECK(peer.world->entity_count() == 4);
    }
    net.agree();
    if (exact())
        CHECK(structural(peer) == before);
    CHECK(peer.world->source_count<ChildOf>(net.shown(peer, vehicle[0])) == 3);
    std::vector<NetId> ids;
    for (const Entity e : vehicle)
        ids.push_back(net.server.net_id(e));
    CHECK(net.server.end_replication(vehicle[2]));
    net.agree();
    CHECK(peer.world->entity_count() == 3);
    net.world.destroy(vehicle[0]);
    CHECK_FALSE(net.world.alive(vehicle[2]));
    net.agree();
    for (const NetId id : ids)
        CHECK_FALSE(peer.client->entity(id));
    net.server.view(peer.id).look_at(10, 0, {.radius = 60});
    const auto next = board(10); // in the slots that are free now
    net.agree();
    CHECK(peer.world->entity_count() == 4);
    CHECK(peer.world->source_count<ChildOf>(net.shown(peer, next[0])) == 3);

    // Passengers far from their vehicle, on a relation that is `related`, and on one that is not.
    auto protocol = std::make_unique<Protocol>();
    const Range map{-1000, 1000, 0.01};
    protocol->component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
    protocol->component<Health>("health").field(&Health::hp).field(&Health::angry);
    protocol->component<ChildOf>("child of").field(&ChildOf::target).related(&ChildOf::target);
    protocol->component<Link>("link").field(&Link::target);
    REQUIRE(protocol->finish() == Error::none);
    StateNet far({.heartbeat_ticks = 0}, {}, std::move(protocol));
    auto& viewer = far.join();
    far.server.view(viewer.id).look_at(0, 0, {.radius = 60});
    const Entity car = far.world.spawn(Place{10, 0}, Health{0, false}, Replicated{});
    std::vector<Entity> riders;
    for (const float x : {-100.f, 90.f, 140.f})
        riders.push_back(far.world.spawn(Place{x, 0}, ChildOf{car}, Health{int(x), false}, Replicated{}));
    const Entity follower = far.world.spawn(Place{150, 0}, Link{car}, Health{1, false}, Replicated{});
    const auto riders_shown = [&] {
        return std::count_if(riders.begin(), riders.end(), [&](Entity e) { return far.value<Health>(viewer, e) != nullptr; });
    };
    far.agree();
    CHECK(far.hp(viewer, car) == 0);
    CHECK(riders_shown() == 3);
    CHECK(far.hp(viewer, follower) == -1);
    CHECK(viewer.world->source_count<ChildOf>(far.shown(viewer, car)) == 3);
    for (const float x : {110.f, -20.f, -100.f, 30.f}) { // the car goes, and the riders stay where they are
        CAPTURE(x);
        const bool seen = std::abs(x) < 60;
        far.world.mut<Place>(car)->x = x;
        far.world.mut<Health>(riders[1])->hp++;
        for (int i = 0; i < 5; ++i) {
            far.step();
            CHECK((riders_shown() == 0 || riders_shown() == 3)); // as one
        }
        far.agree();
        CHECK((far.value<Health>(viewer, car) != nullptr) == seen);
        CHECK(riders_shown() == (seen ? 3 : 0));
        if (seen)
            CHECK(far.hp(viewer, riders[1]) == far.world.get<Health>(riders[1])->hp);
    }
    CHECK(far.server.end_replication(riders[0]));
    far.agree();
    CHECK(riders_shown() == 2);
    far.world.destroy(car);
    far.agree();
    CHECK(viewer.world->entity_count() == 0);
}
