#include "src/events/dispatcher.hpp"

namespace throng {

Dispatcher::Dispatcher(const MessageTable& table, Route route, Allocator allocator)
    : table_(table), route_(route), allocator_(allocator), handlers_(allocator) {
    if (table.layouts.empty())
        return;
    handlers_.resize(table.layouts.size());
    object_ = allocator_.allocate(table.object_bytes_max, table.object_alignment_max);
}

Dispatcher::~Dispatcher() {
    allocator_.free(object_, table_.object_bytes_max, table_.object_alignment_max);
}

Error Dispatcher::set(std::span<const MessageHandler> handlers) {
    for (const MessageHandler& handler : handlers)
        if (const MessageLayout* layout = table_.find(handler.type); !layout || !arrives(*layout))
            return Error::bad_value;
    for (const MessageHandler& handler : handlers)
        handlers_[table_.number(*table_.find(handler.type))] = handler;
    return Error::none;
}

const char* Dispatcher::missing() const {
    for (u32 i = 0; i < handlers_.size(); ++i)
        if (!handlers_[i].call && arrives(table_.layouts[i]))
            return table_.layouts[i].info->name;
    return nullptr;
}

Error Dispatcher::deliver(const Item& item, const Entity* references, const Sender& sender, bool& handled) {
    THRONG_ASSERT(!busy_);
    const MessageLayout& layout = *item.layout;
    const MessageInfo& info = *layout.info;
    struct Message {
        Dispatcher& dispatcher;
        const MessageInfo& info;
        Message(Dispatcher& d, const MessageInfo& i) : dispatcher(d), info(i) {
            info.construct(dispatcher.object_);
            dispatcher.busy_ = true;
        }
        ~Message() {
            info.destroy(dispatcher.object_);
            dispatcher.busy_ = false;
        }
    } message(*this, info);
    handled = false;
    if (const Error error = read_body(layout, item.body, object_); error != Error::none)
        return error;
    for (u32 r = 0; r < layout.reference_count; ++r)
        if (layout.references[r]->offset_bytes != no_offset)
            std::memcpy(static_cast<std::byte*>(object_) + layout.references[r]->offset_bytes, references + r, sizeof(Entity));
    handled = call(layout, object_, sender);
    return Error::none;
}

bool Dispatcher::call(const MessageLayout& layout, const void* message, const Sender& sender) const {
    const MessageHandler handler = handlers_[static_cast<u32>(layout.handler)]; // a copy: it may set another
    if (handler.call)
        handler.call(handler, message, sender);
    return handler.call != nullptr;
}

} // namespace throng
