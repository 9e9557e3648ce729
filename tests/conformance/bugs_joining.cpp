// Bugs that were reported against other systems, by number (docs/conformance.md): clients that come late, come back, or come in crowds.
#include "tests/conformance/state_support.hpp"

using namespace throng;
using namespace conformance::state;

TEST_CASE("bug/111_joining_in_the_middle") {
    StateNet net;
    auto& a = net.join();
    const Entity target = net.world.spawn(Replicated{});
    const Entity e = net.world.spawn(Health{1, false}, Name{"first"}, Link{target}, Replicated{});
    net.agree();
    net.world.mut<Link>(e)->target = {};
    net.world.remove<Health>(e);
    net.meet();
    net.agree();
    net.world.mut<Name>(e)->text[0] = 'F'; // inside a value
    net.meet();
    net.agree();
    net.world.add<Health>(e, Health{2, false}); // between two systems of one tick
    net.meet();
    net.server.receive(net.now_us);
    net.world.mut<Name>(e)->text = "last";
    net.agree();
    for (const auto& peer : net.peers) {
        REQUIRE(peer->client->joined());
        CHECK(net.hp(*peer, e) == 2);
        CHECK(net.value<Name>(*peer, e)->text == "last");
        CHECK_FALSE(net.value<Link>(*peer, e)->target);
    }
    CHECK(net.hp(a, e) == 2);
}

TEST_CASE("bug/112_what_never_changes") {
    StateNet net;
    auto& a = net.join();
    const Entity e = net.world.spawn(Name{"model"}, Replicated{});
    net.agree();
    CHECK(net.state_bytes(100) == 0); // not again while it is visible
    auto& b = net.join();
    net.agree();
    net.server.view(a.id).hide(e);
    net.agree();
    CHECK_FALSE(net.shown(a, e));
    net.server.view(a.id).show(e);
    net.agree();
    for (const auto* peer : {&a, &b})
        CHECK(net.value<Name>(*peer, e)->text == "model");
    CHECK(net.state_bytes(20) == 0);
}

TEST_CASE("bug/114_everything_again_after_damage") {
    StateNet net;
    HeldBack held(net, Reason::holds_back);
    auto& peer = held.peer;
    std::vector<Entity> all;
    for (int i = 0; i < 2000; ++i)
        all.push_back(net.world.spawn(Health{i, false}, Speed{1, 0}, Replicated{}));
    net.agree();
    for (const int turn : {0, 1}) { // two in a row
        held.gate.closed = true;
        for (std::size_t i = 0; i < 100; ++i) {
            const Entity there = net.shown(peer, all[i * 7 + std::size_t(turn)]);
            peer.world->destroy(there);
            peer.world->remove<Speed>(net.shown(peer, all[i * 7 + 2]));
            net.world.mut<Health>(all[i])->hp++;
        }
        net.step(); // deltas under way
        net.network.disconnect(peer.id);
        REQUIRE(peer.client->receive(net.now_us) == Error::none);
        net.server_step();
        peer.id = net.network.connect(StateNet::link(), StateNet::link());
        held.gate.reconnect(net.network.client(peer.id));
        held.gate.closed = false;
        REQUIRE(net.until([&] { return net.server.joined(peer.id) && peer.client->joined(); }));
        net.agree();
        CHECK(peer.world->entity_count() == 2000);
    }
}

TEST_CASE("bug/116_the_same_slot_again") {
    StateNet net;
    std::vector<Entity> all;
    for (int i = 0; i < 500; ++i)
        all.push_back(net.world.spawn(Health{i, false}, Replicated{}));
    const Entity secret = net.world.spawn(VisibleTo{.any_of = 1}, Replicated{});
    const Entity near = net.world.spawn(Place{0, 0}, Replicated{});
    for (const int ticks_away : {1, 100, 1200}) {
        auto& peer = net.join();
        CHECK(peer.id == 0);
        View view = net.server.view(peer.id);
        net.agree();
        CHECK(peer.world->entity_count() == 500); // nothing is inherited: no place to look at, no layer, nothing hidden
        view.set_layers(1);
        view.hide(all[7]);
        view.look_at(0, 0, {.radius = 60});
        net.agree();
        CHECK(peer.world->entity_count() == 501);
        CHECK(peer.world->alive(net.shown(peer, secret)));
        CHECK(peer.world->alive(net.shown(peer, near)));
        CHECK_FALSE(net.shown(peer, all[7]));
        net.network.disconnect(peer.id);
        peer.left = true;
        net.steps(ticks_away);
        CHECK_FALSE(net.server.joined(peer.id));
    }
}

