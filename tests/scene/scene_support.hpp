#pragma once
// Components of every kind of field, worlds of them, and how two worlds are compared: value by value, without the code under test.
#include "throng/ecs.hpp"
#include "throng/scene.hpp"
#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace scene_test {
using namespace throng;

enum class Mood : u8 { calm, cross, furious };
struct Place {
    float x = 0, z = 0;
    double height = 1.5;
};
struct Body {
    float yaw = 0;
    i8 lean = 0;
    i16 heat = 0;
    i32 hp = 100;
    i64 score = -1;
    u8 level = 0;
    u16 ammo = 7;
    u32 flags = 0;
    u64 serial = 0;
    bool armed = false;
    Mood mood = Mood::calm;
};
struct Bond { // two references
    Entity friend_of, foe;
};
struct Mark {}; // no fields
struct Title {
    std::string text;
};
struct Local { // not registered
    int value = 0;
};
struct Weather { // resources
    float wind = 2;
    bool storm = false;
    u32 days = 0;
    Entity centre;
};
struct Motto : Title {};
struct Season {
    i32 year = 1;
};

inline u32 write_title(const void* component, std::span<std::byte> out) {
    const std::string& text = static_cast<const Title*>(component)->text;
    if (text.size() <= out.size() && !text.empty())
        std::memcpy(out.data(), text.data(), text.size());
    return static_cast<u32>(text.size());
}
inline Error read_title(void* component, std::span<const std::byte> in) {
    if (!in.empty() && in[0] == std::byte{'!'})
        return Error::bad_value;
    static_cast<Title*>(component)->text.assign(reinterpret_cast<const char*>(in.data()), in.size());
    return Error::none;
}

inline constexpr u32 title_bytes_max = 40;

struct SceneProtocol : Protocol {
    /// A step says how the wire rounds; files do not care.
    explicit SceneProtocol(double step = 0.01, bool resources = false) {
        if (resources)
            resource<Season>("season").field(&Season::year, "year");
        component<Place>("place")
            .field(&Place::x, Range{-100, 100, step}, "x")
            .field(&Place::z, Range{-100, 100, step}, "z")
            .field(&Place::height, Range{0, 10, 0.5}, "height");
        component<Body>("body")
            .field(&Body::yaw, Angle{8}, "yaw")
            .field(&Body::lean, "lean")
            .field(&Body::heat, "heat")
            .field(&Body::hp, Range{0, 100, 1}, "hp")
            .field(&Body::score, "score")
            .field(&Body::level, "level")
            .field(&Body::ammo, "ammo")
            .field(&Body::flags, "flags")
            .field(&Body::serial, "serial")
            .field(&Body::armed, "armed")
            .field(&Body::mood, "mood");
        component<Bond>("bond").field(&Bond::friend_of).field(&Bond::foe); // no names: "0" and "1"
        component<Mark>("a \"marked\" one\\\t");
        opaque<Title>("title", title_bytes_max, write_title, read_title);
        component<ChildOf>("child of").field(&ChildOf::target, "parent");
        if (resources) {
            resource<Weather>("weather")
                .field(&Weather::wind, Range{0, 50, step}, "wind")
                .field(&Weather::storm, "storm")
                .field(&Weather::days, "days")
                .field(&Weather::centre); // "3"
            resource<Motto>("motto", title_bytes_max, OpaqueFunctions{write_title, read_title});
        }
        if (finish() != Error::none)
            throw std::runtime_error(problem());
    }
};

inline Bytes bytes_of(const Array<std::byte>& file) {
    return {file.data(), file.size()};
}
inline Bytes bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}
inline std::string text_of(const Array<std::byte>& file) {
    return {reinterpret_cast<const char*>(file.data()), file.size()};
}

inline Array<std::byte> saved(const World& world, const Protocol& protocol, SceneForm form, SceneSaveOptions options = {}) {
    Array<std::byte> file;
    SceneReport report;
    options.form = form;
    const Error error = save_scene(world, protocol, file, report, options);
    INFO(std::string(report.problem));
    REQUIRE(error == Error::none);
    return file;
}

/// Bits, so that NaN equals itself and -0 is not 0.
template <class T>
bool same_bits(T a, T b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
}

