#pragma once
// A second, small world over the connections of a simulation with a multiplexer: a server, truth and clients of its own, that come and go
// by themselves. It has the same faults of links, and the same checks.
#include "bench/verify.hpp"
#include "tests/sim/actions.hpp"
#include "tests/sim/peer.hpp"
#include "throng/multiplexer.hpp"

namespace throng_sim {

class SecondWorld {
public:
    static constexpr throng::u32 number = 3; // of the multiplexer

    SecondWorld(throng::u64 seed, throng::Executor* executor, throng::ServerMultiplexer& worlds, Failure& failure);

    /// A connection is there, and ends. `dirty`: its links damage what they carry.
    void connect(throng::ClientMultiplexer& rooms, throng::ClientId connection, bool dirty);
    void disconnect(throng::ClientId connection);
    /// The server's half, between the multiplexer's poll and flush.
    const throng::TickReport& tick(throng::TimeUs now);
    /// The client's half, between those of its multiplexer.
    void receive(throng::ClientId connection, throng::TimeUs now);
    /// Nothing happens any more, and all come in.
    void heal();
    /// What clients lack; none: all show what they should.
    throng_verify::Difference difference();
    /// Whether late messages have arrived in this tick, or are still waited for.
    bool heard();
    throng::u64 checks() const;

private:
    struct Seat {
        throng::ClientMultiplexer* rooms;
        throng::ClientId connection;
        bool dirty;
        std::unique_ptr<Peer> peer; // null: it is not in this world
    };
    void act();
    void enter(Seat& seat);
    void drop(Seat& seat);
    void find_seats();

    Random random_;
    Plan plan_;
    Failure& failure_;
    throng::ServerMultiplexer& worlds_;
    std::unique_ptr<throng::Protocol> protocol_;
    throng::World world_;
    throng::Server server_;
    Truth truth_;
    Actions actions_;
    throng_verify::Verifier verifier_;
    std::vector<Seat> seats_;
    throng::u32 names_ = 1000;
    throng::u64 checks_ = 0;
    throng::Tick still_since_ = 0;
    bool healing_ = false;
};

} // namespace throng_sim
