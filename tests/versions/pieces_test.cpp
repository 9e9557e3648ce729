// Features of replication between builds of which one lacks a piece, or both have it under another number.
#include "tests/versions/pieces.hpp"
#include <doctest/doctest.h>
#include <set>

using namespace throng;
using namespace versions_test;

namespace {

const LinkConfig bad{.loss_percent = 20, .delay_us = 30'000, .jitter_us = 60'000};

/// Runs a check with the server of either game.
template <class Check>
void both_ways(Check&& check) {
    check.template operator()<Game<0>, Game<1>>();
    check.template operator()<Game<1>, Game<0>>();
}

/// Forty entities far apart, of which all change in every tick: how often the client of the other build shows them as of several ticks.
template <class S, class C>
u32 torn_clusters(u32 server_lacks, u32 client_lacks) {
    Meeting<S, C> meeting(server_lacks, client_lacks, {.loss_percent = 30, .delay_us = 30'000, .jitter_us = 60'000},
                          {.message_bytes_max = 128, .hash_ticks = 2});
    std::vector<Entity> all{meeting.spawn(typename S::Health{})};
    for (int i = 1; i < 40; ++i)
        all.push_back(meeting.world.spawn(typename S::Position{static_cast<float>(i) * 8, 0}, typename S::Health{},
                                          typename S::Crew{all[0]}, Replicated{}));
    u32 torn = 0, whole = 0;
    for (int wave = 1; wave < 200; ++wave) {
        for (const Entity e : all)
            meeting.world.template mut<typename S::Health>(e)->hp = wave;
        meeting.tick();
        std::set<int> waves;
        u32 there = 0;
        for (const Entity e : all)
            if (const auto* health = meeting.template theirs<typename C::Health>(e)) {
                waves.insert(health->hp);
                ++there;
            }
        whole += there == all.size() && waves.size() == 1;
        torn += there > 0 && (there < all.size() || waves.size() > 1);
    }
    REQUIRE(meeting.settle());
    CHECK(whole > 0);
    for (const Entity e : all) {
        const auto* crew_there = meeting.template theirs<typename C::Crew>(e);
        CHECK((crew_there != nullptr) == (e != all[0] && !((server_lacks | client_lacks) & crew)));
        CHECK((!crew_there || crew_there->vehicle == meeting.shown(meeting.other, all[0])));
    }
    CHECK(meeting.equal > 0);
    return torn;
}

template <class S, class C>
void check_weather(const Meeting<S, C>& meeting, bool told, int rain) {
    const auto* here = meeting.world.resources().template get<typename S::Weather>();
    const auto* there = meeting.other.world->resources().template get<typename C::Weather>();
    CHECK((there != nullptr) == (told && here));
    if (told && here && there) {
        CHECK(there->wind == here->wind);
        CHECK(there->rain == (rain ? rain : here->rain));
    }
}

/// What an entity's audience sees at the client of the other build.
template <class S, class C>
void check_audience(Meeting<S, C>& meeting, Entity e, bool owner, bool member, bool other) {
    REQUIRE(meeting.settle());
    CHECK((meeting.template theirs<typename C::Purse>(e) != nullptr) == owner);
    CHECK((meeting.template theirs<typename C::Plans>(e) != nullptr) == member);
    CHECK((meeting.template theirs<typename C::Rumour>(e) != nullptr) == other);
}

} // namespace

