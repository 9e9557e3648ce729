#pragma once
// Typed messages, and changes that are sent as diffs, in any set-up: the same game code runs on a dedicated server, a listen server (whose
// own player has no connection), a client, and in single player without any connection.
//
//     throng::Messenger messages(protocol, {.server = &server, .local_player = true}); // a listen server
//     messages.set_server_handlers(throng::handlers<Attack>(game));                    // what players send
//     messages.set_client_handlers(throng::handlers<Hit, Chat>(screen));               // what players get
//     messages.to_clients(throng::To::all(), Hit{target, 12});
//     messages.to_server(Attack{target});
//     messages.dispatch();                                                             // once a loop
//
// Thread rule: that of the server and client it uses.
#include "throng/client.hpp"
#include "throng/server.hpp"

namespace throng {

struct MessengerConfig {
    Server* server = nullptr;       // dedicated or listen server
    Client* client = nullptr;       // a client; then neither of the others
    bool local_player = false;      // somebody plays in this process without a connection: listen server, single player
    u64 local_layers = ~u64(0); // that the local player is on
    u32 local_bytes_max = 1u << 20; // messages that wait for dispatch(), as objects
    World* world = nullptr;         // single player: the world whose components apply_diff changes; with a server it is the server's
    Allocator allocator = default_allocator();
};

class Messenger {
public:
    /// Protocol (finished), server, client and world outlive it.
    Messenger(const Protocol& protocol, const MessengerConfig& config);
    ~Messenger();
    Messenger(const Messenger&) = delete;
    Messenger& operator=(const Messenger&) = delete;

    /// What handles messages to the server, and messages to clients, wherever that happens to run. bad_value as Server::set_handlers.
    Error set_server_handlers(std::span<const MessageHandler> handlers);
    Error set_client_handlers(std::span<const MessageHandler> handlers);

    /// From a player to the server: over the connection, or to this process's own handlers if the player is local. no_connection: a
    /// client that has not joined, or a process without a player. Else as Client::send_message.
    template <class T>
    Error to_server(const T& message) {
        return send_up(message_type_id<T>(), &message, false);
    }
    /// The same, and the sender hears it too: the server handlers of this process get a copy (Sender::local), for prediction. Where
    /// the player is local there is one copy only.
    template <class T>
    Error shared(const T& message) {
        return send_up(message_type_id<T>(), &message, true);
    }
    /// From the server to players, the local one included where `to` says so: To::client(local_player), all, all_except, layers, a group
    /// that it is in (in single player: any group), observers of any entity. no_connection: a client. limit_reached: local_bytes_max;
    /// the others are sent it all the same. Else as Server::send_message.
    template <class T>
    Error to_clients(const To& to, const T& message) {
        return send_down(to, message_type_id<T>(), &message);
    }
    /// Server::apply_diff in any set-up: with a server it is that, in single player the Op is done to the component, which is marked
    /// changed, with the same errors. no_connection: a client, and nothing changes: what is the server's comes from the server. (What a
    /// client foresees it does by the function that was registered.) bad_value: single player without MessengerConfig::world.
    template <class T, class Op>
    Error apply_diff(Entity entity, const Op& op) {
        return apply_op(component_id<T>(), entity, &detail::op_type<Op>, &op);
    }
    /// The same of Server::apply_resource_diff.
    template <class T, class Op>
    Error apply_resource_diff(const Op& op) {
        return apply_op(component_id<ResourceValue<T>>(), {}, &detail::op_type<Op>, &op);
    }
    /// Calls the handlers of messages that stayed in this process, in the order of sending. What handlers send locally meanwhile comes
    /// with the next call. Returns the number handled. Remote ones are handled in Server::receive and Client::receive.
    u32 dispatch();

private:
    Error send_up(u16 type, const void* message, bool shared);
    Error send_down(const To& to, u16 type, const void* message);
    Error apply_op(ComponentId component, Entity entity, const void* op_type, const void* op);
    struct Impl;
    Impl* impl_;
};

} // namespace throng
