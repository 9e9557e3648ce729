#include "throng/pool.hpp"
#include "throng/changes.hpp"
#include <bit>

namespace throng {
namespace {
constexpr u64 line_bytes = 64;
constexpr u64 to_line(u64 bytes) {
    return (bytes + line_bytes - 1) & ~(line_bytes - 1);
}
/// Bits [first, last] of a word.
constexpr u64 bits_between(u32 first, u32 last) {
    return (~u64(0) << first) & (~u64(0) >> (63 - last));
}
} // namespace

PoolBase::PoolBase(ComponentId id, const ComponentOps& ops, const Allocator& allocator, u32 block_rows)
    : blocks_(allocator), mask_(block_rows - 1), shift_(static_cast<u32>(std::countr_zero(block_rows))), stride_(ops.stride),
      component_(id), direct_(ops.direct), trivial_(!ops.relocate && !ops.destroy), ops_(&ops), direct_pages_(allocator) {
    THRONG_ASSERT(std::has_single_bit(block_rows) && block_rows >= 64 && block_rows <= 4096);
    const u64 owners = to_line(u64(block_rows) * stride_ + (stride_ == 0 ? ops.size : 0));
    const u64 changes = to_line(owners + u64(block_rows) * sizeof(u32));
    // The summary has a line of its own where the change words fill theirs.
    const u64 summary = changes + block_rows / 8;
    const u64 bytes = to_line(summary + sizeof(BlockSummary));
    THRONG_ASSERT(bytes <= 0xffffffffu && "a component too large for this block_rows");
    owners_offset_ = static_cast<u32>(owners);
    changes_offset_ = static_cast<u32>(changes);
    summary_offset_ = static_cast<u32>(summary);
    block_bytes_ = static_cast<u32>(bytes);
    block_alignment_ = ops.alignment > line_bytes ? ops.alignment : static_cast<u32>(line_bytes);
}

PoolBase::~PoolBase() {
    clear_rows();
    for (std::byte* memory : blocks_)
        blocks_.allocator().free(memory, block_bytes_, block_alignment_);
    for (DirectPage* page : direct_pages_)
        blocks_.allocator().free(page, sizeof(DirectPage), line_bytes);
}

void PoolBase::add_direct_pages(u64 slots) {
    const std::size_t needed = (slots + direct_page_rows - 1) / direct_page_rows;
    direct_pages_.reserve_extra(needed - direct_pages_.size());
    while (direct_pages_.size() < needed) {
        void* const page = blocks_.allocator().allocate(sizeof(DirectPage), line_bytes);
        std::memset(page, 0xff, sizeof(DirectPage));
        direct_pages_.push_back(static_cast<DirectPage*>(page));
    }
}

void PoolBase::add_blocks(u32 count) {
    const std::size_t needed = static_cast<std::size_t>((u64(size_) + count + mask_) >> shift_);
    THRONG_ASSERT(u64(size_) + count < no_row && "more than 2^32 - 2 rows");
    blocks_.reserve_extra(needed - blocks_.size());
    while (blocks_.size() < needed) {
        std::byte* memory = static_cast<std::byte*>(blocks_.allocator().allocate(block_bytes_, block_alignment_));
        std::memset(memory + changes_offset_, 0, block_bytes_ - changes_offset_);
        blocks_.push_back(memory);
    }
}

bool PoolBase::in_step(const PoolBase& other, u32 block_index, u64& orders) const {
    const u32 count = rows_in_block(block_index);
    if (block_index >= other.block_count() || other.rows_in_block(block_index) != count)
        return false;
    u64& mine = order(block_index);
    u64& theirs = other.order(block_index);
    u64 name = __atomic_load_n(&mine, __ATOMIC_RELAXED);
    if (name != 0 && name == __atomic_load_n(&theirs, __ATOMIC_RELAXED))
        return true;
    if (std::memcmp(owners(block_index), other.owners(block_index), count * sizeof(u32)) != 0)
        return false;
    // Another thread may name the same block meanwhile: any number that was never another order's name is right.
    if (name == 0) {
        name = __atomic_add_fetch(&orders, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&mine, name, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&theirs, name, __ATOMIC_RELAXED);
    return true;
}

void PoolBase::end_orders(u32 begin, u32 end) {
    for (u32 b = begin >> shift_; begin < end && b <= (end - 1) >> shift_; ++b)
        order(b) = 0;
}

namespace {
/// mark(word of a block's change words, bits) for the rows [first, last] of the block.
template <class F>
void for_words(u64* words, u32 first, u32 last, F&& mark) {
    const u32 begin = first >> 6, end = last >> 6;
    if (begin == end) {
        mark(words[begin], bits_between(first & 63, last & 63));
        return;
    }
    mark(words[begin], bits_between(first & 63, 63));
    for (u32 w = begin + 1; w < end; ++w)
        mark(words[w], ~u64(0));
    mark(words[end], bits_between(0, last & 63));
}
} // namespace

void PoolBase::mark_range(u32 begin, u32 end) {
    while (begin < end) {
        const u32 block = begin >> shift_;
        const u32 stop = begin | mask_, last = stop < end - 1 ? stop : end - 1;
        for_words(change_words(block), begin & mask_, last & mask_, [](u64& word, u64 bits) { word |= bits; });
        mutable_summary(block).fresh |= bits_between((begin & mask_) >> 6, (last & mask_) >> 6);
        begin = last + 1;
    }
}

void PoolBase::mark_range_shared(u32 begin, u32 end) {
    while (begin < end) {
        const u32 block = begin >> shift_;
        const u32 stop = begin | mask_, last = stop < end - 1 ? stop : end - 1;
        for_words(change_words(block), begin & mask_, last & mask_, [](u64& word, u64 bits) { or_shared(word, bits); });
        or_shared(mutable_summary(block).fresh, bits_between((begin & mask_) >> 6, (last & mask_) >> 6));
        begin = last + 1;
    }
}

void PoolBase::drop_marks(u32 end) {
    for (u32 dense = size_; dense < end;) {
        const u32 k = dense & mask_;
        const u32 stop = (dense | 63u) < end - 1 ? (dense | 63u) : end - 1;
        change_words(dense >> shift_)[k >> 6] &= ~bits_between(k & 63, stop & 63);
        dense = stop + 1;
    }
}

void PoolBase::clear_changes() {
    if (stream_) {
        stream_->fold(*this);
        stream_->owed().clear();
    }
    for (u32 b = 0; b < block_count(); ++b) {
        u64* const words = change_words(b);
        const u64 marked = change_summary(b);
        if (marked == 0)
            continue;
        for (u64 left = marked; left != 0; left &= left - 1)
            words[std::countr_zero(left)] = 0;
        end_changes(b);
    }
}

void PoolBase::prefetch_in_step(PoolBase* const* pools, u32 count, u32 dense) {
    const std::size_t block = dense >> pools[0]->shift_, place = dense & pools[0]->mask_;
    const std::size_t owner = place * sizeof(u32);
    for (u32 i = 0; i < count; ++i) {
        const PoolBase& pool = *pools[i];
        std::byte* const rows = pool.blocks_.data()[block];
        detail::prefetch_write(rows + place * pool.stride_);
        detail::prefetch_write(rows + pool.owners_offset_ + owner);
    }
}

void PoolBase::erase_in_step(PoolBase* const* pools, u32 count, u32 dense, u32* owners) {
    // Where things are in a block, from the owners on, is the same for all pools of a world: worked out once, then few values are
    // alive in the loop.
    const u32 last = pools[0]->size_ - 1;
    const std::size_t shift = pools[0]->shift_, mask = pools[0]->mask_;
    const std::size_t changes = pools[0]->changes_offset_ - pools[0]->owners_offset_;
    const std::size_t summary = pools[0]->summary_offset_ - pools[0]->owners_offset_;
    const std::size_t to_block = dense >> shift, from_block = last >> shift;
    const std::size_t hole = dense & mask, tail = last & mask;
    const std::size_t hole_word = changes + (hole >> 6) * sizeof(u64), tail_word = changes + (tail >> 6) * sizeof(u64);
    const u64 run = u64(1) << (hole >> 6);
    for (u32 i = 0; i < count; ++i) {
        PoolBase& pool = *pools[i];
        std::byte* const to = pool.blocks_.data()[to_block];
        std::byte* const from = pool.blocks_.data()[from_block];
        std::byte* const to_side = to + pool.owners_offset_;
        std::byte* const from_side = from + pool.owners_offset_;
        pool.size_ = last;
        u64& from_word = *reinterpret_cast<u64*>(from_side + tail_word);
        const u64 changed = from_word >> (tail & 63) & 1;
        from_word &= ~(u64(1) << (tail & 63));
        reinterpret_cast<BlockSummary*>(from_side + summary)->order = 0;
        u64& word = *reinterpret_cast<u64*>(to_side + hole_word);
        word = (word & ~(u64(1) << (hole & 63))) | changed << (hole & 63);
        BlockSummary& s = *reinterpret_cast<BlockSummary*>(to_side + summary);
        s.fresh |= run;
        s.order = 0;
        const u32 owner = reinterpret_cast<const u32*>(from_side)[tail];
        owners[i] = owner;
        if (pool.direct_) [[unlikely]] {
            pool.end_direct(reinterpret_cast<const u32*>(to_side)[hole]);
            pool.move_direct(owner, dense);
        }
        reinterpret_cast<u32*>(to_side)[hole] = owner;
        const std::size_t stride = pool.stride_;
        detail::copy_row(to + hole * stride, from + tail * stride, stride);
    }
}

u32 PoolBase::plan_moves(u32 rows, const u32* doomed, u32 count, RowMove* moves) {
    const u32 tail = rows - count;
    u64 ending[erase_rows_max / 64] = {};
    for (u32 i = 0; i < count; ++i)
        if (doomed[i] >= tail)
            ending[(doomed[i] - tail) >> 6] |= u64(1) << ((doomed[i] - tail) & 63);
    u32 move_count = 0;
    u32 from = tail;
    for (u32 i = 0; i < count; ++i) {
        if (doomed[i] >= tail)
            continue;
        while ((ending[(from - tail) >> 6] >> ((from - tail) & 63) & 1) != 0)
            ++from;
        moves[move_count++] = {from++, doomed[i]};
    }
    return move_count;
}

void PoolBase::build_copies(const void* value, u32 count) {
    for (u32 built = 0; built < count;) {
        const u32 dense = size_ + built;
        const u32 room = mask_ + 1 - (dense & mask_);
        const u32 part = count - built < room ? count - built : room;
        struct Undo {
            PoolBase& pool;
            u32 built;
            bool done = false;
            ~Undo() {
                if (!done)
                    pool.drop_uncommitted(built);
            }
        } undo{*this, built};
        ops_->fill(block(dense >> shift_) + std::size_t(dense & mask_) * stride_, value, part);
        undo.done = true;
        built += part;
    }
}

void PoolBase::drop_uncommitted(u32 count) {
    if (!ops_->destroy)
        return;
    for (u32 i = count; i > 0; --i) {
        const u32 dense = size_ + i - 1;
        ops_->destroy(block(dense >> shift_) + std::size_t(dense & mask_) * stride_, 1);
    }
}

void PoolBase::own_uncommitted(u32 first, const u32* owners, u32 count) {
    for (u32 done = 0; done < count;) {
        const u32 dense = size_ + first + done;
        const u32 room = mask_ + 1 - (dense & mask_);
        const u32 part = count - done < room ? count - done : room;
        std::memcpy(mutable_owners(dense >> shift_) + (dense & mask_), owners + done, part * sizeof(u32));
        done += part;
    }
}

void PoolBase::commit_rows(u32 count) {
    const u32 first = size_;
    size_ += count;
    mark_range(first, size_);
    end_orders(first, size_);
}

void PoolBase::end_rows(u32 begin, u32 end) {
    while (ops_->destroy && begin < end) {
        const u32 room = mask_ + 1 - (begin & mask_);
        const u32 part = end - begin < room ? end - begin : room;
        ops_->destroy(row(begin), part);
        begin += part;
    }
}

void PoolBase::forget_rows(u32 used) {
    for (u32 b = 0; b < used; ++b)
        std::memset(block(b) + changes_offset_, 0, block_bytes_ - changes_offset_);
    for (DirectPage* page : direct_pages_)
        std::memset(page, 0xff, sizeof(DirectPage));
    size_ = 0;
}

void PoolBase::clear_rows() {
    end_rows(0, size_);
    forget_rows(block_count());
}

void PoolBase::set_changed(u32 dense, bool to) {
    const u32 k = dense & mask_;
    u64& word = change_words(dense >> shift_)[k >> 6];
    word = (word & ~(u64(1) << (k & 63))) | u64(to) << (k & 63);
    mutable_summary(dense >> shift_).fresh |= u64(1) << (k >> 6); // the row is another one, changed or not
}

void PoolBase::permute_rows(u32* from) {
    const auto move = [this](void* to, void* row) {
        if (ops_->relocate)
            ops_->relocate(to, row);
        else
            std::memcpy(to, row, stride_);
    };
    void* const spare = next_row();
    for (u32 start = 0; start < size_; ++start) {
        if (from[start] == start)
            continue;
        // One cycle: the row at its start waits in the spare place until the hole has come round.
        move(spare, row(start));
        const u32 spare_owner = owner(start);
        const bool spare_changed = changed(start);
        u32 hole = start;
        for (u32 next = from[hole]; next != start; next = from[hole]) {
            move(row(hole), row(next));
            mutable_owners(hole >> shift_)[hole & mask_] = owner(next);
            set_changed(hole, changed(next));
            from[hole] = hole;
            hole = next;
        }
        move(row(hole), spare);
        mutable_owners(hole >> shift_)[hole & mask_] = spare_owner;
        set_changed(hole, spare_changed);
        from[hole] = hole;
    }
    end_orders(0, size_);
    for (u32 dense = 0; direct_ && dense < size_; ++dense)
        move_direct(owner(dense), dense);
}

void PoolBase::append_copies(const PoolBase& other, u32 row, u32 count) {
    while (count > 0) {
        const u32 room = mask_ + 1 - (size_ & mask_), left = mask_ + 1 - (row & mask_);
        u32 part = room < left ? room : left;
        part = part < count ? part : count;
        const u32 first = size_;
        ops_->copy(next_row(), other.row(row), part);
        std::memcpy(mutable_owners(first >> shift_) + (first & mask_), other.owners(row >> shift_) + (row & mask_), part * sizeof(u32));
        commit_rows(part);
        row += part;
        count -= part;
    }
}

void PoolBase::copy_from(const PoolBase& other) {
    THRONG_ASSERT(ops_->copyable && component_ == other.component_ && mask_ == other.mask_);
    clear_rows();
    reserve_rows(other.size_);
    reserve_direct(u64(other.direct_pages_.size()) * direct_page_rows);
    struct Undo {
        PoolBase* pool;
        ~Undo() {
            if (pool)
                pool->clear_rows();
        }
    } undo{this};
    // size_ grows with each finished block, so that a throwing copy leaves only whole ones to destroy.
    for (u32 b = 0; b < other.block_count(); ++b) {
        const u32 count = other.rows_in_block(b);
        ops_->copy(block(b), other.block(b), count);
        std::memcpy(block(b) + owners_offset_, other.block(b) + owners_offset_, std::size_t(count) * sizeof(u32));
        std::memcpy(block(b) + changes_offset_, other.block(b) + changes_offset_, summary_offset_ - changes_offset_);
        mutable_summary(b) = {other.change_summary(b), 0, 0, 0}; // the name of an order is of its world
        size_ += count;
    }
    for (u32 i = 0; i < other.direct_pages_.size(); ++i)
        std::memcpy(direct_pages_[i], other.direct_pages_[i], sizeof(DirectPage));
    undo.pool = nullptr;
}

} // namespace throng
