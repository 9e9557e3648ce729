#pragma once
// One run: a world, a server, its clients, and the packets between them.
#include "tests/model/checks.hpp"
#include "tests/model/network.hpp"
#include "tests/model/server.hpp"

namespace model {

class Simulation {
public:
    /// `environment` must outlive the simulation.
    Simulation(const Setting& setting, Environment& environment, bool tracing);
    Simulation(const Simulation&) = delete;
    Simulation& operator=(const Simulation&) = delete;

    /// One tick: arrivals, then what `change_world` does to the world, then the server's tick, then the clients' acks.
    template <class Change>
    void run_tick(Change&& change_world) {
        begin_tick();
        change_world();
        end_tick();
    }
    /// Empty when each client shows what it should and the server knows it; else what differs, as a Violation's text.
    std::string difference() const;

    World& world() { return world_; }
    Network& network() { return network_; }
    Trace& trace() { return trace_; }
    Counters& counters() { return counters_; }
    Tick tick() const { return tick_; }

private:
    void begin_tick();
    void end_tick();
    void release_left_behind();

    Setting setting_;
    Counters counters_;
    Trace trace_;
    Context context_;
    World world_;
    Network network_;
    Server server_;
    Truth truth_;
    std::vector<Client> clients_;
    std::vector<Checks> checks_;
    Tick tick_ = 0;
};

/// How a run ended.
struct Outcome {
    std::string why; // empty: it kept all promises
    Counters counters;
    bool failed() const { return !why.empty(); }
};

} // namespace model
