#pragma once
// What the conformance tests share. The program runs them once for each combination of workers and loss (see meson.build): all
// behaviours hold under all of them, unless a test scripts the loss itself.
#include "tests/support/message_world.hpp"
#include "throng/executor.hpp"
#include <doctest/doctest.h>

namespace conformance {
using namespace throng;
using namespace message_test;
using Values = std::vector<i64>;

struct Setting {
    u32 workers = 1;
    double loss_percent = 0;
};
/// Of this run. Set by main.
inline Setting& setting() {
    static Setting chosen;
    return chosen;
}

/// A client's backend that can hold back what comes on the unreliable channel (state), and let it go later.
class Gate final : public ClientBackend, ClientBackendSink {
public:
    explicit Gate(ClientBackend& behind) : behind_(&behind) {}
    bool closed = false;
    bool newest_first = false; // what was held back comes in the opposite order
    /// The same client goes on with another connection.
    void reconnect(ClientBackend& behind) { behind_ = &behind; }

    void poll(TimeUs now, ClientBackendSink& sink) override {
        sink_ = &sink;
        if (!closed) {
            if (newest_first)
                std::reverse(held_.begin(), held_.end());
            for (const auto& message : held_)
                sink.on_message(Channel::unreliable, message);
            held_.clear();
        }
        behind_->poll(now, *this);
    }
    SendResult send(Channel channel, Bytes message) override { return behind_->send(channel, message); }
    void flush(TimeUs now) override { behind_->flush(now); }
    u32 message_bytes_max(Channel channel) const override { return behind_->message_bytes_max(channel); }

private:
    void on_connect() override { sink_->on_connect(); }
    void on_disconnect() override { sink_->on_disconnect(); }
    void on_message(Channel channel, Bytes message) override {
        if (closed && channel == Channel::unreliable)
            held_.emplace_back(message.begin(), message.end());
        else
            sink_->on_message(channel, message);
    }
    ClientBackend* behind_;
    ClientBackendSink* sink_ = nullptr;
    std::vector<std::vector<std::byte>> held_;
};

/// How handlers are given: as an object with an overload for each type, or as plain functions.
enum class Style { object, functions };

template <class T>
MessageHandler plain(Ear& ear) {
    return handler<T>([](void* context, const T& message, const Sender& sender) { static_cast<Ear*>(context)->handle(message, sender); },
                      &ear);
}
inline void hear(Client& client, Ear& ear, Style style) {
    const MessageHandler functions[] = {plain<Hit>(ear),    plain<Shout>(ear), plain<Alarm>(ear), plain<Round>(ear),
                                        plain<Rumour>(ear), plain<Spark>(ear), plain<Chat>(ear)};
    REQUIRE((style == Style::object ? client.set_handlers(client_handlers(ear)) : client.set_handlers(functions)) == Error::none);
}
inline void hear(Server& server, Ear& ear, Style style) {
    const MessageHandler functions[] = {plain<Attack>(ear), plain<Stir>(ear), plain<Chat>(ear)};
    REQUIRE((style == Style::object ? server.set_handlers(server_handlers(ear)) : server.set_handlers(functions)) == Error::none);
}

/// MessageWorld with the workers and links of this run.
struct Net : MessageWorld {
    explicit Net(MessageWorldOptions chosen = {})
        : Net(chosen, setting().workers > 1 ? make_threads_executor(setting().workers) : make_serial_executor()) {}

    /// Long enough for everything that was sent to arrive.
    void settle() { steps(setting().loss_percent > 0 ? 40 : 4); }

private:
    static MessageWorldOptions with_setting(MessageWorldOptions chosen, Executor* executor) {
        chosen.server.executor = executor;
        if (setting().loss_percent > 0)
            chosen.link = {.loss_percent = setting().loss_percent, .delay_us = 20'000, .jitter_us = 10'000};
        return chosen;
    }
    Net(const MessageWorldOptions& chosen, ExecutorHandle executor)
        : MessageWorld(with_setting(chosen, executor.get())), executor_(std::move(executor)) {}
    ExecutorHandle executor_;
};

/// A peer whose state can be held back.
struct Gated {
    explicit Gated(Net& net) : peer(net.connect()), gate(std::make_unique<Gate>(net.network.client(peer.id))) {
        peer.client = std::make_unique<Client>(peer.world, *net.protocol, *gate, net.options.client);
        hear(*peer.client, peer.ear, Style::object);
        net.until([&] { return net.server.joined(peer.id) && peer.client->joined(); });
        net.settle();
    }
    ~Gated() { peer.client.reset(); }
    MessageWorld::Peer& peer;
    std::unique_ptr<Gate> gate;
};

} // namespace conformance
