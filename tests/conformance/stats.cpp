// What both sides count.
#include "tests/conformance/state_support.hpp"

using namespace throng;
using namespace conformance::state;

TEST_CASE("stats/client_stats") {
    StateNet net;
    HeldBack held(net, Reason::counts_packets);
    auto& peer = held.peer;
    const u64 bytes = net.network.counters(peer.id, Direction::down).sent_bytes; // the welcome
    CHECK(peer.client->report().messages == 0);
    const Entity e = net.world.spawn(Health{1, false}, Replicated{});
    net.settle();
    net.world.mut<Health>(e)->hp = 2;
    net.settle();
    ReceivedReport report = peer.client->report();
    CHECK(report.entities == 1);
    CHECK(report.components == 1);
    CHECK(report.entities_changed == 2);
    CHECK(report.components_changed == 2);
    CHECK(report.despawns == 0);
    net.world.destroy(e);
    net.settle();
    report = peer.client->report();
    CHECK(report.entities == 0);
    CHECK(report.components == 0);
    CHECK(report.entities_changed == 2);
    CHECK(report.components_changed == 2);
    CHECK(report.mappings == 1);
    CHECK(report.despawns == 1);
    CHECK(report.messages == 3);
    CHECK(report.bytes == net.network.counters(peer.id, Direction::down).sent_bytes - bytes);

    const auto is_empty = [&] {
        const ReceivedReport now = peer.client->report();
        const ReceivedComponent health = peer.client->component_report<Health>();
        return now.messages == 0 && now.bytes == 0 && now.entities_changed == 0 && now.components_changed == 0 && now.mappings == 0 &&
               now.despawns == 0 && health.inserts == 0 && health.writes == 0;
    };
    const Entity left = net.world.spawn(Health{3, false}, Replicated{});
    net.settle();
    CHECK_FALSE(is_empty());
    net.server.disconnect(peer.id);
    REQUIRE(peer.client->receive(net.now_us) == Error::none);
    net.server_step();
    CHECK(is_empty());
    CHECK(peer.client->report().entities == 1); // it stays until the next welcome
    net.world.destroy(left);
    peer.id = net.network.connect({}, {});
    held.gate.reconnect(net.network.client(peer.id));
    REQUIRE(net.until([&] { return net.server.joined(peer.id) && peer.client->joined(); }));
    net.settle();
    CHECK(is_empty()); // what the welcome took away included
    CHECK(peer.client->report().entities == 0);
}

TEST_CASE("stats/of_a_component") {
    StateNet net;
    HeldBack held(net, Reason::counts_packets);
    const Entity e = net.world.spawn(Health{1, false}, Name{"abc"}, Replicated{});
    net.world.spawn(Health{2, false}, Replicated{});
    held.peer.world->spawn(Health{3, false}); // the client's own
    net.settle();
    net.world.mut<Health>(e)->hp = 5;
    net.world.mut<Name>(e)->text = "defgh";
    net.settle();
    net.world.mut<Health>(e)->hp = 5; // as it was
    net.settle();
    net.world.remove<Name>(e);
    net.settle();
    const ReceivedComponent health = held.peer.client->component_report<Health>();
    CHECK(std::string(health.name) == "health");
    CHECK(health.entities == 2);
    CHECK(health.inserts == 2);
    CHECK(health.writes == 3);
    CHECK(health.removes == 0);
    CHECK(health.opaque_bytes == 0);
    const ReceivedComponent name = held.peer.client->component_report<Name>();
    CHECK(name.entities == 0);
    CHECK(name.inserts == 1);
    CHECK(name.writes == 2);
    CHECK(name.removes == 1);
    CHECK(name.opaque_bytes == 8);
    CHECK(held.peer.client->component_report<Local>().name == nullptr);
    CHECK(held.peer.client->report().components_changed == health.writes + name.writes);
    const ComponentReport of_server = net.server.component_report<Health>();
    CHECK(of_server.entities == 2);
    CHECK(of_server.held == 2);
}

