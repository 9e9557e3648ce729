#include "tests/sim/components.hpp"
#include "tests/sim/letters.hpp"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

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

void make_rules(ReceiveRules& functions, ReceiveRules& compare) {
    need(functions.marker<Speed>({.history = true}));
    need(functions.functions<Place>(write<Place>, remove<Place>));
    need(functions.functions<Link>(write<Link>, nullptr));
    need((functions.functions_for<Speed, Vitals>(write<Vitals>, remove<Vitals>)));
    need((functions.functions_for<Speed, Note>(write<Note>, nullptr)));
    need((functions.functions_for<Speed, Facing>(nullptr, remove<Facing>)));
    need(compare.write_if_different<Place>());
    need(compare.write_if_different<Speed>());
    need(compare.write_if_different<Vitals>());
    need(compare.write_if_different<Facing>());
    need(compare.write_if_different<Link>());
    need(compare.write_if_different<Note>());
    if (functions.protocol().components().size() > 7) {
        need((functions.functions_for<Speed, Mood>(write<Mood>, remove<Mood>)));
        need(compare.write_if_different<Mood>());
        need((functions.functions_for<Speed, Heat>(write<Heat>, remove<Heat>)));
        need(compare.write_if_different<Heat>());
    }
    if (functions.protocol().components().back().name == std::string_view("scroll")) {
        need((functions.functions_for<Speed, Scroll>(write<Scroll>, remove<Scroll>)));
        need(compare.write_if_different<Scroll>());
    }
}

std::unique_ptr<Protocol> make_protocol(ProtocolConfig config, bool lasting, bool ruled, bool bonds, bool scoped, bool diffs,
                                        bool signatures, bool letters) {
    auto protocol = std::make_unique<Protocol>(config);
    const Range map{-map_edge, map_edge, 0.01};
    protocol->component<Place>("place")
        .field(&Place::x, map)
        .field(&Place::z, map)
        .field(&Place::y, Range{-1000, 1000, 0.01})
        .field(&Place::seq)
        .spatial(&Place::x, &Place::z)
        .extrapolated_by(&Speed::x, &Speed::z);
    protocol->component<Speed>("speed").field(&Speed::x, Range{-20, 20, 0.01}).field(&Speed::z, Range{-20, 20, 0.01});
    protocol->component<Vitals>("vitals")
        .field(&Vitals::hp)
        .field(&Vitals::angry)
        .field(&Vitals::state)
        .field(&Vitals::score)
        .field(&Vitals::seq);
    protocol->component<Facing>("facing").field(&Facing::yaw, Angle{10}).field(&Facing::seq);
    protocol->component<Link>("link").field(&Link::first).field(&Link::second).field(&Link::seq);
    protocol->opaque<Note>("note", note_bytes_max, write_note, read_note);
    if (lasting)
        protocol->component<Lasting>("lasting");
    if (ruled) {
        protocol->component<Mood>("mood").field(&Mood::value, Range{-1000, 1000, 10}).field(&Mood::seq).when(without<Shy>);
        protocol->component<Mood>("exact mood")
            .field(&Mood::value)
            .field(&Mood::seq)
            .when(with<Hero> && any_of<Speed, Facing>)
            .when(with<Shy> && without<Link>, 1);
        protocol->component<Birth>("birth").field(&Birth::value).field(&Birth::serial).when(with<Vitals>).once();
        protocol->resource<Weather>("weather").field(&Weather::wind).field(&Weather::seq);
        protocol->component_as("heat", pack, unpack).field(&WireHeat::tenths).field(&WireHeat::seq).when(without<Shy>);
    }
    if (bonds)
        protocol->component<Bond>("bond").field(&Bond::to).field(&Bond::seq).related(&Bond::to);
    if (scoped) {
        protocol->component<Purse>("purse").field(&Purse::gold).field(&Purse::seq).audience(Audience::owner);
        protocol->component<Tactics>("tactics").field(&Tactics::plan).audience(Audience::group);
        protocol->component<Rumour>("rumour").field(&Rumour::heard, Range{0, 100, 0.5}).audience(Audience::others);
        protocol->opaque<Diary>("diary", sizeof(Diary::page), write_diary, read_diary).audience(Audience::owner);
    }
    if (signatures)
        protocol->component<SpawnSignature>("signature").field(&SpawnSignature::hash);
    if (diffs) {
        constexpr u32 bytes_max = sizeof(Scroll::seq) + scroll_bytes_max;
        protocol->resource<Scroll>("world scroll", bytes_max, OpaqueFunctions{write_scroll, read_scroll})
            .diffs(write_stroke, read_stroke, apply_stroke, {.history = 10});
        protocol->opaque<Scroll>("scroll", bytes_max, write_scroll, read_scroll)
            .diffs(write_stroke, read_stroke, apply_stroke, {.history = 16});
    }
    if (letters)
        register_letters(*protocol);
    if (protocol->finish() != Error::none) {
        std::fprintf(stderr, "%s\n", protocol->problem());
        std::abort();
    }
    return protocol;
}

} // namespace throng_sim
