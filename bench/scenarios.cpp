#include "bench/scenarios.hpp"
#include "bench/random.hpp"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace scenarios {

void add_components(throng::Protocol& protocol) {
    const throng::Range metres{-world_half_m, world_half_m, wire_step_m};
    const throng::Range speed{-velocity_limit_m_s, velocity_limit_m_s, wire_step_m};
    protocol.component<Position>("position")
        .field(&Position::x, metres)
        .field(&Position::y, metres)
        .field(&Position::z, metres)
        .spatial(&Position::x, &Position::z)
        .extrapolated_by(&Velocity::x, &Velocity::z);
    protocol.component<Heading>("heading").field(&Heading::yaw, throng::Angle{10});
    protocol.component<Velocity>("velocity").field(&Velocity::x, speed).field(&Velocity::z, speed);
    protocol.component<Vitals>("vitals").field(&Vitals::hp).field(&Vitals::state);
}

static constexpr Scenario synthetic(const char* name, u32 entities, u32 moving_percent, double vitals, float side_m, u32 clients,
                                    float radius_m, float cell_m, u32 budget_bytes = 0, bool join = false) {
    Scenario s;
    s.name = name, s.entities = entities, s.moving_percent = moving_percent, s.vitals_probability = vitals;
    s.side_m = side_m, s.clients = clients, s.radius_m = radius_m, s.cell_m = cell_m, s.budget_bytes = budget_bytes, s.join = join;
    return s;
}

static constexpr Scenario recorded(const char* name, const char* file, u32 entities, u32 clients, float radius_m, float cell_m,
                                   u32 tick_hz = 20) {
    Scenario s;
    s.name = name, s.source = Source::trace, s.trace_file = file;
    s.entities = entities, s.clients = clients, s.radius_m = radius_m, s.cell_m = cell_m, s.tick_hz = tick_hz;
    return s;
}

