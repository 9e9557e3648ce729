// SpawnSignature: entities that the game has made before the server's arrived.
#include "tests/allocation_count.hpp"
#include "tests/sim/random.hpp"
#include "tests/support/replication_world.hpp"
#include "throng/spawn_signature.hpp"
#include <doctest/doctest.h>

using namespace throng;
using namespace throng_test;

namespace {

struct Shot { // the game's own
    u32 number = 0;
};
struct Rank { // replaced, never written
    using immutable = void;
    int value = 0;
};
struct Predicted {}; // a marker
struct Model {       // required
    int lod = 3;
};
struct Confirmed {
    int hp = 0;
};
enum class Kind : u8 { arrow = 5 };

enum Order { usual, other };
std::unique_ptr<Protocol> make_signed(Order order = usual, bool with_signature = true) {
    auto protocol = std::make_unique<Protocol>();
    const Range map{-1000, 1000, 0.01};
    const auto signature = [&] {
        if (with_signature)
            protocol->component<SpawnSignature>("signature").field(&SpawnSignature::hash);
    };
    if (order == other)
        signature();
    protocol->component<Health>("health").field(&Health::hp).field(&Health::angry);
    protocol->component<Rank>("rank").field(&Rank::value);
    protocol->component<Speed>("speed").field(&Speed::x, map).field(&Speed::z, map);
    protocol->component<Link>("link").field(&Link::target);
    protocol->opaque<Name>("name", 2000, write_name, read_name);
    if (order == usual)
        signature();
    if (protocol->finish() != Error::none)
        throw std::runtime_error(protocol->problem());
    return protocol;
}

struct Net : ReplicationWorld {
    explicit Net(const LinkConfig& link = {}, std::unique_ptr<Protocol> chosen = make_signed(), ClientConfig config = {},
                 const Protocol* of_client = nullptr)
        : ReplicationWorld({.heartbeat_ticks = 0}, {}, std::move(chosen)), peer(connect(link, link)), there(*peer.world) {
        peer.client = std::make_unique<Client>(there, of_client ? *of_client : *protocol, network.client(peer.id), config);
        for (int i = 0; i < 300 && !server.joined(peer.id); ++i)
            step();
        REQUIRE(server.joined(peer.id));
    }
    void settle() {
        for (int i = 0; i < 400 && (i < 3 || !server.settled(peer.id)); ++i)
            step();
        REQUIRE(server.settled(peer.id));
        REQUIRE(client_errors == 0);
    }
    Entity shown(Entity entity) const { return peer.client->entity(server.net_id(entity)); }
    const ClientStats& stats() const { return peer.client->stats(); }
    Peer& peer;
    World& there;
};

SpawnSignature of(u32 number) {
    return SpawnSignature::of(77, number);
}

} // namespace

