#pragma once
// Who rides in the vehicles, and what their owners earn. A passenger has no place of its own: it is related to its vehicle, so that
// both are shown, change and go together. What an owner earns only the owner sees.
#include "bench/random.hpp"
#include "tools/demo_program/traffic.hpp"

namespace demo {

/// Component of a passenger. Related: the passenger and the vehicle are one cluster.
struct Ride {
    throng::Entity vehicle;
};
/// Component of a vehicle that a client owns, for that client alone.
struct Purse {
    u32 cents = 0;
};

/// A client sounds its horn at the vehicle ahead of its own ...
struct Honk {
    throng::Entity vehicle;
};
/// ... and everybody who sees that one hears it.
struct Honked {
    throng::Entity vehicle;
};

/// The components and messages above. finish() is the caller's.
void add_passengers(throng::Protocol& protocol);

/// Passengers get on and off. Everything follows from the seed.
class Passengers {
public:
    /// The traffic must outlive this.
    Passengers(const Traffic& traffic, u64 seed) : traffic_(traffic), seed_(seed) {}

    /// After Traffic::step: those whose vehicle has left go with it, some others get off, others get on.
    void step(throng::World& world);
    u32 riding() const { return static_cast<u32>(rides_.size()); }
    u64 rides() const { return rides_begun_; } // since the start

private:
    static constexpr u32 vehicles_each = 50; // for so many vehicles, one passenger
    static constexpr u32 ticks_min = 100, ticks_max = 500, fare_cents = 250;
    struct Passenger {
        throng::Entity entity, vehicle;
        u64 until = 0;
    };
    void get_on(throng::World& world, scenarios::Random& random);

    const Traffic& traffic_;
    u64 seed_;
    u64 tick_ = 0, rides_begun_ = 0;
    std::vector<Passenger> rides_ = {};
};

/// Looks for vehicles that show another number of passengers than their Seats say: a state that the server never had.
class SeatCount {
public:
    /// Empty, or the first of them.
    std::string check(const throng::World& world);

private:
    std::vector<u8> shown_ = {}; // by entity_idx of the vehicle
};

} // namespace demo
