// Resources of the server's world on clients.
#include "tests/conformance/rules_support.hpp"
#include "throng/scene.hpp"

using namespace throng;
using namespace conformance::state;

namespace {
struct Season { // replaced, never written
    using immutable = void;
    int month = 0;
};
struct Tide { // of the game
    double metres = 0;
    Entity moon;
    int kept = 0;
};
struct WireTide { // what travels
    i32 centimetres = 0;
    Entity moon;
};
WireTide pack(const Tide& tide) {
    return {static_cast<i32>(tide.metres * 100), tide.moon};
}
Tide unpack(const WireTide& wire) {
    return {wire.centimetres / 100.0, wire.moon, 5};
}
int month(const StateNet::Peer& peer) {
    const Season* there = peer.world->resources().get<Season>();
    return there ? there->month : -1;
}
std::string motd(const StateNet::Peer& peer) {
    const Name* there = peer.world->resources().get<Name>();
    return there ? there->text : "-";
}
} // namespace

TEST_CASE("resource/once") {
    StateNet net = make_net([](Protocol& p) { weather(p).once(); });
    auto& peer = net.join();
    net.world.resources().emplace<Weather>(Weather{7, {}});
    net.settle();
    net.world.resources().mut<Weather>()->wind = 8;
    CHECK(net.state_bytes(20) == 0);
    CHECK(wind(peer) == 7);
    net.world.resources().remove<Weather>();
    net.settle();
    CHECK(wind(peer) == -1);
    net.world.resources().emplace<Weather>(Weather{9, {}});
    net.settle();
    CHECK(wind(peer) == 9);
}

TEST_CASE("resource/own_functions") {
    StateNet net = make_net([](Protocol& p) {
        p.resource<Name>("motd", 100, OpaqueFunctions{throng_test::write_name, throng_test::read_name});
    });
    auto& peer = net.join();
    net.world.resources().emplace<Name>(Name{"welcome"});
    net.settle();
    REQUIRE(peer.world->resources().get<Name>());
    CHECK(peer.world->resources().get<Name>()->text == "welcome");
    net.world.resources().mut<Name>()->text = "be gone";
    net.settle();
    CHECK(peer.world->resources().get<Name>()->text == "be gone");
    net.world.resources().remove<Name>();
    net.settle();
    CHECK_FALSE(peer.world->resources().get<Name>());
}

TEST_CASE("resource/removed_while_paused") {
    StateNet net = make_net([](Protocol& p) { weather(p); });
    auto& peer = net.join();
    net.world.resources().emplace<Weather>(Weather{7, {}});
    net.agree();
    net.world.remove<Replicated>(net.server.resource_entity());
    net.world.resources().mut<Weather>()->wind = 8;
    CHECK(net.state_bytes(10) == 0);
    CHECK(wind(peer) == 7);
    net.world.resources().remove<Weather>();
    net.agree(); // a resource that is no more is nowhere
    CHECK_FALSE(peer.world->resources().get<Weather>());
    CHECK(peer.world->entity_count() == 0);
    net.world.resources().emplace<Weather>(Weather{9, {}});
    net.agree();
    CHECK(wind(peer) == 9);
}

TEST_CASE("resource/references") {
    StateNet net = make_net([](Protocol& p) { weather(p); });
    auto& peer = net.join();
    const Entity storm = net.world.create();
    net.world.resources().emplace<Weather>(Weather{7, storm});
    net.agree();
    REQUIRE(wind(peer) == 7);
    CHECK_FALSE(peer.world->resources().get<Weather>()->storm);
    net.world.add<Replicated>(storm);
    net.agree();
    REQUIRE(net.shown(peer, storm));
    CHECK(peer.world->resources().get<Weather>()->storm == net.shown(peer, storm));
    net.server.view(peer.id).hide(storm);
    net.agree();
    CHECK_FALSE(peer.world->resources().get<Weather>()->storm);
}

TEST_CASE("resource/hidden") {
    StateNet net = make_net([](Protocol& p) { weather(p); });
    auto& peer = net.join();
    net.world.resources().emplace<Weather>(Weather{7, {}});
    net.agree();
    CHECK(wind(peer) == 7);
    net.server.view(peer.id).hide_all();
    net.agree();
    CHECK(wind(peer) == -1);
    net.server.view(peer.id).show(net.server.resource_entity());
    net.agree();
    CHECK(wind(peer) == 7);
}

