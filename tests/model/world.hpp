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
    /// By client: components of home that it does not see, and of which it keeps what it has while it does not.
    std::array<Mask, max_clients> unseen{}, keeps{};
    std::array<std::array<int, 2>, max_clients> mask_sequences{}; // out of band: when a component was hidden or shown last
    bool paused = false; // nothing is told of it
    struct Told {        // as it was at the end of the last tick in which it was not paused
        Slot home, side;
        std::array<Cell, all_components> cells{};
        std::array<Mask, max_clients> unseen{}, keeps{};
        std::array<std::array<int, 2>, max_clients> mask_sequences{};
        std::array<Mask, scope_count> visible_to{}; // clients, by scope of the slot
    } told;
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

    void hide_component(NetId id, int client, Mask unseen, Mask keeps);
    /// Only of one that is as it was at the end of the last tick, as far as its slots go.
    bool can_pause(NetId id) const;
    void pause(NetId id) { entity(id).paused = true; }
    void resume(NetId id) { entity(id).paused = false; }
    /// Of a paused entity: clients that see it go on doing so. Its lanes stay taken until release_left_behind, if `keep_lanes`.
    void leave_behind(NetId id, bool keep_lanes);
    const std::vector<Entity>& left_behind() const { return left_behind_; }
    void release_left_behind(NetId id);
    /// After the server's tick.
    void end_tick();

    void toggle_hidden(NetId id, int client) { entity(id).hidden_from ^= bit(client); }
    void toggle_interest(int client, int chunk) { interest_[client] ^= bit(chunk); }

    const std::vector<Entity>& entities() const { return entities_; }
    const Entity* find(NetId id) const;
    /// Also of those left behind.
    const Entity* find_told(NetId id) const;
    bool index_in_use(int index) const;
    bool is_free(Slot slot) const { return !occupants_[slot.chunk][slot.lane]; }
    Mask free_lanes(int chunk) const;
    NetId occupant(int chunk, int lane) const { return occupants_[chunk][lane]; }
    /// Who last moved out of the lane to another one.
    NetId departed(int chunk, int lane) const { return departed_[chunk][lane]; }

    /// What there is to be told of a lane; of a paused entity what it was, unless `captures_paused`.
    LaneValue lane_value(int chunk, int lane, bool captures_paused = false) const;
    /// Components of home in the lane that the client does not see, and those that it keeps.
    Mask unseen(int client, int chunk, int lane) const;
    Mask kept(int client, int chunk, int lane) const;
    /// The value without what the client does not see.
    LaneValue seen_of(int client, int chunk, int lane, LaneValue value) const;
    Mask paused(int chunk) const; // lanes
    /// Lanes in the client's sight, paused or not.
    Mask visible(int client, int chunk) const;
    SeenWorld seen_by(int client) const;

private:
    Entity& entity(NetId id);
    const Entity* at(int chunk, int lane) const;
    LaneValue value_of(const Entity& entity, int chunk, bool told) const;
    static LaneValue without_unseen(const Entity& entity, int client, int chunk, LaneValue value);
    Cell cell(bool present, int value, int counter) { return {present, value, counter & 3, ++sequence_}; }
    void release(Slot slot) { occupants_[slot.chunk][slot.lane] = {}; }

    int clients_;
    bool sidecars_;
    int sequence_ = 0;
    std::vector<Entity> entities_, left_behind_;
    std::array<int, 16> generations_{};
    std::array<std::array<NetId, lane_count>, max_chunks> occupants_{}, departed_{};
    std::array<Mask, max_clients> interest_{}; // home chunks in sight of each client
};

} // namespace model
