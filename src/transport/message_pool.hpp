#pragma once
// Blocks for messages, shared by all links of a network. Blocks come in a few sizes, are cut from slabs and go back to free
// lists; slabs go back to the allocator only with the pool. Free lists are sharded, so that threads that send to different
// clients rarely meet.
#include "throng/memory.hpp"
#include "throng/transport.hpp"
#include <atomic>

namespace throng::transport {

/// Head of a block; the message's bytes follow it.
struct Message {
    Message* next;
    Message* prev;
    TimeUs event_us; // arrival, or next departure when `waiting`
    u64 packet;      // number on its link
    u64 checksum;    // of the undamaged bytes, set when the link damages them
    u32 size_bytes;
    u32 queued_bytes; // what it takes of its channel's queue limit
    u32 attempt;  // transmissions that were lost
    u32 sequence; // ordered channel: position
    Channel channel;
    u8 size_class;
    bool waiting; // lost, departs again at event_us
    bool damaged; // checksum is set and to be checked

    std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
    Bytes bytes() { return {data(), size_bytes}; }
};
static_assert(sizeof(Message) == 64);

class MessagePool {
public:
    static constexpr u32 shard_count = 8;
    static constexpr u32 packet_bytes_max = 1536;

    explicit MessagePool(Allocator allocator) : allocator_(allocator) {}
    MessagePool(const MessagePool&) = delete;
    MessagePool& operator=(const MessagePool&) = delete;
    ~MessagePool();

    /// A block for `size_bytes` <= loopback_message_bytes_limit, with size_bytes and size_class set. Thread-safe. `hint` picks
    /// the free list that is tried first; all are tried before the pool grows.
    Message* acquire(u32 hint, u32 size_bytes);
    /// As many as the first free list has, at most `count`, of blocks for packet_bytes_max; size_bytes is not set. Thread-safe.
    u32 acquire_packets(u32 hint, Message** messages, u32 count);
    /// Thread-safe.
    void release(u32 hint, Message* message);
    void release(u32 hint, Message* const* messages, u32 count);
    /// Makes room for `count` messages of up to 1536 bytes, spread over the shards.
    void reserve(u32 count);
    /// Not while acquire may run.
    std::size_t memory_bytes() const { return memory_bytes_; }

private:
    static constexpr u32 class_count = 9;
    static constexpr u32 class_bytes[class_count] = {128, 384, 768, packet_bytes_max, 4096, 16'384, 65'536, 262'144, 1'048'576};
    static constexpr u32 packet_class = 3; // the largest size that packets use; smaller ones borrow up to it

    class SpinLock {
    public:
        void lock();
        void unlock() { flag_.clear(std::memory_order_release); }

    private:
        std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
    };
    struct Guard {
        explicit Guard(SpinLock& l) : lock(l) { lock.lock(); }
        Guard(const Guard&) = delete;
        Guard& operator=(const Guard&) = delete;
        ~Guard() { lock.unlock(); }
        SpinLock& lock;
    };
    // Free blocks are listed apart from them: they are cold, and a chain through their heads would wait for each.
    struct FreeList {
        Message** blocks = nullptr;
        u32 count = 0;
        u32 capacity = 0; // at least as many as there are blocks of the class
    };
    struct alignas(64) Shard {
        SpinLock lock;
        FreeList free[class_count];
    };
    struct alignas(64) Slab {
        Slab* next;
        std::size_t bytes;
    };

    Message* take(Shard& shard, u32 first_class, u32 last_class);
    void grow(u32 size_class, u32 count, Shard& shard); // lists the new blocks there

    Allocator allocator_;
    SpinLock grow_lock_;
    Slab* slabs_ = nullptr;
    u32 blocks_[class_count] = {};
    std::size_t memory_bytes_ = 0;
    Shard shards_[shard_count];
};

} // namespace throng::transport
