#pragma once
// What the naive engine sends: one entity's quantised values, as the scenarios define them, and how they travel.
//
// The naive engine is the yardstick of the benches: the usual way to replicate, one decision and one encoding per client and
// visible entity, done with care (open addressing, quantised history, no allocation in steady state, parallel over
// clients). It knows the scenarios' components only.
//
// Downlink message, at most message_bytes_max bytes, Channel::unreliable:
//   u32 tick, u32 message number (per client, rising by 1), then records until the end.
//   record: varint entity, varint kind, then by kind
//     0 gone   u8 generation
//     1 full   u8 generation, u8 field mask, zigzag varint of each field in the mask (differences to 0)
//     2 + age  u8 field mask, zigzag varint of each field in the mask, differences to the prediction from the entity's state in
//              the message of `age` ticks ago (x and z: + velocity * age; yaw wrapped)
// Uplink message: u32 newest message number n, u8 words, words x u64: bit k of word w is set when message n - 64 w - k was
// applied.
#include "bench/scenarios.hpp"
#include <cstring>

namespace naive {

using throng::u16;
using throng::u32;
using throng::u64;
using throng::u8;
using throng::i32;
using throng::i64;

enum Field : u32 { field_x, field_y, field_z, field_yaw, field_vx, field_vz, field_hp, field_state, field_count };

struct State {
    i32 v[field_count] = {};
    friend bool operator==(const State&, const State&) = default;
};

inline constexpr u32 message_bytes_max = 1200;
inline constexpr u32 record_bytes_max = 5 + 5 + 1 + 1 + field_count * 5;
inline constexpr u32 yaw_bits = 10;
inline constexpr u32 ack_words_max = 16;
inline constexpr u32 kind_gone = 0, kind_full = 1, kind_delta = 2;
inline constexpr u32 prediction_age_max = 31; // as in the engine: older baselines predict as if this old

/// The same quantisers as the protocol's columns.
State quantise(const scenarios::Position& position, const scenarios::Heading& heading, const scenarios::Velocity& velocity,
               const scenarios::Vitals& vitals);

/// 65536 / tick_hz rounded: units of velocity and position are the same, so this turns velocity * age into steps.
constexpr i32 prediction_factor(u32 tick_hz) { return static_cast<i32>((65536 + tick_hz / 2) / tick_hz); }

/// `base` as it should be `age` ticks later. Velocities are 12 bit, so the product fits 32 bits.
inline State predict(const State& base, u32 age, i32 factor) {
    const i32 scale = static_cast<i32>(age < prediction_age_max ? age : prediction_age_max) * factor;
    State p = base;
    p.v[field_x] += (base.v[field_vx] * scale) >> 16;
    p.v[field_z] += (base.v[field_vz] * scale) >> 16;
    return p;
}

inline u8* put_varint(u8* out, u32 value) {
    while (value >= 128) {
        *out++ = static_cast<u8>(value | 128);
        value >>= 7;
    }
    *out++ = static_cast<u8>(value);
    return out;
}

/// Writes mask and fields; returns the end.
inline u8* put_difference(u8* out, const State& now, const State& predicted) {
    u32 zigzag[field_count];
    u32 mask = 0;
    for (u32 f = 0; f < field_count; ++f) {
        i32 d = static_cast<i32>(static_cast<u32>(now.v[f]) - static_cast<u32>(predicted.v[f]));
        if (f == field_yaw)
            d = ((d + (1 << (yaw_bits - 1))) & ((1 << yaw_bits) - 1)) - (1 << (yaw_bits - 1));
        zigzag[f] = static_cast<u32>(d) << 1 ^ static_cast<u32>(d >> 31);
        mask |= static_cast<u32>(d != 0) << f;
    }
    *out++ = static_cast<u8>(mask);
    for (; mask; mask &= mask - 1)
        out = put_varint(out, zigzag[__builtin_ctz(mask)]);
    return out;
}

/// Total reader of what the two functions above write.
struct Reader {
    const u8* at;
    const u8* end;
    bool ok = true;

