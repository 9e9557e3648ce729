#pragma once
// The replicated components of the simulator: every kind of field, and in each a sequence number that only rises. Fields that a build may
// lack have defaults of their own.
#include "tests/sim/builds.hpp"
#include "throng/client.hpp"
#include "throng/server.hpp"
#include "throng/spawn_signature.hpp"
#include <memory>
#include <string>

namespace throng_sim {

struct Place {
    float x = 0, z = 0;
    double y = 0.25;
    throng::u32 seq = 0;
    bool operator==(const Place&) const = default;
};
struct Speed {
    float x = 0, z = -3;
    bool operator==(const Speed&) const = default;
};
struct Vitals {
    int hp = 0;
    bool angry = true;
    throng::u8 state = 9;
    throng::i64 score = -7;
    throng::u32 seq = 0;
    bool operator==(const Vitals&) const = default;
};
struct Facing {
    float yaw = 1.5f;
    throng::u32 seq = 0;
    bool operator==(const Facing&) const = default;
};
struct Link {
    throng::Entity first, second;
    throng::u32 seq = 0;
    bool operator==(const Link&) const = default;
};
struct Note { // opaque
    throng::u32 seq = 0;
    std::string text;
    bool operator==(const Note&) const = default;
};
struct Mood { // under two names: in tens, or exactly, as its rules say
    int value = 0;
    throng::u32 seq = 0;
    bool operator==(const Mood&) const = default;
};
struct Birth { // sent once, with Vitals only
    int value = 5;
    throng::u32 serial = 0; // of the insertion
    bool operator==(const Birth&) const = default;
};
struct Heat { // travels as whole tenths
    double kelvin = 0;
    throng::u32 seq = 0;
    bool operator==(const Heat&) const = default;
};
struct Weather { // a resource
    int wind = 12;
    throng::u32 seq = 0;
    bool operator==(const Weather&) const = default;
};
struct Badge { // never written, only replaced
    using immutable = void;
    int rank = 0;
    throng::u32 seq = 0;
    throng::Entity giver;
    bool operator==(const Badge&) const = default;
};
struct Ammo { // with Barrel, or not at all
    int rounds = 0;
    throng::u32 seq = 0;
    bool operator==(const Ammo&) const = default;
};
struct Barrel {
    throng::u8 worn = 0;
    bool operator==(const Barrel&) const = default;
};
struct Hero {}; // of the rules alone
struct Shy {};

struct Bond { // binds entities to clusters
    throng::Entity to;
    throng::u32 seq = 0;
    bool operator==(const Bond&) const = default;
};
struct Purse { // its owner's
    int gold = 100;
    throng::u32 seq = 0;
    bool operator==(const Purse&) const = default;
};
struct Tactics { // its group's
    throng::i64 plan = 0;
    bool operator==(const Tactics&) const = default;
};
struct Rumour { // for all but the owner
    float heard = 0;
    bool operator==(const Rumour&) const = default;
};
struct Diary { // its owner's, opaque
    throng::u32 page = 0;
    bool operator==(const Diary&) const = default;
};
struct Scroll { // with diffs, as a component and as a resource
    throng::u32 seq = 0;
    std::string text;
    bool operator==(const Scroll&) const = default;
};
struct Stroke { // a letter of it changes, or comes at the end
    throng::u32 seq = 0;
    throng::u32 at = 0;
    throng::u8 letter = 0;
};
struct Stance { // of clients alone: required by Facing
    int steps = 0;
};
struct Caption { // the same by Note, with which it goes
    int width = 0;
};
struct MadeAhead {        // of clients alone: an entity that they made themselves
    throng::u64 hash = 0; // of its SpawnSignature
};

inline constexpr throng::u32 scroll_bytes_max = 400;   // of the text
inline constexpr double map_edge = 200;                // +- on both axes
inline constexpr throng::u32 note_bytes_max = 3000;    // more than a packet
// Place, Vitals, Facing, Link, Note, Mood, Heat, Bond, Scroll, Badge
inline constexpr throng::u32 sequenced_components = 10;

/// Calls f(piece, T*) for the type of each component, in the order of Piece. The pointer is null.
template <class F>
void each_component(F&& f) {
    using throng::ResourceValue;
    const auto each = [&]<class... Ts>(void (*)(Ts...)) {
        throng::u32 piece = 0;
        (f(static_cast<Piece>(piece++), static_cast<Ts*>(nullptr)), ...);
    };
    each(static_cast<void (*)(Place, Speed, Vitals, Facing, Link, Note, throng::Lasting, Purse, Tactics, Rumour, Diary, Mood, Birth, Heat,
                              ResourceValue<Weather>, Bond, Scroll, ResourceValue<Scroll>, throng::SpawnSignature, Badge, Ammo, Barrel,
                              throng::ChildOf)>(nullptr));
}

std::unique_ptr<throng::Protocol> make_protocol(const Build& build, const throng::ProtocolConfig& config = {});
/// As recorded sessions have it: without names of fields, Place to Note, and Lasting if asked for.
std::unique_ptr<throng::Protocol> make_protocol(const throng::ProtocolConfig& config, bool lasting);

/// Two sets of rules under which clients must show what they show without any: functions that write the components themselves (of some
/// only while the entity has Speed, with values older than the newest), and rows that are written only if different. With `requires_more`
/// the latter ask for Stance and Caption.
void make_rules(throng::ReceiveRules& functions, throng::ReceiveRules& compare, bool requires_more);

} // namespace throng_sim
