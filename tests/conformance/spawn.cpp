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

TEST_CASE("spawn/signature") {
    StateNet net = make_net([](Protocol& p) { signed_health(p); });
    auto& peer = net.join();
    const SpawnSignature signature = SpawnSignature::of(1, u32(7)), other = SpawnSignature::of(1, u32(8));
    const Entity there = peer.world->spawn(Local{3}, Health{1, false}, signature);
    const Entity stranger = peer.world->spawn(Local{4}, other);
    const Entity e = net.world.spawn(Health{7, true}, signature, Replicated{});
    const Entity unknown = net.world.spawn(Health{9, false}, SpawnSignature::of(2, u32(7)), Replicated{});
    net.settle();
    CHECK(net.shown(peer, e) == there);
    CHECK(peer.client->net_id(there) == net.server.net_id(e));
    CHECK(peer.world->get<Local>(there)->value == 3);
    CHECK(net.hp(peer, e) == 7);
    CHECK(peer.world->get<Health>(there)->angry);
    CHECK(*peer.world->get<SpawnSignature>(there) == signature);
    CHECK(net.hp(peer, unknown) == 9);
    CHECK(peer.world->alive(stranger));
    CHECK_FALSE(peer.client->net_id(stranger));
    CHECK(peer.world->entity_count() == 3);
    CHECK(peer.client->stats().spawns == 2);
    CHECK(peer.client->stats().mappings == 2);
    CHECK(peer.client->stats().adoptions == 1);
    CHECK(peer.client->confirmed_tick(there) != 0);
    peer.world->destroy(stranger);
    net.world.mut<Health>(e)->hp = 8;
    net.agree();
    CHECK(peer.world->get<Health>(there)->hp == 8);
}

TEST_CASE("spawn/signature_before_connection") {
    StateNet net = make_net([](Protocol& p) { signed_health(p); });
    const SpawnSignature signature = SpawnSignature::of(1, u32(7));
    const Entity e = net.world.spawn(Health{7, false}, signature, Replicated{});
    net.steps(3);
    auto& peer = net.meet();
    const Entity there = peer.world->spawn(signature);
    REQUIRE(net.until([&] { return net.server.joined(peer.id) && peer.client->joined(); }));
    net.agree();
    CHECK(net.shown(peer, e) == there);
    CHECK(net.hp(peer, e) == 7);
    CHECK(peer.world->entity_count() == 1);
}

TEST_CASE("spawn/signature_before_replication") {
    StateNet net = make_net([](Protocol& p) { signed_health(p); });
    auto& peer = net.join();
    net.settle();
    const SpawnSignature signature = SpawnSignature::of(1, u32(7));
    const Entity there = peer.world->spawn(signature);
    const Entity e = net.world.spawn(Health{7, false}, signature);
    CHECK(net.state_bytes(10) == 0);
    CHECK_FALSE(peer.client->net_id(there));
    net.world.add<Replicated>(e);
    net.agree();
    CHECK(net.shown(peer, e) == there);
    CHECK(peer.world->entity_count() == 1);
}

TEST_CASE("spawn/signature_for_client") {
    StateNet net = make_net([](Protocol& p) { signed_health(p, Audience::owner); });
    auto &mine = net.join(), &other = net.join();
    const SpawnSignature signature = SpawnSignature::of(1, u32(7));
    const Entity here = mine.world->spawn(signature), there = other.world->spawn(Local{5}, signature);
    const Entity e = net.world.spawn(Health{7, false}, signature, OwnedBy{mine.id}, Replicated{});
    net.settle();
    CHECK(net.shown(mine, e) == here);
    CHECK(mine.world->entity_count() == 1);
    CHECK(other.world->entity_count() == 2);
    CHECK(other.world->alive(net.shown(other, e)));
    CHECK(net.shown(other, e) != there);
    CHECK_FALSE(other.world->has<SpawnSignature>(net.shown(other, e)));
    CHECK_FALSE(other.client->net_id(there));
    CHECK(other.world->get<Local>(there)->value == 5);
    CHECK_FALSE(other.world->has<Health>(there));
    other.world->destroy(there);
    net.agree();
}

TEST_CASE("spawn/visibility_gain_with_signature") {
    for (const bool by_view : {true, false}) {
        CAPTURE(by_view);
        StateNet net = make_net([](Protocol& p) { signed_health(p); });
        auto& peer = net.join();
        net.settle();
        const SpawnSignature signature = SpawnSignature::of(1, u32(7));
        const Entity there = peer.world->spawn(Local{3}, signature);
        const Entity e = net.world.spawn(Health{7, false}, signature, Replicated{});
        if (by_view)
            net.server.view(peer.id).hide(e);
        else
            net.world.add<VisibleTo>(e, VisibleTo{.any_of = 2});
        CHECK(net.state_bytes(10) == 0);
        CHECK_FALSE(peer.client->net_id(there));
        net.server.view(peer.id).show(e);
        net.server.view(peer.id).set_layers(2);
        net.agree();
        CHECK(net.shown(peer, e) == there);
        CHECK(peer.world->get<Local>(there)->value == 3);
        CHECK(peer.world->entity_count() == 1);
    }
}

TEST_CASE("spawn/signature_replaced") {
    for (const bool predicted : {true, false}) {
        CAPTURE(predicted);
        StateNet net = make_net([](Protocol& p) { signed_health(p); });
        auto& peer = net.join();
        const SpawnSignature signature = SpawnSignature::of(1, u32(7));
        const Entity before = peer.world->spawn(signature);
        Entity e = net.world.spawn(Health{1, false}, signature, Replicated{});
        net.agree();
        REQUIRE(net.shown(peer, e) == before);
        const Entity next = predicted ? peer.world->spawn(Local{3}, signature) : Entity{};
        net.world.destroy(e);
        e = net.world.spawn(Health{2, false}, signature, Replicated{});
        net.agree();
        CHECK_FALSE(peer.world->alive(before));
        CHECK(net.hp(peer, e) == 2);
        if (predicted)
            CHECK(net.shown(peer, e) == next);
        CHECK(peer.world->entity_count() == 1);
    }
}

TEST_CASE("spawn/signature_reconnect") {
    StateNet net = make_net([](Protocol& p) { signed_health(p); });
    HeldBack held(net);
    auto& peer = held.peer;
    const SpawnSignature signature = SpawnSignature::of(1, u32(7)), unanswered = SpawnSignature::of(1, u32(8));
    const Entity adopted = peer.world->spawn(signature), waits = peer.world->spawn(unanswered);
    const Entity e = net.world.spawn(Health{1, false}, signature, Replicated{});
    net.settle();
    REQUIRE(net.shown(peer, e) == adopted);
    net.server.disconnect(peer.id);
    REQUIRE(peer.client->receive(net.now_us) == Error::none);
    net.server_step();
    CHECK(peer.world->alive(adopted)); // until the next welcome
    const Entity f = net.world.spawn(Health{2, false}, unanswered, Replicated{});
    peer.id = net.network.connect(StateNet::link());
    held.gate.reconnect(net.network.client(peer.id));
    REQUIRE(net.until([&] { return net.server.joined(peer.id) && peer.client->joined(); }));
    net.agree();
    CHECK_FALSE(peer.world->alive(adopted));
    CHECK(net.hp(peer, e) == 1);
    CHECK(net.shown(peer, f) == waits);
    CHECK(peer.world->entity_count() == 2);
}
