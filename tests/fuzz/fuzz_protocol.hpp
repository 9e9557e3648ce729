#pragma once
// The protocol of the client and server targets and of the recorder of their inputs: every kind of field, and opaque bytes.
#include "throng/protocol.hpp"
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
};
struct Note {
    u8 size_bytes = 0;
    u8 bytes[40] = {};
};

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

inline constexpr double cell_size = 100; // 10,000 steps
inline constexpr Tick welcome_tick = 100;

struct FuzzProtocol {
    Protocol protocol;
    FuzzProtocol() {
        const Range map{-1000, 1000, 0.01};
        protocol.component<Place>("place")
            .field(&Place::x, map)
            .field(&Place::z, map)
            .spatial(&Place::x, &Place::z)
            .extrapolated_by(&Speed::x, &Speed::z);
        protocol.component<Speed>("speed").field(&Speed::x, Range{-20, 20, 0.01}).field(&Speed::z, Range{-20, 20, 0.01});
        protocol.component<Life>("life").field(&Life::hp).field(&Life::angry).field(&Life::yaw, Angle{10}).field(&Life::target);
        protocol.opaque<Note>("note", sizeof(Note::bytes), write_note, read_note);
        if (protocol.finish() != Error::none)
            std::abort();
    }
};

inline void require(bool condition) {
    if (!condition)
        std::abort();
}

} // namespace throng::fuzz
