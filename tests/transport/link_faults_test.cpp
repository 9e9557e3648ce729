#include "tests/transport/loopback_support.hpp"
#include <algorithm>
#include <doctest/doctest.h>
#include <set>

using namespace transport_test;

namespace {

LinkConfig link(auto set) {
    LinkConfig config;
    set(config);
    return config;
}

bool ascending(const std::vector<u32>& numbers) { return std::is_sorted(numbers.begin(), numbers.end()); }

} // namespace

TEST_SUITE("transport") {
    TEST_CASE("a perfect link delivers at the time of departure, in order") {
        Pair pair(LinkConfig{});
        CHECK(pair.send("a") == SendResult::accepted);
        CHECK(pair.send("b", Channel::ordered) == SendResult::accepted);
        CHECK(pair.send("", Channel::unordered) == SendResult::accepted);
        pair.poll();
        CHECK(pair.log.messages.empty()); // not flushed
        pair.flush();
        pair.poll();
        CHECK(pair.log.messages == std::vector<std::string>{"a", "b", ""});
        CHECK(pair.counters().sent == 3);
        CHECK(pair.counters().sent_bytes == 2);
        CHECK(pair.counters().delivered == 3);
        CHECK(pair.counters().in_flight == 0);
    }

    TEST_CASE("delay is exact and time may go on while nothing is sent") {
        Pair pair(link([](LinkConfig& c) { c.delay_us = 30'000; }));
        CHECK(pair.send("a") == SendResult::accepted);
        pair.now = 1'000'000; // idle second
        pair.flush();
        pair.advance(29'999);
        CHECK(pair.log.messages.empty());
        pair.advance(1);
        CHECK(pair.log.messages.size() == 1);
        for (int i = 0; i < 10; ++i)
            pair.advance(3'600'000'000);
        pair.flush();
        CHECK(pair.log.messages.size() == 1);
        CHECK(balanced(pair.counters()));
    }

    TEST_CASE("loss is independent and of the asked rate") {
        Pair pair(link([](LinkConfig& c) { c.loss_percent = 10; }));
        pair.stream(20'000, 1);
        const LinkCounters c = pair.counters();
        CHECK(c.lost == doctest::Approx(2000).epsilon(0.1)); // 4.7 standard deviations
        CHECK(c.delivered + c.lost == 20'000);
        CHECK(pair.log.messages.size() == c.delivered);
        CHECK(ascending(pair.numbers()));
        // Neighbours: after a loss the next is lost as often as any other.
        std::set<u32> arrived;
        for (u32 n : pair.numbers())
            arrived.insert(n);
        u32 pairs = 0;
        for (u32 n = 0; n + 1 < 20'000; ++n)
            pairs += !arrived.contains(n) && !arrived.contains(n + 1);
        CHECK(pairs > 130);
        CHECK(pairs < 270);
    }

    TEST_CASE("loss of 0 and of 100 percent are certain") {
        Pair none(LinkConfig{});
        none.stream(1000, 1);
        CHECK(none.log.messages.size() == 1000);
        Pair all(link([](LinkConfig& c) { c.loss_percent = 100; }));
        all.stream(1000, 1);
        CHECK(all.log.messages.empty());
        CHECK(all.counters().lost == 1000);
    }

    TEST_CASE("bursts lose runs of the asked mean length") {
        Pair pair(link([](LinkConfig& c) {
            c.burst_enter_percent = 1;
            c.burst_leave_percent = 20;
        }));
        pair.stream(50'000, 1);
        const LinkCounters c = pair.counters();
        CHECK(c.burst == c.lost);
        CHECK(double(c.lost) / 50'000 == doctest::Approx(1.0 / 21).epsilon(0.15)); // 0.01 / (0.01 + 0.2)
        u32 runs = 0;
        u32 expected = 0;
        for (u32 n : pair.numbers()) {
            runs += n != expected;
            expected = n + 1;
        }
        CHECK(double(c.lost) / runs == doctest::Approx(5).epsilon(0.15)); // 1 / 0.2
    }

    TEST_CASE("a burst loses only its share") {
        Pair pair(link([](LinkConfig& c) {
            c.burst_enter_percent = 100;
            c.burst_leave_percent = 0;
            c.burst_loss_percent = 30;
        }));
        pair.stream(10'000, 1);
        CHECK(pair.counters().burst == doctest::Approx(3000).epsilon(0.06));
    }

    TEST_CASE("jitter stays in its range and covers it") {
        Pair pair(link([](LinkConfig& c) {
            c.delay_us = 1000;
            c.jitter_us = 9;
        }));
        std::vector<u32> at(20);
        for (u32 i = 0; i < 2000; ++i) {
            CHECK(pair.send("m") == SendResult::accepted);
            pair.flush();
            pair.advance(999);
            REQUIRE(pair.log.messages.size() == i);
            u32 extra = 0;
            for (; pair.log.messages.size() == i; ++extra)
                pair.advance(1);
            ++at[extra - 1];
        }
        for (u32 us = 0; us < 10; ++us)
            CHECK(at[us] > 130); // 200 expected
        for (u32 us = 10; us < 20; ++us)
            CHECK(at[us] == 0);
    }

    TEST_CASE("jitter larger than the spacing reorders; equal arrivals keep the send order") {
        Pair pair(link([](LinkConfig& c) { c.jitter_us = 5; }));
        pair.stream(1000, 1);
        pair.advance(10);
        std::vector<u32> numbers = pair.numbers();
        CHECK_FALSE(ascending(numbers));
        std::sort(numbers.begin(), numbers.end());
        for (u32 n = 0; n < 1000; ++n)
            REQUIRE(numbers[n] == n);
        Pair together(link([](LinkConfig& c) { c.delay_us = 7; }));
        together.stream(1000, 0);
        together.advance(7);
        CHECK(together.numbers().size() == 1000);
        CHECK(ascending(together.numbers()));
    }

    TEST_CASE("reorder holds back the picked packets by the extra delay") {
        Pair pair(link([](LinkConfig& c) {
            c.reorder_percent = 5;
            c.reorder_extra_us = 25; // two and a half packets
        }));
        pair.stream(10'000, 10);
        pair.advance(25);
        CHECK(pair.counters().reordered == doctest::Approx(500).epsilon(0.15));
        CHECK(pair.counters().delivered == 10'000);
        u32 late = 0;
        u32 newest = 0;
        for (u32 n : pair.numbers()) {
            if (n < newest) {
                ++late;
                REQUIRE(newest - n <= 2);
            }
            newest = std::max(newest, n);
        }
        CHECK(late > 400);
        CHECK(late <= pair.counters().reordered);
    }

    TEST_CASE("duplication delivers some messages twice") {
        Pair pair(link([](LinkConfig& c) { c.duplicate_percent = 20; }));
        pair.stream(5000, 1);
        const LinkCounters c = pair.counters();
        CHECK(c.duplicated == doctest::Approx(1000).epsilon(0.12));
        CHECK(c.delivered == 5000 + c.duplicated);
        CHECK(balanced(c));
        std::vector<u32> numbers = pair.numbers();
        CHECK(std::set<u32>(numbers.begin(), numbers.end()).size() == 5000);
    }

    TEST_CASE("the rate limit spaces packets out, and a full queue drops the tail") {
        LinkConfig config;
        config.rate_bytes_per_s = 100'000; // 100 bytes a millisecond
        config.packet_overhead_bytes = 0;
        config.queue_bytes_max = 500;
        Pair pair(config);
        for (u32 i = 0; i < 10; ++i)
            CHECK(pair.send(std::string(100, char('0' + i))) == SendResult::accepted);
        pair.flush();
        for (u32 ms = 1; ms <= 5; ++ms) {
            pair.advance(999);
            CHECK(pair.log.messages.size() == ms - 1);
            pair.advance(1);
            CHECK(pair.log.messages.size() == ms);
        }
        pair.advance(100'000);
        CHECK(pair.log.messages.size() == 5);
        CHECK(pair.log.messages.back()[0] == '4'); // the tail is what was dropped
        CHECK(pair.counters().rate_dropped == 5);
        CHECK(pair.counters().lost == 5);
        // The queue is empty again.
        CHECK(pair.send(std::string(100, 'z')) == SendResult::accepted);
        pair.flush();
        pair.advance(1000);
        CHECK(pair.log.messages.size() == 6);
    }

    TEST_CASE("the rate counts the overhead of each packet, and fine rates do not drift") {
        LinkConfig config;
        config.rate_bytes_per_s = 3'000'000'000; // a packet takes a third of a nanosecond per byte
        config.queue_bytes_max = 1 << 30;
        config.packet_overhead_bytes = 290;
        Pair pair(config);
        for (u32 i = 0; i < 200; ++i)
            CHECK(pair.send(std::string(10, 'x')) == SendResult::accepted);
        pair.flush(); // 200 * 300 bytes = 20 us
        pair.advance(19);
        CHECK(pair.log.messages.size() == 190);
        pair.advance(1);
        CHECK(pair.log.messages.size() == 200);
    }

    TEST_CASE("a blackout loses exactly what leaves inside its window") {
        const Blackout windows[] = {{100, 200}, {300, 301}};
        LinkConfig config;
        config.blackouts = windows;
        config.delay_us = 1000; // the time of departure counts, not of arrival
        Pair pair(config);
        pair.stream(40, 10);
        pair.advance(2000);
        std::vector<u32> expected;
        for (u32 n = 0; n < 40; ++n)
            if (!(n >= 10 && n < 20) && n != 30)
                expected.push_back(n);
        CHECK(pair.numbers() == expected);
        CHECK(pair.counters().blacked_out == 11);
        CHECK(pair.counters().lost == 11);
    }

    TEST_CASE("a script decides the fate of single packets") {
        const ScriptStep script[] = {
            {7, ScriptAction::duplicate, 25}, {2, ScriptAction::drop, 0}, {4, ScriptAction::delay, 15},   {5, ScriptAction::corrupt, 0},
            {6, ScriptAction::truncate, 3},   {9, ScriptAction::drop, 0}, {7, ScriptAction::duplicate, 0}, {8, ScriptAction::truncate, 8},
        };
        LinkConfig config;
        config.script = script;
        Pair pair(config);
        pair.stream(12, 10);
        pair.advance(100);
        CHECK(pair.numbers() == std::vector<u32>{0, 1, 3, 4, 7, 7, 8, 7, 10, 11});
        const LinkCounters c = pair.counters();
        CHECK(c.lost == 4);
        CHECK(c.corrupted == 1);
        CHECK(c.truncated == 1); // packet 8 has no more than 8 bytes
        CHECK(c.duplicated == 2);
        CHECK(balanced(c));
    }

    TEST_CASE("a scripted delay lets later packets pass") {
        const ScriptStep script[] = {{1, ScriptAction::delay, 25}};
        LinkConfig config;
        config.script = script;
        Pair pair(config);
        pair.stream(6, 10);
        CHECK(pair.numbers() == std::vector<u32>{0, 2, 3, 1, 4, 5});
    }

    TEST_CASE("damaged frames count as lost") {
        Pair pair(link([](LinkConfig& c) {
            c.truncate_percent = 10;
            c.corrupt_percent = 10;
        }));
        pair.stream(10'000, 1, Channel::unreliable, 40);
        const LinkCounters c = pair.counters();
        CHECK(c.truncated == doctest::Approx(1000).epsilon(0.12));
        CHECK(c.corrupted == doctest::Approx(1000).epsilon(0.12));
        CHECK(c.lost == doctest::Approx(1900).epsilon(0.08));
        CHECK(c.delivered + c.lost == 10'000);
        for (const std::string& text : pair.log.messages) {
            REQUIRE(text.size() == 40);
            REQUIRE(text.substr(4) == std::string(36, 'x'));
        }
        // An empty message is a frame too.
        Pair empty(link([](LinkConfig& c2) { c2.corrupt_percent = 100; }));
        CHECK(empty.send("") == SendResult::accepted);
        empty.flush();
        empty.poll();
        CHECK(empty.log.messages.empty());
        CHECK(empty.counters().lost == 1);
    }

    TEST_CASE("raw mode delivers damaged frames as they are") {
        LoopbackConfig network;
        network.raw = true;
        SUBCASE("corrupted") {
            Pair pair(network, link([](LinkConfig& c) { c.corrupt_percent = 100; }));
            for (u32 i = 0; i < 500; ++i)
                CHECK(pair.send(std::string(1 + i % 50, 'x'), Channel(i % 3)) == SendResult::accepted);
            pair.flush();
            pair.poll();
            REQUIRE(pair.log.messages.size() == 500);
            for (u32 i = 0; i < 500; ++i) {
                REQUIRE(pair.log.messages[i].size() == 1 + i % 50);
                REQUIRE(pair.log.messages[i] != std::string(1 + i % 50, 'x'));
            }
            CHECK(pair.counters().corrupted == 500);
            CHECK(pair.counters().lost == 0);
        }
        SUBCASE("truncated") {
            Pair pair(network, link([](LinkConfig& c) { c.truncate_percent = 100; }));
            pair.stream(500, 1, Channel::unreliable, 40);
            REQUIRE(pair.log.messages.size() == 500);
            std::set<std::size_t> sizes;
            for (const std::string& text : pair.log.messages)
                sizes.insert(text.size());
            CHECK(*sizes.rbegin() == 39); // every cut, none whole
            CHECK(*sizes.begin() == 0);
            CHECK(sizes.size() == 40);
            CHECK(pair.counters().truncated == 500);
        }
        CHECK(network.raw);
    }

    TEST_CASE("a message beyond the MTU of the link is refused at send") {
        LoopbackConfig network;
        LinkConfig config;
        config.mtu_bytes = 600;
        Pair pair(network, config, config);
        CHECK(pair.send(std::string(601, 'x')) == SendResult::refused);
        CHECK(pair.send(std::string(600, 'x')) == SendResult::accepted);
        CHECK(pair.send(std::string(601, 'x'), Channel::ordered) == SendResult::accepted); // reliable kinds are cut up
        CHECK(pair.network.server().message_bytes_max(Channel::unreliable) == 1200);
        CHECK(pair.network.client(pair.id).message_bytes_max(Channel::unreliable) == 600);
        CHECK(pair.network.client(pair.id).message_bytes_max(Channel::ordered) == 65'536);
        CHECK(pair.counters().refused == 1);
        config.mtu_bytes = 0; // the network's own limit stays
        pair.network.set_link(pair.id, Direction::down, config);
        CHECK(pair.send(std::string(1200, 'x')) == SendResult::accepted);
        CHECK(pair.send(std::string(1201, 'x')) == SendResult::refused);
        CHECK(pair.send(std::string(65'536, 'x'), Channel::unordered) == SendResult::accepted);
        CHECK(pair.send(std::string(65'537, 'x'), Channel::unordered) == SendResult::refused);
        pair.flush();
        pair.poll();
        CHECK(pair.log.messages.size() == 4);
    }

    TEST_CASE("too many in flight: the newest are lost") {
        LoopbackConfig network;
        network.in_flight_messages_max = 10;
        Pair pair(network, link([](LinkConfig& c) {
            c.delay_us = 1000;
            c.duplicate_percent = 100;
        }));
        for (u32 i = 0; i < 20; ++i)
            CHECK(pair.send(std::to_string(i)) == SendResult::accepted);
        pair.flush();
        CHECK(pair.counters().in_flight == 10);
        pair.advance(1000);
        CHECK(pair.log.messages == std::vector<std::string>{"0", "0", "1", "1", "2", "2", "3", "3", "4", "4"});
        CHECK(pair.counters().overflowed == 15);
        CHECK(balanced(pair.counters()));
    }

    TEST_CASE("set_link changes what departs from then on") {
        Pair pair(LinkConfig{});
        pair.stream(10, 1);
        pair.network.set_link(pair.id, Direction::down, link([](LinkConfig& c) { c.loss_percent = 100; }));
        pair.stream(10, 1);
        pair.network.set_link(pair.id, Direction::down, link([](LinkConfig& c) { c.delay_us = 5; }));
        pair.stream(10, 1);
        pair.network.set_link(pair.id, Direction::down, LinkConfig{});
        CHECK(pair.counters().in_flight == 4);
        pair.advance(5);
        CHECK(pair.counters().delivered == 20);
        CHECK(pair.counters().lost == 10);
    }

    TEST_CASE("a fault does not move the randomness of another") {
        const auto lost = [](LinkConfig config) {
            config.loss_percent = 10;
            Pair pair(config);
            pair.stream(500, 100);
            pair.advance(10'000);
            std::vector<u32> numbers = pair.numbers();
            std::sort(numbers.begin(), numbers.end());
            numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
            return numbers;
        };
        LinkConfig other;
        other.jitter_us = 1000;
        other.duplicate_percent = 10;
        other.reorder_percent = 10;
        other.reorder_extra_us = 300;
        CHECK(lost(LinkConfig{}) == lost(other));
    }

    TEST_CASE("configurations are checked by name") {
        CHECK(invalid_field(LinkConfig{}) == nullptr);
        CHECK(invalid_field(link([](LinkConfig& c) { c.loss_percent = 100.1; })) == std::string("loss_percent"));
        CHECK(invalid_field(link([](LinkConfig& c) { c.corrupt_percent = -1; })) == std::string("corrupt_percent"));
        CHECK(invalid_field(link([](LinkConfig& c) { c.burst_leave_percent = 0.0 / 0.0; })) == std::string("burst_leave_percent"));
        CHECK(invalid_field(link([](LinkConfig& c) { c.jitter_us = 3'600'000'001u; })) == std::string("jitter_us"));
        CHECK(invalid_field(link([](LinkConfig& c) { c.rate_bytes_per_s = 999; })) == std::string("rate_bytes_per_s"));
        const Blackout backwards[] = {{2, 1}};
        CHECK(invalid_field(link([&](LinkConfig& c) { c.blackouts = backwards; })) == std::string("blackouts"));
    }
}
