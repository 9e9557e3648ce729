#pragma once
// Random operations on the server's world.
#include "tests/sim/components.hpp"
#include "tests/sim/plan.hpp"
#include "tests/sim/truth.hpp"
#include <vector>

namespace throng_sim {

class Actions {
public:
    Actions(const Plan& plan, Random& random, throng::World& world, throng::Server& server, Truth& truth);

    void populate();
    /// Entities that move on their own.
    void motion(throng::Tick tick);
    /// Carries out an action on the world; false if it is none (then it is one on views or connections).
    bool perform(Action action);
    /// At times entities are paused, go on, or both in one tick; the replication of one that was destroyed while it was paused is ended.
    void pause();
    /// A Bond is made, changed or taken away. Draws from `random`.
    void bond(Random& random);
    /// A Badge is given, replaced in one of the ways there are, or taken away. Draws from `random`.
    void pin(Random& random);
    /// An entity with a signature is made, or takes the place of another one with the same signature in one tick, or one gets, changes or
    /// loses it. Returns the signature of what was made, or none. Draws from `random`.
    throng::SpawnSignature sign(Random& random);
    /// The entity is destroyed.
    void end_for_good(throng::Entity entity);
    /// The same as Action::despawn, of this one.
    void despawn(throng::Entity entity);
    throng::Entity any_entity();
    throng::Entity any_replicated();
    bool tracing = false;

private:
    throng::Entity spawn();
    void despawn_at(std::size_t index);
    void destroy(throng::Entity entity);
    void place(Place& place);
    void insert(throng::Entity entity, throng::u32 component);
    bool has(throng::Entity entity, throng::u32 component) const;
    void remove(throng::Entity entity, throng::u32 component);
    void change(throng::Entity entity, throng::u32 component);
    std::string text(bool large);
    /// Ends the replication of an entity, dead or alive.
    void end(throng::Entity entity);
    void give_again(throng::Entity entity);
    throng::u32 next_sequence() { return ++sequence_; }
    void trace(const char* what, throng::Entity entity) const;

    const Plan& plan_;
    Random& random_;
    throng::World& world_;
    throng::Server& server_;
    Truth& truth_;
    Random pauses_; // of its own: seeds keep what they drew without it
    std::vector<throng::Entity> all_;
    std::vector<throng::Entity> dead_; // a few: references may name them
    std::vector<throng::Entity> left_; // destroyed while they were paused
    throng::u32 sequence_ = 0;
    throng::u32 signatures_ = 0; // that are used once
};

} // namespace throng_sim
