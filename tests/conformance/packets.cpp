// What changes in one tick, in packets: what is small goes together, what does not fit is cut between entities, never inside one or inside
// a cluster, and each packet stands alone.
#include "tests/conformance/state_support.hpp"

using namespace throng;
using namespace conformance::state;

namespace {

std::unique_ptr<Protocol> packet_protocol() {
    auto protocol = std::make_unique<Protocol>();
    const Range map{-1000, 1000, 0.01};
    protocol->component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
    protocol->component<Health>("health").field(&Health::hp).field(&Health::angry);
    protocol->component<Link>("link").field(&Link::target).related(&Link::target);
    protocol->opaque<Name>("name", 2000, throng_test::write_name, throng_test::read_name);
    REQUIRE(protocol->finish() == Error::none);
    return protocol;
}

constexpr u32 packet_bytes = 1200;
using Sizes = std::vector<u32>;

struct Sent {
    u32 packets = 0, ordered = 0; // of the latter those of the ordered channel
    std::size_t largest = 0;      // of the others
    bool operator==(const Sent&) const = default;
};

/// One client, over a link that loses what the test says, and what it was sent of a tick.
struct PacketNet : private Sent, StateNet {
    PacketNet()
        : StateNet({.heartbeat_ticks = 0, .compression = Compression::never}, {.trace = {look, static_cast<Sent*>(this)}},
                   packet_protocol()),
          peer(join()) {
        perfect_link(peer, Reason::counts_packets);
        server.view(peer.id).look_at(0, 0, {.radius = 500});
        settle();
    }
    Entity make(u32 bytes, int hp = 1) { return world.spawn(Health{hp, false}, Name{words(bytes, hp)}, Replicated{}); }
    /// Gives an entity a value that says of itself whether it is whole.
    void change(Entity e, u32 bytes, int hp) {
        world.mut<Health>(e)->hp = hp;
        world.mut<Name>(e)->text = words(bytes, hp);
    }
    /// hp of an entity that is shown whole; -1: not shown. Fails if it is shown in parts.
    int whole(Entity e, u32 bytes) {
        if (!shown(peer, e))
            return -1;
        REQUIRE(value<Name>(peer, e));
        CHECK(value<Name>(peer, e)->text == words(bytes, hp(peer, e)));
        return hp(peer, e);
    }
    Sent tick() {
        static_cast<Sent&>(*this) = {};
        step();
        return *this;
    }
    /// A tick of which the client gets one packet alone.
    void tick_of(u32 count, u32 survivor) {
        std::vector<ScriptStep> script;
        for (u32 i = 0; i < count; ++i)
            if (i != survivor)
                script.push_back({.packet = i, .action = ScriptAction::drop});
        script_packets(peer, Direction::down, script);
        step();
    }

    Peer& peer;

private:
    static void look(void* context, const TraceRecord& record) {
        if (record.direction != Direction::down || record.fate != Fate::sent)
            return;
        Sent& sent = *static_cast<Sent*>(context);
        ++sent.packets;
        if (record.channel == Channel::unreliable)
            sent.largest = std::max(sent.largest, record.message.size());
        else
            ++sent.ordered;
    }
};

/// What goes to a client when related and single entities change by so many bytes each.
Sent sent_of(const std::vector<Sizes>& related, const Sizes& single) {
    PacketNet net;
    std::vector<std::pair<Entity, u32>> all;
    for (const Sizes& cluster : related) {
        const Entity root = net.make(1);
        all.emplace_back(root, cluster[0]);
        for (std::size_t i = 1; i < cluster.size(); ++i) {
            all.emplace_back(net.make(1), cluster[i]);
            net.world.add<Link>(all.back().first, Link{root});
        }
    }
    for (const u32 bytes : single)
        all.emplace_back(net.make(1), bytes);
    net.settle();
    for (const auto& [entity, bytes] : all)
        net.change(entity, bytes, 2);
    const Sent sent = net.tick();
    CHECK(sent.largest <= packet_bytes);
    for (const auto& [entity, bytes] : all)
        CHECK(net.whole(entity, bytes) == 2);
    net.agree();
    return sent;
}

} // namespace

TEST_CASE("packets/splitting") {
    const auto check = [](const std::vector<Sizes>& related, const Sizes& single, u32 packets, u32 ordered) {
        const Sent sent = sent_of(related, single);
        CAPTURE(related.size());
        CAPTURE(single.size());
        CHECK(sent.packets == packets);
        CHECK(sent.ordered == ordered);
    };
    check({}, {}, 0, 0);
    check({}, {1300}, 1, 1); // larger than a packet: by the ordered channel, alone
    check({}, {20, 20}, 1, 0);
    check({}, {700, 700}, 2, 0);
    check({}, {1300, 700}, 2, 1);
    check({}, {1300, 1300}, 2, 2);
    check({{700, 700}}, {}, 1, 1);
    check({{1300, 1300}}, {}, 1, 1);
    check({{20}, {20}}, {}, 1, 0);
    check({{700}, {700}}, {}, 2, 0);
    check({{1300}}, {1300}, 2, 2);
    check({{700, 700}}, {700, 700}, 3, 1);
    check({{1300, 1300}}, {1300, 1300}, 3, 3);
    check({{700}, {700}}, {700}, 3, 0);
}