TEST_CASE("resource/its_entity_ends") {
    StateNet net = make_net([](Protocol& p) { weather(p); });
    auto& peer = net.join();
    net.world.resources().emplace<Weather>(Weather{7, {}});
    net.agree();
    net.world.destroy(net.server.resource_entity()); // the host should not; another one comes
    net.agree();
    CHECK(wind(peer) == 7);
    net.world.resources().mut<Weather>()->wind = 8;
    net.agree();
    CHECK(wind(peer) == 8);
    peer.world->resources().mut<Weather>()->wind = 1; // the client's own doing lasts until something comes
    net.settle();
    CHECK(wind(peer) == 1);
    net.world.resources().mut<Weather>()->wind = 9;
    net.agree();
    CHECK(wind(peer) == 9);
}

TEST_CASE("resource/disconnected") {
    StateNet net = make_net([](Protocol& p) { weather(p); });
    auto& peer = net.join();
    net.world.resources().emplace<Weather>(Weather{7, {}});
    net.agree();
    CHECK(wind(peer) == 7);
    net.server.disconnect(peer.id);
    REQUIRE(net.until([&] { return !peer.client->joined(); }));
    CHECK(wind(peer) == 7);
    peer.client->clear();
    CHECK(wind(peer) == -1);
    CHECK(peer.world->entity_count() == 0);
    peer.left = true;
}

TEST_CASE("resource/audience") {
    StateNet net = make_net([](Protocol& p) {
        weather(p).audience(Audience::owner);
        p.resource<Name>("motd", 100, OpaqueFunctions{throng_test::write_name, throng_test::read_name}).audience(Audience::group);
        p.resource<Season>("season").field(&Season::month).audience(Audience::others);
    });
    auto& owner = net.join();
    auto& member = net.join();
    const auto seen = [&](const StateNet::Peer& peer) {
        return std::to_string(wind(peer)).append(" ").append(motd(peer)).append(" ").append(std::to_string(month(peer)));
    };
    net.world.resources().emplace<Weather>(Weather{7, {}});
    net.world.resources().emplace<Name>(Name{"psst"});
    net.world.resources().emplace<Season>(Season{3});
    net.agree(); // nobody's
    CHECK(seen(owner) == "-1 - 3");
    CHECK(seen(member) == "-1 - 3");
    const Entity e = net.server.resource_entity();
    const GroupId group = net.server.make_group();
    net.server.add_to_group(group, member.id);
    net.world.add<OwnedBy>(e, OwnedBy{owner.id});
    net.world.add<SharedWith>(e, SharedWith{group});
    net.agree();
    CHECK(seen(owner) == "7 - -1");
    CHECK(seen(member) == "-1 psst 3");
    CHECK(net.server.why<ResourceValue<Weather>>(e, member.id).reason == WhyReason::not_its_audience);
    net.world.resources().mut<Weather>()->wind = 8;
    net.world.resources().mut<Name>()->text = "hush";
    net.world.resources().emplace<Season>(Season{4});
    net.agree();
    CHECK(seen(owner) == "8 - -1");
    CHECK(seen(member) == "-1 hush 4");
    net.world.mut<OwnedBy>(e)->client = member.id;
    net.server.remove_from_group(group, member.id);
    net.agree();
    CHECK(seen(owner) == "-1 - 4");
    CHECK(seen(member) == "8 - -1");
}

