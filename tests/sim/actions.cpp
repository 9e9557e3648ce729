#include "tests/sim/actions.hpp"
#include "src/server/state.hpp"
#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace throng;

namespace throng_sim {
namespace {
enum Component : u32 {
    place_component,
    speed_component,
    vitals_component,
    facing_component,
    link_component,
    note_component,
    component_kinds
};
}

Actions::Actions(const Plan& plan, Random& random, World& world, Server& server, Truth& truth)
    : plan_(plan), random_(random), world_(world), server_(server), truth_(truth), pauses_(plan.seed ^ 0x9a05) {}

void Actions::trace(const char* what, Entity entity) const {
    if (tracing)
        std::printf("          world: %s slot %u id %llu\n", what, entity.entity_idx, static_cast<unsigned long long>(entity.entity_id));
}

void Actions::place(Place& p) {
    p.x = static_cast<float>(random_.between(-plan_.spread, plan_.spread));
    p.z = static_cast<float>(random_.between(-plan_.spread, plan_.spread));
    p.y = random_.between(-5, 5);
    p.seq = next_sequence();
}

std::string Actions::text(bool large) {
    const u32 length = large ? static_cast<u32>(random_.range(1000, static_cast<int>(note_bytes_max) + 100)) : random_.below(40);
    std::string out;
    const u32 alphabet = random_.chance(0.5) ? 3 : 90; // some compress well
    for (u32 i = 0; i < length; ++i)
        out += static_cast<char>('!' + random_.below(alphabet));
    return out;
}

Entity Actions::any_entity() {
    return all_.empty() ? Entity{} : all_[random_.below(static_cast<u32>(all_.size()))];
}

Entity Actions::any_replicated() {
    for (u32 attempt = 0; attempt < 8; ++attempt)
        if (const Entity entity = any_entity(); entity && world_.has<Replicated>(entity))
            return entity;
    return {};
}

Entity Actions::spawn() {
    if (all_.size() >= plan_.entities_max)
        return {};
    const Entity entity = world_.create();
    const bool replicated_first = random_.chance(0.5);
    const bool replicated = random_.chance(plan_.replicated_share);
    if (replicated && replicated_first)
        world_.add<Replicated>(entity);
    constexpr double share[component_kinds] = {0.95, 0.7, 0.5, 0.4, 0.25, 0.15};
    for (u32 c = 0; c < component_kinds; ++c)
        if (random_.chance(share[c]))
            insert(entity, c);
    if (replicated && !replicated_first)
        world_.add<Replicated>(entity);
    all_.push_back(entity);
    trace("spawn", entity);
    return entity;
}

void Actions::despawn_at(std::size_t index) {
    const Entity entity = all_[index];
    all_[index] = all_.back();
    all_.pop_back();
    trace("despawn", entity);
    const bool paused = !world_.has<Replicated>(entity) && server_.state().slot_of(entity);
    const u32 how = paused ? pauses_.below(5) : 0;
    if (how == 1)
        end(entity);
    if (how == 2)
        world_.add<Replicated>(entity); // it goes on, and clients lose it
    if (!world_.has<Replicated>(entity)) {
        truth_.leave_behind(entity);
        left_.push_back(entity);
    }
    destroy(entity);
    if (how == 3)
        end(entity);
    dead_.push_back(entity);
    if (dead_.size() > 8)
        dead_.erase(dead_.begin());
}

/// With its children, and theirs.
void Actions::destroy(Entity entity) {
    world_.each_descendant<ChildOf>(entity, [&](Entity child) {
        if (world_.has<Replicated>(child))
            return;
        truth_.leave_behind(child);
        left_.push_back(child);
    });
    const bool alone = world_.source_count<ChildOf>(entity) == 0;
    world_.destroy(entity);
    if (!alone)
        std::erase_if(all_, [&](Entity one) { return !world_.alive(one); });
}

void Actions::despawn(Entity entity) {
    if (const auto at = std::find(all_.begin(), all_.end(), entity); at != all_.end())
        despawn_at(static_cast<std::size_t>(at - all_.begin()));
}

void Actions::end_for_good(Entity entity) {
    end(entity);
    destroy(entity);
    std::erase(all_, entity);
}

void Actions::end(Entity entity) {
    (void)server_.end_replication(entity);
    truth_.end(entity);
    trace("end", entity);
}

/// In one tick: another entity for clients.
void Actions::give_again(Entity entity) {
    if (pauses_.chance(0.3))
        world_.remove<Replicated>(entity);
    end(entity);
    world_.add<Replicated>(entity);
    if (pauses_.chance(0.3)) {
        world_.remove<Replicated>(entity);
        world_.add<Replicated>(entity);
    }
    trace("rereplicate", entity);
}

void Actions::pause() {
    if (!pauses_.chance(plan_.pause_chance))
        return;
    for (u32 left = 1 + pauses_.below(4); left > 0; --left) {
        const u32 slot = pauses_.below(std::max(1u, world_.entity_slots()));
        const Entity entity = slot < world_.entity_slots() ? world_.entity_at(slot) : Entity{};
        const bool replicated = world_.has<Replicated>(entity);
        if (!world_.alive(entity) || entity == server_.resource_entity() || (!replicated && !server_.state().slot_of(entity)))
            continue;
        if (!replicated)
            world_.add<Replicated>(entity);
        if (replicated || pauses_.chance(0.2))
            world_.remove<Replicated>(entity);
        if (replicated && pauses_.chance(0.1))
            world_.add<Replicated>(entity);
        trace(world_.has<Replicated>(entity) ? "resume" : "pause", entity);
    }
    if (!left_.empty() && pauses_.chance(0.1)) {
        const std::size_t index = pauses_.below(static_cast<u32>(left_.size()));
        end(left_[index]);
        left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(index));
    }
}

