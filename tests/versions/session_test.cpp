// An older and a newer build of one protocol against each other, both ways round.
#include "tests/sim/random.hpp"
#include "tests/versions/play.hpp"
#include <cmath>
#include <doctest/doctest.h>

using namespace throng;
using namespace versions_test;

namespace {

/// Some of everything that the server's build has.
template <class S>
class Life {
public:
    Life(Play<S>& play, u64 seed) : play_(play), random_(seed) {
        for (int i = 0; i < 40; ++i)
            spawn();
    }
    std::vector<Entity> all;

    void change() {
        World& world = play_.world;
        for (int left = 6; left > 0; --left) {
            const Entity e = any();
            switch (random_.below(10)) {
            case 0:
            case 1:
                world.template mut<typename S::Position>(e)->x += static_cast<float>(random_.between(-3, 3));
                break;
            case 2:
            case 3:
                if (auto* health = world.template mut<typename S::Health>(e))
                    change_health(*health);
                break;
            case 4:
                if (auto* title = world.template mut<typename S::Title>(e))
                    title->text = text();
                break;
            case 5:
                if (world.template has<typename S::Health>(e))
                    world.template remove<typename S::Health>(e);
                else
                    add_health(e);
                break;
            case 6:
                if (auto* bond = world.template mut<typename S::Friend>(e))
                    bond->other = any();
                break;
            case 7:
                change_own(e);
                break;
            case 8:
                world.destroy(e);
                std::erase(all, e);
                break;
            default:
                spawn();
            }
        }
    }

private:
    Entity any() { return all[random_.below(static_cast<u32>(all.size()))]; }
    std::string text() { return std::string(random_.below(30), static_cast<char>('a' + random_.below(26))); }
    void change_health(typename S::Health& health) {
        health.hp = random_.range(-1000, 1000);
        health.mood = random_.chance(0.5) ? Mood::grim : Mood::calm;
        if constexpr (std::is_same_v<S, Newer>) {
            health.mana = static_cast<i16>(random_.range(-99, 99));
            health.owner = any();
            health.fear = static_cast<float>(random_.between(0, 1));
        } else {
            health.angry = random_.chance(0.5);
        }
    }
    void add_health(Entity e) {
        typename S::Health health;
        change_health(health);
        play_.world.template add<typename S::Health>(e, health);
    }
    /// What the other build lacks.
    void change_own(Entity e) {
        World& world = play_.world;
        if constexpr (std::is_same_v<S, Newer>) {
            if (world.has<Newer::Aura>(e) && random_.chance(0.2))
                world.remove<Newer::Aura>(e);
            else
                world.add<Newer::Aura>(e, Newer::Aura{random_.next(), any()});
            world.add<Newer::Smell>(e, Newer::Smell{text()});
            world.mut<Newer::Position>(e)->height = static_cast<float>(random_.between(0, 50));
        } else {
            if (world.has<Older::Mount>(e) && random_.chance(0.2))
                world.remove<Older::Mount>(e);
            else
                world.add<Older::Mount>(e, Older::Mount{any(), random_.below(99)});
        }
    }
    void spawn() {
        typename S::Position position;
        position.x = static_cast<float>(random_.between(-200, 200));
        position.z = static_cast<float>(random_.between(-200, 200));
        const Entity e = play_.world.spawn(position, Replicated{});
        all.push_back(e);
        if constexpr (std::is_same_v<S, Newer>)
            if (random_.chance(0.5))
                play_.world.template add<typename S::Velocity>(e, typename S::Velocity{static_cast<float>(random_.range(-9, 9)), 1});
        if (random_.chance(0.7))
            add_health(e);
        if (random_.chance(0.5))
            play_.world.template add<typename S::Title>(e, typename S::Title{text()});
        if (random_.chance(0.4))
            play_.world.template add<typename S::Friend>(e, typename S::Friend{any()});
        if (random_.chance(0.4))
            change_own(e);
    }
    Play<S>& play_;
    throng_sim::Random random_;
};

/// Whether the client shows all of it, in what both builds have, and nothing else.
template <class S, class C>
void compare(const Play<S>& play, const typename Play<S>::Peer& peer, const std::vector<Entity>& all) {
    CHECK(peer.world.entity_count() == all.size());
    const auto has = [&]<class There, class Here>(Entity here, Entity there) {
        CHECK(play.world.template has<Here>(here) == peer.world.template has<There>(there));
        return play.world.template has<Here>(here) && peer.world.template has<There>(there);
    };
    u32 compared = 0;
    for (const Entity here : all) {
        const Entity there = play.shown(peer, here);
        REQUIRE(peer.world.alive(there));
        const auto& a = *play.world.template get<typename S::Position>(here);
        const auto& b = *peer.world.template get<typename C::Position>(there);
        CHECK(std::abs(a.x - b.x) <= 0.0101f);
        CHECK(std::abs(a.z - b.z) <= 0.0101f);
        if constexpr (std::is_same_v<C, Newer>)
            CHECK(b.height == 2.5f); // its default: the server has none
        if (has.template operator()<typename C::Health, typename S::Health>(here, there)) {
            const auto& mine = *play.world.template get<typename S::Health>(here);
            const auto& theirs = *peer.world.template get<typename C::Health>(there);
            CHECK(mine.hp == theirs.hp);
            CHECK(mine.mood == theirs.mood);
            if constexpr (std::is_same_v<C, Newer>) {
                CHECK(theirs.mana == 55);
                CHECK_FALSE(theirs.owner);
                CHECK(theirs.fear == 0.5f);
            } else {
                CHECK(theirs.angry);
            }
            ++compared;
        }
        if (has.template operator()<typename C::Title, typename S::Title>(here, there))
            CHECK(play.world.template get<typename S::Title>(here)->text == peer.world.template get<typename C::Title>(there)->text);
        if (has.template operator()<typename C::Friend, typename S::Friend>(here, there)) {
            const Entity other = play.world.template get<typename S::Friend>(here)->other;
            CHECK(peer.world.template get<typename C::Friend>(there)->other ==
                  (play.world.alive(other) ? play.shown(peer, other) : Entity{}));
        }
    }
    CHECK(compared > 5);
}

template <class S, class C>
void replicate(double loss_percent, Compression compression) {
    CAPTURE(loss_percent);
    const LinkConfig link{.loss_percent = loss_percent, .delay_us = loss_percent > 0 ? 40'000u : 0u,
                          .jitter_us = loss_percent > 0 ? 60'000u : 0u};
    const BuildProtocol<C> client_build;
    Play<S> play({.hash_ticks = 4, .compression = compression});
    Life<S> life(play, 7);
    auto& peer = play.connect(client_build.protocol, link);
    auto& same = play.connect(play.server_build.protocol, link);
    REQUIRE(play.until([&] { return peer.client->joined() && same.client->joined(); }));
    for (int tick = 0; tick < 120; ++tick) {
        life.change();
        play.step();
        if (tick == 40) { // the same client anew
            play.server.disconnect(same.id);
            same.left = true;
        }
    }
    auto& late = play.connect(client_build.protocol, link);
    REQUIRE(play.until([&] { return late.client->joined(); }));
    for (int tick = 0; tick < 20; ++tick) {
        life.change();
        play.step();
    }
    REQUIRE(play.settle(peer));
    REQUIRE(play.settle(late));
    compare<S, C>(play, peer, life.all);
    compare<S, C>(play, late, life.all);
    play.until([&] { return play.equal > 0; });
    CHECK(play.equal > 0);
    CHECK(play.different == 0);
    CHECK(play.malformed == 0);
    CHECK(play.send_errors == 0);
    CHECK(late.client->report().entities == life.all.size());
    CHECK(late.client->template component_report<typename C::Position>().entities == life.all.size());
    CHECK(late.client->template component_report<typename C::Position>().inserts >= life.all.size());
    if constexpr (std::is_same_v<C, Newer>) {
        CHECK(std::string(late.client->template component_report<Newer::Aura>().name) == "aura");
        CHECK(late.client->template component_report<Newer::Aura>().inserts == 0);
    }
    for (const u64 count : peer.client->stats().malformed)
        CHECK(count == 0);
}

// ---- messages
template <class C>
struct Ear {
    std::vector<typename C::Hit> hits;
    void handle(const typename C::Hit& hit, const Sender&) { hits.push_back(hit); }
};
template <class S>
struct ServerEar {
    std::vector<typename S::Order> orders;
    void handle(const typename S::Order& order, const Sender&) { orders.push_back(order); }
};

struct Keeps {
    struct Position {
        float x = 0, z = 0;
    };
    static void add(Protocol& protocol) {
        const Range map{-1000, 1000, 0.01};
        protocol.component<Lasting>("lasting");
        protocol.component<Position>("position").field(&Position::x, map).field(&Position::z, map).spatial(&Position::x, &Position::z);
    }
};
struct Forgets {
    struct Position {
        float x = 0, z = 0;
    };
    static void add(Protocol& protocol) {
        const Range map{-1000, 1000, 0.01};
        protocol.component<Position>("position").field(&Position::x, map).field(&Position::z, map).spatial(&Position::x, &Position::z);
    }
};
struct Narrow {
    struct Wish {
        float haste = 0;
    };
    static void add(Protocol& protocol) {
        protocol.message<Wish>("wish", {.route = Route::to_server}).field(&Wish::haste, Range{-1, 1, 0.25});
    }
};
struct Wide {
    struct Wish {
        float haste = 0;
    };
    static void add(Protocol& protocol) {
        protocol.message<Wish>("wish", {.route = Route::to_server}).field(&Wish::haste, Range{-100, 100, 0.01});
    }
};

/// The newer of the two has another name for some.
struct OneName {
    struct Heat {
        float degrees = 0;
    };
    static void add(Protocol& protocol) { protocol.component<Heat>("heat").field(&Heat::degrees, Range{-50, 50, 1}); }
};
struct TwoNames {
    struct Heat {
        float degrees = 0;
    };
    struct Exact {};
    static void add(Protocol& protocol) {
        protocol.component<Heat>("exact heat").field(&Heat::degrees, Range{-50, 50, 0.25}).when(with<Exact>);
        protocol.component<Heat>("heat").field(&Heat::degrees, Range{-50, 50, 1});
    }
};

} // namespace

TEST_SUITE("versions") {
    TEST_CASE("a newer server and an older client: what it lacks is read over") {
        for (const double loss : {0.0, 5.0, 30.0})
            replicate<Newer, Older>(loss, Compression::automatic);
        replicate<Newer, Older>(5, Compression::always);
    }
    TEST_CASE("an older server and a newer client: what the server lacks has its default") {
        for (const double loss : {0.0, 5.0, 30.0})
            replicate<Older, Newer>(loss, Compression::automatic);
        replicate<Older, Newer>(5, Compression::always);
    }

    TEST_CASE("clients of all builds share what the server encodes") {
        const BuildProtocol<Older> older;
        Play<Newer> play;
        Life<Newer> life(play, 3);
        auto& a = play.connect(older.protocol);
        auto& b = play.connect(play.server_build.protocol);
        REQUIRE(play.until([&] { return a.client->joined() && b.client->joined(); }));
        REQUIRE(play.settle(a));
        REQUIRE(play.settle(b));
        u64 payload = 0;
        for (int tick = 0; tick < 20; ++tick) {
            play.world.mut<Newer::Position>(life.all[static_cast<std::size_t>(tick)])->x += 1;
            const TickReport& report = play.step();
            CHECK(report.shared_bytes == report.payload_bytes);
            payload += report.payload_bytes;
        }
        CHECK(payload > 0);
    }

    TEST_CASE("messages between builds: by the server's numbers and layout, the rest is a default or left out") {
        for (const double loss : {0.0, 5.0, 30.0}) {
            CAPTURE(loss);
            const LinkConfig link{.loss_percent = loss, .delay_us = loss > 0 ? 40'000u : 0u};
            { // newer server
                const BuildProtocol<Older> older;
                Play<Newer> play;
                ServerEar<Newer> at_server;
                Ear<Older> at_client;
                REQUIRE(play.server.set_handlers(handlers<Newer::Order>(at_server)) == Error::none);
                const Entity e = play.world.spawn(Newer::Position{1, 0, 2}, Replicated{});
                auto& peer = play.connect(older.protocol, link);
                REQUIRE(peer.client->set_handlers(handlers<Older::Hit>(at_client)) == Error::none);
                REQUIRE(play.until([&] { return peer.client->joined() && play.shown(peer, e); }));
                REQUIRE(play.settle(peer)); // the server knows that it sees e
                CHECK(play.server.send_message(To::all(), Newer::Whisper{4}) == Error::none);
                CHECK(play.server.send_message(To::all(), Newer::Hit{e, 420.25f, true, e}) == Error::none);
                CHECK(peer.client->send_message(Older::Order{play.shown(peer, e), 700, "go"}) == Error::none);
                CHECK(peer.client->send_message(Older::Taunt{1}) == Error::wrong_protocol);
                CHECK(peer.client->send_message(Older::Hit{}) == Error::bad_value); // goes to clients
                REQUIRE(play.until([&] { return !at_server.orders.empty() && !at_client.hits.empty(); }));
                CHECK(at_client.hits[0].target == play.shown(peer, e));
                CHECK(at_client.hits[0].damage == 420.25f);
                CHECK(peer.client->stats().typed.unknown == 1);
                CHECK(at_server.orders[0].target == e);
                CHECK(at_server.orders[0].kind == 700);
                CHECK(at_server.orders[0].text == "go");
                CHECK(at_server.orders[0].priority == -3);
                CHECK(at_server.orders[0].haste == 0.25f);
                CHECK_FALSE(at_server.orders[0].helper);
                CHECK(play.malformed == 0);
            }
            { // older server
                const BuildProtocol<Newer> newer;
                Play<Older> play;
                ServerEar<Older> at_server;
                Ear<Newer> at_client;
                REQUIRE(play.server.set_handlers(handlers<Older::Order>(at_server)) == Error::none);
                const Entity e = play.world.spawn(Older::Position{1, 2}, Replicated{});
                auto& peer = play.connect(newer.protocol, link);
                REQUIRE(peer.client->set_handlers(handlers<Newer::Hit>(at_client)) == Error::none);
                REQUIRE(play.until([&] { return peer.client->joined() && play.shown(peer, e); }));
                REQUIRE(play.settle(peer));
                CHECK(play.server.send_message(To::all(), Older::Taunt{4}) == Error::none);
                CHECK(play.server.send_message(To::all(), Older::Hit{e, 42.5f}) == Error::none);
                CHECK(peer.client->send_message(Newer::Order{play.shown(peer, e), 9, 100, 1, play.shown(peer, e), "come"}) == Error::none);
                CHECK(peer.client->send_message(Newer::Emote{1}) == Error::wrong_protocol);
                Newer::Order longer; // as large as this build allows, but not that one
                longer.text = std::string(150, 'x');
                CHECK(peer.client->send_message(longer) == Error::too_large);
                REQUIRE(play.until([&] { return !at_server.orders.empty() && !at_client.hits.empty(); }));
                CHECK(at_client.hits[0].target == play.shown(peer, e));
                CHECK(at_client.hits[0].damage == 42.5f);
                CHECK_FALSE(at_client.hits[0].critical);
                CHECK_FALSE(at_client.hits[0].source);
                CHECK(peer.client->stats().typed.unknown == 1);
                CHECK(at_server.orders[0].target == e);
                CHECK(at_server.orders[0].kind == 9);
                CHECK(at_server.orders[0].text == "come");
                CHECK(play.malformed == 0);
            }
        }
    }

    TEST_CASE("an older client that does not know Lasting lets go of what it no longer sees, and gets it again") {
        const BuildProtocol<Forgets> forgets;
        Play<Keeps> play;
        const Entity e = play.world.spawn(Keeps::Position{1, 2}, Lasting{}, Replicated{});
        const Entity other = play.world.spawn(Keeps::Position{3, 4}, Lasting{}, Replicated{});
        auto& peer = play.connect(forgets.protocol);
        REQUIRE(play.until([&] { return peer.client->joined() && play.shown(peer, e) && play.shown(peer, other); }));
        play.server.view(peer.id).hide(e);
        play.server.view(peer.id).hide(other);
        REQUIRE(play.settle(peer));
        CHECK(peer.world.entity_count() == 0);
        play.world.destroy(other); // it is told of an end that it does not know
        play.world.mut<Keeps::Position>(e)->x = 9;
        play.server.view(peer.id).show(e);
        REQUIRE(play.settle(peer));
        play.steps(10);
        REQUIRE(play.shown(peer, e));
        CHECK(peer.world.get<Forgets::Position>(play.shown(peer, e))->x == 9);
        CHECK(peer.world.entity_count() == 1);
        CHECK(play.equal > 0);
        CHECK(play.different == 0);
        CHECK(peer.last == Error::none);
    }

    TEST_CASE("values that the server's quantiser does not hold are clamped by the client that sends them") {
        const BuildProtocol<Wide> wide;
        Play<Narrow> play;
        auto& peer = play.connect(wide.protocol);
        struct Wishes {
            std::vector<float> heard;
            void handle(const Narrow::Wish& wish, const Sender&) { heard.push_back(wish.haste); }
        } wishes;
        REQUIRE(play.server.set_handlers(handlers<Narrow::Wish>(wishes)) == Error::none);
        REQUIRE(play.until([&] { return peer.client->joined(); }));
        for (const float haste : {-77.0f, 0.6f, 3.0f})
            CHECK(peer.client->send_message(Wide::Wish{haste}) == Error::none);
        play.steps(3);
        CHECK(wishes.heard == std::vector<float>{-1, 0.5f, 1});
        CHECK(play.malformed == 0);
    }

    TEST_CASE("a type under several names, of which a client knows one") {
        const BuildProtocol<OneName> one;
        Play<TwoNames> play;
        auto& older = play.connect(one.protocol);
        auto& newer = play.connect(play.server_build.protocol);
        REQUIRE(play.until([&] { return older.client->joined() && newer.client->joined(); }));
        const Entity e = play.world.spawn(TwoNames::Heat{1.25f}, Replicated{});
        REQUIRE(play.settle(older));
        REQUIRE(play.settle(newer));
        const auto heat = [&](const auto& peer, auto type) {
            const auto* there = peer.world.template get<decltype(type)>(play.shown(peer, e));
            return there ? there->degrees : -1;
        };
        CHECK(heat(older, OneName::Heat{}) == 1);
        CHECK(heat(newer, TwoNames::Heat{}) == 1);
        for (int i = 0; i < 3; ++i) {
            play.world.add<TwoNames::Exact>(e);
            REQUIRE(play.settle(older));
            REQUIRE(play.settle(newer));
            CHECK(heat(older, OneName::Heat{}) == -1); // what it has of that name is not sent
            CHECK(heat(newer, TwoNames::Heat{}) == 1.25f);
            play.world.remove<TwoNames::Exact>(e);
            REQUIRE(play.settle(older));
            REQUIRE(play.settle(newer));
            CHECK(heat(older, OneName::Heat{}) == 1);
            CHECK(heat(newer, TwoNames::Heat{}) == 1);
        }
        play.steps(10);
        CHECK(play.equal > 0);
        CHECK(play.different == 0);
    }
}
