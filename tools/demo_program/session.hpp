#pragma once
// Server, clients and network of the demo: one tick at a time, and the check at the end.
#include "bench/verify.hpp"
#include "throng/client.hpp"
#include "throng/loopback.hpp"
#include "throng/server.hpp"
#include "tools/demo_program/options.hpp"
#include "tools/demo_program/passengers.hpp"
#include <array>
#include <memory>

namespace demo {

inline constexpr u32 tick_hz = 20;
inline constexpr u64 tick_us = 1'000'000 / tick_hz;

u64 thread_cpu_ns();
u64 wall_ns();

/// Sums over ticks.
struct Sums {
    u64 ticks = 0;
    std::array<throng::StageTime, throng::stage_count> stages = {};
    u64 cpu_ns = 0, wall_ns = 0;               // of the server's tick
    u64 world_wall_ns = 0;                     // moving the vehicles
    u64 clients_cpu_ns = 0, clients_wall_ns = 0; // receiving, applying and acknowledging
    u64 pairs = 0, sent_lanes = 0, keys = 0, encodes = 0;
    u64 bytes = 0;                             // heartbeats included
    u64 payload_bytes = 0, shared_bytes = 0, zstd_bytes = 0;
    u64 baseline_age = 0, delta_sections = 0;
    u64 hashes_equal = 0, hashes_different = 0;
    u64 unseen_honks = 0;                      // that named a vehicle which the client did not see any more, or which was gone
    u32 client_bytes_max = 0;
    u32 limits = 0;

    Sums& operator+=(const Sums& tick);
    double per_tick(u64 sum) const { return ticks ? static_cast<double>(sum) / static_cast<double>(ticks) : 0; }
};
inline double ratio(u64 part, u64 whole) { return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0; }

/// Horns, in all.
struct Horn {
    u64 sent = 0, heard_by_server = 0, unseen = 0, heard_by_clients = 0;
};

/// What a check says: `name` is empty when all is well.
struct Verdict {
    std::string name = {}, text = {};
    u64 entities = 0, components = 0; // compared, over all clients
    explicit operator bool() const { return name.empty(); }
};

class Session {
public:
    /// The trace must outlive this. Makes nothing yet.
    Session(const Options& options, const scenarios::Trace& trace, throng::Executor& executor);
    ~Session();

    void populate(); // the vehicles
    /// Server and clients, but those that join late. Empty, or what is wrong.
    std::string open();
    /// The late ones, a tenth of all.
    void connect_late() { connect(options_.clients); }
    /// One tick: the world moves, the server replicates, the clients apply. The figures are of this tick alone.
    const Sums& step() { return advance(true); }

    /// Perfect links and a world that stands still, until every client has confirmed everything and its state hash has been
    /// checked. `go_on(tick)` is asked after each tick; false ends it early, and so does the limit drain_ticks_max().
    template <class F>
    bool drain(F&& go_on) {
        begin_drain();
        for (u32 tick = 1; tick <= drain_ticks_max(); ++tick) {
            advance(false);
            if (drained())
                return true;
            if (!go_on(tick))
                return false;
        }
        return false;
    }
    u32 drain_ticks_max() const;
    u32 settled_clients() const;
    /// Walks every client's world. To be called after drain(), with its result.
    Verdict verify(bool drained);
    /// From now on one client hears nothing more (sabotage `stale`).
    void cut_off();

    const Traffic& traffic() const { return traffic_; }
    throng::Server& server() { return *server_; }
    const Sums& totals() const { return totals_; } // of step()
    const std::vector<double>& tick_ms() const { return tick_ms_; } // of step(): CPU of the busiest workers, stage by stage
    u32 joined_clients() const { return joined_; }
    u32 entities() const { return entities_; }
    u32 chunks() const { return chunks_; }
    throng::LinkCounters link_totals(throng::Direction direction) const { return network_->totals(direction); }
    double mean_visible() const; // entities that a client shows, on average
    u32 clients() const { return static_cast<u32>(peers_.size()); } // those connected
    const Passengers& passengers() const { return passengers_; }
    u32 purses_seen() const; // by their owners
    Horn horn() const;

private:
    struct Peer;
    struct Group;
    struct Horns;
    static constexpr u32 late_share = 10;
    static constexpr u32 none = 0xffffffffu;

    const Sums& advance(bool moving);
    void begin_drain();
    bool drained() const;
    void aim(Peer& peer);
    void connect(u32 count);
    void honk(Peer& peer) const;
    void run_clients(bool moving);
    std::string torn_cluster();
    std::string seen_purse() const;
    std::string lost_honk() const;
    std::string spoil();
    std::string first_difference(throng_verify::Verifier& verifier, std::string& name);
    u64 components_shown() const;

    Options options_;
    throng::Executor& executor_;
    Traffic traffic_;
    Passengers passengers_;
    throng::Protocol protocol_;
    throng::World world_;
    std::unique_ptr<throng::LoopbackNetwork> network_;
    std::unique_ptr<throng::Server> server_;
    std::unique_ptr<Horns> horns_;
    // Clients are dealt out to groups; a group runs on one worker at a time and shares one scratch.
    std::vector<std::unique_ptr<Group>> groups_;
    std::vector<std::unique_ptr<Peer>> peers_;
    throng::TimeUs now_us_ = 0;
    Sums last_ = {}, totals_ = {}, drain_totals_ = {};
    std::vector<double> tick_ms_ = {};
    u32 joined_ = 0, entities_ = 0, chunks_ = 0;
    u32 cut_off_ = none;
    throng::Tick still_since_ = 0;
    u64 unequal_encodes_tick_ = 0, unequal_encodes_ = 0, unequal_keys_ = 0; // the first tick with encodes != keys
};

} // namespace demo
