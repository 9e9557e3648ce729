#include "tests/sim/scenes.hpp"
#include "throng/scene.hpp"
#include <algorithm>
#include <cmath>
#include <cstring>

using namespace throng;

namespace throng_sim {
namespace {

/// A component as a scene of the build has it: fields that the build lacks have their defaults.
template <class T>
class Expected {
public:
    Expected(const T& value, const Build& build) : value_(value), build_(build) {}
    Expected& without(Piece piece, auto member) {
        if (!build_.has(piece))
            value_.*member = T{}.*member;
        return *this;
    }
    T value_;

private:
    const Build& build_;
};

/// Of one entity, by type: what a scene brings, from the world that was saved.
class Brought {
public:
    /// `to`: the entity of the loaded world for one of the saved world, null if it is not in the scene.
    template <class Map>
    Brought(const World& world, Entity entity, const Build& build, const Map& to) : world_(world), entity_(entity), build_(build) {
        if (const Link* link = world.get<Link>(entity); link && build.has(Piece::link))
            link_ = Link{to(link->first), build.has(Piece::link_second) ? to(link->second) : Entity{}, link->seq};
        if (const Bond* bond = world.get<Bond>(entity); bond && build.has(Piece::bond))
            bond_ = Bond{to(bond->to), bond->seq};
        if (const ChildOf* up = world.get<ChildOf>(entity); up && build.has(Piece::child_of))
            parent_ = to(up->target);
    }

    /// The first component, by name, in which `there` has something else; null: none. What the scene does not bring is as in `before`.
    const char* difference(const World& loaded, Entity there, const World* before_world, Entity before) const {
        const char* wrong = nullptr;
        const auto compare = [&]<class T>(const char* name, Piece piece, const std::optional<T>& brought) {
            const T* const shown = loaded.get<T>(there);
            const T* expected = brought ? &*brought : nullptr;
            if (!expected && before_world)
                expected = before_world->get<T>(before);
            if (!build_.has(piece) && !expected && !shown)
                return;
            if ((expected != nullptr) != (shown != nullptr) || (expected && !(*expected == *shown)))
                wrong = wrong ? wrong : name;
        };
        compare("place", Piece::place, of<Place>(Piece::place, [](auto& e) { e.without(Piece::place_y, &Place::y); }));
        compare("speed", Piece::speed, of<Speed>(Piece::speed, [](auto& e) { e.without(Piece::speed_z, &Speed::z); }));
        compare("vitals", Piece::vitals, of<Vitals>(Piece::vitals, [](auto& e) {
                    e.without(Piece::vitals_angry, &Vitals::angry)
                        .without(Piece::vitals_state, &Vitals::state)
                        .without(Piece::vitals_score, &Vitals::score);
                }));
        compare("facing", Piece::facing, of<Facing>(Piece::facing, [](auto& e) { e.without(Piece::facing_yaw, &Facing::yaw); }));
        compare("link", Piece::link, link_);
        compare("note", Piece::note, of<Note>(Piece::note));
        compare("purse", Piece::purse, of<Purse>(Piece::purse, [](auto& e) { e.without(Piece::purse_gold, &Purse::gold); }));
        compare("tactics", Piece::tactics, of<Tactics>(Piece::tactics));
        compare("rumour", Piece::rumour, of<Rumour>(Piece::rumour));
        compare("diary", Piece::diary, of<Diary>(Piece::diary));
        compare("mood", Piece::mood, of<Mood>(build_.has(Piece::mood) ? Piece::mood : Piece::exact_mood));
        compare("birth", Piece::birth, of<Birth>(Piece::birth, [](auto& e) { e.without(Piece::birth_value, &Birth::value); }));
        compare("heat", Piece::heat, of<Heat>(Piece::heat, [](auto& e) {
                    e.value_.kelvin = static_cast<double>(std::lround(e.value_.kelvin * 10)) / 10.0; // what it travels as
                    e.without(Piece::heat_seq, &Heat::seq);
                }));
        compare("bond", Piece::bond, bond_);
        compare("ammo", Piece::ammo, of<Ammo>(Piece::ammo));
        compare("barrel", Piece::barrel, of<Barrel>(Piece::barrel));
        compare("scroll", Piece::scroll, of<Scroll>(Piece::scroll));
        compare("signature", Piece::signature, of<SpawnSignature>(Piece::signature));
        const ChildOf* const up = loaded.get<ChildOf>(there);
        if (parent_.has_value() != (up != nullptr) || (up && up->target != *parent_))
            wrong = "child of";
        if (loaded.has<Lasting>(there) != (world_.has<Lasting>(entity_) && build_.has(Piece::lasting)))
            wrong = "lasting";
        if (!loaded.has<Replicated>(there))
            wrong = "Replicated";
        return wrong;
    }

private:
    template <class T, class Strip>
    std::optional<T> of(Piece piece, Strip&& strip) const {
        const T* const value = world_.get<T>(entity_);
        if (!value || !build_.has(piece))
            return {};
        Expected<T> expected(*value, build_);
        strip(expected);
        return expected.value_;
    }
    template <class T>
    std::optional<T> of(Piece piece) const {
        return of<T>(piece, [](auto&) {});
    }