namespace {
using conformance::Net;
/// Clients that, while they join, are told who may see what.
struct Listed : Net {
    explicit Listed(bool allow) : allows(allow) {
        for (int i = 0; i < 100; ++i)
            all.push_back(allow ? world.spawn(Replicated{}, VisibleTo{.any_of = i % 10 == 0 ? 1u : 2u}) : world.spawn(Replicated{}));
        joined = [](MessageWorld& net, ClientId id) {
            auto& self = static_cast<Listed&>(net);
            if (self.allows)
                self.server.view(id).set_layers(1);
            else
                for (std::size_t i = 0; i < self.all.size(); i += 10)
                    self.server.view(id).hide(self.all[i]);
        };
    }
    bool allows;
    std::vector<Entity> all;
};
} // namespace

TEST_CASE("bug/119_allowed_and_denied_while_joining") {
    for (const bool allow : {true, false}) {
        Listed net(allow);
        net.steps(3);
        auto& peer = net.join();
        net.settle();
        REQUIRE(net.until([&] { return net.server.settled(peer.id); }));
        CHECK(peer.world.entity_count() == (allow ? 10 : 90));
        CHECK(peer.client->stats().spawns == (allow ? 10 : 90)); // never one of the others
        for (std::size_t i = 0; i < net.all.size(); ++i)
            CHECK(bool(net.shown(peer, net.all[i])) == ((i % 10 == 0) == allow));
    }
}

TEST_CASE("bug/121_more_to_begin_with_than_any_buffer_holds") {
    StateNet net({.budget_bytes = 10'000, .heartbeat_ticks = 0}, {.unreliable = {20'000, 64}, .ordered = {70'000, 16}});
    std::vector<Entity> all;
    for (int i = 0; i < 5000; ++i)
        all.push_back(net.world.spawn(Health{i * 7919, false}, Name{std::to_string(i) + " is the name"}, Replicated{}));
    auto& early = net.join();
    net.agree();
    auto& late = net.meet();
    LinkConfig narrow = StateNet::link();
    narrow.rate_bytes_per_s = 200'000;
    narrow.queue_bytes_max = 20'000;
    net.network.set_link(late.id, Direction::down, narrow);
    int current = 0, looks = 0;
    for (int tick = 0; tick < 60; ++tick) {
        for (std::size_t i = std::size_t(tick) % 50; i < all.size(); i += 50)
            net.world.mut<Health>(all[i])->hp++;
        net.step();
        current += net.hp(early, all[0]) == net.world.get<Health>(all[0])->hp;
        ++looks;
    }
    if (conformance::setting().loss_percent == 0)
        CHECK(current == looks); // it does not feel the other one
    net.agree();
    CHECK(late.world->entity_count() == 5000);
}

TEST_CASE("bug/122_a_crowd_joins") {
    StateNet net({.budget_bytes = 20'000, .heartbeat_ticks = 0});
    std::vector<Entity> all;
    for (int i = 0; i < 2000; ++i)
        all.push_back(net.world.spawn(Health{i, false}, Replicated{}));
    for (int i = 0; i < 10; ++i)
        net.join();
    net.agree();
    const auto bytes_to_old = [&] {
        u64 bytes = 0;
        for (u32 i = 0; i < 10; ++i)
            bytes += net.network.counters(net.peers[i]->id, Direction::down).sent_bytes;
        return bytes;
    };
    const auto bytes_of = [&](int ticks) {
        const u64 before = bytes_to_old();
        for (int tick = 0; tick < ticks; ++tick) {
            for (std::size_t i = 0; i < 50; ++i)
                net.world.mut<Health>(all[i])->hp++;
            net.step();
        }
        return bytes_to_old() - before;
    };
    bytes_of(20);
    const u64 alone = bytes_of(20);
    for (int i = 0; i < 20; ++i)
        net.meet();
    const u64 with_crowd = bytes_of(20);
    if (conformance::setting().loss_percent == 0)
        CHECK(with_crowd == alone);
    net.agree();
    CHECK(net.peers[29]->world->entity_count() == 2000);
}
