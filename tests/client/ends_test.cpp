// Messages of ends: which entities are no more, whether they are in a lane or not.
#include "src/registry/message.hpp"
#include "tests/client/fake_server.hpp"
#include <cstring>
#include <doctest/doctest.h>

using namespace client_test;

namespace {

const NetId A = NetId::make(3, 1), B = NetId::make(4, 1), C = NetId::make(5, 1);

std::vector<std::byte> ends(Setup& s, Tick tick, const std::vector<NetId>& ids) {
    StateHeader header;
    header.id = s.server.next_id++;
    header.tick = tick;
    header.ends = true;
    std::vector<std::byte> out(state_header_bytes + ids.size() * sizeof(NetId));
    write_state_header(out.data(), header);
    if (!ids.empty())
        std::memcpy(out.data() + state_header_bytes, ids.data(), ids.size() * sizeof(NetId));
    return out;
}

} // namespace

TEST_SUITE("client") {
    TEST_CASE("ends: those named leave and are acked, others stay") {
        Setup s;
        s.server.world[0][0] = unit(A, 1);
        s.server.world[0][1] = unit(B, 2);
        (void)s.tick(101, {{0, bit(0) | bit(1)}});
        REQUIRE(s.hp(A) == 1);
        CHECK(s.receive(ends(s, 102, {A, C})) == Error::none);
        CHECK_FALSE(s.entity(A));
        CHECK(s.hp(B) == 2);
        CHECK(s.client->stats().despawns == 1);
        CHECK(s.acked(static_cast<u16>(s.server.next_id - 1)));
        CHECK(s.tick(103, {{0, 0, {}, bit(0)}}) == Error::none); // its lane is gone, too
        CHECK(s.client->stats().despawns == 1);
    }

    TEST_CASE("ends: nothing older brings one back, also if the client had never heard of it") {
        Setup s;
        s.server.world[1][0] = unit(A, 1);
        s.server.snapshot(101);
        const auto late = s.server.message(101, {{1, bit(0)}});
        CHECK(s.receive(ends(s, 102, {A})) == Error::none);
        CHECK(s.receive(late) == Error::none);
        CHECK_FALSE(s.entity(A));
        CHECK(s.client->stats().unapplied_tombstone == 1);
        CHECK(s.world.entity_count() == 0);
    }

    TEST_CASE("ends: a message that is cut, empty, or does not ascend does nothing and is not acked") {
        Setup s;
        s.server.world[0][0] = unit(A, 1);
        (void)s.tick(101, {{0, bit(0)}});
        auto cut = ends(s, 102, {A});
        cut.pop_back();
        CHECK(s.receive(cut) == Error::truncated);
        CHECK(s.receive(ends(s, 102, {})) == Error::truncated);
        CHECK(s.receive(ends(s, 102, {B, A})) == Error::bad_value);
        CHECK(s.receive(ends(s, 102, {A, A})) == Error::bad_value);
        CHECK(s.receive(ends(s, 102, {NetId{}, A})) == Error::bad_value);
        CHECK(s.hp(A) == 1);
        CHECK_FALSE(s.acked(static_cast<u16>(s.server.next_id - 1)));
    }

    TEST_CASE("ends: without room to remember them the message is dropped whole, and counted") {
        Setup s(ClientConfig{.entities_max = 2});
        s.server.world[0][0] = unit(A, 1);
        (void)s.tick(101, {{0, bit(0)}});
        CHECK(s.receive(ends(s, 102, {A, B, C})) == Error::limit_reached);
        CHECK(s.hp(A) == 1);
        CHECK(s.client->stats().limit_drops == 1);
        CHECK(s.receive(ends(s, 103, {A, B})) == Error::none);
        CHECK_FALSE(s.entity(A));
    }
}
