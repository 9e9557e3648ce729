#include "tests/sim/filters.hpp"
#include "throng/server.hpp"
#include <algorithm>

namespace throng_sim {

using namespace throng;

namespace {

struct Faction {
    u32 number = 0;
};
struct Height { // two bytes, of which one counts
    u8 least = 0, colour = 0;
};
struct Side { // a client's
    u32 faction = 0;
};
struct Ladder { // a client's
    u64 height = 0;
};

bool same_side(const Faction& faction, const Side* side) {
    return side && side->faction == faction.number;
}
bool reaches(const Height& height, const Ladder* ladder) {
    return ladder ? ladder->height >= height.least : height.least < 2;
}

} // namespace

bool refused_by_filter(const World& world, const Server& server, const Peer& peer, Entity entity) {
    const Faction* const faction = world.get<Faction>(entity);
    const Height* const height = world.get<Height>(entity);
    const VisibleToGroup* const group = world.get<VisibleToGroup>(entity);
    const SightRules& rules = peer.may_see;
    return (faction && rules.side != faction->number) || (height && rules.height.value_or(1) < height->least) ||
           (group && !server.in_group(group->group, peer.id));
}

bool FilterActions::filtered(const void* context, ClientId client, Entity entity) {
    const auto& self = *static_cast<const FilterActions*>(context);
    for (const auto& peer : self.peers_)
        if (peer->joined && peer->id == client)
            return refused_by_filter(self.world_, self.server_, *peer, entity);
    return false;
}

bool FilterActions::add() {
    return server_.add_filter<Faction, Side>("faction", same_side) == Error::none &&
           server_.add_filter<Height, Ladder>("height", reaches) == Error::none;
}

/// Mostly one of few, so that both sides have the same.
u32 FilterActions::any_number() {
    return random_.chance(0.9) ? random_.below(3) : static_cast<u32>(random_.next());
}

bool FilterActions::change_client(Peer& peer) {
    View view = server_.view(peer.id);
    SightRules& rules = peer.may_see;
    switch (random_.below(5)) {
    case 0:
        rules.side.reset();
        return view.clear<Side>() == Error::none;
    case 1:
        rules.height.reset();
        return view.clear<Ladder>() == Error::none;
    case 2:
        rules.height = random_.below(5);
        return view.set(Ladder{*rules.height}) == Error::none;
    default:
        rules.side = any_number();
        return view.set(Side{*rules.side}) == Error::none;
    }
}

void FilterActions::change_group(const Peer& peer) {
    if (groups_.size() < 3)
        groups_.push_back(server_.make_group());
    const std::size_t which = random_.below(static_cast<u32>(groups_.size()));
    if (random_.chance(0.05)) {
        server_.drop_group(groups_[which]); // its id may be anybody's next
        groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(which));
    } else if (random_.chance(0.6))
        server_.add_to_group(groups_[which], peer.id);
    else
        server_.remove_from_group(groups_[which], peer.id);
}

void FilterActions::change_entity(Entity entity) {
    switch (random_.below(9)) {
    case 0:
        return void(world_.remove<Faction>(entity));
    case 1:
        return void(world_.remove<Height>(entity));
    case 2:
        return void(world_.remove<VisibleToGroup>(entity));
    case 3:
        return void(world_.add<Height>(entity, Height{static_cast<u8>(random_.below(5)), static_cast<u8>(random_.below(3))}));
    case 4:
        if (Height* height = world_.mut<Height>(entity))
            height->least = static_cast<u8>(random_.below(5));
        return;
    case 5:
        if (!groups_.empty())
            world_.add<VisibleToGroup>(entity, VisibleToGroup{groups_[random_.below(static_cast<u32>(groups_.size()))]});
        return;
    case 6:
        if (Faction* faction = world_.mut<Faction>(entity))
            faction->number = any_number();
        return;
    case 7: // given anew in one tick
        world_.remove<Faction>(entity);
        return void(world_.add<Faction>(entity, Faction{any_number()}));
    default:
        world_.add<Faction>(entity, Faction{any_number()});
    }
}

bool FilterActions::perform() {
    if (!peers_.empty() && random_.chance(0.4)) {
        Peer& peer = *peers_[random_.below(static_cast<u32>(peers_.size()))];
        if (!peer.joined || !server_.joined(peer.id))
            return true;
        if (random_.chance(0.7))
            return change_client(peer);
        change_group(peer);
        return true;
    }
    const u32 slots = world_.entity_slots();
    if (const Entity entity = slots ? world_.entity_at(random_.below(slots)) : Entity{}; world_.alive(entity))
        change_entity(entity);
    return true;
}

} // namespace throng_sim
