#pragma once
// The protocol of the client and server targets and of the recorder of their inputs: every kind of field, opaque bytes, signatures. And
// a newer build of it, which has more of everything.
#include "throng/spawn_signature.hpp"
#include "throng/typed.hpp"
#include <cstdlib>
#include <cstring>

namespace throng::fuzz {

struct Place {
    float x = 0, z = 0;
};
struct Speed {
    float x = 0, z = 0;
};
struct Life {
    i32 hp = 0;
    bool angry = false;
    float yaw = 0;
    Entity target;
    i16 mana = 0; // newer
};
struct Note {
    u8 size_bytes = 0;
    u8 bytes[40] = {};
};
struct Glow { // newer
    u32 hue = 0;
    Entity source;
};
struct Smell : Note {}; // newer

inline u32 write_note(const void* component, std::span<std::byte> out) {
    const Note& note = *static_cast<const Note*>(component);
    if (out.size() >= note.size_bytes)
        std::memcpy(out.data(), note.bytes, note.size_bytes);
    return note.size_bytes;
}
inline Error read_note(void* component, std::span<const std::byte> in) {
    Note& note = *static_cast<Note*>(component);
    if (in.size() > sizeof note.bytes || (!in.empty() && in[0] == std::byte{0xff}))
        return Error::bad_value;
    note = {};
    note.size_bytes = static_cast<u8>(in.size());
    if (!in.empty())
        std::memcpy(note.bytes, in.data(), in.size());
    return Error::none;
}

struct Letter { // what is put at a note's end
    u8 value = 0;
};
inline u32 write_letter(const Letter& letter, std::span<std::byte> out) {
    if (!out.empty())
        out[0] = std::byte(letter.value);
    return 1;
}
inline Error read_letter(Letter& letter, std::span<const std::byte> in) {
    if (in.size() != 1)
        return Error::truncated;
    letter.value = static_cast<u8>(in[0]);
    return Error::none;
}
inline Error put_letter(Note& note, const Letter& letter) {
    if (note.size_bytes >= sizeof note.bytes || letter.value == 0xfe)
        return Error::bad_value;
    note.bytes[note.size_bytes++] = letter.value;
    return Error::none;
}

// Typed messages. All are unreliable, since the targets deliver on that channel.
struct Hit {
    Entity target, source;
    float damage = 0, angle = 0;
    i16 delta = 0;
    bool critical = false;
    u8 style = 3; // newer
};
struct Whisper { // newer
    u32 volume = 0;
};
struct Say {
    Entity speaker;
    Note note;
};
struct Bell {
    u64 serial = 0;
    Entity tower;
};
inline u32 write_said(const void* message, std::span<std::byte> out) {
    return write_note(&static_cast<const Say*>(message)->note, out);
}
inline Error read_said(void* message, std::span<const std::byte> in) {
    return read_note(&static_cast<Say*>(message)->note, in);
}
inline Hit some_hit(u32 number, Entity target, Entity source) {
    return {target,         source, static_cast<float>(number) * 7 - 20, static_cast<float>(number), static_cast<i16>(number * 999),
            number % 2 == 0, static_cast<u8>(number)};
}
inline Say some_say(u32 number, Entity speaker) {
    Say say{speaker, {}};
    say.note.size_bytes = static_cast<u8>(number % 30);
    std::memset(say.note.bytes, 'a', say.note.size_bytes);
    return say;
}

/// Signatures that the recorded server gives to some of its entities, 1 to this.
inline constexpr u32 signatures = 4;

inline constexpr double cell_size = 100; // 10,000 steps
inline constexpr Tick welcome_tick = 100;

struct FuzzProtocol {
    Protocol protocol;
    explicit FuzzProtocol(bool newer = false) {
        const Range map{-1000, 1000, 0.01};
        if (newer) {
            protocol.component<Glow>("glow").field(&Glow::hue).field(&Glow::source);
            protocol.opaque<Smell>("smell", sizeof(Note::bytes), write_note, read_note);
        }
        protocol.component<Place>("place")
            .field(&Place::x, map)
            .field(&Place::z, map)
            .spatial(&Place::x, &Place::z)
            .extrapolated_by(&Speed::x, &Speed::z);
        protocol.component<Speed>("speed").field(&Speed::x, Range{-20, 20, 0.01}).field(&Speed::z, Range{-20, 20, 0.01});
        auto life = protocol.component<Life>("life");
        life.field(&Life::hp, "hp").field(&Life::angry, "angry").field(&Life::yaw, Angle{newer ? 12u : 10u}, "yaw");
        life.field(&Life::target);
        if (newer)
            life.field(&Life::mana, "mana");
        protocol.opaque<Note>("note", sizeof(Note::bytes), write_note, read_note).diffs(write_letter, read_letter, put_letter);
        protocol.component<SpawnSignature>("signature").field(&SpawnSignature::hash);
        constexpr Channel channel = Channel::unreliable;
        if (newer)
            protocol.message<Whisper>("whisper", {.channel = channel}).field(&Whisper::volume);
        auto hit = protocol.message<Hit>("hit", {.channel = channel, .route = Route::both, .waits_for_tick = true});
        hit.field(&Hit::target)
            .field(&Hit::damage, Range{-10, 90, 0.25})
            .field(&Hit::angle, Angle{9})
            .field(&Hit::delta)
            .field(&Hit::source)
            .field(&Hit::critical);
        if (newer)
            hit.field(&Hit::style);
        protocol.message<Say>("say", {.channel = channel, .route = Route::both, .bytes_max = 60})
            .field(&Say::speaker)
            .rest(write_said, read_said);
        protocol.message<Bell>("bell", {.channel = channel, .independent = true}).field(&Bell::serial).field(&Bell::tower);
        if (protocol.finish() != Error::none)
            std::abort();
    }
};

struct Season { // resources
    i32 year = 0;
    Entity ruler;
};
struct Motto : Note {};

/// Of scenes: the older build's components, and resources.
struct SceneFuzzProtocol {
    Protocol protocol;
    SceneFuzzProtocol() {
        const Range map{-1000, 1000, 0.01};
        protocol.resource<Season>("season").field(&Season::year, "year").field(&Season::ruler, "ruler");
        protocol.component<Place>("place").field(&Place::x, map).field(&Place::z, map).spatial(&Place::x, &Place::z);
        protocol.component<Speed>("speed").field(&Speed::x, Range{-20, 20, 0.01}).field(&Speed::z, Range{-20, 20, 0.01});
        protocol.component<Life>("life")
            .field(&Life::hp, "hp")
            .field(&Life::angry, "angry")
            .field(&Life::yaw, Angle{10}, "yaw")
            .field(&Life::target);
        protocol.opaque<Note>("note", sizeof(Note::bytes), write_note, read_note);
        protocol.resource<Motto>("motto", sizeof(Note::bytes), OpaqueFunctions{write_note, read_note});
        if (protocol.finish() != Error::none)
            std::abort();
    }
};

inline void require(bool condition) {
    if (!condition)
        std::abort();
}

/// Checks that a handler gets entities that live, or none, and values that the fields hold.
struct Listener {
    const World& world;
    u64 heard = 0;
    void entity(Entity e) {
        require(!e || world.alive(e));
        ++heard;
    }
    void handle(const Hit& hit, const Sender&) {
        entity(hit.target);
        entity(hit.source);
        require(hit.damage >= -10 && hit.damage <= 90 && hit.angle >= 0 && hit.angle < 6.3f);
    }
    void handle(const Say& say, const Sender&) {
        entity(say.speaker);
        require(say.note.size_bytes <= sizeof say.note.bytes);
    }
    void handle(const Bell& bell, const Sender&) { entity(bell.tower); }
};

} // namespace throng::fuzz
