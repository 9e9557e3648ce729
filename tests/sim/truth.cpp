#include "tests/sim/truth.hpp"
#include "src/server/state.hpp"
#include <algorithm>
#include <cmath>

using namespace throng;

namespace throng_sim {
namespace {

constexpr double turn_radians = 6.283185307179586476925;

constexpr u64 present = 0x2545f4914f6cdd1d; // hash of a component before its values: none of them makes it 0, as if it were absent
u64 mix(u64 hash, u64 value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 29;
}
/// Steps of a hundredth within +- limit.
i64 hundredths(double value, double limit) {
    return std::llrint(std::clamp(value * 100.0, -limit * 100, limit * 100));
}
i64 angle_steps(double radians) {
    return std::llrint(radians / turn_radians * 1024) & 1023;
}
bool fits(const Note& note) {
    return note.text.size() + sizeof note.seq <= note_bytes_max;
}

} // namespace

Fingerprint Fingerprint::only(u32 seen) const {
    Fingerprint some;
    for (u32 c = 0; c < component_count; ++c)
        some.of[c] = seen >> c & 1 ? of[c] : 0;
    return some;
}

u32 Fingerprint::difference(const Fingerprint& there) const {
    u32 c = 0;
    while (c < component_count && (of[c] == there.of[c] || (of[c] == any && there.of[c])))
        ++c;
    return c;
}

Fingerprint fingerprint(const World& world, Entity entity, const Ruled* ruled, const Build& told) {
    Fingerprint all;
    const auto set = [&](Piece component, auto... values) {
        if (!told.has(component))
            return;
        u64 hash = present;
        ((hash = mix(hash, static_cast<u64>(values))), ...);
        all.of[static_cast<u32>(component)] = hash;
    };
    /// A field's value, or its default where it is not told.
    const auto field = [&](Piece piece, const auto* object, auto member) {
        return told.has(piece) ? object->*member : std::remove_cvref_t<decltype(*object)>{}.*member;
    };
    if (const Place* place = world.get<Place>(entity))
        set(Piece::place, hundredths(place->x, map_edge), hundredths(place->z, map_edge),
            hundredths(field(Piece::place_y, place, &Place::y), 1000), place->seq);
    if (const Speed* speed = world.get<Speed>(entity))
        set(Piece::speed, hundredths(speed->x, 20), hundredths(field(Piece::speed_z, speed, &Speed::z), 20));
    if (const Vitals* vitals = world.get<Vitals>(entity))
        set(Piece::vitals, vitals->hp, field(Piece::vitals_angry, vitals, &Vitals::angry),
            field(Piece::vitals_state, vitals, &Vitals::state), field(Piece::vitals_score, vitals, &Vitals::score), vitals->seq);
    if (const Facing* facing = world.get<Facing>(entity))
        set(Piece::facing, angle_steps(field(Piece::facing_yaw, facing, &Facing::yaw)), facing->seq);
    if (const Link* link = world.get<Link>(entity))
        set(Piece::link, link->seq);
    if (const Bond* bond = world.get<Bond>(entity))
        set(Piece::bond, bond->seq);
    if (const Note* note = world.get<Note>(entity); note && fits(*note)) {
        u64 text = note->text.size();
        for (const char c : note->text)
            text = mix(text, static_cast<u64>(c));
        set(Piece::note, note->seq, text);
    }
    if (world.has<Lasting>(entity))
        set(Piece::lasting);
    if (const Purse* purse = world.get<Purse>(entity))
        set(Piece::purse, field(Piece::purse_gold, purse, &Purse::gold), purse->seq);
    if (const Tactics* tactics = world.get<Tactics>(entity))
        set(Piece::tactics, tactics->plan);
    if (const Rumour* rumour = world.get<Rumour>(entity))
        set(Piece::rumour, std::llrint(rumour->heard * 2));
    if (const Diary* diary = world.get<Diary>(entity))
        set(Piece::diary, diary->page);
    if (const Mood* mood = ruled ? ruled->mood : world.get<Mood>(entity))
        if (!ruled || told.has(ruled->exact ? Piece::exact_mood : Piece::mood))
            all.of[static_cast<u32>(Piece::mood)] = mix(mix(present, static_cast<u64>(mood->value)), mood->seq);
    if (const Birth* birth = ruled ? ruled->birth : world.get<Birth>(entity))
        set(Piece::birth, field(Piece::birth_value, birth, &Birth::value), birth->serial);
    if (const Heat* heat = ruled ? ruled->heat : world.get<Heat>(entity))
        set(Piece::heat, std::lround(heat->kelvin * 10), field(Piece::heat_seq, heat, &Heat::seq));
    if (const auto* weather = world.get<ResourceValue<Weather>>(entity))
        set(Piece::weather, field(Piece::weather_wind, &weather->value, &Weather::wind), weather->value.seq);
    const auto set_scroll = [&](Piece component, const Scroll& scroll) {
        u64 text = scroll.text.size();
        for (const char c : scroll.text)
            text = mix(text, static_cast<u64>(c));
        set(component, scroll.seq, text);
    };
    if (const Scroll* scroll = world.get<Scroll>(entity))
        set_scroll(Piece::scroll, *scroll);
    if (const auto* scroll = world.get<ResourceValue<Scroll>>(entity))
        set_scroll(Piece::world_scroll, scroll->value);
    if (const auto* signature = world.get<SpawnSignature>(entity))
        set(Piece::signature, signature->hash);
    if (const Badge* badge = world.get<Badge>(entity))
        set(Piece::badge, badge->rank, badge->seq);
    const bool armed = !ruled || ruled->armed;
    if (const Ammo* ammo = armed ? world.get<Ammo>(entity) : nullptr)
        set(Piece::ammo, ammo->rounds, ammo->seq);
    if (const Barrel* barrel = armed ? world.get<Barrel>(entity) : nullptr)
        set(Piece::barrel, barrel->worn);
    if (world.has<ChildOf>(entity))
        set(Piece::child_of);
    return all;
}

namespace {
/// The components of which has(tag of the type) says so, as bits.
template <class Has>
u32 components_that(Has&& has) {
    u32 found = 0;
    each_component([&](Piece piece, auto* type) { found |= u32(has(type)) << static_cast<u32>(piece); });
    return found;
}
} // namespace

u32 seen_components(const Server& server, ClientId client, Entity entity) {
    return components_that([&]<class T>(T*) { return server.visible<T>(client, entity); });
}

u32 kept_components(const Client& client, Entity entity) {
    return components_that([&]<class T>(T*) { return client.frozen<T>(entity); });
}

std::string describe(const World& world, Entity entity) {
    char line[256];
    std::string text = "{";
    const auto add = [&](const char* pattern, auto... values) {
        std::snprintf(line, sizeof line, pattern, values...);
        text += line;
    };
    if (const Place* place = world.get<Place>(entity))
        add(" place %.3f %.3f %.3f #%u", static_cast<double>(place->x), static_cast<double>(place->z), place->y, place->seq);
    if (const Speed* speed = world.get<Speed>(entity))
        add(" speed %.3f %.3f", static_cast<double>(speed->x), static_cast<double>(speed->z));
    if (const Vitals* vitals = world.get<Vitals>(entity))
        add(" vitals %d %d %d %lld #%u", vitals->hp, vitals->angry, vitals->state, static_cast<long long>(vitals->score), vitals->seq);
    if (const Facing* facing = world.get<Facing>(entity))
        add(" facing %.4f #%u", static_cast<double>(facing->yaw), facing->seq);
    if (const Link* link = world.get<Link>(entity))
        add(" link #%u", link->seq);
    if (const Bond* bond = world.get<Bond>(entity))
        add(" bond #%u", bond->seq);
    if (const Note* note = world.get<Note>(entity))
        add(" note %zu bytes #%u", note->text.size(), note->seq);
    if (const Mood* mood = world.get<Mood>(entity))
        add(" mood %d #%u", mood->value, mood->seq);
    if (const Birth* birth = world.get<Birth>(entity))
        add(" birth %d #%u", birth->value, birth->serial);
    if (const Heat* heat = world.get<Heat>(entity))
        add(" heat %.2f #%u", heat->kelvin, heat->seq);
    if (const Purse* purse = world.get<Purse>(entity))
        add(" purse %d #%u", purse->gold, purse->seq);
    if (const Tactics* tactics = world.get<Tactics>(entity))
        add(" tactics %lld", static_cast<long long>(tactics->plan));
    if (const Rumour* rumour = world.get<Rumour>(entity))
        add(" rumour %.1f", static_cast<double>(rumour->heard));
    if (const Diary* diary = world.get<Diary>(entity))
        add(" diary %u", diary->page);
    if (const Scroll* scroll = world.get<Scroll>(entity))
        add(" scroll %zu bytes #%u", scroll->text.size(), scroll->seq);
    if (const auto* signature = world.get<SpawnSignature>(entity))
        add(" signature %llx", static_cast<unsigned long long>(signature->hash));
    if (const Badge* badge = world.get<Badge>(entity))
        add(" badge %d #%u", badge->rank, badge->seq);
    if (const Ammo* ammo = world.get<Ammo>(entity))
        add(" ammo %d #%u", ammo->rounds, ammo->seq);
    if (const Barrel* barrel = world.get<Barrel>(entity))
        add(" barrel %u", barrel->worn);
    return text + " }";
}

void sequences(const World& world, Entity entity, u32 (&out)[sequenced_components]) {
    const Place* place = world.get<Place>(entity);
    const Vitals* vitals = world.get<Vitals>(entity);
    const Facing* facing = world.get<Facing>(entity);
    const Link* link = world.get<Link>(entity);
    const Note* note = world.get<Note>(entity);
    out[0] = place ? place->seq : 0;
    out[1] = vitals ? vitals->seq : 0;
    out[2] = facing ? facing->seq : 0;
    out[3] = link ? link->seq : 0;
    out[4] = note ? note->seq : 0;
    const Mood* mood = world.get<Mood>(entity);
    out[5] = mood ? mood->seq : 0;
    const Heat* heat = world.get<Heat>(entity);
    out[6] = heat ? heat->seq : 0;
    const Bond* bond = world.get<Bond>(entity);
    out[7] = bond ? bond->seq : 0;
    const Scroll* scroll = world.get<Scroll>(entity);
    out[8] = scroll ? scroll->seq : 0;
    const Badge* badge = world.get<Badge>(entity);
    out[9] = badge ? badge->seq : 0;
}

/// What the rules of make_protocol say, said once more.
Ruled Truth::choose(const World& world, Server& server, Entity entity, NetId id, bool& birth_open) {
    Ruled out;
    const bool hero = world.has<Hero>(entity), shy = world.has<Shy>(entity);
    if (const Mood* mood = world.get<Mood>(entity)) {
        mood_ = *mood;
        out.exact = server_build_.has(Piece::exact_mood) &&
                    ((hero && (world.has<Speed>(entity) || world.has<Facing>(entity))) || (shy && !world.has<Link>(entity)));
        if (!out.exact)
            mood_.value = static_cast<int>(std::nearbyint(std::clamp(mood->value, -1000, 1000) / 10.0)) * 10;
        if (out.exact || !shy)
            out.mood = &mood_;
    }
    out.armed = !server_build_.bundled() || (world.has<Ammo>(entity) && world.has<Barrel>(entity) && !shy);
    out.heat = shy ? nullptr : world.get<Heat>(entity);
    const Birth* birth = world.get<Birth>(entity);
    if (!birth || !world.has<Vitals>(entity)) {
        births_.erase(entity.entity_id);
        return out;
    }
    const u32 place = server.state().place_of(entity);
    ToldBirth& told = births_.try_emplace(entity.entity_id, ToldBirth{id, place, *birth}).first->second;
    if (told.id != id || told.birth.serial != birth->serial)
        told = {id, place, *birth};
    const bool moved = told.place != place || server.why(entity, 0).cluster == WhyCluster::together; // back into its lane, perhaps
    told.open |= moved && (server.state().report.limits & limit_chunks);
    told.place = place;
    out.birth = &told.birth;
    birth_open = told.open;
    return out;
}

void Truth::record(const World& world, Server& server, bool torn) {
    if (ticks_.empty())
        first_ = server.current_tick();
    const Tick at = server.current_tick() - first_; // ticks wrap
    if (ticks_.size() <= at)
        ticks_.resize(at + 1);
    if (clusters_.size() <= at)
        clusters_.resize(at + 1);
    auto& now = ticks_[at];
    const auto as_it_was = [&](NetId id) {
        const EntityTruth* const before = find(server.current_tick() - 1, id);
        if (!before)
            return false;
        now[id.value] = *before;
        now[id.value].cluster = 0;
        now[id.value].paused = true;
        return true;
    };
    const auto any_of = [this](const std::vector<u64>& entity_ids, NetId id) {
        return std::find(entity_ids.begin(), entity_ids.end(), entity_id_of(id)) != entity_ids.end();
    };
    if (at > 0 && !leaving_.empty())
        for (const auto& [value, truth] : ticks_[at - 1])
            if (const NetId id{value}; any_of(leaving_, id) && !truth.left_behind)
                left_behind_.push_back(id);
    std::erase_if(left_behind_, [&](NetId id) { return any_of(ended_, id); });
    leaving_.clear();
    ended_.clear();
    for (const NetId id : left_behind_)
        if (as_it_was(id))
            now[id.value].left_behind = true;
    for (u32 slot = 0; slot < world.entity_slots(); ++slot) {
        const Entity entity = world.entity_at(slot);
        const NetId id = server.net_id(entity);
        if (server.state().place_of(entity) == no_slot)
            births_.erase(entity.entity_id); // nothing is held for it
        if (!id)
            continue;
        entity_ids_[id.value] = entity.entity_id;
        if (!world.has<Replicated>(entity)) { // paused
            (void)as_it_was(id);
            continue;
        }
        EntityTruth& truth = now[id.value];
        bool birth_open = false;
        const Ruled ruled = choose(world, server, entity, id, birth_open);
        truth.fingerprint = fingerprint(world, entity, &ruled, server_build_);
        if (other_told_)
            truth.other_fingerprint = fingerprint(world, entity, &ruled, *other_told_);
        for (u64* birth : {&truth.fingerprint.of[12], &truth.other_fingerprint.of[12]})
            if (birth_open && *birth)
                *birth = Fingerprint::any;
        truth.place = server.state().place_of(entity);
        if (!torn && server.why(entity, 0).cluster == WhyCluster::together) {
            truth.cluster = server.net_id(server.cluster_root(entity)).value;
            clusters_[at][truth.cluster].push_back(id);
        }
        if (const ChildOf* up = world.get<ChildOf>(entity)) {
            truth.parent_id = up->target.entity_id;
            truth.parent = world.alive(up->target) ? server.net_id(up->target) : NetId{};
        }
        if (const Link* link = world.get<Link>(entity)) {
            truth.has_links = true;
            const Entity targets[2] = {link->first, link->second};
            for (u32 i = 0; i < 2; ++i) {
                truth.link_ids[i] = targets[i].entity_id;
                if (world.alive(targets[i]))
                    truth.links[i] = server.net_id(targets[i]);
            }
        }
    }
}

void Truth::leave_behind(Entity entity) {
    leaving_.push_back(entity.entity_id);
}

void Truth::end(Entity entity) {
    ended_.push_back(entity.entity_id);
}

bool Truth::ends_now(Entity entity) const {
    return std::find(ended_.begin(), ended_.end(), entity.entity_id) != ended_.end();
}

bool Truth::left_behind(Tick tick, NetId id) const {
    const EntityTruth* const truth = find(tick, id);
    return truth && truth->left_behind;
}

const EntityTruth* Truth::find(Tick tick, NetId id) const {
    const Tick at = tick - first_;
    if (at >= ticks_.size())
        return nullptr;
    const auto found = ticks_[at].find(id.value);
    return found == ticks_[at].end() ? nullptr : &found->second;
}

const std::vector<NetId>& Truth::cluster(Tick tick, u64 root) const {
    static const std::vector<NetId> nobody;
    const Tick at = tick - first_;
    if (at >= clusters_.size())
        return nobody;
    const auto found = clusters_[at].find(root);
    return found == clusters_[at].end() ? nobody : found->second;
}

u64 Truth::entity_id_of(NetId id) const {
    const auto found = entity_ids_.find(id.value);
    return found == entity_ids_.end() ? 0 : found->second;
}

} // namespace throng_sim
