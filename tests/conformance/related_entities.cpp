// Related entities: who is in a cluster, and that what changes of a cluster in one tick is shown at once or not at all, whatever is lost.
#include "tests/conformance/state_support.hpp"
#include <random>

using namespace throng;
using namespace conformance::state;
using conformance::setting;

namespace {

std::unique_ptr<Protocol> related_protocol() {
    auto protocol = std::make_unique<Protocol>();
    const Range map{-1000, 1000, 0.01};
    protocol->component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
    protocol->component<Health>("health").field(&Health::hp).field(&Health::angry);
    protocol->component<Link>("link").field(&Link::target).related(&Link::target);
    protocol->component<ChildOf>("child of").field(&ChildOf::target).related(&ChildOf::target);
    protocol->opaque<Name>("name", 2000, throng_test::write_name, throng_test::read_name);
    REQUIRE(protocol->finish() == Error::none);
    return protocol;
}

struct RelatedNet : StateNet {
    explicit RelatedNet(const ServerConfig& config = {.heartbeat_ticks = 0}, std::unique_ptr<Protocol> chosen = related_protocol())
        : StateNet(config, {}, std::move(chosen)) {}

    template <class... T>
    Entity make(T... components) {
        return world.spawn(Health{100, false}, components..., Replicated{});
    }
    bool alone(Entity e) { return server.why(e, 0).cluster == WhyCluster::none && server.cluster_root(e) == e; }
    bool together(std::initializer_list<Entity> all, Entity root) {
        return std::all_of(all.begin(), all.end(),
                           [&](Entity e) { return server.why(e, 0).cluster == WhyCluster::together && server.cluster_root(e) == root; });
    }
    /// Moves hp between two entities: their sum stays.
    void transfer(Entity from, Entity to, int amount) {
        world.mut<Health>(from)->hp -= amount;
        world.mut<Health>(to)->hp += amount;
    }
    /// A peer over a link that loses, delays and reorders more than that of the run.
    Peer& join_badly() {
        const LinkConfig bad{.loss_percent = 30, .delay_us = 40'000, .jitter_us = 120'000, .reorder_percent = 20, .duplicate_percent = 10};
        Peer& peer = connect(bad, bad);
        REQUIRE(until([&] { return server.joined(peer.id) && peer.client->joined(); }));
        return peer;
    }
};

/// hp of all that a client shows of these, or -1 if it shows none of them; -2: some of them.
int sum_of(const RelatedNet& net, const RelatedNet::Peer& peer, const std::vector<Entity>& cluster) {
    int sum = 0;
    std::size_t shown = 0;
    for (const Entity e : cluster)
        if (const Health* health = net.value<Health>(peer, e)) {
            sum += health->hp;
            ++shown;
        }
    return shown == 0 ? -1 : shown == cluster.size() ? sum : -2;
}

} // namespace

TEST_CASE("related_entities/orphan") {
    RelatedNet net;
    net.join();
    const Entity e = net.make(Link{});
    net.step();
    CHECK(net.alone(e));
}

TEST_CASE("related_entities/single") {
    RelatedNet net;
    net.join();
    const Entity parent = net.make(), child = net.make(ChildOf{parent});
    net.step();
    CHECK(net.together({parent, child}, parent));
}

TEST_CASE("related_entities/disjoint") {
    RelatedNet net;
    net.join();
    const Entity a = net.make(), a1 = net.make(ChildOf{a}), b = net.make(), b1 = net.make(ChildOf{b});
    net.step();
    CHECK(net.together({a, a1}, a));
    CHECK(net.together({b, b1}, b));
}

TEST_CASE("related_entities/nested") {
    RelatedNet net;
    net.join();
    const Entity root = net.make(), middle = net.make(ChildOf{root}), leaf = net.make(ChildOf{middle});
    net.step();
    CHECK(net.together({root, middle, leaf}, root));
}

TEST_CASE("related_entities/split") {
    RelatedNet net;
    net.join();
    const Entity root = net.make(), first = net.make(ChildOf{root}), middle = net.make(ChildOf{root}), leaf = net.make(ChildOf{middle});
    net.step();
    REQUIRE(net.together({root, first, middle, leaf}, root));
    net.world.remove<ChildOf>(middle);
    net.step();
    CHECK(net.together({root, first}, root));
    CHECK(net.together({middle, leaf}, middle));
    net.agree();
}

