#include "tools/demo_program/traffic.hpp"
#include "bench/random.hpp"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

using scenarios::Random;
using State = scenarios::TiledTrace::State;

namespace demo {
namespace {

constexpr u64 stream_label = 11, stream_relabel = 1u << 21;
constexpr const char* destinations[] = {"Central Station", "Harbour",   "Airport",  "Old Town", "University", "Stadium",
                                        "North Gate",      "Hospital",  "Museum",   "Zoo",      "West Park",  "Town Hall",
                                        "Market Square",   "Lakeside",  "Depot",    "Fairground"};

u32 write_label(const void* component, std::span<std::byte> out) {
    const Label& label = *static_cast<const Label*>(component);
    if (label.size_bytes <= out.size())
        std::memcpy(out.data(), label.text, label.size_bytes);
    return label.size_bytes;
}

throng::Error read_label(void* component, std::span<const std::byte> in) {
    Label& label = *static_cast<Label*>(component);
    if (in.size() > Label::bytes_max)
        return throng::Error::too_large;
    for (const std::byte byte : in)
        if (byte < std::byte(' ') || byte > std::byte('~'))
            return throng::Error::bad_value;
    label = {};
    label.size_bytes = static_cast<u8>(in.size());
    std::memcpy(label.text, in.data(), in.size());
    return throng::Error::none;
}

const char* any_destination(Random& random) { return destinations[random.below(std::size(destinations))]; }

void set_text(Label& label, const char* text, int size) {
    label = {};
    label.size_bytes = static_cast<u8>(std::clamp<int>(size, 0, Label::bytes_max));
    std::memcpy(label.text, text, label.size_bytes);
}

Label make_label(Random random) {
    const auto letter = [&] { return static_cast<int>('A' + random.below(26)); };
    const int a = letter(), b = letter();
    char text[Label::bytes_max + 1];
    Label label;
    set_text(label, text, std::snprintf(text, sizeof text, "TH-%c%c %u to %s", a, b, 100 + random.below(9900), any_destination(random)));
    return label;
}

/// Keeps the plate.
void change_destination(Label& label, Random& random) {
    const Label before = label;
    const char* const to = static_cast<const char*>(memmem(before.text, before.size_bytes, " to ", 4));
    char text[Label::bytes_max + 1];
    const int plate_bytes = to ? static_cast<int>(to - before.text) : 0;
    set_text(label, text, std::snprintf(text, sizeof text, "%.*s to %s", plate_bytes, before.text, any_destination(random)));
}

} // namespace

std::span<const std::byte> label_dictionary() {
    static const std::string text = [] {
        std::string all;
        for (const char* destination : destinations)
            all += std::string(" to ") + destination + "TH-";
        return all;
    }();
    return std::as_bytes(std::span(text.data(), text.size()));
}

void add_components(throng::Protocol& protocol) {
    scenarios::add_components(protocol);
    protocol.component<Follows>("follows").field(&Follows::leader);
    protocol.component<Seats>("seats").field(&Seats::taken);
    protocol.opaque<Label>("label", Label::bytes_max, write_label, read_label);
}

Traffic::Traffic(const scenarios::Trace& trace, u32 entity_count, u64 seed, u32 tick_hz)
    : motion_(trace, {.entity_count = entity_count, .seed = seed}, tick_hz), seed_(seed) {
    grid_edge_ = std::max(1u, static_cast<u32>(std::ceil(edge_m() / grid_m)));
    grid_begin_.resize(std::size_t(grid_edge_) * grid_edge_ + 1);
    grid_slots_.resize(motion_.tiles().slot_count());
}

throng::Entity Traffic::followed(u32 client, u32 clients) const {
    const u32 slots = slot_count();
    return client % 3 == 0 ? motion_.followed(client, clients) : vehicle(client % slots);
}

/// Gives those who came in this tick their own components.
void Traffic::dress(throng::World& world) {
    for (const u32 slot : motion_.tiles().came()) {
        const throng::Entity entity = vehicle(slot);
        world.add<Follows>(entity);
        world.add<Seats>(entity);
        world.add<Label>(entity, make_label(Random::at(seed_, stream_label, labels_made_++)));
    }
}

void Traffic::populate(throng::World& world, throng::Executor& executor) {
    motion_.populate(world, executor);
    world.reserve<Follows>(motion_.tiles().slot_count());
    world.reserve<Seats>(motion_.tiles().slot_count());
    world.reserve<Label>(motion_.tiles().slot_count());
    dress(world);
    build_grid();
    find_leaders(world, 0, 1);
}

void Traffic::step(throng::World& world, throng::Executor& executor) {
    ++tick_;
    motion_.step(world, executor);
    dress(world);
    relabel(world);
    const u32 phase = static_cast<u32>(tick_ % leader_ticks);
    if (phase == 0)
        build_grid();
    find_leaders(world, phase, leader_ticks);
}

/// A vehicle changes its destination about every two minutes.
void Traffic::relabel(throng::World& world) {
    const u32 slots = slot_count();
    Random random = Random::at(seed_, stream_relabel, tick_);
    for (u32 i = 0; i < slots / 2400 + (random.below(2400) < slots % 2400); ++i)
        if (Label* label = world.mut<Label>(vehicle(random.below(slots))))
            change_destination(*label, random);
}

// ------------------------------------------------------------------------------------------------------------ leaders

u32 Traffic::grid_axis(float metres) const {
    const float cell = (metres + static_cast<float>(motion_.tiles().half_edge_m())) / grid_m;
    return static_cast<u32>(std::clamp(cell, 0.0f, static_cast<float>(grid_edge_ - 1)));
}

/// The grid is up to two seconds old when it is used; the search looks at present positions, so what it misses is a leader
/// that drove into the neighbourhood meanwhile.
void Traffic::build_grid() {
    const scenarios::TiledTrace& tiles = motion_.tiles();
    std::fill(grid_begin_.begin(), grid_begin_.end(), 0);
    const auto cell_of = [&](u32 slot) {
        return std::size_t(grid_axis(tiles.state(slot).z)) * grid_edge_ + grid_axis(tiles.state(slot).x);
    };
    for (u32 slot = 0; slot < tiles.slot_count(); ++slot)
        if (tiles.present(slot))
            ++grid_begin_[cell_of(slot) + 1];
    for (std::size_t cell = 1; cell < grid_begin_.size(); ++cell)
        grid_begin_[cell] += grid_begin_[cell - 1];
    // Filled from the back, so that each begin ends up where it belongs.
    for (u32 slot = tiles.slot_count(); slot-- > 0;)
        if (tiles.present(slot))
            grid_slots_[--grid_begin_[cell_of(slot) + 1]] = slot;
    // begin[cell + 1] is now the begin of `cell`: shift by one.
    std::copy(grid_begin_.begin() + 1, grid_begin_.end(), grid_begin_.begin());
    grid_begin_.back() = tiles.present_count();
}

/// The nearest vehicle within 40 m ahead and 3 m to the sides that goes the same way, or `none`.
u32 Traffic::leader_of(u32 slot) const {
    const scenarios::TiledTrace& tiles = motion_.tiles();
    const State& self = tiles.state(slot);
    const float ahead_x = std::cos(self.yaw), ahead_z = std::sin(self.yaw);
    const float middle_x = self.x + 20 * ahead_x, middle_z = self.z + 20 * ahead_z;
    u32 found = scenarios::TiledTrace::none;
    float nearest = 40;
    for (u32 row = grid_axis(middle_z - 24); row <= grid_axis(middle_z + 24); ++row)
        for (u32 column = grid_axis(middle_x - 24); column <= grid_axis(middle_x + 24); ++column) {
            const std::size_t cell = std::size_t(row) * grid_edge_ + column;
            for (u32 i = grid_begin_[cell]; i < grid_begin_[cell + 1]; ++i) {
                const u32 other_slot = grid_slots_[i];
                if (other_slot == slot || !tiles.present(other_slot))
                    continue;
                const State& other = tiles.state(other_slot);
                const float dx = other.x - self.x, dz = other.z - self.z;
                const float along = dx * ahead_x + dz * ahead_z, across = dz * ahead_x - dx * ahead_z;
                if (along <= 0.5f || along >= nearest || std::abs(across) > 3 || std::cos(other.yaw - self.yaw) < 0.7f)
                    continue;
                nearest = along;
                found = other_slot;
            }
        }
    return found;
}

void Traffic::find_leaders(throng::World& world, u32 phase, u32 phases) {
    const scenarios::TiledTrace& tiles = motion_.tiles();
    for (u32 slot = phase; slot < tiles.slot_count(); slot += phases) {
        if (!tiles.present(slot))
            continue;
        const u32 ahead = leader_of(slot);
        const throng::Entity leader = ahead == scenarios::TiledTrace::none ? throng::Entity{} : vehicle(ahead);
        const throng::Entity entity = vehicle(slot);
        if (const Follows* follows = world.get<Follows>(entity); follows && follows->leader != leader)
            world.mut<Follows>(entity)->leader = leader;
    }
}

} // namespace demo
