#pragma once
// The client: a ring of versions for each chunk, the place of each entity, tombstones, and what it acks.
#include "tests/model/setting.hpp"

#include <map>

namespace model {

/// R7: the columns of one chunk as of `tick`. `carried[lane]` is the tick of the message that brought the lane's value.
struct ClientVersion {
    Tick tick = 0;
    Lanes lanes{};
    std::array<Tick, lane_count> carried{};
};

class ClientRing {
public:
    ClientRing(Context context, int cap) : context_(context), cap_(cap), versions_(1) {}

    const ClientVersion& live() const { return versions_.back(); }
    const ClientVersion& oldest() const { return versions_.front(); }
    /// The lane's state at the baseline, or null when the ring does not know it.
    const LaneValue* lookup(int lane, Tick baseline) const;
    /// Stores lanes at `tick`, and in each newer version up to the next one that carried the lane.
    void write(Tick tick, Mask mask, const Lanes& values);
    /// A section of the chunk named this baseline, whether or not it could be applied.
    void name(Tick baseline) { newest_named_ = std::max(newest_named_, baseline); }
    Tick newest_named() const { return newest_named_; }
    /// Drops versions that are older than the newest named baseline needs, and the oldest ones above the cap.
    void prune();

private:
    Context context_;
    int cap_;
    std::vector<ClientVersion> versions_; // oldest first, never empty
    Tick newest_named_ = 0;
};

class Client {
public:
    Client(Context context, int index);

    int index() const { return index_; }
    /// True when the message was new and young enough to be looked at.
    bool receive(const Message& message, Tick now);
    /// R5: redundant and unreliable. Empty when nothing came lately.
    Acks acks(Tick now) const;
    /// What a game on this client sees.
    SeenWorld shown() const;
    /// The newest tick that any chunk has state of.
    Tick newest_state_tick() const;
    /// Of the state shown in a lane.
    Tick carried_tick(Slot slot) const { return rings_[slot.chunk].live().carried[slot.lane]; }

private:
    struct Key {
        NetId id;
        Scope scope;
        friend auto operator<=>(const Key&, const Key&) = default;
    };
    struct Place {
        Slot slot;
        Tick tick = 0;
    };
    struct Decoded {
        bool applicable = true;
        Mask mask = 0; // lanes to write
        Lanes values{};
        bool full = false;
        std::array<Mask, lane_count> kept{}; // of a full one
    };
    Mask apply(const Message& message);
    Decoded decode(const Section& section, Tick tick);
    bool decode_lane(const Section& section, int lane, Tick tick, Decoded& out);
    bool shows_in_part(const Message& message) const;
    bool shadowed(NetId id, Scope scope, Tick tick) const;
    void commit(int chunk, Tick tick, const Decoded& decoded);
    void write_game(NetId id, Slot slot, const LaneValue* before, const Decoded& decoded);

    Context context_;
    int index_;
    std::vector<ClientRing> rings_;
    std::map<Key, Place> places_;    // R3
    std::map<Key, Tick> tombstones_; // R3
    std::map<NetId, std::array<Cell, 2>> game_; // components of home as the game has them: what is kept is nowhere else
    std::array<std::array<Mask, lane_count>, home_chunk_count> kept_{}; // of the entities in these lanes
    Tick newest_tick_ = 0;
    Tick last_received_ = -100;
    Acks results_; // most recently received last
};

} // namespace model
