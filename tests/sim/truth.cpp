#include "tests/sim/truth.hpp"
#include "src/server/state.hpp"
#include <algorithm>
#include <cmath>

using namespace throng;

namespace throng_sim {
namespace {

constexpr double turn_radians = 6.283185307179586476925;

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

Fingerprint fingerprint(const World& world, Entity entity, const Ruled* ruled) {
    Fingerprint all;
    const auto set = [&all](u32 component, auto... values) {
        u64 hash = 1;
        ((hash = mix(hash, static_cast<u64>(values))), ...);
        all.of[component] = hash;
    };
    if (const Place* place = world.get<Place>(entity))
        set(0, hundredths(place->x, map_edge), hundredths(place->z, map_edge), hundredths(place->y, 1000), place->seq);
    if (const Speed* speed = world.get<Speed>(entity))
        set(1, hundredths(speed->x, 20), hundredths(speed->z, 20));
    if (const Vitals* vitals = world.get<Vitals>(entity))
        set(2, vitals->hp, vitals->angry, vitals->state, vitals->score, vitals->seq);
    if (const Facing* facing = world.get<Facing>(entity))
        set(3, angle_steps(facing->yaw), facing->seq);
    if (const Link* link = world.get<Link>(entity))
        set(4, link->seq);
    if (const Bond* bond = world.get<Bond>(entity))
        set(15, bond->seq);
    if (const Note* note = world.get<Note>(entity); note && fits(*note)) {
        u64 text = note->text.size();
        for (const char c : note->text)
            text = mix(text, static_cast<u64>(c));
        set(5, note->seq, text);
    }
    if (world.has<Lasting>(entity))
        set(6);
    if (const Purse* purse = world.get<Purse>(entity))
        set(7, purse->gold, purse->seq);
    if (const Tactics* tactics = world.get<Tactics>(entity))
        set(8, tactics->plan);
    if (const Rumour* rumour = world.get<Rumour>(entity))
        set(9, std::llrint(rumour->heard * 2));
    if (const Diary* diary = world.get<Diary>(entity))
        set(10, diary->page);
    if (const Mood* mood = ruled ? ruled->mood : world.get<Mood>(entity))
        set(11, mood->value, mood->seq);
    if (const Birth* birth = ruled ? ruled->birth : world.get<Birth>(entity))
        set(12, birth->value, birth->serial);
    if (const Heat* heat = ruled ? ruled->heat : world.get<Heat>(entity))
        set(13, std::lround(heat->kelvin * 10), heat->seq);
    if (const auto* weather = world.get<ResourceValue<Weather>>(entity))
        set(14, weather->value.wind, weather->value.seq);
    const auto set_scroll = [&](u32 component, const Scroll& scroll) {
        u64 text = scroll.text.size();
        for (const char c : scroll.text)
            text = mix(text, static_cast<u64>(c));
        set(component, scroll.seq, text);
    };
    if (const Scroll* scroll = world.get<Scroll>(entity))
        set_scroll(16, *scroll);
    if (const auto* scroll = world.get<ResourceValue<Scroll>>(entity))
        set_scroll(17, scroll->value);
    if (const auto* signature = world.get<SpawnSignature>(entity))
        set(18, signature->hash);
    return all;
}

namespace {
/// The components of which has(tag of the type) says so, as bits.
template <class Has>
u32 components_that(Has&& has) {
    u32 found = 0, bit = 1;
    const auto look = [&]<class... Ts>(void (*)(Ts...)) { ((found |= has(static_cast<Ts*>(nullptr)) ? bit : 0, bit <<= 1), ...); };
    look(static_cast<void (*)(Place, Speed, Vitals, Facing, Link, Note, Lasting, Purse, Tactics, Rumour, Diary, Mood, Birth, Heat,
                              ResourceValue<Weather>, Bond, Scroll, ResourceValue<Scroll>, SpawnSignature)>(nullptr));
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
}

/// What the rules of make_protocol say, said once more.
Ruled Truth::choose(const World& world, Server& server, Entity entity, NetId id, bool& birth_open) {
    Ruled out;
    const bool hero = world.has<Hero>(entity), shy = world.has<Shy>(entity);
    if (const Mood* mood = world.get<Mood>(entity)) {
        mood_ = *mood;
        const bool exact = (hero && (world.has<Speed>(entity) || world.has<Facing>(entity))) || (shy && !world.has<Link>(entity));
        if (!exact)
            mood_.value = static_cast<int>(std::nearbyint(std::clamp(mood->value, -1000, 1000) / 10.0)) * 10;
        if (exact || !shy)
            out.mood = &mood_;
    }
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
    told.open |= told.place != place && (server.state().report.limits & limit_chunks);
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
        truth.fingerprint = fingerprint(world, entity, &ruled);
        if (birth_open)
            truth.fingerprint.of[12] = Fingerprint::any;
        truth.place = server.state().place_of(entity);
        if (!torn && server.why(entity, 0).cluster == WhyCluster::together) {
            truth.cluster = server.net_id(server.cluster_root(entity)).value;
            clusters_[at][truth.cluster].push_back(id);
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