TEST_CASE("related_entities/join") {
    RelatedNet net;
    net.join();
    const Entity a = net.make(), a1 = net.make(ChildOf{a}), b = net.make(), b1 = net.make(ChildOf{b});
    net.step();
    net.world.add<ChildOf>(b, ChildOf{a1});
    net.step();
    CHECK(net.together({a, a1, b, b1}, a));
    net.agree();
}

TEST_CASE("related_entities/reparent") {
    RelatedNet net;
    net.join();
    const Entity a = net.make(), b = net.make(), a1 = net.make(ChildOf{a}), b1 = net.make(ChildOf{b}), moving = net.make(ChildOf{a});
    net.step();
    REQUIRE(net.together({a, a1, moving}, a));
    REQUIRE(net.world.relate<ChildOf>(moving, b) == Error::none);
    net.step();
    CHECK(net.together({a, a1}, a));
    CHECK(net.together({b, b1, moving}, b));
    net.agree();
}

TEST_CASE("related_entities/orphan_after_split") {
    RelatedNet net;
    net.join();
    const Entity parent = net.make(), child = net.make(ChildOf{parent});
    net.step();
    net.world.remove<ChildOf>(child);
    net.step();
    CHECK(net.alone(parent));
    CHECK(net.alone(child));
    net.agree();
}

TEST_CASE("related_entities/despawn") {
    RelatedNet net;
    net.join();
    const Entity root = net.make(), middle = net.make(Link{root}), leaf = net.make(Link{middle}), other = net.make(Link{root});
    net.step();
    REQUIRE(net.together({root, middle, leaf, other}, root));
    net.world.destroy(middle);
    net.step();
    CHECK(net.together({root, other}, root));
    CHECK(net.alone(leaf)); // its link leads to the dead
    net.agree();
}

TEST_CASE("related_entities/intersection") {
    RelatedNet net;
    net.join();
    const Entity root = net.make(), child = net.make(ChildOf{root}), linked = net.make(Link{child});
    net.step();
    CHECK(net.together({root, child, linked}, root));
    net.world.remove<ChildOf>(child);
    net.step();
    CHECK(net.alone(root));
    CHECK(net.together({child, linked}, child));
}

TEST_CASE("related_entities/overlap") {
    RelatedNet net;
    net.join();
    const Entity root = net.make(), child = net.make(ChildOf{root}, Link{root});
    net.step();
    CHECK(net.together({root, child}, root));
}

TEST_CASE("related_entities/overlap_removal") {
    RelatedNet net;
    net.join();
    const Entity root = net.make(), child = net.make(ChildOf{root}, Link{root});
    net.step();
    net.world.remove<ChildOf>(child);
    net.step();
    CHECK(net.together({root, child}, root));
    net.world.mut<Link>(child)->target = {};
    net.step();
    CHECK(net.alone(root));
    CHECK(net.alone(child));
}

TEST_CASE("related_entities/connected") {
    RelatedNet net;
    net.join();
    const Entity a = net.make(), b = net.make(Link{a}), c = net.make(ChildOf{b}), d = net.make(Link{c});
    net.world.add<Link>(a, Link{d}); // a circle: nobody is without a relation
    net.step();
    CHECK(net.together({a, b, c, d}, net.server.cluster_root(a)));
    net.world.mut<Link>(d)->target = {};
    net.step();
    CHECK(net.together({a, b, c, d}, d));
}

TEST_CASE("related_entities/replication_start") {
    RelatedNet net;
    net.join();
    const Entity parent = net.world.spawn(Health{1, false});
    const Entity child = net.make(ChildOf{parent});
    net.step();
    CHECK(net.alone(child));
    net.world.add<Replicated>(parent);
    net.step();
    CHECK(net.together({parent, child}, parent));
    net.agree();
}

