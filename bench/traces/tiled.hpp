#pragma once
// A recording tiled to any number of entities: copies laid out side by side on the ground plane, each shifted in time.
//
// Rules. The world is y-up: world (x, y, z) = trace (x + tile, z, y + tile). Tiles form a square grid centred on 0, with
// tile_gap_m between the recordings, as many as entity_count needs (and a few more, so that the number present hardly falls
// under it); where they do not fit +-half_extent_m they overlap. Every tile loops over the recording from a start frame
// drawn from the seed. Whoever is in the recording at the tile's time is present; positions between two frames are
// interpolated. Who leaves the recording, and everyone when a tile's loop ends, goes away; who appears gets the slot
// that has been free the longest. With entity_count present, newcomers wait until somebody goes.
//
// Deterministic: the same trace, count, seed and times give the same events and the same values for any executor.
#include "bench/traces/trace.hpp"
#include "throng/executor.hpp"

namespace scenarios {

struct TiledConfig {
    std::uint32_t entity_count = 100'000; // at most so many at a time
    std::uint64_t seed = 1;
    double half_extent_m = 8'190;         // of the world, a little inside the wire's +-8,192 m
    double tile_gap_m = 20;
};

class TiledTrace {
public:
    static constexpr std::uint32_t none = 0xffffffffu;

    /// The trace must outlive this and have at least one sample. Allocates: here only.
    TiledTrace(const Trace& trace, const TiledConfig& config);
    TiledTrace(const TiledTrace&) = delete;
    TiledTrace& operator=(const TiledTrace&) = delete;

    /// Moves to `time_s` seconds after the start; must not go back. Fills went() and came() with the slots that changed
    /// hands (a slot may be in both: it went first), and the state of every present slot.
    void advance(double time_s, throng::Executor& executor);

    std::uint32_t slot_count() const { return config_.entity_count; }
    std::uint32_t tile_count() const { return static_cast<std::uint32_t>(tiles_.size()); }
    std::uint32_t present_count() const { return present_count_; }
    std::span<const std::uint32_t> went() const { return went_; }
    std::span<const std::uint32_t> came() const { return came_; }

    struct State {
        float x = 0, y = 0, z = 0; // metres, world axes
        float yaw = 0;             // radians from +x towards +z
        float vx = 0, vz = 0;      // metres a second
    };
    bool present(std::uint32_t slot) const { return present_[slot] != 0; }
    const State& state(std::uint32_t slot) const { return states_[slot]; }
    /// Half the edge of the square that holds all tiles, metres.
    double half_edge_m() const { return half_edge_m_; }

private:
    struct Tile {
        double origin_x = 0, origin_z = 0, shift_s = 0;
        std::uint64_t loop = ~std::uint64_t(0);
        std::uint32_t frame = 0;
        float blend = 0;
        std::uint32_t appear = 0;                  // how many of `arrivals` are used
        std::vector<std::uint32_t> slots = {};     // [trace id]
        std::vector<std::uint32_t> leavers = {}, arrivals = {}; // slots; trace ids
    };
    void locate(Tile& tile, double time_s);
    void write(const Tile& tile);

    const Trace& trace_;
    TiledConfig config_;
    double center_x_ = 0, center_y_ = 0, half_edge_m_ = 0;
    std::vector<std::uint32_t> next_row_ = {}; // [sample] same id one frame later, or none
    std::vector<float> cosine_ = {}, sine_ = {};
    std::vector<Tile> tiles_ = {};
    std::vector<State> states_ = {};
    std::vector<std::uint8_t> present_ = {};
    std::vector<std::uint32_t> free_ = {}; // ring of free slots
    std::uint32_t free_first_ = 0, free_count_ = 0, present_count_ = 0;
    std::vector<std::uint32_t> went_ = {}, came_ = {};
};

} // namespace scenarios