TEST_CASE("stats/both_sides_agree") {
    StateNet net;
    HeldBack held(net, Reason::counts_packets);
    auto& other = net.join();
    std::vector<Entity> all;
    for (int i = 0; i < 200; ++i)
        all.push_back(net.world.spawn(Health{i, false}, Replicated{}));
    for (u32 tick = 0; tick < 20; ++tick) {
        for (u32 i = tick; i < 200; i += 7)
            net.world.mut<Health>(all[i])->hp += 1;
        net.server.view(held.peer.id).hide(all[tick * 3]);
        net.step();
    }
    net.world.spawn(Lasting{}, Replicated{});
    net.settle();
    const ClientReport sent = net.server.client_report(held.peer.id);
    const ReceivedReport received = held.peer.client->report();
    CHECK(sent.total.lost_messages == 0);
    CHECK(received.messages == sent.total.messages);
    CHECK(received.bytes == sent.total.bytes);
    CHECK(received.entities_changed == sent.total.lanes);
    CHECK(received.entities == sent.visible);
    CHECK(received.entities == sent.current);
    CHECK(received.mappings - received.despawns == received.entities);
    CHECK(sent.total.acked_messages == sent.total.messages);
    const ClientReport to_other = net.server.client_report(other.id); // over the link of this run
    CHECK(other.client->report().messages <= to_other.total.messages);
    CHECK(other.client->report().entities == to_other.current);
}

TEST_CASE("stats/why_an_entity_is_not_there") {
    StateNet net;
    auto& peer = net.join();
    const Hidden hidden(net, peer);
    const Entity open = net.world.spawn(Health{1, false}, Replicated{}), far = net.world.spawn(Place{10, 0}, Replicated{});
    net.settle();
    const auto reason = [&](Entity e) { return net.server.why(e, peer.id).reason; };
    // By view and by layers, with each lifetime; of the last two it has a copy.
    const WhyReason expected[] = {WhyReason::hidden, WhyReason::refused_by_layers, WhyReason::hidden,
                                  WhyReason::refused_by_layers, WhyReason::frozen, WhyReason::frozen};
    for (int i = 0; i < Hidden::unsent + Hidden::sent; ++i) {
        CHECK(reason(hidden.all[i]) == expected[i]);
        CHECK(net.server.why(hidden.all[i], peer.id).held == (net.value<Health>(peer, hidden.all[i]) != nullptr));
    }
    CHECK(net.server.why(hidden.all[4], peer.id).cause == WhyReason::hidden);
    CHECK(net.server.why(hidden.all[5], peer.id).cause == WhyReason::refused_by_layers);
    CHECK(reason(far) == WhyReason::no_view);
    net.server.view(peer.id).look_at(500, 0, {.radius = 60});
    net.settle();
    CHECK(reason(far) == WhyReason::out_of_radius);
    hidden.show(net, peer);
    net.server.view(peer.id).look_at(0, 0, {.radius = 60});
    net.settle();
    for (const Entity e : hidden.all)
        CHECK(reason(e) == WhyReason::current);
    CHECK(reason(far) == WhyReason::current);
    // It is there, and its newest state is not.
    net.script_loss(peer, 100, 0);
    net.world.mut<Health>(open)->hp = 2;
    net.step();
    CHECK(reason(open) == WhyReason::behind);
    CHECK(net.hp(peer, open) == 1);
    net.restore_link(peer);
    net.settle();
    CHECK(reason(open) == WhyReason::current);
    CHECK(net.hp(peer, open) == 2);
    net.world.remove<Replicated>(open);
    net.settle();
    CHECK(reason(open) == WhyReason::current);
    CHECK(net.server.why(open, peer.id).cause == WhyReason::paused);
    CHECK(net.server.end_replication(open));
    net.settle();
    CHECK(reason(open) == WhyReason::not_replicated);
}
