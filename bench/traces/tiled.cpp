#include "bench/traces/tiled.hpp"
#include "bench/random.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <cmath>

namespace scenarios {

TiledTrace::TiledTrace(const Trace& trace, const TiledConfig& config) : trace_(trace), config_(config) {
    THRONG_ASSERT(trace.sample_count() > 0 && config.entity_count > 0);
    const std::uint32_t frames = trace.frame_count(), samples = trace.sample_count();
    next_row_.assign(samples, none);
    for (std::uint32_t f = 0; f + 1 < frames; ++f) {
        std::uint32_t b = trace.begin[f + 1];
        for (std::uint32_t a = trace.begin[f]; a < trace.begin[f + 1]; ++a) {
            while (b < trace.begin[f + 2] && trace.id[b] < trace.id[a])
                ++b;
            if (b < trace.begin[f + 2] && trace.id[b] == trace.id[a])
                next_row_[a] = b;
        }
    }
    cosine_.resize(samples);
    sine_.resize(samples);
    for (std::uint32_t i = 0; i < samples; ++i) {
        cosine_[i] = std::cos(trace.heading[i]);
        sine_[i] = std::sin(trace.heading[i]);
    }

    const TraceExtent e = extent(trace);
    center_x_ = (double(e.min_x) + e.max_x) / 2;
    center_y_ = (double(e.min_y) + e.max_y) / 2;
    const double edge = std::max({double(e.max_x) - e.min_x, double(e.max_y) - e.min_y, 1.0});
    // 2 % more than the average needs, so that the sum over tiles rarely falls under the count.
    const auto needed = static_cast<std::uint32_t>(std::ceil(config.entity_count * 1.02 / std::max(e.mean_present, 1e-3)));
    const std::uint32_t count = std::clamp(needed, 1u, config.entity_count * 2 + 1);
    auto columns = static_cast<std::uint32_t>(std::ceil(std::sqrt(static_cast<double>(count))));
    double pitch = edge + config.tile_gap_m;
    if (columns > 1)
        pitch = std::min(pitch, std::max(0.0, (2 * config.half_extent_m - edge) / (columns - 1)));
    half_edge_m_ = std::min(((columns - 1) * pitch + edge) / 2, config.half_extent_m);
    tiles_.resize(count);
    for (std::uint32_t t = 0; t < count; ++t) {
        Tile& tile = tiles_[t];
        tile.origin_x = (t % columns - (columns - 1) / 2.0) * pitch;
        tile.origin_z = (t / columns - (columns - 1) / 2.0) * pitch;
        // Whole frames: at the recording's own rate no interpolation is needed.
        tile.shift_s = trace.time_s[Random::at(config.seed, 0, t).below(frames)] - trace.time_s[0];
        tile.slots.assign(trace.entity_count, none);
        tile.leavers.reserve(e.most_present);
        tile.arrivals.reserve(e.most_present);
    }
    states_.resize(config.entity_count);
    present_.assign(config.entity_count, 0);
    free_.resize(config.entity_count);
    for (std::uint32_t s = 0; s < config.entity_count; ++s)
        free_[s] = s;
    free_count_ = config.entity_count;
    went_.reserve(config.entity_count);
    came_.reserve(config.entity_count);
}

// Finds the tile's place in the recording and who leaves and appears on the way there. Touches the tile only.
void TiledTrace::locate(Tile& tile, double time_s) {
    const double duration = trace_.duration_s() > 0 ? trace_.duration_s() : 1;
    const double total = time_s + tile.shift_s;
    auto loop = static_cast<std::uint64_t>(total / duration);
    // A time within a millionth of a frame before a frame counts as that frame: shifts and ticks are decimal fractions.
    const double slack = trace_.frame_s * 1e-6;
    double at = total - static_cast<double>(loop) * duration + slack;
    if (at >= duration) {
        at -= duration;
        ++loop;
    }
    const auto after = std::upper_bound(trace_.time_s.begin(), trace_.time_s.end(), trace_.time_s[0] + at);
    const auto frame = static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(after - trace_.time_s.begin() - 1, 0));
    tile.blend = 0;
    if (frame + 1 < trace_.frame_count()) {
        const double from = trace_.time_s[frame] - trace_.time_s[0], to = trace_.time_s[frame + 1] - trace_.time_s[0];
        const double blend = (at - slack - from) / (to - from);
        tile.blend = blend > 1e-5 ? static_cast<float>(blend) : 0.0f;
    }
    tile.leavers.clear();
    tile.arrivals.clear();
    tile.appear = 0;
    const std::uint32_t b = trace_.begin[frame], b_end = trace_.begin[frame + 1];
    if (loop != tile.loop || frame != tile.frame) {
        if (tile.loop != ~std::uint64_t(0)) {
            const std::uint32_t a = trace_.begin[tile.frame], a_end = trace_.begin[tile.frame + 1];
            std::uint32_t n = b;
            for (std::uint32_t o = a; o < a_end; ++o) {
                const std::uint32_t id = trace_.id[o];
                while (n < b_end && trace_.id[n] < id)
                    ++n;
                const bool stays = loop == tile.loop && n < b_end && trace_.id[n] == id;
                if (!stays && tile.slots[id] != none) {
                    tile.leavers.push_back(tile.slots[id]);
                    tile.slots[id] = none;
                }
            }
        }
        tile.loop = loop;
        tile.frame = frame;
    }
    for (std::uint32_t n = b; n < b_end; ++n)
        if (tile.slots[trace_.id[n]] == none)
            tile.arrivals.push_back(trace_.id[n]);
}

