// Components that travel as another type, and functions of the game's own.
#include "tests/conformance/rules_support.hpp"
#include <cmath>
#include <cstring>

using namespace throng;
using namespace conformance::state;

namespace {

struct Heat { // as whole tenths of a degree, and who lit it
    double kelvin = 0;
    Entity lit_by;
    std::vector<int> notes; // stays where it is
    bool operator==(const Heat& other) const { return kelvin == other.kelvin && lit_by == other.lit_by; }
};
struct WireHeat {
    i32 tenths = 0;
    Entity lit_by;
};
int packed = 0; // serial runs only
WireHeat pack(const Heat& heat) {
    if (conformance::setting().workers == 1)
        ++packed;
    return {static_cast<i32>(std::lround(heat.kelvin * 10)), heat.lit_by};
}
Heat unpack(const WireHeat& wire) {
    return {wire.tenths / 10.0, wire.lit_by, {1, 2, 3}};
}
ConvertedBuilder<WireHeat> heat(Protocol& p, const char* name = "heat") {
    return p.component_as(name, pack, unpack).field(&WireHeat::tenths).field(&WireHeat::lit_by);
}

/// Says which of its functions were called.
struct Diary {
    std::string text;
    int kept = 0; // of the client's own
};
struct Calls {
    int written = 0, fresh = 0, in_place = 0, consumed = 0;
} calls;
u32 write_diary(const void* object, std::span<std::byte> out) {
    if (conformance::setting().workers == 1)
        ++calls.written;
    const std::string& text = static_cast<const Diary*>(object)->text;
    if (text.size() <= out.size())
        std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), out.data());
    return static_cast<u32>(text.size());
}
Error read_text(void* object, std::span<const std::byte> in) {
    if (!in.empty() && in[0] == std::byte{'!'})
        return Error::bad_value;
    static_cast<Diary*>(object)->text.assign(reinterpret_cast<const char*>(in.data()), in.size());
    return Error::none;
}
Error read_diary(void* object, std::span<const std::byte> in) {
    ++calls.fresh;
    static_cast<Diary*>(object)->kept = -1;
    return read_text(object, in);
}
Error read_diary_in_place(void* object, std::span<const std::byte> in) {
    ++calls.in_place;
    return read_text(object, in);
}
Error consume_diary(std::span<const std::byte> in) {
    ++calls.consumed;
    return in.empty() || in[0] != std::byte{'!'} ? Error::none : Error::bad_value;
}

/// References of any number, in functions: as net ids.
struct Party {
    std::vector<NetId> members;
};
u32 write_party(const void* object, std::span<std::byte> out) {
    const std::vector<NetId>& members = static_cast<const Party*>(object)->members;
    const std::size_t bytes = members.size() * sizeof(NetId);
    if (bytes > 0 && bytes <= out.size())
        std::memcpy(out.data(), members.data(), bytes);
    return static_cast<u32>(bytes);
}
Error read_party(void* object, std::span<const std::byte> in) {
    if (in.size() % sizeof(NetId) != 0)
        return Error::truncated;
    std::vector<NetId>& members = static_cast<Party*>(object)->members;
    members.resize(in.size() / sizeof(NetId));
    if (!members.empty())
        std::memcpy(members.data(), in.data(), in.size());
    return Error::none;
}

} // namespace

TEST_CASE("rules/another_type_travels") {
    StateNet net = make_net([](Protocol& p) { heat(p); });
    auto& peer = net.join();
    const Entity fire = net.world.spawn(Replicated{});
    const Entity e = net.world.spawn(Heat{300.17, fire, {}}, Replicated{});
    net.agree();
    REQUIRE(net.value<Heat>(peer, e));
    CHECK(net.value<Heat>(peer, e)->kelvin == 300.2);
    CHECK(net.value<Heat>(peer, e)->notes.size() == 3);
    CHECK(net.value<Heat>(peer, e)->lit_by == net.shown(peer, fire));
    packed = 0;
    net.world.mut<Heat>(e)->kelvin = 300.18; // the same on the wire
    CHECK(net.state_bytes(10) == 0);
    if (conformance::setting().workers == 1)
        CHECK(packed == 1);
    net.world.mut<Heat>(e)->kelvin = 310;
    net.agree();
    CHECK(net.value<Heat>(peer, e)->kelvin == 310);
    net.world.remove<Heat>(e);
    net.agree();
    CHECK_FALSE(net.value<Heat>(peer, e));
}

