#pragma once
// Two stores behind the world's entities: cells that never move, and small index lists in size classes.
#include "throng/array.hpp"

namespace throng {

/// Cells of a fixed size (a power of two) in blocks that never move, numbered from 0, with a free list of numbers (last
/// freed, first reused). The link of a free cell sits in its last four bytes; all other bytes keep what they held, so an owner
/// can keep a generation there. Single-threaded.
class LinearArena {
    static constexpr u32 no_slot = 0xffffffff;

public:
    /// Allocates nothing. cell_bytes and cells_per_block are powers of two, cell_bytes >= 8, cells_per_block >= 64.
    LinearArena(Allocator allocator, u32 cell_bytes, u32 cells_per_block);
    LinearArena(const LinearArena&) = delete;
    LinearArena& operator=(const LinearArena&) = delete;
    ~LinearArena();

    /// Numbers ever handed out are below this.
    u32 slots() const { return slots_; }
    /// Makes the next `count` acquire calls allocate nothing. May throw what the allocator throws; nothing changes then.
    void reserve(u32 count) {
        const u64 wanted = u64(slots_) + (count > free_count_ ? count - free_count_ : 0);
        if (wanted > u64(blocks_.size()) << block_shift_) [[unlikely]]
            add_blocks(wanted);
    }
    /// A free number. The cell of a number used for the first time is zero.
    u32 acquire() {
        if (free_head_ != no_slot) {
            const u32 index = free_head_;
            free_head_ = link(index);
            --free_count_;
            touch(index);
            return index;
        }
        if (slots_ >> block_shift_ == blocks_.size()) [[unlikely]]
            reserve(1);
        const u32 index = slots_++;
        touch(index);
        std::byte* const cell = static_cast<std::byte*>(at(index));
        if (cell_shift_ == 6) [[likely]]
            std::memset(cell, 0, 64);
        else
            std::memset(cell, 0, std::size_t(1) << cell_shift_);
        return index;
    }
    void release(u32 index) {
        const u32 next = free_head_;
        std::memcpy(static_cast<std::byte*>(at(index)) + link_offset(), &next, sizeof(next));
        free_head_ = index;
        ++free_count_;
        touch(index);
    }
    void* at(u32 index) { return blocks_.data()[index >> block_shift_] + (std::size_t(index & block_mask_) << cell_shift_); }
    const void* at(u32 index) const { return blocks_.data()[index >> block_shift_] + (std::size_t(index & block_mask_) << cell_shift_); }

    // Runs, for rollback: cells [64 run, 64 run + 64). Who writes a cell touches it; acquire and release do.
    static constexpr u32 run_cells = 64;
    void touch(u32 index) { touched_.data()[index / run_cells] = 1; }
    bool touched(u32 run) const { return touched_.data()[run] != 0; }
    void set_touched(u32 run, bool to) { touched_.data()[run] = u8(to); }
    u32 run_count() const { return slots_ / run_cells + (slots_ % run_cells != 0); }
    u32 cell_bytes() const { return u32(1) << cell_shift_; }
    /// Which numbers are handed out: with the cells, the whole state.
    struct Numbers {
        u32 slots = 0;
        u32 free_head = no_slot;
        u32 free_count = 0;
    };
    Numbers numbers() const { return {slots_, free_head_, free_count_}; }
    /// Numbers that this arena had before; its cells become what they were by other means.
    void set_numbers(const Numbers& numbers) {
        slots_ = numbers.slots;
        free_head_ = numbers.free_head;
        free_count_ = numbers.free_count;
    }
    /// Same cells, numbers and free list as `other`, which has the same shape. Keeps and reuses the blocks.
    void copy_from(const LinearArena& other);
    /// Forgets all numbers, keeps the memory.
    void reset();
    /// Bytes of the blocks and of their table.
    u64 memory_bytes() const {
        return (u64(blocks_.size()) * (u64(block_mask_) + 1) << cell_shift_) + u64(blocks_.capacity()) * sizeof(std::byte*) +
               touched_.capacity();
    }

private:
    /// So that there are cells for the numbers below `wanted`.
    void add_blocks(u64 wanted);
    std::size_t link_offset() const { return (std::size_t(1) << cell_shift_) - sizeof(u32); }
    u32 link(u32 index) const {
        u32 next;
        std::memcpy(&next, static_cast<const std::byte*>(at(index)) + link_offset(), sizeof(next));
        return next;
    }

    Array<std::byte*> blocks_;
    Array<u8> touched_; // by run
    u32 slots_ = 0;
    u32 free_head_ = no_slot;
    u32 free_count_ = 0;
    u32 cell_shift_;
    u32 block_shift_;
    u32 block_mask_;
};

/// Lists of 2^k u32, k in 4..15, carved out of slabs and kept in one free list per size. Memory returns to the allocator only
/// at the end, so a working set that repeats causes no heap traffic. Single-threaded.
class IndexPool {
public:
    static constexpr u32 min_log2 = 4;
    static constexpr u32 max_log2 = 15;

    explicit IndexPool(Allocator allocator) : slabs_(allocator) {}
    IndexPool(const IndexPool&) = delete;
    IndexPool& operator=(const IndexPool&) = delete;
    ~IndexPool();

    /// A list of 2^log2 entries, not initialised. May throw what the allocator throws.
    u32* take(u32 log2);
    void give(u32* list, u32 log2) noexcept;
    /// Makes the next `count` take calls of this size allocate nothing.
    void prime(u32 log2, u32 count);
    /// Takes every list back at once and keeps the slabs.
    void rewind();
    /// Bytes of the slabs and of their table.
    u64 memory_bytes() const {
        u64 bytes = u64(slabs_.capacity()) * sizeof(Slab);
        for (const Slab& slab : slabs_)
            bytes += slab.bytes;
        return bytes;
    }

private:
    struct Slab {
        std::byte* memory;
        std::size_t bytes;
    };
    Array<Slab> slabs_;
    std::size_t current_ = 0; // slab being carved
    std::size_t used_ = 0;    // bytes of it
    u32* free_[max_log2 + 1] = {};
};

} // namespace throng
