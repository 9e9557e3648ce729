#pragma once
// Keys: the distinct (chunk, baseline, lanes, components) of a tick, each encoded once and shared by every client that needs it.
//
// Plan runs in parallel over clients and asks for keys; a table with open addressing finds an equal key, whoever made it. Keys live in
// blocks of the worker that made them (one shared counter measured 3.5 times slower). Which worker makes a key never shows in
// the output: a payload depends on its key alone.
#include "src/server/mirror.hpp"
#include <atomic>
#include <mutex>

namespace throng {

inline constexpr u32 worker_count_max = 255;

/// Blocks of memory that workers take during a tick and give back after it. How much each of them needs depends on who was given what
/// work, and differs from run to run; what all of them need together does not. So they share one stock, and it grows with that.
class BlockStock {
public:
    BlockStock(u32 block_bytes, Allocator allocator) : block_bytes_(block_bytes), allocator_(allocator), free_(allocator) {}
    ~BlockStock() {
        for (std::byte* block : free_)
            allocator_.free(block, block_bytes_, 64);
    }
    BlockStock(const BlockStock&) = delete;
    BlockStock& operator=(const BlockStock&) = delete;

    /// Thread-safe. Allocates when none is left.
    std::byte* take() {
        const std::lock_guard guard(lock_);
        if (free_.empty()) {
            ++count_;
            return static_cast<std::byte*>(allocator_.allocate(block_bytes_, 64));
        }
        std::byte* block = free_.back();
        free_.pop_back();
        return block;
    }
    /// The rest is serial. There is room for it in the list.
    void give(std::byte* block) { free_.push_back(block); }
    /// Makes the stock at least `count` blocks, those that are taken included.
    void provide(u32 count) {
        free_.reserve(count > count_ ? count : count_);
        for (; count_ < count; ++count_)
            free_.push_back(static_cast<std::byte*>(allocator_.allocate(block_bytes_, 64)));
    }
    u32 count() const { return count_; }

private:
    u32 block_bytes_;
    u32 count_ = 0; // taken ones included
    Allocator allocator_;
    std::mutex lock_;
    Array<std::byte*> free_;
};

/// Of lanes of which a client sees different components: what it sees of each (ClientState::masks). No lane is seen so: nothing is kept
/// where all components are seen.
constexpr u64 sees_as(ClientId client) {
    return u64(client + 1) << 32 | 0xffffffffu;
}
/// The client of sees_as + 1, or 0.
constexpr u32 viewer_of(u64 sees) {
    return static_cast<u32>(sees) == 0xffffffffu ? static_cast<u32>(sees >> 32) : 0;
}

struct Part {
    const std::byte* data;
    u32 bytes;
    u32 packed_bytes; // without zstd; `bytes`, where no packed form was made
    u64 lanes;
};

struct alignas(64) Key {
    u32 chunk = 0;
    Tick baseline = 0;
    u64 lanes = 0;
    bool full = false;
    bool zstd = false;
    std::atomic<bool> shared{false}; // asked for more than once
    u32 part_count = 0;              // set by encode; 0: nothing could be encoded
    Part first = {nullptr, 0, 0, 0}; // the only part, nearly always
    const Part* parts = nullptr;     // all parts, when there are several (R13)
    u64 sees = 0;                    // sees_of: components outside are encoded as absent. Or sees_as, of one client
};

class KeyTable {
public:
    static constexpr u32 block_keys = 1024;
    static constexpr u32 keys_max = 1u << 24; // of a worker in a tick
    using Ref = u32; // worker * 2^24 + index
    static constexpr Ref none = 0xffffffffu;

    KeyTable(u32 workers, Allocator allocator);
    ~KeyTable();
    KeyTable(const KeyTable&) = delete;
    KeyTable& operator=(const KeyTable&) = delete;