TEST_CASE("related_entities/replication_stop") {
    RelatedNet net;
    net.join();
    const Entity parent = net.make(), a = net.make(ChildOf{parent}), b = net.make(ChildOf{parent});
    net.step();
    REQUIRE(net.together({parent, a, b}, parent));
    net.world.remove<Replicated>(parent);
    net.step();
    CHECK(net.alone(a));
    CHECK(net.alone(b));
    net.world.add<Replicated>(parent);
    net.world.remove<Replicated>(a);
    net.step();
    CHECK(net.together({parent, b}, parent));
    net.agree();
}

TEST_CASE("related_entities/runs_only_with_server") {
    const auto protocol = related_protocol();
    World world;
    const Entity parent = world.spawn(Health{1, false}, Replicated{}), child = world.spawn(ChildOf{parent}, Replicated{});
    for (int i = 0; i < 2; ++i) { // what is there already is looked through by a server, and by the next one
        LoopbackNetwork network(LoopbackConfig{});
        Server server(world, *protocol, network.server());
        server.tick(1);
        CHECK(server.cluster_root(child) == parent);
    }
}

TEST_CASE("mutations/related") {
    RelatedNet net;
    auto& peer = net.join();
    const Entity parent = net.make(), child = net.make(ChildOf{parent});
    net.settle();
    net.transfer(parent, child, 10);
    while (net.hp(peer, parent) == 100) {
        CHECK(net.hp(peer, child) == 100);
        net.step();
    }
    CHECK(net.hp(peer, parent) == 90);
    CHECK(net.hp(peer, child) == 110);
    net.agree();
}

TEST_CASE("related_entities/what_was_lost_goes_with_what_is_new") {
    RelatedNet net;
    auto& peer = net.join();
    net.script_loss(peer, 0, 0);
    const Entity parent = net.make(), child = net.make(ChildOf{parent});
    net.settle();
    net.script_loss(peer, 100, 0);
    net.transfer(parent, child, 10);
    net.step();
    net.script_loss(peer, 0, 0);
    ++net.world.mut<Health>(parent)->hp; // it alone: the other one is in flight, for all the server knows
    CHECK(net.step().sent_lanes == 2);
    CHECK(net.hp(peer, parent) == 91);
    CHECK(net.hp(peer, child) == 110);
    net.settle();
    ++net.world.mut<Health>(parent)->hp;
    CHECK(net.step().sent_lanes == 1); // what is acknowledged is not repeated
    net.agree();
}

TEST_CASE("related_entities/never_half_a_transfer") {
    RelatedNet net;
    auto &usual = net.join(), &bad = net.join_badly(), &late = net.join_badly();
    std::mt19937 random(7);
    std::vector<std::vector<Entity>> clusters;
    for (int g = 0; g < 6; ++g) {
        std::vector<Entity>& cluster = clusters.emplace_back();
        for (int i = 0; i < 2 + g * 2; ++i)
            cluster.push_back(i == 0 ? net.make() : net.make(ChildOf{cluster[random() % cluster.size()]}));
    }
    int seen = 0, changes = 0;
    std::vector<int> last(clusters.size(), -1);
    for (int tick = 0; tick < 400; ++tick) {
        for (const auto& cluster : clusters)
            if (random() % 2)
                net.transfer(cluster[random() % cluster.size()], cluster[random() % cluster.size()], static_cast<int>(random() % 20));
        if (tick == 100)
            net.server.view(late.id).hide(clusters[1][1]);
        net.step();
        for (const auto* peer : {&usual, &bad, &late})
            for (std::size_t g = 0; g < clusters.size(); ++g) {
                if (peer == &late && g == 1)
                    continue; // of this it may see some only
                const int sum = sum_of(net, *peer, clusters[g]);
                CHECK_MESSAGE((sum == -1 || sum == static_cast<int>(clusters[g].size()) * 100), "cluster ", g, " tick ", tick, " sum ",
                              sum);
                seen += sum > 0;
                if (peer == &bad && sum > 0 && std::exchange(last[g], net.hp(bad, clusters[g][0])) != net.hp(bad, clusters[g][0]))
                    ++changes;
            }
    }
    CHECK(seen > 3 * 300 * 5);
    CHECK(changes > 100); // it gets there, though badly
    CHECK(sum_of(net, late, clusters[1]) == -2);
    net.agree();
}

