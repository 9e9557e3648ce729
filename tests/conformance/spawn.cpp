// An entity comes into being, or into sight.
#include "tests/conformance/rules_support.hpp"

using namespace throng;
using namespace conformance::state;

TEST_CASE("spawn/empty") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Replicated{});
    net.settle();
    const Entity there = net.shown(peer, e);
    REQUIRE(peer.world->alive(there));
    CHECK(peer.world->entity_count() == 1);
    CHECK(peer.client->net_id(there) == net.server.net_id(e));
    CHECK_FALSE(peer.world->has<Health>(there));
}

TEST_CASE("spawn/component") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{7, true}, Replicated{});
    CHECK(net.until([&] { return bool(net.shown(peer, e)); }));
    REQUIRE(net.value<Health>(peer, e)); // with the entity, not later
    CHECK(net.value<Health>(peer, e)->hp == 7);
    CHECK(net.value<Health>(peer, e)->angry);
}

TEST_CASE("spawn/multiple_components") {
    StateNet net;
    auto& peer = net.meet();
    struct Birth {
        World& world;
        int calls = 0, whole = 0;
        static void look(void* context, Entity entity, NetId) {
            auto& birth = *static_cast<Birth*>(context);
            ++birth.calls;
            birth.whole += birth.world.has<Health>(entity) && birth.world.has<Speed>(entity);
        }
    } birth{*peer.world};
    ClientConfig config;
    config.on_spawn = Birth::look;
    config.context = &birth;
    peer.client = std::make_unique<Client>(*peer.world, *net.protocol, net.network.client(peer.id), config);
    REQUIRE(net.until([&] { return net.server.joined(peer.id) && peer.client->joined(); }));
    const Entity e = net.world.spawn(Health{7, false}, Speed{2, 0}, Replicated{});
    net.settle();
    CHECK(birth.calls == 1);
    CHECK(birth.whole == 1);
    CHECK(net.hp(peer, e) == 7);
}

TEST_CASE("spawn/old_component") {
    StateNet net;
    auto& peer = net.join();
    net.settle();
    const Entity e = net.world.spawn(Health{7, false});
    CHECK(net.state_bytes(5) == 0);
    CHECK(peer.world->entity_count() == 0);
    net.world.add<Replicated>(e);
    net.settle();
    CHECK(net.hp(peer, e) == 7);
}

TEST_CASE("spawn/related") {
    StateNet net;
    auto& peer = net.join();
    const Entity parent = net.world.spawn(Replicated{});
    const Entity child = net.world.spawn(ChildOf{parent}, Replicated{});
    net.settle();
    REQUIRE(peer.world->alive(net.shown(peer, parent)));
    REQUIRE(peer.world->alive(net.shown(peer, child)));
    CHECK(peer.world->target<ChildOf>(net.shown(peer, child)) == net.shown(peer, parent));
    CHECK(peer.world->source_count<ChildOf>(net.shown(peer, parent)) == 1);
}

TEST_CASE("spawn/empty_before_connection") {
    StateNet net;
    const Entity e = net.world.spawn(Replicated{});
    net.steps(3);
    auto& peer = net.join();
    net.settle();
    CHECK(peer.world->alive(net.shown(peer, e)));
    CHECK(peer.world->entity_count() == 1);
}

TEST_CASE("spawn/before_connection") {
    StateNet net;
    const Entity e = net.world.spawn(Health{7, false}, Replicated{});
    net.steps(3);
    auto& peer = net.join();
    net.settle();
    CHECK(net.hp(peer, e) == 7);
}

TEST_CASE("spawn/before_started_replication") {
    ServerEvents events;
    events.on_hello = [](void*, ClientId, const ClientHello&) { return Verdict::later; };
    for (const bool says_hello : {false, true}) {
        CAPTURE(says_hello);
        StateNet net({.authorization = says_hello ? Authorization::custom : Authorization::protocol, .heartbeat_ticks = 0}, {},
                     make_state_protocol(), events);
        auto& peer = net.meet();
        const Entity e = net.world.spawn(Health{7, false}, Replicated{});
        for (int i = 0; i < 5; ++i)
            net.server_step(); // it says no hello
        if (says_hello) {
            REQUIRE(net.until([&] { return net.server.waiting(peer.id); }));
            net.steps(5);
        }
        REQUIRE_FALSE(net.server.joined(peer.id));
        CHECK(net.network.counters(peer.id, Direction::down).sent == 0);
        if (says_hello)
            REQUIRE(net.server.accept(peer.id) == Error::none);
        REQUIRE(net.until([&] { return net.server.joined(peer.id); }));
        net.settle();
        CHECK(net.hp(peer, e) == 7);
    }
}

TEST_CASE("spawn/after_started_replication") {
    StateNet net;
    auto& peer = net.join();
    net.settle();
    CHECK(peer.world->entity_count() == 0);
    const Entity e = net.world.spawn(Health{7, false}, Replicated{});
    net.settle();
    CHECK(net.hp(peer, e) == 7);
}

TEST_CASE("spawn/with_pause") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.world.remove<Replicated>(e);
    CHECK(net.state_bytes(10) == 0);
    CHECK(peer.world->entity_count() == 0);
    CHECK_FALSE(net.server.net_id(e));
    net.world.mut<Health>(e)->hp = 2;
    net.world.add<Replicated>(e);
    net.world.remove<Replicated>(e);
    CHECK(net.state_bytes(10) == 0);
    CHECK(peer.world->entity_count() == 0);
    net.world.add<Replicated>(e);
    net.agree();
    CHECK(net.hp(peer, e) == 2);
}

TEST_CASE("spawn/visibility_gain") {
    StateNet net;
    auto& peer = net.join();
    const Hidden hidden(net, peer);
    net.settle();
    CHECK(net.state_bytes(5) == 0);
    for (int i = 0; i < Hidden::unsent; ++i)
        CHECK_FALSE(net.shown(peer, hidden.all[i]));
    CHECK(peer.world->entity_count() == Hidden::sent);
    hidden.show(net, peer);
    net.settle();
    for (const Entity e : hidden.all) {
        CHECK(net.hp(peer, e) == 1);
        CHECK_FALSE(peer.client->frozen(net.shown(peer, e)));
    }
    CHECK(peer.world->entity_count() == Hidden::unsent + Hidden::sent);
    CHECK(peer.client->stats().despawns == 0);
}

TEST_CASE("spawn/resource") {
    StateNet net = make_net([](Protocol& p) { weather(p); });
    auto& peer = net.join();
    net.agree();
    CHECK(wind(peer) == -1);
    CHECK_FALSE(net.server.resource_entity());
    CHECK(net.state_bytes(10) == 0);
    net.world.resources().emplace<Weather>(Weather{7, {}});
    net.agree();
    CHECK(wind(peer) == 7);
    auto& late = net.join();
    net.agree();
    CHECK(wind(late) == 7);
    CHECK(net.state_bytes(10) == 0);
}
