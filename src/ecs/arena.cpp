#include "throng/arena.hpp"
#include <bit>

namespace throng {
namespace {
constexpr std::size_t line_bytes = 64;
constexpr std::size_t first_slab_bytes = 1024;
constexpr std::size_t largest_slab_bytes = 64 * 1024;

std::size_t list_bytes(u32 log2) {
    return sizeof(u32) << log2;
}

u32* next_free(u32* list) {
    u32* next;
    std::memcpy(&next, list, sizeof(next));
    return next;
}
} // namespace

LinearArena::LinearArena(Allocator allocator, u32 cell_bytes, u32 cells_per_block)
    : blocks_(allocator), touched_(allocator), cell_shift_(static_cast<u32>(std::countr_zero(cell_bytes))),
      block_shift_(static_cast<u32>(std::countr_zero(cells_per_block))), block_mask_(cells_per_block - 1) {
    THRONG_ASSERT(std::has_single_bit(cell_bytes) && cell_bytes >= 8 && std::has_single_bit(cells_per_block) &&
                  cells_per_block >= run_cells);
}

LinearArena::~LinearArena() {
    for (std::byte* block : blocks_)
        blocks_.allocator().free(block, std::size_t(block_mask_ + 1) << cell_shift_, line_bytes);
}

void LinearArena::add_blocks(u64 wanted) {
    THRONG_ASSERT(wanted < no_slot && "more than 2^32 - 1 slots");
    const std::size_t blocks = static_cast<std::size_t>((wanted + block_mask_) >> block_shift_);
    blocks_.reserve_extra(blocks - blocks_.size());
    if (const std::size_t runs = blocks << (block_shift_ - 6); runs > touched_.size())
        touched_.resize(runs);
    while (blocks_.size() < blocks)
        blocks_.push_back(static_cast<std::byte*>(blocks_.allocator().allocate(std::size_t(block_mask_ + 1) << cell_shift_, line_bytes)));
}

void LinearArena::copy_from(const LinearArena& other) {
    THRONG_ASSERT(cell_shift_ == other.cell_shift_ && block_shift_ == other.block_shift_);
    reset();
    reserve(other.slots_);
    slots_ = other.slots_;
    free_head_ = other.free_head_;
    free_count_ = other.free_count_;
    for (u32 first = 0; first < slots_; first += block_mask_ + 1) {
        const u32 count = slots_ - first < block_mask_ + 1 ? slots_ - first : block_mask_ + 1;
        std::memcpy(at(first), other.at(first), std::size_t(count) << cell_shift_);
        if (slots_ - first <= block_mask_ + 1)
            break; // `first` would wrap at the very end of the range
    }
}

void LinearArena::reset() {
    slots_ = 0;
    free_head_ = no_slot;
    free_count_ = 0;
}

IndexPool::~IndexPool() {
    for (const Slab& slab : slabs_)
        slabs_.allocator().free(slab.memory, slab.bytes, line_bytes);
}

u32* IndexPool::take(u32 log2) {
    THRONG_ASSERT(log2 >= min_log2 && log2 <= max_log2);
    if (u32* list = free_[log2]) {
        free_[log2] = next_free(list);
        return list;
    }
    const std::size_t bytes = list_bytes(log2);
    while (current_ < slabs_.size() && slabs_[current_].bytes - used_ < bytes) {
        ++current_;
        used_ = 0;
    }
    if (current_ == slabs_.size()) {
        slabs_.reserve_extra(1);
        std::size_t slab_bytes = slabs_.empty() ? first_slab_bytes : slabs_.back().bytes * 2;
        if (slab_bytes > largest_slab_bytes)
            slab_bytes = largest_slab_bytes;
        if (slab_bytes < bytes)
            slab_bytes = bytes;
        slabs_.push_back({static_cast<std::byte*>(slabs_.allocator().allocate(slab_bytes, line_bytes)), slab_bytes});
        used_ = 0;
    }
    u32* list = reinterpret_cast<u32*>(slabs_[current_].memory + used_);
    used_ += bytes;
    return list;
}

void IndexPool::give(u32* list, u32 log2) noexcept {
    std::memcpy(list, &free_[log2], sizeof(u32*));
    free_[log2] = list;
}

void IndexPool::prime(u32 log2, u32 count) {
    // Taken lists are chained through their own bytes, so that a throwing allocator loses none of them.
    struct Taken {
        IndexPool& pool;
        u32 log2;
        u32* head = nullptr;
        ~Taken() {
            while (head) {
                u32* const next = next_free(head);
                pool.give(head, log2);
                head = next;
            }
        }
    } taken{*this, log2};
    for (u32 i = 0; i < count; ++i) {
        u32* const list = take(log2);
        std::memcpy(list, &taken.head, sizeof(u32*));
        taken.head = list;
    }
}

void IndexPool::rewind() {
    current_ = 0;
    used_ = 0;
    for (u32*& head : free_)
        head = nullptr;
}

} // namespace throng