TEST_CASE("related_entities/clusters_that_change_under_loss") {
    RelatedNet net;
    auto &usual = net.join(), &bad = net.join_badly();
    std::mt19937 random(11);
    // Pairs that find other partners: hp moves inside a pair, and the client's link says who is one.
    std::vector<Entity> all;
    for (int i = 0; i < 24; ++i)
        all.push_back(net.make());
    std::vector<Entity> partner(all.size());
    int pairs_seen = 0;
    for (int tick = 0; tick < 500; ++tick) {
        const std::size_t a = random() % all.size(), b = random() % all.size();
        const auto part = [&](std::size_t i) {
            for (std::size_t j = 0; j < all.size(); ++j)
                if (partner[i] == all[j] && partner[i]) {
                    partner[i] = partner[j] = {};
                    net.world.remove<Link>(all[i]);
                    net.world.remove<Link>(all[j]);
                    net.world.mut<Health>(all[i])->hp = net.world.mut<Health>(all[j])->hp = 100;
                }
        };
        if (a != b && random() % 3 == 0) {
            part(a);
            part(b);
            if (random() % 4) {
                net.world.add<Link>(all[a], Link{all[b]});
                partner[a] = all[b];
                partner[b] = all[a];
            }
        }
        for (std::size_t i = 0; i < all.size(); ++i)
            if (partner[i] && random() % 2)
                net.transfer(all[i], partner[i], static_cast<int>(random() % 9));
        net.step();
        for (const auto* peer : {&usual, &bad})
            for (const Entity e : all)
                if (const Link* link = net.value<Link>(*peer, e); link && link->target) {
                    const Health *mine = net.value<Health>(*peer, e), *theirs = peer->world->get<Health>(link->target);
                    REQUIRE(mine);
                    REQUIRE(theirs);
                    ++pairs_seen;
                    CHECK_MESSAGE(mine->hp + theirs->hp == 200, "tick ", tick, ": ", mine->hp, " and ", theirs->hp);
                }
    }
    CHECK(pairs_seen > 1000);
    net.agree();
}

TEST_CASE("related_entities/larger_than_a_packet") {
    RelatedNet net;
    auto &usual = net.join(), &bad = net.join_badly();
    const auto text = [](int tick, int i) { // random enough not to compress
        std::mt19937 random(static_cast<unsigned>(tick * 31 + i));
        std::string out(900, ' ');
        for (char& c : out)
            c = static_cast<char>(33 + random() % 90);
        return out;
    };
    std::vector<Entity> cluster;
    for (int i = 0; i < 4; ++i)
        cluster.push_back(i == 0 ? net.make(Name{text(0, i)}) : net.make(Name{text(0, i)}, ChildOf{cluster[0]}));
    u32 limits = 0;
    for (int tick = 1; tick < 100; ++tick) {
        if (tick % 8 == 0)
            for (int i = 0; i < 4; ++i)
                net.world.mut<Name>(cluster[static_cast<std::size_t>(i)])->text = text(tick, i);
        if (tick % 8 == 0)
            net.transfer(cluster[0], cluster[3], 1);
        limits |= net.step().limits;
        for (const auto* peer : {&usual, &bad})
            CHECK((sum_of(net, *peer, cluster) == 400 || sum_of(net, *peer, cluster) == -1));
    }
    CHECK((limits & limit_clusters) == 0);
    net.agree();
    CHECK(net.hp(bad, cluster[3]) == 112);
}

