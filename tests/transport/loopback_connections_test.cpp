#include "tests/transport/loopback_support.hpp"
#include "throng/assert.hpp"
#include <doctest/doctest.h>
#include <stdexcept>

using namespace transport_test;

namespace {

using Events = std::vector<Event>;

Events poll(LoopbackNetwork& network, TimeUs now) {
    ServerLog log;
    network.server().poll(now, log);
    return log.events;
}

bool accepts(LoopbackNetwork& network, ClientId id) {
    return network.server().send(id, Channel::ordered, bytes_of("m")) == SendResult::accepted;
}

} // namespace

TEST_SUITE("transport") {
    TEST_CASE("slots are dense and reused only after both sides know of the end") {
        LoopbackNetwork network(LoopbackConfig{});
        for (ClientId id = 0; id < 4; ++id)
            CHECK(network.connect() == id);
        CHECK(poll(network, 0) == Events{{Event::connect, 0, {}, {}}, {Event::connect, 1, {}, {}},
                                         {Event::connect, 2, {}, {}}, {Event::connect, 3, {}, {}}});
        CHECK(poll(network, 1).empty());

        network.disconnect(1); // the client leaves
        network.disconnect(1); // no effect
        CHECK_FALSE(network.connected(1));
        CHECK_FALSE(accepts(network, 1));
        CHECK(network.connect() == 4); // the server was not told yet
        CHECK(poll(network, 2) == Events{{Event::disconnect, 1, {}, {}}, {Event::connect, 4, {}, {}}});
        CHECK(network.connect() == 1);
        CHECK(network.connected(1));
        CHECK_FALSE(accepts(network, 1)); // until on_connect
        CHECK(poll(network, 3) == Events{{Event::connect, 1, {}, {}}});
        CHECK(accepts(network, 1));

        network.server().disconnect(2); // the server closes
        CHECK(poll(network, 4).empty());
        CHECK_FALSE(accepts(network, 2));
        CHECK(network.client(2).send(Channel::ordered, bytes_of("m")) == SendResult::refused);
        CHECK(network.connect() == 5); // the client was not told yet
        ClientLog log;
        network.client(2).poll(5, log);
        CHECK(log.connects == 1);
        CHECK(log.disconnects == 1);
        network.client(2).poll(6, log);
        CHECK(log.disconnects == 1);
        CHECK(network.connect() == 2);

        network.server().disconnect(3); // the server closes and the client leaves without a poll
        network.disconnect(3);
        CHECK(network.connect() == 3);
        CHECK(network.slot_count() == 6);
    }

    TEST_CASE("a connection that the server never saw leaves no trace") {
        LoopbackNetwork network(LoopbackConfig{});
        const ClientId id = network.connect();
        CHECK(network.client(id).send(Channel::ordered, bytes_of("m")) == SendResult::accepted);
        network.client(id).flush(0);
        network.disconnect(id);
        CHECK(poll(network, 1).empty());
        CHECK(network.connect() == id);
        CHECK(poll(network, 1) == Events{{Event::connect, id, {}, {}}});
    }

    TEST_CASE("a client that left and is then closed by the server is not reported") {
        LoopbackNetwork network(LoopbackConfig{});
        const ClientId id = network.connect();
        poll(network, 0);
        network.disconnect(id);
        network.server().disconnect(id);
        CHECK(poll(network, 1).empty());
        CHECK(network.connect() == id);
    }

    TEST_CASE("messages sent with the connect come after it, clients in ascending order") {
        LoopbackNetwork network(LoopbackConfig{});
        LinkConfig slow;
        slow.delay_us = 10;
        const ClientId a = network.connect(slow);
        const ClientId b = network.connect();
        for (ClientId id : {b, a}) {
            CHECK(network.client(id).send(Channel::unreliable, bytes_of("1")) == SendResult::accepted);
            CHECK(network.client(id).send(Channel::ordered, bytes_of("2")) == SendResult::accepted);
            network.client(id).flush(100);
        }
        CHECK(poll(network, 110) == Events{{Event::connect, a, {}, {}},
                                           {Event::message, a, Channel::unreliable, "1"},
                                           {Event::message, a, Channel::ordered, "2"},
                                           {Event::connect, b, {}, {}},
                                           {Event::message, b, Channel::unreliable, "1"},
                                           {Event::message, b, Channel::ordered, "2"}});
    }

    TEST_CASE("nothing of an ended connection reaches the next one in its slot") {
        LoopbackConfig config;
        LinkConfig lossy;
        lossy.delay_us = 1000;
        lossy.loss_percent = 30;
        LoopbackNetwork network(config);
        const ClientId id = network.connect(lossy);
        poll(network, 0);
        for (u32 i = 0; i < 30; ++i) {
            for (Channel channel : {Channel::unreliable, Channel::unordered, Channel::ordered}) {
                CHECK(network.server().send(id, channel, bytes_of("old")) == SendResult::accepted);
                CHECK(network.client(id).send(channel, bytes_of("old")) == SendResult::accepted);
            }
            if (i == 20) {
                network.server().flush(1);
                network.client(id).flush(1);
            }
        }
        network.disconnect(id);
        CHECK(network.counters(id, Direction::down).in_flight == 0);
        CHECK(network.counters(id, Direction::down).discarded + network.counters(id, Direction::down).lost > 60);
        CHECK(poll(network, 100'000) == Events{{Event::disconnect, id, {}, {}}});
        REQUIRE(network.connect() == id);
        CHECK(poll(network, 200'000) == Events{{Event::connect, id, {}, {}}});
        CHECK(network.server().send(id, Channel::ordered, bytes_of("new")) == SendResult::accepted);
        CHECK(network.client(id).send(Channel::ordered, bytes_of("new")) == SendResult::accepted);
        network.server().flush(200'000);
        network.client(id).flush(200'000);
        ClientLog log;
        network.client(id).poll(400'000, log);
        CHECK(log.messages == std::vector<std::string>{"new"});
        CHECK(poll(network, 400'000) == Events{{Event::message, id, Channel::ordered, "new"}});
        // Counters start anew; totals keep the past.
        CHECK(network.counters(id, Direction::up).sent == 1);
        CHECK(network.totals(Direction::up).sent == 64);
        CHECK(balanced(network.totals(Direction::up)));
        CHECK(balanced(network.totals(Direction::down)));
    }

    TEST_CASE("a server sink may answer and close while it is told") {
        struct Sink final : ServerBackendSink {
            LoopbackNetwork& network;
            u32 messages = 0;
            explicit Sink(LoopbackNetwork& n) : network(n) {}
            void on_connect(ClientId client) override { CHECK(accepts(network, client)); }
            void on_disconnect(ClientId) override { FAIL("closed by the server itself"); }
            void on_message(ClientId client, Channel, Bytes message) override {
                ++messages;
                CHECK(network.server().send(client, Channel::unreliable, message) == SendResult::accepted);
                if (messages == 2)
                    network.server().disconnect(client);
            }
        };
        LoopbackNetwork network(LoopbackConfig{});
        const ClientId id = network.connect();
        for (u32 i = 0; i < 5; ++i)
            CHECK(network.client(id).send(Channel::ordered, bytes_of("m")) == SendResult::accepted);
        network.client(id).flush(0);
        Sink sink(network);
        network.server().poll(0, sink);
        CHECK(sink.messages == 2);
        CHECK(network.counters(id, Direction::up).discarded == 3);
        network.server().poll(1, sink);
        CHECK(sink.messages == 2);
        ClientLog log;
        network.client(id).poll(1, log);
        CHECK(log.messages.empty());
        CHECK(log.disconnects == 1);
    }

    TEST_CASE("a client sink may leave while it is told, and the slot may be taken at once") {
        struct Sink final : ClientBackendSink {
            LoopbackNetwork& network;
            ClientId id = 0;
            u32 messages = 0;
            explicit Sink(LoopbackNetwork& n) : network(n) {}
            void on_connect() override {}
            void on_disconnect() override { FAIL("left by itself"); }
            void on_message(Channel, Bytes) override {
                ++messages;
                network.disconnect(id);
                network.server().disconnect(id);
                CHECK(network.connect() == id);
            }
        };
        LoopbackNetwork network(LoopbackConfig{});
        Sink sink(network);
        sink.id = network.connect();
        poll(network, 0);
        CHECK(accepts(network, sink.id));
        CHECK(accepts(network, sink.id));
        network.server().flush(0);
        network.client(sink.id).poll(0, sink);
        CHECK(sink.messages == 1);
        CHECK(poll(network, 1) == Events{{Event::connect, sink.id, {}, {}}});
        ClientLog log;
        network.client(sink.id).poll(1, log);
        CHECK(log.connects == 1);
        CHECK(log.messages.empty());
    }

    TEST_CASE("limits that cannot work and too many connections are misuse") {
        const AssertHandler previous =
            set_assert_handler([](const char* expression, const char*, int) { throw std::runtime_error(expression); });
        LoopbackConfig config;
        config.client_max = 2;
        LoopbackNetwork network(config);
        network.connect();
        network.connect();
        CHECK_THROWS(network.connect());
        CHECK_THROWS(network.client(2));
        LinkConfig bad;
        bad.loss_percent = 101;
        CHECK_THROWS(network.set_link(0, Direction::up, bad));
        config.client_max = 0;
        CHECK_THROWS(LoopbackNetwork{config});
        config.client_max = 1;
        config.reliable_bytes_max = (1 << 20) + 1;
        CHECK_THROWS(LoopbackNetwork{config});
        config.reliable_bytes_max = 1 << 20;
        config.ordered.queue_bytes_max = (1 << 20) - 1;
        CHECK_THROWS(LoopbackNetwork{config});
        set_assert_handler(previous);
    }

    TEST_CASE("the largest message of each kind passes") {
        LoopbackConfig config;
        config.reliable_bytes_max = 1 << 20;
        Pair pair(config, LinkConfig{});
        const std::string large(1 << 20, 'L');
        CHECK(pair.send(large, Channel::unordered) == SendResult::accepted);
        CHECK(pair.send(large, Channel::ordered) == SendResult::accepted);
        pair.flush();
        pair.poll();
        REQUIRE(pair.log.messages.size() == 2);
        CHECK(pair.log.messages[0] == large);
        CHECK(pair.log.messages[1] == large);
    }

    TEST_CASE("an idle connection costs less than a kilobyte") {
        LoopbackConfig config;
        config.client_max = 10'000;
        LoopbackNetwork network(config);
        for (u32 i = 0; i < 10'000; ++i)
            network.connect();
        CHECK(network.memory_bytes() < 10'000'000);
        CHECK(network.message_memory_bytes() == 0);
        MESSAGE("bytes per idle connection: ", network.memory_bytes() / 10'000);
    }

    TEST_CASE("everything is given back to the allocator") {
        static std::ptrdiff_t held = 0;
        LoopbackConfig config;
        config.allocator.allocate_fn = [](void*, std::size_t bytes, std::size_t alignment) {
            held += std::ptrdiff_t(bytes);
            return default_allocator().allocate(bytes, alignment);
        };
        config.allocator.free_fn = [](void*, void* memory, std::size_t bytes, std::size_t alignment) {
            held -= std::ptrdiff_t(bytes);
            default_allocator().free(memory, bytes, alignment);
        };
        config.reserve_messages = 100;
        {
            const Blackout windows[] = {{5, 6}};
            const ScriptStep script[] = {{1, ScriptAction::drop, 0}};
            LinkConfig link;
            link.blackouts = windows;
            link.script = script;
            link.delay_us = 10;
            Pair pair(config, link, link);
            pair.network.set_link(pair.id, Direction::down, link);
            pair.stream(50, 1, Channel::ordered);
            CHECK(pair.send("staged") == SendResult::accepted);
            CHECK(held == std::ptrdiff_t(pair.network.memory_bytes()));
        }
        CHECK(held == 0);
    }
}
