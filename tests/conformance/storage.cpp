// State that functions of components need beside the component: there is none that the library keeps for them. What all entities share is
// a resource, what one entity has is in its component, and a client's functions have its world.
#include "tests/conformance/rules_support.hpp"
#include <atomic>
#include <cstring>

using namespace throng;
using namespace conformance::state;

namespace {
struct Scale { // a resource
    int factor = 1;
};
struct Scaled { // at the client, not registered
    int value = 0;
};

/// Counts from `base`, which each side has of its own.
struct Meter {
    int total = 0, base = 0;
    std::shared_ptr<int> reads; // into this one; null before the first
};
std::atomic<int> meters_written = 0; // from any worker

u32 write_meter(const void* component, std::span<std::byte> out) {
    ++meters_written;
    const Meter& meter = *static_cast<const Meter*>(component);
    const int since = meter.total - meter.base;
    if (out.size() >= sizeof since)
        std::memcpy(out.data(), &since, sizeof since);
    return sizeof since;
}
Error read_meter(void* component, std::span<const std::byte> in) {
    Meter& meter = *static_cast<Meter*>(component);
    int since = 0;
    if (in.size() != sizeof since)
        return Error::bad_value;
    std::memcpy(&since, in.data(), sizeof since);
    meter.total = meter.base + since;
    if (!meter.reads)
        meter.reads = std::make_shared<int>(0);
    ++*meter.reads;
    return Error::none;
}
Error meter_is_readable(std::span<const std::byte> in) {
    return in.size() == sizeof(int) ? Error::none : Error::bad_value;
}

StateNet meters() {
    return make_net([](Protocol& p) {
        p.opaque<Meter>("meter", 4, OpaqueFunctions{write_meter, read_meter, read_meter, meter_is_readable});
        health(p);
    });
}
} // namespace

TEST_CASE("storage/global") {
    StateNet net = make_net([](Protocol& p) {
        p.resource<Scale>("scale").field(&Scale::factor);
        health(p);
    });
    int last_value = 0; // the client's, of all entities
    ReceiveRules rules(*net.protocol);
    REQUIRE(rules.functions<Health>(
                [](const Received& received, const Health& health) {
                    const Scale* const scale = received.world.resources().get<Scale>();
                    const int value = scale ? health.hp * scale->factor : -1;
                    received.world.remove<Scaled>(received.entity);
                    received.world.add<Scaled>(received.entity, Scaled{value});
                    *static_cast<int*>(received.context) = value;
                },
                nullptr, &last_value) == Error::none);
    ClientConfig config;
    config.rules = &rules;
    HeldBack held(net, config);
    net.world.resources().emplace<Scale>(Scale{2});
    net.settle();
    const Entity first = net.world.spawn(Health{10, false}, Replicated{});
    net.settle();
    CHECK(last_value == 20);
    const Entity second = net.world.spawn(Health{7, false}, Replicated{});
    net.settle();
    CHECK(last_value == 14);
    net.world.resources().mut<Scale>()->factor = 3;
    net.settle();
    net.world.mut<Health>(second)->hp = 8;
    net.settle();
    CHECK(last_value == 24);
    REQUIRE(net.value<Scaled>(held.peer, first));
    REQUIRE(net.value<Scaled>(held.peer, second));
    CHECK(net.value<Scaled>(held.peer, first)->value == 20); // scaled when it came
    CHECK(net.value<Scaled>(held.peer, second)->value == 24);
    CHECK_FALSE(net.value<Health>(held.peer, second));
}

TEST_CASE("storage/entity") {
    StateNet net = meters();
    std::vector<StateNet::Peer*> peers;
    for (int i = 0; i < 4; ++i) {
        peers.push_back(&net.join());
        net.perfect_link(*peers.back(), Reason::counts_packets);
    }
    const Entity first = net.world.spawn(Meter{1005, 1000, nullptr}, Replicated{});
    const Entity second = net.world.spawn(Meter{52, 50, nullptr}, Replicated{});
    net.settle();
    const auto total = [&](const StateNet::Peer& peer, Entity e) {
        const Meter* const meter = net.value<Meter>(peer, e);
        return meter ? meter->total : -1;
    };
    int base = 0; // each client has another
    for (StateNet::Peer* peer : peers) {
        CHECK(total(*peer, first) == 5);
        CHECK(total(*peer, second) == 2);
        peer->world->mut<Meter>(net.shown(*peer, first))->base = base += 100;
    }
    const int before = meters_written;
    net.world.mut<Meter>(first)->total = 1009;
    net.world.mut<Meter>(second)->total = 53;
    net.step();
    CHECK(meters_written - before == 2); // each value, and not for each client
    CHECK(net.server.component_report<Meter>().last.sections == 1);
    net.settle();
    CHECK(meters_written - before == 2);
    base = 0;
    for (StateNet::Peer* peer : peers) {
        CHECK(net.server.client_report(peer->id).total.bytes == net.server.client_report(peers[0]->id).total.bytes);
        CHECK(total(*peer, first) == (base += 100) + 9);
        CHECK(total(*peer, second) == 3);
    }
}

TEST_CASE("storage/entity_cleanup") {
    StateNet net = meters();
    auto& peer = net.join();
    const auto spawn = [&] {
        const Entity e = net.world.spawn(Meter{1, 0, std::make_shared<int>(0)}, Replicated{});
        net.settle();
        return e;
    };
    const auto here = [&](Entity e) { return std::weak_ptr(net.world.get<Meter>(e)->reads); };
    const auto there = [&](Entity e) {
        const Meter* const meter = net.value<Meter>(peer, e);
        REQUIRE(meter);
        return std::weak_ptr(meter->reads);
    };
    const Entity stays = spawn();
    const auto kept_here = here(stays), kept_there = there(stays);

    Entity e = spawn(); // the server's entity ends
    auto at_server = here(e), at_client = there(e);
    net.world.destroy(e);
    CHECK(at_server.expired());
    CHECK_FALSE(at_client.expired());
    net.settle();
    CHECK(at_client.expired());

    e = spawn(); // the client's entity ends
    at_server = here(e), at_client = there(e);
    peer.world->destroy(net.shown(peer, e));
    CHECK(at_client.expired());
    net.settle();
    CHECK_FALSE(at_server.expired());

    e = spawn(); // it goes out of sight, and what it had does not come back with it
    at_server = here(e), at_client = there(e);
    net.world.mut<Meter>(e)->total = 2;
    net.settle();
    CHECK(*at_client.lock() == 2);
    net.server.view(peer.id).hide(e);
    net.settle();
    CHECK(at_client.expired());
    CHECK_FALSE(at_server.expired());
    net.server.view(peer.id).show(e);
    net.settle();
    CHECK(*there(e).lock() == 1);

    at_client = there(e); // it loses the component
    net.world.remove<Meter>(e);
    CHECK(at_server.expired());
    net.settle();
    CHECK(at_client.expired());
    CHECK(peer.world->alive(net.shown(peer, e)));

    CHECK_FALSE(kept_here.expired());
    CHECK_FALSE(kept_there.expired());
    CHECK(*there(stays).lock() == 1);
}
