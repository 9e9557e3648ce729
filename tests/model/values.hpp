#pragma once
// The vocabulary of the protocol model: lanes, cells, sections, messages. Plain values without behaviour.
//
// Fields marked "out of band" are not on the wire. They exist so that the checks can tell a right value from one that
// only looks right; the server and the client never decide anything by them.
#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace model {

using Tick = int;
using Mask = unsigned; // bit n = lane n (or client n, or section n)

constexpr int lane_count = 4;
constexpr Mask all_lanes = (1u << lane_count) - 1;
constexpr int home_chunk_count = 2;
constexpr int max_clients = 3;
constexpr int max_chunks = home_chunk_count + max_clients;
constexpr Tick no_baseline = -1;

constexpr Mask bit(int n) { return 1u << n; }
constexpr bool has(Mask mask, int n) { return (mask >> n & 1u) != 0; }
constexpr int count(Mask mask) { return __builtin_popcount(mask); }
std::string lanes_text(Mask mask); // "0,2"

/// R1: an entity has at most one slot in each scope.
enum class Scope : std::uint8_t { home, side };
constexpr int scope_count = 2;
constexpr bool is_home(int chunk) { return chunk < home_chunk_count; }
constexpr int sidecar_of(int client) { return home_chunk_count + client; }
constexpr Scope scope_of(int chunk) { return is_home(chunk) ? Scope::home : Scope::side; }
constexpr int component_count(Scope scope) { return scope == Scope::home ? 2 : 1; }

struct NetId {
    int index = 0;
    int generation = 0; // 0: nobody
    explicit operator bool() const { return generation != 0; }
    friend bool operator==(NetId, NetId) = default;
    friend auto operator<=>(NetId, NetId) = default;
};
std::string text(NetId id);

struct Slot {
    int chunk = -1;
    int lane = -1;
    explicit operator bool() const { return chunk >= 0; }
    friend bool operator==(Slot, Slot) = default;
};

/// One component of one lane.
struct Cell {
    bool present = false;
    int value = 0;
    int counter = 0;  // R2: counts insertions, two bits
    int sequence = 0; // out of band: orders all values that the component of an entity ever had
};
bool same_on_wire(const Cell& a, const Cell& b);

/// R2: who is in the lane is part of the lane's value, and so is nobody.
struct LaneValue {
    NetId occupant;
    std::array<Cell, 2> cells{}; // unused cells stay as they are here
};
bool same_on_wire(const LaneValue& a, const LaneValue& b);
using Lanes = std::array<LaneValue, lane_count>;

struct CellChange {
    bool changed = false;
    bool present = false;
    int difference = 0; // of the values
    int counter = 0;
    int sequence = 0; // out of band
};

/// One lane of a payload: `full` in a limbo section, `changes` in a delta section.
struct LanePayload {
    LaneValue full;
    std::array<CellChange, 2> changes{};
    LaneValue base_used; // out of band: what the server encoded against
};

/// A shared payload with its private header. The payload depends on (chunk, baseline, mask) alone (R1).
struct Section {
    int chunk = 0;
    Tick baseline = no_baseline;
    Mask mask = 0; // lanes in the payload
    Mask gone = 0; // private: lanes that hold nothing for this client (R2)
    /// Of a limbo section, by lane: components that the client does not see, and keeps as it has them.
    std::array<Mask, lane_count> kept{};
    std::array<LanePayload, lane_count> lanes{};
    bool limbo() const { return baseline == no_baseline; }
};

struct Message {
    int id = 0;
    Tick tick = 0;
    Tick settled = no_baseline; // R9
    std::vector<Section> sections;
};

/// What a client says about one message that it received: the sections that it could not apply (R5).
struct Ack {
    int message_id = 0;
    Mask unapplied = 0;
};
using Acks = std::vector<Ack>;

/// What somebody sees of an entity: its slots by scope. Sorted by net id in a SeenWorld.
struct Seen {
    NetId id;
    std::array<bool, scope_count> has{};
    std::array<LaneValue, scope_count> slots{};
    Slot home;     // out of band
    Mask kept = 0; // of a truth: components of home that are hidden from the client, and that it keeps if it has them
};
using SeenWorld = std::vector<Seen>;
const Seen* find(const SeenWorld& world, NetId id);
Seen& find_or_add(SeenWorld& world, NetId id);
/// Whether it shows what it should, but for what it keeps.
bool same_on_wire(const SeenWorld& shown, const SeenWorld& truth);
std::string text(const SeenWorld& world);

} // namespace model
