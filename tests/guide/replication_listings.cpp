// Listings of docs/guide.md: protocol, server, client and the loopback network.
#include "tests/guide/ticks.hpp"
#include "throng/client.hpp"
#include "throng/loopback.hpp"
#include "throng/server.hpp"
#include "throng/spawn_signature.hpp"
#include "throng/wire.hpp"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace throng;

namespace {
// [replicated_components]
enum class Stance : u8 { standing, kneeling, lying };
struct Position { float x = 0, y = 0, z = 0; };
struct Velocity { float x = 0, z = 0; };
struct Body { float yaw = 0; u16 hp = 100; Stance stance = Stance::standing; bool armed = false; };
struct Owner { Entity entity; };
struct Name { std::string text; };
// [/replicated_components]

// [opaque]
u32 write_name(const void* component, std::span<std::byte> out) {
    const std::string& text = static_cast<const Name*>(component)->text;
    if (text.size() <= out.size())
        std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), out.data());
    return static_cast<u32>(text.size()); // more than out.size(): does not fit
}
Error read_name(void* component, std::span<const std::byte> in) { // bytes of the network: any may come
    static_cast<Name*>(component)->text.assign(reinterpret_cast<const char*>(in.data()), in.size());
    return Error::none;
}
// [/opaque]

// [register]
Error register_components(Protocol& protocol) {
    const Range map{-8192, 8192, 0.01}, speed{-20, 20, 0.01};
    protocol.component<Position>("position")
        .field(&Position::x, map).field(&Position::y, Range{-100, 500, 0.01}).field(&Position::z, map)
        .spatial(&Position::x, &Position::z)
        .extrapolated_by(&Velocity::x, &Velocity::z);
    protocol.component<Velocity>("velocity").field(&Velocity::x, speed).field(&Velocity::z, speed);
    protocol.component<Body>("body")
        .field(&Body::yaw, Angle{10}).field(&Body::hp).field(&Body::stance).field(&Body::armed);
    protocol.component<Owner>("owner").field(&Owner::entity);
    protocol.opaque<Name>("name", 200, write_name, read_name);
    return protocol.finish(); // else protocol.problem() says what is wrong
}
// [/register]

/// A server and a client that have joined; the listings go on from there.
struct Game {
    explicit Game(LinkConfig link = {}) : network({.seed = 3}) {
        REQUIRE(register_components(protocol) == Error::none);
        server = new Server(world, protocol, network.server(), {.cell_size = 64});
        id = network.connect(link);
        client = new Client(client_world, protocol, network.client(id));
        steps(10);
        REQUIRE(server->joined(id));
    }
    ~Game() {
        delete client;
        delete server;
    }
    void steps(int count) { play(*server, *client, now, count); }
    Protocol protocol;
    World world, client_world;
    LoopbackNetwork network;
    Server* server = nullptr;
    Client* client = nullptr;
    ClientId id = 0;
    TimeUs now = 0;
};
} // namespace

