#include "throng/prefab.hpp"

namespace throng::detail {

PrefabValues& PrefabValues::operator=(PrefabValues&& other) noexcept {
    if (this != &other) {
        destroy_values();
        entries_ = std::move(other.entries_);
    }
    return *this;
}

PrefabValues::~PrefabValues() {
    destroy_values();
}

u32 PrefabValues::lower_bound(ComponentId id) const {
    u32 position = 0; // a prefab has a few dozen entries at most, and is built once
    while (position < entries_.size() && entries_[position].id < id)
        ++position;
    return position;
}

void PrefabValues::insert(u32 position, Entry entry) {
    entries_.push_back(entry);
    for (u32 i = size() - 1; i > position; --i)
        std::swap(entries_[i], entries_[i - 1]);
}

bool PrefabValues::remove_value(ComponentId id) {
    const u32 position = lower_bound(id);
    if (position == entries_.size() || entries_[position].id != id)
        return false;
    const Entry entry = entries_[position];
    for (u32 i = position; i + 1 < size(); ++i)
        entries_[i] = entries_[i + 1];
    entries_.pop_back();
    if (entry.ops->destroy)
        entry.ops->destroy(entry.value, 1);
    entries_.allocator().free(entry.value, entry.ops->size, entry.ops->alignment);
    return true;
}

/// Into an empty one.
void PrefabValues::copy_from(const PrefabValues& other) {
    entries_.reserve(other.size());
    for (const Entry& entry : other.entries_) {
        Storage storage{entries_.allocator(), *entry.ops};
        entry.ops->copy(storage.memory, entry.value, 1);
        entries_.push_back({entry.id, entry.ops, std::exchange(storage.memory, nullptr)});
    }
}

void PrefabValues::destroy_values() {
    for (const Entry& entry : entries_) {
        if (entry.ops->destroy)
            entry.ops->destroy(entry.value, 1);
        entries_.allocator().free(entry.value, entry.ops->size, entry.ops->alignment);
    }
    entries_.clear();
}

} // namespace throng::detail
