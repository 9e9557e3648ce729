#pragma once
// What the conformance tests of replicated state share: a world of entities that everybody may see, and clients under the workers and loss
// of this run.
#include "bench/verify.hpp"
#include "tests/conformance/support.hpp"
#include "tests/support/replication_world.hpp"

namespace conformance::state {
using throng::Entity;
using throng_test::Health;
using throng_test::Link;
using throng_test::Name;
using throng_test::Place;
using throng_test::Speed;

struct Local { // not registered
    int value = 0;
};

inline std::unique_ptr<throng::Protocol> make_state_protocol() {
    auto protocol = std::make_unique<throng::Protocol>();
    const throng::Range map{-1000, 1000, 0.01};
    protocol->component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
    protocol->component<Health>("health").field(&Health::hp).field(&Health::angry);
    protocol->component<Speed>("speed").field(&Speed::x, throng::Range{-20, 20, 0.01}).field(&Speed::z, throng::Range{-20, 20, 0.01});
    protocol->component<Link>("link").field(&Link::target);
    protocol->component<throng::ChildOf>("child of").field(&throng::ChildOf::target);
    protocol->component<throng::Lasting>("lasting");
    protocol->opaque<Name>("name", 2000, throng_test::write_name, throng_test::read_name);
    if (protocol->finish() != throng::Error::none)
        throw std::runtime_error(protocol->problem());
    return protocol;
}

/// Letters that no compression makes much of.
inline std::string words(throng::u32 length, int which) {
    std::string out;
    for (throng::u32 i = 0, x = static_cast<throng::u32>(which) * 2654435761u + 1; i < length; ++i, x = x * 1664525 + 1013904223)
        out += static_cast<char>('!' + (x >> 24) % 90);
    return out;
}

struct Workers {
    throng::ExecutorHandle executor = setting().workers > 1 ? throng::make_threads_executor(setting().workers)
                                                            : throng::make_serial_executor();
};

/// Why a link must not lose what the test does not lose itself.
enum class Reason {
    counts_ticks,   // the behaviour is what happens in a certain tick: a priority's period, the tick that is confirmed
    counts_packets, // the behaviour is how many messages, bytes, writes or calls there are; what is lost goes again
    holds_back,     // the test holds messages back, or loses them, itself
};

struct StateNet : private Workers, throng_test::ReplicationWorld {
    using Peer = ReplicationWorld::Peer;
    explicit StateNet(const throng::ServerConfig& config = {.heartbeat_ticks = 0}, const throng::LoopbackConfig& links = {},
                      std::unique_ptr<throng::Protocol> chosen = make_state_protocol(), const throng::ServerEvents& events = {})
        : ReplicationWorld(with_executor(config, executor.get()), links, std::move(chosen), events) {}

    /// What the links of this run do.
    static throng::LinkConfig link() {
        if (setting().loss_percent == 0)
            return {};
        return {.loss_percent = setting().loss_percent, .delay_us = 20'000, .jitter_us = 10'000};
    }
    /// A connection that has not said hello yet.
    Peer& meet() { return connect(link(), link()); }
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
    /// The same, and then every client's world is the server's, as filtered by what the client may see.
    void agree() {
        settle();
        throng_verify::Verifier verifier(*protocol, world, server);
        for (const auto& peer : peers) {
            if (peer->left)
                continue;
            const auto difference = verifier.check(peer->id, *peer->world, *peer->client, 0);
            CHECK_MESSAGE(!difference, difference.text);
        }
    }
    void server_step() {
        now_us += 50'000;
        server.receive(now_us);
        server.tick(now_us);
    }
    /// The peer's link loses nothing from here on, whatever the links of this run do. Only for a test that cannot be one of a lossy link:
    /// `reason` says why. Those that script loss or packets, or hold state back, say it by that.
    void perfect_link(const Peer& peer, Reason reason) {
        static_cast<void>(reason);
        script_loss(peer, 0, 0);
    }
    /// The peer's link loses what the test says, and nothing else.
    void script_loss(const Peer& peer, double down_percent, double up_percent) {
        network.set_link(peer.id, throng::Direction::down, {.loss_percent = down_percent});
        network.set_link(peer.id, throng::Direction::up, {.loss_percent = up_percent});
    }
    /// The same, packet by packet from the next one on, down or up; other packets arrive at once.
    void script_packets(const Peer& peer, throng::Direction direction, std::vector<throng::ScriptStep> script) {
        for (throng::ScriptStep& step : script)
            step.packet += network.counters(peer.id, direction).sent;
        network.set_link(peer.id, direction, {.script = script});
    }
    /// The peer's link is again as in the rest of this run.
    void restore_link(const Peer& peer) {
        for (const throng::Direction direction : {throng::Direction::down, throng::Direction::up})
            network.set_link(peer.id, direction, link());
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

private:
    static throng::ServerConfig with_executor(throng::ServerConfig config, throng::Executor* chosen) {
        config.executor = chosen;
        return config;
    }
};

/// A client with a configuration of its own, whose state can be held back. With a reason its link loses nothing; else it is as in the rest
/// of this run.
struct HeldBack {
    explicit HeldBack(StateNet& net, const throng::ClientConfig& config = {}) : peer(net.meet()), gate(net.network.client(peer.id)) {
        begin(net, config);
    }
    HeldBack(StateNet& net, Reason reason, const throng::ClientConfig& config = {}) : peer(net.meet()), gate(net.network.client(peer.id)) {
        net.perfect_link(peer, reason);
        begin(net, config);
    }
    void begin(StateNet& net, const throng::ClientConfig& config) {
        peer.client = std::make_unique<throng::Client>(*peer.world, *net.protocol, gate, config);
        REQUIRE(net.until([&] { return net.server.joined(peer.id) && peer.client->joined(); }));
    }
    ~HeldBack() {
        peer.client.reset();
        peer.left = true;
    }
    StateNet::Peer& peer;
    Gate gate;
};

/// What a client is told of ticks. HeldBack(net, told.config()) is a peer that tells.
struct Told {
    std::vector<std::pair<Entity, throng::Tick>> carried;
    std::vector<throng::Tick> settled;
    throng::ClientConfig config() {
        throng::ClientConfig out;
        out.context = this;
        out.confirm_history = true;
        out.on_carried = [](void* context, Entity entity, throng::NetId, throng::Tick tick) {
            static_cast<Told*>(context)->carried.emplace_back(entity, tick);
        };
        out.on_settled = [](void* context, throng::Tick tick) { static_cast<Told*>(context)->settled.push_back(tick); };
        return out;
    }
    /// Exactly this entity at exactly this tick.
    bool only(Entity entity, throng::Tick tick) const { return carried.size() == 1 && carried[0] == std::pair(entity, tick); }
};

struct Replaced { // not registered
    int value = 0;
};

/// A world whose client receives under rules.
struct Ruled {
    explicit Ruled(const throng::ServerConfig& config = {.heartbeat_ticks = 0}) : net(config), rules(*net.protocol) {}
    /// Joins with these rules; they are complete.
    StateNet::Peer& join(throng::ClientConfig config = {}) {
        config.rules = &rules;
        held = std::make_unique<HeldBack>(net, config);
        return held->peer;
    }
    StateNet::Peer& join(Reason reason, throng::ClientConfig config = {}) {
        config.rules = &rules;
        held = std::make_unique<HeldBack>(net, reason, config);
        return held->peer;
    }
    throng::World& there() const { return *held->peer.world; }
    const Replaced* replaced(Entity e) const { return net.value<Replaced>(held->peer, e); }
    static void replace(const throng::Received& received, const Health& health) {
        received.world.remove<Replaced>(received.entity);
        received.world.add<Replaced>(received.entity, Replaced{health.hp});
    }
    static void drop_replaced(const throng::Received& received) { received.world.remove<Replaced>(received.entity); }