TEST_CASE("rules/another_type_travels_with_references") {
    StateNet net = make_net([](Protocol& p) { heat(p); });
    auto& peer = net.join();
    const Entity fire = net.world.create();
    const Entity e = net.world.spawn(Heat{300, fire, {}}, Replicated{});
    net.agree();
    REQUIRE(net.value<Heat>(peer, e));
    CHECK_FALSE(net.value<Heat>(peer, e)->lit_by);
    net.world.add<Replicated>(fire);
    net.agree();
    REQUIRE(net.shown(peer, fire));
    CHECK(net.value<Heat>(peer, e)->lit_by == net.shown(peer, fire));
    CHECK(net.value<Heat>(peer, e)->kelvin == 300);
    net.server.view(peer.id).hide(fire);
    net.agree();
    CHECK_FALSE(net.value<Heat>(peer, e)->lit_by);
    net.server.view(peer.id).show(fire);
    net.agree();
    CHECK(net.value<Heat>(peer, e)->lit_by == net.shown(peer, fire));
    CHECK(net.server.end_replication(fire)); // and another net id
    net.step();
    net.world.add<Replicated>(fire);
    net.agree();
    CHECK(net.value<Heat>(peer, e)->lit_by == net.shown(peer, fire));
}

TEST_CASE("rules/another_type_under_another_name") {
    StateNet net = make_net([](Protocol& p) {
        heat(p);
        p.opaque<Heat>(
             "exact heat", 8,
             [](const void* object, std::span<std::byte> out) -> u32 {
                 if (out.size() >= 8)
                     std::memcpy(out.data(), &static_cast<const Heat*>(object)->kelvin, 8);
                 return 8;
             },
             [](void* object, std::span<const std::byte> in) {
                 if (in.size() != 8)
                     return Error::truncated;
                 std::memcpy(&static_cast<Heat*>(object)->kelvin, in.data(), 8);
                 return Error::none;
             })
            .when(with<Important>);
    });
    auto& peer = net.join();
    const Entity e = net.world.spawn(Heat{300.17, {}, {}}, Replicated{});
    net.agree();
    CHECK(net.value<Heat>(peer, e)->kelvin == 300.2);
    for (int i = 0; i < 3; ++i) {
        net.world.add<Important>(e);
        net.agree();
        CHECK(net.value<Heat>(peer, e)->kelvin == 300.17);
        CHECK(net.value<Heat>(peer, e)->notes.size() == 3); // the same component
        net.world.remove<Important>(e);
        net.agree();
        CHECK(net.value<Heat>(peer, e)->kelvin == 300.2);
    }
}

TEST_CASE("rules/another_type_under_receive_rules") {
    StateNet net = make_net([](Protocol& p) { heat(p); });
    ReceiveRules rules(*net.protocol);
    struct Heard {
        std::vector<double> kelvin;
    } heard;
    REQUIRE(rules.functions<Heat>(
                [](const Received& received, const Heat& value) { static_cast<Heard*>(received.context)->kelvin.push_back(value.kelvin); },
                nullptr, &heard) == Error::none);
    ReceiveRules compare(*net.protocol);
    REQUIRE(compare.write_if_different<Heat>() == Error::none);
    const Entity e = net.world.spawn(Heat{300.17, {}, {}}, Replicated{});
    {
        HeldBack hears(net, Reason::counts_packets, {.rules = &rules}), compares(net, {.rules = &compare});
        net.settle();
        REQUIRE(net.value<Heat>(compares.peer, e));
        int changes = 0;
        compares.peer.world->on_change<Heat>([&](World&, Entity, Heat&) { ++changes; });
        compares.peer.world->mut<Heat>(net.shown(compares.peer, e))->kelvin = 301; // as it will be
        net.world.mut<Heat>(e)->kelvin = 301;
        net.settle();
        CHECK(changes == 0);
        net.world.mut<Heat>(e)->kelvin = 302;
        net.settle();
        CHECK(changes == 1);
        CHECK(net.value<Heat>(compares.peer, e)->kelvin == 302);
        CHECK(heard.kelvin == std::vector<double>{300.2, 301, 302});
    }
}

