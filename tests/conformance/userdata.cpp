// Bytes of the server's that go along with each message of state.
#include "src/registry/message.hpp"
#include "tests/conformance/state_support.hpp"

using namespace throng;
using namespace conformance::state;

namespace {
using Data = std::vector<u8>;
Bytes bytes(const Data& data) { return std::as_bytes(std::span(data)); }

/// What the client is told of userdata, and what it showed of one entity then.
struct Heard {
    explicit Heard(StateNet& n) : net(n), held(n, Reason::counts_packets, config()), peer(held.peer) {}
    ClientConfig config() {
        ClientConfig out;
        out.context = this;
        out.on_userdata = [](void* context, Tick tick, Bytes data) {
            Heard& self = *static_cast<Heard*>(context);
            const auto* const first = reinterpret_cast<const u8*>(data.data());
            self.all.push_back({tick, Data(first, first + data.size()), self.net.hp(self.peer, self.watched)});
        };
        return out;
    }
    struct One {
        Tick tick;
        Data data;
        int hp; // -1: not shown
    };
    StateNet& net;
    std::vector<One> all;
    Entity watched;
    HeldBack held;
    StateNet::Peer& peer;
};
} // namespace

TEST_CASE("userdata/update_message") {
    StateNet net;
    Heard heard(net);
    net.settle();
    REQUIRE(net.server.set_userdata(bytes({1, 2, 3})) == Error::none);
    heard.watched = net.world.spawn(Health{7, false}, Replicated{});
    CHECK(net.step().messages == 1);
    REQUIRE(heard.all.size() == 1);
    CHECK(heard.all[0].data == Data{1, 2, 3});
    CHECK(heard.all[0].tick == net.server.current_tick());
    CHECK(heard.all[0].hp == -1); // told before it is applied
    CHECK(net.hp(heard.peer, heard.watched) == 7);
}

TEST_CASE("userdata/mutate_message") {
    StateNet net;
    Heard heard(net);
    heard.watched = net.world.spawn(Health{7, false}, Replicated{});
    net.settle();
    REQUIRE(heard.all.empty());
    REQUIRE(net.server.set_userdata(bytes({9})) == Error::none);
    net.world.mut<Health>(heard.watched)->hp = 8;
    CHECK(net.step().messages == 1);
    REQUIRE(heard.all.size() == 1);
    CHECK(heard.all[0].data == Data{9});
    CHECK(heard.all[0].hp == 7);
    CHECK(net.hp(heard.peer, heard.watched) == 8);
}

TEST_CASE("userdata/not_cleared_after_sending") {
    StateNet net;
    Heard heard(net);
    heard.watched = net.world.spawn(Health{0, false}, Replicated{});
    net.settle();
    REQUIRE(net.server.set_userdata(bytes({1})) == Error::none);
    for (int hp = 1; hp <= 3; ++hp) {
        net.world.mut<Health>(heard.watched)->hp = hp;
        net.step();
    }
    REQUIRE(net.server.set_userdata(bytes({2, 2})) == Error::none);
    net.world.mut<Health>(heard.watched)->hp = 4;
    net.step();
    REQUIRE(net.server.set_userdata({}) == Error::none);
    net.world.mut<Health>(heard.watched)->hp = 5;
    net.step();
    REQUIRE(heard.all.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(heard.all[i].data == (i < 3 ? Data{1} : Data{2, 2}));
        CHECK(heard.all[i].hp == static_cast<int>(i));
    }
    net.agree();
}

TEST_CASE("userdata/makes_no_messages") {
    StateNet net;
    Heard heard(net);
    net.settle();
    for (u8 i = 0; i < 50; ++i) {
        REQUIRE(net.server.set_userdata(bytes({i, i})) == Error::none);
        const TickReport& report = net.step();
        CHECK(report.messages + report.heartbeats == 0);
    }
    CHECK(heard.all.empty());
}

