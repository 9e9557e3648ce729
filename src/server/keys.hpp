#pragma once
// Keys: the distinct (chunk, baseline, lanes) of a tick, each encoded once and shared by every client that needs it.
//
// Plan runs in parallel over clients and asks for keys; a table with open addressing finds an equal key, whoever made it. Keys live in
// blocks of the worker that made them (one shared counter measured 3.5 times slower). Which worker makes a key never shows in
// the output: a payload depends on its key alone.
#include "src/server/mirror.hpp"
#include <atomic>

namespace throng {

inline constexpr u32 worker_count_max = 255;

struct Part {
    const std::byte* data;
    u32 bytes;
    u64 lanes;
};

struct Key {
    u32 chunk = 0;
    Tick baseline = 0;
    u64 lanes = 0;
    bool full = false;
    bool zstd = false;
    std::atomic<bool> shared{false}; // asked for more than once
    u32 part_count = 0;              // set by encode; 0: nothing could be encoded
    Part first = {nullptr, 0, 0};    // the only part, nearly always
    const Part* parts = nullptr;     // all parts, when there are several (R13)
};

class KeyTable {
public:
    static constexpr u32 block_keys = 1024;
    using Ref = u32; // worker * 2^24 + index
    static constexpr Ref none = 0xffffffffu;

    KeyTable(u32 workers, Allocator allocator);
    ~KeyTable();
    KeyTable(const KeyTable&) = delete;
    KeyTable& operator=(const KeyTable&) = delete;

    /// Forgets all keys; grows the table when the last tick filled it beyond a quarter.
    void begin_tick(Tick tick);
    /// Finds or makes a key. Concurrent for different workers.
    Ref find(u32 worker, u32 chunk, Tick baseline, u64 lanes, bool full);
    Key& key(Ref ref) { return workers_[ref >> 24].blocks[(ref & 0xffffffu) / block_keys][ref % block_keys]; }

    u32 worker_count() const { return workers_.size(); }
    u32 count(u32 worker) const { return workers_[worker].count; }
    u32 total() const;
    u64 bytes() const;

private:
    struct alignas(128) Worker {
        explicit Worker(Allocator allocator) : blocks(allocator) {}
        Worker(Worker&&) = default;
        Worker& operator=(Worker&&) = default;
        Array<Key*> blocks;
        u32 count = 0;
    };
    static u64 hash(u32 chunk, Tick baseline, u64 lanes, bool full) {
        u64 h = lanes * 0x9E3779B97F4A7C15ull ^ (u64(chunk) << 32 | baseline) * 0xC2B2AE3D27D4EB4Full ^ u64(full) * 0x165667B19E3779F9ull;
        h ^= h >> 32;
        h *= 0xD6E8FEB86659FD93ull;
        return h ^ h >> 32;
    }
    Ref make(u32 worker, u32 chunk, Tick baseline, u64 lanes, bool full);

    Allocator allocator_;
    Array<Worker> workers_;
    std::atomic<u64>* slots_ = nullptr; // epoch << 32 | ref
    u32 slot_count_ = 0;
    u32 epoch_ = 0;
    void resize(u32 slots);
};

/// Memory of one worker that lives for a tick: payloads, part lists. Blocks are kept for the next tick.
class TickArena {
public:
    explicit TickArena(Allocator allocator) : allocator_(allocator), blocks_(allocator) {}
    TickArena(TickArena&&) = default;
    TickArena& operator=(TickArena&&) = default;
    ~TickArena() {
        for (std::byte* block : blocks_)
            allocator_.free(block, block_bytes, 64);
    }
    static constexpr u32 block_bytes = 1u << 20;
    void reset() {
        current_ = 0;
        used_ = 0;
    }
    /// At least `bytes` (<= block_bytes) of room; take() what was used.
    std::span<std::byte> room(u32 bytes) {
        if (blocks_.size() == 0 || block_bytes - used_ < bytes) {
            if (blocks_.size() != 0)
                ++current_;
            if (current_ >= blocks_.size())
                blocks_.push_back(static_cast<std::byte*>(allocator_.allocate(block_bytes, 64)));
            used_ = 0;
        }
        return {blocks_[current_] + used_, block_bytes - used_};
    }
    void take(u32 bytes) { used_ += bytes; }
    u64 bytes() const { return u64(blocks_.size()) * block_bytes; }

private:
    Allocator allocator_;
    Array<std::byte*> blocks_;
    u32 current_ = 0;
    u32 used_ = 0;
};

} // namespace throng
