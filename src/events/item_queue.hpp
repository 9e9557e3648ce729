#pragma once
// Items that wait for a backend to take them, in order, as bytes.
#include "src/events/typed_codec.hpp"

namespace throng {

class ItemQueue {
public:
    explicit ItemQueue(Allocator allocator) : bytes_(allocator) {}
    ItemQueue(ItemQueue&&) = default;
    ItemQueue& operator=(ItemQueue&&) = default;

    bool empty() const { return first_ == bytes_.size(); }
    u32 size_bytes() const { return bytes_.size() - first_; }
    /// Whole items, one or more.
    void append(Bytes items) { bytes_.append(items.data(), items.size()); }
    Array<std::byte>& bytes() { return bytes_; } // to append_item to
    void clear() {
        bytes_.clear();
        first_ = 0;
    }
    /// Number of items.
    u32 count() const;

    /// Calls send(Bytes bundle) -> SendResult with `head` and as many items each as fit `packet_bytes`, one at least, until it
    /// refuses. `buffer` is where bundles are put together.
    template <class Send>
    void flush(Bytes head, u32 packet_bytes, Array<std::byte>& buffer, Send&& send) {
        while (!empty()) {
            const u32 bytes = run_bytes(packet_bytes - static_cast<u32>(head.size()));
            buffer.clear();
            buffer.append(head.data(), head.size());
            buffer.append(bytes_.data() + first_, bytes);
            if (send(Bytes(buffer.data(), buffer.size())) != SendResult::accepted)
                break;
            first_ += bytes;
        }
        compact();
    }

private:
    /// Of the items at the front that fit `limit` together, of the first one at least.
    u32 run_bytes(u32 limit) const;
    void compact();
    Array<std::byte> bytes_;
    u32 first_ = 0;
};

/// Bytes of the item at the front of `items`, which come from append_item.
u32 item_bytes(Bytes items);

} // namespace throng