TEST_CASE("related_entities/seen_where_the_root_is") {
    RelatedNet net;
    auto& peer = net.join();
    net.perfect_link(peer, Reason::counts_ticks);
    net.server.view(peer.id).look_at(0, 0, {.radius = 60});
    // The root walks through the view; one child is beside it, one far behind, one nowhere.
    const Entity root = net.make(Place{-200, 0});
    const std::vector<Entity> cluster = {root, net.make(ChildOf{root}, Place{-200, 3}), net.make(ChildOf{root}, Place{-290, 0}),
                                         net.make(ChildOf{root})};
    int steps_seen = 0;
    for (int x = -200; x <= 200; x += 2) {
        for (const Entity e : cluster)
            if (Place* place = net.world.mut<Place>(e))
                place->x += 2;
        net.world.mut<Health>(root)->hp = x + 1000;
        net.world.mut<Health>(cluster[3])->hp = -x - 1000;
        net.step();
        std::size_t shown = 0;
        for (const Entity e : cluster)
            shown += net.value<Health>(peer, e) != nullptr;
        CHECK((shown == 0 || shown == cluster.size()));
        CHECK((sum_of(net, peer, cluster) == -1 || sum_of(net, peer, cluster) == 200));
        CHECK(net.together({cluster[0], cluster[1], cluster[2], cluster[3]}, root));
        const double away = std::abs(static_cast<double>(net.world.get<Place>(root)->x));
        CHECK((away > 0.85 * 60 || shown != 0));
        CHECK((away < 1.2 * 60 || shown == 0));
        steps_seen += shown != 0;
        if (shown)
            CHECK(std::abs(net.value<Place>(peer, cluster[2])->x - net.world.get<Place>(cluster[2])->x) < 0.011f);
    }
    CHECK(steps_seen > 40);
    net.agree();
}

TEST_CASE("related_entities/who_leaves_is_seen_by_its_own_place_again") {
    RelatedNet net;
    auto& peer = net.join();
    net.server.view(peer.id).look_at(0, 0, {.radius = 60});
    const Entity root = net.make(Place{0, 0}), child = net.make(ChildOf{root}, Place{-250, 0}), near = net.make(ChildOf{root}, Place{3, 0});
    net.settle();
    CHECK(net.hp(peer, child) == 100);
    net.world.remove<ChildOf>(child);
    net.world.remove<ChildOf>(near);
    net.settle();
    CHECK(net.hp(peer, child) == -1);
    CHECK(net.hp(peer, near) == 100);
    CHECK(net.alone(near));
    net.world.add<ChildOf>(near, ChildOf{child}); // where the root is, nobody looks
    net.settle();
    CHECK(net.hp(peer, near) == -1);
    net.agree();
}

TEST_CASE("related_entities/hidden_member") {
    RelatedNet net;
    auto& peer = net.join();
    const Entity root = net.make(), child = net.make(ChildOf{root}), other = net.make(ChildOf{root});
    net.server.view(peer.id).hide(child);
    net.settle();
    CHECK(net.hp(peer, child) == -1);
    CHECK(net.hp(peer, other) == 100);
    net.server.view(peer.id).show(child);
    net.transfer(root, child, 5);
    while (net.hp(peer, child) == -1) {
        CHECK(net.hp(peer, root) == 100);
        net.step();
    }
    CHECK(net.hp(peer, root) == 95);
    net.server.view(peer.id).hide(child);
    net.transfer(root, other, 5);
    while (net.hp(peer, child) != -1) {
        CHECK(net.hp(peer, other) == 100);
        net.step();
    }
    CHECK(net.hp(peer, other) == 105);
    net.agree();
}

TEST_CASE("related_entities/end_of_a_member_comes_with_the_others") {
    RelatedNet net;
    auto& peer = net.join_badly();
    for (int round = 0; round < 10; ++round) {
        const Entity root = net.make(), child = net.make(Link{root});
        net.settle();
        net.world.mut<Health>(root)->hp = 200; // it takes all
        const Entity there = net.shown(peer, child);
        net.world.destroy(child);
        net.make(); // its lane may be this one's
        for (int i = 0; i < 60; ++i) {
            net.step();
            CHECK(net.hp(peer, root) == (peer.world->alive(there) ? 100 : 200));
            if (i % 3 == 0)
                net.world.mut<Health>(root)->angry ^= true;
        }
    }
    net.agree();
}

TEST_CASE("related_entities/first_that_is_due_takes_all_along") {
    RelatedNet net;
    auto& peer = net.join();
    net.perfect_link(peer, Reason::counts_ticks);
    const Entity root = net.make(UpdatePriority{0.25f}), child = net.make(ChildOf{root}, UpdatePriority{0.03f});
    net.settle();
    int sent = 0;
    for (int i = 0; i < 32; ++i) {
        net.transfer(root, child, 1);
        const u64 lanes = net.step().sent_lanes;
        CHECK((lanes == 0 || lanes == 2));
        sent += lanes != 0;
        CHECK(net.hp(peer, root) + net.hp(peer, child) == 200);
    }
    CHECK(sent == 8);
    REQUIRE(net.server.view(peer.id).set_priority(child, 1));
    for (int i = 0; i < 8; ++i) {
        net.transfer(root, child, 1);
        CHECK(net.step().sent_lanes == 2);
        CHECK(net.hp(peer, root) + net.hp(peer, child) == 200);
    }
    net.agree();
}