TEST_CASE("rules/own_functions") {
    StateNet net = make_net([](Protocol& p) {
        p.opaque<Diary>("diary", 100, OpaqueFunctions{write_diary, read_diary, read_diary_in_place, consume_diary});
    });
    auto& peer = net.join();
    calls = {};
    const Entity e = net.world.spawn(Diary{"dear", 0}, Replicated{});
    net.settle();
    REQUIRE(net.value<Diary>(peer, e));
    CHECK(net.value<Diary>(peer, e)->text == "dear");
    CHECK(net.value<Diary>(peer, e)->kept == -1); // made from nothing
    CHECK(calls.fresh == 1);
    CHECK(calls.in_place == 0);
    peer.world->mut<Diary>(net.shown(peer, e))->kept = 5;
    net.world.mut<Diary>(e)->text = "reader";
    net.settle();
    CHECK(net.value<Diary>(peer, e)->text == "reader");
    CHECK(net.value<Diary>(peer, e)->kept == 5); // in place
    CHECK(calls.fresh == 1);
    CHECK(calls.in_place == 1);
    CHECK(calls.consumed >= 2);
    net.world.mut<Diary>(e)->text.assign(1, '!');
    net.steps(30);
    CHECK(net.value<Diary>(peer, e)->text == "reader"); // refused by consume, before anything changes
    CHECK(calls.in_place == 1);
    net.world.remove<Diary>(e);
    net.world.add<Diary>(e, Diary{"again", 0});
    net.settle();
    CHECK(net.value<Diary>(peer, e)->text == "again");
    CHECK(net.value<Diary>(peer, e)->kept == -1);
    CHECK(calls.fresh == 2);
}

TEST_CASE("fns/serialize_missing_component") {
    StateNet net = make_net([](Protocol& p) {
        p.opaque<Diary>("diary", 100, OpaqueFunctions{write_diary, read_diary, read_diary_in_place, consume_diary}).when(without<Asleep>);
        heat(p);
    });
    auto& peer = net.join();
    calls = {};
    packed = 0;
    const Entity e = net.world.spawn(Replicated{});
    net.world.add<Diary>(e, Diary{"gone", 0});
    net.world.add<Heat>(e);
    net.world.remove<Diary>(e);
    net.world.remove<Heat>(e);
    const Entity asleep = net.world.spawn(Diary{"secret", 0}, Asleep{}, Replicated{});
    net.settle();
    net.world.mut<Diary>(asleep)->text = "more";
    net.settle();
    CHECK(peer.world->alive(net.shown(peer, e)));
    CHECK(calls.written == 0); // never asked for a component that is not there, or not let through
    CHECK(calls.fresh + calls.in_place + calls.consumed == 0);
    CHECK(packed == 0);
}

TEST_CASE("rules/net_ids_in_own_functions") {
    StateNet net = make_net([](Protocol& p) {
        health(p);
        p.opaque<Party>("party", 400, write_party, read_party);
    });
    auto& peer = net.join();
    Entity e[3];
    for (Entity& one : e)
        one = net.world.spawn(Health{1, false}, Replicated{});
    CHECK_FALSE(net.server.net_id(e[0])); // before the tick that sees it
    net.server.view(peer.id).hide(e[1]);
    net.step();
    const Entity holder = net.world.spawn(Party{{net.server.net_id(e[0]), net.server.net_id(e[1])}}, Replicated{});
    net.agree();
    const auto members = [&] {
        std::vector<Entity> out;
        const Party* const party = net.value<Party>(peer, holder);
        REQUIRE(party);
        for (const NetId id : party->members)
            out.push_back(peer.client->entity(id));
        return out;
    };
    REQUIRE(members().size() == 2);
    CHECK(members()[0] == net.shown(peer, e[0]));
    CHECK_FALSE(members()[1]); // R11: null until it is shown
    net.server.view(peer.id).show(e[1]);
    net.agree();
    REQUIRE(net.shown(peer, e[1]));
    CHECK(members()[1] == net.shown(peer, e[1])); // and nothing of the party was sent
    CHECK(peer.client->component_report<Party>().writes == 1);
    net.world.mut<Party>(holder)->members.push_back(net.server.net_id(e[2]));
    net.world.destroy(e[0]);
    net.world.spawn(Health{2, false}, Replicated{}); // in the lane, and not it
    net.agree();
    REQUIRE(members().size() == 3);
    CHECK_FALSE(members()[0]);
    CHECK(members()[2] == net.shown(peer, e[2]));
}
