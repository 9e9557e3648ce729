// Rules of sight that come and go, on either side, in any order: of whole entities by layers and by filters, and of components by scopes.
#include "tests/conformance/state_support.hpp"

using namespace throng;
using namespace conformance::state;

namespace {

struct Team {
    u32 number = 0;
};
struct Side { // a client's
    u32 team = 0;
};
struct Secret {
    u32 depth = 0;
};
struct Clearance {
    u32 depth = 0;
};
bool same_team(const Team& team, const Side* side) {
    return side && side->team == team.number;
}
bool cleared(const Secret& secret, const Clearance* clearance) {
    return secret.depth == 0 || (clearance && clearance->depth >= secret.depth);
}

/// A net whose server has a filter of teams.
struct FilterNet : StateNet {
    FilterNet() { CHECK(server.add_filter<Team, Side>("team", same_team) == Error::none); }
    /// Puts a client on layers, and on the team of the same number; 0: on none.
    void set(const Peer& peer, u32 number) {
        View view = server.view(peer.id);
        view.set_layers(number);
        CHECK((number ? view.set(Side{number}) : view.clear<Side>()) == Error::none);
    }
};

/// An entity that is seen on layer 2 only, one that team 2 sees, and one of which Health is seen on layer 2.
struct Filtered {
    explicit Filtered(FilterNet& net)
        : whole(net.world.spawn(Health{1, false}, VisibleTo{.any_of = 2}, Replicated{})),
          team(net.world.spawn(Health{1, false}, Team{2}, Replicated{})),
          part(net.world.spawn(Health{1, false}, Speed{1, 0}, ScopedTo(Scope::of<Health>(), {.any_of = 2}), Replicated{})) {}
    bool seen(FilterNet& net, const StateNet::Peer& peer) const {
        net.agree();
        CHECK(net.value<Speed>(peer, part));
        CHECK((net.hp(peer, whole) == 1) == (net.hp(peer, part) == 1));
        CHECK((net.hp(peer, whole) == 1) == (net.hp(peer, team) == 1));
        return net.hp(peer, whole) == 1;
    }
    Entity whole, team, part;
};

} // namespace

TEST_CASE("visibility/after_clients") {
    FilterNet net;
    auto &inside = net.join(), &outside = net.join();
    net.set(inside, 2);
    net.settle();
    const Filtered filtered(net);
    CHECK(filtered.seen(net, inside));
    CHECK_FALSE(filtered.seen(net, outside));
}

TEST_CASE("visibility/before_clients") {
    FilterNet net;
    const Filtered filtered(net);
    net.steps(3);
    auto &inside = net.join(), &outside = net.join();
    net.set(inside, 2);
    CHECK(filtered.seen(net, inside));
    CHECK_FALSE(filtered.seen(net, outside));
}

TEST_CASE("visibility/insert_filter_on_client") {
    FilterNet net;
    auto& peer = net.join();
    const Filtered filtered(net);
    CHECK_FALSE(filtered.seen(net, peer));
    net.set(peer, 2);
    CHECK(filtered.seen(net, peer));
}

TEST_CASE("visibility/remove_filter_from_entity") {
    FilterNet net;
    auto& peer = net.join();
    const Filtered filtered(net);
    CHECK_FALSE(filtered.seen(net, peer));
    net.world.remove<VisibleTo>(filtered.whole);
    net.world.remove<Team>(filtered.team);
    net.world.remove<ScopedTo>(filtered.part);
    CHECK(filtered.seen(net, peer));
}

TEST_CASE("visibility/remove_filter_from_client") {
    FilterNet net;
    auto& peer = net.join();
    net.set(peer, 2);
    const Filtered filtered(net);
    CHECK(filtered.seen(net, peer));
    net.set(peer, 4);
    CHECK_FALSE(filtered.seen(net, peer));
}

TEST_CASE("visibility/multiple_filters") {
    FilterNet net;
    CHECK(net.server.add_filter<Secret, Clearance>("secret", cleared) == Error::none);
    auto& peer = net.join();
    const Entity whole = net.world.spawn(Health{1, false}, VisibleTo{.all_of = 2 | 4}, Replicated{});
    const Entity team = net.world.spawn(Health{1, false}, Team{2}, Secret{4}, Replicated{});
    const Entity part = net.world.spawn(
        Health{1, false}, Speed{1, 0}, ScopedTo(Scope::of<Health>(), {.any_of = 2}).also(Scope::all_except<Speed>(), {.any_of = 4}),
        Replicated{});
    for (const u64 layers : {0, 2, 4, 6, 2, 6, 0}) {
        CAPTURE(layers);
        View view = net.server.view(peer.id);
        view.set_layers(layers);
        CHECK(view.set(Side{layers & 2 ? 2u : 9u}) == Error::none);
        CHECK((layers & 4 ? view.set(Clearance{5}) : view.clear<Clearance>()) == Error::none);
        net.agree();
        CHECK(net.hp(peer, whole) == (layers == 6 ? 1 : -1));
        CHECK(net.hp(peer, team) == (layers == 6 ? 1 : -1));
        CHECK(net.hp(peer, part) == (layers == 6 ? 1 : -1));
        CHECK(net.value<Speed>(peer, part));
    }
}

