#include "src/events/item_queue.hpp"
#include "throng/wire.hpp"

namespace throng {

u32 item_bytes(Bytes items) {
    Bytes in = items;
    u32 number = 0, bytes = 0;
    const bool read = read_varint(in, number) == Error::none && read_varint(in, bytes) == Error::none && bytes <= in.size();
    THRONG_ASSERT(read);
    return static_cast<u32>(items.size() - in.size()) + bytes;
}

u32 ItemQueue::run_bytes(u32 limit) const {
    u32 total = 0;
    while (first_ + total < bytes_.size()) {
        const u32 next = item_bytes({bytes_.data() + first_ + total, bytes_.size() - first_ - total});
        if (total != 0 && total + next > limit)
            break;
        total += next;
    }
    return total;
}

u32 ItemQueue::count() const {
    u32 items = 0;
    for (u32 at = first_; at < bytes_.size(); ++items)
        at += item_bytes({bytes_.data() + at, bytes_.size() - at});
    return items;
}

void ItemQueue::compact() {
    if (first_ == 0)
        return;
    const u32 left = size_bytes();
    if (left != 0)
        std::memmove(bytes_.data(), bytes_.data() + first_, left);
    bytes_.resize(left);
    first_ = 0;
}

} // namespace throng
