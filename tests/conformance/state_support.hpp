#pragma once
// What the conformance tests of replicated state share: a world of entities that everybody may see, and clients under the workers and loss
// of this run.
#include "tests/conformance/support.hpp"
#include "tests/support/replication_world.hpp"

namespace conformance::state {
using throng::Entity;
using throng_test::Health;
using throng_test::Link;
using throng_test::Name;
using throng_test::Speed;

struct Local { // not registered
    int value = 0;
};

inline std::unique_ptr<throng::Protocol> make_state_protocol() {
    auto protocol = std::make_unique<throng::Protocol>();
    protocol->component<Health>("health").field(&Health::hp).field(&Health::angry);
    protocol->component<Speed>("speed").field(&Speed::x, throng::Range{-20, 20, 0.01}).field(&Speed::z, throng::Range{-20, 20, 0.01});
    protocol->component<Link>("link").field(&Link::target);
    protocol->component<throng::ChildOf>("child of").field(&throng::ChildOf::target);
    protocol->opaque<Name>("name", 2000, throng_test::write_name, throng_test::read_name);
    if (protocol->finish() != throng::Error::none)
        throw std::runtime_error(protocol->problem());
    return protocol;
}

struct Workers {
    throng::ExecutorHandle executor = setting().workers > 1 ? throng::make_threads_executor(setting().workers)
                                                            : throng::make_serial_executor();
};

struct StateNet : private Workers, throng_test::ReplicationWorld {
    using Peer = ReplicationWorld::Peer;
    StateNet() : ReplicationWorld({.executor = executor.get(), .heartbeat_ticks = 0}, {}, make_state_protocol()) {}

    /// A connection that has not said hello yet.
    Peer& meet() {
        throng::LinkConfig link;
        if (setting().loss_percent > 0)
            link = {.loss_percent = setting().loss_percent, .delay_us = 20'000, .jitter_us = 10'000};
        return connect(link, link);
    }
    Peer& join() {
        Peer& peer = meet();
        REQUIRE(until([&] { return server.joined(peer.id) && peer.client->joined(); }));
        return peer;
    }
    /// Steps until the condition holds, or 300 times. Returns whether it holds.
    template <class Condition>
    bool until(Condition&& condition) {
        for (int i = 0; i < 300 && !condition(); ++i)
            step();
        return condition();
    }
    /// Steps until every client has acknowledged all that it may see.
    void settle() {
        steps(3);
        REQUIRE(until([&] {
            return std::all_of(peers.begin(), peers.end(), [&](const auto& peer) { return peer->left || server.settled(peer->id); });
        }));
        CHECK(client_errors == 0);
    }
    void server_step() {
        now_us += 50'000;
        server.receive(now_us);
        server.tick(now_us);
    }
    /// The peer's link loses what the test says, and nothing else.
    void script_loss(const Peer& peer, double down_percent, double up_percent) {
        network.set_link(peer.id, throng::Direction::down, {.loss_percent = down_percent});
        network.set_link(peer.id, throng::Direction::up, {.loss_percent = up_percent});
    }
    /// Bytes of state that all clients are sent in so many ticks.
    throng::u64 state_bytes(int count) {
        throng::u64 bytes = 0;
        for (int i = 0; i < count; ++i)
            bytes += step().bytes;
        return bytes;
    }

    Entity shown(const Peer& peer, Entity entity) const { return peer.client->entity(server.net_id(entity)); }
    /// What the client has of a component of a server's entity, or null.
    template <class T>
    const T* value(const Peer& peer, Entity entity) const {
        const Entity there = shown(peer, entity);
        return peer.world->alive(there) ? peer.world->template get<T>(there) : nullptr;
    }
    int hp(const Peer& peer, Entity entity) const {
        const Health* health = value<Health>(peer, entity);
        return health ? health->hp : -1;
    }
};

/// An entity that the client may not see in each of the ways to say so: for this client, by layers.
struct Hidden {
    explicit Hidden(StateNet& net, const StateNet::Peer& peer)
        : all{net.world.spawn(Health{1, false}, Speed{1, 0}, throng::Replicated{}),
              net.world.spawn(Health{1, false}, Speed{1, 0}, throng::VisibleTo{.any_of = 2}, throng::Replicated{})} {
        net.server.view(peer.id).hide(all[0]);
    }
    Entity all[2];
};

} // namespace conformance::state
