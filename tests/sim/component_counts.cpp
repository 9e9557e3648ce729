#include "tests/sim/component_counts.hpp"
#include "src/server/state.hpp"
#include <algorithm>

using namespace throng;

namespace throng_sim {
namespace {

using Number = unsigned long long;

/// Of an opaque component: its bytes on the wire, 0 where it is absent there.
u64 opaque_bytes(const World& world, Entity entity, Piece piece) {
    if (const Note* note = piece == Piece::note ? world.get<Note>(entity) : nullptr)
        return note->text.size() + sizeof note->seq <= note_bytes_max ? note->text.size() + sizeof note->seq : 0;
    if (piece == Piece::diary && world.has<Diary>(entity))
        return sizeof(Diary::page);
    const auto bytes_of = [](const Scroll& scroll) { return scroll.text.size() + sizeof scroll.seq; };
    if (const Scroll* scroll = piece == Piece::scroll ? world.get<Scroll>(entity) : nullptr)
        return bytes_of(*scroll);
    if (const auto* scroll = piece == Piece::world_scroll ? world.get<ResourceValue<Scroll>>(entity) : nullptr)
        return bytes_of(scroll->value);
    return 0;
}

bool is_opaque(Piece piece) {
    return piece == Piece::note || piece == Piece::diary || piece == Piece::scroll || piece == Piece::world_scroll;
}
/// Of its owner, a group, or others: who that is the layers of a scope do not tell.
bool has_audience(Piece piece) {
    return piece == Piece::purse || piece == Piece::tactics || piece == Piece::rumour || piece == Piece::diary;
}

bool same(const Why& a, const Why& b) {
    return a.reason == b.reason && a.cause == b.cause && a.visible == b.visible && a.held == b.held;
}

} // namespace

ComponentCounts::ComponentCounts(u64 seed, const Build& server_build, World& world, Server& server, const Truth& truth,
                                 const std::vector<std::unique_ptr<Peer>>& peers, Failure& failure, Tally& tally)
    : random_(seed ^ 0xc0c07), build_(server_build), world_(world), server_(server), truth_(truth), peers_(peers), failure_(failure),
      tally_(tally) {}

bool ComponentCounts::registered(u32 component) const {
    return component_bits(build_) >> component & 1;
}

/// What the rules of make_protocol say, of an entity that has the component.
bool ComponentCounts::ruled_out(u32 component, Entity entity) const {
    switch (static_cast<Piece>(component)) {
    case Piece::mood: {
        const bool hero = world_.has<Hero>(entity), shy = world_.has<Shy>(entity);
        const bool exact = (hero && (world_.has<Speed>(entity) || world_.has<Facing>(entity))) || (shy && !world_.has<Link>(entity));
        return world_.has<Mood>(entity) && !(exact && build_.has(Piece::exact_mood)) && !(!shy && build_.has(Piece::mood));
    }
    case Piece::birth:
        return world_.has<Birth>(entity) && !world_.has<Vitals>(entity);
    case Piece::heat:
        return world_.has<Heat>(entity) && world_.has<Shy>(entity);
    case Piece::ammo:
    case Piece::barrel: {
        const bool ammo = world_.has<Ammo>(entity), barrel = world_.has<Barrel>(entity);
        const bool has = static_cast<Piece>(component) == Piece::ammo ? ammo : barrel;
        return build_.bundled() && has && (!ammo || !barrel || world_.has<Shy>(entity));
    }
    default:
        return false;
    }
}

void ComponentCounts::check(const TickReport& report) {
    const u32 chosen = report.tick % component_count;
    each_component([&]<class T>(Piece piece, T*) {
        if (static_cast<u32>(piece) == chosen)
            check_report(chosen, component_id<T>(), report);
    });
    for (const auto& peer : peers_)
        for (u32 left = 2; left > 0 && peer->joined && server_.joined(peer->id) && world_.entity_slots() > 0; --left)
            if (const Entity entity = world_.entity_at(random_.below(world_.entity_slots())); world_.alive(entity))
                check_why(entity, *peer);
    note_viewed();
}

// ---------------------------------------------------------------------------------------------------- reports
void ComponentCounts::check_report(u32 component, ComponentId id, const TickReport& tick) {
    const ComponentReport report = server_.component_report(id);
    if ((report.name != nullptr) != registered(component))
        failure_.report("report of component %u: it has %s name", component, report.name ? "a" : "no");
    u32 entities = 0;
    each_component([&]<class T>(Piece piece, T*) {
        for (u32 slot = 0; static_cast<u32>(piece) == component && slot < world_.entity_slots(); ++slot)
            if (const Entity entity = world_.entity_at(slot); world_.has<T>(entity))
                entities += server_.state().slot_of(entity) != nullptr;
    });
    if (report.entities != (report.name ? entities : 0))
        failure_.report("report of component %u: %u entities have it, not %u", component, report.entities, entities);
    const ComponentCost& before = totals_[component];
    if (report.total.sections < before.sections + report.last.sections || report.total.bits < before.bits + report.last.bits)
        failure_.report("report of component %u: the sum of what it cost has not grown by the last tick's", component);
    totals_[component] = report.total;
    if (tick.encodes == 0 && (report.last.sections || report.last.bits))
        failure_.report("report of component %u: it cost %llu bits, although nothing was encoded", component, Number(report.last.bits));
    if (!report.name)
        return;
    check_held(component, report);
    check_changed(component, report, tick);
    if (is_opaque(static_cast<Piece>(component)))
        check_opaque(component, report);
    else if (report.opaque_bytes)
        failure_.report("report of component %u: opaque bytes, although it has none", component);
}

/// Who may have it: of what each client has, what it is meant to see and the entity had in this tick.
void ComponentCounts::check_held(u32 component, const ComponentReport& report) {
    u32 there = 0;
    u64 held = 0;
    for (const auto& peer : peers_) {
        if (!peer->joined || !server_.joined(peer->id))
            continue;
        ++there;
        for (u32 slot = 0; slot < world_.entity_slots(); ++slot) {
            const Entity entity = world_.entity_at(slot);
            const NetId net = server_.net_id(entity);
            const EntityTruth* const truth = net ? truth_.find(server_.current_tick(), net) : nullptr;
            const Peer::Sight* const sight = truth && truth->fingerprint.of[component] ? peer->sight(server_.current_tick(), net) : nullptr;
            if (!sight || !(sight->components >> component & 1))
                continue;
            const Why why = server_.why(entity, peer->id);
            held += why.visible && why.held;
        }
    }
    const auto& clients = server_.state().clients;
    if (there != std::count_if(clients.begin(), clients.end(), [](const ClientState& client) { return client.joined; }))
        return;                                      // one leaves
    const bool exact = truth_.left_behind().empty(); // nobody can ask `why` about those
    if (exact ? report.held != held : report.held < held)
        failure_.report("report of component %u: clients may have %llu, not %llu", component, Number(report.held), Number(held));
    tally_.add(Happening::component_held, exact ? held : 0);
}

/// At least those of which a client would be told now, and was able to be told before.
void ComponentCounts::check_changed(u32 component, const ComponentReport& report, const TickReport& tick) {
    u32 changed = 0;
    const auto& viewers = server_.state().viewers;
    for (u32 slot = 0; slot < world_.entity_slots(); ++slot) {
        const NetId net = server_.net_id(world_.entity_at(slot));
        const EntityTruth* const now = net ? truth_.find(server_.current_tick(), net) : nullptr;
        const EntityTruth* const before = now ? truth_.find(server_.current_tick() - 1, net) : nullptr;
        if (!before || before->paused || before->place != now->place || !world_.has<Replicated>(world_.entity_at(slot)))
            continue;
        const u32 chunk = now->place / lane_count;
        const u64 had = before->fingerprint.of[component], has = now->fingerprint.of[component];
        if (had == Fingerprint::any || has == Fingerprint::any)
            continue;
        changed += chunk < viewed_.size() && viewed_[chunk] && viewers[chunk] > 0 && had != has;
    }
    if (report.changed < changed || (tick.chunks_dirty == 0 && report.changed))
        failure_.report("report of component %u: %u entities have changed in %u chunks, at least %u have", component, report.changed,
                        tick.chunks_dirty, changed);
}

/// Where all chunks are looked at, and nothing is paused.
void ComponentCounts::check_opaque(u32 component, const ComponentReport& report) {
    const ServerState& state = server_.state();
    for (u32 chunk = 0; chunk < state.mirror.chunk_count(); ++chunk)
        if (state.mirror.chunk(chunk).alive && state.viewers[chunk] == 0)
            return;
    u64 bytes = 0;
    for (u32 slot = 0; slot < world_.entity_slots(); ++slot) {
        const Entity entity = world_.entity_at(slot);
        if (!state.slot_of(entity) || state.place_of(entity) == no_slot)
            continue;
        if (!world_.has<Replicated>(entity))
            return;
        bytes += opaque_bytes(world_, entity, static_cast<Piece>(component));
    }
    if (!truth_.left_behind().empty())
        return;
    if (report.opaque_bytes != bytes)
        failure_.report("report of component %u: %llu opaque bytes, not %llu", component, Number(report.opaque_bytes), Number(bytes));
    tally_.add(Happening::component_bytes, bytes);
}

void ComponentCounts::note_viewed() {
    const auto& viewers = server_.state().viewers;
    viewed_.assign(viewers.size(), false);
    for (u32 chunk = 0; chunk < viewers.size(); ++chunk)
        viewed_[chunk] = viewers[chunk] > 0;
}

// ---------------------------------------------------------------------------------------------------- why
/// Of each component of the entity, whether it has it or not.
void ComponentCounts::check_why(Entity entity, const Peer& peer) {
    const Why whole = server_.why(entity, peer.id);
    const ScopedTo* const scoped = world_.get<ScopedTo>(entity);
    const bool paused = !world_.has<Replicated>(entity); // it is as it was
    each_component([&]<class T>(Piece piece, T*) {
        const u32 component = static_cast<u32>(piece);
        const Why why = server_.why<T>(entity, peer.id);
        const auto fail = [&](const char* what) {
            failure_.report("why of component %u of %u.%u, client %u, is \"%s\" (\"%s\"): %s", component, whole.net_id.index(),
                            whole.net_id.generation(), peer.name, to_string(why.reason), to_string(why.cause), what);
        };
        if (!registered(component)) {
            if (why.reason != WhyReason::not_registered || why.cause != why.reason)
                fail("the protocol does not have it");
            return;
        }
        if (!whole.visible) {
            if (!same(why, whole))
                fail("the entity is not visible for another reason");
            return;
        }
        if (paused)
            return;
        if (ruled_out(component, entity)) {
            if (why.reason != WhyReason::ruled_out || why.cause != why.reason || why.held)
                fail("its rules keep it from the entity");
            return;
        }
        Lifetime shortest = Lifetime::always; // of those scopes that hide it
        bool hidden = false;
        for (u32 i = 0; scoped && piece != Piece::lasting && i < scoped->count(); ++i)
            if (const ScopedTo::Rule& rule = scoped->rule(i); rule.scope.has(component_id<T>()) && !rule.to.allows(peer.may_see.layers)) {
                hidden = true;
                shortest = std::min(shortest, rule.lifetime);
            }
        const bool seen = server_.visible<T>(peer.id, entity);
        const bool comes_along = hidden && shortest == Lifetime::always; // seen until it has come
        if (hidden ? seen && !comes_along : !seen && !has_audience(piece))
            fail("the scopes say the opposite of what is seen");
        if (seen && !same(why, whole))
            fail("it is seen as the entity is");
        if (!seen && why.cause != (hidden ? WhyReason::out_of_scope : WhyReason::not_its_audience))
            fail("not the reason why it is not seen");
        if (!seen && (why.reason == WhyReason::frozen) != why.held)
            fail("what is kept out of sight is frozen");
        tally_.add(Happening::component_hidden, !seen);
    });
}

} // namespace throng_sim
