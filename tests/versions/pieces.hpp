#pragma once
// Two games of one kind whose builds are put together piece by piece: which of them a build has is said when its protocol is made. Types
// are doubled, as in two programs, and registered in opposite orders, so that what both builds have has other numbers in each.
#include "tests/support/replication_world.hpp"
#include "throng/spawn_signature.hpp"
#include <cmath>

namespace versions_test {
using namespace throng;

/// What a build may lack, or has otherwise.
enum Pieces : u32 {
    crew = 1,
    weather = 1 << 1,
    weather_rain = 1 << 2,
    purse = 1 << 3,
    plans = 1 << 4,
    rumour = 1 << 5,
    birth = 1 << 6,
    birth_house = 1 << 7,
    heat = 1 << 8,
    heat_seed = 1 << 9,
    signature = 1 << 10,
    health = 1 << 11,
    health_shield = 1 << 12,
    speech = 1 << 13,
    audiences = 1 << 14,  // else all clients see all
    once = 1 << 15,       // else Birth is sent whenever it changes
    conversion = 1 << 16, // else the wire's type is a component itself
    rules = 1 << 17,      // else Speech has none
};

template <int Number>
struct Game {
    static constexpr int number = Number;
    struct Position {
        float x = 0, z = 0;
    };
    struct Health {
        int hp = 10, shield = 77;
    };
    struct Crew {
        Entity vehicle;
    };
    struct Weather {
        int wind = 3, rain = 70;
    };
    struct Purse {
        int gold = 40;
    };
    struct Plans {
        int plan = 1;
    };
    struct Rumour {
        int heard = 2;
    };
    struct Birth {
        int village = 9, house = -1;
    };
    struct Heat {
        double kelvin = 1;
        int seed = 0;
    };
    struct WireHeat {
        i32 tenths = 0, seed = 55;
    };
    struct Speech {
        int words = 0;
    };
    struct Muted {}; // on no wire
    static WireHeat pack(const Heat& heat) { return {static_cast<i32>(std::lround(heat.kelvin * 10)), heat.seed}; }
    static Heat unpack(const WireHeat& wire) { return {wire.tenths / 10.0, wire.seed}; }
};

template <class G>
std::unique_ptr<Protocol> make_build(u32 lacks) {
    auto protocol = std::make_unique<Protocol>();
    const auto has = [&](Pieces piece) { return (lacks & piece) == 0; };
    const Audience everyone = Audience::everyone;
    const auto add = [&](int step) {
        switch (step) {
        case 0:
            protocol->template component<typename G::Position>("position")
                .field(&G::Position::x, Range{-1000, 1000, 0.01}, "x")
                .field(&G::Position::z, Range{-1000, 1000, 0.01}, "z")
                .spatial(&G::Position::x, &G::Position::z);
            break;
        case 1:
            if (has(health)) {
                auto out = protocol->template component<typename G::Health>("health");
                if (has(health_shield))
                    out.field(&G::Health::shield, "shield");
                out.field(&G::Health::hp, "hp");
            }
            break;
        case 2:
            if (has(crew))
                protocol->template component<typename G::Crew>("crew").field(&G::Crew::vehicle, "vehicle").related(&G::Crew::vehicle);
            break;
        case 3:
            if (has(weather)) {
                auto out = protocol->template resource<typename G::Weather>("weather");
                if (has(weather_rain))
                    out.field(&G::Weather::rain, "rain");
                out.field(&G::Weather::wind, "wind");
            }
            break;
        case 4:
            if (has(purse))
                protocol->template component<typename G::Purse>("purse")
                    .field(&G::Purse::gold, "gold")
                    .audience(has(audiences) ? Audience::owner : everyone);
            break;
        case 5:
            if (has(plans))
                protocol->template component<typename G::Plans>("plans")
                    .field(&G::Plans::plan, "plan")
                    .audience(has(audiences) ? Audience::group : everyone);
            break;
        case 6:
            if (has(rumour))
                protocol->template component<typename G::Rumour>("rumour")
                    .field(&G::Rumour::heard, "heard")
                    .audience(has(audiences) ? Audience::others : everyone);
            break;
        case 7:
            if (has(birth)) {
                auto out = protocol->template component<typename G::Birth>("birth");
                if (has(birth_house))
                    out.field(&G::Birth::house, "house");
                out.field(&G::Birth::village, "village");
                if (has(once))
                    out.once();
            }
            break;
        case 8:
            if (has(heat) && has(conversion)) {
                auto out = protocol->component_as("heat", G::pack, G::unpack);
                if (has(heat_seed))
                    out.field(&G::WireHeat::seed, "seed");
                out.field(&G::WireHeat::tenths, "tenths");
            } else if (has(heat)) {
                protocol->template component<typename G::WireHeat>("heat")
                    .field(&G::WireHeat::tenths, "tenths")
                    .field(&G::WireHeat::seed, "seed");
            }
            break;
        case 9:
            if (has(signature))
                protocol->template component<SpawnSignature>("signature").field(&SpawnSignature::hash, "hash");
            break;
        default:
            if (has(speech)) {
                auto out = protocol->template component<typename G::Speech>("speech");
                out.field(&G::Speech::words, "words");
                if (has(rules))
                    out.when(without<typename G::Muted>);
            }
        }
    };
    constexpr int steps = 11;
    for (int i = 0; i < steps; ++i)
        add(G::number % 2 ? steps - 1 - i : i);
    if (protocol->finish() != Error::none)
        throw std::runtime_error(protocol->problem());
    return protocol;
}

struct OtherProtocol { // before the clients that use it
    std::unique_ptr<Protocol> other_protocol;
};

/// A server of one game, a client of its own build, and one of the other build.
template <class S, class C>
class Meeting : OtherProtocol, public throng_test::ReplicationWorld {
public:
    Meeting(u32 server_lacks, u32 client_lacks, const LinkConfig& link = {}, const ServerConfig& config = {.hash_ticks = 2})
        : OtherProtocol{make_build<C>(client_lacks)}, ReplicationWorld(config, {.seed = 5}, make_build<S>(server_lacks)), same(join(link)),
          other(join(link, other_protocol.get())) {
        until([&] { return same.client->joined() && other.client->joined(); });
        for (Peer* peer : {&same, &other})
            server.view(peer->id).look_at(0, 0, {.radius = 900});
    }

