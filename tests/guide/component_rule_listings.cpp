// Listings of docs/guide.md: rules of components.
#include "tests/guide/ticks.hpp"
#include "throng/client.hpp"
#include "throng/loopback.hpp"
#include "throng/messenger.hpp"
#include "throng/server.hpp"
#include <cstring>
#include <doctest/doctest.h>
#include <vector>

using namespace throng;

namespace {
struct Velocity { float x = 0, z = 0; };
struct Ammo { u16 count = 0; };
struct Weapon { u16 kind = 0; };
struct Mana { i32 points = 0; };
struct Origin { u32 village = 0; };
struct Duel {};
struct Hidden {};
struct Wizard {};
struct Witch {};

// [another_type]
struct Heat { double kelvin = 0; std::vector<double> past; }; // of the game
struct WireHeat { i32 tenths = 0; };                          // what travels
WireHeat pack(const Heat& heat) { return {static_cast<i32>(heat.kelvin * 10)}; }
Heat unpack(const WireHeat& wire) { return {wire.tenths / 10.0, {}}; }

void register_heat(Protocol& protocol) {
    protocol.component_as("heat", pack, unpack).field(&WireHeat::tenths);
}
// [/another_type]

// [diffs]
struct Chest { std::vector<u32> items; };   // hundreds of them
struct Swap { u16 slot = 0; u32 item = 0; }; // all that is done to it

u32 write_chest(const void* component, std::span<std::byte> out) {
    const std::vector<u32>& items = static_cast<const Chest*>(component)->items;
    const std::size_t bytes = items.size() * sizeof(u32);
    if (bytes > 0 && bytes <= out.size())
        std::memcpy(out.data(), items.data(), bytes);
    return static_cast<u32>(bytes);
}
Error read_chest(void* component, std::span<const std::byte> in) {
    std::vector<u32>& items = static_cast<Chest*>(component)->items;
    items.resize(in.size() / sizeof(u32));
    if (!items.empty())
        std::memcpy(items.data(), in.data(), items.size() * sizeof(u32));
    return in.size() % sizeof(u32) == 0 ? Error::none : Error::truncated;
}
u32 write_swap(const Swap& swap, std::span<std::byte> out) {
    if (out.size() >= 6) {
        std::memcpy(out.data(), &swap.slot, 2);
        std::memcpy(out.data() + 2, &swap.item, 4);
    }
    return 6;
}
Error read_swap(Swap& swap, std::span<const std::byte> in) {
    if (in.size() != 6)
        return Error::truncated;
    std::memcpy(&swap.slot, in.data(), 2);
    std::memcpy(&swap.item, in.data() + 2, 4);
    return Error::none;
}
Error do_swap(Chest& chest, const Swap& swap) { // on the server and on clients, where any may come
    if (swap.slot >= chest.items.size())
        return Error::bad_value;
    chest.items[swap.slot] = swap.item;
    return Error::none;
}
void register_chest(Protocol& protocol) {
    protocol.opaque<Chest>("chest", 4000, write_chest, read_chest).diffs(write_swap, read_swap, do_swap, {.history = 64});
}
Error swap_item(Server& server, Entity chest, u16 slot, u32 item) {
    return server.apply_diff<Chest>(chest, Swap{slot, item}); // a few bytes on the wire, instead of hundreds
}
// [/diffs]
// [net_ids]
struct Party { std::vector<NetId> members; }; // written as it is, by functions as above
void join_party(Server& server, World& world, Entity party, Entity hero) {
    if (Party* found = world.mut<Party>(party))
        found->members.push_back(server.net_id(hero));
}
u32 members_in_sight(const Client& client, const Party& party) {
    u32 count = 0;
    for (const NetId id : party.members)
        count += client.entity(id) ? 1 : 0;
    return count;
}
// [/net_ids]
u32 write_party(const void* component, std::span<std::byte> out) {
    const std::vector<NetId>& members = static_cast<const Party*>(component)->members;
    const std::size_t bytes = members.size() * sizeof(NetId);
    if (bytes > 0 && bytes <= out.size())
        std::memcpy(out.data(), members.data(), bytes);
    return static_cast<u32>(bytes);
}
Error read_party(void* component, std::span<const std::byte> in) {
    std::vector<NetId>& members = static_cast<Party*>(component)->members;
    members.resize(in.size() / sizeof(NetId));
    if (!members.empty())
        std::memcpy(members.data(), in.data(), members.size() * sizeof(NetId));
    return in.size() % sizeof(NetId) == 0 ? Error::none : Error::truncated;
}
// [diffs_anywhere]
Error swap_anywhere(Messenger& messages, Entity chest, u16 slot, u32 item) {
    return messages.apply_diff<Chest>(chest, Swap{slot, item});
}
Messenger alone(const Protocol& protocol, World& world) {
    return Messenger(protocol, {.local_player = true, .world = &world}); // others: a server, a client
}
// [/diffs_anywhere]

// [resource]
struct Weather { float wind = 0; };
void register_weather(Protocol& protocol) {
    protocol.resource<Weather>("weather").field(&Weather::wind, Range{0, 50, 0.1});
}
void storm(World& world) {
    if (Weather* weather = world.resources().mut<Weather>())
        weather->wind = 40; // clients: world.resources().get<Weather>()
    else
        world.resources().emplace<Weather>(Weather{40});
}
void show_to_sailors(Server& server, World& world, u64 sailors) { // a client is one by View::set_layers
    const Entity resources = server.keep_resource_entity();
    world.set(resources, ScopedTo(Scope::of<ResourceValue<Weather>>(), {.any_of = sailors}));
}
// [/resource]

// [rules]
Error register_with_rules(Protocol& protocol) {
    const Range rough{-20, 20, 0.5}, exact{-20, 20, 0.001};
    protocol.component<Velocity>("velocity").field(&Velocity::x, rough).field(&Velocity::z, rough);
    protocol.component<Velocity>("exact velocity").field(&Velocity::x, exact).field(&Velocity::z, exact)
        .when(with<Duel>); // instead of the other: a type that is named counts 1 more
    protocol.component<Mana>("mana").field(&Mana::points)
        .when(without<Hidden> && any_of<Wizard, Witch>) // one of these, or the next
        .when(with<Duel>);
    protocol.component<Origin>("origin").field(&Origin::village).once();
    protocol.component<Ammo>("ammo").field(&Ammo::count);
    protocol.component<Weapon>("weapon").field(&Weapon::kind);
    protocol.bundle<Ammo, Weapon>(); // together, or not at all
    return protocol.finish();
}
// [/rules]

TEST_CASE("guide: rules of components") {
    Protocol protocol;
    register_heat(protocol);
    register_chest(protocol);
    register_weather(protocol);
    protocol.opaque<Party>("party", 400, write_party, read_party);
    REQUIRE_MESSAGE(register_with_rules(protocol) == Error::none, protocol.problem());
    World world, client_world;
    LoopbackNetwork network({.seed = 3});
    Server server(world, protocol, network.server());
    const ClientId id = network.connect();
    Client client(client_world, protocol, network.client(id));
    TimeUs now = 0;
    const auto steps = [&] { play(server, client, now, 10); };
    const Entity e = world.spawn(Velocity{1.234f, 0}, Mana{5}, Wizard{}, Origin{3}, Ammo{9}, Heat{20.5, {1}}, Replicated{});
    storm(world);
    steps();
    REQUIRE(client_world.resources().has<Weather>());
    CHECK(client_world.resources().get<Weather>()->wind == 40);
    server.view(id).set_layers(1);
    show_to_sailors(server, world, 2);
    steps();
    CHECK_FALSE(client_world.resources().has<Weather>());
    server.view(id).set_layers(3);
    steps();
    REQUIRE(client_world.resources().has<Weather>());
    const Entity there = client.entity(server.net_id(e));
    CHECK(client_world.get<Velocity>(there)->x == 1);
    CHECK(client_world.get<Mana>(there)->points == 5);
    const Entity party = world.spawn(Party{}, Replicated{});
    join_party(server, world, party, e);
    steps();
    REQUIRE(client_world.get<Party>(client.entity(server.net_id(party))));
    CHECK(members_in_sight(client, *client_world.get<Party>(client.entity(server.net_id(party)))) == 1);
    CHECK(client_world.get<Heat>(there)->kelvin == 20.5);
    CHECK_FALSE(client_world.has<Ammo>(there));
    world.add<Duel>(e);
    world.add<Hidden>(e);
    world.add<Weapon>(e, Weapon{1});
    world.mut<Origin>(e)->village = 4;
    steps();
    CHECK(client_world.get<Velocity>(there)->x == doctest::Approx(1.234).epsilon(0.0001));
    CHECK(client_world.has<Mana>(there));
    CHECK(client_world.get<Ammo>(there)->count == 9);
    CHECK(client_world.get<Weapon>(there)->kind == 1);
    CHECK(client_world.get<Origin>(there)->village == 3);

    world.add<Chest>(e, Chest{std::vector<u32>(500, 7)});
    steps();
    const u64 whole = client.component_report<Chest>().opaque_bytes;
    CHECK(swap_item(server, e, 499, 8) == Error::none);
    CHECK(swap_item(server, e, 500, 8) == Error::bad_value);
    steps();
    CHECK(client_world.get<Chest>(there)->items == world.get<Chest>(e)->items);
    CHECK(client_world.get<Chest>(there)->items[499] == 8);
    CHECK(client.component_report<Chest>().opaque_bytes - whole < 20);

    Messenger messages(protocol, {.server = &server});
    CHECK(swap_anywhere(messages, e, 0, 9) == Error::none);
    steps();
    CHECK(client_world.get<Chest>(there)->items[0] == 9);
    World single;
    const Entity chest = single.spawn(Chest{{1, 2}});
    Messenger no_server = alone(protocol, single);
    CHECK(swap_anywhere(no_server, chest, 1, 5) == Error::none);
    CHECK(single.get<Chest>(chest)->items == std::vector<u32>{1, 5});
}
} // namespace
