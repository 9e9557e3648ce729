#pragma once
// The game world on the server: who lives where, with which components, and who may see it.
#include "tests/model/values.hpp"

namespace model {

enum Component : std::uint8_t { pos, vel, hp }; // hp is owner-only: it lives in the owner's sidecar chunk (R1)
constexpr int all_components = 3;

struct Entity {
    NetId id;
    int owner = -1; // client, or nobody
    Slot home;
    Slot side; // none while it has no hp
    std::array<Cell, all_components> cells{};
    Mask hidden_from = 0; // clients
};

class World {
public:
    World(int clients, bool sidecars) : clients_(clients), sidecars_(sidecars) { interest_.fill(bit(home_chunk_count) - 1); }

    // Structure. `at` must be a free lane.
    NetId spawn(int index, Slot at, int owner); // -1: no owner
    void despawn(NetId id);
    void move(NetId id, Slot to);
    /// Inserting hp needs an owner and a free lane in its sidecar chunk; in a world without sidecars it does nothing.
    void insert(NetId id, Component component, int value, int side_lane = 0);
    void remove(NetId id, Component component);
    void set(NetId id, Component component, int value);

    void toggle_hidden(NetId id, int client) { entity(id).hidden_from ^= bit(client); }
    void toggle_interest(int client, int chunk) { interest_[client] ^= bit(chunk); }

    const std::vector<Entity>& entities() const { return entities_; }
    const Entity* find(NetId id) const;
    bool index_in_use(int index) const;
    bool is_free(Slot slot) const { return !occupants_[slot.chunk][slot.lane]; }
    Mask free_lanes(int chunk) const;
    NetId occupant(int chunk, int lane) const { return occupants_[chunk][lane]; }
    /// Who last moved out of the lane to another one.
    NetId departed(int chunk, int lane) const { return departed_[chunk][lane]; }

    LaneValue lane_value(int chunk, int lane) const;
    Mask visible(int client, int chunk) const;
    SeenWorld seen_by(int client) const;

private:
    Entity& entity(NetId id);
    Cell cell(bool present, int value, int counter) { return {present, value, counter & 3, ++sequence_}; }
    void release(Slot slot) { occupants_[slot.chunk][slot.lane] = {}; }

    int clients_;
    bool sidecars_;
    int sequence_ = 0;
    std::vector<Entity> entities_;
    std::array<int, 16> generations_{};
    std::array<std::array<NetId, lane_count>, max_chunks> occupants_{}, departed_{};
    std::array<Mask, max_clients> interest_{}; // home chunks in sight of each client
};

} // namespace model