TEST_CASE("visibility/already_visible") { // another rule that allows the same changes nothing
    FilterNet net;
    CHECK(net.server.add_filter<Secret, Clearance>("secret", cleared) == Error::none);
    auto& peer = net.join();
    net.set(peer, 2);
    net.server.view(peer.id).set_layers(2 | 8);
    const Filtered filtered(net);
    CHECK(filtered.seen(net, peer));
    net.world.mut<VisibleTo>(filtered.whole)->any_of = 8;
    *net.world.mut<ScopedTo>(filtered.part) = ScopedTo(Scope::of<Health>(), {.any_of = 8});
    net.world.add<Secret>(filtered.team, Secret{0});
    CHECK(net.state_bytes(10) == 0);
    net.server.view(peer.id).set_layers(8);
    CHECK(net.server.view(peer.id).set(Clearance{3}) == Error::none);
    net.world.mut<Secret>(filtered.team)->depth = 3;
    CHECK(net.state_bytes(10) == 0);
    CHECK(filtered.seen(net, peer));
}

TEST_CASE("visibility/hidden_and_shown_in_one_tick") {
    FilterNet net;
    auto& peer = net.join();
    net.set(peer, 2);
    const Filtered filtered(net);
    CHECK(filtered.seen(net, peer));
    net.set(peer, 0);
    net.set(peer, 2);
    CHECK(net.state_bytes(10) == 0);
    CHECK(filtered.seen(net, peer));
}

namespace {
template <u32>
struct Word {
    u32 value = 0;
};
template <u32 N>
Error add_word(Server& server) {
    return server.add_filter<Team, Word<N>>("word", [](const Team& team, const Word<N>* w) { return w && w->value == team.number; });
}
} // namespace

TEST_CASE("visibility/max_filters") {
    StateNet net;
    auto& peer = net.join();
    [&]<u32... N>(std::integer_sequence<u32, N...>) {
        for (const Error error : {add_word<N>(net.server)...})
            CHECK(error == Error::none);
    }(std::make_integer_sequence<u32, filters_max>());
    CHECK(add_word<filters_max>(net.server) == Error::limit_reached);
    const Entity e = net.world.spawn(Health{1, false}, Team{2}, Replicated{});
    [&]<u32... N>(std::integer_sequence<u32, N...>) {
        for (const Error error : {net.server.view(peer.id).set(Word<N>{2})...})
            CHECK(error == Error::none);
    }(std::make_integer_sequence<u32, filters_max>());
    net.agree();
    CHECK(net.hp(peer, e) == 1);
    CHECK(net.server.view(peer.id).set(Word<filters_max - 1>{3}) == Error::none);
    net.agree();
    CHECK(net.hp(peer, e) == -1);
}

TEST_CASE("visibility/duplicate_filter") {
    FilterNet net;
    CHECK(net.server.add_filter<Team, Side>("again", same_team) == Error::bad_value);
    auto& peer = net.join();
    CHECK(net.server.view(peer.id).set(Clearance{3}) == Error::bad_value); // no filter asks for it
    CHECK(net.server.add_filter<Team, Clearance>("another", [](const Team& team, const Clearance* clearance) {
        return clearance && clearance->depth == team.number;
    }) == Error::none);
    const Entity e = net.world.spawn(Health{1, false}, Team{2}, Replicated{});
    net.set(peer, 2);
    net.agree();
    CHECK(net.hp(peer, e) == -1);
    CHECK(net.server.view(peer.id).set(Clearance{2}) == Error::none);
    net.agree();
    CHECK(net.hp(peer, e) == 1);
}

TEST_CASE("visibility/of_a_group") {
    StateNet net;
    auto &first = net.join(), &second = net.join();
    const GroupId group = net.server.make_group(), other = net.server.make_group();
    const Entity e = net.world.spawn(Health{1, false}, VisibleToGroup{group}, Replicated{});
    const auto sees = [&](bool by_first, bool by_second) {
        net.agree();
        CHECK((net.hp(first, e) == 1) == by_first);
        CHECK((net.hp(second, e) == 1) == by_second);
    };
    sees(false, false);
    net.server.add_to_group(group, first.id);
    net.server.add_to_group(other, first.id); // in two
    net.server.add_to_group(other, second.id);
    sees(true, false);
    net.world.mut<VisibleToGroup>(e)->group = other;
    sees(true, true);
    net.server.remove_from_group(other, first.id);
    sees(false, true);
    net.server.drop_group(other);
    sees(false, false);
    net.world.remove<VisibleToGroup>(e);
    sees(true, true);
}

TEST_CASE("visibility/filtered_avatar") { // a client's own entity is filtered like any other
    FilterNet net;
    auto& peer = net.join();
    const Entity avatar = net.world.spawn(Place{1, 1}, Health{1, false}, Team{2}, OwnedBy{peer.id}, Replicated{});
    net.server.view(peer.id).follow(avatar, {.radius = 60});
    net.agree();
    CHECK(net.hp(peer, avatar) == -1);
    CHECK(net.server.why(avatar, peer.id).reason == WhyReason::refused_by_filter);
    CHECK(std::string(net.server.why(avatar, peer.id).filter) == "team");
    net.set(peer, 2);
    net.agree();
    CHECK(net.hp(peer, avatar) == 1);
}