void Actions::populate() {
    for (u32 i = 0; i < plan_.entities_first; ++i)
        spawn();
}

bool Actions::has(Entity entity, u32 component) const {
    switch (component) {
    case place_component:
        return world_.has<Place>(entity);
    case speed_component:
        return world_.has<Speed>(entity);
    case vitals_component:
        return world_.has<Vitals>(entity);
    case facing_component:
        return world_.has<Facing>(entity);
    case link_component:
        return world_.has<Link>(entity);
    default:
        return world_.has<Note>(entity);
    }
}

void Actions::insert(Entity entity, u32 component) {
    switch (component) {
    case place_component:
        world_.add<Place>(entity);
        break;
    case speed_component:
        world_.add<Speed>(entity);
        break;
    case vitals_component:
        world_.add<Vitals>(entity);
        break;
    case facing_component:
        world_.add<Facing>(entity);
        break;
    case link_component:
        world_.add<Link>(entity);
        break;
    default:
        world_.add<Note>(entity);
    }
    change(entity, component);
}

void Actions::remove(Entity entity, u32 component) {
    switch (component) {
    case place_component:
        world_.remove<Place>(entity);
        break;
    case speed_component:
        world_.remove<Speed>(entity);
        break;
    case vitals_component:
        world_.remove<Vitals>(entity);
        break;
    case facing_component:
        world_.remove<Facing>(entity);
        break;
    case link_component:
        world_.remove<Link>(entity);
        break;
    default:
        world_.remove<Note>(entity);
    }
}

