// A world at rest sends nothing, whatever its protocol has and whatever was done before: every feature is used, by several clients of two
// worlds over lossy links, and then neither side sends a packet or takes memory.
#include "tests/allocation_count.hpp"
#include "tests/support/journal.hpp"
#include "tests/support/message_world.hpp"
#include "tests/support/replication_world.hpp"
#include "throng/multiplexer.hpp"
#include "throng/spawn_signature.hpp"
#include <doctest/doctest.h>

using namespace throng;
using namespace throng_test;
using message_test::Ear;

namespace {

enum class Stance : u8 { standing, lying };
struct Body {
    float yaw = 0;
    Stance stance = Stance::standing;
    i64 score = 0;
    u16 seat = 0;
};
struct Mood { // under two names
    int value = 0;
};
struct Birth { // sent once
    int year = 0;
};
struct Heat { // travels as another type
    double kelvin = 0;
};
struct WireHeat {
    i32 tenths = 0;
};
struct Badge { // replaced, never written
    using immutable = void;
    int number = 0;
};
struct Ammo { // a bundle with Mood
    int count = 0;
};
template <Audience>
struct Share { // of one audience each
    int amount = 0;
};
struct Pointer { // references without a relation
    Entity first, second;
};
struct Weather { // resources
    float wind = 0;
    Entity storm;
};
struct Dawn {
    int year = 0;
};
struct Clan { // of a filter, against an Oath of the client
    u32 number = 0;
};
struct Oath {
    u32 clan = 0;
};
struct Hero {};      // of rules alone
struct Predicted {}; // of clients alone
struct Model {
    int lod = 0;
};

WireHeat pack(const Heat& heat) {
    return {static_cast<i32>(heat.kelvin * 10)};
}
Heat unpack(const WireHeat& wire) {
    return {wire.tenths / 10.0};
}
Error accept_text(std::span<const std::byte>) {
    return Error::none;
}
constexpr std::string_view words = "Knight of the northern gate, captain of the guard";

/// Everything that can be registered. `older`: a build that lacks some of it, and has the rest in another order.
std::unique_ptr<Protocol> make_full_protocol(bool older = false) {
    auto protocol = std::make_unique<Protocol>(ProtocolConfig{.dictionary = std::as_bytes(std::span(words))});
    const Range map{-1000, 1000, 0.01}, speeds{-20, 20, 0.01};
    if (!older) {
        protocol->resource<Dawn>("dawn").field(&Dawn::year).once();
        protocol->component_as("heat", pack, unpack).field(&WireHeat::tenths);
        protocol->component<Badge>("badge").field(&Badge::number);
    }
    protocol->component<Place>("place")
        .field(&Place::x, map)
        .field(&Place::z, map)
        .spatial(&Place::x, &Place::z)
        .extrapolated_by(&Speed::x, &Speed::z);
    protocol->component<Speed>("speed").field(&Speed::x, speeds).field(&Speed::z, speeds);
    protocol->component<Health>("health").field(&Health::hp, "hp").field(&Health::angry, "angry");
    protocol->component<Body>("body").field(&Body::yaw, Angle{10}).field(&Body::stance).field(&Body::score).field(&Body::seat);
    protocol->component<Link>("link").field(&Link::target).related(&Link::target);
    protocol->component<ChildOf>("child of").field(&ChildOf::target);
    protocol->component<Pointer>("pointer").field(&Pointer::first).field(&Pointer::second);
    protocol->component<Lasting>("lasting");
    protocol->component<SpawnSignature>("signature").field(&SpawnSignature::hash).audience(Audience::owner);
    protocol->component<Mood>("mood").field(&Mood::value, Range{-1000, 1000, 10}).when(without<Hero>);
    protocol->component<Mood>("exact mood").field(&Mood::value).when(with<Hero> && any_of<Health, Body>);
    protocol->component<Ammo>("ammo").field(&Ammo::count);
    protocol->bundle<Mood, Ammo>(without<Hero>);
    protocol->component<Birth>("birth").field(&Birth::year).once();
    protocol->component<Share<Audience::owner>>("own").field(&Share<Audience::owner>::amount).audience(Audience::owner);
    protocol->component<Share<Audience::others>>("others").field(&Share<Audience::others>::amount).audience(Audience::others);
    protocol->component<Share<Audience::group>>("shared").field(&Share<Audience::group>::amount).audience(Audience::group);
    protocol->opaque<Name>("name", 2000, OpaqueFunctions{write_name, read_name, read_name, accept_text});
    journal(*protocol, {.history = 8});
    protocol->resource<Weather>("weather").field(&Weather::wind, Range{0, 50, 0.1}).field(&Weather::storm);
    protocol->resource<Journal>("log", journal_bytes_max, OpaqueFunctions{write_journal, read_journal})
        .diffs(write_line, read_line, put_line);
    message_test::register_messages(*protocol);
    protocol->custom("rules 7");
    if (protocol->finish() != Error::none)
        throw std::runtime_error(protocol->problem());
    return protocol;
}

/// Rules of every kind; Health goes to functions, on entities that are predicted also older values of Place.
std::unique_ptr<ReceiveRules> make_rules(const Protocol& protocol) {
    auto rules = std::make_unique<ReceiveRules>(protocol);
    const auto write_health = +[](const Received& received, const Health& health) {
        if (Health* there = received.world.mut<Health>(received.entity))
            *there = health;
        else
            received.world.add<Health>(received.entity, health);
    };
    REQUIRE(rules->functions<Health>(write_health, nullptr) == Error::none);
    REQUIRE(rules->marker<Predicted>({.priority = 1, .history = true}) == Error::none);
    REQUIRE(rules->functions_for<Predicted, Place>(
                +[](const Received&, const Place&) {}, nullptr) == Error::none);
    REQUIRE(rules->write_if_different<Body>() == Error::none);
    REQUIRE((rules->require<Place, Model>(ReceiveRules::OnRemoval::remove)) == Error::none);
    rules->despawn([](const Received& received) { received.world.destroy(received.entity); });
    return rules;
}

/// Two worlds over one set of connections, each with everything.
struct Full {
    static constexpr u32 world_count = 2;
    struct Player {
        ClientId connection = 0;
        std::unique_ptr<ClientMultiplexer> mux;
        World world[world_count] = {World(WorldOptions{.block_rows = 64}), World(WorldOptions{.block_rows = 64})};
        Ear ear;
        std::unique_ptr<Client> client[world_count];
        Entity ahead[world_count]; // what its game has made
    };

