// An entity ends, or goes out of sight.
#include "tests/conformance/rules_support.hpp"

using namespace throng;
using namespace conformance::state;

TEST_CASE("despawn/single") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    const NetId id = net.server.net_id(e);
    const Entity there = net.shown(peer, e);
    REQUIRE(peer.world->alive(there));
    net.world.destroy(e);
    net.settle();
    CHECK_FALSE(peer.world->alive(there));
    CHECK_FALSE(peer.client->entity(id));
    CHECK(peer.client->net_id(there) == NetId{});
    CHECK(net.server.net_id(e) == NetId{});
}

TEST_CASE("despawn/with_relations") {
    StateNet net;
    auto& peer = net.join();
    const Entity parent = net.world.spawn(Replicated{});
    const Entity child = net.world.spawn(ChildOf{parent}, Replicated{});
    net.settle();
    const NetId ids[] = {net.server.net_id(parent), net.server.net_id(child)};
    REQUIRE(peer.world->entity_count() == 2);
    net.world.destroy(parent); // takes the child along, on both sides
    net.settle();
    CHECK(peer.world->entity_count() == 0);
    for (const NetId id : ids)
        CHECK_FALSE(peer.client->entity(id));
    CHECK(peer.client->stats().despawns == 2);
}

TEST_CASE("despawn/after_pause") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    const NetId id = net.server.net_id(e);
    const Entity there = net.shown(peer, e);
    net.world.remove<Replicated>(e);
    net.world.destroy(e);
    CHECK(net.state_bytes(10) == 0);
    REQUIRE(peer.world->alive(there));
    CHECK(peer.world->get<Health>(there)->hp == 1);
    CHECK(peer.client->entity(id) == there);
    CHECK(peer.client->net_id(there) == id);
    const Entity next = net.world.spawn(Health{2, false}, Replicated{}); // in the same slot of the world, not in its lane
    net.settle();
    CHECK(net.hp(peer, next) == 2);
    CHECK(peer.world->alive(there));
    peer.world->destroy(there);
    CHECK_FALSE(peer.client->entity(id));
    CHECK(peer.client->net_id(there) == NetId{});
    net.agree();
}

TEST_CASE("despawn/hidden_entity") {
    StateNet net;
    auto& peer = net.join();
    const Hidden hidden(net, peer);
    net.settle();
    for (int i = 0; i < Hidden::unsent; ++i)
        net.world.destroy(hidden.all[i]);
    CHECK(net.state_bytes(10) == 0);
    CHECK(peer.world->entity_count() == Hidden::sent);
    for (int i = 0; i < Hidden::sent; ++i)
        net.world.destroy(hidden.all[Hidden::unsent + i]); // it has these, and is told
    net.settle();
    CHECK(peer.world->entity_count() == 0);
    CHECK(peer.client->stats().spawns == Hidden::sent);
}

TEST_CASE("despawn/visibility_lose") {
    StateNet net;
    auto& peer = net.join();
    net.server.view(peer.id).set_layers(2);
    const Entity by_view = net.world.spawn(Health{1, false}, Replicated{});
    const Entity by_layer = net.world.spawn(Health{2, false}, VisibleTo{.any_of = 2}, Replicated{});
    const Entity open = net.world.spawn(Health{3, false}, Replicated{});
    const Entity kept[] = {net.world.spawn(Health{4, false}, Lasting{}, Replicated{}),
                           net.world.spawn(Health{4, false}, Lasting{}, VisibleTo{.any_of = 2}, Replicated{}),
                           net.world.spawn(Health{4, false}, Lasting{.from_start = true}, VisibleTo{.any_of = 2}, Replicated{})};
    net.settle();
    REQUIRE(peer.world->entity_count() == 6);
    net.server.view(peer.id).hide(by_view);
    net.server.view(peer.id).hide(kept[0]);
    net.server.view(peer.id).set_layers(0);
    net.settle();
    CHECK_FALSE(net.shown(peer, by_view));
    CHECK_FALSE(net.shown(peer, by_layer));
    CHECK(net.hp(peer, open) == 3);
    for (const Entity e : kept) {
        CHECK(net.hp(peer, e) == 4);
        CHECK(peer.client->frozen(net.shown(peer, e)));
    }
    CHECK(peer.world->entity_count() == 4);
    CHECK(net.world.alive(by_view));
    CHECK(net.world.alive(by_layer));
}

TEST_CASE("despawn/resource") {
    StateNet net = make_net([](Protocol& p) {
        weather(p);
        p.resource<Health>("everybody's health").field(&Health::hp);
    });
    auto& peer = net.join();
    net.world.resources().emplace<Weather>(Weather{7, {}});
    net.world.resources().emplace<Health>(Health{9, false});
    net.agree();
    CHECK(wind(peer) == 7);
    net.world.resources().remove<Weather>();
    net.agree();
    CHECK(wind(peer) == -1);
    REQUIRE(peer.world->resources().get<Health>());
    CHECK(peer.world->resources().get<Health>()->hp == 9);
    net.world.resources().remove<Health>();
    net.agree();
    CHECK_FALSE(peer.world->resources().get<Health>());
    CHECK(peer.world->entity_count() == 0);
    CHECK_FALSE(net.server.resource_entity());
    net.world.resources().emplace<Weather>(Weather{8, {}});
    net.agree();
    CHECK(wind(peer) == 8);
}

