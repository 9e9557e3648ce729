#pragma once
// What carries messages. A backend moves byte messages between one server and its clients on three kinds of channel and
// reports connections. Backends guarantee integrity: a message arrives as it was sent or not at all (frames carry a
// checksum). They never interpret a message.
//
// Thread rule: poll and flush are called from one thread. ServerBackend::send and what sends in place may be called from several threads
// at the same time for different clients.
#include "throng/base.hpp"
#include <span>

namespace throng {

enum class Channel : u8 {
    unreliable, // may be lost, doubled or overtaken
    unordered,  // arrives once, in any order
    ordered,    // arrives once, in order
};
inline constexpr u32 channel_count = 3;

enum class [[nodiscard]] SendResult : u8 {
    accepted, // will be handed to the network
    refused,  // a queue limit was reached, the message is too large, or the peer is gone; nothing was kept
};

using Bytes = std::span<const std::byte>;

class ServerBackendSink {
public:
    virtual void on_connect(ClientId client) = 0;
    virtual void on_disconnect(ClientId client) = 0;
    /// `message` is valid during the call only.
    virtual void on_message(ClientId client, Channel channel, Bytes message) = 0;

protected:
    ~ServerBackendSink() = default;
};

class ServerBackend {
public:
    virtual ~ServerBackend() = default;
    /// Delivers what has arrived by `now`, in a deterministic order where the backend is deterministic.
    virtual void poll(TimeUs now, ServerBackendSink& sink) = 0;
    /// The bytes are copied before the call returns.
    virtual SendResult send(ClientId client, Channel channel, Bytes message) = 0;
    /// Room for an unreliable message of up to `bytes` (<= message_bytes_max), to be written in place and sent by send_in_place, before
    /// anything else is sent to that client. Empty where the backend has none to give: use send. Thread rule as for send.
    virtual std::span<std::byte> room_in_place(ClientId /*client*/, u32 /*bytes*/) { return {}; }
    /// Sends the first `bytes` bytes of the room that room_in_place has given last. If refused, the room is gone.
    virtual SendResult send_in_place(ClientId /*client*/, u32 /*bytes*/) { return SendResult::refused; }
    /// Hands what was sent to the network, with `now` as its departure.
    virtual void flush(TimeUs now) = 0;
    /// Closes a connection from the server's side; on_disconnect is not called for it.
    virtual void disconnect(ClientId client) = 0;
    /// Largest message that `send` takes on this channel, in bytes.
    virtual u32 message_bytes_max(Channel channel) const = 0;
    /// Who is behind a connection, by a number of the backend's that does not change while it is open, and that the backend may give to the
    /// same peer again: an account, an address. A Server asks once, in on_connect. A backend that knows none leaves the ClientId.
    virtual u64 network_id(ClientId client) const { return client; }
};

class ClientBackendSink {
public:
    virtual void on_connect() = 0;
    virtual void on_disconnect() = 0;
    virtual void on_message(Channel channel, Bytes message) = 0;

protected:
    ~ClientBackendSink() = default;
};

class ClientBackend {
public:
    virtual ~ClientBackend() = default;
    virtual void poll(TimeUs now, ClientBackendSink& sink) = 0;
    virtual SendResult send(Channel channel, Bytes message) = 0;
    virtual void flush(TimeUs now) = 0;
    virtual u32 message_bytes_max(Channel channel) const = 0;
};

} // namespace throng