TEST_CASE("packets/packing") {
    // Of two chunks, and so of two payloads: together as long as they fit.
    PacketNet net;
    const Entity a = net.make(1), b = net.make(1);
    net.world.add<Place>(a, Place{0, 0});
    net.world.add<Place>(b, Place{200, 200});
    net.settle();
    int hp = 1;
    const auto sent = [&](u32 bytes_a, u32 bytes_b) {
        net.change(a, bytes_a, ++hp);
        net.change(b, bytes_b, hp);
        const Sent out = net.tick();
        CHECK(net.whole(a, bytes_a) == hp);
        CHECK(net.whole(b, bytes_b) == hp);
        net.settle();
        return out;
    };
    CHECK(sent(10, 5).packets == 1);
    CHECK(sent(10, 1100).packets == 1);
    CHECK(sent(1100, 10).packets == 1);
    CHECK(sent(10, 1180).packets == 2);
    CHECK(sent(1180, 10).packets == 2);
    for (const u32 first : {200u, 600u, 900u}) {
        u32 second = 1100 - first;
        std::size_t largest = 0;
        for (Sent last = sent(first, second); last.packets == 1; last = sent(first, ++second))
            largest = last.largest;
        CHECK(largest <= packet_bytes);
        CHECK(largest > packet_bytes - 20); // what the longest head of a section would take
        CHECK(sent(first, second + 1).packets == 2);
        CHECK(sent(first + 1, second).packets == 2);
    }
    net.agree();
}

TEST_CASE("packets/each_stands_alone") {
    constexpr u32 count = 12, bytes = 500;
    for (const bool spawned : {false, true}) {
        CAPTURE(spawned);
        PacketNet net;
        std::vector<Entity> all;
        int hp = 1;
        const auto make = [&] {
            for (u32 i = 0; i < count; ++i)
                all.push_back(net.make(bytes, hp));
        };
        const auto change = [&] {
            ++hp;
            if (spawned) {
                for (const Entity e : std::exchange(all, {}))
                    net.world.destroy(e);
                net.agree();
                make();
            }
            for (const Entity e : all)
                net.change(e, bytes, hp);
        };
        make();
        net.settle();
        change();
        const Sent sent = net.tick();
        REQUIRE(sent.packets >= count / 2); // two fit one
        REQUIRE(sent.ordered == 0);
        net.agree();
        for (u32 survivor = 0; survivor < sent.packets; ++survivor) {
            CAPTURE(survivor);
            change();
            net.tick_of(sent.packets, survivor);
            u32 fresh = 0;
            for (const Entity e : all) {
                const int there = net.whole(e, bytes);
                CHECK((there == hp || there == (spawned ? -1 : hp - 1)));
                fresh += there == hp;
            }
            CHECK(fresh >= 1);
            CHECK(fresh <= 2);
            net.agree();
        }
    }
}

TEST_CASE("packets/clusters_are_not_cut") {
    constexpr u32 bytes = 150, members = 6, others = 8, bytes_of_others = 500;
    for (const bool spawned : {false, true}) {
        CAPTURE(spawned);
        PacketNet net;
        std::vector<Entity> cluster, rest;
        int hp = 1;
        const auto make = [&] {
            for (u32 i = 0; i < others; ++i) { // their lanes are mixed
                rest.push_back(net.make(bytes_of_others, hp));
                if (i >= members)
                    continue;
                cluster.push_back(net.make(bytes, hp));
                net.world.add<Link>(cluster.back(), Link{cluster[0]});
            }
        };
        const auto change = [&] {
            ++hp;
            if (spawned) {
                for (std::vector<Entity>* list : {&cluster, &rest})
                    for (const Entity e : std::exchange(*list, {}))
                        net.world.destroy(e);
                net.agree();
                make();
            }
            for (const Entity e : cluster)
                net.change(e, bytes, hp);
            for (const Entity e : rest)
                net.change(e, bytes_of_others, hp);
        };
        make();
        net.settle();
        change();
        const Sent sent = net.tick();
        REQUIRE(sent.packets >= 5);
        REQUIRE(sent.ordered == 0);
        net.agree();
        u32 arrived = 0;
        for (u32 survivor = 0; survivor < sent.packets; ++survivor) {
            CAPTURE(survivor);
            change();
            net.tick_of(sent.packets, survivor);
            const int of_all = net.whole(cluster[0], bytes);
            for (const Entity e : cluster)
                CHECK(net.whole(e, bytes) == of_all);
            CHECK((of_all == hp || of_all == (spawned ? -1 : hp - 1)));
            arrived += of_all == hp;
            net.agree();
        }
        CHECK(arrived == 1); // it is in one of them
    }
}
