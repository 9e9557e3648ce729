#include "src/transport/message_pool.hpp"
#include "src/memory/huge_pages.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <new>
#include <thread>
#include <utility>

namespace throng::transport {

void MessagePool::SpinLock::lock() {
    // Sections are a few instructions; the holder may still be off the processor, so give way after a while.
    for (u32 spins = 0; flag_.test_and_set(std::memory_order_acquire); ++spins)
        if (spins >= 64)
            std::this_thread::yield();
}

MessagePool::~MessagePool() {
    while (slabs_) {
        Slab* next = slabs_->next;
        allocator_.free(slabs_, slabs_->bytes, alignof(Slab));
        slabs_ = next;
    }
    for (Shard& shard : shards_)
        for (FreeList& list : shard.free)
            allocator_.free(list.blocks, list.capacity * sizeof(Message*), alignof(Message*));
}

Message* MessagePool::take(Shard& shard, u32 first_class, u32 last_class) {
    constexpr u32 ahead = 4; // blocks are cold
    Guard guard(shard.lock);
    for (u32 c = first_class; c <= last_class; ++c)
        if (FreeList& list = shard.free[c]; list.count) {
            if (list.count > ahead)
                detail::prefetch_write(list.blocks[list.count - 1 - ahead]);
            return list.blocks[--list.count];
        }
    return nullptr;
}

Message* MessagePool::acquire(u32 hint, u32 size_bytes) {
    u32 size_class = 0;
    while (class_bytes[size_class] < size_bytes) {
        ++size_class;
        THRONG_ASSERT(size_class < class_count);
    }
    // A packet borrows a larger block before the pool grows: which sizes are in use varies from tick to tick, their number
    // much less.
    const u32 last_class = std::max(size_class, packet_class);
    Message* message = nullptr;
    for (;;) {
        for (u32 i = 0; i < shard_count && !message; ++i)
            message = take(shards_[(hint + i) % shard_count], size_class, last_class);
        if (message)
            break;
        grow(size_class, 0, shards_[hint % shard_count]); // others may take all of it
    }
    message->next = message->prev = nullptr;
    message->size_bytes = size_bytes;
    return message;
}

u32 MessagePool::acquire_packets(u32 hint, Message** messages, u32 count) {
    Shard& shard = shards_[hint % shard_count];
    Guard guard(shard.lock);
    FreeList& list = shard.free[packet_class];
    count = std::min(count, list.count);
    list.count -= count;
    std::copy_n(list.blocks + list.count, count, messages);
    return count;
}

void MessagePool::release(u32 hint, Message* message) { release(hint, &message, 1); }

void MessagePool::release(u32 hint, Message* const* messages, u32 count) {
    Shard& shard = shards_[hint % shard_count];
    Guard guard(shard.lock);
    for (u32 i = 0; i < count; ++i) {
        FreeList& list = shard.free[messages[i]->size_class];
        list.blocks[list.count++] = messages[i];
    }
}

void MessagePool::reserve(u32 count) {
    for (Shard& shard : shards_)
        if (const u32 share = count / shard_count + 1; count > 0)
            grow(packet_class, share, shard);
}

void MessagePool::grow(u32 size_class, u32 count, Shard& shard) {
    Guard guard(grow_lock_);
    const std::size_t block_bytes = (sizeof(Message) + class_bytes[size_class] + 63) / 64 * 64;
    if (count == 0) // by half, so that growth ends soon when the load is steady
        count = std::max({1u, static_cast<u32>(16'384 / block_bytes), blocks_[size_class] / 2});
    const std::size_t slab_bytes = sizeof(Slab) + block_bytes * count;
    Slab* slab = new (allocator_.allocate(slab_bytes, alignof(Slab))) Slab{slabs_, slab_bytes};
    advise_huge_pages(slab, slab_bytes);
    slabs_ = slab;
    blocks_[size_class] += count;
    memory_bytes_ += slab_bytes;
    // Any shard may be given all blocks of the class.
    for (Shard& other : shards_) {
        FreeList& list = other.free[size_class];
        const u32 capacity = std::max(blocks_[size_class], 2 * list.capacity);
        if (blocks_[size_class] <= list.capacity)
            continue;
        Message** blocks = static_cast<Message**>(allocator_.allocate(capacity * sizeof(Message*), alignof(Message*)));
        memory_bytes_ += (capacity - list.capacity) * sizeof(Message*);
        Message** old = blocks;
        u32 old_capacity = capacity;
        {
            Guard list_guard(other.lock);
            std::copy_n(list.blocks, list.count, blocks);
            std::swap(list.blocks, old);
            std::swap(list.capacity, old_capacity);
        }
        allocator_.free(old, old_capacity * sizeof(Message*), alignof(Message*));
    }
    Guard shard_guard(shard.lock);
    FreeList& list = shard.free[size_class];
    std::byte* memory = reinterpret_cast<std::byte*>(slab + 1);
    for (u32 i = count; i > 0; --i) { // the lowest is taken first
        Message* message = new (memory + block_bytes * (i - 1)) Message{};
        message->size_class = static_cast<u8>(size_class);
        list.blocks[list.count++] = message;
    }
}

} // namespace throng::transport