void Actions::change(Entity entity, u32 component) {
    switch (component) {
    case place_component:
        if (Place* p = world_.mut<Place>(entity)) {
            if (p->seq == 0)
                place(*p);
            p->x += static_cast<float>(random_.between(-3, 3));
            p->z += static_cast<float>(random_.between(-3, 3));
            p->seq = next_sequence();
        }
        break;
    case speed_component:
        if (Speed* speed = world_.mut<Speed>(entity)) {
            speed->x = static_cast<float>(random_.between(-12, 12));
            speed->z = static_cast<float>(random_.between(-25, 25)); // some beyond the Range
        }
        break;
    case vitals_component:
        if (Vitals* vitals = world_.mut<Vitals>(entity)) {
            vitals->hp = random_.chance(0.1) ? static_cast<int>(random_.next()) : vitals->hp + random_.range(-50, 50);
            vitals->angry = random_.chance(0.5);
            vitals->state = static_cast<u8>(random_.below(256));
            vitals->score = random_.chance(0.1) ? static_cast<i64>(random_.next()) : vitals->score + 1;
            vitals->seq = next_sequence();
        }
        break;
    case facing_component:
        if (Facing* facing = world_.mut<Facing>(entity)) {
            facing->yaw = static_cast<float>(random_.between(-10, 10));
            facing->seq = next_sequence();
        }
        break;
    case link_component:
        if (Link* link = world_.mut<Link>(entity)) {
            Entity& target = random_.chance(0.5) ? link->first : link->second;
            target = random_.chance(0.1) ? Entity{} : random_.chance(0.1) && !dead_.empty() ? dead_[0] : any_entity();
            link->seq = next_sequence();
        }
        break;
    default:
        if (Note* note = world_.mut<Note>(entity)) {
            note->text = text(false);
            note->seq = next_sequence();
        }
    }
}

void Actions::bond(Random& random) {
    const auto any = [&] { return all_.empty() ? Entity{} : all_[random.below(static_cast<u32>(all_.size()))]; };
    const Entity entity = any(), other = random.chance(0.1) && !dead_.empty() ? dead_[0] : any();
    if (!entity)
        return;
    if (random.chance(0.4))
        world_.remove<Bond>(entity);
    else if (Bond* bond = world_.mut<Bond>(entity))
        *bond = {random.chance(0.2) ? Entity{} : other, next_sequence()};
    else
        world_.add<Bond>(entity, Bond{other, next_sequence()});
    trace("bond", entity);
}

void Actions::pin(Random& random) {
    const auto any = [&] { return all_.empty() ? Entity{} : all_[random.below(static_cast<u32>(all_.size()))]; };
    for (u32 left = 1 + random.below(3); left > 0; --left) {
        const Entity entity = any();
        if (!entity)
            return;
        const Badge* const there = world_.get<Badge>(entity);
        Badge badge{random.range(-5, 5), next_sequence(), random.chance(0.3) ? Entity{} : any()};
        if (there && random.chance(0.2))
            badge = *there; // replaced by the same
        switch (random.below(5)) {
        case 0:
            world_.remove<Badge>(entity);
            break;
        case 1:
            world_.remove<Badge>(entity);
            world_.add<Badge>(entity, badge);
            break;
        case 2:
            world_.set(entity, Badge{0, next_sequence(), {}}); // twice in one tick
            badge.seq = next_sequence();
            [[fallthrough]];
        default:
            world_.set(entity, badge);
        }
        trace("pin", entity);
    }
}

SpawnSignature Actions::sign(Random& random) {
    const SpawnSignature usual = SpawnSignature::of(1, random.below(5)); // several entities have one
    const SpawnSignature signature = random.chance(0.5) ? usual : SpawnSignature::of(2, ++signatures_);
    const std::size_t index = all_.empty() ? 0 : random.below(static_cast<u32>(all_.size()));
    const Entity entity = all_.empty() ? Entity{} : all_[index];
    const SpawnSignature* const there = entity ? world_.get<SpawnSignature>(entity) : nullptr;
    if (there && random.chance(0.3)) {
        const SpawnSignature same = *there;
        despawn_at(index);
        if (const Entity next = spawn())
            world_.add<SpawnSignature>(next, same);
        return same;
    }
    if (entity && random.chance(0.3)) { // also of one that is shown
        if (!there)
            world_.add<SpawnSignature>(entity, signature);
        else if (random.chance(0.5))
            world_.mut<SpawnSignature>(entity)->hash = random.chance(0.2) ? 0 : signature.hash;
        else
            world_.remove<SpawnSignature>(entity);
        trace("sign", entity);
        return {};
    }
    const Entity made = spawn();
    if (!made)
        return {};
    world_.add<SpawnSignature>(made, signature);
    if (random.chance(0.1)) // to some clients only
        world_.add<ScopedTo>(made, Scope::of<SpawnSignature>(), VisibleTo{.any_of = 1 + random.below(3)});
    trace("signed", made);
    return signature;
}

