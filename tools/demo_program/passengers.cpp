#include "tools/demo_program/passengers.hpp"
#include "tools/demo_program/text.hpp"
#include <algorithm>

using scenarios::Random;

namespace demo {
namespace {
constexpr u64 stream_rides = 1u << 22;
} // namespace

void add_passengers(throng::Protocol& protocol) {
    protocol.component<Ride>("ride").field(&Ride::vehicle).related(&Ride::vehicle);
    protocol.component<Purse>("purse").field(&Purse::cents).audience(throng::Audience::owner);
    protocol.message<Honk>("honk", {.channel = throng::Channel::unordered, .route = throng::Route::to_server}).field(&Honk::vehicle);
    protocol.message<Honked>("honked", {.channel = throng::Channel::unordered}).field(&Honked::vehicle);
}

void Passengers::get_on(throng::World& world, Random& random) {
    const throng::Entity vehicle = traffic_.vehicle(random.below(traffic_.slot_count()));
    Seats* const seats = world.mut<Seats>(vehicle);
    if (!seats || seats->taken == Seats::count)
        return;
    ++seats->taken;
    const throng::Entity passenger = world.spawn(Ride{vehicle}, throng::Replicated{});
    rides_.push_back({passenger, vehicle, tick_ + ticks_min + random.below(ticks_max - ticks_min)});
    ++rides_begun_;
}

void Passengers::step(throng::World& world) {
    ++tick_;
    for (std::size_t i = 0; i < rides_.size();) {
        const Passenger passenger = rides_[i];
        const bool vehicle_left = !world.has<Seats>(passenger.vehicle);
        if (!vehicle_left && tick_ < passenger.until) {
            ++i;
            continue;
        }
        if (!vehicle_left) {
            --world.mut<Seats>(passenger.vehicle)->taken;
            if (Purse* const purse = world.mut<Purse>(passenger.vehicle))
                purse->cents += fare_cents;
        }
        world.destroy(passenger.entity);
        rides_[i] = rides_.back();
        rides_.pop_back();
    }
    Random random = Random::at(seed_, stream_rides, tick_);
    const std::size_t wanted = traffic_.slot_count() / vehicles_each;
    for (std::size_t missing = wanted - std::min(wanted, rides_.size()); missing > 0; --missing)
        get_on(world, random);
}

std::string SeatCount::check(const throng::World& world) {
    shown_.assign(world.entity_slots(), 0);
    world.each<Ride>([&](const Ride& ride) {
        if (ride.vehicle)
            ++shown_[ride.vehicle.entity_idx];
    });
    std::string found;
    world.each<Seats>([&](throng::Entity vehicle, const Seats& seats) {
        if (!found.empty() || seats.taken == shown_[vehicle.entity_idx])
            return;
        found = text_of("entity %u shows %u passengers, and says that it has %u", vehicle.entity_idx,
                        unsigned(shown_[vehicle.entity_idx]), unsigned(seats.taken));
    });
    return found;
}

} // namespace demo
