#include "tests/sim/components.hpp"
#include "tests/sim/letters.hpp"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>

using namespace throng;

namespace throng_sim {
namespace {

u32 write_note(const void* component, std::span<std::byte> out) {
    const Note& note = *static_cast<const Note*>(component);
    const std::size_t bytes = sizeof note.seq + note.text.size();
    if (bytes <= out.size()) {
        std::memcpy(out.data(), &note.seq, sizeof note.seq);
        std::memcpy(out.data() + sizeof note.seq, note.text.data(), note.text.size());
    }
    return static_cast<u32>(bytes);
}

Error read_note(void* component, std::span<const std::byte> in) {
    Note& note = *static_cast<Note*>(component);
    if (in.size() < sizeof note.seq)
        return Error::truncated;
    std::memcpy(&note.seq, in.data(), sizeof note.seq);
    note.text.assign(reinterpret_cast<const char*>(in.data()) + sizeof note.seq, in.size() - sizeof note.seq);
    return Error::none;
}

struct WireHeat {
    i32 tenths = 0;
    u32 seq = 0;
};
WireHeat pack(const Heat& heat) {
    return {static_cast<i32>(std::lround(heat.kelvin * 10)), heat.seq};
}
Heat unpack(const WireHeat& wire) {
    return {wire.tenths / 10.0, wire.seq};
}

u32 write_diary(const void* component, std::span<std::byte> out) {
    if (out.size() >= sizeof(Diary::page))
        std::memcpy(out.data(), &static_cast<const Diary*>(component)->page, sizeof(Diary::page));
    return sizeof(Diary::page);
}

Error read_diary(void* component, std::span<const std::byte> in) {
    if (in.size() != sizeof(Diary::page))
        return Error::truncated;
    std::memcpy(&static_cast<Diary*>(component)->page, in.data(), in.size());
    return Error::none;
}

u32 write_scroll(const void* component, std::span<std::byte> out) {
    const Scroll& scroll = *static_cast<const Scroll*>(component);
    const std::size_t bytes = sizeof scroll.seq + scroll.text.size();
    if (bytes <= out.size()) {
        std::memcpy(out.data(), &scroll.seq, sizeof scroll.seq);
        std::memcpy(out.data() + sizeof scroll.seq, scroll.text.data(), scroll.text.size());
    }
    return static_cast<u32>(bytes);
}

Error read_scroll(void* component, std::span<const std::byte> in) {
    Scroll& scroll = *static_cast<Scroll*>(component);
    if (in.size() < sizeof scroll.seq)
        return Error::truncated;
    std::memcpy(&scroll.seq, in.data(), sizeof scroll.seq);
    scroll.text.assign(reinterpret_cast<const char*>(in.data()) + sizeof scroll.seq, in.size() - sizeof scroll.seq);
    return Error::none;
}

constexpr u32 stroke_bytes = 9;
u32 write_stroke(const Stroke& stroke, std::span<std::byte> out) {
    if (out.size() >= stroke_bytes) {
        std::memcpy(out.data(), &stroke.seq, 4);
        std::memcpy(out.data() + 4, &stroke.at, 4);
        out[8] = static_cast<std::byte>(stroke.letter);
    }
    return stroke_bytes;
}

Error read_stroke(Stroke& stroke, std::span<const std::byte> in) {
    if (in.size() != stroke_bytes)
        return Error::truncated;
    std::memcpy(&stroke.seq, in.data(), 4);
    std::memcpy(&stroke.at, in.data() + 4, 4);
    stroke.letter = static_cast<u8>(in[8]);
    return Error::none;
}

Error apply_stroke(Scroll& scroll, const Stroke& stroke) {
    scroll.seq = stroke.seq;
    if (stroke.at < scroll.text.size())
        scroll.text[stroke.at] = static_cast<char>(stroke.letter);
    else if (scroll.text.size() < scroll_bytes_max)
        scroll.text.push_back(static_cast<char>(stroke.letter));
    return Error::none;
}

template <class T>
void write(const Received& received, const T& value) {
    if (received.older)
        return; // newer state is there
    if (T* there = received.world.mut<T>(received.entity))
        *there = value;
    else
        received.world.add<T>(received.entity, value);
}
template <class T>
void remove(const Received& received) {
    received.world.remove<T>(received.entity);
}
void need(Error error) {
    if (error != Error::none)
        std::abort();
}

} // namespace

void make_rules(ReceiveRules& functions, ReceiveRules& compare, bool requires_more) {
    const auto has = [&]<class T>(T*) {
        return std::ranges::any_of(functions.protocol().components(),
                                   [](const ComponentInfo& info) { return info.id == component_id<T>(); });
    };
    const auto compare_all = [&]<class... Ts>(void (*)(Ts...)) {
        ((has(static_cast<Ts*>(nullptr)) ? need(compare.write_if_different<Ts>()) : void()), ...);
    };
    need(functions.marker<Speed>({.history = true}));
    if (requires_more && has(static_cast<Facing*>(nullptr)))
        need((compare.require<Facing, Stance>()));
    if (requires_more && has(static_cast<Note*>(nullptr)))
        need((compare.require<Note, Caption>(ReceiveRules::OnRemoval::remove)));
    if (has(static_cast<Place*>(nullptr)))
        need(functions.functions<Place>(write<Place>, remove<Place>));
    if (has(static_cast<Link*>(nullptr)))
        need(functions.functions<Link>(write<Link>, nullptr));
    if (has(static_cast<Vitals*>(nullptr)))
        need((functions.functions_for<Speed, Vitals>(write<Vitals>, remove<Vitals>)));
    if (has(static_cast<Note*>(nullptr)))
        need((functions.functions_for<Speed, Note>(write<Note>, nullptr)));
    if (has(static_cast<Facing*>(nullptr)))
        need((functions.functions_for<Speed, Facing>(nullptr, remove<Facing>)));
    if (has(static_cast<Mood*>(nullptr)))
        need((functions.functions_for<Speed, Mood>(write<Mood>, remove<Mood>)));
    if (has(static_cast<Heat*>(nullptr)))
        need((functions.functions_for<Speed, Heat>(write<Heat>, remove<Heat>)));
    if (has(static_cast<Scroll*>(nullptr)))
        need((functions.functions_for<Speed, Scroll>(write<Scroll>, remove<Scroll>)));
    compare_all(static_cast<void (*)(Place, Speed, Vitals, Facing, Link, Note, Mood, Heat, Scroll)>(nullptr));
}

namespace {

/// Registers what a build has.
class Registrar {
public:
    Registrar(Protocol& protocol, const Build& build) : protocol_(protocol), build_(build) {}