void Actions::motion(Tick tick) {
    for (std::size_t i = 0; i < all_.size(); ++i) {
        const Entity entity = all_[i];
        const bool crosses = plan_.oscillates && entity.entity_id % 7 == 0;
        if (!crosses && static_cast<double>(entity.entity_id % 10) >= plan_.moving_share * 10)
            continue;
        const Speed* speed = world_.get<Speed>(entity);
        if (!crosses && !speed)
            continue;
        Place* p = world_.mut<Place>(entity);
        if (!p)
            continue;
        if (crosses) { // over the nearest border of a cell and back, in steps of different size
            const double cell = plan_.server.cell_size, border = std::nearbyint(static_cast<double>(p->x) / cell) * cell;
            p->x = static_cast<float>(border + (tick / (1 + entity.entity_id % 3) % 2 ? 1 : -1) * random_.between(0.1, cell * 0.2));
        } else {
            p->x += speed->x * 0.05f;
            p->z += speed->z * 0.05f;
            if (std::fabs(static_cast<double>(p->x)) > plan_.spread || std::fabs(static_cast<double>(p->z)) > plan_.spread) {
                p->x *= 0.5f;
                p->z *= 0.5f;
            }
        }
        p->seq = next_sequence();
    }
}

bool Actions::perform(Action action) {
    if (action >= Action::hide)
        return false;
    const Entity entity = any_entity();
    if (action == Action::spawn || !entity) {
        spawn();
        return true;
    }
    u32 component = random_.below(component_kinds);
    switch (action) {
    case Action::despawn:
        despawn_at(random_.below(static_cast<u32>(all_.size())));
        break;
    case Action::respawn:
        despawn_at(random_.below(static_cast<u32>(all_.size())));
        spawn();
        break;
    case Action::insert:
    case Action::remove:
        if (has(entity, component) == (action == Action::remove)) {
            action == Action::remove ? remove(entity, component) : insert(entity, component);
            trace(action == Action::remove ? "remove" : "insert", entity);
        }
        break;
    case Action::reinsert:
        if (has(entity, component)) {
            remove(entity, component);
            insert(entity, component);
            trace("reinsert", entity);
        }
        break;
    case Action::change:
        for (u32 left = 1 + random_.below(plan_.batch_max); left > 0; --left) {
            const Entity changed = any_entity(); // drawn first: compilers differ in the order of arguments
            change(changed, random_.below(component_kinds));
        }
        break;
    case Action::teleport:
    case Action::out_of_map:
        if (Place* p = world_.mut<Place>(entity)) {
            place(*p);
            if (action == Action::out_of_map)
                p->x = random_.chance(0.5) ? 1e9f : static_cast<float>(map_edge) + 3;
            trace("teleport", entity);
        }
        break;
    case Action::link:
        if (world_.has<Link>(entity))
            change(entity, link_component);
        else
            insert(entity, link_component);
        break;
    case Action::note:
    case Action::note_large:
        if (!world_.has<Note>(entity))
            insert(entity, note_component);
        if (action == Action::note_large) {
            world_.mut<Note>(entity)->text = text(true);
            trace("large note", entity);
        }
        break;
    case Action::replicate:
        world_.add<Replicated>(entity);
        trace("replicate", entity);
        break;
    case Action::unreplicate:
        end(entity);
        break;
    case Action::rereplicate:
        if (world_.has<Replicated>(entity))
            give_again(entity);
        break;
    default:
        break;
    }
    return true;
}

} // namespace throng_sim
