#pragma once
// The demo's world: the tiled recording, and what the demo adds to each vehicle.
#include "bench/scenarios.hpp"
#include "throng/protocol.hpp"
#include <string>
#include <vector>

namespace demo {

using throng::u32;
using throng::u64;
using throng::u8;

/// The vehicle ahead, in the same direction; null when the road is free.
struct Follows {
    throng::Entity leader;
};

/// What is written on a vehicle: its plate, and where it goes. An opaque component, so it travels as bytes.
struct Label {
    static constexpr u32 bytes_max = 47;
    u8 size_bytes = 0;
    char text[bytes_max] = {};
};

/// Texts that labels are made of, as a dictionary for zstd.
std::span<const std::byte> label_dictionary();

/// How many passengers ride in a vehicle. At any time, on any client, it shows as many.
struct Seats {
    static constexpr u8 count = 4;
    u8 taken = 0;
};

/// The scenario components, Follows, Seats and Label. finish() is the caller's.
void add_components(throng::Protocol& protocol);

/// Moves the vehicles by the recording; finds leaders, each vehicle's anew every two seconds; changes some labels.
/// Everything follows from the recording and the seed, for any executor.
class Traffic {
public:
    /// The trace must outlive this.
    Traffic(const scenarios::Trace& trace, u32 entity_count, u64 seed, u32 tick_hz);

    /// Spawns what is there at tick 0; call once.
    void populate(throng::World& world, throng::Executor& executor);
    void step(throng::World& world, throng::Executor& executor);

    /// The vehicle that client `client` of `clients` follows; null while it is not there. As players do, two of three gather in
    /// one place (they begin in the first tile); the others are spread evenly over the map.
    throng::Entity followed(u32 client, u32 clients) const;
    /// The vehicle in a slot of the tiles; null while nobody is in it.
    throng::Entity vehicle(u32 slot) const { return motion_.followed(slot, slot_count()); }
    u32 slot_count() const { return motion_.tiles().slot_count(); }
    u32 entity_count() const { return motion_.entity_count(); }
    u32 tile_count() const { return motion_.tiles().tile_count(); }
    double edge_m() const { return 2 * motion_.tiles().half_edge_m(); }

private:
    static constexpr u32 leader_ticks = 40; // between two searches for the same vehicle
    static constexpr float grid_m = 32;

    void dress(throng::World& world);
    void relabel(throng::World& world);
    void build_grid();
    void find_leaders(throng::World& world, u32 phase, u32 phases);
    u32 leader_of(u32 slot) const;
    u32 grid_axis(float metres) const;

    scenarios::TraceMotion motion_;
    u64 seed_;
    u64 tick_ = 0;
    u64 labels_made_ = 0;
    u32 grid_edge_ = 0;
    std::vector<u32> grid_begin_ = {}, grid_slots_ = {}; // [cell + 1], slots sorted by cell
};

} // namespace demo
