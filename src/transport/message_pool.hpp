#pragma once
// Memory of messages, shared by all links of a network. Sheets come in a few sizes, are cut from slabs and go back to free lists; slabs
// go back to the allocator only with the pool. What a link sends between two departures lies on one sheet, one message behind the
// other. Free lists are sharded, so that threads that send to different clients rarely meet.
#include "throng/memory.hpp"
#include "throng/transport.hpp"
#include <atomic>

namespace throng::transport {

/// Head of a piece of memory for messages, which follow it. Messages of one sheet belong to one link.
struct alignas(64) Sheet {
    u32 capacity_bytes; // behind the head
    u32 used_bytes;
    u32 holders; // its messages, and the link that still adds to it
    u8 size_class;
};
static_assert(sizeof(Sheet) == 64);

/// Head of a message on a sheet; its bytes follow.
struct Message {
    Message* next;
    Message* prev;
    TimeUs event_us; // arrival, or next departure when `waiting`
    u64 packet;      // number on its link
    u64 checksum;    // of the undamaged bytes, set when the link damages them
    u32 size_bytes;
    u32 queued_bytes; // what it takes of its channel's queue limit
    u32 attempt;      // transmissions that were lost
    u32 sequence;     // ordered channel: position
    u32 sheet_offset; // bytes from the sheet's head
    Channel channel;
    bool waiting; // lost, departs again at event_us
    bool damaged; // checksum is set and to be checked

    std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
    Bytes bytes() { return {data(), size_bytes}; }
    Sheet* sheet() { return reinterpret_cast<Sheet*>(reinterpret_cast<std::byte*>(this) - sheet_offset); }
};
static_assert(sizeof(Message) == 64);

class MessagePool {
public:
    static constexpr u32 shard_count = 8;
    static constexpr u32 packet_bytes_max = 1536;
    /// Capacity of the largest sheet for several messages.
    static constexpr u32 shared_bytes_max = 16'384 - sizeof(Sheet);

    explicit MessagePool(Allocator allocator) : allocator_(allocator) {}
    MessagePool(const MessagePool&) = delete;
    MessagePool& operator=(const MessagePool&) = delete;
    ~MessagePool();

    /// What a message takes of a sheet.
    static constexpr u32 message_bytes(u32 size_bytes) { return (static_cast<u32>(sizeof(Message)) + size_bytes + 63) / 64 * 64; }
    /// An empty sheet for `wanted_bytes`, with one holder: the caller. Where a reserve was made it may be smaller, if the pool would
    /// have to grow else, but holds `least_bytes` (<= wanted_bytes <= message_bytes(loopback_message_bytes_limit)). Thread-safe.
    /// `hint` picks the free lists that are tried first; all are tried before the pool grows.
    Sheet* acquire(u32 hint, u32 wanted_bytes, u32 least_bytes);
    Sheet* acquire(u32 hint, u32 bytes) { return acquire(hint, bytes, bytes); }
    /// The next message on a sheet that has room for message_bytes(size_bytes); it becomes a holder. Sets sheet_offset and size_bytes.
    static Message* add(Sheet& sheet, u32 size_bytes);
    /// Where the bytes of the next message on a sheet go.
    static std::byte* next_data(Sheet& sheet) { return reinterpret_cast<std::byte*>(&sheet + 1) + sheet.used_bytes + sizeof(Message); }
    /// One holder less; the last one gives the sheet back. Thread-safe but for calls on the same sheet.
    void release(u32 hint, Sheet* sheet);
    void release(u32 hint, Message* message) { release(hint, message->sheet()); }
    /// Makes room for `count` messages of up to 1536 bytes, spread over the shards.
    void reserve(u32 count);
    /// Not while acquire may run.
    std::size_t memory_bytes() const { return memory_bytes_; }

private:
    static constexpr u32 class_count = 10;
    // Of a whole sheet.
    static constexpr u32 class_bytes[class_count] = {256, 512, 1024, 2048, 4096, 8192, 16'384, 65'792, 262'400, 1'048'832};
    static constexpr u32 packet_class = 3; // holds a message of packet_bytes_max
    static constexpr u32 shared_class = 6; // the largest for several messages; smaller ones borrow up to it

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
    // Free sheets are listed apart from them: they are cold, and a chain through their heads would wait for each.
    struct FreeList {
        Sheet** sheets = nullptr;
        u32 count = 0;
        u32 capacity = 0; // at least as many as there are sheets of the class
    };
    struct alignas(64) Shard {
        bool has(u32 size_class) const { return (stocked.load(std::memory_order_relaxed) >> size_class & 1) != 0; }
        void put(u32 size_class, Sheet* sheet); // locked
        SpinLock lock;
        std::atomic<u32> stocked{0}; // bit per class of which a sheet is free; read without the lock, to pass by at no cost
        FreeList free[class_count];
    };
    struct alignas(64) Slab {
        Slab* next;
        std::size_t bytes;
    };

    static Sheet* take(Shard& shard, u32 size_class); // null: none is left
    Sheet* find(u32 hint, u32 first_class, u32 last_class);
    void grow(u32 size_class, u32 count, Shard& shard); // lists the new sheets there

    Allocator allocator_;
    SpinLock grow_lock_;
    Slab* slabs_ = nullptr;
    u32 sheets_[class_count] = {};
    bool reserved_ = false;
    std::size_t memory_bytes_ = 0;
    Shard shards_[shard_count];
};

} // namespace throng::transport
