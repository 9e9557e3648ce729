// A world's replicated state as a scene.
#include "tests/conformance/rules_support.hpp"
#include "throng/scene.hpp"
#include <string>

using namespace conformance::state;
using namespace throng;

namespace {
/// Saves and loads into another world, in both forms. f(World&, const SceneReport&) looks at what came.
template <class F>
void each_form(const World& world, const Protocol& protocol, std::span<const Entity> also, F&& f) {
    for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
        Array<std::byte> file;
        SceneReport report;
        REQUIRE(save_scene(world, protocol, file, report, {.form = form, .also = also}) == Error::none);
        World other;
        REQUIRE(load_scene(other, protocol, {file.data(), file.size()}, report) == Error::none);
        f(other, report);
    }
}
} // namespace

// Registered components only, of what the server replicates and of what a client shows.
TEST_CASE("world_serialization/replicated") {
    StateNet net;
    StateNet::Peer& peer = net.join();
    const Entity entity = net.world.spawn(Health{7, true}, Local{3}, Replicated{});
    net.settle();
    const auto check = [](World& other, const SceneReport& report) {
        REQUIRE(report.entities.size() == 1);
        CHECK(other.get<Health>(report.entities[0])->hp == 7);
        CHECK(other.get<Health>(report.entities[0])->angry);
        CHECK_FALSE(other.has<Local>(report.entities[0]));
    };
    each_form(net.world, *net.protocol, {}, check);
    const Entity shown[] = {net.shown(peer, entity)};
    each_form(*peer.world, *net.protocol, shown, check);
}

TEST_CASE("world_serialization/empty") {
    StateNet net;
    net.world.spawn(Replicated{});
    net.world.spawn(Local{1}, Replicated{});
    each_form(net.world, *net.protocol, {}, [](World& other, const SceneReport& report) {
        CHECK(report.components == 0);
        REQUIRE(report.entities.size() == 2);
        CHECK(other.signature(report.entities[0]).count() == 1); // Replicated
        CHECK(other.signature(report.entities[1]).count() == 1);
    });
}

TEST_CASE("world_serialization/not_replicated") {
    StateNet net;
    net.world.spawn(Health{7, true});
    each_form(net.world, *net.protocol, {}, [](World& other, const SceneReport& report) {
        CHECK(report.entities.empty());
        CHECK(other.entity_count() == 0);
    });
}

// Of a server's world and of a client's, and into the world of a server that goes on: clients hear of them.
TEST_CASE("world_serialization/resources") {
    StateNet net = make_net([](Protocol& p) { health(p), weather(p); });
    StateNet::Peer& peer = net.join();
    const Entity storm = net.world.spawn(Health{3, false}, Replicated{});
    net.world.resources().emplace<Weather>(Weather{7, storm});
    net.agree();
    const Entity shown[] = {net.shown(peer, storm), net.shown(peer, net.server.resource_entity())};
    for (const bool of_client : {false, true})
        each_form(of_client ? *peer.world : net.world, *net.protocol, of_client ? shown : std::span<const Entity>(),
                  [](World& other, const SceneReport& report) {
                      REQUIRE(report.entities.size() == 1); // not the one that resources travel with
                      CHECK(report.resources == 1);
                      REQUIRE(other.resources().get<Weather>());
                      CHECK(other.resources().get<Weather>()->wind == 7);
                      CHECK(other.resources().get<Weather>()->storm == report.entities[0]);
                  });
    Array<std::byte> file;
    SceneReport report;
    REQUIRE(save_scene(net.world, *net.protocol, file, report) == Error::none);
    net.world.resources().remove<Weather>();
    net.agree();
    CHECK(wind(peer) == -1);
    REQUIRE(load_scene(net.world, *net.protocol, {file.data(), file.size()}, report) == Error::none);
    net.agree();
    CHECK(wind(peer) == 7);
    CHECK(peer.world->resources().get<Weather>()->storm == net.shown(peer, report.entities[0]));
}

// An entity that is in the output already gets the saved components beside its own; clients hear of it.
TEST_CASE("world_serialization/update_existing") {
    StateNet net;
    StateNet::Peer& peer = net.join();
    const Entity entity = net.world.spawn(Health{1, false}, Speed{2, 0}, Local{5}, Replicated{});
    net.settle();
    World source;
    const Entity saved = source.spawn(Health{9, true}, Replicated{});
    source.add<Link>(saved, Link{saved});
    for (const SceneForm form : {SceneForm::json, SceneForm::binary}) {
        source.mut<Health>(saved)->hp += 1;
        Array<std::byte> file;
        SceneReport report;
        REQUIRE(save_scene(source, *net.protocol, file, report, {.form = form}) == Error::none);
        const Entity existing[] = {entity};
        REQUIRE(load_scene(net.world, *net.protocol, {file.data(), file.size()}, report, {.existing = existing}) == Error::none);
        CHECK(report.extended == 1);
        CHECK(report.entities[0] == entity);
        CHECK(net.world.get<Local>(entity)->value == 5);
        CHECK(net.world.get<Link>(entity)->target == entity);
        net.settle();
        CHECK(net.hp(peer, entity) == source.get<Health>(saved)->hp);
        CHECK(net.value<Speed>(peer, entity)->x == 2);
        CHECK(net.value<Link>(peer, entity)->target == net.shown(peer, entity));
    }
    CHECK(net.world.entity_count() == 1);
}
