// Resources of the server's world on clients.
#include "tests/conformance/rules_support.hpp"

using namespace throng;
using namespace conformance::state;

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

TEST_CASE("resource/wrong_registrations") {
    Protocol twice;
    weather(twice), twice.resource<Weather>("again");
    CHECK(twice.finish() == Error::bad_value);
    CHECK(std::string_view(twice.problem()) == "component \"again\": registered twice, and no rule tells the two apart");
    Protocol ruled;
    ruled.resource<Name>("motd", 100, OpaqueFunctions{throng_test::write_name, throng_test::read_name}).when(with<Important>);
    CHECK(ruled.finish() == Error::bad_value);
    CHECK(std::string_view(ruled.problem()) == "component \"motd\": a resource has no rules");
}
