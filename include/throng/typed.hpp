#pragma once
// Typed messages as the game sees them: who gets one, who sent it, and what is called when one arrives. Messages are registered with
// Protocol::message; Server::send_message, Client::send_message and Messenger send them.
//
//     struct Game {
//         void handle(const Attack& attack, const throng::Sender& sender);
//         void handle(const Chat& chat, const throng::Sender& sender);
//     };
//     server.set_handlers(throng::handlers<Attack, Chat>(game)); // does not compile while one of the two is missing
#include "throng/protocol.hpp"
#include <initializer_list>

namespace throng {

/// The player at the server's own machine (listen server) or without any (single player), as the target of a message.
inline constexpr ClientId local_player = 0xffffffff;

/// Who gets a message from the server. A value for the call only: it refers to the list of all_except.
struct To {
    enum class Kind : u8 { client, all, all_except, layers, group, observers };
    Kind kind = Kind::all;
    ClientId id = 0;
    GroupId group_id = 0;
    Entity entity;
    std::span<const ClientId> except;
    u64 any_of = 0;

    static To client(ClientId client) { return {Kind::client, client, 0, {}, {}, 0}; }
    static To all() { return {}; }
    static To all_except(std::span<const ClientId> clients) { return {Kind::all_except, 0, 0, {}, clients, 0}; }
    static To all_except(const ClientId& client) { return all_except(std::span(&client, 1)); }
    /// Those that are on one of these layers at the next tick: View::set_layers.
    static To layers(u64 any_of) { return {Kind::layers, 0, 0, {}, {}, any_of}; }
    /// The members at the next tick.
    static To group(GroupId group) { return {Kind::group, 0, group, {}, {}, 0}; }
    /// Every client that sees the entity at the next tick; if it has ended by then (Server::end_replication too), those that saw
    /// it at the tick before.
    static To observers(Entity entity) { return {Kind::observers, 0, 0, entity, {}, 0}; }
};

/// Where a message comes from.
struct Sender {
    enum class Origin : u8 {
        server, // heard by a client
        client, // heard by a server, from `client`
        local,  // from this process: a message of the local player, or to it
    };
    Origin origin = Origin::server;
    ClientId client = local_player;
    bool is_local() const { return origin == Origin::local; }
};

/// One type's handler. Made by handler() and handlers().
struct MessageHandler {
    u16 type = 0;
    void* context = nullptr;
    void (*fn)() = nullptr; // of a type that `call` knows
    void (*call)(const MessageHandler& handler, const void* message, const Sender& sender) = nullptr;
};

/// A plain function for one type.
template <class T>
MessageHandler handler(void (*fn)(void* context, const T& message, const Sender& sender), void* context = nullptr) {
    return {message_type_id<T>(), context, reinterpret_cast<void (*)()>(fn), [](const MessageHandler& h, const void* m, const Sender& s) {
                reinterpret_cast<void (*)(void*, const T&, const Sender&)>(h.fn)(h.context, *static_cast<const T*>(m), s);
            }};
}

/// Whether an object can take messages of type T.
template <class Object, class T>
concept Handles = requires(Object& object, const T& message, const Sender& sender) {
    object.handle(message, sender);
};

namespace detail {
/// One type at a time, so that the compiler names it.
template <class Object, class T>
constexpr void require_handler() {
    static_assert(Handles<Object, T>, "handle(const T&, const Sender&) is missing for this message type");
}
} // namespace detail

/// The handlers of several types: `object` has an overload handle(const T&, const Sender&) for each of Ts, or this does not compile.
/// The object outlives their use.
template <class... Ts, class Object>
    requires(sizeof...(Ts) > 0)
auto handlers(Object& object) {
    (detail::require_handler<Object, Ts>(), ...);
    struct List {
        MessageHandler list[sizeof...(Ts)];
        operator std::span<const MessageHandler>() const { return list; }
    };
    return List{{MessageHandler{message_type_id<Ts>(), &object, nullptr, [](const MessageHandler& h, const void* m, const Sender& s) {
                                    static_cast<Object*>(h.context)->handle(*static_cast<const Ts*>(m), s);
                                }}...}};
}

/// The same for a list that has a name. With Protocol::message_lists of the same list no registered message is without a handler.
template <class... Ts, class Object>
auto handlers(Object& object, MessageList<Ts...>) {
    return handlers<Ts...>(object);
}

} // namespace throng
