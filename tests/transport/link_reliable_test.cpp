#include "tests/transport/loopback_support.hpp"
#include <algorithm>
#include <doctest/doctest.h>

using namespace transport_test;

namespace {

std::vector<u32> counting(u32 count) {
    std::vector<u32> numbers(count);
    for (u32 n = 0; n < count; ++n)
        numbers[n] = n;
    return numbers;
}

} // namespace

TEST_SUITE("transport") {
    TEST_CASE("reliable messages arrive exactly once under every fault") {
        LinkConfig config;
        config.loss_percent = 50;
        config.burst_enter_percent = 2;
        config.delay_us = 5000;
        config.jitter_us = 3000;
        config.duplicate_percent = 20;
        config.truncate_percent = 5;
        config.corrupt_percent = 5;
        config.reorder_percent = 10;
        config.reorder_extra_us = 9000;
        for (Channel channel : {Channel::unordered, Channel::ordered}) {
            Pair pair(config);
            pair.stream(2000, 1000, channel);
            for (u32 i = 0; i < 2000 && pair.counters().in_flight; ++i)
                pair.advance(1000);
            CHECK(pair.sent == 2000);
            std::vector<u32> numbers = pair.numbers();
            if (channel == Channel::unordered) {
                CHECK_FALSE(std::is_sorted(numbers.begin(), numbers.end()));
                std::sort(numbers.begin(), numbers.end());
            }
            CHECK(numbers == counting(2000));
            CHECK(pair.counters().lost > 1900); // about half of all transmissions
            CHECK(pair.counters().lost == pair.counters().retransmitted);
            CHECK(balanced(pair.counters()));
        }
    }

    TEST_CASE("a loss costs one round trip") {
        const ScriptStep script[] = {{0, ScriptAction::drop, 0}};
        LinkConfig down;
        down.delay_us = 10'000;
        down.script = script;
        LinkConfig up;
        up.delay_us = 20'000;
        Pair pair(LoopbackConfig{}, down, up);
        CHECK(pair.send("a", Channel::unordered) == SendResult::accepted);
        CHECK(pair.send("b", Channel::unordered) == SendResult::accepted);
        CHECK(pair.send("c", Channel::ordered) == SendResult::accepted);
        pair.flush();
        pair.advance(10'000);
        CHECK(pair.log.messages == std::vector<std::string>{"b", "c"}); // unordered may overtake
        pair.advance(29'999);
        CHECK(pair.log.messages.size() == 2);
        pair.advance(1); // lost at 0, departs again at 30 ms
        CHECK(pair.log.messages.back() == "a");
        CHECK(pair.counters().retransmitted == 1);
    }

    TEST_CASE("an ordered message holds back the later ones, and no other channel") {
        const ScriptStep script[] = {{1, ScriptAction::drop, 0}};
        LinkConfig config;
        config.delay_us = 1000;
        config.script = script;
        Pair pair(LoopbackConfig{}, config, config);
        for (const char* text : {"a", "b", "c", "d"})
            CHECK(pair.send(text, Channel::ordered) == SendResult::accepted);
        CHECK(pair.send("u", Channel::unordered) == SendResult::accepted);
        pair.flush();
        pair.advance(2999);
        CHECK(pair.log.messages == std::vector<std::string>{"a", "u"});
        pair.advance(1);
        CHECK(pair.log.messages == std::vector<std::string>{"a", "u", "b", "c", "d"});
    }

    TEST_CASE("a lost message without delay still takes time") {
        LinkConfig config;
        config.loss_percent = 100;
        Pair pair(config);
        CHECK(pair.send("a", Channel::ordered) == SendResult::accepted);
        pair.flush();
        pair.advance(3'000'000'000); // fifty minutes of certain loss end at once
        CHECK(pair.log.messages.empty());
        CHECK(pair.counters().retransmitted < 10);
        pair.network.set_link(pair.id, Direction::down, LinkConfig{});
        pair.advance(loopback_retry_us_min);
        CHECK(pair.log.messages.size() == 1);
    }

    TEST_CASE("reliable messages outlive a blackout, also an endless one that is lifted") {
        const Blackout windows[] = {{1000, 500'000}, {600'000, ~TimeUs(0)}};
        LinkConfig config;
        config.delay_us = 20'000;
        config.blackouts = windows;
        Pair pair(LoopbackConfig{}, config, config);
        pair.now = 2000;
        pair.stream(5, 1000, Channel::ordered);
        pair.now = 500'000;
        pair.poll();
        CHECK(pair.log.messages.empty());
        pair.advance(40'000 + 20'000); // at most one round trip after its end, and the way
        CHECK(pair.numbers() == counting(5));
        pair.now = 700'000;
        pair.stream(5, 1000, Channel::ordered);
        pair.advance(100'000'000);
        CHECK(pair.log.messages.size() == 5);
        config.blackouts = {};
        pair.network.set_link(pair.id, Direction::down, config);
        pair.advance(60'000);
        CHECK(pair.numbers() == counting(10));
        CHECK(balanced(pair.counters()));
    }

    TEST_CASE("reliable messages wait for the rate limit instead of being dropped") {
        LinkConfig config;
        config.rate_bytes_per_s = 100'000;
        config.packet_overhead_bytes = 0;
        config.queue_bytes_max = 200;
        Pair pair(config);
        for (u32 i = 0; i < 10; ++i)
            CHECK(pair.send(std::string(100, char('0' + i)), Channel::ordered) == SendResult::accepted);
        CHECK(pair.send("late") == SendResult::accepted);
        pair.flush();
        pair.advance(9999);
        CHECK(pair.log.messages.size() == 9);
        pair.advance(1);
        CHECK(pair.log.messages.size() == 10);
        CHECK(pair.counters().rate_dropped == 1); // the unreliable one found the line full
    }

    TEST_CASE("queue limits refuse by messages and by bytes, each channel for itself") {
        LoopbackConfig network;
        network.reliable_bytes_max = 1000;
        network.unreliable_bytes_max = 1000;
        network.unreliable = {2500, 4};
        network.unordered = {2500, 4};
        network.ordered = {2500, 4};
        LinkConfig config;
        config.delay_us = 1000;
        for (Channel channel : {Channel::unreliable, Channel::unordered, Channel::ordered}) {
            Pair pair(network, config);
            for (u32 i = 0; i < 4; ++i)
                CHECK(pair.send("m", channel) == SendResult::accepted);
            CHECK(pair.send("m", channel) == SendResult::refused);
            CHECK(pair.send("m", Channel((u32(channel) + 1) % 3)) == SendResult::accepted);
            pair.flush();
            // Unreliable: free once departed. Reliable: free once delivered.
            CHECK(pair.send("n", channel) == (channel == Channel::unreliable ? SendResult::accepted : SendResult::refused));
            pair.advance(1000);
            pair.flush();
            pair.advance(1000);
            CHECK(pair.send(std::string(1000, 'x'), channel) == SendResult::accepted);
            CHECK(pair.send(std::string(1000, 'x'), channel) == SendResult::accepted);
            CHECK(pair.send(std::string(501, 'x'), channel) == SendResult::refused);
            CHECK(pair.send(std::string(500, 'x'), channel) == SendResult::accepted);
            CHECK(pair.send("", channel) == SendResult::accepted);
            CHECK(pair.send("", channel) == SendResult::refused);
            pair.flush();
            pair.advance(1000);
            CHECK(pair.counters().refused == (channel == Channel::unreliable ? 3 : 4));
            CHECK(pair.counters().in_flight == 0);
            // Nothing was kept of what was refused, nothing lost of what was accepted.
            CHECK(pair.counters().delivered == (channel == Channel::unreliable ? 10 : 9));
        }
    }

    TEST_CASE("a cut ordered message gives its whole queue share back in raw mode") {
        LoopbackConfig network;
        network.raw = true;
        network.reliable_bytes_max = 100;
        network.ordered = {100, 10};
        LinkConfig config;
        config.truncate_percent = 100;
        Pair pair(network, config);
        for (u32 i = 0; i < 20; ++i) {
            CHECK(pair.send(std::string(100, 'x'), Channel::ordered) == SendResult::accepted);
            pair.flush();
            pair.poll();
        }
        CHECK(pair.log.messages.size() == 20);
    }
}
