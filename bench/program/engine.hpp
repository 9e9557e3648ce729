#pragma once
// An engine with a world, links and clients of its own, as the bench program drives it. Several advance side by side, tick by tick, so that
// what the machine does meanwhile, and what clients leave in the caches, meets all of them alike: ratios between them are then worth
// more than their times.
#include "bench/program/setup.hpp"
#include <memory>

namespace bench {

class Engine {
public:
    virtual ~Engine() = default;
    /// Makes the clients' links.
    virtual void connect() = 0;
    /// A tick is these three, in this order.
    virtual void move_world() = 0;
    virtual void serve() = 0; // what is measured
    virtual void drive_clients() = 0;
    void tick() {
        move_world();
        serve();
        drive_clients();
    }
    /// Ticks after this are counted together.
    virtual void open_window(u32 ticks) = 0;
    /// The figures of the ticks since open_window.
    virtual scenarios::Run close_window() = 0;
    /// Whether all work from here on is done by one worker; the bytes are the same.
    virtual void work_alone(bool alone) = 0;
    /// A scenario that measures something else than steady windows: runs it, and returns true.
    virtual bool run_whole(scenarios::Run&, bool& /*failed*/) { return false; }
    /// After the last window: figures of the whole run, and checks. Prints what is wrong and sets `failed`.
    virtual void finish(scenarios::Run& run, bool& failed) = 0;
};

/// Null, with a line on stderr, if it cannot run.
std::unique_ptr<Engine> make_throng_engine(const Options& options);
std::unique_ptr<Engine> make_naive_engine(const Options& options);

} // namespace bench