TEST_CASE("resource/scoped") {
    StateNet net = make_net([](Protocol& p) {
        weather(p);
        p.resource<Season>("season").field(&Season::month);
    });
    CHECK_FALSE(net.server.resource_entity());
    const Entity e = net.server.keep_resource_entity(); // before there is a value that anybody could see
    REQUIRE(e);
    CHECK(net.server.resource_entity() == e);
    net.world.add<ScopedTo>(e, ScopedTo(Scope::of<ResourceValue<Weather>>(), {.any_of = 2}));
    auto& peer = net.join();
    auto& sailor = net.join();
    net.server.view(peer.id).set_layers(1);
    net.server.view(sailor.id).set_layers(2);
    net.settle();
    net.world.resources().emplace<Weather>(Weather{7, {}});
    net.world.resources().emplace<Season>(Season{3});
    int leaks = 0;
    for (int i = 0; i < 20; ++i) {
        net.step();
        leaks += wind(peer) != -1;
    }
    net.agree();
    CHECK(leaks == 0);
    CHECK(wind(sailor) == 7);
    CHECK(month(peer) == 3);
    CHECK(month(sailor) == 3);
    CHECK(net.server.resource_entity() == e);
    CHECK(net.server.why<ResourceValue<Weather>>(e, peer.id).reason == WhyReason::out_of_scope);
    net.server.view(peer.id).set_layers(3);
    net.agree();
    CHECK(wind(peer) == 7);
    net.server.view(sailor.id).set_layers(1);
    net.agree();
    CHECK(wind(sailor) == -1);
    CHECK(month(sailor) == 3);
    for (const bool there : {false, true}) { // the scope outlives the values
        net.world.resources().remove<Season>();
        net.world.resources().remove<Weather>();
        if (there)
            net.world.resources().emplace<Weather>(Weather{9, {}});
        net.agree();
        CHECK(wind(peer) == (there ? 9 : -1));
        CHECK(wind(sailor) == -1);
        CHECK(peer.world->entity_count() == 1);
    }
    CHECK(net.server.resource_entity() == e);
}

TEST_CASE("resource/priority") {
    StateNet net = make_net([](Protocol& p) { weather(p); });
    auto& peer = net.join();
    net.perfect_link(peer, Reason::counts_ticks);
    net.world.add<UpdatePriority>(net.server.keep_resource_entity(), UpdatePriority{0.125f});
    net.world.resources().emplace<Weather>(Weather{0, {}});
    net.agree();
    int seen = 0, last = wind(peer);
    for (int i = 1; i <= 32; ++i) {
        net.world.resources().mut<Weather>()->wind = i;
        net.step();
        seen += std::exchange(last, wind(peer)) != wind(peer);
    }
    CHECK(seen == 4); // each 8th tick
    net.agree();
    CHECK(wind(peer) == 32);
}

TEST_CASE("resource/another_type_travels") {
    StateNet net = make_net([](Protocol& p) { p.resource_as("tide", pack, unpack).field(&WireTide::centimetres).field(&WireTide::moon); });
    auto& peer = net.join();
    const auto tide = [&] { return peer.world->resources().get<Tide>(); };
    const Entity moon = net.world.create();
    net.world.resources().emplace<Tide>(Tide{1.239, moon, 1});
    net.agree();
    REQUIRE(tide());
    CHECK(tide()->metres == 1.23);
    CHECK(tide()->kept == 5);
    CHECK_FALSE(tide()->moon);
    net.world.resources().mut<Tide>()->metres = 1.235; // the same in what travels
    CHECK(net.state_bytes(10) == 0);
    net.world.add<Replicated>(moon);
    net.agree();
    REQUIRE(net.shown(peer, moon));
    CHECK(tide()->moon == net.shown(peer, moon));
    net.world.resources().mut<Tide>()->metres = -2;
    net.agree();
    CHECK(tide()->metres == -2);
    CHECK(tide()->moon == net.shown(peer, moon));
    net.world.resources().remove<Tide>();
    net.agree();
    CHECK_FALSE(tide());
}

TEST_CASE("resource/immutable") {
    StateNet net = make_net([](Protocol& p) { p.resource<Season>("season").field(&Season::month); });
    auto& peer = net.join();
    net.world.resources().emplace<Season>(Season{3});
    net.agree();
    CHECK(month(peer) == 3);
    for (int i = 4; i < 12; ++i) { // replaced in each tick
        net.world.resources().emplace<Season>(Season{i});
        net.step();
    }
    net.agree();
    CHECK(month(peer) == 11);
    const u32 version = peer.world->resources().version<Season>();
    net.world.resources().emplace<Season>(Season{11}); // the same
    net.agree();
    CHECK(peer.world->resources().version<Season>() == version);
    net.world.resources().remove<Season>();
    net.agree();
    CHECK(month(peer) == -1);
}

