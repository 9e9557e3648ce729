#include "throng/rollback.hpp"
#include "throng/pool.hpp"
#include <bit>

namespace throng {
namespace detail {
namespace {
constexpr u32 slab_bytes = 64 * 1024;
}

CopyStock::~CopyStock() {
    for (std::byte* slab : slabs_)
        slabs_.allocator().free(slab, std::size_t(copies_a_slab_) * copy_bytes_, alignment_);
}

void CopyStock::set_shape(u32 copy_bytes, u32 alignment) {
    THRONG_ASSERT(slabs_.empty() && copy_bytes > 0 && copy_bytes % alignment == 0);
    copy_bytes_ = copy_bytes;
    alignment_ = alignment;
    copies_a_slab_ = copy_bytes < slab_bytes ? slab_bytes / copy_bytes : 1;
}

std::byte* CopyStock::take() {
    if (!free_) {
        slabs_.reserve_extra(1);
        std::byte* const slab = static_cast<std::byte*>(slabs_.allocator().allocate(std::size_t(copies_a_slab_) * copy_bytes_, alignment_));
        slabs_.push_back(slab);
        for (u32 i = copies_a_slab_; i > 0; --i)
            give(slab + std::size_t(i - 1) * copy_bytes_);
    }
    std::byte* const copy = free_;
    std::memcpy(&free_, copy, sizeof(free_));
    return copy;
}

void CopyStock::give(std::byte* copy) noexcept {
    std::memcpy(copy, &free_, sizeof(free_));
    free_ = copy;
}

} // namespace detail

namespace {
constexpr u32 line_bytes = 64;
/// Where the owners are in a copy.
u32 copied_owners(u32 stride) {
    return (PoolBase::run_rows * stride + line_bytes - 1) & ~(line_bytes - 1);
}
} // namespace

u32 PoolBase::run_copy_bytes() const {
    const u32 bytes = copied_owners(stride_) + run_rows * static_cast<u32>(sizeof(u32));
    return (bytes + block_alignment_ - 1) & ~(block_alignment_ - 1);
}

u32 PoolBase::save_run(u32 run, std::byte* copy) const {
    const u32 first = run * run_rows;
    const u32 count = size_ - first < run_rows ? size_ - first : run_rows;
    ops_->copy(copy, row(first), count);
    std::memcpy(copy + copied_owners(stride_), owners(first >> shift_) + (first & mask_), count * sizeof(u32));
    return count;
}

u32 PoolBase::restore_runs(u32 rows, const u64* stale, const detail::RunCopy* copies) {
    const auto is_stale = [stale](u32 run) { return (stale[run / 64] >> (run % 64) & 1) != 0; };
    for (u32 dense = 0; direct_ && dense < size_; ++dense)
        if (dense >= rows || is_stale(dense / run_rows))
            end_direct(owner(dense));
    if (rows < size_) {
        const u32 end = size_;
        end_rows(rows, end);
        size_ = rows;
        drop_marks(end);
        end_orders(rows, end);
    }
    struct Undo { // a copy threw: all rows but those of its run are there
        PoolBase* pool;
        u32 first = 0;
        ~Undo() {
            if (!pool)
                return;
            const u32 live = pool->size_;
            pool->end_rows(0, first);
            if (live > first + run_rows)
                pool->end_rows(first + run_rows, live);
            pool->forget_rows(pool->blocks_.size());
        }
    } undo{this};
    const u32 live = size_;
    const u32 runs = rows / run_rows + (rows % run_rows != 0);
    u32 written = 0;
    for (u32 word = 0; word <= runs / 64; ++word)
        for (u64 left = stale[word]; left != 0; left &= left - 1) {
            const u32 run = word * 64 + static_cast<u32>(std::countr_zero(left));
            if (run >= runs)
                break;
            const u32 first = run * run_rows;
            const u32 count = rows - first < run_rows ? rows - first : run_rows;
            undo.first = first;
            if (live > first)
                end_rows(first, live - first < run_rows ? live : first + run_rows);
            ops_->copy(row(first), copies[run].memory, count);
            const u32 block = first >> shift_, place = first & mask_;
            std::memcpy(mutable_owners(block) + place, copies[run].memory + copied_owners(stride_), count * sizeof(u32));
            change_words(block)[place / run_rows] = ~u64(0) >> (run_rows - count);
            BlockSummary& s = mutable_summary(block);
            s.seen |= u64(1) << place / run_rows;
            s.fresh &= ~(u64(1) << place / run_rows);
            s.written &= ~(u64(1) << place / run_rows);
            s.order = 0;
            ++written;
        }
    size_ = rows;
    undo.pool = nullptr;
    return written;
}

} // namespace throng
