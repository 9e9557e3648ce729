#pragma once
// Shared by the tests of the loopback backend: sinks that write down what they are told, and short ways to send.
#include "throng/loopback.hpp"
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace transport_test {

using namespace throng;

struct Event {
    enum Kind { connect, disconnect, message } kind = message;
    ClientId client = 0;
    Channel channel = Channel::unreliable;
    std::string text;
    friend bool operator==(const Event&, const Event&) = default;
};

struct ServerLog final : ServerBackendSink {
    std::vector<Event> events;
    void on_connect(ClientId client) override { events.push_back({Event::connect, client, {}, {}}); }
    void on_disconnect(ClientId client) override { events.push_back({Event::disconnect, client, {}, {}}); }
    void on_message(ClientId client, Channel channel, Bytes message) override {
        events.push_back({Event::message, client, channel, std::string(reinterpret_cast<const char*>(message.data()), message.size())});
    }
};

struct ClientLog final : ClientBackendSink {
    std::vector<std::string> messages;
    u32 connects = 0;
    u32 disconnects = 0;
    void on_connect() override { ++connects; }
    void on_disconnect() override { ++disconnects; }
    void on_message(Channel, Bytes message) override {
        messages.emplace_back(reinterpret_cast<const char*>(message.data()), message.size());
    }
};

inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

/// One client on a network, already known to the server. Messages go down and carry their number.
struct Pair {
    LoopbackNetwork network;
    ClientId id;
    ClientLog log;
    TimeUs now = 0;
    u32 sent = 0;

    Pair(const LoopbackConfig& config, const LinkConfig& down, const LinkConfig& up = {}) : network(config), id(network.connect(down, up)) {
        ServerLog server_log;
        network.server().poll(0, server_log);
    }
    explicit Pair(const LinkConfig& down) : Pair(LoopbackConfig{}, down) {}

    SendResult send(std::string_view text, Channel channel = Channel::unreliable) {
        return network.server().send(id, channel, bytes_of(text));
    }
    void flush() { network.server().flush(now); }
    void poll() { network.client(id).poll(now, log); }
    void advance(TimeUs us) {
        now += us;
        poll();
    }
    /// `count` messages of `size_bytes` >= 4, one departing every `spacing_us`, polled as they go.
    void stream(u32 count, TimeUs spacing_us, Channel channel = Channel::unreliable, u32 size_bytes = 8) {
        std::string text(size_bytes, 'x');
        for (u32 i = 0; i < count; ++i) {
            std::memcpy(text.data(), &sent, sizeof(sent));
            if (send(text, channel) == SendResult::accepted)
                ++sent;
            flush();
            advance(spacing_us);
        }
    }
    /// The numbers of the messages received, in order.
    std::vector<u32> numbers() const {
        std::vector<u32> result;
        for (const std::string& text : log.messages) {
            u32 number = ~0u;
            if (text.size() >= 4)
                std::memcpy(&number, text.data(), 4);
            result.push_back(number);
        }
        return result;
    }
    LinkCounters counters() const { return network.counters(id, Direction::down); }
};

inline bool balanced(const LinkCounters& c) {
    return c.sent + c.duplicated + c.retransmitted == c.delivered + c.lost + c.discarded + c.in_flight;
}

/// Writes every trace record as a line.
struct TraceLog {
    std::vector<std::string> lines;
    TraceHook hook() {
        return {[](void* context, const TraceRecord& r) {
                    static_cast<TraceLog*>(context)->lines.push_back(
                        std::to_string(r.time_us) + " " + std::to_string(r.client) + (r.direction == Direction::down ? " down " : " up ") +
                        std::to_string(u32(r.channel)) + " " + to_string(r.fate) + " " + std::to_string(r.packet) + " " +
                        std::string(reinterpret_cast<const char*>(r.message.data()), r.message.size()));
                },
                this};
    }
};

} // namespace transport_test
