#pragma once
// What was true at each tick: the server's replicated entities, reduced to fingerprints. Clients are compared with it message by message.
#include "tests/sim/components.hpp"
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace throng_sim {

/// The components with rules, as clients are to show them; null: absent.
struct Ruled {
    const Mood* mood = nullptr;
    bool exact = false; // by its other name
    const Birth* birth = nullptr;
    const Heat* heat = nullptr;
    bool armed = true; // the bundle of Ammo and Barrel is told
};
/// Presence and quantised values of the components of an entity but its references, a number each, 0 where one is absent.
inline constexpr throng::u32 component_count = 23;
struct Fingerprint {
    throng::u64 of[component_count] = {};
    static constexpr throng::u64 any = 2; // of one that cannot be told here
    /// Without those components that are not in `seen` (bits).
    Fingerprint only(throng::u32 seen) const;
    /// The first component of which `there` shows something else; component_count: none.
    throng::u32 difference(const Fingerprint& there) const;
};
/// Without `ruled`, with what the entity has itself: a client's entity. `told`: what goes from the server's build to the client's; the rest
/// is absent, and fields have their defaults.
Fingerprint fingerprint(const throng::World& world, throng::Entity entity, const Ruled* ruled = nullptr, const Build& told = {});
/// Which of them the client is meant to see.
throng::u32 seen_components(const throng::Server& server, throng::ClientId client, throng::Entity entity);
/// Which of them the client keeps although it does not see them.
throng::u32 kept_components(const throng::Client& client, throng::Entity entity);
/// An entity in words, for messages.
std::string describe(const throng::World& world, throng::Entity entity);
/// Sequence numbers of the sequenced components, 0 where one is absent.
void sequences(const throng::World& world, throng::Entity entity, throng::u32 (&out)[sequenced_components]);

struct EntityTruth {
    Fingerprint fingerprint;       // for clients of the server's build
    Fingerprint other_fingerprint; // for those of the other one
    const Fingerprint& told(bool other_build) const { return other_build ? other_fingerprint : fingerprint; }
    throng::NetId links[2];           // what the references name as of this tick
    throng::u64 link_ids[2] = {0, 0}; // the entity_id of the targets
    bool has_links = false;
    throng::NetId parent; // the same of ChildOf
    throng::u64 parent_id = 0;
    bool left_behind = false;
    bool paused = false; // and as it was then
    throng::u32 place = 0;
    throng::u64 cluster = 0; // net id of the root of the cluster that it goes with; 0: none
};

class Truth {
public:
    /// Of the server, and of clients that have another one; null: none have.
    Truth(const Build& server_build = {}, const Build* other_build = nullptr) : server_build_(server_build) {
        if (other_build)
            other_told_ = both(server_build, *other_build);
    }
    /// Call after Server::tick. `torn`: clusters larger than a message went apart in it, so none are recorded.
    void record(const throng::World& world, throng::Server& server, bool torn = false);
    /// Null if there was no such entity at that tick.
    const EntityTruth* find(throng::Tick tick, throng::NetId id) const;
    /// All that went with the root at that tick.
    const std::vector<throng::NetId>& cluster(throng::Tick tick, throng::u64 root) const;
    /// The entity is destroyed without Replicated: clients that have it keep it, as of the next tick on, as it was at the last one.
    void leave_behind(throng::Entity entity);
    /// end_replication was called for it.
    void end(throng::Entity entity);
    /// Whether that was done since the last tick.
    bool ends_now(throng::Entity entity) const;
    /// What clients may still have of them.
    const std::vector<throng::NetId>& left_behind() const { return left_behind_; }
    /// Whether it had been left behind by that tick, and not ended.
    bool left_behind(throng::Tick tick, throng::NetId id) const;
    /// The server's entity that had the net id; 0: none ever had.
    throng::u64 entity_id_of(throng::NetId id) const;

private:
    Ruled choose(const throng::World& world, throng::Server& server, throng::Entity entity, throng::NetId id, bool& birth_open);

    Build server_build_;
    std::optional<Build> other_told_;
    Mood mood_; // of the last choice
    struct ToldBirth {
        throng::NetId id;
        throng::u32 place = 0;
        Birth birth;
        bool open = false; // it lost its lane for want of room, and may have got one in the same tick: then the value is taken again
    };
    std::unordered_map<throng::u64, ToldBirth> births_; // entity_id -> what clients get of it
    std::vector<throng::u64> leaving_, ended_;          // entity ids, since the last tick
    std::vector<throng::NetId> left_behind_;
    throng::Tick first_ = 0; // tick of ticks_[0]
    std::vector<std::unordered_map<throng::u64, EntityTruth>> ticks_;
    std::vector<std::unordered_map<throng::u64, std::vector<throng::NetId>>> clusters_; // by tick, by root
    std::unordered_map<throng::u64, throng::u64> entity_ids_;                           // net id -> entity_id
};

} // namespace throng_sim
