#include "throng/hooks.hpp"
#include <bit>

namespace throng::detail {

HookTable::~HookTable() {
    for (const Hook& hook : hooks_)
        hook.end(hook.closure, allocator());
    for (const Hook& hook : waiting_)
        hook.end(hook.closure, allocator());
}

u64 HookTable::memory_bytes() const {
    u64 bytes = (u64(hooks_.capacity()) + waiting_.capacity()) * sizeof(Hook);
    for (const Array<Hook>* list : {&hooks_, &waiting_})
        for (const Hook& hook : *list)
            bytes += hook.closure_bytes;
    return bytes;
}

u32 HookTable::first(u32 key) const {
    u32 low = 0;
    u32 high = hooks_.size();
    while (low < high) {
        const u32 middle = (low + high) / 2;
        if (hooks_[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool HookTable::any(u32 key) const {
    for (u32 i = first(key); i < end_of(key); ++i)
        if (hooks_[i].call)
            return true;
    for (const Hook& hook : waiting_)
        if (hook.call && hook.key == key)
            return true;
    return false;
}

void HookTable::insert(Hook hook) {
    u32 position = end_of(hook.key);
    hooks_.push_back(hook);
    for (u32 i = hooks_.size() - 1; i > position; --i)
        std::swap(hooks_[i], hooks_[i - 1]);
}

HookId HookTable::add(Hook hook) {
    hook.id = ++last_id_;
    if (depth_ == 0) {
        insert(hook);
    } else {
        waiting_.push_back(hook);
        stale_ = true;
    }
    return hook.id;
}

u32 HookTable::remove(HookId id) {
    for (Array<Hook>* list : {&hooks_, &waiting_})
        for (Hook& hook : *list)
            if (hook.id == id && hook.call) {
                const u32 key = hook.key;
                hook.call = nullptr;
                stale_ = true;
                if (depth_ == 0)
                    settle();
                return key;
            }
    return no_row;
}

void HookTable::settle() {
    stale_ = false;
    u32 kept = 0;
    for (u32 i = 0; i < hooks_.size(); ++i)
        if (hooks_[i].call)
            hooks_[kept++] = hooks_[i];
        else
            hooks_[i].end(hooks_[i].closure, allocator());
    hooks_.resize(kept, Hook{});
    for (const Hook& hook : waiting_)
        if (hook.call)
            insert(hook);
        else
            hook.end(hook.closure, allocator());
    waiting_.clear();
}

void WaitingHooks::reserve_extra(u32 count) {
    const u64 wanted = u64(entries_.size()) + count;
    entries_.reserve_extra(count);
    if (wanted <= chains_.size())
        return;
    Array<u32> chains(entries_.allocator());
    chains.resize(std::bit_ceil(wanted < 64 ? 64 : wanted), no_row);
    chains_ = std::move(chains);
    shift_ = 32 - static_cast<u32>(std::countr_zero(chains_.size()));
    for (u32 i = 0; i < entries_.size(); ++i)
        entries_[i].next = std::exchange(chains_[chain_of(entries_[i].entity, entries_[i].component)], i);
}

void WaitingHooks::clear() {
    for (const Unannounced& entry : entries_)
        chains_[chain_of(entry.entity, entry.component)] = no_row;
    entries_.clear();
}

} // namespace throng::detail
