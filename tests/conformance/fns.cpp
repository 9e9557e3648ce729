// Which functions a client calls for a component: its own way, those of ReceiveRules, those of markers.
#include "tests/conformance/state_support.hpp"

using namespace throng;
using namespace conformance::state;

namespace {
struct First {}; // markers
struct Second {};

/// Functions that write down which they are.
struct Fns : Ruled {
    std::string calls;
    Entity e;
    template <char Name>
    static void write(const Received& received, const Health& health) {
        *static_cast<std::string*>(received.context) += Name + std::to_string(health.hp) + " ";
    }
    template <char Name>
    static void remove(const Received& received) {
        *static_cast<std::string*>(received.context) += std::string("-") + Name + " ";
    }
    void markers(i32 first_priority, i32 second_priority) {
        REQUIRE(rules.marker<First>({.priority = first_priority}) == Error::none);
        REQUIRE(rules.marker<Second>({.priority = second_priority}) == Error::none);
        // in the other order: that of the markers counts
        REQUIRE((rules.functions_for<Second, Health>(write<'2'>, remove<'2'>, &calls)) == Error::none);
        REQUIRE((rules.functions_for<First, Health>(write<'1'>, remove<'1'>, &calls)) == Error::none);
    }
    /// An entity with these markers at the client gets Health, then loses it.
    template <class... Markers>
    void insert() {
        join(Reason::counts_packets);
        e = net.world.spawn(Replicated{});
        net.settle();
        (there().add<Markers>(net.shown(held->peer, e)), ...);
        net.world.add<Health>(e, Health{7, false});
        net.settle();
    }
    template <class... Markers>
    void insert_and_remove() {
        insert<Markers...>();
        calls.clear();
        net.world.remove<Health>(e);
        net.settle();
    }
    int hp() const { return net.hp(held->peer, e); }
};
} // namespace

TEST_CASE("fns/write") {
    Fns f;
    f.insert<>();
    CHECK(f.hp() == 7);
}

TEST_CASE("fns/remove") {
    Fns f;
    f.insert_and_remove<>();
    CHECK(f.hp() == -1);
    CHECK(f.there().alive(f.net.shown(f.held->peer, f.e)));
}

TEST_CASE("fns/write_with_command") {
    Fns f;
    REQUIRE(f.rules.functions<Health>(Fns::write<'d'>, nullptr, &f.calls) == Error::none);
    f.insert<>();
    CHECK(f.calls == "d7 ");
    CHECK(f.hp() == -1);
}

TEST_CASE("fns/remove_with_command") {
    Fns f;
    REQUIRE(f.rules.functions<Health>(nullptr, Fns::remove<'d'>, &f.calls) == Error::none);
    f.insert_and_remove<>();
    CHECK(f.calls == "-d ");
    CHECK(f.hp() == 7); // it is the function's
}

TEST_CASE("fns/write_without_marker") {
    Fns f;
    f.markers(0, 0);
    f.insert<>();
    CHECK(f.calls.empty());
    CHECK(f.hp() == 7);
}

TEST_CASE("fns/remove_without_marker") {
    Fns f;
    f.markers(0, 0);
    f.insert_and_remove<>();
    CHECK(f.calls.empty());
    CHECK(f.hp() == -1);
}

TEST_CASE("fns/write_with_marker") {
    Fns f;
    f.markers(0, 0);
    REQUIRE(f.rules.functions<Health>(Fns::write<'d'>, Fns::remove<'d'>, &f.calls) == Error::none);
    f.insert<First>();
    CHECK(f.calls == "17 ");
    CHECK(f.hp() == -1);
}

TEST_CASE("fns/remove_with_marker") {
    Fns f;
    f.markers(0, 0);
    REQUIRE(f.rules.functions<Health>(Fns::write<'d'>, Fns::remove<'d'>, &f.calls) == Error::none);
    f.insert_and_remove<First>();
    CHECK(f.calls == "-1 ");
}