TEST_CASE("despawn/visibility_lose_with_component_scope") {
    StateNet net;
    auto& peer = net.join();
    net.server.view(peer.id).set_layers(2);
    const Entity e = net.world.spawn(Health{1, false}, Speed{1, 0}, VisibleTo{.any_of = 2},
                                     ScopedTo(Scope::of<Health>(), {.any_of = 2}), Replicated{});
    net.agree();
    REQUIRE(net.hp(peer, e) == 1);
    net.server.view(peer.id).set_layers(0);
    net.agree();
    CHECK_FALSE(net.shown(peer, e));
    CHECK(peer.world->entity_count() == 0);
    CHECK(peer.client->stats().despawns == 1);
}

TEST_CASE("despawn/signature") {
    StateNet net = make_net([](Protocol& p) { signed_health(p); });
    auto& peer = net.join();
    const SpawnSignature signature = SpawnSignature::of(1, u32(7));
    const Entity there = peer.world->spawn(Local{3}, signature);
    const Entity e = net.world.spawn(Health{7, false}, signature, Replicated{});
    net.agree();
    REQUIRE(net.shown(peer, e) == there);
    const NetId id = net.server.net_id(e);
    net.world.destroy(e);
    net.agree();
    CHECK_FALSE(peer.world->alive(there));
    CHECK_FALSE(peer.client->entity(id));
    CHECK(peer.client->net_id(there) == NetId{});
    CHECK(peer.world->entity_count() == 0);
    CHECK(peer.client->stats().despawns == 1);
}

TEST_CASE("despawn/signature_with_hierarchy") {
    StateNet net = make_net([](Protocol& p) { signed_health(p); });
    auto& peer = net.join();
    const SpawnSignature of_parent = SpawnSignature::of(1, u32(7)), of_child = SpawnSignature::of(2, u32(7));
    const Entity parent_there = peer.world->spawn(of_parent);
    const Entity child_there = peer.world->spawn(ChildOf{parent_there}, of_child);
    Entity parent = net.world.spawn(of_parent, Replicated{});
    Entity child = net.world.spawn(ChildOf{parent}, Health{7, false}, of_child, Replicated{});
    net.agree();
    REQUIRE(net.shown(peer, parent) == parent_there);
    REQUIRE(net.shown(peer, child) == child_there);
    CHECK(peer.world->target<ChildOf>(child_there) == parent_there);
    CHECK(peer.world->source_count<ChildOf>(parent_there) == 1);
    CHECK(peer.world->entity_count() == 2);
    net.world.destroy(parent);
    net.agree();
    CHECK_FALSE(peer.world->alive(parent_there));
    CHECK_FALSE(peer.world->alive(child_there));
    CHECK(peer.world->entity_count() == 0);
    parent = net.world.spawn(of_parent, Replicated{});
    child = net.world.spawn(ChildOf{parent}, Health{8, false}, of_child, Replicated{});
    net.agree();
    CHECK(net.hp(peer, child) == 8);
    CHECK(peer.world->target<ChildOf>(net.shown(peer, child)) == net.shown(peer, parent));
    CHECK(net.shown(peer, parent) != parent_there);
    CHECK(net.shown(peer, child) != child_there);
    CHECK(peer.world->entity_count() == 2);
    CHECK(peer.client->stats().adoptions == 2);
}

TEST_CASE("despawn/with_visibility_gain_and_signature") {
    StateNet net = make_net([](Protocol& p) { signed_health(p); });
    auto& peer = net.join();
    net.settle();
    const SpawnSignature signature = SpawnSignature::of(1, u32(7));
    const Entity there = peer.world->spawn(signature);
    const Entity e = net.world.spawn(Health{7, false}, signature, VisibleTo{.any_of = 2}, Replicated{});
    net.world.remove<VisibleTo>(e);
    net.world.remove<Replicated>(e);
    const Entity hidden = net.world.spawn(Health{7, false}, signature, VisibleTo{.any_of = 2}, Replicated{});
    CHECK(net.state_bytes(10) == 0);
    net.world.remove<VisibleTo>(hidden); // as it would be shown
    net.world.remove<Replicated>(hidden);
    CHECK(net.state_bytes(10) == 0);
    CHECK(peer.world->alive(there));
    CHECK_FALSE(peer.client->net_id(there));
    CHECK(peer.world->entity_count() == 1);
    CHECK(peer.client->stats().mappings == 0);
}