    Full(u32 workers, u32 heartbeat_ticks)
        : executor(workers > 1 ? make_threads_executor(workers) : make_serial_executor()), network(LoopbackConfig{}),
          mux(network.server()) {
        for (u32 k = 0; k < world_count; ++k) {
            ServerConfig config{.executor = executor.get(),
                                .authorization = Authorization::custom,
                                .budget_bytes = 4000,
                                .heartbeat_ticks = heartbeat_ticks};
            ServerEvents events{.context = this};
            events.on_hello = [](void*, ClientId, const ClientHello& hello) { return hello.data.empty() ? Verdict::later : Verdict::yes; };
            server[k] = std::make_unique<Server>(world[k], *protocol, mux.open(k), config, events);
            REQUIRE(server[k]->valid() == Error::none);
            REQUIRE(server[k]->set_handlers(message_test::server_handlers(ear)) == Error::none);
        }
    }
    Player& connect(bool with_older_build = false, bool with_rules = false) {
        Player& player = *players.emplace_back(std::make_unique<Player>());
        const LinkConfig link{.loss_percent = 10,
                              .delay_us = 30'000,
                              .jitter_us = 40'000,
                              .reorder_percent = 10,
                              .reorder_extra_us = 100'000,
                              .duplicate_percent = 5};
        player.connection = network.connect(link);
        player.mux = std::make_unique<ClientMultiplexer>(network.client(player.connection));
        for (u32 k = 0; k < world_count; ++k) {
            ClientConfig config{.rules = with_rules ? rules.get() : nullptr, .confirm_history = true};
            config.on_userdata = [](void*, Tick, Bytes) {};
            player.client[k] =
                std::make_unique<Client>(player.world[k], with_older_build ? *older : *protocol, *player.mux->join(k), config);
            REQUIRE(player.client[k]->set_handlers(message_test::client_handlers(player.ear)) == Error::none);
            if (players.size() % 2 == 0) // the others wait for a verdict
                REQUIRE(player.client[k]->set_hello_data(std::as_bytes(std::span("ticket"))) == Error::none);
        }
        return player;
    }
    ClientId id(const Player& player, u32 k) const { return mux.client(k, player.connection); }
    void step() {
        now += 50'000;
        mux.poll(now);
        for (u32 k = 0; k < world_count; ++k) {
            server[k]->receive(now);
            for (auto& player : players)
                if (const ClientId client = id(*player, k); client != ServerMultiplexer::nobody && server[k]->waiting(client))
                    CHECK(server[k]->accept(client) == Error::none);
            const TickReport& report = server[k]->tick(now);
            sent += report.messages + report.typed.bundles;
            sent_bytes += report.bytes + report.typed.bytes;
            heartbeats += report.heartbeats;
            lost += report.lost_messages;
            gone += report.gone_lanes;
            shared += report.shared_bytes;
            compressed += report.zstd_bytes;
            limits |= report.limits;
        }
        mux.flush(now);
        for (auto& player : players) {
            player->mux->poll(now);
            for (auto& client : player->client) {
                errors += client->receive(now) != Error::none;
                errors += client->send(now) != Error::none;
            }
            player->mux->flush(now);
        }
    }
    void steps(int count) {
        for (int i = 0; i < count; ++i)
            step();
    }
    bool all_joined() const {
        for (u32 k = 0; k < world_count; ++k)
            for (const auto& player : players)
                if (id(*player, k) == ServerMultiplexer::nobody || !server[k]->joined(id(*player, k)) || !player->client[k]->joined())
                    return false;
        return true;
    }
    bool all_settled() const {
        for (u32 k = 0; k < world_count; ++k)
            for (const auto& player : players)
                if (!server[k]->settled(id(*player, k)))
                    return false;
        return true;
    }
    template <class Condition>
    bool until(Condition&& condition) {
        for (int i = 0; i < 600 && !condition(); ++i)
            step();
        return condition();
    }
    LinkCounters packets() const {
        LinkCounters sum = network.totals(Direction::down);
        return sum += network.totals(Direction::up);
    }

