#pragma once
// Base vocabulary: integers, ticks, ids, errors. No other throng header is included here.
//
// Three kinds of trouble, three answers (see docs/architecture.md): misuse by the caller asserts (throng/assert.hpp);
// hostile or broken input returns an Error and counts; a reached limit degrades as documented and shows in the report.
#include <cstddef>
#include <cstdint>
#include <utility>

namespace throng {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

/// Server replication step. Wraps; compare with tick_newer, never with <.
using Tick = u32;
/// True when `a` is later than `b`, for ticks less than 2^31 apart.
constexpr bool tick_newer(Tick a, Tick b) { return static_cast<i32>(a - b) > 0; }

/// Virtual or real time in microseconds since any fixed start. Always passed in: the library reads no clock.
using TimeUs = u64;

/// Connection slot, dense from 0. Reused only after the disconnect of its last holder was reported.
using ClientId = u32;
/// A set of clients: Server::make_group.
using GroupId = u32;

/// Identity of a replicated entity on the wire: index (reused), generation (24 bits, so that a reused index is another
/// entity) and 8 reserved server/shard bits. 0 is "none".
struct NetId {
    u64 value = 0;
    static constexpr NetId make(u32 index, u32 generation, u32 shard = 0) {
        return {u64(index) | u64(generation & 0xffffffu) << 32 | u64(shard & 0xffu) << 56};
    }
    constexpr u32 index() const { return static_cast<u32>(value); }
    constexpr u32 generation() const { return static_cast<u32>(value >> 32) & 0xffffffu; }
    constexpr u32 shard() const { return static_cast<u32>(value >> 56); }
    constexpr explicit operator bool() const { return value != 0; }
    friend constexpr bool operator==(NetId, NetId) = default;
    friend constexpr auto operator<=>(NetId, NetId) = default;
};

enum class [[nodiscard]] Error : u8 {
    none = 0,
    truncated,      // the input ends too early
    bad_value,      // a value outside its range, or bytes that no encoder writes
    too_large,      // a size beyond a named limit
    wrong_protocol, // the peer's protocol is not compatible, or lacks what is meant
    no_baseline,    // a delta against a state that is not held
    limit_reached,  // a named limit of ours
    unsupported,    // e.g. a component that has no copy, a file of unknown kind
    io,             // tools only
    no_connection,  // to send to: not connected, or not joined yet
    unauthorized,   // the server's host will not have this client
};
/// Stable lower-case name, for counters and messages.
const char* to_string(Error error);

/// A value or an Error. The subset of std::expected that g++ 12 and clang 14 users need.
template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : value_(std::move(value)) {}
    Result(Error error) : error_(error) {}
    constexpr bool has_value() const { return error_ == Error::none; }
    constexpr explicit operator bool() const { return has_value(); }
    constexpr Error error() const { return error_; }
    T& value() { return value_; }
    const T& value() const { return value_; }
    T& operator*() { return value_; }
    const T& operator*() const { return value_; }
    T* operator->() { return &value_; }
    const T* operator->() const { return &value_; }

private:
    T value_{};
    Error error_ = Error::none;
};

namespace detail {
/// Brings a line of memory into the cache, for reading or for writing. The empty asm is an effect that g++ can see: without one it takes
/// a function that only prefetches for one that does nothing, and leaves out its calls.
inline void prefetch(const void* memory) {
    __builtin_prefetch(memory);
    asm volatile("");
}
inline void prefetch_write(const void* memory) {
    __builtin_prefetch(memory, 1);
    asm volatile("");
}
} // namespace detail

/// Library version, "major.minor.patch".
const char* version();

} // namespace throng
