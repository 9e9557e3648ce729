#pragma once
// Several worlds over one set of connections: each has a Server, a World and a Protocol of its own, and their ticks may run at the same
// time.
//
//     ServerMultiplexer worlds(network.server());
//     Server city(city_world, protocol, worlds.open(0)), dungeon(dungeon_world, protocol, worlds.open(1));
//     for (;;) {
//         worlds.poll(now);
//         // on one thread:                              and at the same time on another:
//         city.receive(now); ...; city.tick(now);        dungeon.receive(now); ...; dungeon.tick(now);
//         worlds.flush(now); // once both have ended
//     }
//
// A connection is up for all worlds. A client goes into a world, and out of it, by itself; each world numbers those that are in it from
// 0, so that its Server has room for them alone. What goes over a link is one byte longer a message, and does not depend on which
// world's tick was faster: flush hands each client's messages to the backend world by world.
//
// Thread rule of both multiplexers: their own calls come one at a time, and none comes during a call of a world's backend (so: not while
// its Server or Client receives, ticks or sends). Calls of different worlds' backends may overlap in any way; within a world,
// transport.hpp's rule holds.
#include "throng/executor.hpp"
#include "throng/memory.hpp"
#include "throng/transport.hpp"

namespace throng {

struct MultiplexerConfig {
    u32 worlds_max = 16; // 1..256; worlds are numbered from 0
    // Staged for one client of one world, until the flush; beyond these the world's backend refuses. Memory is kept at the most there was.
    u32 unreliable_bytes_max = 256u << 10; // after a flush of which the backend refused some: no more messages than it took, and a few more
                                           // (one, or an eighth) each time that all of so many went
    u32 reliable_bytes_max = 1u << 20;     // what the backend refuses of them stays, in order, and until it has taken that the world's
                                           // backend refuses, too
    u32 inbox_bytes_max = 1u << 20;        // arrived from one client for one world, or for one client, and not polled yet; beyond it
                                           // unreliable messages are dropped, and a reliable one ends the client's stay in the world
    Executor* executor = nullptr;          // of the server's flush, over connections; null: everything on the calling thread
    Allocator allocator = default_allocator();
};

/// Since the multiplexer was made.
struct MultiplexerStats {
    u64 malformed = 0; // messages that no multiplexer sends: dropped
    u64 stale = 0;     // messages for a world that the client, or the world, had left meanwhile: dropped
    u64 overflowed = 0; // messages beyond inbox_bytes_max: dropped
    u64 refused = 0;   // unreliable ones that the backend refused in flush: dropped
};

inline constexpr u32 multiplexer_worlds_limit = 256;
inline constexpr u32 multiplexer_streams_max = 255; // worlds that one client may be in at a time

/// The server's half: a ServerBackend a world.
class ServerMultiplexer {
public:
    /// The backend outlives this; nothing else uses it. Asserts on worlds_max.
    explicit ServerMultiplexer(ServerBackend& backend, const MultiplexerConfig& config = {});
    ~ServerMultiplexer();
    ServerMultiplexer(const ServerMultiplexer&) = delete;
    ServerMultiplexer& operator=(const ServerMultiplexer&) = delete;

    /// Lets clients into a world, and returns its backend: the same as before, if it has been open. Its largest message is one byte less
    /// than the backend's, its flush does nothing, its disconnect takes a client out of this world only. Clients in it are numbered from 0,
    /// by the lowest number that is free; their network ids are those of their connections.
    ServerBackend& open(u32 world);
    /// All clients leave the world, and nobody comes in until it is opened again. Its Server has ended, or is not used again.
    void close(u32 world);
    bool is_open(u32 world) const;

    /// Takes what has arrived, for the worlds to poll.
    void poll(TimeUs now);
    /// Hands what the worlds have sent to the backend, and flushes it. A client's worlds take turns in going first.
    void flush(TimeUs now);
    /// Closes a connection. Its worlds hear of it as if the client had left.
    void disconnect(ClientId connection);

    static constexpr ClientId nobody = 0xffffffff;
    /// The connection of a world's client, or nobody. Also from the world's thread, as in ServerEvents::on_hello.
    ClientId connection(u32 world, ClientId client) const;
    /// The client that a connection is in a world, or nobody.
    ClientId client(u32 world, ClientId connection) const;
    const MultiplexerStats& stats() const;

private:
    struct Impl;
    Impl* impl_;
};

/// The client's half: a ClientBackend a world, each for a Client of its own.
class ClientMultiplexer {
public:
    /// As of ServerMultiplexer; worlds_max is the server's, or less.
    explicit ClientMultiplexer(ClientBackend& backend, const MultiplexerConfig& config = {});
    ~ClientMultiplexer();
    ClientMultiplexer(const ClientMultiplexer&) = delete;
    ClientMultiplexer& operator=(const ClientMultiplexer&) = delete;

    /// Goes into a world, once there is a connection, and again with each connection to come, until leave() or until the world lets the
    /// client out. Its backend then reports on_connect; if the world is not open, on_disconnect follows. It refuses unordered messages
    /// until the world has sent something. Null: multiplexer_streams_max.
    ClientBackend* join(u32 world);
    /// Its backend reports on_disconnect. No effect on a world that the client is not in.
    void leave(u32 world);
    /// Whether it is in the world, or asks to be.
    bool is_in(u32 world) const;

    void poll(TimeUs now);
    void flush(TimeUs now);
    const MultiplexerStats& stats() const;

private:
    struct Impl;
    Impl* impl_;
};

} // namespace throng