    void tick() {
        const TickReport& report = step();
        equal += report.hashes_equal;
        wrong += report.hashes_different + report.malformed_messages;
    }
    template <class Condition>
    bool until(Condition&& condition) {
        for (int i = 0; i < 400 && !condition(); ++i)
            tick();
        return condition();
    }
    /// Both clients have all; true if nothing has gone wrong.
    bool settle() {
        for (int i = 0; i < 3; ++i)
            tick();
        return until([&] { return server.settled(same.id) && server.settled(other.id); }) && wrong == 0 && client_errors == 0;
    }
    Entity shown(const Peer& peer, Entity entity) const { return peer.client->entity(server.net_id(entity)); }
    /// A component of the entity at the client of the other build, or null.
    template <class T>
    const T* theirs(Entity entity) const {
        return other.world->get<T>(shown(other, entity));
    }
    template <class T>
    const T* ours(Entity entity) const {
        return same.world->get<T>(shown(same, entity));
    }
    template <class... T>
    Entity spawn(T... components) {
        return world.spawn(typename S::Position{1, 2}, components..., Replicated{});
    }

    u64 equal = 0, wrong = 0;
    Peer &same, &other;

private:
    Peer& join(const LinkConfig& link, const Protocol* build = nullptr) {
        Peer& peer = connect(link, link);
        if (build)
            peer.client = std::make_unique<Client>(*peer.world, *build, network.client(peer.id));
        return peer;
    }
};

} // namespace versions_test