TEST_SUITE("client") {
    TEST_CASE("signatures: values count, not their types; their order, number and salt do") {
        CHECK(SpawnSignature::of(1, u8(5)) == SpawnSignature::of(1, i64(5)));
        CHECK(SpawnSignature::of(1, Kind::arrow) == SpawnSignature::of(1, 5));
        CHECK(SpawnSignature::of(1, -1) == SpawnSignature::of(1, i64(-1)));
        CHECK(SpawnSignature::of(1, 1.5f) == SpawnSignature::of(1, 1.5));
        CHECK(SpawnSignature::of(1, -0.0) == SpawnSignature::of(1, 0.0));
        CHECK(SpawnSignature::of(1, "bow") == SpawnSignature::of(1, std::string("bow")));
        CHECK(SpawnSignature::of(1, NetId::make(3, 1)) == SpawnSignature::of(1, NetId::make(3, 1)));
        const SpawnSignature all[] = {SpawnSignature::of(1),          SpawnSignature::of(2),          SpawnSignature::of(1, 0),
                                      SpawnSignature::of(1, 0, 0),    SpawnSignature::of(2, 0),       SpawnSignature::of(1, 1, 2),
                                      SpawnSignature::of(1, 2, 1),    SpawnSignature::of(1, "bow"),   SpawnSignature::of(1, "bows"),
                                      SpawnSignature::of(1, "", "b"), SpawnSignature::of(1, "b", ""), SpawnSignature::of(1, 0.5)};
        for (const SpawnSignature& a : all) {
            CHECK(a.hash != 0);
            for (const SpawnSignature& b : all)
                CHECK((a == b) == (&a == &b));
        }
    }
    TEST_CASE("signatures: other builds of the library make the same") {
        CHECK(SpawnSignature::of(77, u32(5)).hash == 0xb72d7f2fd96acf12);
        CHECK(SpawnSignature::of(1, "bow", -2, 0.5).hash == 0x39cff19b362ec0b7);
    }
    TEST_CASE("signatures: a registration that cannot match is refused") {
        const auto problem = [](auto&& add) {
            Protocol protocol;
            add(protocol);
            CHECK(protocol.finish() == Error::bad_value);
            return std::string(protocol.problem());
        };
        CHECK(problem([](Protocol& p) { p.component<SpawnSignature>("s"); }) ==
              "component \"s\": SpawnSignature has one field, its hash, and travels as it is");
        CHECK(problem([](Protocol& p) {
                  p.component<SpawnSignature>("s").field(&SpawnSignature::hash, Range{0, 9, 1});
              }) == "component \"s\": SpawnSignature has one field, its hash, and travels as it is");
        CHECK(problem([](Protocol& p) {
                  p.component<SpawnSignature>("s").field(&SpawnSignature::hash);
                  p.component<SpawnSignature>("t").field(&SpawnSignature::hash).when(with<Shot>);
              }) == "component \"t\": registered twice: SpawnSignature has one registration");
    }
    TEST_CASE("signatures: what is there is written over, in one move of the entity, and hooks hear of each once") {
        for (const bool again : {false, true}) { // the server's components are not their first
            CAPTURE(again);
            Net net;
            const SpawnSignature signature = of(5);
            const Entity e = net.world.spawn(Health{7, false}, Rank{2}, Link{}, Name{"arrow"}, signature);
            if (again) {
                net.world.add<Replicated>(e);
                net.server.view(net.peer.id).hide(e);
                for (int i = 0; i < 3; ++i) {
                    net.step();
                    net.world.remove<Health>(e);
                    net.world.add<Health>(e, Health{7, false});
                }
            }
            const Entity target = net.world.spawn(Health{1, false}, Replicated{});
            net.settle();
            net.world.mut<Link>(e)->target = target;
            const Entity made = net.there.spawn(Shot{5}, Health{1, true}, Rank{1}, Speed{3, 3}, Link{}, Name{"?"}, signature);
            struct Heard {
                int add = 0, change = 0, remove = 0;
                bool operator==(const Heard&) const = default;
            } health, rank, speed, name;
            const auto watch = [&]<class T>(Heard& heard, T*) {
                net.there.on_add<T>([&](World&, Entity entity, const T&) { heard.add += entity == made; });
                if constexpr (!std::is_same_v<T, Rank>)
                    net.there.on_change<T>([&](World&, Entity entity, const T&) { heard.change += entity == made; });
                net.there.on_remove<T>([&](World&, Entity entity, const T&) { heard.remove += entity == made; });
            };
            watch(health, static_cast<Health*>(nullptr));
            watch(rank, static_cast<Rank*>(nullptr));
            watch(speed, static_cast<Speed*>(nullptr));
            watch(name, static_cast<Name*>(nullptr));
            const u64 moves = net.stats().structural_moves;
            if (again)
                net.server.view(net.peer.id).show(e);
            else
                net.world.add<Replicated>(e);
            net.settle();
            REQUIRE(net.shown(e) == made);
            CHECK(health == Heard{0, 1, 0});
            CHECK(rank == Heard{1, 0, 1});
            CHECK(speed == Heard{0, 0, 1});
            CHECK(name == Heard{0, 1, 0});
            CHECK(net.stats().structural_moves == moves + 1);
            CHECK(net.there.get<Health>(made)->hp == 7);
            CHECK(net.there.get<Rank>(made)->value == 2);
            CHECK(net.there.get<Name>(made)->text == "arrow");
            CHECK(net.there.get<Link>(made)->target == net.shown(target));
            CHECK(net.there.get<Shot>(made)->number == 5);
            CHECK_FALSE(net.there.has<Speed>(made));
            // From here on as any other.
            net.world.mut<Health>(e)->hp = 8;
            net.world.remove<Name>(e);
            net.world.add<Speed>(e, Speed{1, 1});
            net.settle();
            CHECK(health == Heard{0, 2, 0});
            CHECK(name == Heard{0, 1, 1});
            CHECK(speed == Heard{1, 0, 1});
            CHECK(net.there.get<Health>(made)->hp == 8);
            net.world.remove<Health>(e);
            net.world.add<Health>(e, Health{9, false});
            net.settle();
            CHECK(health == Heard{1, 2, 1});
            CHECK(net.there.get<Health>(made)->hp == 9);
        }
    }
    TEST_CASE("signatures: references that came before name the adopted entity") {
        Net net;
        const Entity e = net.world.spawn(of(5));
        const Entity holder = net.world.spawn(Link{e}, Replicated{});
        net.settle();
        CHECK(net.there.get<Link>(net.shown(holder))->target == Entity{});
        const Entity made = net.there.spawn(of(5));
        net.world.add<Replicated>(e);
        net.world.mut<Link>(holder);
        net.settle();
        CHECK(net.shown(e) == made);
        CHECK(net.there.get<Link>(net.shown(holder))->target == made);
    }
    TEST_CASE("signatures: what a scope lets clients keep is the server's, never what the game made") {
        for (const Lifetime lifetime : {Lifetime::while_visible, Lifetime::after_first, Lifetime::always}) {
            const bool at_once = lifetime == Lifetime::always;
            CAPTURE(static_cast<int>(lifetime));
            Net net;
            const Entity made = net.there.spawn(of(5), Health{99, true}, Name{"foreseen"}, Shot{3});
            const Entity e = net.world.spawn(of(5), Health{1, false}, Speed{2, 0}, Replicated{});
            net.world.add<ScopedTo>(e, ScopedTo(Scope::of<Health, Name, Rank>(), {.any_of = 2}, lifetime));
            net.settle();
            REQUIRE(net.shown(e) == made);
            const auto hp = [&] { return net.there.has<Health>(made) ? net.there.get<Health>(made)->hp : -1; };
            CHECK(hp() == (at_once ? 1 : -1));      // not 99
            CHECK_FALSE(net.there.has<Name>(made)); // the server's has none
            CHECK(net.there.get<Speed>(made)->x == 2);
            CHECK(net.there.get<Shot>(made)->number == 3);
            CHECK(net.peer.client->frozen<Health>(made) == at_once);
            net.server.view(net.peer.id).set_layers(2);
            net.settle();
            CHECK(hp() == 1);
            net.server.view(net.peer.id).set_layers(0); // what is the server's is kept
            net.settle();
            CHECK(hp() == (lifetime == Lifetime::while_visible ? -1 : 1));
            net.world.mut<Health>(e)->hp = 2;
            net.world.add<Name>(e, Name{"late"});
            net.settle();
            CHECK(hp() == (lifetime == Lifetime::while_visible ? -1 : 1));
            CHECK_FALSE(net.there.has<Name>(made));
        }
    }
    TEST_CASE("signatures: beside lanes that are kept, an adopted entity is not taken for one of them") {
        Net net;
        const auto hide = [&](Entity e) {
            net.world.add<ScopedTo>(e, ScopedTo(Scope::of<Health>(), {.any_of = 2}, Lifetime::after_first));
        };
        net.server.view(net.peer.id).set_layers(2);
        const Entity known = net.world.spawn(Health{1, false}, Replicated{});
        hide(known);
        net.settle();
        net.server.view(net.peer.id).set_layers(0);
        net.settle();
        REQUIRE(net.peer.client->frozen<Health>(net.shown(known)));
        const Entity made = net.there.spawn(of(5), Health{99, true});
        const Entity e = net.world.spawn(of(5), Health{5, false}, Replicated{}); // in the same chunk
        hide(e);
        net.world.mut<Health>(known)->hp = 7;
        net.settle();
        REQUIRE(net.shown(e) == made);
        CHECK_FALSE(net.there.has<Health>(made));
        CHECK(net.there.get<Health>(net.shown(known))->hp == 1);
    }
    TEST_CASE("signatures: of several with one signature the oldest is taken, further ones later") {
        Net net;
        const Entity former[] = {net.there.spawn(of(1)), net.there.spawn(of(2))};
        const Entity made[] = {net.there.spawn(Shot{0}, of(5)), net.there.spawn(Shot{1}, of(5)), net.there.spawn(Shot{2}, of(5))};
        net.there.destroy(former[0]); // the last row takes its place, and that before it the other's
        net.there.destroy(former[1]);
        const Entity first = net.world.spawn(of(5), Replicated{});
        net.settle();
        CHECK(net.shown(first) == made[0]);
        CHECK(net.stats().adoptions == 1);
        CHECK(net.stats().signature_collisions == 2);
        // Two of the server's in one message have one each, in the order of their lanes.
        const Entity second = net.world.spawn(of(5), Replicated{}), third = net.world.spawn(of(5), Replicated{});
        net.settle();
        CHECK(net.shown(second) == made[1]);
        CHECK(net.shown(third) == made[2]);
        CHECK(net.stats().signature_collisions == 2);
        const Entity fourth = net.world.spawn(of(5), Replicated{});
        net.settle();
        CHECK(net.there.entity_count() == 4);
        CHECK(net.there.alive(net.shown(fourth)));
        CHECK(net.stats().adoptions == 3);
    }
    TEST_CASE("signatures: no hash, and one that comes later, match nothing") {
        Net net;
        const Entity none = net.there.spawn(Shot{0}, SpawnSignature{}), late = net.there.spawn(Shot{1}, of(5));
        const Entity a = net.world.spawn(SpawnSignature{}, Replicated{}), b = net.world.spawn(Health{1, false}, Replicated{});
        net.settle();
        net.world.add<SpawnSignature>(b, of(5));
        net.settle();
        CHECK(net.there.entity_count() == 4);
        CHECK(net.shown(a) != none);
        CHECK(net.shown(b) != late);
        CHECK(*net.there.get<SpawnSignature>(net.shown(b)) == of(5));
        CHECK(net.stats().adoptions == 0);
        // Also not in another lane, or when it is the only one.
        net.world.remove<SpawnSignature>(b);
        net.settle();
        CHECK_FALSE(net.peer.client->net_id(late));
    }
    TEST_CASE("signatures: a replacement in the same tick never gets the entity that ends") {
        for (const double loss : {0.0, 30.0})
            for (const bool predicted : {false, true}) {
                CAPTURE(loss);
                CAPTURE(predicted);
                Net net({.loss_percent = loss, .delay_us = 20'000, .jitter_us = 60'000});
                Entity made = net.there.spawn(of(5)), e = net.world.spawn(Health{0, false}, of(5), Replicated{});
                net.settle();
                for (int round = 1; round < 12; ++round) {
                    const Entity before = net.shown(e);
                    REQUIRE(before == made);
                    net.world.destroy(e);
                    e = net.world.spawn(Health{round, false}, of(5), Replicated{});
                    if (predicted)
                        made = net.there.spawn(of(5));
                    net.settle();
                    CHECK_FALSE(net.there.alive(before));
                    CHECK(net.there.entity_count() == 1);
                    if (!predicted)
                        made = net.shown(e);
                    REQUIRE(net.there.alive(made));
                    CHECK(net.there.get<Health>(made)->hp == round);
                }
                CHECK(net.stats().adoptions == (predicted ? 12 : 1));
            }
    }
    TEST_CASE("signatures: an adopted entity that the game has destroyed stays away, and its slot may be adopted again") {
        Net net;
        const Entity made = net.there.spawn(of(5));
        const Entity e = net.world.spawn(Health{1, false}, of(5), Replicated{});
        net.settle();
        REQUIRE(net.shown(e) == made);
        net.there.destroy(made);
        const Entity next = net.there.spawn(of(6)); // in its slot
        REQUIRE(next.entity_idx == made.entity_idx);
        const Entity f = net.world.spawn(Health{2, false}, of(6), Replicated{});
        net.settle();
        CHECK(net.shown(f) == next);
        net.world.destroy(e);
        net.settle();
        CHECK(net.there.alive(next));
        CHECK(net.peer.client->net_id(next) == net.server.net_id(f));
        CHECK(net.there.entity_count() == 1);
    }
    TEST_CASE("signatures: a Lasting entity that the game has destroyed out of sight is a new one when it is seen again") {
        auto protocol = std::make_unique<Protocol>();
        protocol->component<SpawnSignature>("signature").field(&SpawnSignature::hash);
        protocol->component<Lasting>("lasting");
        REQUIRE(protocol->finish() == Error::none);
        Net net({}, std::move(protocol));
        const SpawnSignature signature = SpawnSignature::of(1, 7);
        const Entity e = net.world.spawn(signature, Lasting{}, Replicated{});
        net.settle();
        const Entity first = net.peer.client->entity(net.server.net_id(e));
        net.server.view(net.peer.id).hide(e);
        net.settle();
        REQUIRE(net.peer.client->frozen(first));
        net.there.destroy(first);
        const Entity mine = net.there.spawn(Shot{3}, signature);
        net.server.view(net.peer.id).show(e);
        net.settle();
        CHECK(net.peer.client->entity(net.server.net_id(e)) == mine);
        CHECK(net.there.has<Shot>(mine));
        CHECK(net.there.entity_count() == 1);
    }

    TEST_CASE("signatures: entities of a former connection end, what was never matched stays and is matched by the next") {
        Net net;
        const Entity made = net.there.spawn(of(5)), waits = net.there.spawn(of(6));
        const Entity e = net.world.spawn(Health{1, false}, of(5), Replicated{});
        net.settle();
        REQUIRE(net.shown(e) == made);
        net.server.disconnect(net.peer.id);
        net.steps(2);
        CHECK_FALSE(net.peer.client->joined());
        CHECK(net.there.alive(made));
        net.peer.client->clear();
        CHECK_FALSE(net.there.alive(made));
        REQUIRE(net.there.alive(waits));
        const Entity f = net.world.spawn(Health{2, false}, of(6), Replicated{});
        net.peer.id = net.network.connect();
        net.peer.client = std::make_unique<Client>(net.there, *net.protocol, net.network.client(net.peer.id));
        for (int i = 0; i < 100 && !net.server.joined(net.peer.id); ++i)
            net.step();
        net.settle();
        CHECK(net.shown(f) == waits);
        CHECK(net.there.alive(net.shown(e)));
        CHECK(net.there.entity_count() == 2);
    }
    TEST_CASE("signatures: under rules") {
        auto protocol = make_signed();
        ReceiveRules rules(*protocol);
        REQUIRE(rules.marker<Predicted>() == Error::none);
        REQUIRE((rules.functions_for<Predicted, Health>(
                    [](const Received& r, const Health& health) {
                        r.world.remove<Confirmed>(r.entity);
                        r.world.add<Confirmed>(r.entity, Confirmed{health.hp});
                    },
                    [](const Received& r) { r.world.remove<Confirmed>(r.entity); })) == Error::none);
        REQUIRE((rules.require<Rank, Model>()) == Error::none);
        ClientConfig config;
        config.rules = &rules;
        Net net({}, std::move(protocol), config);
        const Entity made = net.there.spawn(Predicted{}, Health{1, false}, Rank{1}, Speed{1, 1}, of(5));
        const Entity plain = net.there.spawn(Health{1, false}, of(6));
        const Entity e = net.world.spawn(Health{7, false}, Rank{2}, of(5), Replicated{});
        const Entity f = net.world.spawn(Health{8, false}, of(6), Replicated{});
        net.settle();
        REQUIRE(net.shown(e) == made);
        REQUIRE(net.shown(f) == plain);
        CHECK(net.there.get<Health>(made)->hp == 1); // as predicted
        REQUIRE(net.there.has<Confirmed>(made));
        CHECK(net.there.get<Confirmed>(made)->hp == 7);
        CHECK(net.there.get<Rank>(made)->value == 2);
        CHECK(net.there.has<Model>(made));
        CHECK_FALSE(net.there.has<Speed>(made));
        CHECK(net.there.get<Health>(plain)->hp == 8);
        net.world.mut<Health>(e)->hp = 9;
        net.world.remove<Health>(f);
        net.settle();
        CHECK(net.there.get<Confirmed>(made)->hp == 9);
        CHECK_FALSE(net.there.has<Health>(plain));
        net.world.remove<Health>(e);
        net.settle();
        CHECK_FALSE(net.there.has<Confirmed>(made));
    }
    TEST_CASE("signatures: what is there takes the name under which it comes") {
        for (const bool hidden : {false, true}) { // the entity lacks what the rules let through
            CAPTURE(hidden);
            auto protocol = std::make_unique<Protocol>();
            protocol->component<Health>("health").field(&Health::hp).when(without<Shot>);
            protocol->component<Health>("angry health").field(&Health::hp).field(&Health::angry).when(with<Shot> && without<Speed>);
            protocol->component<SpawnSignature>("signature").field(&SpawnSignature::hash);
            REQUIRE(protocol->finish() == Error::none);
            Net net({}, std::move(protocol));
            const Entity made = net.there.spawn(Health{1, false}, of(5));
            int removed = 0, added = 0;
            net.there.on_remove<Health>([&](World&, Entity, const Health&) { ++removed; });
            net.there.on_add<Health>([&](World&, Entity, const Health&) { ++added; });
            const Entity e = net.world.spawn(Shot{}, Health{7, true}, of(5), Replicated{});
            if (hidden)
                net.world.add<Speed>(e);
            net.settle();
            REQUIRE(net.shown(e) == made);
            REQUIRE(net.there.has<Health>(made) == !hidden);
            CHECK(removed == (hidden ? 1 : 0));
            CHECK(added == 0);
            if (!hidden)
                CHECK(net.there.get<Health>(made)->angry);
            net.world.remove<Speed>(e);
            net.world.remove<Shot>(e);
            net.settle();
            REQUIRE(net.there.has<Health>(made));
            CHECK(net.there.get<Health>(made)->hp == 7);
            CHECK(removed == (hidden ? 1 : 0));
            CHECK(added == (hidden ? 1 : 0));
        }
    }
    TEST_CASE("signatures: between builds") {
        const auto moved = make_signed(other), without = make_signed(usual, false);
        { // another order
            Net net({}, make_signed(), {}, moved.get());
            const Entity made = net.there.spawn(of(5));
            const Entity e = net.world.spawn(Health{7, false}, of(5), Replicated{});
            net.settle();
            CHECK(net.shown(e) == made);
            CHECK(net.there.get<Health>(made)->hp == 7);
        }
        for (const bool server_has_it : {false, true}) {
            Net net({}, make_signed(usual, server_has_it), {}, server_has_it ? without.get() : moved.get());
            const Entity made = net.there.spawn(of(5));
            const Entity e = net.world.spawn(Health{7, false}, of(5), Replicated{});
            net.settle();
            CHECK(net.shown(e) != made);
            CHECK(net.there.get<Health>(net.shown(e))->hp == 7);
            CHECK_FALSE(net.peer.client->net_id(made));
        }
    }
    TEST_CASE("signatures: shots of a game, predicted, in vain or not at all, over a bad link") {
        for (const double loss : {0.0, 30.0}) {
            CAPTURE(loss);
            Net net({.loss_percent = loss, .delay_us = 60'000, .jitter_us = 60'000});
            throng_sim::Random random(9);
            struct Fired {
                Entity made, here;
                u32 number;
            };
            std::vector<Fired> fired;
            u64 answered = 0;
            for (u32 number = 1; number < 400; ++number) {
                Fired shot{{}, {}, number};
                const u32 kind = random.below(4);
                if (kind != 0) // never by the client
                    shot.made = net.there.spawn(Shot{number}, Health{-1, false}, of(number));
                if (kind != 1) { // never by the server
                    shot.here = net.world.spawn(Health{int(number), false}, of(number), Replicated{});
                    answered += kind != 0;
                }
                fired.push_back(shot);
                if (kind != 2) // else the next one comes in the same tick
                    net.step();
                if (random.below(3) == 0) {
                    const u32 at = random.below(u32(fired.size()));
                    if (fired[at].here && net.server.net_id(fired[at].here) && net.shown(fired[at].here)) {
                        net.world.destroy(fired[at].here);
                        fired.erase(fired.begin() + at);
                    }
                }
            }
            net.settle();
            std::size_t alive = 0;
            for (const Fired& shot : fired) {
                CAPTURE(shot.number);
                ++alive;
                if (shot.here && shot.made)
                    CHECK(net.shown(shot.here) == shot.made);
                const Entity there = shot.here ? net.shown(shot.here) : shot.made;
                REQUIRE(net.there.alive(there));
                CHECK(net.there.get<Health>(there)->hp == (shot.here ? int(shot.number) : -1));
                CHECK(net.there.has<Shot>(there) == bool(shot.made));
            }
            CHECK(net.there.entity_count() == alive);
            CHECK(net.stats().adoptions == answered);
            CHECK(net.stats().signature_collisions == 0);
            CHECK(answered > 100);
        }
    }
    TEST_CASE("signatures: no allocation in steady state" * doctest::skip(!throng::tests::counts_allocations)) {
        Net net;
        u64 allocated = 0;
        std::vector<Entity> here(200);
        for (u32 number = 0; number < 2000; ++number) {
            Entity& e = here[number % here.size()];
            net.world.destroy(e);
            net.there.spawn(Shot{number}, Health{-1, false}, Rank{1}, of(number));
            e = net.world.spawn(Health{1, false}, Rank{2}, of(number), Replicated{});
            net.now_us += 50'000;
            net.server.receive(net.now_us);
            net.server.tick(net.now_us);
            const u64 before = tests::allocation_count();
            REQUIRE(net.peer.client->receive(net.now_us) == Error::none);
            allocated += number > 1000 ? tests::allocation_count() - before : 0;
            REQUIRE(net.peer.client->send(net.now_us) == Error::none);
        }
        CHECK(allocated == 0);
        CHECK(net.stats().adoptions == 2000);
        CHECK(net.there.entity_count() == here.size());
    }
}