TEST_CASE("resource/scenes") {
    StateNet net = make_net([](Protocol& p) {
        p.resource_as("tide", pack, unpack).field(&WireTide::centimetres, "centimetres").field(&WireTide::moon, "moon");
        p.resource<Season>("season").field(&Season::month, "month");
    });
    auto& peer = net.join();
    Array<std::byte> file;
    SceneReport report;
    REQUIRE(net.server.keep_resource_entity());
    for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
        net.world.resources().remove<Tide>();
        net.world.resources().remove<Season>();
        net.agree();
        REQUIRE(save_scene(net.world, *net.protocol, file, report, {.form = form}) == Error::none);
        CHECK(report.entities.empty()); // the kept one is not the game's
        net.world.resources().emplace<Tide>(Tide{1.5, {}, 1});
        net.world.resources().emplace<Season>(Season{3});
        REQUIRE(save_scene(net.world, *net.protocol, file, report, {.form = form}) == Error::none);
        CHECK(report.resources == 2);
        net.world.resources().mut<Tide>()->metres = 9;
        net.world.resources().emplace<Season>(Season{4});
        REQUIRE_MESSAGE(load_scene(net.world, *net.protocol, {file.data(), file.size()}, report) == Error::none, report.problem);
        CHECK(net.world.resources().get<Tide>()->metres == 1.5);
        CHECK(net.world.resources().get<Season>()->month == 3);
        net.agree();
        CHECK(peer.world->resources().get<Tide>()->metres == 1.5);
        CHECK(month(peer) == 3);
    }
}

TEST_CASE("resource/another_server") {
    StateNet net = make_net([](Protocol& p) { weather(p); });
    World world;
    world.resources().emplace<Weather>(Weather{7, {}});
    for (const int now : {7, 8, -1, 9}) { // each has the world after the one before
        if (now < 0)
            world.resources().remove<Weather>();
        else
            world.resources().emplace<Weather>(Weather{now, {}});
        LoopbackNetwork network{LoopbackConfig{}};
        Server server(world, *net.protocol, network.server());
        World there;
        Client client(there, *net.protocol, network.client(network.connect(StateNet::link())));
        for (int i = 1; i <= 60; ++i) {
            server.receive(TimeUs(i) * 50'000);
            server.tick(TimeUs(i) * 50'000);
            (void)client.receive(TimeUs(i) * 50'000);
            (void)client.send(TimeUs(i) * 50'000);
        }
        CHECK((there.resources().get<Weather>() ? there.resources().get<Weather>()->wind : -1) == now);
        CHECK(there.entity_count() == u32(now >= 0)); // one entity for all of them
        CHECK(world.entity_count() == u32(now >= 0));
    }
}

TEST_CASE("resource/wrong_registrations") {
    Protocol twice;
    weather(twice), twice.resource<Weather>("again");
    CHECK(twice.finish() == Error::bad_value);
    CHECK(std::string_view(twice.problem()) == "component \"again\": registered twice, and no rule tells the two apart");
    Protocol ruled;
    ruled.resource<Name>("motd", 100, OpaqueFunctions{throng_test::write_name, throng_test::read_name}).when(with<Important>);
    CHECK(ruled.finish() == Error::bad_value);
    CHECK(std::string_view(ruled.problem()) == "component \"motd\": a resource has no rules");
    Protocol diffs;
    diffs.resource<Season>("season", 4, OpaqueFunctions{throng_test::write_name, throng_test::read_name})
        .diffs(
            +[](const int&, std::span<std::byte>) { return 0u; }, +[](int&, std::span<const std::byte>) { return Error::none; },
            +[](Season&, const int&) { return Error::none; });
    CHECK(diffs.finish() == Error::bad_value);
    CHECK(std::string_view(diffs.problem()) == "component \"season\": what is immutable or sent once has no diffs");
    World world;
    LoopbackNetwork network{LoopbackConfig{}};
    Protocol none;
    health(none);
    REQUIRE(none.finish() == Error::none);
    Server server(world, none, network.server());
    CHECK_FALSE(server.keep_resource_entity());
    CHECK(world.entity_count() == 0);
}