TEST_CASE("related_entities/too_many_go_apart") {
    RelatedNet net;
    auto& peer = net.join();
    const Entity root = net.make();
    std::vector<Entity> children;
    for (u32 i = 1; i < Server::cluster_entities_max; ++i)
        children.push_back(net.make(ChildOf{root}));
    CHECK((net.step().limits & limit_clusters) == 0);
    CHECK(net.together({root, children[0], children.back()}, root));
    for (int i = 0; i < 3; ++i)
        children.push_back(net.make(ChildOf{root}));
    CHECK((net.step().limits & limit_clusters) != 0);
    for (const Entity e : children) {
        CHECK(net.server.why(e, peer.id).cluster == WhyCluster::too_large);
        CHECK(net.server.cluster_root(e) == e);
    }
    for (const Entity e : children)
        net.world.mut<Health>(e)->hp = 7;
    net.agree();
    CHECK(net.hp(peer, children.back()) == 7);
    for (int i = 0; i < 3; ++i) {
        net.world.destroy(children.back());
        children.pop_back();
    }
    CHECK((net.step().limits & limit_clusters) == 0);
    CHECK(net.together({root, children[0], children.back()}, root));
    net.agree();
}

TEST_CASE("related_entities/too_far_goes_apart") {
    RelatedNet net;
    auto& peer = net.join();
    net.server.view(peer.id).look_at(0, 0, {.radius = 100});
    const Entity root = net.make(Place{0, 0}), child = net.make(ChildOf{root}, Place{10, 0}),
                 other = net.make(ChildOf{root}, Place{-10, 0});
    net.settle();
    net.world.mut<Place>(child)->x = 600; // a cell-relative centimetre has 16 bits
    CHECK((net.step().limits & limit_clusters) != 0);
    CHECK(net.server.why(child, peer.id).cluster == WhyCluster::apart);
    CHECK(net.together({root, other}, root));
    net.agree();
    CHECK(net.hp(peer, child) == -1);
    net.server.view(peer.id).look_at(600, 0, {.radius = 100});
    net.settle();
    REQUIRE(net.value<Place>(peer, child));
    CHECK(std::abs(net.value<Place>(peer, child)->x - 600) < 0.011f); // and not clamped
    CHECK(net.hp(peer, root) == -1);
    net.world.mut<Place>(child)->x = 20;
    CHECK((net.step().limits & limit_clusters) == 0);
    CHECK(net.together({root, child, other}, root));
    net.agree();
}

TEST_CASE("related_entities/without_room") {
    RelatedNet net({.chunks_max = 2, .heartbeat_ticks = 0});
    auto& peer = net.join();
    net.server.view(peer.id).look_at(0, 0, {.radius = 60});
    std::vector<Entity> singles;
    for (u32 i = 0; i < 63; ++i) // two chunks, each with room for one
        singles.push_back(net.make());
    for (u32 i = 0; i < 63; ++i)
        singles.push_back(net.make(Place{1, 1}));
    net.settle();
    const Entity root = net.make(Place{1, 1}), child = net.make(ChildOf{root});
    CHECK((net.step().limits & (limit_clusters | limit_chunks)) == (limit_clusters | limit_chunks));
    CHECK(net.server.why(child, peer.id).cluster == WhyCluster::apart);
    net.settle();
    CHECK(net.hp(peer, root) == 100); // apart, but there
    CHECK(net.hp(peer, child) == 100);
    net.world.destroy(singles.back());
    CHECK((net.step().limits & (limit_clusters | limit_chunks)) == 0);
    CHECK(net.together({root, child}, root));
    net.agree();
}

