#include "tests/model/network.hpp"

#include <algorithm>

namespace model {

void Network::send(Tick now, Packet packet) {
    if (silent_until_[packet.client] >= now)
        return;
    const Deliveries fate = environment_.deliveries(packet.direction);
    for (int i = 0; i < fate.copies; ++i) {
        packet.due = now + fate.delays[i];
        under_way_.push_back(packet);
    }
}

std::vector<Packet> Network::arrivals(Tick now) {
    const auto due = std::stable_partition(under_way_.begin(), under_way_.end(), [&](const Packet& packet) { return packet.due > now; });
    std::vector<Packet> arrived(std::make_move_iterator(due), std::make_move_iterator(under_way_.end()));
    under_way_.erase(due, under_way_.end());
    environment_.shuffle(arrived);
    return arrived;
}

} // namespace model