static constexpr Scenario table[] = {
    synthetic("dispersed", 100'000, 30, 0.02, 2746, 1000, 60, 64),
    synthetic("crowd", 2'000, 100, 0.02, 200, 1000, 400, 100),
    synthetic("crowd_budget", 2'000, 100, 0.02, 200, 1000, 400, 100, 1200),
    synthetic("many_clients", 100'000, 20, 0.02, 3363, 10'000, 60, 76),
    synthetic("idle", 100'000, 0, 0, 2746, 1000, 60, 64),
    synthetic("join", 100'000, 30, 0.02, 2746, 1000, 60, 64, 64'000 / 20, true), // 64 kB/s a client
    recorded("trace_city", "city_traffic.txt.zst", 100'000, 1000, 60, 64),
    recorded("trace_cubes", "cubes_s1.bin.zst", 901, 16, 1000, 100, 60),
    recorded("trace_pedestrians", "pedestrians_bo160.txt.zst", 20'000, 200, 15, 10, 16),
};

std::span<const Scenario> all_scenarios() { return table; }

const Scenario* find_scenario(const char* name) {
    for (const Scenario& s : table)
        if (std::strcmp(s.name, name) == 0)
            return &s;
    return nullptr;
}

u32 rtt_ticks(const Scenario& scenario, u64 seed, u32 client) {
    return scenario.rtt_ticks_min + Random::at(seed, 3, client).below(scenario.rtt_ticks_max - scenario.rtt_ticks_min + 1);
}

std::string traces_directory(const std::string& given, const std::string& source_root) {
    std::error_code ignored;
    const char* environment = std::getenv("THRONG_TRACES");
    const std::string candidate = !given.empty() ? given : environment && *environment ? environment : source_root + "/../shared/data";
    return std::filesystem::is_directory(candidate, ignored) ? candidate : std::string();
}

// --- the synthetic model. Map coordinates are [0, side]; the world's are shifted by half a side, so that it is centred on 0.

// Streams of random numbers: 0 and 1 for the start, 2 vitals, and one per tick for the movers.
static constexpr u64 stream_start = 0, stream_vitals = 2, stream_motion = 1u << 20;

static float ground_height(float x, float z) { return 10 + 2 * std::sin(0.05f * x) + 2 * std::cos(0.04f * z); }

void SyntheticMotion::populate(throng::World& world, throng::Executor&) {
    const float side = scenario_.side_m, half = side / 2;
    const u32 movers = scenario_.movers();
    entities_.reserve(scenario_.entities);
    world.reserve<Position>(scenario_.entities);
    for (u32 i = 0; i < scenario_.entities; ++i) {
        Random random = Random::at(seed_, stream_start, i);
        const float x = side * random.uniform(), z = side * random.uniform();
        const Position position{x - half, ground_height(x, z), z - half};
        const Vitals vitals{static_cast<u16>(1000 + random.below(4000)), 1};
        if (i < movers) {
            const Mover mover{i, 3 + 4 * random.uniform(), x, z};
            entities_.push_back(world.spawn(position, Heading{}, Velocity{}, vitals, throng::Replicated{}, mover));
        } else {
            entities_.push_back(world.spawn(position, Heading{}, Velocity{}, vitals, throng::Replicated{}));
        }
    }
}

static void move(Mover& mover, Position& position, Heading& heading, Velocity& velocity, float side, Random random) {
    constexpr float dt = 0.05f;
    const float half = side / 2;
    float x = position.x + half, z = position.z + half;
    float dx = mover.target_x - x, dz = mover.target_z - z;
    float distance = std::sqrt(dx * dx + dz * dz);
    if (distance < 2) {
        if (side > 500) {
            mover.target_x = std::clamp(x + random.uniform(-100, 100), 0.0f, side);
            mover.target_z = std::clamp(z + random.uniform(-100, 100), 0.0f, side);
        } else {
            mover.target_x = side * random.uniform();
            mover.target_z = side * random.uniform();
        }
        dx = mover.target_x - x;
        dz = mover.target_z - z;
        distance = std::sqrt(dx * dx + dz * dz);
    }
    const float pace = distance > 1e-3f ? mover.speed / distance : 0.0f;
    velocity.x += (dx * pace - velocity.x) * 0.2f + random.uniform(-0.05f, 0.05f);
    velocity.z += (dz * pace - velocity.z) * 0.2f + random.uniform(-0.05f, 0.05f);
    x = std::clamp(x + velocity.x * dt, 0.0f, side);
    z = std::clamp(z + velocity.z * dt, 0.0f, side);
    position = {x - half, ground_height(x, z), z - half};
    heading.yaw = std::atan2(velocity.z, velocity.x) + random.uniform(-0.025f, 0.025f);
}

void SyntheticMotion::step(throng::World& world, throng::Executor& executor) {
    ++tick_;
    const float side = scenario_.side_m;
    const u64 seed = seed_, tick = tick_;
    // Every mover moves in every tick (its velocity jitters), so marking all rows of this loop marks only what changes.
    if (scenario_.movers() > 0) {
        world.each_mut<Mover, Position, Heading, Velocity>(
            executor, [=](Mover& mover, Position& position, Heading& heading, Velocity& velocity) {
                move(mover, position, heading, velocity, side, Random::at(seed, stream_motion + tick, mover.index));
            });
    }
    if (scenario_.vitals_probability <= 0)
        return;
    throng::Pool<Vitals>& pool = world.pool<Vitals>();
    const auto threshold = static_cast<u32>(scenario_.vitals_probability * 4'294'967'296.0);
    throng::for_ranges(executor, pool.size() / 64 + (pool.size() % 64 != 0), 16, [&](u32 begin, u32 end, u32) {
        // Whole words of 64 rows: no two pieces write the same word of marks.
        for (u32 row = begin * 64; row < std::min(end * 64, pool.size()); ++row) {
            Random random = Random::at(seed ^ stream_vitals, tick, row);
            if (static_cast<u32>(random.next() >> 32) >= threshold)
                continue;
            Vitals& vitals = pool[row];
            const Vitals before = vitals;
            if (random.next() & 1)
                vitals.hp = static_cast<u16>(vitals.hp - random.below(50));
            else
                vitals.state = static_cast<u8>(random.below(12));
            if (vitals.hp != before.hp || vitals.state != before.state)
                pool.mark_changed_shared(row); // the summary word of a block is shared by its words
        }
    });
}

throng::Entity SyntheticMotion::followed(u32 client, u32 clients) const {
    const u32 of = scenario_.movers() > 0 ? scenario_.movers() : scenario_.entities;
    return entities_[static_cast<std::size_t>(u64(client) * of / clients)];
}

// --- recordings

TraceMotion::TraceMotion(const Trace& trace, const TiledConfig& config, u32 tick_hz)
    : tiles_(trace, config), tick_hz_(tick_hz), entities_(config.entity_count) {
    leaving_.reserve(config.entity_count);
}

void TraceMotion::exchange(throng::World& world) {
    leaving_.clear();
    for (const u32 slot : tiles_.went()) {
        leaving_.push_back(entities_[slot]);
        entities_[slot] = {};
    }
    world.destroy_batch(leaving_);
    for (const u32 slot : tiles_.came()) {
        const TiledTrace::State& s = tiles_.state(slot);
        entities_[slot] = world.spawn(Position{s.x, s.y, s.z}, Heading{s.yaw}, Velocity{s.vx, s.vz}, Vitals{1000, 1}, throng::Replicated{},
                                      TraceSlot{slot});
    }
}

void TraceMotion::populate(throng::World& world, throng::Executor& executor) {
    world.reserve<Position>(tiles_.slot_count());
    tiles_.advance(0, executor);
    exchange(world);
}

/// Writes a row if it differs; rows of one type are written by the thread that owns their entity.
template <class T>
static void write_if_changed(throng::World& world, throng::Pool<T>& pool, u32 entity_idx, u32 hint, const T& value) {
    // Rows of entities that are spawned with the same components stay at equal numbers in all pools; look up when not.
    const u32 row = hint < pool.size() && pool.owner(hint) == entity_idx ? hint : world.dense_index(entity_idx, pool.component());
    if (row == throng::no_row || std::memcmp(&pool[row], &value, sizeof value) == 0)
        return;
    pool[row] = value;
    pool.mark_changed_shared(row);
}

void TraceMotion::step(throng::World& world, throng::Executor& executor) {
    ++tick_;
    tiles_.advance(static_cast<double>(tick_) / tick_hz_, executor);
    exchange(world);
    throng::Pool<TraceSlot>& slots = world.pool<TraceSlot>();
    throng::Pool<Position>& positions = world.pool<Position>();
    throng::Pool<Heading>& headings = world.pool<Heading>();
    throng::Pool<Velocity>& velocities = world.pool<Velocity>();
    throng::for_ranges(executor, slots.size(), 1024, [&](u32 begin, u32 end, u32) {
        for (u32 row = begin; row < end; ++row) {
            const TiledTrace::State& s = tiles_.state(slots[row].slot);
            const u32 entity_idx = slots.owner(row);
            write_if_changed(world, positions, entity_idx, row, Position{s.x, s.y, s.z});
            write_if_changed(world, headings, entity_idx, row, Heading{s.yaw});
            write_if_changed(world, velocities, entity_idx, row, Velocity{s.vx, s.vz});
        }
    });
}

throng::Entity TraceMotion::followed(u32 client, u32 clients) const {
    return entities_[static_cast<std::size_t>(u64(client) * tiles_.slot_count() / clients)];
}

} // namespace scenarios