    /// Forgets all keys; grows the table when the last tick filled it beyond a quarter, and the stock of blocks with the keys of all.
    void begin_tick(Tick tick);
    /// Finds or makes a key, which stays where it is for the tick. Concurrent for different workers.
    Key* find(u32 worker, u32 chunk, Tick baseline, u64 lanes, bool full, u64 sees) {
        Worker::Recent& recent = workers_[worker].recent[full][Worker::place(chunk, baseline)];
        if (recent.epoch == epoch_ && recent.lanes == lanes && recent.chunk == chunk && recent.baseline == baseline &&
            recent.sees == sees) {
            share(*recent.key);
            return recent.key;
        }
        Key* const found = find_in_table(worker, chunk, baseline, lanes, full, sees);
        recent = {lanes, chunk, baseline, epoch_, sees, found};
        return found;
    }
    /// Brings what find would look at into the cache.
    void prefetch(u32 worker, u32 chunk, Tick baseline, u64 lanes, bool full, u64 sees) const {
        const Worker::Recent& recent = workers_[worker].recent[full][Worker::place(chunk, baseline)];
        if (recent.epoch != epoch_ || recent.lanes != lanes || recent.chunk != chunk || recent.baseline != baseline)
            detail::prefetch_write(&slots_[static_cast<u32>(hash(chunk, baseline, lanes, full, sees)) & (slot_count_ - 1)]);
    }
    /// Calls f(key) for all of them. Serial.
    template <class F>
    void each(F&& f) {
        for (Worker& worker : workers_)
            for (u32 i = 0; i < worker.count; ++i)
                f(worker.blocks[i / block_keys][i % block_keys]);
    }
    Key& key(Ref ref) { return workers_[ref >> 24].blocks[(ref & 0xffffffu) / block_keys][ref % block_keys]; }

    u32 total() const;
    u64 bytes() const;

private:
    struct alignas(128) Worker {
        explicit Worker(Allocator allocator) : blocks(allocator) {}
        Worker(Worker&&) = default;
        Worker& operator=(Worker&&) = default;
        Array<Key*> blocks;
        u32 count = 0;
        // What this worker asked for last, by chunk and baseline: in a crowd every client asks for what another of its round trip did.
        struct Recent {
            u64 lanes = 0;
            u32 chunk = 0;
            Tick baseline = 0;
            u32 epoch = 0;
            u64 sees = 0;
            Key* key = nullptr;
        };
        static constexpr u32 recent_count = 512;
        Recent recent[2][recent_count]; // [full]
        /// Chunks of one cell, and their baselines, are numbers in a row: eight baselines of 61 chunks do not meet.
        static u32 place(u32 chunk, Tick baseline) { return (chunk + baseline * 61) % recent_count; }
    };
    static u64 hash(u32 chunk, Tick baseline, u64 lanes, bool full, u64 sees) {
        u64 h = (lanes ^ sees << 32 ^ sees >> 32) * 0x9E3779B97F4A7C15ull ^ (u64(chunk) << 32 | baseline) * 0xC2B2AE3D27D4EB4Full ^
                u64(full) * 0x165667B19E3779F9ull;
        h ^= h >> 32;
        h *= 0xD6E8FEB86659FD93ull;
        return h ^ h >> 32;
    }
    Ref make(u32 worker, u32 chunk, Tick baseline, u64 lanes, bool full, u64 sees);
    Key* find_in_table(u32 worker, u32 chunk, Tick baseline, u64 lanes, bool full, u64 sees);
    static void share(Key& key) {
        if (!key.shared.load(std::memory_order_relaxed)) // most often it is: no write to a line that others read
            key.shared.store(true, std::memory_order_relaxed);
    }

    Allocator allocator_;
    BlockStock stock_; // before the workers, which hold blocks of it
    Array<Worker> workers_;
    std::atomic<u64>* slots_ = nullptr; // epoch << 32 | ref
    u32 slot_count_ = 0;
    u32 epoch_ = 0;
    void resize(u32 slots);
};

/// Memory of one worker that lives for a tick: payloads, part lists. The first block is kept, others go back to the stock.
class TickArena {
public:
    static constexpr u32 block_bytes = 1u << 20;
    /// The stock, of blocks of this size, outlives the arena and frees nothing that it has not got back.
    TickArena(BlockStock& stock, Allocator allocator) : stock_(&stock), blocks_(allocator) {}
    TickArena(TickArena&&) = default;
    TickArena& operator=(TickArena&&) = default;
    ~TickArena() {
        for (std::byte* block : blocks_)
            stock_->give(block);
    }
    /// Serial, like what follows; room and take belong to the worker.
    void reset() {
        while (blocks_.size() > 1) {
            stock_->give(blocks_.back());
            blocks_.pop_back();
        }
        used_ = 0;
    }
    /// Blocks that hold something.
    u32 used_blocks() const { return blocks_.size() - (blocks_.size() == 1 && used_ == 0); }
    void reserve_blocks(u32 count) { blocks_.reserve(count); }
    /// At least `bytes` (<= block_bytes) of room; take() what was used.
    std::span<std::byte> room(u32 bytes) {
        if (blocks_.empty() || block_bytes - used_ < bytes) {
            blocks_.push_back(stock_->take());
            used_ = 0;
        }
        return {blocks_.back() + used_, block_bytes - used_};
    }
    void take(u32 bytes) { used_ += bytes; }

private:
    BlockStock* stock_;
    Array<std::byte*> blocks_;
    u32 used_ = 0; // of the last one
};

} // namespace throng