TEST_CASE("related_entities/no_empty_messages") {
    RelatedNet net;
    net.join();
    net.join();
    const Entity parent = net.make(), child = net.make(ChildOf{parent}), lonely = net.make();
    net.make(Link{child});
    net.settle();
    u64 messages = 0;
    for (int i = 0; i < 50; ++i) {
        const TickReport& report = net.step();
        messages += report.messages + report.heartbeats;
    }
    CHECK(messages == 0);
    ++net.world.mut<Health>(lonely)->hp; // of another entity of the chunk
    CHECK(net.step().sent_lanes == 2);
}

TEST_CASE("related_entities/components_with_rules") {
    auto chosen = std::make_unique<Protocol>();
    const Range map{-1000, 1000, 0.01};
    chosen->component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
    chosen->component<Health>("health").field(&Health::hp).field(&Health::angry).once();
    chosen->component<Link>("link").field(&Link::target).when(with<Speed>);
    chosen->component<Link>("other link").field(&Link::target).related(&Link::target).when(without<Speed>);
    REQUIRE(chosen->finish() == Error::none);
    RelatedNet net({.heartbeat_ticks = 0}, std::move(chosen));
    auto& peer = net.join();
    const Entity root = net.make(Place{0, 0}), child = net.make(Place{1, 0}, Link{root}), fast = net.make(Link{root}, Speed{1, 0});
    net.server.view(peer.id).follow(root, {.radius = 60});
    net.settle();
    CHECK(net.together({root, child, fast}, root)); // a type binds, under whatever name it travels
    // Values that were sent once stay what they were, from cell to cell, and where another entity comes along.
    for (const Entity e : {root, child, fast})
        net.world.mut<Health>(e)->hp = 7;
    const Entity late = net.make(Place{170, 0}, Link{});
    for (int i = 0; i < 60; ++i) {
        net.world.mut<Place>(root)->x += 3;
        net.world.mut<Place>(child)->x += 3;
        if (i == 40)
            net.world.mut<Link>(late)->target = child;
        net.step();
    }
    CHECK(net.together({root, child, fast, late}, root));
    net.settle();
    for (const Entity e : {root, child, fast, late})
        CHECK(net.hp(peer, e) == 100);
    net.world.mut<Link>(child)->target = {};
    net.settle();
    CHECK(net.together({root, fast}, root));
    CHECK(net.together({child, late}, child));
    CHECK(net.hp(peer, late) == 100);
}

TEST_CASE("related_entities/sent_once_without_room") {
    auto chosen = std::make_unique<Protocol>();
    const Range map{-1000, 1000, 0.01};
    chosen->component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
    chosen->component<Health>("health").field(&Health::hp).field(&Health::angry).once();
    chosen->component<Link>("link").field(&Link::target).related(&Link::target);
    REQUIRE(chosen->finish() == Error::none);
    RelatedNet net({.chunks_max = 1, .heartbeat_ticks = 0}, std::move(chosen));
    auto& peer = net.join();
    net.server.view(peer.id).look_at(0, 0, {.radius = 60});
    const Entity root = net.make(Place{0, 0}), other = net.make(Place{1, 0});
    net.settle();
    CHECK(net.hp(peer, other) == 100);
    // Without a place there is no room for it, until the link brings it to the root's chunk, all in one tick.
    net.world.mut<Health>(other)->hp = 7;
    net.world.remove<Place>(other);
    net.world.add<Link>(other, Link{root});
    CHECK((net.step().limits & limit_chunks) != 0);
    CHECK(net.together({root, other}, root));
    net.settle();
    CHECK(net.hp(peer, other) == 7);
    CHECK((net.step().limits & limit_chunks) == 0);
    net.world.mut<Health>(other)->hp = 8;
    net.settle();
    CHECK(net.hp(peer, other) == 7);
}

TEST_CASE("related_entities/registration") {
    {
        Protocol protocol;
        protocol.component<Link>("link").related(&Link::target).field(&Link::target);
        CHECK(protocol.finish() == Error::bad_value);
        CHECK(std::string(protocol.problem()).find("related()") != std::string::npos);
    }
    Protocol with, without;
    with.component<Link>("link").field(&Link::target).related(&Link::target);
    without.component<Link>("link").field(&Link::target);
    REQUIRE(with.finish() == Error::none);
    REQUIRE(without.finish() == Error::none);
    CHECK(with.hash() == without.hash()); // a reader does not need it
}
