#pragma once
// Typed messages that stay in this process, as objects, until the game takes them.
#include "src/events/dispatcher.hpp"

namespace throng {

class LocalMessages {
public:
    LocalMessages(const MessageTable& table, u32 bytes_max, Allocator allocator);
    ~LocalMessages();
    LocalMessages(const LocalMessages&) = delete;
    LocalMessages& operator=(const LocalMessages&) = delete;

    bool empty() const { return entries_.empty(); }
    /// Copies the message. limit_reached: bytes_max. Allocates while more is queued than ever before.
    Error add(const MessageLayout& layout, Route route, const void* message);
    /// Calls f(layout, route, message) for each, in order, and forgets it. f must not add to this queue.
    template <class F>
    void take(F&& f) {
        for (; taken_ < entries_.size(); ++taken_) {
            const Entry& entry = entries_[taken_];
            f(*entry.layout, entry.route, entry.object);
        }
        clear();
    }
    void clear();

private:
    struct Entry {
        const MessageLayout* layout;
        Route route;
        void* object;
    };
    Allocator allocator_;
    Array<Entry> entries_;
    Array<std::byte*> blocks_;
    u32 block_bytes_, alignment_, bytes_max_;
    u32 block_ = 0, used_ = 0; // the block being filled, and how far
    u32 total_ = 0, taken_ = 0;
};

} // namespace throng