void TiledTrace::write(const Tile& tile) {
    const auto low = static_cast<float>(-config_.half_extent_m), high = static_cast<float>(config_.half_extent_m);
    for (std::uint32_t i = trace_.begin[tile.frame]; i < trace_.begin[tile.frame + 1]; ++i) {
        const std::uint32_t slot = tile.slots[trace_.id[i]];
        if (slot == none)
            continue;
        double x = trace_.x[i], y = trace_.y[i];
        float height = trace_.z[i], heading = trace_.heading[i], speed = trace_.speed[i], c = cosine_[i], s = sine_[i];
        const std::uint32_t j = tile.blend > 0 ? next_row_[i] : none;
        if (j != none) {
            const float t = tile.blend;
            x += (double(trace_.x[j]) - x) * t;
            y += (double(trace_.y[j]) - y) * t;
            height += (trace_.z[j] - height) * t;
            speed += (trace_.speed[j] - speed) * t;
            constexpr float turn = 6.28318530717958648f;
            float difference = trace_.heading[j] - heading;
            difference -= turn * std::floor(difference / turn + 0.5f);
            heading += difference * t;
            c += (cosine_[j] - c) * t;
            s += (sine_[j] - s) * t;
        }
        State& state = states_[slot];
        state.x = std::clamp(static_cast<float>(x - center_x_ + tile.origin_x), low, high);
        state.y = std::clamp(height, low, high);
        state.z = std::clamp(static_cast<float>(y - center_y_ + tile.origin_z), low, high);
        state.yaw = heading;
        state.vx = speed * c;
        state.vz = speed * s;
    }
}

void TiledTrace::advance(double time_s, throng::Executor& executor) {
    const auto count = static_cast<std::uint32_t>(tiles_.size());
    throng::for_ranges(executor, count, 4, [&](std::uint32_t begin, std::uint32_t end, std::uint32_t) {
        for (std::uint32_t t = begin; t < end; ++t)
            locate(tiles_[t], time_s);
    });
    went_.clear();
    came_.clear();
    for (const Tile& tile : tiles_) {
        for (const std::uint32_t slot : tile.leavers) {
            present_[slot] = 0;
            went_.push_back(slot);
            free_[(free_first_ + free_count_++) % config_.entity_count] = slot;
        }
    }
    for (Tile& tile : tiles_) {
        while (free_count_ > 0 && tile.appear < tile.arrivals.size()) {
            const std::uint32_t slot = free_[free_first_];
            free_first_ = (free_first_ + 1) % config_.entity_count;
            --free_count_;
            tile.slots[tile.arrivals[tile.appear++]] = slot;
            present_[slot] = 1;
            came_.push_back(slot);
        }
    }
    present_count_ = config_.entity_count - free_count_;
    throng::for_ranges(executor, count, 4, [&](std::uint32_t begin, std::uint32_t end, std::uint32_t) {
        for (std::uint32_t t = begin; t < end; ++t)
            write(tiles_[t]);
    });
}

} // namespace scenarios
