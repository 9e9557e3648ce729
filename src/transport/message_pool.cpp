#include "src/transport/message_pool.hpp"
#include "src/memory/huge_pages.hpp"
#include "throng/assert.hpp"
#include <algorithm>
#include <new>
#include <thread>

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
}

Message* MessagePool::take(Shard& shard, u32 first_class, u32 last_class) {
    Guard guard(shard.lock);
    for (u32 c = first_class; c <= last_class; ++c)
        if (Message* message = shard.free[c]) {
            shard.free[c] = message->next;
            detail::prefetch_write(message->next); // its link is read next time, and is cold
            return message;
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
    for (u32 i = 0; i < shard_count && !message; ++i)
        message = take(shards_[(hint + i) % shard_count], size_class, last_class);
    if (!message) {
        message = grow(size_class, 0);
        if (Message* rest = message->next) {
            Shard& shard = shards_[hint % shard_count];
            Guard guard(shard.lock);
            Message* last = rest;
            while (last->next)
                last = last->next;
            last->next = shard.free[size_class];
            shard.free[size_class] = rest;
        }
    }
    message->next = message->prev = nullptr;
    message->size_bytes = size_bytes;
    return message;
}

void MessagePool::release(u32 hint, Message* message) {
    Shard& shard = shards_[hint % shard_count];
    Guard guard(shard.lock);
    message->next = shard.free[message->size_class];
    shard.free[message->size_class] = message;
}

void MessagePool::reserve(u32 count) {
    for (Shard& shard : shards_)
        if (const u32 share = count / shard_count + 1; count > 0) {
            THRONG_ASSERT(!shard.free[packet_class]);
            shard.free[packet_class] = grow(packet_class, share);
        }
}

Message* MessagePool::grow(u32 size_class, u32 count) {
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
    std::byte* memory = reinterpret_cast<std::byte*>(slab + 1);
    Message* chain = nullptr;
    for (u32 i = count; i > 0; --i) {
        Message* message = new (memory + block_bytes * (i - 1)) Message{};
        message->size_class = static_cast<u8>(size_class);
        message->next = chain;
        chain = message;
    }
    return chain;
}

} // namespace throng::transport