    StateNet net;
    throng::ReceiveRules rules;
    std::unique_ptr<HeldBack> held;
};

/// Entities that the client may not see, in each of the ways to say so (for this client, by layers) and with each lifetime. The last two it
/// gets in any case, once.
struct Hidden {
    static constexpr int unsent = 4, sent = 2;
    explicit Hidden(StateNet& net, const StateNet::Peer& peer) {
        for (Entity& e : all)
            e = net.world.spawn(Health{1, false}, Speed{1, 0}, throng::Replicated{});
        for (const int i : {2, 3, 4, 5})
            net.world.add<throng::Lasting>(all[i], throng::Lasting{.from_start = i >= unsent});
        for (const int i : {0, 2, 4})
            net.server.view(peer.id).hide(all[i]);
        for (const int i : {1, 3, 5})
            net.world.add<throng::VisibleTo>(all[i], throng::VisibleTo{.any_of = 2});
    }
    void show(StateNet& net, const StateNet::Peer& peer) const {
        for (const Entity e : all)
            net.server.view(peer.id).show(e);
        net.server.view(peer.id).set_layers(2);
    }
    Entity all[unsent + sent];
};

/// Entities whose Health and Name a scope hides from those that are not on layer 2, one of each lifetime.
struct HiddenComponents {
    explicit HiddenComponents(StateNet& net, bool with_them = true) {
        for (const throng::Lifetime lifetime : {throng::Lifetime::while_visible, throng::Lifetime::after_first, throng::Lifetime::always}) {
            Entity& e = of[static_cast<int>(lifetime)];
            e = net.world.spawn(Speed{1, 0}, throng::Replicated{});
            net.world.add<throng::ScopedTo>(e, throng::ScopedTo(throng::Scope::of<Health, Name>(), {.any_of = 2}, lifetime));
            if (with_them) {
                net.world.add<Health>(e, Health{1, false});
                net.world.add<Name>(e, Name{"a"});
            }
        }
    }
    /// What the client has of Health and Name: "1a", or "--", by lifetime.
    std::string shown(const StateNet& net, const StateNet::Peer& peer) const {
        std::string text;
        for (const Entity e : of) {
            const Health* const health = net.value<Health>(peer, e);
            const Name* const name = net.value<Name>(peer, e);
            text += health ? std::to_string(health->hp) : "-";
            text += name ? name->text : "-";
            text += ' ';
        }
        return text;
    }
    void set(StateNet& net, int hp, const std::string& name) const {
        for (const Entity e : of) {
            net.world.mut<Health>(e)->hp = hp;
            net.world.mut<Name>(e)->text = name;
        }
    }
    void remove(StateNet& net) const {
        for (const Entity e : of) {
            net.world.remove<Health>(e);
            net.world.remove<Name>(e);
        }
    }
    Entity of[3];
};

} // namespace conformance::state
