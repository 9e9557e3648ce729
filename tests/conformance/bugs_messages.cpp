// Bugs that were reported against other systems, by number (docs/conformance.md): typed messages over long runs and bad links.
#include "tests/conformance/support.hpp"

using namespace conformance;

TEST_CASE("bug/97_reliable_messages_after_very_many_unreliable_ones") {
    Net net;
    auto& peer = net.join();
    i32 round = 0;
    for (const int packets : {32'700, 40'000}) {
        for (int i = 0; i < packets; ++i) {
            CHECK(net.server.send_message(To::all(), Spark{{}, i}) == Error::none);
            CHECK(peer.client->send_message(Stir{i}) == Error::none);
            net.step();
            peer.ear.heard.clear();
            net.ear.heard.clear();
        }
        net.settle();
        peer.ear.heard.clear();
        net.ear.heard.clear();
        CHECK(net.server.send_message(To::all(), Hit{{}, ++round}) == Error::none);
        CHECK(net.server.send_message(To::all(), Chat{{}, std::string(2900, 'x')}) == Error::none); // larger than a packet
        CHECK(peer.client->send_message(Attack{{}, round}) == Error::none);
        net.settle();
        CHECK(peer.ear.values("hit") == Values{round});
        CHECK(peer.ear.count("chat " + std::string(2900, 'x')) == 1);
        CHECK(net.ear.values("attack") == Values{round});
    }
}

TEST_CASE("bug/101_every_packet_twice") {
    MessageWorldOptions options;
    options.link = {.loss_percent = setting().loss_percent,
                    .jitter_us = 200'000,
                    .reorder_percent = 30,
                    .reorder_extra_us = 500'000,
                    .duplicate_percent = 100};
    MessageWorld net(options);
    auto& peer = net.join();
    const Entity e = net.spawn();
    Values expected;
    for (i32 i = 0; i < 1000; ++i) {
        CHECK(net.server.send_message(To::all(), Hit{e, i}) == Error::none);
        CHECK(net.server.send_message(To::all(), Rumour{{}, i}) == Error::none);
        CHECK(peer.client->send_message(Attack{{}, i}) == Error::none);
        net.step();
        expected.push_back(i);
    }
    net.steps(80);
    CHECK(peer.ear.values("hit") == expected);
    CHECK(net.ear.values("attack") == expected);
    Values rumours = peer.ear.values("rumour");
    std::sort(rumours.begin(), rumours.end());
    CHECK(rumours == expected);
    CHECK(peer.client->stats().duplicates > 0);
    CHECK(net.network.counters(peer.id, Direction::down).in_flight == 0);
    CHECK(net.client_errors == 0);
}
