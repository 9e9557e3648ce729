#include "throng/messenger.hpp"
#include "src/events/local_messages.hpp"
#include "src/registry/op_apply.hpp"
#include <algorithm>

namespace throng {

struct Messenger::Impl {
    Impl(const Protocol& p, const MessengerConfig& c)
        : protocol(p), table(p.messages()), config(c), to_server(table, Route::to_server, c.allocator),
          to_client(table, Route::to_client, c.allocator), queues{{table, c.local_bytes_max, c.allocator},
                                                                  {table, c.local_bytes_max, c.allocator}},
          body(c.allocator) {}

    /// The layout of a message that may go this way, or null.
    const MessageLayout* find(u16 type, Route route) const {
        const MessageLayout* layout = table.find(type);
        return layout && (static_cast<u32>(layout->info->options.route) & static_cast<u32>(route)) ? layout : nullptr;
    }
    Error add_local(const MessageLayout& layout, Route route, const void* message) {
        body.clear(); // what no connection would carry is refused in every set-up
        if (const Error error = append_body(layout, message, body); error != Error::none)
            return error;
        return queues[filling].add(layout, route, message);
    }
    bool reaches_local(const To& to) const {
        switch (to.kind) {
        case To::Kind::client:
            return to.id == local_player;
        case To::Kind::all_except:
            return std::find(to.except.begin(), to.except.end(), local_player) == to.except.end();
        case To::Kind::layers:
            return (to.any_of & config.local_layers) != 0;
        case To::Kind::group:
            return !config.server || config.server->in_group(to.group_id, local_player);
        default:
            return true;
        }
    }

    const Protocol& protocol;
    const MessageTable& table;
    MessengerConfig config;
    Dispatcher to_server, to_client; // of local messages
    LocalMessages queues[2];
    u32 filling = 0;
    Array<std::byte> body;
};

Messenger::Messenger(const Protocol& protocol, const MessengerConfig& config)
    : impl_(new (config.allocator.allocate(sizeof(Impl), alignof(Impl))) Impl(protocol, config)) {
    THRONG_ASSERT(config.client ? !config.server && !config.local_player : config.server || config.local_player);
}

Messenger::~Messenger() {
    const Allocator allocator = impl_->config.allocator;
    impl_->~Impl();
    allocator.free(impl_, sizeof(Impl), alignof(Impl));
}

Error Messenger::set_server_handlers(std::span<const MessageHandler> handlers) {
    const Error error = impl_->to_server.set(handlers);
    return error == Error::none && impl_->config.server ? impl_->config.server->set_handlers(handlers) : error;
}

Error Messenger::set_client_handlers(std::span<const MessageHandler> handlers) {
    const Error error = impl_->to_client.set(handlers);
    return error == Error::none && impl_->config.client ? impl_->config.client->set_handlers(handlers) : error;
}

Error Messenger::send_up(u16 type, const void* message, bool shared) {
    Impl& impl = *impl_;
    const MessageLayout* layout = impl.find(type, Route::to_server);
    if (!layout)
        return Error::bad_value;
    if (impl.config.client)
        if (const Error error = impl.config.client->send_typed(type, message); error != Error::none || !shared)
            return error;
    if (!impl.config.client && !impl.config.local_player)
        return Error::no_connection;
    return impl.add_local(*layout, Route::to_server, message);
}

Error Messenger::send_down(const To& to, u16 type, const void* message) {
    Impl& impl = *impl_;
    const MessageLayout* layout = impl.find(type, Route::to_client);
    if (!layout)
        return Error::bad_value;
    if (impl.config.client)
        return Error::no_connection;
    const bool local_only = to.kind == To::Kind::client && to.id == local_player;
    if (impl.config.server && !(local_only && impl.config.local_player))
        if (const Error error = impl.config.server->send_typed(to, type, message); error != Error::none)
            return error;
    if (!impl.config.local_player)
        return Error::none;
    if (impl.reaches_local(to))
        return impl.add_local(*layout, Route::to_client, message);
    return !impl.config.server && to.kind == To::Kind::client ? Error::no_connection : Error::none;
}

Error Messenger::apply_op(ComponentId component, Entity entity, const void* op_type, const void* op) {
    const MessengerConfig& config = impl_->config;
    if (config.client)
        return Error::no_connection;
    if (config.server)
        return config.server->apply_op(component, entity, op_type, op);
    if (!config.world)
        return Error::bad_value;
    const ComponentInfo* info = nullptr;
    return throng::apply_op(*config.world, impl_->protocol.layout(), component, entity, op_type, op, info);
}

u32 Messenger::dispatch() {
    Impl& impl = *impl_;
    LocalMessages& queue = impl.queues[impl.filling];
    impl.filling ^= 1;
    THRONG_ASSERT(impl.queues[impl.filling].empty()); // dispatch() from a handler
    const Sender sender{Sender::Origin::local, local_player};
    u32 handled = 0;
    queue.take([&](const MessageLayout& layout, Route route, const void* message) {
        handled += (route == Route::to_server ? impl.to_server : impl.to_client).call(layout, message, sender);
    });
    return handled;
}

} // namespace throng
