// Descriptions of links, and raw links that damage what they carry. A description is either refused by name or good: then any
// packets over it leave counters that balance. Bytes: two LinkConfigs as they lie in memory, without their lists, then sizes of packets.
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/fuzz_protocol.hpp"
#include "throng/loopback.hpp"
#include <vector>

throng::u64 throng::fuzz::accepted_count = 0;

namespace {
using namespace throng;
using throng::fuzz::require;

struct Sink final : ServerBackendSink, ClientBackendSink {
    u64 bytes = 0;
    void on_connect(ClientId) override {}
    void on_disconnect(ClientId) override {}
    void on_message(ClientId, Channel, Bytes message) override { look(message); }
    void on_connect() override {}
    void on_disconnect() override {}
    void on_message(Channel, Bytes message) override { look(message); }
    void look(Bytes message) {
        for (const std::byte byte : message)
            bytes += static_cast<u64>(byte) + 1;
    }
};

/// The numbers of a LinkConfig, in the order of its members.
struct Numbers {
    double percents[8];
    u64 rate_bytes_per_s;
    u32 delay_us, jitter_us, reorder_extra_us, queue_bytes_max, packet_overhead_bytes, mtu_bytes;
    u32 script_packet, script_value;
    u32 script_action;
    u32 blackout_from_ms, blackout_until_ms;
    u32 unused;
};

LinkConfig link_of(const Numbers& n, Blackout& blackout, ScriptStep& step) {
    blackout = {n.blackout_from_ms * TimeUs(1000), n.blackout_until_ms * TimeUs(1000)};
    step = {n.script_packet, static_cast<ScriptAction>(n.script_action & 0xff), n.script_value % 100'000};
    LinkConfig link;
    link.loss_percent = n.percents[0];
    link.burst_enter_percent = n.percents[1];
    link.burst_leave_percent = n.percents[2];
    link.burst_loss_percent = n.percents[3];
    link.reorder_percent = n.percents[4];
    link.duplicate_percent = n.percents[5];
    link.truncate_percent = n.percents[6];
    link.corrupt_percent = n.percents[7];
    link.rate_bytes_per_s = n.rate_bytes_per_s;
    link.delay_us = n.delay_us;
    link.jitter_us = n.jitter_us;
    link.reorder_extra_us = n.reorder_extra_us;
    link.queue_bytes_max = n.queue_bytes_max;
    link.packet_overhead_bytes = n.packet_overhead_bytes;
    link.mtu_bytes = n.mtu_bytes;
    link.blackouts = {&blackout, 1};
    link.script = {&step, 1};
    return link;
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const throng::u8* data, std::size_t size_bytes) {
    Numbers numbers[2] = {};
    std::memcpy(numbers, data, size_bytes < sizeof numbers ? size_bytes : sizeof numbers);
    Blackout blackouts[2];
    ScriptStep steps[2];
    const LinkConfig links[2] = {link_of(numbers[0], blackouts[0], steps[0]), link_of(numbers[1], blackouts[1], steps[1])};
    if (invalid_field(links[0]) || invalid_field(links[1]))
        return 0;
    LoopbackNetwork network({.seed = size_bytes, .client_max = 1, .in_flight_messages_max = 64, .raw = (size_bytes & 1) != 0});
    const ClientId id = network.connect(links[0], links[1]);
    Sink sink;
    TimeUs now = 0;
    network.server().poll(now, sink);
    network.client(id).poll(now, sink);
    const std::vector<std::byte> packet(1400, std::byte{0x5a});
    for (std::size_t i = sizeof numbers; i < size_bytes && i < sizeof numbers + 64; ++i) {
        const Bytes message = Bytes(packet).first(std::size_t(data[i]) * 5);
        const Channel channel = static_cast<Channel>(data[i] % 3);
        (void)(data[i] & 128 ? network.server().send(id, channel, message) : network.client(id).send(channel, message));
        network.server().flush(now);
        network.client(id).flush(now);
        now += 10'000;
        network.server().poll(now, sink);
        network.client(id).poll(now, sink);
    }
    for (const Direction direction : {Direction::down, Direction::up}) {
        const LinkCounters c = network.counters(id, direction);
        require(c.sent + c.duplicated + c.retransmitted == c.delivered + c.lost + c.discarded + c.in_flight);
    }
    throng::fuzz::accepted_count += sink.bytes > 0;
    return 0;
}