TEST_CASE("userdata/heartbeats") {
    StateNet net({.heartbeat_ticks = 10});
    Heard heard(net);
    net.settle();
    heard.all.clear();
    REQUIRE(net.server.set_userdata(bytes({5, 6})) == Error::none);
    u64 heartbeats = 0, heartbeat_bytes = 0;
    for (int i = 0; i < 40; ++i) {
        const TickReport& report = net.step();
        CHECK(report.messages == 0);
        heartbeats += report.heartbeats;
        heartbeat_bytes += report.heartbeat_bytes;
    }
    CHECK(heartbeats == 4);
    CHECK(heartbeat_bytes == heartbeats * (8 + 1 + 2));
    REQUIRE(heard.all.size() == heartbeats);
    CHECK(heard.all[0].data == Data{5, 6});
}

TEST_CASE("userdata/fills_no_packet_beyond_its_size") {
    for (const u32 size : {0u, 1u, 100u, 255u}) {
        CAPTURE(size);
        struct Largest {
            std::size_t bytes = 0;
            static void look(void* context, const TraceRecord& record) {
                Largest& self = *static_cast<Largest*>(context);
                if (record.direction == Direction::down && record.channel == Channel::unreliable)
                    self.bytes = std::max(self.bytes, record.message.size());
            }
        } largest;
        StateNet net({.message_bytes_max = 400, .heartbeat_ticks = 0, .compression = Compression::never},
                     {.trace = {&Largest::look, &largest}});
        Heard heard(net);
        REQUIRE(net.server.set_userdata(bytes(Data(size, 7))) == Error::none);
        for (int i = 0; i < 200; ++i)
            heard.watched = net.world.spawn(Health{i, false}, Name{std::string(static_cast<std::size_t>(10 + i % 50), 'n')}, Replicated{});
        net.world.spawn(Name{std::string(1500, 'x')}, Replicated{}); // larger than a packet
        const u64 messages = net.step().messages;
        CHECK(messages > 10); // each has them
        CHECK(heard.all.size() == (size ? messages : 0));
        net.agree();
        CHECK(largest.bytes <= 400);
        CHECK(largest.bytes > 300);
    }
}

TEST_CASE("userdata/size_limit") {
    StateNet net({.message_bytes_max = 200, .heartbeat_ticks = 0});
    Heard heard(net);
    const Data most(71, 1);
    CHECK(net.server.set_userdata(bytes(Data(72, 2))) == Error::too_large); // 128 bytes are for the rest
    CHECK(net.server.set_userdata(bytes(most)) == Error::none);
    CHECK(net.server.set_userdata(bytes(Data(256, 2))) == Error::too_large);
    heard.watched = net.world.spawn(Health{7, false}, Replicated{});
    net.step();
    REQUIRE(heard.all.size() == 1);
    CHECK(heard.all[0].data == most); // what was refused changed nothing
}

TEST_CASE("userdata/malformed_and_repeated") {
    StateNet net;
    const Data data{1, 2};
    std::byte out[header_bytes(255)];
    StateHeader header{.id = 1, .tick = 5, .userdata = bytes(data)};
    const u32 size = write_state_header(out, header);
    CHECK(size == 11);
    StateHeader read;
    REQUIRE(read_state_header({out, size}, read) == Error::none);
    CHECK(read.userdata.size() == 2);
    for (u32 cut = 0; cut < size; ++cut)
        CHECK(read_state_header({out, cut}, read) == Error::truncated);
    out[8] = std::byte{0};
    CHECK(read_state_header({out, size}, read) == Error::bad_value);

    Heard heard(net); // a message that comes twice is applied, and told of, once
    heard.watched = net.world.spawn(Health{7, false}, Replicated{});
    net.network.set_link(heard.peer.id, Direction::down, {.duplicate_percent = 100});
    REQUIRE(net.server.set_userdata(bytes(data)) == Error::none);
    u64 messages = 0;
    for (int hp = 8; hp < 20; ++hp) {
        net.world.mut<Health>(heard.watched)->hp = hp;
        messages += net.step().messages;
    }
    net.steps(5);
    CHECK(messages == 12);
    CHECK(heard.all.size() == 12);
    CHECK(heard.peer.client->stats().duplicates > 0);
}
