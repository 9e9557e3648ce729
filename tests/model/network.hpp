#pragma once
// Packets under way. The environment decides what becomes of each.
#include "tests/model/setting.hpp"

namespace model {

struct Packet {
    Tick due = 0;
    int client = 0;
    Direction direction = Direction::to_client;
    Message message; // to the client
    Acks acks;       // to the server
};

class Network {
public:
    explicit Network(Environment& environment) : environment_(environment) {}

    /// Nothing of this client gets through, in either direction, up to this tick.
    void silence(int client, Tick until) { silent_until_[client] = until; }
    void end_silence() { silent_until_.fill(-1); }

    void send(Tick now, Packet packet);
    /// Takes what arrives at `now`, in any order.
    std::vector<Packet> arrivals(Tick now);

private:
    Environment& environment_;
    std::vector<Packet> under_way_;
    std::array<Tick, max_clients> silent_until_{-1, -1, -1};
};

} // namespace model
