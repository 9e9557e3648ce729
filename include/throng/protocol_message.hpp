#pragma once
// Typed messages: plain structs that the game sends, beside the state that is replicated. Registered with Protocol::message; sent
// and received as throng/typed.hpp says.
#include "throng/protocol_field.hpp"
#include "throng/transport.hpp"
#include <new>

namespace throng {

/// Which way a typed message goes.
enum class Route : u8 {
    to_client = 1,
    to_server = 2,
    both = 3,
};

struct MessageOptions {
    Channel channel = Channel::ordered; // ordered: among the messages of its type and of all others on this channel
    Route route = Route::to_client;
    /// Not gated: delivered on arrival, also to a client that has not joined yet; entities that it does not show read as null.
    bool independent = false;
    /// To clients: delivered once the client has heard of state of the tick at which it was sent.
    bool waits_for_tick = false;
    u32 bytes_max = 1024; // of one message on the wire, 1..65536. Sending a larger one is an Error
};

/// One typed message, as registered.
struct MessageInfo : FieldList {
    static constexpr u32 name_bytes_max = 48;
    char name[name_bytes_max] = {};
    u16 type = 0; // message_type_id
    u32 size_bytes = 0, alignment = 1;
    MessageOptions options;
    bool has_rest = false;
    SerializeFn serialize = nullptr; // with has_rest: what comes behind the fields
    DeserializeFn deserialize = nullptr;
    void (*construct)(void* object) = nullptr;
    void (*copy)(void* object, const void* from) = nullptr;
    void (*destroy)(void* object) = nullptr;
};

namespace detail {
template <class T>
inline u16 assigned_message_id = unassigned;
inline const u16* message_types[type_numbers_max] = {};
} // namespace detail

/// Number of a message type in this process, from 0 in order of first use. Never on the wire: there, a message is known by its place
/// in the order of registration. Any thread.
template <class T>
u16 message_type_id() {
    static_assert(std::is_same_v<T, std::remove_cv_t<std::remove_reference_t<T>>>, "a message type has no const, volatile or reference");
    u16 id = __atomic_load_n(&detail::assigned_message_id<T>, __ATOMIC_RELAXED);
    if (id == detail::unassigned) [[unlikely]]
        id = detail::assign_type_number(detail::assigned_message_id<T>, detail::message_types, detail::type_numbers_max);
    return id;
}

/// Types of messages, named in one place: what a game registers for one way, and what it has handlers for.
template <class... Ts>
struct MessageList {
    struct Types {
        u16 list[sizeof...(Ts) + 1]; // and one beyond, so that a list may be empty
        operator std::span<const u16>() const { return {list, sizeof...(Ts)}; }
    };
    static Types types() { return {{message_type_id<Ts>()..., 0}}; }
};

/// Returned by Protocol::message; describes the fields of T in wire order.
template <class T>
class MessageBuilder : public FieldBuilder<T, MessageBuilder<T>> {
public:
    explicit MessageBuilder(MessageInfo* info) : FieldBuilder<T, MessageBuilder<T>>(info), info_(info) {}
    /// Functions for what fields cannot say; their bytes come behind the fields.
    MessageBuilder& rest(SerializeFn serialize, DeserializeFn deserialize) {
        info_->serialize = serialize;
        info_->deserialize = deserialize;
        info_->has_rest = true;
        return *this;
    }

private:
    MessageInfo* info_;
};

} // namespace throng
