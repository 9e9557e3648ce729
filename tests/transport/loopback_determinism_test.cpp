#include "tests/transport/loopback_support.hpp"
#include <algorithm>
#include <doctest/doctest.h>
#include <thread>

using namespace transport_test;

namespace {

constexpr u32 clients = 16;

LinkConfig stormy() {
    LinkConfig config;
    config.loss_percent = 10;
    config.burst_enter_percent = 2;
    config.burst_leave_percent = 30;
    config.delay_us = 20'000;
    config.jitter_us = 30'000;
    config.reorder_percent = 5;
    config.reorder_extra_us = 60'000;
    config.duplicate_percent = 5;
    config.truncate_percent = 2;
    config.corrupt_percent = 2;
    config.rate_bytes_per_s = 20'000;
    config.queue_bytes_max = 500;
    return config;
}

enum class Order { ascending, descending, two_threads };

/// 40 ticks both ways over stormy links, with a client that leaves and comes back.
struct Run {
    TraceLog trace;
    OutputHash hash;

    explicit Run(u64 seed, Order order = Order::ascending, u32 only_client = ~0u, TraceHook hook = {}) {
        LoopbackConfig config;
        config.seed = seed;
        config.trace = hook.record ? hook : trace.hook();
        LoopbackNetwork network(config);
        for (u32 i = 0; i < clients; ++i)
            network.connect(stormy());
        ServerLog server_log;
        std::vector<ClientLog> logs(clients);
        network.server().poll(0, server_log);
        for (u32 tick = 0; tick < 40; ++tick) {
            const TimeUs now = tick * TimeUs(50'000);
            const auto send = [&](ClientId id) {
                if (only_client != ~0u && id != only_client)
                    return;
                for (u32 m = 0; m < 4; ++m) {
                    std::string text((id * 7 + tick * m) % 300, '-');
                    text += std::to_string(tick);
                    text += std::to_string(m);
                    REQUIRE(network.server().send(id, Channel(m % 3), bytes_of(text)) == SendResult::accepted);
                }
            };
            if (order == Order::ascending) {
                for (ClientId id = 0; id < clients; ++id)
                    send(id);
            } else if (order == Order::descending) {
                for (ClientId id = clients; id > 0; --id)
                    send(id - 1);
            } else {
                std::thread odd([&] {
                    for (ClientId id = 1; id < clients; id += 2)
                        send(id);
                });
                for (ClientId id = 0; id < clients; id += 2)
                    send(id);
                odd.join();
            }
            network.server().flush(now);
            for (ClientId id = 0; id < clients; ++id) {
                network.client(id).poll(now, logs[id]);
                if (only_client == ~0u || id == only_client)
                    REQUIRE(network.client(id).send(Channel(tick % 3), bytes_of(std::to_string(tick))) == SendResult::accepted);
                network.client(id).flush(now);
            }
            network.server().poll(now, server_log);
            if (tick == 20) {
                network.disconnect(3);
                network.server().poll(now, server_log);
                REQUIRE(network.connect(stormy()) == 3);
                network.server().poll(now, server_log);
            }
        }
        CHECK(balanced(network.totals(Direction::down)));
        CHECK(balanced(network.totals(Direction::up)));
        if (only_client == ~0u)
            CHECK(network.totals(Direction::down).rate_dropped > 0);
    }
};

std::vector<std::string> of_client(const std::vector<std::string>& lines, u32 client) {
    std::vector<std::string> result;
    std::string word(1, ' ');
    word.append(std::to_string(client)).append(1, ' ');
    for (const std::string& line : lines)
        if (line.find(word) == line.find(' '))
            result.push_back(line);
    return result;
}

OutputHash hash_of(const std::vector<std::string>& lines) {
    OutputHash hash;
    for (const std::string& line : lines)
        hash.add(0, 0, Channel::ordered, bytes_of(line));
    return hash;
}

} // namespace

TEST_SUITE("transport") {
    TEST_CASE("the same seed gives the same trace, another seed another") {
        const Run a(1);
        const Run b(1);
        CHECK(a.trace.lines.size() > 5000);
        CHECK(a.trace.lines == b.trace.lines);
        const Run c(2);
        CHECK(a.trace.lines != c.trace.lines);
    }

    TEST_CASE("the trace is the same on every compiler") {
        const OutputHash hash = hash_of(Run(1).trace.lines);
        CHECK(hash.low == 13827914062902922010u);
        CHECK(hash.high == 14651803849912789915u);
    }

    TEST_CASE("the order of sends across clients, and threads, change nothing") {
        const Run ascending(5);
        const Run descending(5, Order::descending);
        const Run threads(5, Order::two_threads);
        CHECK(ascending.trace.lines == descending.trace.lines);
        CHECK(ascending.trace.lines == threads.trace.lines);
    }

    TEST_CASE("a link does not depend on what others carry") {
        const Run all(7);
        for (u32 client : {0u, 3u, 11u}) { // 3 reconnects
            const Run alone(7, Order::ascending, client);
            CHECK(of_client(all.trace.lines, client).size() > 300);
            CHECK(of_client(all.trace.lines, client) == of_client(alone.trace.lines, client));
        }
    }

    TEST_CASE("links, directions and connections of a slot have generators of their own") {
        LoopbackNetwork network(LoopbackConfig{});
        LinkConfig lossy;
        lossy.loss_percent = 50;
        const auto pattern = [&](ClientId id, Direction direction) {
            std::string bits;
            ServerLog server_log;
            ClientLog client_log;
            for (u32 i = 0; i < 64; ++i) {
                const u64 before = network.counters(id, direction).lost;
                if (direction == Direction::down) {
                    CHECK(network.server().send(id, Channel::unreliable, bytes_of("m")) == SendResult::accepted);
                    network.server().flush(0);
                } else {
                    CHECK(network.client(id).send(Channel::unreliable, bytes_of("m")) == SendResult::accepted);
                    network.client(id).flush(0);
                }
                bits += network.counters(id, direction).lost > before ? '0' : '1';
            }
            return bits;
        };
        ServerLog log;
        std::vector<std::string> patterns;
        for (u32 i = 0; i < 2; ++i)
            network.connect(lossy);
        network.server().poll(0, log);
        for (ClientId id : {0u, 1u})
            for (Direction direction : {Direction::down, Direction::up})
                patterns.push_back(pattern(id, direction));
        network.disconnect(0);
        network.server().poll(0, log);
        network.connect(lossy);
        network.server().poll(0, log);
        patterns.push_back(pattern(0, Direction::down));
        std::sort(patterns.begin(), patterns.end());
        CHECK(std::unique(patterns.begin(), patterns.end()) == patterns.end());
    }

    TEST_CASE("the output hash covers time, client, channel, order and bytes") {
        const auto digest = [](u64 time, ClientId client, Channel channel, std::string_view a, std::string_view b) {
            OutputHash hash;
            hash.add(time, client, channel, bytes_of(a));
            hash.add(time, client, channel, bytes_of(b));
            return hash;
        };
        const OutputHash base = digest(1, 2, Channel::ordered, "a", "b");
        CHECK(base == digest(1, 2, Channel::ordered, "a", "b"));
        CHECK_FALSE(base == digest(2, 2, Channel::ordered, "a", "b"));
        CHECK_FALSE(base == digest(1, 3, Channel::ordered, "a", "b"));
        CHECK_FALSE(base == digest(1, 2, Channel::unordered, "a", "b"));
        CHECK_FALSE(base == digest(1, 2, Channel::ordered, "b", "a"));
        CHECK_FALSE(base == digest(1, 2, Channel::ordered, "ab", ""));
        CHECK_FALSE(base == OutputHash{});
    }

    TEST_CASE("the hook hashes what the server sends, whatever the links do to it") {
        OutputHash forwards;
        OutputHash backwards;
        OutputHash other_seed;
        const Run a(5, Order::ascending, ~0u, forwards.hook());
        const Run b(5, Order::descending, ~0u, backwards.hook());
        const Run c(6, Order::ascending, ~0u, other_seed.hook());
        CHECK_FALSE(forwards == OutputHash{});
        CHECK(forwards == backwards);
        CHECK(forwards == other_seed); // the same messages, other fates
    }
}