    u8 byte() {
        if (at == end) {
            ok = false;
            return 0;
        }
        return *at++;
    }
    u32 varint() {
        u32 value = 0;
        for (u32 shift = 0; shift < 35 && ok; shift += 7) {
            const u32 b = byte();
            value |= (b & 127) << shift;
            if (b < 128)
                return value;
        }
        ok = false;
        return 0;
    }
    template <class T>
    T raw() {
        T value{};
        if (static_cast<std::size_t>(end - at) < sizeof value) {
            ok = false;
            return value;
        }
        std::memcpy(&value, at, sizeof value);
        at += sizeof value;
        return value;
    }
    State difference(const State& predicted) {
        State s = predicted;
        const u32 mask = byte();
        for (u32 m = mask; m && ok; m &= m - 1) {
            const u32 f = static_cast<u32>(__builtin_ctz(m));
            const u32 zigzag = varint();
            s.v[f] = static_cast<i32>(static_cast<u32>(s.v[f]) + ((zigzag >> 1) ^ (0u - (zigzag & 1))));
        }
        s.v[field_yaw] &= (1 << yaw_bits) - 1;
        // A hostile peer may send any value; bounds keep later predictions free of overflow.
        for (const u32 f : {field_vx, field_vz})
            s.v[f] = s.v[f] < -2047 ? -2047 : s.v[f] > 2047 ? 2047 : s.v[f];
        for (const u32 f : {field_x, field_y, field_z})
            s.v[f] = s.v[f] < -(1 << 24) ? -(1 << 24) : s.v[f] > 1 << 24 ? 1 << 24 : s.v[f];
        return s;
    }
};

/// Open addressing from entity number to a value that starts with `u32 key` (entity + 1, 0: free). Linear probing, at most
/// half full, removal closes the gap. Allocates when it grows.
template <class Entry>
class EntityMap {
public:
    EntityMap() : entries_(16) {}
    Entry* find(u32 entity) {
        for (u32 i = place(entity);; i = (i + 1) & mask_) {
            if (entries_[i].key == entity + 1)
                return &entries_[i];
            if (entries_[i].key == 0)
                return nullptr;
        }
    }
    /// The entry, made if absent. Moves others: pointers are good until the next insert or erase.
    Entry* insert(u32 entity) {
        if ((count_ + 1) * 2 > mask_ + 1)
            grow();
        u32 i = place(entity);
        for (; entries_[i].key != 0; i = (i + 1) & mask_)
            if (entries_[i].key == entity + 1)
                return &entries_[i];
        entries_[i] = Entry{};
        entries_[i].key = entity + 1;
        ++count_;
        return &entries_[i];
    }
    void erase(u32 entity) {
        Entry* e = find(entity);
        if (!e)
            return;
        u32 hole = static_cast<u32>(e - entries_.data());
        for (u32 i = (hole + 1) & mask_; entries_[i].key != 0; i = (i + 1) & mask_) {
            if (((i - place(entries_[i].key - 1)) & mask_) >= ((i - hole) & mask_)) {
                entries_[hole] = entries_[i];
                hole = i;
            }
        }
        entries_[hole].key = 0;
        --count_;
    }
    void clear() {
        for (Entry& e : entries_)
            e.key = 0;
        count_ = 0;
    }
    u32 size() const { return count_; }
    void prefetch(u32 entity) const { throng::detail::prefetch(&entries_[place(entity)]); }
    const std::vector<Entry>& entries() const { return entries_; }

private:
    u32 place(u32 entity) const { return (entity * 0x9e3779b1u >> 7) & mask_; }
    void grow() {
        std::vector<Entry> old((mask_ + 1) * 2);
        old.swap(entries_);
        mask_ = static_cast<u32>(entries_.size()) - 1;
        for (const Entry& e : old) {
            if (e.key == 0)
                continue;
            u32 i = place(e.key - 1);
            while (entries_[i].key != 0)
                i = (i + 1) & mask_;
            entries_[i] = e;
        }
    }
    std::vector<Entry> entries_;
    u32 mask_ = 15;
    u32 count_ = 0;
};

} // namespace naive