    ExecutorHandle executor;
    std::unique_ptr<Protocol> protocol = make_full_protocol(), older = make_full_protocol(true);
    std::unique_ptr<ReceiveRules> rules = make_rules(*protocol);
    LoopbackNetwork network;
    ServerMultiplexer mux;
    World world[world_count];
    std::unique_ptr<Server> server[world_count];
    Ear ear;
    std::vector<std::unique_ptr<Player>> players;
    TimeUs now = 0;
    u64 sent = 0, sent_bytes = 0, heartbeats = 0, lost = 0, gone = 0, shared = 0, compressed = 0; // summed over the reports
    u32 limits = 0;
    int errors = 0;
};

/// Uses everything in one of the worlds, tick by tick. The entities stay for later.
struct Play {
    Play(Full& full, u32 k) : f(full), world(full.world[k]), server(*full.server[k]), index(k) {
        group = server.make_group();
        for (const auto& player : f.players)
            ids.push_back(f.id(*player, k));
        server.add_to_group(group, ids[1]);
        world.resources().emplace<Weather>(Weather{3, {}});
        world.resources().emplace<Journal>(Journal{std::string(300, '.')});
        world.resources().emplace<Dawn>(Dawn{1000});
        for (int i = 0; i < 150; ++i)
            crowd.push_back(world.spawn(Place{float(i % 40), float(i / 2)}, Speed{}, Health{i, false}, Body{}, Replicated{}));
        hero = world.spawn(Place{1, 1}, Health{1, true}, Mood{123}, Hero{}, Name{"Ada"}, Badge{1}, Heat{290.04}, Birth{7}, OwnedBy{ids[0]},
                           SharedWith{group}, Replicated{});
        chest = world.spawn(Journal{std::string(200, '-')}, Share<Audience::owner>{1}, Share<Audience::others>{2},
                            Share<Audience::group>{3}, OwnedBy{ids[0]}, SharedWith{group}, Replicated{});
        rider = world.spawn(Place{2, 2}, Health{}, Pointer{hero, crowd[3]}, Replicated{});
        horse = world.spawn(Place{2, 2}, Health{}, Link{rider}, ChildOf{rider}, Replicated{});
        tower = world.spawn(Place{30, 30}, Lasting{}, Name{"tower"}, Replicated{});
        portal = world.spawn(Place{31, 31}, Lasting{.from_start = true}, Replicated{});
        world.add<VisibleTo>(portal, VisibleTo{.any_of = 2});
        scoped = world.spawn(Place{5, 5}, Health{}, Body{}, Mood{10}, Ammo{4}, Name{"scoped"}, Replicated{});
        world.add<ScopedTo>(scoped, ScopedTo(Scope::of<Health>(), {.any_of = 2}, Lifetime::after_first)
                                        .also(Scope::of<Name>(), {.any_of = 2}, Lifetime::always)
                                        .also(Scope::all_except<Place, Health, Name, Mood>(), {.none_of = 4}));
        clan = server.make_group();
        CHECK(server.add_filter<Clan, Oath>("clan", [](const Clan& c, const Oath* oath) { return oath && oath->clan == c.number; }) ==
              Error::none);
        world.add<Clan>(crowd[20], Clan{1});
        world.add<VisibleToGroup>(crowd[21], VisibleToGroup{clan});
        tree = world.spawn(Place{8, 8}, Health{}, UpdatePriority{1.f / 64}, Replicated{});
        paused = world.spawn(Place{9, 9}, Health{}, Replicated{});
        ended = world.spawn(Place{10, 10}, Health{}, Replicated{});
        for (u32 i = 0; i < ids.size(); ++i) {
            View view = server.view(ids[i]);
            if (i % 2 == 0)
                view.follow(hero, {.radius = 80});
            else
                view.look_at(10, 10, {.radius = 60});
            view.set_layers(i == 1 ? 2 : 4);
            view.hide(crowd[5 + i]);
            view.set_priority(crowd[10 + i], 0.25f);
        }
        View list = server.view(ids[2]); // of what may be seen
        list.hide_all();
        for (const Entity e : {hero, chest, rider, horse, tower, scoped, tree, paused, crowd[0]})
            list.show(e);
    }
    void tick(int t) {
        const u32 frame = static_cast<u32>(t);
        CHECK(server.set_userdata(std::as_bytes(std::span(&frame, 1))) == Error::none);
        for (std::size_t i = static_cast<std::size_t>(t) % 3; i < crowd.size(); i += 3) {
            Place& place = *world.mut<Place>(crowd[i]);
            place.x += 0.3f;
            world.mut<Speed>(crowd[i])->x = 6;
            world.mut<Body>(crowd[i])->yaw += 0.2f;
        }
        world.mut<Place>(hero)->x += 1.5f; // views go along
        world.mut<Mood>(hero)->value = t;
        world.mut<Heat>(hero)->kelvin += 1;
        world.mut<Birth>(hero)->year = t;
        world.set<Badge>(hero, Badge{t});
        world.mut<Name>(hero)->text = std::string(static_cast<std::size_t>(t) * 20 % 1900, 'n');
        CHECK(server.apply_diff<Journal>(chest, Line{"line "}) == Error::none);
        CHECK(server.apply_resource_diff<Journal>(Line{"day "}) == Error::none);
        *world.resources().mut<Weather>() = {float(t % 40), rider};
        world.mut<Health>(rider)->hp = t;
        world.mut<Health>(horse)->hp = t;
        world.mut<Health>(scoped)->hp = t;
        world.mut<Name>(scoped)->text = "scoped" + std::to_string(t);
        world.mut<Health>(tree)->hp = t;
        world.mut<Share<Audience::owner>>(chest)->amount = t;
        world.mut<Share<Audience::others>>(chest)->amount = t;
        world.mut<Share<Audience::group>>(chest)->amount = t;
        world.mut<Pointer>(rider)->second = crowd[static_cast<std::size_t>(t) % crowd.size()];
        t % 4 ? void(world.remove<Ammo>(scoped)) : void(world.add<Ammo>(scoped, Ammo{t})); // with it the bundle comes and goes
        world.mut<SharedWith>(chest)->group = t % 7 ? group : 0;
        world.mut<OwnedBy>(chest)->client = ids[static_cast<std::size_t>(t / 5) % 2];
        server.view(ids[3]).look_at(t % 10 < 5 ? 30 : 300, 30, {.radius = 60}); // the tower goes out of sight, and comes back
        server.view(ids[1]).set_layers(t % 6 < 3 ? 2 : 0);
        world.mut<Clan>(crowd[20])->number = static_cast<u32>(t) % 5;
        CHECK(server.view(ids[1]).set(Oath{static_cast<u32>(t) % 3}) == Error::none);
        t % 3 ? server.add_to_group(clan, ids[0]) : server.remove_from_group(clan, ids[0]);
        if (t == 5)
            world.remove<Replicated>(paused);
        if (t == 20)
            world.add<Replicated>(paused);
        if (t == 30)
            world.remove<Replicated>(paused); // and stays so
        if (t == 8)
            CHECK(server.end_replication(ended));
        if (t % 9 == 0) {
            world.destroy(crowd.back());
            crowd.pop_back();
            crowd.push_back(world.spawn(Place{0, float(t)}, Speed{}, Health{}, Body{}, Replicated{}));
        }
        if (t % 10 == 3)
            made_ahead(t);
        if (t == 25)
            world.resources().remove<Dawn>();
        say(t);
    }
    /// A client's entity, and the server's answer.
    void made_ahead(int t) {
        Full::Player& player = *f.players[0];
        const auto signature = SpawnSignature::of(0x5107, t, index);
        player.world[index].spawn(Predicted{}, signature);
        shots.push_back(world.spawn(Place{12, 12}, signature, OwnedBy{ids[0]}, Replicated{}));
    }
    void say(int t) {
        const ClientId two[] = {ids[0], ids[2]};
        const auto send = [&]<class T>(const To& to, const T& message) { CHECK(server.send_message(to, message) == Error::none); };
        send(To::all(), message_test::Hit{hero, t});
        send(To::observers(rider), message_test::Shout{rider, 1, 2});
        send(To::client(ids[0]), message_test::Alarm{crowd[5], t}); // of what it does not see
        send(To::all_except(two), message_test::Round{t});
        send(To::group(group), message_test::Rumour{tower, t});
        send(To::layers(6), message_test::Spark{hero, t});
        send(To::all(), message_test::Chat{hero, std::string(static_cast<std::size_t>(t) * 40, 'c')});
        send(To::client(ids[1]), message_test::Hit{crowd[6], t}); // which it is not shown: waits, and is dropped
        for (const auto& player : f.players) {
            Client& client = *player->client[index];
            if (!client.joined())
                continue;
            CHECK(client.send_message(message_test::Stir{t}) == Error::none);
            CHECK(client.send_message(message_test::Chat{client.entity(server.net_id(hero)), "up"}) == Error::none);
            if (const Entity there = client.entity(server.net_id(rider)))
                CHECK(client.send_message(message_test::Attack{there, t}) == Error::none);
        }
    }