TEST_CASE("fns/write_with_multiple_markers") {
    Fns f;
    f.markers(5, 5);
    f.insert<First, Second>();
    CHECK(f.calls == "27 "); // of equals the one registered last
}

TEST_CASE("fns/remove_with_multiple_markers") {
    Fns f;
    f.markers(5, 5);
    f.insert_and_remove<First, Second>();
    CHECK(f.calls == "-2 ");
}

TEST_CASE("fns/write_with_priority_marker") {
    Fns f;
    f.markers(1, -1);
    f.insert<First, Second>();
    CHECK(f.calls == "17 ");
}

TEST_CASE("fns/remove_with_priority_marker") {
    Fns f;
    f.markers(1, -1);
    f.insert_and_remove<First, Second>();
    CHECK(f.calls == "-1 ");
}

TEST_CASE("fns/despawn") {
    Fns f;
    f.rules.despawn(Fns::remove<'e'>, &f.calls);
    f.insert<>();
    const Entity there = f.net.shown(f.held->peer, f.e);
    f.net.world.destroy(f.e);
    f.net.settle();
    CHECK(f.calls == "-e ");
    CHECK(f.there().alive(there)); // it is the function's
    CHECK_FALSE(f.held->peer.client->net_id(there));
}

TEST_CASE("fns/server_of_another_build") {
    // The server's build has other components, in another order, and lacks a field.
    auto theirs = std::make_unique<Protocol>();
    theirs->component<Link>("link").field(&Link::target, "target");
    theirs->component<First>("first");
    theirs->opaque<Name>("name", 2000, throng_test::write_name, throng_test::read_name);
    theirs->component<Health>("health").field(&Health::hp, "hp");
    REQUIRE(theirs->finish() == Error::none);
    Protocol ours;
    ours.component<Health>("health").field(&Health::hp, "hp").field(&Health::angry, "angry");
    ours.opaque<Name>("name", 2000, throng_test::write_name, throng_test::read_name);
    ours.component<First>("first");
    REQUIRE(ours.finish() == Error::none);
    struct Heard {
        int hp = 0, marked = 0;
        std::string name;
    } heard;
    ReceiveRules rules(ours);
    REQUIRE(rules.marker<First>() == Error::none);
    REQUIRE(rules.functions<Health>([](const Received& r, const Health& h) { static_cast<Heard*>(r.context)->hp = h.hp; }, nullptr,
                                    &heard) == Error::none);
    REQUIRE((rules.functions_for<First, Health>([](const Received& r, const Health& h) { static_cast<Heard*>(r.context)->marked = h.hp; },
                                                nullptr, &heard)) == Error::none);
    REQUIRE(rules.functions<Name>([](const Received& r, const Name& n) { static_cast<Heard*>(r.context)->name = n.text; }, nullptr,
                                  &heard) == Error::none);
    REQUIRE((rules.require<Health, Local>()) == Error::none);
    StateNet net({.heartbeat_ticks = 0}, {}, std::move(theirs));
    auto& peer = net.meet();
    ClientConfig config;
    config.rules = &rules;
    peer.client = std::make_unique<Client>(*peer.world, ours, net.network.client(peer.id), config);
    REQUIRE(net.until([&] { return net.server.joined(peer.id) && peer.client->joined(); }));
    const Entity plain = net.world.spawn(Health{5, true}, Link{}, Name{"n"}, Replicated{});
    const Entity marked = net.world.spawn(Health{6, true}, First{}, Replicated{});
    net.settle();
    CHECK(heard.hp == 5);
    CHECK(heard.marked == 6);
    CHECK(heard.name == "n");
    CHECK(peer.world->has<First>(net.shown(peer, marked)));
    for (const Entity e : {plain, marked})
        CHECK_FALSE(net.value<Health>(peer, e));
    CHECK_FALSE(net.value<Link>(peer, plain));
    peer.client.reset();
    peer.left = true;
}
