// Messages that the server writes into the backend's memory.
#include "tests/transport/loopback_support.hpp"
#include <algorithm>
#include <doctest/doctest.h>

namespace {

using namespace transport_test;

/// Writes `text` in place, in a room of `room_bytes`. Empty rooms give `refused`.
SendResult send_in_place(Pair& pair, std::string_view text, u32 room_bytes) {
    const std::span<std::byte> room = pair.network.server().room_in_place(pair.id, room_bytes);
    if (room.empty())
        return SendResult::refused;
    CHECK(room.size() == room_bytes);
    std::fill(room.begin(), room.end(), std::byte{0xee}); // all of it may be written to
    std::memcpy(room.data(), text.data(), text.size());
    return pair.network.server().send_in_place(pair.id, static_cast<u32>(text.size()));
}

TEST_SUITE("transport") {
    TEST_CASE("messages written in place arrive among those that are copied, in order") {
        Pair pair{LinkConfig{}};
        std::vector<std::string> sent;
        for (u32 i = 0; i < 60; ++i) { // more than a sheet holds
            sent.push_back(std::to_string(i));
            sent.back().append(i * 17 % 1100, static_cast<char>('a' + i % 26));
            CHECK((i % 3 == 1 ? pair.send(sent.back()) : send_in_place(pair, sent.back(), 1200)) == SendResult::accepted);
        }
        pair.flush();
        pair.advance(1);
        CHECK(pair.log.messages == sent);
    }

    TEST_CASE("a room that was not sent leaves nothing behind") {
        Pair pair{LinkConfig{}};
        CHECK(!pair.network.server().room_in_place(pair.id, 1200).empty());
        pair.flush();
        pair.advance(1);
        CHECK(pair.log.messages.empty());
        CHECK(send_in_place(pair, "kept", 100) == SendResult::accepted);
        CHECK(!pair.network.server().room_in_place(pair.id, 1200).empty()); // taken again by the next send
        CHECK(pair.send("copied") == SendResult::accepted);
        pair.flush();
        pair.advance(1);
        CHECK(pair.log.messages == std::vector<std::string>{"kept", "copied"});
    }

    TEST_CASE("in place, the queue's limits hold as for a copy") {
        LoopbackConfig config;
        config.unreliable.queue_messages_max = 2;
        config.unreliable.queue_bytes_max = 1200;
        Pair pair(config, LinkConfig{});
        CHECK(send_in_place(pair, std::string(600, 'x'), 1200) == SendResult::accepted); // what is sent counts, not the room
        CHECK(send_in_place(pair, std::string(601, 'x'), 1200) == SendResult::refused);
        CHECK(send_in_place(pair, std::string(600, 'x'), 1200) == SendResult::accepted);
        CHECK(send_in_place(pair, "", 1200) == SendResult::refused);
        pair.flush();
        CHECK(send_in_place(pair, "next", 1200) == SendResult::accepted);
        pair.flush();
        pair.advance(1);
        CHECK(pair.log.messages.size() == 3);
        CHECK(pair.network.counters(pair.id, Direction::down).refused == 2);
    }

    TEST_CASE("there is no room beyond the MTU of the link, nor for a client that is gone") {
        Pair pair(LinkConfig{.mtu_bytes = 600});
        CHECK(pair.network.server().room_in_place(pair.id, 601).empty());
        CHECK(pair.network.server().room_in_place(pair.id, 600).size() == 600);
        pair.network.server().disconnect(pair.id);
        CHECK(pair.network.server().room_in_place(pair.id, 100).empty());
    }
}

} // namespace
