// Rules of sight that come and go, on either side, in any order: of whole entities by layers, and of components by scopes.
#include "tests/conformance/state_support.hpp"

using namespace throng;
using namespace conformance::state;

namespace {

/// An entity that is seen on layer 2 only, and one of which Health is.
struct Filtered {
    explicit Filtered(StateNet& net)
        : whole(net.world.spawn(Health{1, false}, VisibleTo{.any_of = 2}, Replicated{})),
          part(net.world.spawn(Health{1, false}, Speed{1, 0}, ScopedTo(Scope::of<Health>(), {.any_of = 2}), Replicated{})) {}
    bool seen(StateNet& net, const StateNet::Peer& peer) const {
        net.agree();
        CHECK(net.value<Speed>(peer, part));
        CHECK((net.hp(peer, whole) == 1) == (net.hp(peer, part) == 1));
        return net.hp(peer, whole) == 1;
    }
    Entity whole, part;
};

} // namespace

TEST_CASE("visibility/after_clients") {
    StateNet net;
    auto &inside = net.join(), &outside = net.join();
    net.server.view(inside.id).set_layers(2);
    net.settle();
    const Filtered filtered(net);
    CHECK(filtered.seen(net, inside));
    CHECK_FALSE(filtered.seen(net, outside));
}

TEST_CASE("visibility/before_clients") {
    StateNet net;
    const Filtered filtered(net);
    net.steps(3);
    auto &inside = net.join(), &outside = net.join();
    net.server.view(inside.id).set_layers(2);
    CHECK(filtered.seen(net, inside));
    CHECK_FALSE(filtered.seen(net, outside));
}

TEST_CASE("visibility/insert_filter_on_client") {
    StateNet net;
    auto& peer = net.join();
    const Filtered filtered(net);
    CHECK_FALSE(filtered.seen(net, peer));
    net.server.view(peer.id).set_layers(2);
    CHECK(filtered.seen(net, peer));
}

TEST_CASE("visibility/remove_filter_from_entity") {
    StateNet net;
    auto& peer = net.join();
    const Filtered filtered(net);
    CHECK_FALSE(filtered.seen(net, peer));
    net.world.remove<VisibleTo>(filtered.whole);
    net.world.remove<ScopedTo>(filtered.part);
    CHECK(filtered.seen(net, peer));
}

TEST_CASE("visibility/remove_filter_from_client") {
    StateNet net;
    auto& peer = net.join();
    net.server.view(peer.id).set_layers(2);
    const Filtered filtered(net);
    CHECK(filtered.seen(net, peer));
    net.server.view(peer.id).set_layers(4);
    CHECK_FALSE(filtered.seen(net, peer));
}

TEST_CASE("visibility/multiple_filters") {
    StateNet net;
    auto& peer = net.join();
    const Entity whole = net.world.spawn(Health{1, false}, VisibleTo{.all_of = 2 | 4}, Replicated{});
    const Entity part = net.world.spawn(
        Health{1, false}, Speed{1, 0}, ScopedTo(Scope::of<Health>(), {.any_of = 2}).also(Scope::all_except<Speed>(), {.any_of = 4}),
        Replicated{});
    for (const u64 layers : {0, 2, 4, 6, 2, 6, 0}) {
        CAPTURE(layers);
        net.server.view(peer.id).set_layers(layers);
        net.agree();
        CHECK(net.hp(peer, whole) == (layers == 6 ? 1 : -1));
        CHECK(net.hp(peer, part) == (layers == 6 ? 1 : -1));
        CHECK(net.value<Speed>(peer, part));
    }
}

TEST_CASE("visibility/already_visible") { // another rule that allows the same changes nothing
    StateNet net;
    auto& peer = net.join();
    net.server.view(peer.id).set_layers(2 | 8);
    const Filtered filtered(net);
    CHECK(filtered.seen(net, peer));
    net.world.mut<VisibleTo>(filtered.whole)->any_of = 8;
    *net.world.mut<ScopedTo>(filtered.part) = ScopedTo(Scope::of<Health>(), {.any_of = 8});
    CHECK(net.state_bytes(10) == 0);
    net.server.view(peer.id).set_layers(8);
    CHECK(net.state_bytes(10) == 0);
    CHECK(filtered.seen(net, peer));
}

TEST_CASE("visibility/hidden_and_shown_in_one_tick") {
    StateNet net;
    auto& peer = net.join();
    net.server.view(peer.id).set_layers(2);
    const Filtered filtered(net);
    CHECK(filtered.seen(net, peer));
    net.server.view(peer.id).set_layers(0);
    net.server.view(peer.id).set_layers(2);
    CHECK(net.state_bytes(10) == 0);
    CHECK(filtered.seen(net, peer));
}