TEST_SUITE("versions") {
    TEST_CASE("related entities travel together, also to a client whose build does not know the relation") {
        both_ways([]<class S, class C> {
            CHECK(torn_clusters<S, C>(0, 0) == 0);
            CHECK(torn_clusters<S, C>(0, crew) == 0);
            CHECK(torn_clusters<S, C>(crew, 0) > 0); // the server decides: without the relation they go alone
        });
    }

    TEST_CASE("resources between builds: known to one, to both, with a field more") {
        both_ways([]<class S, class C> {
            for (const auto& [server_lacks, client_lacks, told, rain] : {std::tuple{0u, 0u, true, 0},
                                                                         {0u, u32(weather), false, 0},
                                                                         {u32(weather), 0u, false, 0},
                                                                         {0u, u32(weather_rain), true, 70},
                                                                         {u32(weather_rain), 0u, true, 70}}) {
                const u32 missing[] = {server_lacks, client_lacks};
                CAPTURE(missing[0]);
                CAPTURE(missing[1]);
                Meeting<S, C> meeting(server_lacks, client_lacks, bad);
                const Entity e = meeting.spawn(typename S::Health{});
                Resources& resources = meeting.world.resources();
                resources.template emplace<typename S::Weather>(typename S::Weather{20, 5});
                REQUIRE(meeting.settle());
                check_weather(meeting, told, rain);
                for (int wind = 0; wind < 30; ++wind) {
                    *resources.template mut<typename S::Weather>() = {wind, wind + 1};
                    meeting.world.template mut<typename S::Health>(e)->hp = wind;
                    meeting.tick();
                }
                REQUIRE(meeting.settle());
                check_weather(meeting, told, rain);
                CHECK(meeting.template theirs<typename C::Health>(e)->hp == 29);
                resources.template remove<typename S::Weather>();
                REQUIRE(meeting.settle());
                check_weather(meeting, told, rain);
                CHECK(meeting.equal > 0);
            }
        });
    }

    TEST_CASE("audiences are the server's, whatever the client's build says of them") {
        both_ways([]<class S, class C> {
            for (const u32 client_lacks : {0u, u32(audiences)}) {
                CAPTURE(client_lacks);
                Meeting<S, C> meeting(0, client_lacks, bad);
                const Entity e = meeting.spawn(typename S::Purse{7}, typename S::Plans{8}, typename S::Rumour{9});
                check_audience(meeting, e, false, false, true);
                meeting.world.template add<OwnedBy>(e, OwnedBy{meeting.other.id});
                check_audience(meeting, e, true, false, false);
                CHECK(meeting.template theirs<typename C::Purse>(e)->gold == 7);
                CHECK(meeting.template ours<typename S::Purse>(e) == nullptr);
                const GroupId group = meeting.server.make_group();
                meeting.server.add_to_group(group, meeting.other.id);
                meeting.world.template add<SharedWith>(e, SharedWith{group});
                *meeting.world.template mut<OwnedBy>(e) = {meeting.same.id};
                check_audience(meeting, e, false, true, true);
                CHECK(meeting.template theirs<typename C::Plans>(e)->plan == 8);
                CHECK(meeting.template theirs<typename C::Rumour>(e)->heard == 9);
                CHECK(meeting.template ours<typename S::Purse>(e)->gold == 7);
                meeting.server.remove_from_group(group, meeting.other.id);
                check_audience(meeting, e, false, false, true);
                CHECK(meeting.equal > 0);
            }
            { // to a server without audiences those of its clients mean nothing
                Meeting<S, C> meeting(audiences, 0, bad);
                const Entity e =
                    meeting.spawn(typename S::Purse{7}, typename S::Plans{8}, typename S::Rumour{9}, OwnedBy{meeting.other.id});
                check_audience(meeting, e, true, true, true);
            }
            for (const auto& [server_lacks, client_lacks] : {std::pair{0u, u32(purse | plans)}, {u32(purse | plans), 0u}}) {
                Meeting<S, C> meeting(server_lacks, client_lacks, bad);
                const Entity e =
                    meeting.spawn(typename S::Purse{7}, typename S::Plans{8}, typename S::Rumour{9}, OwnedBy{meeting.other.id});
                const Entity shared = meeting.spawn(typename S::Plans{8}, typename S::Rumour{1}, OwnedBy{meeting.same.id});
                check_audience(meeting, e, false, false, false); // it owns what it does not know
                check_audience(meeting, shared, false, false, true);
                CHECK((meeting.template ours<typename S::Purse>(e) == nullptr));
                *meeting.world.template mut<OwnedBy>(e) = {meeting.same.id};
                check_audience(meeting, e, false, false, true);
                CHECK((meeting.template ours<typename S::Purse>(e) != nullptr) == !(server_lacks & purse));
            }
        });
    }

    TEST_CASE("what is sent once is what the server says it is") {
        both_ways([]<class S, class C> {
            for (const auto& [server_lacks, client_lacks] :
                 {std::pair{0u, 0u}, {0u, u32(once)}, {u32(once), 0u}, {0u, u32(birth_house)}, {u32(birth_house), 0u}}) {
                const u32 missing[] = {server_lacks, client_lacks};
                CAPTURE(missing[0]);
                CAPTURE(missing[1]);
                Meeting<S, C> meeting(server_lacks, client_lacks, bad);
                const Entity e = meeting.spawn(typename S::Birth{4, 5});
                const auto check = [&](int village, int house) {
                    REQUIRE(meeting.settle());
                    REQUIRE(meeting.template theirs<typename C::Birth>(e));
                    CHECK(meeting.template theirs<typename C::Birth>(e)->village == village);
                    CHECK(meeting.template theirs<typename C::Birth>(e)->house ==
                          ((missing[0] | missing[1]) & birth_house ? typename C::Birth{}.house : house));
                };
                check(4, 5);
                *meeting.world.template mut<typename S::Birth>(e) = {6, 7};
                server_lacks& once ? check(6, 7) : check(4, 5);
                meeting.world.template remove<typename S::Birth>(e);
                meeting.world.template add<typename S::Birth>(e, typename S::Birth{8, 9});
                check(8, 9); // another one
                CHECK(meeting.equal > 0);
            }
            for (const auto& [server_lacks, client_lacks] : {std::pair{0u, u32(birth)}, {u32(birth), 0u}}) {
                Meeting<S, C> meeting(server_lacks, client_lacks, bad);
                const Entity e = meeting.spawn(typename S::Birth{4, 5}, typename S::Health{3, 4});
                REQUIRE(meeting.settle());
                CHECK(meeting.template theirs<typename C::Birth>(e) == nullptr);
                CHECK((meeting.template ours<typename S::Birth>(e) != nullptr) == !(server_lacks & birth));
                CHECK(meeting.template theirs<typename C::Health>(e)->hp == 3);
            }
        });
    }

    TEST_CASE("a component that travels as another type: by fields, so that the other build may have that type itself") {
        both_ways([]<class S, class C> {
            for (const u32 lacks : {0u, u32(heat_seed)})
                for (const bool at_server : {false, true}) {
                    CAPTURE(lacks);
                    CAPTURE(at_server);
                    Meeting<S, C> meeting(at_server ? lacks : 0, at_server ? 0 : lacks, bad);
                    const Entity e = meeting.spawn(typename S::Heat{12.34, 6});
                    for (const double kelvin : {12.34, 99.96}) {
                        meeting.world.template mut<typename S::Heat>(e)->kelvin = kelvin;
                        REQUIRE(meeting.settle());
                        const auto* there = meeting.template theirs<typename C::Heat>(e);
                        REQUIRE(there);
                        CHECK(there->kelvin == static_cast<double>(std::lround(kelvin * 10)) / 10.0);
                        CHECK(there->seed == (lacks ? 55 : 6)); // what the constructor of the wire's type gave it
                    }
                    CHECK(meeting.equal > 0);
                }
            { // the client has the wire's type
                Meeting<S, C> meeting(0, conversion, bad);
                const Entity e = meeting.spawn(typename S::Heat{12.34, 6});
                REQUIRE(meeting.settle());
                const auto* there = meeting.template theirs<typename C::WireHeat>(e);
                REQUIRE(there);
                CHECK(there->tenths == 123);
                CHECK(there->seed == 6);
                CHECK(meeting.template theirs<typename C::Heat>(e) == nullptr);
            }
            { // the server has
                Meeting<S, C> meeting(conversion, 0, bad);
                const Entity e = meeting.spawn(typename S::WireHeat{45, 6});
                REQUIRE(meeting.settle());
                REQUIRE(meeting.template theirs<typename C::Heat>(e));
                CHECK(meeting.template theirs<typename C::Heat>(e)->kelvin == 4.5);
                CHECK(meeting.template theirs<typename C::Heat>(e)->seed == 6);
            }
            for (const auto& [server_lacks, client_lacks] : {std::pair{0u, u32(heat)}, {u32(heat), 0u}}) {
                Meeting<S, C> meeting(server_lacks, client_lacks, bad);
                const Entity e = meeting.spawn(typename S::Heat{1, 2}, typename S::Health{3, 4});
                REQUIRE(meeting.settle());
                CHECK(meeting.template theirs<typename C::Heat>(e) == nullptr);
                CHECK(meeting.template theirs<typename C::Health>(e)->shield == 4);
                CHECK((meeting.template ours<typename S::Heat>(e) != nullptr) == !(server_lacks & heat));
            }
        });
    }

    TEST_CASE("rules of components are the server's") {
        both_ways([]<class S, class C> {
            for (const auto& [server_lacks, client_lacks, server_rules] :
                 {std::tuple{0u, 0u, true}, {0u, u32(rules), true}, {u32(rules), 0u, false}}) {
                const u32 missing[] = {server_lacks, client_lacks};
                CAPTURE(missing[0]);
                CAPTURE(missing[1]);
                Meeting<S, C> meeting(server_lacks, client_lacks, bad);
                const Entity e = meeting.spawn(typename S::Speech{3});
                for (int i = 0; i < 3; ++i) {
                    meeting.world.template mut<typename S::Speech>(e)->words = i;
                    REQUIRE(meeting.settle());
                    REQUIRE(meeting.template theirs<typename C::Speech>(e));
                    CHECK(meeting.template theirs<typename C::Speech>(e)->words == i);
                    meeting.world.template add<typename S::Muted>(e);
                    REQUIRE(meeting.settle());
                    CHECK((meeting.template theirs<typename C::Speech>(e) == nullptr) == server_rules);
                    meeting.world.template remove<typename S::Muted>(e);
                }
                CHECK(meeting.equal > 0);
            }
        });
    }

    TEST_CASE("scopes of an entity, with components that a build lacks") {
        both_ways([]<class S, class C> {
            struct Case {
                u32 server_lacks, client_lacks;
            };
            for (const auto& [server_lacks, client_lacks] : {Case{0, 0}, Case{0, health}, Case{health, 0}, Case{0, speech | birth}})
                for (const Lifetime lifetime : {Lifetime::while_visible, Lifetime::after_first, Lifetime::always}) {
                    const u32 missing[] = {server_lacks, client_lacks};
                    CAPTURE(missing[0]);
                    CAPTURE(missing[1]);
                    CAPTURE(static_cast<u32>(lifetime));
                    Meeting<S, C> meeting(server_lacks, client_lacks, bad);
                    const auto told = [&](u32 piece) { return !((missing[0] | missing[1]) & piece); };
                    // Health and Speech to those of layer 1, all but Health and Speech to those of layer 2.
                    const Entity e = meeting.spawn(typename S::Health{1, 2}, typename S::Speech{3}, typename S::Birth{4, 5},
                                                   ScopedTo(Scope::of<typename S::Health, typename S::Speech>(), {.any_of = 1}, lifetime)
                                                       .also(Scope::all_except<typename S::Health, typename S::Speech>(), {.any_of = 2}));
                    const auto check = [&](bool health_seen, bool speech_seen, bool rest) {
                        REQUIRE(meeting.settle());
                        REQUIRE(meeting.other.world->alive(meeting.shown(meeting.other, e)));
                        CHECK((meeting.template theirs<typename C::Health>(e) != nullptr) == (told(health) && health_seen));
                        CHECK((meeting.template theirs<typename C::Speech>(e) != nullptr) == (told(speech) && speech_seen));
                        CHECK((meeting.template theirs<typename C::Birth>(e) != nullptr) == (told(birth) && rest));
                        CHECK((meeting.template theirs<typename C::Position>(e) != nullptr) == rest);
                    };
                    const bool brought = lifetime == Lifetime::always, kept = lifetime != Lifetime::while_visible;
                    check(brought, brought, false);
                    meeting.server.view(meeting.other.id).set_layers(3);
                    check(true, true, true);
                    if (told(speech)) {
                        meeting.world.template mut<typename S::Speech>(e)->words = 33;
                        REQUIRE(meeting.settle());
                        CHECK(meeting.template theirs<typename C::Speech>(e)->words == 33);
                    }
                    meeting.server.view(meeting.other.id).set_layers(2);
                    check(kept, kept, true);
                    meeting.world.template mut<typename S::Speech>(e)->words = 44; // it hears nothing of that
                    check(kept, kept, true);
                    if (told(speech) && kept)
                        CHECK(meeting.template theirs<typename C::Speech>(e)->words == 33);
                    meeting.world.template remove<ScopedTo>(e);
                    check(true, true, true);
                    if (told(speech))
                        CHECK(meeting.template theirs<typename C::Speech>(e)->words == 44);
                    CHECK(meeting.equal > 0);
                }
        });
    }

    TEST_CASE("signatures between builds: with both an entity made ahead is taken, else it stays the game's own") {
        both_ways([]<class S, class C> {
            for (const auto& [server_lacks, client_lacks] : {std::pair{0u, 0u}, {0u, u32(signature)}, {u32(signature), 0u}}) {
                const u32 missing[] = {server_lacks, client_lacks};
                CAPTURE(missing[0]);
                CAPTURE(missing[1]);
                Meeting<S, C> meeting(server_lacks, client_lacks, bad);
                World& there = *meeting.other.world;
                const bool taken = !server_lacks && !client_lacks;
                const Entity mine = there.spawn(typename C::Position{50, 60}, typename C::Health{-1, -2}, typename C::Muted{},
                                                typename C::Speech{1}, SpawnSignature::of(1, 2));
                const Entity e = meeting.spawn(typename S::Health{5, 6}, SpawnSignature::of(1, 2));
                REQUIRE(meeting.settle());
                const Entity shown = meeting.shown(meeting.other, e);
                REQUIRE(there.alive(mine));
                REQUIRE(there.alive(shown));
                CHECK((shown == mine) == taken);
                CHECK(meeting.other.client->stats().adoptions == taken);
                CHECK(there.template get<typename C::Health>(shown)->hp == 5);
                CHECK(there.template get<typename C::Position>(shown)->x == 1);
                CHECK(there.template has<typename C::Muted>(shown) == taken);
                CHECK_FALSE(there.template has<typename C::Speech>(shown)); // the server's has none
                CHECK(there.template has<SpawnSignature>(shown) == taken);
                meeting.world.destroy(e);
                REQUIRE(meeting.settle());
                CHECK(there.alive(mine) == !taken);
                CHECK(there.entity_count() == !taken);
                CHECK(meeting.equal > 0);
            }
        });
    }

    TEST_CASE("signatures between builds: what one of them lacks stays as the client made it") {
        both_ways([]<class S, class C> {
            for (const bool at_server : {false, true}) {
                CAPTURE(at_server);
                constexpr u32 lacks = speech | health_shield;
                Meeting<S, C> meeting(at_server ? lacks : 0, at_server ? 0 : lacks, bad);
                World& there = *meeting.other.world;
                const Entity mine =
                    there.spawn(typename C::Health{-1, -2}, typename C::Speech{11}, typename C::Purse{1}, SpawnSignature{99});
                const Entity e = meeting.spawn(typename S::Health{5, 6}, typename S::Speech{12}, SpawnSignature{99});
                REQUIRE(meeting.settle());
                REQUIRE(meeting.shown(meeting.other, e) == mine);
                CHECK(there.template get<typename C::Health>(mine)->hp == 5);
                CHECK(there.template get<typename C::Health>(mine)->shield == -2);
                REQUIRE(there.template get<typename C::Speech>(mine));
                CHECK(there.template get<typename C::Speech>(mine)->words == 11);
                CHECK_FALSE(there.template has<typename C::Purse>(mine)); // both know it, and the server's entity has none
                meeting.world.template remove<typename S::Health>(e);
                meeting.world.template remove<typename S::Speech>(e);
                REQUIRE(meeting.settle());
                CHECK_FALSE(there.template has<typename C::Health>(mine));
                CHECK(there.template has<typename C::Speech>(mine));
                meeting.world.template add<typename S::Health>(e, typename S::Health{7, 8});
                REQUIRE(meeting.settle());
                CHECK(there.template get<typename C::Health>(mine)->hp == 7);
                CHECK(there.template get<typename C::Health>(mine)->shield == 77); // a new one
                meeting.world.destroy(e);
                REQUIRE(meeting.settle());
                CHECK_FALSE(there.alive(mine));
                CHECK(meeting.equal > 0);
            }
        });
    }
}