    const World& world_;
    Entity entity_;
    const Build& build_;
    std::optional<Link> link_;
    std::optional<Bond> bond_;
    std::optional<Entity> parent_;
};

bool same(const Array<std::byte>& a, const Array<std::byte>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

const char* name_of(SceneForm form) {
    return form == SceneForm::json ? "JSON" : "binary";
}

/// The first resource that is another one than the scene brings, or than it was in `before`; null: none.
const char* resource_difference(const World& world, const Build& build, const World& loaded, const World* before) {
    const char* wrong = nullptr;
    const auto compare = [&]<class T>(const char* name, Piece piece, Piece field, auto member, T*) {
        std::optional<T> brought;
        if (const T* const there = world.resources().get<T>(); there && build.has(piece))
            brought = *there;
        if constexpr (!std::is_same_v<decltype(member), std::nullptr_t>)
            if (brought && !build.has(field))
                (*brought).*member = T{}.*member;
        const T* const shown = loaded.resources().get<T>();
        const T* const expected = brought ? &*brought : before ? before->resources().get<T>() : nullptr;
        if ((expected != nullptr) != (shown != nullptr) || (expected && !(*expected == *shown)))
            wrong = name;
    };
    compare("weather", Piece::weather, Piece::weather_wind, &Weather::wind, static_cast<Weather*>(nullptr));
    compare("world scroll", Piece::world_scroll, Piece::world_scroll, nullptr, static_cast<Scroll*>(nullptr));
    return wrong;
}

/// All that a scene has must be in the loaded world; `before`: what its entities were.
void compare(const World& world, const SceneReport& saved, const Build& build, const World& loaded, const SceneReport& report,
             const World* before, const std::string& who, SceneForm form, Failure& failure) {
    const auto to = [&](Entity target) {
        for (u32 id = 0; target && id < saved.entities.size(); ++id)
            if (saved.entities[id] == target)
                return report.entities[id];
        return Entity{};
    };
    if (const char* wrong = resource_difference(world, build, loaded, before))
        failure.report("scene of %s, %s%s: another resource \"%s\"", who.c_str(), name_of(form),
                       before ? ", into a world that goes on" : "", wrong);
    for (u32 id = 0; id < saved.entities.size(); ++id) {
        const Entity there = report.entities[id];
        const bool extended = before && before->alive(there);
        if (const char* wrong = Brought(world, saved.entities[id], build, to).difference(loaded, there, extended ? before : nullptr, there))
            failure.report("scene of %s, %s%s: entity %u has another %s: %s, not %s", who.c_str(), name_of(form),
                           before ? ", into a world that goes on" : "", id, wrong, describe(loaded, there).c_str(),
                           describe(world, saved.entities[id]).c_str());
    }
}

/// Some entities for a scene to extend, with values that it overwrites and with some that it does not name.
std::vector<Entity> some_entities(World& world, u32 scene_entities, Random& random) {
    if (random.chance(0.5))
        world.resources().emplace<Weather>().seq = 9;
    if (random.chance(0.5))
        world.resources().emplace<Scroll>(Scroll{9, "before"});
    std::vector<Entity> out(scene_entities ? random.below(scene_entities + 1) : 0);
    for (Entity& entity : out) {
        if (random.chance(0.4))
            continue;
        entity = world.create();
        if (random.chance(0.5))
            world.add<Vitals>(entity)->hp = -5;
        if (random.chance(0.5))
            world.add<Note>(entity, Note{1, "before"});
        if (random.chance(0.3))
            world.add<Link>(entity, Link{entity, {}, 2});
        if (random.chance(0.3))
            world.add<Scroll>(entity, Scroll{3, "before"});
        if (random.chance(0.3))
            world.add<Replicated>(entity);
        if (random.chance(0.3))
            world.add<MadeAhead>(entity, MadeAhead{entity.entity_id});
    }
    return out;
}

bool note_fits(const World& world, Entity entity, const Protocol& protocol) {
    const Note* const note = world.get<Note>(entity);
    for (const ComponentInfo& info : protocol.components())
        if (note && info.id == component_id<Note>() && note->text.size() + sizeof note->seq > info.opaque_bytes_max)
            return false;
    return true;
}

} // namespace

std::vector<Entity> shown_entities(const Peer& peer) {
    std::vector<Entity> out;
    for (u32 slot = 0; slot < peer.world.entity_slots(); ++slot)
        if (const Entity entity = peer.world.entity_at(slot); entity && peer.client.net_id(entity) &&
                                                              !peer.world.has<ResourceValue<Weather>>(entity) &&
                                                              !peer.world.has<ResourceValue<Scroll>>(entity))
            out.push_back(entity);
    return out;
}

void check_scenes(const World& world, const Protocol& protocol, const Build& build, std::span<const Entity> also, const std::string& who,
                  Random& random, Failure& failure) {
    constexpr SceneForm forms[] = {SceneForm::json, SceneForm::binary};
    Array<std::byte> files[2];
    SceneReport saved, report;
    for (const SceneForm form : forms) {
        const Error error = save_scene(world, protocol, files[static_cast<u32>(form)], saved, {.form = form, .also = also});
        if (error == Error::too_large && std::strstr(saved.problem, "\"note\"")) {
            bool all_fit = std::ranges::all_of(also, [&](Entity e) { return note_fits(world, e, protocol); });
            world.each<Replicated>([&](Entity e, const Replicated&) { all_fit &= note_fits(world, e, protocol); });
            if (all_fit)
                failure.report("scene of %s: %s, but none is", who.c_str(), saved.problem);
            return;
        }
        if (error != Error::none || saved.entities.size() < also.size())
            return failure.report("scene of %s: saving %u entities: %s", who.c_str(), saved.entities.size(), saved.problem);
    }
    for (const SceneForm form : forms) {
        const Array<std::byte>& file = files[static_cast<u32>(form)];
        World loaded({.block_rows = 64});
        if (load_scene(loaded, protocol, {file.data(), file.size()}, report) != Error::none)
            return failure.report("scene of %s, %s: %s", who.c_str(), name_of(form), report.problem);
        if (!report.same_protocol || report.created != saved.entities.size() || report.components != saved.components ||
            report.resources != saved.resources || loaded.entity_count() != saved.entities.size())
            failure.report("scene of %s, %s: %u entities and %llu components, saved were %u and %llu", who.c_str(), name_of(form),
                           report.created, static_cast<unsigned long long>(report.components), saved.entities.size(),
                           static_cast<unsigned long long>(saved.components));
        compare(world, saved, build, loaded, report, nullptr, who, form, failure);
        for (const SceneForm again : forms) {
            Array<std::byte> twice;
            SceneReport second;
            if (save_scene(loaded, protocol, twice, second, {.form = again}) != Error::none || second.references_dropped ||
                !same(twice, files[static_cast<u32>(again)]))
                failure.report("scene of %s: loaded from %s, it is another one in %s", who.c_str(), name_of(form), name_of(again));
        }
        // Into a world that goes on; `before` is a copy of it, with the same handles.
        World extended({.block_rows = 64}), before({.block_rows = 64});
        Random same_twice = random;
        const std::vector<Entity> existing = some_entities(extended, saved.entities.size(), random);
        (void)some_entities(before, saved.entities.size(), same_twice);
        if (load_scene(extended, protocol, {file.data(), file.size()}, report, {.existing = existing}) != Error::none)
            return failure.report("scene of %s, %s, into a world that goes on: %s", who.c_str(), name_of(form), report.problem);
        const auto given = static_cast<u32>(std::ranges::count_if(existing, [](Entity e) { return e.entity_id != 0; }));
        if (report.extended != given || report.created != saved.entities.size() - given || extended.entity_count() != saved.entities.size())
            failure.report("scene of %s, %s: %u entities extended and %u made, not %u and %u", who.c_str(), name_of(form), report.extended,
                           report.created, given, saved.entities.size() - given);
        for (u32 id = 0; id < existing.size(); ++id)
            if (existing[id] &&
                (report.entities[id] != existing[id] || extended.has<MadeAhead>(existing[id]) != before.has<MadeAhead>(existing[id])))
                failure.report("scene of %s, %s: scene id %u is not the entity given for it", who.c_str(), name_of(form), id);
        compare(world, saved, build, extended, report, &before, who, form, failure);
    }
}

} // namespace throng_sim