    void all() {
        using Step = void (Registrar::*)();
        constexpr Step steps[] = {&Registrar::place,   &Registrar::speed,   &Registrar::vitals,   &Registrar::facing, &Registrar::link,
                                  &Registrar::note,    &Registrar::lasting, &Registrar::mood,     &Registrar::exact,  &Registrar::birth,
                                  &Registrar::weather, &Registrar::heat,    &Registrar::bond,     &Registrar::scoped, &Registrar::signature,
                                  &Registrar::badge,   &Registrar::scrolls, &Registrar::armament, &Registrar::family};
        constexpr std::size_t count = std::size(steps);
        for (std::size_t i = 0; i < count; ++i)
            (this->*steps[build_.reversed ? count - 1 - i : i])();
        if (build_.letters)
            register_letters(protocol_);
    }

private:
    bool has(Piece piece) const { return build_.has(piece); }
    const char* name(const char* text) const { return build_.named ? text : nullptr; }
    template <class T>
    T otherwise(T usual, T coarse) const {
        return build_.coarse ? coarse : usual;
    }
    /// In order, or in the other one.
    template <class... Fields>
    void fields(Fields... in_order) {
        if (!build_.reversed)
            return (in_order(), ...);
        const std::function<void()> list[] = {in_order...};
        for (std::size_t i = sizeof...(Fields); i-- > 0;)
            list[i]();
    }