/// Whether b[i] is what a[i] is, for the entities of two worlds: components, values, references by place in the lists. Names the
/// difference.
inline std::string difference(const World& world_a, const World& world_b, const Array<Entity>& a, const Array<Entity>& b) {
    if (a.size() != b.size())
        return "count";
    const auto place = [](const Array<Entity>& list, Entity entity) {
        for (u32 i = 0; i < list.size(); ++i)
            if (list[i] == entity)
                return static_cast<i64>(i);
        return i64{-1};
    };
    for (u32 i = 0; i < a.size(); ++i) {
        const std::string who = "entity " + std::to_string(i) + ": ";
        if (!world_b.alive(b[i]) || !world_b.has<Replicated>(b[i]))
            return who + "dead or not replicated";
        const auto pair = [&](auto type) {
            using T = decltype(type);
            return std::pair(world_a.get<T>(a[i]), world_b.get<T>(b[i]));
        };
        const auto apart = [](const auto& p) { return !p.first != !p.second; };
        const auto place_pair = pair(Place{});
        if (apart(place_pair))
            return who + "place";
        if (const auto [p, q] = place_pair; p && !(same_bits(p->x, q->x) && same_bits(p->z, q->z) && same_bits(p->height, q->height)))
            return who + "values of place";
        const auto body = pair(Body{});
        if (apart(body))
            return who + "body";
        if (const auto [p, q] = body; p && !(same_bits(p->yaw, q->yaw) && p->lean == q->lean && p->heat == q->heat && p->hp == q->hp &&
                                             p->score == q->score && p->level == q->level && p->ammo == q->ammo && p->flags == q->flags &&
                                             p->serial == q->serial && p->armed == q->armed && p->mood == q->mood))
            return who + "values of body";
        const auto bond = pair(Bond{});
        if (apart(bond))
            return who + "bond";
        if (const auto [p, q] = bond; p && (place(a, p->friend_of) != place(b, q->friend_of) || place(a, p->foe) != place(b, q->foe) ||
                                            (q->foe && !world_b.alive(q->foe))))
            return who + "values of bond";
        if (world_a.has<Mark>(a[i]) != world_b.has<Mark>(b[i]))
            return who + "mark";
        const auto title = pair(Title{});
        if (apart(title) || (title.first && title.first->text != title.second->text))
            return who + "title";
        if (place(a, world_a.target<ChildOf>(a[i])) != place(b, world_b.target<ChildOf>(b[i])))
            return who + "parent";
    }
    return {};
}

/// The same of resources.
inline std::string resource_difference(const World& world_a, const World& world_b, const Array<Entity>& a, const Array<Entity>& b) {
    const auto place = [](const Array<Entity>& list, Entity entity) { return std::find(list.begin(), list.end(), entity) - list.begin(); };
    const Weather *weather_a = world_a.resources().get<Weather>(), *weather_b = world_b.resources().get<Weather>();
    if (!weather_a != !weather_b)
        return "weather";
    if (weather_a && (!same_bits(weather_a->wind, weather_b->wind) || weather_a->storm != weather_b->storm ||
                      weather_a->days != weather_b->days || place(a, weather_a->centre) != place(b, weather_b->centre)))
        return "values of weather";
    const Motto *motto_a = world_a.resources().get<Motto>(), *motto_b = world_b.resources().get<Motto>();
    if (!motto_a != !motto_b || (motto_a && motto_a->text != motto_b->text))
        return "motto";
    const Season *season_a = world_a.resources().get<Season>(), *season_b = world_b.resources().get<Season>();
    if (!season_a != !season_b || (season_a && season_a->year != season_b->year))
        return "season";
    return {};
}

/// Random entities with values from the corners of their types, some not replicated, some destroyed again.
class RandomWorld {
public:
    explicit RandomWorld(u32 seed) : random_(seed) {
        const u32 count = below(40);
        for (u32 i = 0; i < count; ++i)
            entities.push_back(world.create());
        for (const Entity entity : entities)
            fill(entity);
        for (const Entity entity : entities)
            if (below(8) == 0)
                world.destroy(entity);
    }
    World world;
    std::vector<Entity> entities;

private:
    u32 below(u32 end) { return end ? static_cast<u32>(random_() % end) : 0; }
    template <class T>
    T corner() {
        const u64 bits[] = {0, 1, ~u64{0}, u64{1} << 63, ~u64{0} >> 1, random_(), random_() >> 40, u64{0x7f80000000000001}};
        const u64 chosen = bits[below(8)];
        T value;
        std::memcpy(&value, reinterpret_cast<const char*>(&chosen) + (sizeof(T) < 8 && below(2) ? 8 - sizeof(T) : 0), sizeof value);
        return value;
    }
    Entity some() { return entities[below(static_cast<u32>(entities.size()))]; }
    void fill(Entity entity) {
        if (below(3))
            world.add<Place>(entity, Place{corner<float>(), corner<float>(), corner<double>()});
        if (below(3) == 0)
            world.add<Body>(entity, Body{corner<float>(), corner<i8>(), corner<i16>(), corner<i32>(), corner<i64>(), corner<u8>(),
                                         corner<u16>(), corner<u32>(), corner<u64>(), below(2) == 0, static_cast<Mood>(below(256))});
        if (below(2))
            world.add<Bond>(entity, Bond{below(3) ? some() : Entity{}, below(3) ? some() : Entity{}});
        if (below(3) == 0)
            world.add<Mark>(entity);
        if (below(4) == 0)
            world.add<Title>(entity, Title{std::string(below(title_bytes_max + 1), static_cast<char>('"' + below(90)))});
        if (below(4) == 0)
            world.add<Local>(entity);
        if (const Entity parent = some(); parent.entity_id < entity.entity_id && below(3) == 0)
            REQUIRE(world.relate<ChildOf>(entity, parent) == Error::none);
        if (below(5))
            world.add<Replicated>(entity);
    }
    std::mt19937_64 random_;
};

} // namespace scene_test
