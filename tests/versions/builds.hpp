#pragma once
// Two builds of one game: the newer one has more, has let go of some, and has registered things in another order. Types are doubled, as in
// two programs; what both builds have, both call by the same name.
#include "throng/client.hpp"
#include "throng/server.hpp"
#include <algorithm>
#include <stdexcept>
#include <string>

namespace versions_test {
using namespace throng;

inline u32 write_string(const std::string& text, std::span<std::byte> out) {
    if (text.size() <= out.size())
        std::transform(text.begin(), text.end(), out.begin(), [](char c) { return static_cast<std::byte>(c); });
    return static_cast<u32>(text.size());
}
template <class T>
u32 write_text(const void* object, std::span<std::byte> out) {
    return write_string(static_cast<const T*>(object)->text, out);
}
template <class T>
Error read_text(void* object, std::span<const std::byte> in) {
    static_cast<T*>(object)->text.assign(reinterpret_cast<const char*>(in.data()), in.size());
    return Error::none;
}

enum class Mood : u8 { calm, grim };

struct Older {
    struct Position {
        float x = 0, z = 0;
    };
    struct Health {
        i32 hp = 10;
        bool angry = true;
        Mood mood = Mood::grim;
    };
    struct Title {
        std::string text = "none";
    };
    struct Mount { // not in the newer build
        Entity rider;
        u32 speed = 3;
    };
    struct Friend {
        Entity other;
    };
    struct Hit {
        Entity target;
        float damage = 0;
    };
    struct Taunt { // not in the newer build; both ways
        u32 volume = 0;
    };
    struct Order {
        Entity target;
        u16 kind = 0;
        std::string text;
    };

    static void add(Protocol& protocol) {
        const Range map{-1000, 1000, 0.01};
        protocol.component<Position>("position").field(&Position::x, map, "x").field(&Position::z, map, "z")
            .spatial(&Position::x, &Position::z);
        protocol.component<Health>("health").field(&Health::hp, "hp").field(&Health::angry, "angry").field(&Health::mood, "mood");
        protocol.opaque<Title>("title", 40, write_text<Title>, read_text<Title>);
        protocol.component<Mount>("mount").field(&Mount::rider).field(&Mount::speed);
        protocol.component<Friend>("friend").field(&Friend::other);
        protocol.message<Hit>("hit").field(&Hit::target).field(&Hit::damage, Range{0, 100, 0.5});
        protocol.message<Taunt>("taunt", {.route = Route::both}).field(&Taunt::volume);
        protocol.message<Order>("order", {.route = Route::to_server, .bytes_max = 100}).field(&Order::target).field(&Order::kind)
            .rest(write_text<Order>, read_text<Order>);
    }
};

struct Newer {
    struct Velocity {
        float x = 0, z = 0;
    };
    struct Aura {
        u64 serial = 0;
        Entity source;
    };
    struct Position {
        float x = 0, height = 2.5f, z = 0;
    };
    struct Health {
        i16 mana = 55;
        i32 hp = 10;
        Entity owner;
        Mood mood = Mood::grim;
        float fear = 0.5f;
    };
    struct Title {
        std::string text = "none";
    };
    struct Smell {
        std::string text;
    };
    struct Friend {
        Entity other;
        u32 years = 7;
    };
    struct Whisper {
        u64 serial = 0;
    };
    struct Hit {
        Entity target;
        float damage = 0;
        bool critical = false;
        Entity source;
    };
    struct Order {
        Entity target;
        u16 kind = 0;
        i8 priority = -3; // what older clients stand for
        float haste = 0.25f;
        Entity helper;
        std::string text;
    };
    struct Emote {
        u8 face = 0;
    };

    static void add(Protocol& protocol) {
        const Range map{-4000, 4000, 0.02}, speeds{-20, 20, 0.01};
        protocol.component<Velocity>("velocity").field(&Velocity::x, speeds).field(&Velocity::z, speeds);
        protocol.component<Aura>("aura").field(&Aura::serial).field(&Aura::source);
        protocol.opaque<Smell>("smell", 60, write_text<Smell>, read_text<Smell>);
        protocol.opaque<Title>("title", 80, write_text<Title>, read_text<Title>);
        protocol.component<Health>("health").field(&Health::mana, "mana").field(&Health::hp, "hp").field(&Health::owner, "owner")
            .field(&Health::fear, Range{0, 1, 0.01}, "fear").field(&Health::mood, "mood");
        protocol.component<Position>("position").field(&Position::x, map, "x").field(&Position::height, Range{0, 50, 0.1}, "height")
            .field(&Position::z, map, "z").spatial(&Position::x, &Position::z).extrapolated_by(&Velocity::x, &Velocity::z);
        protocol.component<Friend>("friend").field(&Friend::other).field(&Friend::years);
        protocol.message<Whisper>("whisper").field(&Whisper::serial);
        protocol.message<Emote>("emote", {.route = Route::to_server}).field(&Emote::face);
        protocol.message<Order>("order", {.route = Route::to_server, .bytes_max = 200}).field(&Order::target).field(&Order::kind)
            .field(&Order::priority).field(&Order::haste, Range{-1, 1, 0.25}).field(&Order::helper)
            .rest(write_text<Order>, read_text<Order>);
        protocol.message<Hit>("hit").field(&Hit::target).field(&Hit::damage, Range{-50, 500, 0.25}).field(&Hit::critical)
            .field(&Hit::source);
    }
};

template <class Build>
struct BuildProtocol {
    Protocol protocol;
    explicit BuildProtocol(const ProtocolConfig& config = {}) : protocol(config) {
        Build::add(protocol);
        if (protocol.finish() != Error::none)
            throw std::runtime_error(protocol.problem());
    }
};

} // namespace versions_test