    void place() {
        if (!has(Piece::place))
            return;
        auto out = protocol_.component<Place>("place");
        const Range map = otherwise(Range{-map_edge, map_edge, 0.01}, Range{-2 * map_edge, 2 * map_edge, 0.5});
        const Range heights = otherwise(Range{-1000, 1000, 0.01}, Range{-10, 10, 1});
        fields([&] { out.field(&Place::x, map, name("x")); }, [&] { out.field(&Place::z, map, name("z")); },
               [&] {
                   if (has(Piece::place_y))
                       out.field(&Place::y, heights, name("y"));
               },
               [&] { out.field(&Place::seq, name("seq")); });
        out.spatial(&Place::x, &Place::z);
        if (has(Piece::speed) && has(Piece::speed_z) && !build_.coarse)
            out.extrapolated_by(&Speed::x, &Speed::z);
    }
    void speed() {
        if (!has(Piece::speed))
            return;
        auto out = protocol_.component<Speed>("speed");
        const Range speeds = otherwise(Range{-20, 20, 0.01}, Range{-40, 40, 0.25});
        out.field(&Speed::x, speeds, name("x"));
        if (has(Piece::speed_z))
            out.field(&Speed::z, speeds, name("z"));
    }
    void vitals() {
        if (!has(Piece::vitals))
            return;
        auto out = protocol_.component<Vitals>("vitals");
        fields([&] { out.field(&Vitals::hp, name("hp")); },
               [&] {
                   if (has(Piece::vitals_angry))
                       out.field(&Vitals::angry, name("angry"));
               },
               [&] {
                   if (has(Piece::vitals_state))
                       out.field(&Vitals::state, name("state"));
               },
               [&] {
                   if (has(Piece::vitals_score))
                       out.field(&Vitals::score, name("score"));
               },
               [&] { out.field(&Vitals::seq, name("seq")); });
    }
    void facing() {
        if (!has(Piece::facing))
            return;
        auto out = protocol_.component<Facing>("facing");
        if (has(Piece::facing_yaw))
            out.field(&Facing::yaw, Angle{otherwise(10u, 7u)}, name("yaw"));
        out.field(&Facing::seq, name("seq"));
    }
    void link() {
        if (!has(Piece::link))
            return;
        auto out = protocol_.component<Link>("link");
        fields([&] { out.field(&Link::first, name("first")); },
               [&] {
                   if (has(Piece::link_second))
                       out.field(&Link::second, name("second"));
               },
               [&] { out.field(&Link::seq, name("seq")); });
    }
    void note() {
        if (has(Piece::note))
            protocol_.opaque<Note>("note", otherwise(note_bytes_max, 60u), write_note, read_note);
    }
    void lasting() {
        if (has(Piece::lasting))
            protocol_.component<Lasting>("lasting");
    }
    void mood() {
        if (has(Piece::mood))
            protocol_.component<Mood>("mood")
                .field(&Mood::value, Range{-1000, 1000, 10}, name("value"))
                .field(&Mood::seq, name("seq"))
                .when(without<Shy>);
    }
    void exact() {
        if (has(Piece::exact_mood))
            protocol_.component<Mood>("exact mood")
                .field(&Mood::value, name("value"))
                .field(&Mood::seq, name("seq"))
                .when(with<Hero> && any_of<Speed, Facing>)
                .when(with<Shy> && without<Link>, 1);
    }
    void birth() {
        if (!has(Piece::birth))
            return;
        auto out = protocol_.component<Birth>("birth");
        fields(
            [&] {
                if (has(Piece::birth_value))
                    out.field(&Birth::value, name("value"));
            },
            [&] { out.field(&Birth::serial, name("serial")); });
        out.when(with<Vitals>).once();
    }
    void weather() {
        if (!has(Piece::weather))
            return;
        auto out = protocol_.resource<Weather>("weather");
        fields(
            [&] {
                if (has(Piece::weather_wind))
                    out.field(&Weather::wind, name("wind"));
            },
            [&] { out.field(&Weather::seq, name("seq")); });
    }
    void heat() {
        if (!has(Piece::heat))
            return;
        auto out = protocol_.component_as("heat", pack, unpack);
        out.field(&WireHeat::tenths, name("tenths"));
        if (has(Piece::heat_seq))
            out.field(&WireHeat::seq, name("seq"));
        out.when(without<Shy>);
    }
    void bond() {
        if (has(Piece::bond))
            protocol_.component<Bond>("bond").field(&Bond::to, name("to")).field(&Bond::seq, name("seq")).related(&Bond::to);
    }
    void scoped() {
        const Audience everyone = Audience::everyone;
        if (has(Piece::purse)) {
            auto out = protocol_.component<Purse>("purse");
            if (has(Piece::purse_gold))
                out.field(&Purse::gold, name("gold"));
            out.field(&Purse::seq, name("seq")).audience(otherwise(Audience::owner, everyone));
        }
        if (has(Piece::tactics))
            protocol_.component<Tactics>("tactics").field(&Tactics::plan, name("plan")).audience(otherwise(Audience::group, everyone));
        if (has(Piece::rumour))
            protocol_.component<Rumour>("rumour")
                .field(&Rumour::heard, otherwise(Range{0, 100, 0.5}, Range{0, 10, 3}), name("heard"))
                .audience(otherwise(Audience::others, everyone));
        if (has(Piece::diary))
            protocol_.opaque<Diary>("diary", sizeof(Diary::page), write_diary, read_diary).audience(otherwise(Audience::owner, everyone));
    }
    void signature() {
        if (has(Piece::signature))
            protocol_.component<SpawnSignature>("signature").field(&SpawnSignature::hash, name("hash"));
    }
    void badge() {
        if (!has(Piece::badge))
            return;
        auto out = protocol_.component<Badge>("badge");
        fields([&] { out.field(&Badge::rank, name("rank")); }, [&] { out.field(&Badge::seq, name("seq")); },
               [&] { out.field(&Badge::giver, name("giver")); });
    }
    void armament() {
        if (has(Piece::ammo))
            protocol_.component<Ammo>("ammo").field(&Ammo::rounds, name("rounds")).field(&Ammo::seq, name("seq"));
        if (has(Piece::barrel))
            protocol_.component<Barrel>("barrel").field(&Barrel::worn, name("worn"));
        if (build_.bundled())
            protocol_.bundle<Ammo, Barrel>(without<Shy>);
    }
    void family() {
        if (has(Piece::child_of))
            protocol_.component<ChildOf>("child of").field(&ChildOf::target, name("target"));
    }
    void scrolls() {
        constexpr u32 bytes_max = sizeof(Scroll::seq) + scroll_bytes_max;
        if (has(Piece::world_scroll))
            protocol_.resource<Scroll>("world scroll", bytes_max, OpaqueFunctions{write_scroll, read_scroll})
                .diffs(write_stroke, read_stroke, apply_stroke, {.history = 10});
        if (has(Piece::scroll))
            protocol_.opaque<Scroll>("scroll", bytes_max, write_scroll, read_scroll)
                .diffs(write_stroke, read_stroke, apply_stroke, {.history = 16});
    }

    Protocol& protocol_;
    const Build& build_;
};

} // namespace

std::unique_ptr<Protocol> make_protocol(const Build& build, const ProtocolConfig& config) {
    auto protocol = std::make_unique<Protocol>(config);
    Registrar(*protocol, build).all();
    if (protocol->finish() != Error::none) {
        std::fprintf(stderr, "%s\n", protocol->problem());
        std::abort();
    }
    return protocol;
}

std::unique_ptr<Protocol> make_protocol(const ProtocolConfig& config, bool lasting) {
    Build build{.named = false, .letters = false};
    for (u32 p = static_cast<u32>(Piece::lasting) + lasting; p <= static_cast<u32>(Piece::exact_mood); ++p)
        build.lacks |= bit(static_cast<Piece>(p));
    return make_protocol(build, config);
}

} // namespace throng_sim
