#pragma once
// Handlers by message, and the object that a message is read into.
#include "src/events/typed_codec.hpp"
#include "throng/typed.hpp"

namespace throng {

class Dispatcher {
public:
    /// `route`: of the messages that arrive here.
    Dispatcher(const MessageTable& table, Route route, Allocator allocator);
    ~Dispatcher();
    Dispatcher(const Dispatcher&) = delete;
    Dispatcher& operator=(const Dispatcher&) = delete;

    /// bad_value: a type that is not of the protocol, or does not arrive here; then none is set. Replaces those of the same types.
    Error set(std::span<const MessageHandler> handlers);
    /// The name of a message that may arrive and has no handler, or null.
    const char* missing() const;
    bool arrives(const MessageLayout& layout) const {
        return (static_cast<u32>(layout.info->options.route) & static_cast<u32>(route_)) != 0;
    }

    /// Reads the message and calls its handler, if it has one; `handled` says so. Handlers must not deliver.
    Error deliver(const Item& item, const Entity* references, const Sender& sender, bool& handled);
    /// Calls the handler with a message that is an object already.
    bool call(const MessageLayout& layout, const void* message, const Sender& sender) const;

private:
    const MessageTable& table_;
    Route route_;
    Allocator allocator_;
    Array<MessageHandler> handlers_; // by number; call is null where there is none
    void* object_ = nullptr;
    bool busy_ = false;
};

} // namespace throng