TEST_SUITE("guide") {
    TEST_CASE("a dictionary") {
        // [dictionary]
        static const char words[] = "Knight of the northern gate, captain of the guard";
        Protocol protocol({.tick_hz = 20, .dictionary = std::as_bytes(std::span(words))});
        // [/dictionary]
        CHECK(register_components(protocol) == Error::none);
        Protocol without_dictionary;
        CHECK(register_components(without_dictionary) == Error::none);
        CHECK(protocol.hash() != without_dictionary.hash());
    }

    TEST_CASE("a client that cannot agree") {
        Protocol server_protocol, protocol;
        REQUIRE(register_components(server_protocol) == Error::none);
        // [custom_data]
        protocol.custom("rules 7"); // before finish(), in the protocol of both sides
        // [/custom_data]
        REQUIRE(register_components(protocol) == Error::none);
        World world, client_world;
        LoopbackNetwork network({.seed = 1});
        Server server(world, server_protocol, network.server());
        Client client(client_world, protocol, network.client(network.connect()));
        for (TimeUs now = 50'000; now < 500'000 && client.problem()[0] == 0; now += 50'000) {
            server.receive(now);
            server.tick(now);
            // [refused]
            if (client.receive(now) == Error::wrong_protocol)
                std::printf("cannot play here: %s\n", client.problem());
            // [/refused]
            CHECK(client.send(now) == Error::none);
        }
        CHECK(std::string(client.problem()) == "custom data: other");
    }

    TEST_CASE("[tbb] configuration and events") {
        Protocol protocol;
        REQUIRE(register_components(protocol) == Error::none);
        World world;
        LoopbackNetwork network({.seed = 1});
        // [server]
        struct Lobby {
            Server* server = nullptr;
            Entity arena;
        } lobby;
        lobby.arena = world.spawn(Position{}, Replicated{});
        ExecutorHandle jobs = make_tbb_executor(2);
        ServerConfig config;
        config.executor = jobs.get();
        config.cell_size = 64;
        config.radius_min = 60;
        ServerEvents events;
        events.context = &lobby;
        events.on_join = [](void* context, ClientId client) {
            Lobby& joined = *static_cast<Lobby*>(context);
            joined.server->view(client).follow(joined.arena, {.radius = 120});
        };
        Server server(world, protocol, network.server(), config, events);
        lobby.server = &server;
        if (server.valid() != Error::none)
            FAIL(server.problem());
        // [/server]
        World client_world;
        const ClientId id = network.connect();
        Client client(client_world, protocol, network.client(id));
        for (TimeUs now = 50'000; now < 1'000'000; now += 50'000) {
            server.receive(now);
            server.tick(now);
            CHECK(client.receive(now) == Error::none);
            CHECK(client.send(now) == Error::none);
        }
        CHECK(server.visible(id, lobby.arena));
        CHECK(client_world.alive(client.entity(server.net_id(lobby.arena))));
        config.history_ticks = 1;
        Server refused(world, protocol, network.server(), config);
        CHECK(refused.valid() == Error::bad_value);
    }

    TEST_CASE("admission") {
        struct Ticket {
            u64 number = 0;
        };
        struct Gate {
            std::vector<ClientId> asked;
        } the_gate;
        Protocol protocol;
        REQUIRE(register_components(protocol) == Error::none);
        World world, client_world;
        LoopbackNetwork network({.seed = 3});
        ServerConfig config;
        ServerEvents events;
        events.context = &the_gate;
        // [admission]
        config.authorization = Authorization::custom;
        events.on_hello = [](void* context, ClientId client, const ClientHello& hello) {
            Gate& gate = *static_cast<Gate*>(context);
            if (hello.data.size() != sizeof(Ticket))
                return Verdict::no; // the client's receive() returns unauthorized
            gate.asked.push_back(client); // a database will know
            return Verdict::later;
        };
        events.on_withdraw = [](void* context, ClientId client) { std::erase(static_cast<Gate*>(context)->asked, client); };
        // [/admission]
        Server server(world, protocol, network.server(), config, events);
        const ClientId id = network.connect();
        Client client(client_world, protocol, network.client(id));
        {
            // [hello_data]
            const Ticket ticket{4711};
            Error error = client.set_hello_data(std::as_bytes(std::span(&ticket, 1)));
            // [/hello_data]
            CHECK(error == Error::none);
        }
        TimeUs now = 0;
        const auto steps = [&] { play(server, client, now, 5); };
        steps();
        REQUIRE(the_gate.asked == std::vector{id});
        CHECK(server.waiting(id));
        // [verdict]
        Error error = server.accept(id); // or refuse(id, "no such ticket"), which Client::problem repeats
        // [/verdict]
        CHECK(error == Error::none);
        steps();
        CHECK(client.joined());
    }

    TEST_CASE("layers") {
        Game game;
        World& world = game.world;
        Server& server = *game.server;
        const ClientId id = game.id;
        const Entity flag = world.spawn(Position{10, 0, 0}, Replicated{});
        server.view(id).look_at(0, 0, {.radius = 60});
        // [layers]
        constexpr u64 red_team = 1, blue_team = 2, blinded = 4;
        world.add<VisibleTo>(flag, VisibleTo{.any_of = red_team | blue_team, .none_of = blinded});
        server.view(id).set_layers(red_team);
        // [/layers]
        game.steps(6);
        CHECK(server.visible(id, flag));
        server.view(id).set_layers(red_team | blinded);
        game.steps(6);
        CHECK_FALSE(server.visible(id, flag));
    }

    TEST_CASE("filters") {
        struct Guild { u32 number = 0; };
        struct Member { u32 guild = 0; };
        Game game;
        World& world = game.world;
        Server& server = *game.server;
        const ClientId id = game.id;
        const Entity banner = world.spawn(Position{10, 0, 0}, Replicated{}), tent = world.spawn(Position{10, 0, 0}, Replicated{});
        server.view(id).look_at(0, 0, {.radius = 60});
        const GroupId squad = server.make_group();
        // [filters]
        Error error = server.add_filter<Guild, Member>("guild", [](const Guild& guild, const Member* client) { // null: the client has none
            return client && client->guild == guild.number;
        });
        world.add<Guild>(banner, Guild{4711}); // it need not be replicated
        error = server.view(id).set(Member{4711}); // clear<Member>() takes it away
        world.add<VisibleToGroup>(tent, VisibleToGroup{squad});
        // [/filters]
        CHECK(error == Error::none);
        game.steps(6);
        CHECK(server.visible(id, banner));
        CHECK_FALSE(server.visible(id, tent));
        CHECK(std::string(server.why(tent, id).filter) == "VisibleToGroup");
        server.add_to_group(squad, id);
        CHECK(server.view(id).clear<Member>() == Error::none);
        game.steps(6);
        CHECK_FALSE(server.visible(id, banner));
        CHECK(server.visible(id, tent));
    }

    TEST_CASE("scopes") {
        struct Purse { int gold = 7; };
        struct Orders { int goal = 3; };
        struct Outline { int kind = 1; };
        Protocol protocol;
        // [audiences]
        protocol.component<Purse>("purse").field(&Purse::gold).audience(Audience::owner);     // its owner's alone
        protocol.component<Orders>("orders").field(&Orders::goal).audience(Audience::group);  // its group's
        protocol.component<Outline>("outline").field(&Outline::kind).audience(Audience::others); // for all but the owner
        // [/audiences]
        REQUIRE(register_components(protocol) == Error::none);
        World world, first_world({.block_rows = 64}), second_world({.block_rows = 64});
        LoopbackNetwork network({.seed = 3});
        Server server(world, protocol, network.server());
        const ClientId id = network.connect(), other = network.connect();
        Client first(first_world, protocol, network.client(id)), second(second_world, protocol, network.client(other));
        auto steps = [&, now = TimeUs(0)](int count) mutable {
            for (; count > 0; --count) {
                now += 50'000;
                server.receive(now);
                server.tick(now);
                for (Client* client : {&first, &second}) {
                    CHECK(client->receive(now) == Error::none);
                    CHECK(client->send(now) == Error::none);
                }
            }
        };
        steps(6);
        const GroupId squad = server.make_group();
        server.add_to_group(squad, id);
        constexpr u64 medics = 1, blinded = 2;
        const Entity avatar = world.spawn(Purse{}, Orders{}, Outline{}, Body{}, Velocity{}, Replicated{});
        // [scopes]
        world.add<OwnedBy>(avatar, OwnedBy{id});
        world.add<SharedWith>(avatar, SharedWith{squad}); // squad = server.make_group(); server.add_to_group(squad, id);
        world.add<ScopedTo>(avatar,
                            ScopedTo(Scope::of<Body>(), {.any_of = medics}).also(Scope::all_except<Position>(), {.none_of = blinded}));
        // [/scopes]
        server.view(other).set_layers(medics);
        steps(6);
        const Entity here = first.entity(server.net_id(avatar)), there = second.entity(server.net_id(avatar));
        CHECK((first_world.has<Purse>(here) && first_world.has<Orders>(here) && first_world.has<Velocity>(here)));
        CHECK_FALSE((first_world.has<Outline>(here) || first_world.has<Body>(here)));
        CHECK((second_world.has<Outline>(there) && second_world.has<Body>(there)));
        CHECK_FALSE((second_world.has<Purse>(there) || second_world.has<Orders>(there)));
        constexpr u64 hunters = 64;
        server.view(id).set_layers(hunters);
        const Entity monster = world.spawn(Position{9, 0, 0}, Body{.hp = 5}, Replicated{});
        server.view(id).look_at(0, 0, {.radius = 50});
        // [lifetimes]
        world.add<ScopedTo>(monster, ScopedTo(Scope::of<Body>(), {.any_of = hunters}, Lifetime::after_first)
                                         .also(Scope::of<Orders>(), {.any_of = hunters}, Lifetime::always));
        // [/lifetimes]
        steps(6);
        const Entity seen = first.entity(server.net_id(monster));
        server.view(id).set_layers(0);
        world.mut<Body>(monster)->hp = 4;
        steps(6);
        REQUIRE(first_world.get<Body>(seen));
        CHECK(first_world.get<Body>(seen)->hp == 5);
        CHECK(first.frozen<Body>(seen));
        server.view(other).set_layers(medics | blinded);
        steps(6);
        CHECK(second_world.alive(there));
        CHECK_FALSE((second_world.has<Outline>(there) || second_world.has<Body>(there) || second_world.has<Velocity>(there)));
    }

    TEST_CASE("priority") {
        Game game;
        World& world = game.world;
        const Entity tree = world.spawn(Position{10, 0, 0}, Replicated{});
        View view = game.server->view(game.id);
        view.look_at(0, 0, {.radius = 60});
        game.steps(6);
        // [priority]
        world.add<UpdatePriority>(tree, UpdatePriority{0.25f}); // every fourth tick
        view.set_priority(tree, 1);                             // but for this client every tick
        // [/priority]
        const auto moves_seen = [&] {
            const Entity seen = game.client->entity(game.server->net_id(tree));
            int moves = 0;
            for (int i = 0; i < 8; ++i) {
                const float before = game.client_world.get<Position>(seen)->x;
                world.mut<Position>(tree)->x += 1;
                game.steps(1);
                moves += game.client_world.get<Position>(seen)->x != before;
            }
            return moves;
        };
        CHECK(moves_seen() == 8);
        view.clear_priority(tree);
        CHECK(moves_seen() == 2);
    }

    TEST_CASE("related") {
        World world;
        Protocol protocol;
        protocol.component<Body>("body").field(&Body::hp);
        // [related]
        protocol.component<Owner>("owner").field(&Owner::entity).related(&Owner::entity);
        const Entity rider = world.spawn(Body{.hp = 100}, Replicated{});
        const Entity horse = world.spawn(Body{.hp = 100}, Owner{rider}, Replicated{});
        // [/related]
        REQUIRE(protocol.finish() == Error::none);
        LoopbackNetwork network({.seed = 3});
        Server server(world, protocol, network.server());
        const ClientId id = network.connect({.loss_percent = 40, .jitter_us = 90'000});
        World seen;
        Client client(seen, protocol, network.client(id));
        int changes = 0, before = 0;
        for (TimeUs now = 0; now < 20'000'000;) {
            world.mut<Body>(rider)->hp = static_cast<u16>(100 - now / 50'000 % 90);
            world.mut<Body>(horse)->hp = static_cast<u16>(100 + now / 50'000 % 90);
            server.receive(now += 50'000);
            server.tick(now);
            CHECK(client.receive(now) == Error::none);
            CHECK(client.send(now) == Error::none);
            if (const Entity there = client.entity(server.net_id(rider))) {
                const int hp = seen.get<Body>(there)->hp;
                CHECK(hp + seen.get<Body>(client.entity(server.net_id(horse)))->hp == 200);
                changes += hp != before;
                before = hp;
            }
        }
        CHECK(changes > 50);
        CHECK(server.cluster_root(horse) == rider);
        CHECK(server.why(horse, id).cluster == WhyCluster::together);
    }

    TEST_CASE("lasting") {
        World world, seen;
        Protocol protocol;
        protocol.component<Position>("position").field(&Position::x, Range{-100, 100, 0.01});
        // [lasting]
        protocol.component<Lasting>("lasting"); // in the protocol of both sides
        const Entity tower = world.spawn(Position{5, 0, 0}, Lasting{}, Replicated{});
        const Entity portal = world.spawn(Position{9, 0, 0}, Lasting{.from_start = true}, Replicated{});
        // [/lasting]
        REQUIRE(protocol.finish() == Error::none);
        LoopbackNetwork network({.seed = 3});
        Server server(world, protocol, network.server());
        const ClientId id = network.connect({});
        Client client(seen, protocol, network.client(id));
        TimeUs now = 0;
        const auto steps = [&] {
            for (int i = 0; i < 10; ++i) {
                server.receive(now += 50'000);
                if (server.joined(id))
                    server.view(id).hide(portal);
                server.tick(now);
                CHECK(client.receive(now) == Error::none);
                CHECK(client.send(now) == Error::none);
            }
        };
        steps();
        server.view(id).hide(tower);
        world.mut<Position>(tower)->x = 6;
        steps();
        for (const Entity e : {tower, portal})
            CHECK(client.frozen(client.entity(server.net_id(e))));
        CHECK(seen.get<Position>(client.entity(server.net_id(tower)))->x == doctest::Approx(5));
        world.destroy(tower);
        steps();
        CHECK(seen.entity_count() == 1);
    }

    TEST_CASE("paused") {
        World world, seen;
        Protocol protocol;
        protocol.component<Position>("position").field(&Position::x, Range{-100, 100, 0.01});
        const Entity tower = world.spawn(Position{5, 0, 0}, Replicated{});
        REQUIRE(protocol.finish() == Error::none);
        LoopbackNetwork network({.seed = 3});
        Server server(world, protocol, network.server());
        Client client(seen, protocol, network.client(network.connect({})));
        TimeUs now = 0;
        const auto steps = [&] {
            play(server, client, now, 10);
            return seen.entity_count();
        };
        CHECK(steps() == 1);
        // [paused]
        world.remove<Replicated>(tower); // a scene is being set up: clients keep it as it was
        world.add<Replicated>(tower);    // it goes on as the same entity
        server.end_replication(tower);   // clients lose it, the server keeps it; given Replicated again, it is another one
        // [/paused]
        CHECK(steps() == 0);
        world.add<Replicated>(tower);
        CHECK(steps() == 1);
    }

    TEST_CASE("views") {
        Game game;
        World& world = game.world;
        Server& server = *game.server;
        const ClientId id = game.id;
        // [views]
        const Entity player = world.spawn(Position{0, 0, 0}, Velocity{}, Body{}, Name{"Ada"}, Replicated{});
        const Entity spy = world.spawn(Position{10, 0, 0}, Owner{player}, Replicated{});
        View view = server.view(id);
        view.follow(player, {.radius = 60});
        view.hide(spy);
        // [/views]
        game.steps(6);
        CHECK(server.visible(id, player));
        CHECK_FALSE(server.visible(id, spy));
        // [why]
        const Why why = server.why(spy, id);
        std::printf("%s (%s)\n", to_string(why.reason), to_string(why.cause)); // hidden from the client (hidden from the client)
        if (why.last_sections.carried)
            std::printf("%u bytes for %u entities at tick %u\n", why.last_sections.bytes, why.last_sections.lanes, why.last_sections.tick);
        // [/why]
        CHECK(why.reason == WhyReason::hidden);
        server.view(id).show(spy);
        game.steps(6);
        const Entity shown = game.client->entity(server.net_id(spy));
        REQUIRE(game.client_world.alive(shown));
        CHECK(game.client_world.get<Owner>(shown)->entity == game.client->entity(server.net_id(player)));
        CHECK(game.client_world.get<Name>(game.client->entity(server.net_id(player)))->text == "Ada");
        world.mut<Position>(player)->x = 1;
        // [report]
        const TickReport& report = server.tick(game.now += 50'000);
        if (report.limits & limit_budget)
            std::printf("budget_bytes was reached: state waits\n");
        const double bytes_per_pair = report.pairs ? double(report.bytes) / double(report.pairs) : 0;
        // [/report]
        CHECK(report.limits == 0);
        CHECK(report.pairs == 1);
        CHECK(report.keys == 1);
        CHECK(report.encodes == report.keys);
        CHECK(bytes_per_pair > 0);
        // [client_report]
        const ClientReport client = server.client_report(id);
        std::printf("%u of %u entities up to date, %.1f ticks away, %llu bytes in the last tick and %llu in all\n", client.current,
                    client.visible, client.round_trip_ticks, static_cast<unsigned long long>(client.last.bytes),
                    static_cast<unsigned long long>(client.total.bytes));
        const ComponentReport names = server.component_report<Name>();
        std::printf("%s: on %u entities, %u changed, %llu bits encoded\n", names.name, names.entities, names.changed,
                    static_cast<unsigned long long>(names.last.bits));
        // [/client_report]
        CHECK(client.visible == 2);
        CHECK(client.last.bytes == report.bytes);
        CHECK(names.entities == 1);
        CHECK(names.changed == 0);
    }

    TEST_CASE("what a client is told") {
        Protocol protocol;
        REQUIRE(register_components(protocol) == Error::none);
        World world, client_world;
        LoopbackNetwork network({.seed = 1});
        Server server(world, protocol, network.server());
        const ClientId id = network.connect();
        const Entity house = world.spawn(Replicated{}, Name{"house"}); // has no place: everybody sees it
        // [client]
        struct Screen {
            int shown = 0;
        } screen;
        ClientConfig config;
        config.context = &screen;
        config.on_spawn = [](void* context, Entity, NetId) { ++static_cast<Screen*>(context)->shown; };
        config.on_despawn = [](void* context, Entity, NetId) { --static_cast<Screen*>(context)->shown; };
        Client client(client_world, protocol, network.client(id), config);
        // [/client]
        auto steps = [&, now = TimeUs(0)](int count) mutable { play(server, client, now, count); };
        steps(10);
        CHECK(screen.shown == 1);
        steps(20); // the next heartbeat says what is settled
        CHECK(client.any_settled());
        world.destroy(house);
        steps(5);
        CHECK(screen.shown == 0);
    }

    TEST_CASE("what a client knows of ticks") {
        Protocol protocol;
        REQUIRE(register_components(protocol) == Error::none);
        World world, client_world;
        LoopbackNetwork network({.seed = 1});
        Server server(world, protocol, network.server(), {.heartbeat_ticks = 1});
        const ClientId id = network.connect();
        // [confirmed]
        struct Prediction {
            Tick carried = 0, settled = 0;
        } prediction;
        ClientConfig config;
        config.confirm_history = true;
        config.context = &prediction;
        config.on_carried = [](void* context, Entity, NetId, Tick tick) { static_cast<Prediction*>(context)->carried = tick; };
        config.on_settled = [](void* context, Tick tick) { static_cast<Prediction*>(context)->settled = tick; };
        // [/confirmed]
        Client client(client_world, protocol, network.client(id), config);
        const Entity house = world.spawn(Replicated{}, Name{"house"});
        for (TimeUs now = 50'000; now <= 500'000; now += 50'000) {
            server.receive(now);
            server.tick(now);
            CHECK(client.receive(now) == Error::none);
            CHECK(client.send(now) == Error::none);
        }
        const Entity shown = client.entity(server.net_id(house));
        CHECK(prediction.carried > 0);
        CHECK(prediction.settled == server.current_tick());
        CHECK(client.confirmed(shown, prediction.carried));
        CHECK(client.confirmed(prediction.settled));
        CHECK_FALSE(client.confirmed(shown, prediction.settled + 1));
    }

    TEST_CASE("userdata") {
        Game game;
        Server& server = *game.server;
        u32 heard = 0;
        ClientConfig config;
        config.context = &heard;
        // [userdata]
        config.on_userdata = [](void* context, Tick, Bytes data) {
            std::memcpy(context, data.data(), std::min(data.size(), sizeof(u32))); // here the context is a u32
        };
        // [/userdata]
        World there;
        const ClientId id = game.network.connect();
        Client client(there, game.protocol, game.network.client(id), config);
        // [set_userdata]
        const u32 frame = 1234; // of the physics
        if (server.set_userdata(std::as_bytes(std::span(&frame, 1))) != Error::none)
            FAIL("more than 255 bytes, or too large for the packets");
        // [/set_userdata]
        game.world.spawn(Body{}, Replicated{});
        for (int i = 0; i < 10; ++i) {
            game.steps(1);
            CHECK(client.receive(game.now) == Error::none);
            CHECK(client.send(game.now) == Error::none);
        }
        CHECK(heard == 1234);
    }

    TEST_CASE("entities made ahead") {
        struct Predicted {};
        World world, client_world;
        Protocol protocol;
        protocol.component<Position>("position").field(&Position::x, Range{-100, 100, 0.01});
        // [signature]
        // in the protocol of both sides; only the owner is told
        protocol.component<SpawnSignature>("signature").field(&SpawnSignature::hash).audience(Audience::owner);
        // [/signature]
        REQUIRE(protocol.finish() == Error::none);
        LoopbackNetwork network({.seed = 3});
        Server server(world, protocol, network.server());
        const ClientId id = network.connect({});
        Client client(client_world, protocol, network.client(id));
        TimeUs now = 0;
        const auto steps = [&] { play(server, client, now, 10); };
        steps();
        const u32 player = 3, input = 1007;
        // [made_ahead]
        constexpr u64 shots = 0x5107; // a salt for each kind of entity
        // client, when the button is pressed
        const Entity shot = client_world.spawn(Position{1, 0, 0}, Predicted{}, SpawnSignature::of(shots, player, input));
        // server, when the input has arrived
        world.spawn(Position{1, 0, 0}, SpawnSignature::of(shots, player, input), OwnedBy{id}, Replicated{});
        // [/made_ahead]
        steps();
        CHECK(client_world.entity_count() == 1);
        CHECK(client.net_id(shot));
        CHECK(client.stats().adoptions == 1);
        CHECK(client_world.has<Predicted>(shot));
    }

    TEST_CASE("a scripted link") {
        // [link]
        LinkConfig down{.loss_percent = 2, .delay_us = 60'000, .jitter_us = 20'000};
        down.burst_enter_percent = 0.5;  // now and then a bad spell ...
        down.burst_leave_percent = 20;   // ... of five packets on average, all lost
        down.rate_bytes_per_s = 64'000;
        const ScriptStep script[] = {{.packet = 3, .action = ScriptAction::drop},
                                     {.packet = 5, .action = ScriptAction::delay, .value = 30'000}};
        const Blackout blackout[] = {{.from_us = 2'000'000, .until_us = 2'500'000}};
        down.script = script;
        down.blackouts = blackout;
        OutputHash sent; // the same seed gives the same digest, on any executor
        LoopbackNetwork network({.seed = 42, .trace = sent.hook()});
        const ClientId id = network.connect(down, {.delay_us = 60'000});
        // [/link]
        CHECK(invalid_field(down) == nullptr);
        CHECK(network.connected(id));
        Protocol protocol;
        REQUIRE(register_components(protocol) == Error::none);
        World world, client_world;
        Server server(world, protocol, network.server());
        Client client(client_world, protocol, network.client(id));
        for (TimeUs now = 50'000; now < 4'000'000; now += 50'000) {
            server.receive(now);
            if (world.entity_count() == 0)
                world.spawn(Name{"house"}, Replicated{});
            server.tick(now);
            CHECK(client.receive(now) == Error::none);
            CHECK(client.send(now) == Error::none);
        }
        CHECK(client_world.entity_count() == 1);
        CHECK(network.counters(id, Direction::down).sent > 0);
        CHECK(sent.low != 0);
    }
}
