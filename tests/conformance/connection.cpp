// Who may take part. See also protocol.cpp.
#include "tests/conformance/state_support.hpp"

using namespace throng;
using namespace conformance::state;

TEST_CASE("connection/protocol_mismatch") {
    StateNet net;
    net.world.spawn(Health{7, false}, Replicated{});
    Protocol other;
    other.component<Health>("health").field(&Health::hp, Range{0, 9, 1}); // an integer at the server
    REQUIRE(other.finish() == Error::none);
    auto& peer = net.meet();
    peer.left = true; // it is stepped here
    Client client(*peer.world, other, net.network.client(peer.id));
    int refusals = 0;
    for (int i = 0; i < 300 && (refusals == 0 || client.connected()); ++i) {
        net.step();
        const bool before = client.problem()[0] != 0;
        (void)client.receive(net.now_us);
        (void)client.send(net.now_us);
        refusals += !before && client.problem()[0] != 0;
        CHECK_FALSE(net.server.joined(peer.id));
    }
    CHECK(refusals == 1);
    CHECK(std::string(client.problem()) == "component \"health\", field \"0\": another kind or type");
    CHECK_FALSE(client.joined());
    CHECK_FALSE(client.connected());
    CHECK(peer.world->entity_count() == 0);
}
