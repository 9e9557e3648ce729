#pragma once
// The scenarios that benches, demo and tests share: what is in the world, how it moves, who watches it.
#include "bench/traces/tiled.hpp"
#include "throng/ecs.hpp"
#include "throng/executor.hpp"
#include "throng/protocol.hpp"
#include <memory>

namespace scenarios {

using throng::u16;
using throng::u32;
using throng::u64;
using throng::u8;

// --- components. Wire form: positions 1 cm in +-8,192 m, yaw 10 bit, velocity 12 bit at 1 cm/s, hp u16, state u8.
struct Position {
    float x = 0, y = 0, z = 0; // metres; x and z span the ground
};
struct Heading {
    float yaw = 0; // radians from +x towards +z
};
struct Velocity {
    float x = 0, z = 0; // metres a second
};
struct Vitals {
    u16 hp = 0;
    u8 state = 0;
};
inline constexpr double world_half_m = 8192, wire_step_m = 0.01, velocity_limit_m_s = 20.47;

/// Registers the four components, in this order, with Position spatial and extrapolated by Velocity. finish() is the caller's.
void add_components(throng::Protocol& protocol);

// Not replicated.
struct Mover {
    u32 index = 0;                  // names the entity's random numbers
    float speed = 0;                // metres a second
    float target_x = 0, target_z = 0; // metres, map coordinates
};
struct TraceSlot {
    u32 slot = 0;
};

// --- the table

enum class Source : u8 { synthetic, trace };

struct Scenario {
    const char* name = "";
    Source source = Source::synthetic;
    const char* trace_file = "";    // of trace scenarios, inside the traces directory
    u32 entities = 0;
    u32 moving_percent = 0;
    double vitals_probability = 0;  // an entity and tick
    float side_m = 0;               // of the square map; traces: 0
    u32 clients = 0;
    float radius_m = 0;
    float cell_m = 64;              // interest cell: 40 to 64 entities each where the map is that full
    u32 budget_bytes = 0;           // a client and tick; 0: none
    bool join = false;              // all clients join in one tick
    u32 tick_hz = 20;
    u32 rtt_ticks_min = 2, rtt_ticks_max = 6;
    double loss_percent = 2;        // each way
    u32 warmup_ticks = 200, measured_ticks = 100;
    u32 quick_warmup_ticks = 100, quick_measured_ticks = 20;

    u32 movers() const { return static_cast<u32>(u64(entities) * moving_percent / 100); }
    double tick_s() const { return 1.0 / tick_hz; }
};
std::span<const Scenario> all_scenarios();
/// Null when there is none of that name.
const Scenario* find_scenario(const char* name);
/// Fixed per client, uniform over the scenario's range.
u32 rtt_ticks(const Scenario& scenario, u64 seed, u32 client);
/// `given` if not empty, else $THRONG_TRACES, else ../shared/data beside the source root; empty when none is there.
std::string traces_directory(const std::string& given, const std::string& source_root);

// --- motion

/// Fills a world and moves it, one call a tick. Everything follows from the scenario and the seed, for any executor.
class Motion {
public:
    virtual ~Motion() = default;
    /// Spawns what is there at tick 0. Call once, on a world without scenario entities.
    virtual void populate(throng::World& world, throng::Executor& executor) = 0;
    /// One tick on. Marks the components that change and no others; may spawn and destroy.
    virtual void step(throng::World& world, throng::Executor& executor) = 0;
    /// The entity that client `client` of `clients` follows; null while it is not there (traces: another one may take its place,
    /// so ask again each tick).
    virtual throng::Entity followed(u32 client, u32 clients) const = 0;
    virtual u32 entity_count() const = 0;
};

/// The motion model of the synthetic scenarios.
class SyntheticMotion final : public Motion {
public:
    SyntheticMotion(const Scenario& scenario, u64 seed) : scenario_(scenario), seed_(seed) {}
    void populate(throng::World& world, throng::Executor& executor) override;
    void step(throng::World& world, throng::Executor& executor) override;
    throng::Entity followed(u32 client, u32 clients) const override;
    u32 entity_count() const override { return static_cast<u32>(entities_.size()); }

private:
    Scenario scenario_;
    u64 seed_;
    u64 tick_ = 0;
    std::vector<throng::Entity> entities_ = {};
};

/// A tiled recording. Client i follows the slot floor(i * slots / clients).
class TraceMotion final : public Motion {
public:
    /// The trace must outlive this.
    TraceMotion(const Trace& trace, const TiledConfig& config, u32 tick_hz);
    void populate(throng::World& world, throng::Executor& executor) override;
    void step(throng::World& world, throng::Executor& executor) override;
    throng::Entity followed(u32 client, u32 clients) const override;
    u32 entity_count() const override { return tiles_.present_count(); }
    const TiledTrace& tiles() const { return tiles_; }

private:
    void exchange(throng::World& world);
    TiledTrace tiles_;
    u32 tick_hz_;
    u64 tick_ = 0;
    std::vector<throng::Entity> entities_, leaving_ = {}; // [slot]
};

} // namespace scenarios
