// Changes of entities that matter less are sent less often.
#include "tests/conformance/state_support.hpp"

using namespace throng;
using namespace conformance::state;

namespace {

/// Changes hp in so many ticks and returns in how many of them state was sent.
int ticks_with_state(StateNet& net, Entity e, int ticks) {
    int sent = 0;
    for (int i = 0; i < ticks; ++i) {
        ++net.world.mut<Health>(e)->hp;
        sent += net.step().sent_lanes != 0;
    }
    return sent;
}

} // namespace

TEST_CASE("priority/entity_priority") {
    StateNet net;
    auto& peer = net.join();
    net.perfect_link(peer, Reason::counts_ticks);
    const Entity e = net.world.spawn(Health{1, false}, UpdatePriority{0.5f}, Replicated{});
    CHECK(net.step().sent_lanes == 1); // appearing does not wait
    net.settle();
    CHECK(ticks_with_state(net, e, 8) == 4);
    net.world.mut<UpdatePriority>(e)->value = 0.2f; // every fifth tick: rounded up to the eighth
    CHECK(ticks_with_state(net, e, 32) == 4);
    net.world.remove<UpdatePriority>(e);
    CHECK(ticks_with_state(net, e, 8) == 8);
    net.agree();
    CHECK(net.hp(peer, e) == 49);
}

TEST_CASE("priority/client_priority") {
    StateNet net;
    auto &slow = net.join(), &fast = net.join();
    net.perfect_link(slow, Reason::counts_ticks);
    net.perfect_link(fast, Reason::counts_ticks);
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    REQUIRE(net.server.view(slow.id).set_priority(e, 0.25f));
    int sent = 0;
    for (int i = 0; i < 16; ++i) {
        net.world.mut<Health>(e)->hp = 2 + i;
        sent += static_cast<int>(net.step().sent_lanes);
        CHECK(net.hp(fast, e) >= 1 + i); // at most a tick behind
    }
    CHECK(sent == 16 + 4);
    net.server.view(slow.id).clear_priority(e);
    CHECK(ticks_with_state(net, e, 4) == 4);
    net.agree();
}

TEST_CASE("priority/client_priority_overrides_entity_priority") {
    StateNet net;
    auto& peer = net.join();
    net.perfect_link(peer, Reason::counts_ticks);
    const Entity e = net.world.spawn(Health{1, false}, UpdatePriority{0.1f}, Replicated{});
    net.settle();
    REQUIRE(net.server.view(peer.id).set_priority(e, 1));
    CHECK(ticks_with_state(net, e, 10) == 10);
    net.agree();
}

TEST_CASE("priority/with_miss") {
    StateNet net;
    auto& peer = net.join();
    net.script_loss(peer, 0, 0);
    const Entity e = net.world.spawn(Health{1, false}, UpdatePriority{0.0f}, Replicated{});
    const Entity other = net.world.spawn(Health{1, false}, Replicated{}); // its acks tell of the loss
    net.settle();
    net.world.mut<Health>(e)->hp = 2;
    net.script_loss(peer, 100, 0);
    u32 waited = 0;
    while (waited < update_period_max && net.step().sent_lanes == 0) // up to its turn, which is lost
        ++waited;
    REQUIRE(waited < update_period_max);
    net.script_loss(peer, 0, 0);
    int again = 0;
    for (; again < 20 && net.hp(peer, e) != 2; ++again) {
        ++net.world.mut<Health>(other)->hp;
        net.step();
    }
    CHECK(again < 10); // as soon as the loss is known, long before its next turn
    CHECK(net.hp(peer, e) == 2);
    net.agree();
}

TEST_CASE("priority/change_waits_for_its_turn_though_the_world_rests") {
    StateNet net;
    auto& peer = net.join();
    const Entity e = net.world.spawn(Health{1, false}, UpdatePriority{0.01f}, Replicated{});
    net.settle();
    net.world.mut<Health>(e)->hp = 2;
    REQUIRE(net.until([&] { return net.hp(peer, e) == 2; }));
    net.agree();
    CHECK(net.state_bytes(100) == 0);
}

TEST_CASE("priority/insertion_takes_what_waits_along") {
    StateNet net;
    auto& peer = net.join();
    net.perfect_link(peer, Reason::counts_ticks);
    const Entity e = net.world.spawn(Health{1, false}, UpdatePriority{1.f / 64}, Replicated{});
    net.settle();
    net.world.mut<Health>(e)->hp = 2;
    for (int i = 0; i < 3; ++i) { // waits, unless its turn is now
        net.step();
        net.world.mut<Health>(e)->hp = 3 + i;
    }
    net.world.add<Speed>(e, Speed{1, 0});
    REQUIRE(net.until([&] { return net.value<Speed>(peer, e); }));
    CHECK(net.hp(peer, e) == 5); // no insertion without the change before it
    net.agree();
}

TEST_CASE("priority/round_trip_longer_than_the_period") {
    StateNet net;
    auto& peer = net.join();
    net.network.set_link(peer.id, Direction::down, {.delay_us = 250'000});
    net.network.set_link(peer.id, Direction::up, {.delay_us = 250'000});
    const Entity e = net.world.spawn(Health{1, false}, UpdatePriority{0.5f}, Replicated{});
    net.settle();
    net.world.mut<Health>(e)->hp = 2;
    u64 sent = 0;
    for (int i = 0; i < 40; ++i)
        sent += net.step().sent_lanes;
    CHECK(sent == 1); // once, not at each of its turns until it is acknowledged
    CHECK(net.hp(peer, e) == 2);
    net.agree();
}