    Full& f;
    World& world;
    Server& server;
    u32 index;
    GroupId group = 0, clan = 0;
    std::vector<ClientId> ids;
    std::vector<Entity> crowd, shots;
    Entity hero, chest, rider, horse, tower, portal, scoped, tree, paused, ended;
};

} // namespace

TEST_SUITE("server") {
    TEST_CASE("an idle world sends nothing though every feature is in use, and takes no memory") {
        for (const u32 workers : {1u, 3u})
            for (const u32 heartbeat_ticks : {0u, 20u}) {
                CAPTURE(workers);
                CAPTURE(heartbeat_ticks);
                Full full(workers, heartbeat_ticks);
                for (const bool older : {false, false, false, true})
                    full.connect(older, full.players.size() == 0);
                REQUIRE(full.until([&] { return full.all_joined(); }));
                std::vector<std::unique_ptr<Play>> plays;
                for (u32 k = 0; k < Full::world_count; ++k)
                    plays.push_back(std::make_unique<Play>(full, k));
                full.steps(20);
                for (int t = 0; t < 60; ++t) {
                    for (auto& play : plays)
                        play->tick(t);
                    if (t == 40) { // one comes late, and one goes
                        full.connect(false, true);
                        full.connect();
                    }
                    if (t == 55)
                        for (u32 k = 0; k < Full::world_count; ++k)
                            full.server[k]->disconnect_after_flush(full.id(*full.players[5], k));
                    full.step();
                }
                full.steps(30);
                full.network.disconnect(full.players.back()->connection);
                full.players.pop_back();
                for (u32 k = 0; k < Full::world_count; ++k)
                    full.server[k]->view(full.id(*full.players[4], k)).look_at(0, 0, {.radius = 90});
                full.steps(130); // UpdatePriority, and typed_wait_ms
                REQUIRE(full.until([&] { return full.all_settled(); }));
                full.steps(40); // acks go three times, and what is late arrives
                CHECK(full.errors == 0);
                CHECK(full.ear.heard.size() > 500);
                for (const u64 happened : {full.lost, full.gone, full.shared, full.compressed})
                    CHECK(happened > 50);
                CHECK(full.limits == limit_budget);
                for (const auto& player : full.players) {
                    CHECK(player->client[0]->stats().adoptions == (player == full.players[0] ? plays[0]->shots.size() : 0));
                    if (player != full.players[4])
                        CHECK(player->client[1]->stats().typed.delivered > 100);
                }
                CHECK(full.players[3]->client[0]->frozen(full.players[3]->client[0]->entity(full.server[0]->net_id(plays[0]->tower))));

                constexpr u64 ticks = 400, clients = 5;
                REQUIRE(full.players.size() == clients);
                const LinkCounters before = full.packets();
                full.sent = full.sent_bytes = full.heartbeats = 0;
                const u64 allocations = throng::tests::allocation_count(); // always 0 under sanitizers
                full.steps(ticks);
                CHECK(throng::tests::allocation_count() == allocations);
                const LinkCounters after = full.packets();
                CHECK(full.sent == 0);
                CHECK(full.sent_bytes == 0);
                if (heartbeat_ticks == 0) {
                    CHECK(full.heartbeats == 0);
                    CHECK(after == before); // not a packet either way
                } else {                    // which are acknowledged three times
                    CHECK(full.heartbeats == Full::world_count * clients * ticks / heartbeat_ticks);
                    CHECK(after.sent - before.sent <= 4 * full.heartbeats + 3 * Full::world_count * clients);
                }
                CHECK(full.all_settled());

                for (u32 k = 0; k < Full::world_count; ++k) // and not for being deaf
                    CHECK(full.server[k]->apply_diff<Journal>(plays[k]->chest, Line{"the end"}) == Error::none);
                full.steps(60);
                for (const auto& player : full.players)
                    for (u32 k = 0; k < Full::world_count; ++k) {
                        const Entity there = player->client[k]->entity(full.server[k]->net_id(plays[k]->chest));
                        REQUIRE(player->world[k].alive(there));
                        CHECK(*player->world[k].get<Journal>(there) == *full.world[k].get<Journal>(plays[k]->chest));
                    }
            }
    }
}
