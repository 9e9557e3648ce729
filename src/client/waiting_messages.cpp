#include "src/client/waiting_messages.hpp"

namespace throng {

void WaitingMessages::add(const Item& item, TimeUs now) {
    const Entry entry{item.number, bytes_.size(), static_cast<u32>(item.payload.size()), now};
    bytes_.append(item.payload.data(), item.payload.size());
    entries_.push_back(entry);
    ++waiting_of_[entry.number];
    unreliable_ += unreliable(entry);
    live_bytes_ += entry.bytes;
}

void WaitingMessages::forget(const Entry& entry) {
    --waiting_of_[entry.number];
    unreliable_ -= unreliable(entry);
    live_bytes_ -= entry.bytes;
}

void WaitingMessages::drop_oldest(bool among_unreliable) {
    u32 i = 0;
    while (i < entries_.size() && unreliable(entries_[i]) != among_unreliable)
        ++i;
    if (i == entries_.size())
        return;
    forget(entries_[i]);
    for (; i + 1 < entries_.size(); ++i)
        entries_[i] = entries_[i + 1];
    entries_.pop_back();
    compact();
}

void WaitingMessages::clear() {
    entries_.clear();
    bytes_.clear();
    for (u32& count : waiting_of_)
        count = 0;
    unreliable_ = live_bytes_ = 0;
}

void WaitingMessages::compact() {
    if (bytes_.size() < 2 * live_bytes_)
        return;
    u32 used = 0;
    for (Entry& entry : entries_) {
        if (entry.bytes != 0)
            std::memmove(bytes_.data() + used, bytes_.data() + entry.offset, entry.bytes);
        entry.offset = used;
        used += entry.bytes;
    }
    bytes_.resize(used);
}

} // namespace throng
