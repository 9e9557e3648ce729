#pragma once
// Worlds whose components have rules.
#include "tests/conformance/state_support.hpp"
#include "throng/spawn_signature.hpp"

namespace conformance::state {

struct Important {}; // not registered: rules look at them
struct Asleep {};
struct Indexed { // has a direct index
    int value = 0;
};

struct Team { // replaced, never written
    using immutable = void;
    int number = 0;
};
struct Weather { // a resource
    int wind = 0;
    Entity storm;
};

/// A net of a protocol that the function registers.
template <class F>
StateNet make_net(F&& registrations) {
    auto protocol = std::make_unique<throng::Protocol>();
    registrations(*protocol);
    if (protocol->finish() != throng::Error::none)
        throw std::runtime_error(protocol->problem());
    return StateNet({.heartbeat_ticks = 0}, {}, std::move(protocol));
}

/// Registrations that most tests of rules want.
inline throng::ComponentBuilder<Health> health(throng::Protocol& protocol, const char* name = "health") {
    return protocol.component<Health>(name).field(&Health::hp).field(&Health::angry);
}
inline throng::ComponentBuilder<Speed> speed(throng::Protocol& protocol) {
    return protocol.component<Speed>("speed").field(&Speed::x, throng::Range{-20, 20, 0.01}).field(&Speed::z, throng::Range{-20, 20, 0.01});
}
/// Health, children and signatures.
inline void signed_health(throng::Protocol& protocol, throng::Audience audience = throng::Audience::everyone) {
    health(protocol);
    protocol.component<throng::ChildOf>("child of").field(&throng::ChildOf::target);
    protocol.component<throng::SpawnSignature>("signature").field(&throng::SpawnSignature::hash).audience(audience);
}
/// Speed to a whole number.
inline throng::ComponentBuilder<Speed> rough_speed(throng::Protocol& protocol) {
    return protocol.component<Speed>("rough speed").field(&Speed::x, throng::Range{-20, 20, 1}).field(&Speed::z, throng::Range{-20, 20, 1});
}

inline throng::ResourceBuilder<Weather> weather(throng::Protocol& protocol) {
    return protocol.resource<Weather>("weather").field(&Weather::wind).field(&Weather::storm);
}
/// What a client's world has of it: -1 nothing.
inline int wind(const StateNet::Peer& peer) {
    const Weather* there = peer.world->resources().get<Weather>();
    return there ? there->wind : -1;
}

} // namespace conformance::state

template <>
inline constexpr bool throng::direct_index<conformance::state::Indexed> = true;
