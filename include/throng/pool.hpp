#pragma once
// A pool stores all components of one type. Blocks of block_rows rows; a block is one allocation:
//
//   T rows[block_rows] | u32 owner[block_rows] | u64 changed[block_rows / 64] | BlockSummary
//
// with each column on cache lines of its own. The change words of two blocks never share a line, so that jobs that own whole
// blocks never write the same line. Rows are dense: removing one moves the last row into the hole, and that is the only time a
// row moves. Blocks never move and are kept until the pool ends.
#include "throng/array.hpp"
#include "throng/entity.hpp"
#include "throng/relation.hpp"

namespace throng {

class PoolBase;
namespace detail {
class ChangeStream;
struct RunCopy;

/// Copies a row whose size is known at run time alone; the two do not overlap. Small ones in line.
inline void copy_row(std::byte* to, const std::byte* from, std::size_t bytes) {
    constexpr std::size_t part = 16, in_line_max = 64;
    if (bytes > in_line_max) {
        std::memcpy(to, from, bytes);
    } else if (bytes >= part) { // the last part may cover some of the one before
        for (std::size_t at = 0; at + part < bytes; at += part)
            std::memcpy(to + at, from + at, part);
        std::memcpy(to + bytes - part, from + bytes - part, part);
    } else if (bytes >= 8) {
        std::memcpy(to, from, 8);
        std::memcpy(to + bytes - 8, from + bytes - 8, 8);
    } else if (bytes >= 4) {
        std::memcpy(to, from, 4);
        std::memcpy(to + bytes - 4, from + bytes - 4, 4);
    } else {
        for (std::size_t i = 0; i < bytes; ++i)
            to[i] = from[i];
    }
}
} // namespace detail

/// An empty trivial type, such as `struct Replicated {};`: it has rows, but no bytes. All its rows share one address.
template <class T>
inline constexpr bool is_tag = std::is_empty_v<T>&& std::is_trivially_copyable_v<T>&& std::is_trivially_default_constructible_v<T>;

/// What a block says of its runs: 64 rows, those of one change word, one bit each. Writers touch `fresh` alone; who clears marks or
/// saves rows moves the bits on, so that both learn of every write without a cost to the writer.
struct BlockSummary {
    u64 fresh;   ///< written since marks were cleared and rows were saved, whichever came last
    u64 seen;    ///< of what was saved: marks not cleared yet
    u64 written; ///< of what was cleared: rows not saved yet
    u64 order;   ///< a name of the owners of the rows and their places, the same for blocks known to be in step; 0: none
};

/// A row of a pool's tail that goes into the hole of a removed one.
struct RowMove {
    u32 from;
    u32 hole;
};

/// What a pool does with rows whose type it does not know. One constant table per type.
struct ComponentOps {
    u32 size;
    u32 stride; ///< bytes from row to row: size, or 0 for tags
    u32 alignment;
    bool copyable; ///< copy and fill are there
    bool direct;   ///< direct_index of the type
    const detail::RelationOps* relation; ///< null for types that are none
    /// Replaces the handles inside a row. Null unless maps_entities.
    void (*map_entities)(void* row, const EntityMap& map);
    /// Builds a Pool<T> in `memory`, which has the size and alignment of a PoolBase.
    void (*create_pool)(void* memory, ComponentId id, const Allocator& allocator, u32 block_rows);
    /// Value-initialises a row. Null when T has no default constructor.
    void (*construct)(void* row);
    /// Destroys rows. Null when there is nothing to do.
    void (*destroy)(void* rows, u32 count);
    /// Removes a row; returns the owner of the row that moved into its place, or no_row.
    u32 (*erase)(PoolBase& pool, u32 dense);
    /// Removes `count` different rows in one go, as planned by PoolBase::plan_moves; fills owners[i] with whose row the i-th move was.
    void (*erase_rows)(PoolBase& pool, const u32* doomed, u32 count, const RowMove* moves, u32 move_count, u32* owners);
    /// Moves a row to where none is, and ends the old one. Null when a copy of the bytes does that.
    void (*relocate)(void* to, void* from);
    /// Copy-construct `count` rows, from as many or from one; if one throws, those already built are destroyed.
    void (*copy)(void* to, const void* from, u32 count);
    void (*fill)(void* to, const void* value, u32 count);
};

/// The parts of a pool that do not depend on the type. Not virtual: one table pointer per pool, no pointer per row. Thread rule:
/// reading from any number of threads; marking only where this says so; all else alone.
class alignas(64) PoolBase {
public:
    /// Rows that one plan_moves takes.
    static constexpr u32 erase_rows_max = 2048;

    PoolBase(const PoolBase&) = delete;
    PoolBase& operator=(const PoolBase&) = delete;

    u32 size() const { return size_; }
    u32 block_rows() const { return mask_ + 1; }
    /// Blocks that hold rows; block b holds rows_in_block(b) of them, all full but the last.
    u32 block_count() const { return static_cast<u32>((u64(size_) + mask_) >> shift_); }
    u32 rows_in_block(u32 block) const {
        const u32 left = size_ - (block << shift_);
        return left < mask_ + 1 ? left : mask_ + 1;
    }
    /// Where row `dense` is: in this block, at this place.
    u32 block_of(u32 dense) const { return dense >> shift_; }
    u32 place_of(u32 dense) const { return dense & mask_; }
    ComponentId component() const { return component_; }
    u32 row_bytes() const { return ops_->size; }
    /// Bytes from one row to the next in a block: row_bytes(), or 0 for a tag type.
    u32 row_stride() const { return stride_; }
    const ComponentOps& ops() const { return *ops_; }

    /// `dense` < size(). The address is good until a component of this type is removed.
    void* row(u32 dense) { return block(dense >> shift_) + std::size_t(dense & mask_) * stride_; }
    const void* row(u32 dense) const { return block(dense >> shift_) + std::size_t(dense & mask_) * stride_; }
    /// First row of a block, `block` < block_count().
    void* rows(u32 block_index) { return block(block_index); }
    const void* rows(u32 block_index) const { return block(block_index); }
    /// entity_idx of the entity that has the row.
    u32 owner(u32 dense) const { return owners(dense >> shift_)[dense & mask_]; }
    const u32* owners(u32 block_index) const { return reinterpret_cast<const u32*>(block(block_index) + owners_offset_); }

    /// One bit a row, block_rows()/64 words. Bits beyond the last row are 0.
    u64* change_words(u32 block_index) { return reinterpret_cast<u64*>(block(block_index) + changes_offset_); }
    const u64* change_words(u32 block_index) const { return reinterpret_cast<const u64*>(block(block_index) + changes_offset_); }
    /// Bit w: word w may be non-zero. Never 0 where a word is not.
    u64 change_summary(u32 block_index) const { return summary(block_index).fresh | summary(block_index).seen; }
    /// For who has set all change words of a block to 0 itself.
    void end_changes(u32 block_index) {
        BlockSummary& s = mutable_summary(block_index);
        s.written |= s.fresh;
        s.fresh = s.seen = 0;
    }
    /// Marks rows of one change word at once.
    void mark_word(u32 block_index, u32 word, u64 bits) {
        change_words(block_index)[word] |= bits;
        mutable_summary(block_index).fresh |= u64(1) << word;
    }
    /// The same, from several threads at once, any rows.
    void mark_word_shared(u32 block_index, u32 word, u64 bits) {
        or_shared(change_words(block_index)[word], bits);
        or_shared(mutable_summary(block_index).fresh, u64(1) << word);
    }
    const BlockSummary& summary(u32 block_index) const {
        return *reinterpret_cast<const BlockSummary*>(block(block_index) + summary_offset_);
    }
    bool changed(u32 dense) const {
        const u32 k = dense & mask_;
        return (change_words(dense >> shift_)[k >> 6] >> (k & 63) & 1) != 0;
    }
    void mark_changed(u32 dense) {
        const u32 k = dense & mask_;
        mark_word(dense >> shift_, k >> 6, u64(1) << (k & 63));
    }
    /// The same, from several threads at once, any rows.
    void mark_changed_shared(u32 dense) {
        const u32 k = dense & mask_;
        mark_word_shared(dense >> shift_, k >> 6, u64(1) << (k & 63));
    }
    /// Marks rows [begin, end), end <= size().
    void mark_range(u32 begin, u32 end);
    /// The same, from several threads at once, any rows. Costs an atomic operation for each word of which it marks a part and where a
    /// mark is new; words that it marks whole cost a store.
    void mark_range_shared(u32 begin, u32 end);
    /// Clears all change bits, after handing them to the readers of changes; costs a load a block where nothing changed.
    /// (Who clears the words by itself calls World::sync_changes before.)
    void clear_changes();

    /// Brings the change words of a block into the cache; a hint, any number is allowed.
    void prefetch_changes(u32 block_index) const {
        if (block_index < blocks_.size())
            for (u32 at = changes_offset_; at < block_bytes_; at += 64)
                detail::prefetch_write(block(block_index) + at);
    }
    /// Brings what removing a row touches into the cache.
    void prefetch_row(u32 dense) const {
        const std::byte* const memory = block(dense >> shift_);
        const u32 k = dense & mask_;
        detail::prefetch_write(memory + std::size_t(k) * stride_);
        detail::prefetch_write(memory + owners_offset_ + std::size_t(k) * sizeof(u32));
        detail::prefetch_write(memory + changes_offset_ + std::size_t(k >> 6) * sizeof(u64));
    }
    /// Row of a handle, by the direct index: no_row if the entity has none. Its id and all handed out so far are below 2^32 - 1.
    u32 direct_row(Entity entity) const {
        const DirectPage* const page = direct_page(entity.entity_idx);
        const u32 k = entity.entity_idx % direct_page_rows;
        return page && page->ids[k] == u32(entity.entity_id) ? page->rows[k] : no_row;
    }
    /// The same for a slot, whatever lives there.
    u32 direct_row_at(u32 entity_idx) const {
        const DirectPage* const page = direct_page(entity_idx);
        return page ? page->rows[entity_idx % direct_page_rows] : no_row;
    }
    /// Whether the handle's entity has a row. Ids as for direct_row.
    bool direct_has(Entity entity) const {
        const DirectPage* const page = direct_page(entity.entity_idx);
        return page && page->ids[entity.entity_idx % direct_page_rows] == u32(entity.entity_id);
    }
    /// Enters all rows into the direct index; `id_of(owner)` is the entity_id in a slot. reserve_direct came before.
    template <class F>
    void index_rows(F&& id_of) {
        for (u32 dense = 0; direct_ && dense < size_; ++dense)
            set_direct(owner(dense), id_of(owner(dense)), dense);
    }
    /// Room in the direct index for slots below `slots`. Nothing for types without one. May throw what the allocator throws.
    void reserve_direct(u64 slots) {
        if (direct_ && slots > u64(direct_pages_.size()) * direct_page_rows) [[unlikely]]
            add_direct_pages(slots);
    }
    /// Makes room for `count` more rows without allocation. May throw what the allocator throws.
    void reserve_rows(u32 count) {
        if (u64(size_) + count > u64(blocks_.size()) << shift_) [[unlikely]]
            add_blocks(count);
    }
    /// A loop over this pool runs; structural changes to it are refused.
    bool iterating() const { return __atomic_load_n(&iterating_, __ATOMIC_RELAXED) != 0; }

    /// Destroys all rows. The world ends its pools through this.
    ~PoolBase();

    // --- for the world -------------------------------------------------------------------------------------------------
    /// Why a structural change of this pool has more to do than to move rows.
    enum Watch : u8 { watch_logged = 1, watch_streamed = 2, watch_hooked = 4 };
    /// A set of Watch; 0 for most pools.
    u8 watch() const { return watch_; }
    void set_watch(u8 reasons) { watch_ = reasons; }
    /// Whether the block has the same owners at the same places as that of `other`, a pool of the same world. What a comparison of the
    /// columns found is kept until rows move, as a number out of `orders` (of the world) that both blocks get. Any thread, while
    /// structure stands still.
    bool in_step(const PoolBase& other, u32 block_index, u64& orders) const;
    void begin_iteration() const { __atomic_fetch_add(&iterating_, 1u, __ATOMIC_RELAXED); }
    void end_iteration() const { __atomic_fetch_sub(&iterating_, 1u, __ATOMIC_RELAXED); }
    /// Place of the row after the last one; reserve_rows came before.
    void* next_row() { return block(size_ >> shift_) + std::size_t(size_ & mask_) * stride_; }
    /// Makes the row built at next_row() a row: owner set, marked changed; reserve_direct came before. Returns its number.
    u32 commit_row(u32 owner_idx, u64 entity_id) {
        if (direct_) [[unlikely]]
            set_direct(owner_idx, entity_id, size_);
        return commit_unindexed(owner_idx);
    }
    /// The same for a type without a direct index.
    u32 commit_unindexed(u32 owner_idx) {
        const u32 dense = size_++;
        const u32 k = dense & mask_;
        std::byte* const memory = block(dense >> shift_);
        BlockSummary& tail = *reinterpret_cast<BlockSummary*>(memory + summary_offset_);
        u64* const words = reinterpret_cast<u64*>(memory + changes_offset_);
        reinterpret_cast<u32*>(memory + owners_offset_)[k] = owner_idx;
        words[k >> 6] |= u64(1) << (k & 63);
        tail.fresh |= u64(1) << (k >> 6);
        tail.order = 0;
        return dense;
    }
    /// ComponentOps::erase, in line for types whose rows a copy of bytes moves.
    [[gnu::always_inline]] inline u32 erase_any(u32 dense);
    /// A copy of bytes moves a row.
    bool trivial() const { return trivial_; }
    // For several trivial pools of one world and size, in which rows of one number go, not the last ones.
    static void prefetch_in_step(PoolBase* const* pools, u32 count, u32 dense);
    /// erase_any for all; owners[i] had the last row of pools[i].
    static void erase_in_step(PoolBase* const* pools, u32 count, u32 dense, u32* owners);
    /// Which rows of the tail of a pool with `rows` rows go where when `count` <= erase_rows_max different ones are removed: the last
    /// `count` rows are the tail, the doomed ones in it end where they are, and its survivors move into the holes before it, in the
    /// order of both. Pools with the same rows in the same order stay in step. Returns the number of moves.
    static u32 plan_moves(u32 rows, const u32* doomed, u32 count, RowMove* moves);
    /// What the readers of changes of this type share; null without any.
    detail::ChangeStream* change_stream() const { return stream_; }
    void set_change_stream(detail::ChangeStream* stream) { stream_ = stream; }
    u32* mutable_owners(u32 block_index) { return reinterpret_cast<u32*>(block(block_index) + owners_offset_); }
    /// Copies `value` into the rows after the last one, uncommitted; if a copy throws, none is left.
    void build_copies(const void* value, u32 count);
    /// Destroys `count` uncommitted rows after the last one.
    void drop_uncommitted(u32 count);
    /// Sets the owners of uncommitted rows, from the `first` one after the last row on.
    void own_uncommitted(u32 first, const u32* owners, u32 count);
    /// Enters uncommitted rows into the direct index, entities[i] as owner of the i-th after the last row.
    void index_uncommitted(const Entity* entities, u32 count) {
        for (u32 i = 0; direct_ && i < count; ++i)
            set_direct(entities[i].entity_idx, entities[i].entity_id, size_ + i);
    }
    /// Makes `count` built rows rows, marked changed; their owners are set before or afterwards.
    void commit_rows(u32 count);
    /// Destroys all rows.
    void clear_rows();
    /// Row i becomes what row from[i] was, with owner and change bit. `from` is a permutation of the rows, and is used up. There is
    /// room for a row more (reserve_rows), through which the rows are moved.
    void permute_rows(u32* from);
    /// Copies rows [row, row + count) of `other`, a pool of the same type and shape, to the end, marked changed. Room for them is there.
    /// If a copy throws, rows of whole blocks may have been added.
    void append_copies(const PoolBase& other, u32 row, u32 count);
    // Runs, for rollback: rows [64 run, 64 run + 64). A copy holds up to 64 rows and their owners.
    static constexpr u32 run_rows = 64;
    u32 run_count() const { return size_ / run_rows + (size_ % run_rows != 0); }
    u32 run_copy_bytes() const;
    u32 run_copy_alignment() const { return block_alignment_; }
    /// Runs of a block whose rows were written, moved or added since each was last saved or restored, one bit each.
    u64 written_runs(u32 block_index) const { return summary(block_index).fresh | summary(block_index).written; }
    /// Copies a run; returns how many rows. May throw what a copy throws; nothing is built then.
    u32 save_run(u32 run, std::byte* copy) const;
    void end_written(u32 run) { end_written(run >> (shift_ - 6), u64(1) << (run & ((mask_ + 1) / run_rows - 1))); }
    /// A save of the run is taken back.
    void set_written(u32 run) { mutable_summary(run >> (shift_ - 6)).written |= u64(1) << (run & ((mask_ + 1) / run_rows - 1)); }
    /// Makes the pool what it was when it had `rows` rows: the runs whose bit is set become their copies, with all rows marked, and
    /// others are that already. Room for the rows and the direct index are there; index_runs comes next. If a copy throws, the pool is
    /// empty. Returns the number of runs written.
    u32 restore_runs(u32 rows, const u64* stale, const detail::RunCopy* copies);
    /// Enters the rows of these runs into the direct index.
    template <class F>
    void index_runs(const u64* stale, F&& id_of) {
        for (u32 dense = 0; direct_ && dense < size_; ++dense)
            if ((stale[dense >> 12] >> (dense >> 6 & 63) & 1) != 0)
                set_direct(owner(dense), id_of(owner(dense)), dense);
    }
    /// Bytes of the blocks and of their table.
    u64 memory_bytes() const {
        return u64(blocks_.size()) * block_bytes_ + u64(direct_pages_.size()) * sizeof(DirectPage) +
               (u64(blocks_.capacity()) + direct_pages_.capacity()) * sizeof(void*);
    }
    /// Same rows, owners and change bits as `other`, a pool of the same type and shape. If a copy throws, the pool is empty.
    void copy_from(const PoolBase& other);

protected:
    PoolBase(ComponentId id, const ComponentOps& ops, const Allocator& allocator, u32 block_rows);
    template <class T>
    friend u32 erase_row(PoolBase& pool, u32 dense);
    /// Removes a row; returns the owner of the row that moved into its place, or no_row. end(rows, place) ends the last row where it is the
    /// one, else move(to, place, from, row) puts it into the place of the removed one.
    template <bool Direct, class End, class Move>
    [[gnu::always_inline]] inline u32 take_out(u32 dense, End&& end, Move&& move);
    template <class T>
    friend void erase_rows(PoolBase& pool, const u32* doomed, u32 count, const RowMove* moves, u32 move_count, u32* owners);

    std::byte* block(u32 index) const { return blocks_.data()[index]; }
    BlockSummary& mutable_summary(u32 block_index) { return *reinterpret_cast<BlockSummary*>(block(block_index) + summary_offset_); }
    void end_written(u32 block_index, u64 runs) {
        BlockSummary& s = mutable_summary(block_index);
        s.seen |= s.fresh & runs;
        s.fresh &= ~runs;
        s.written &= ~runs;
    }
    /// Loops that only read give names, too.
    u64& order(u32 block_index) const { return reinterpret_cast<BlockSummary*>(block(block_index) + summary_offset_)->order; }
    /// Ends the names of the blocks of rows [begin, end).
    void end_orders(u32 begin, u32 end);
    static void or_shared(u64& word, u64 bits) {
        // Testing first keeps the line shared between the threads when the bits are set already.
        if ((__atomic_load_n(&word, __ATOMIC_RELAXED) & bits) == bits)
            return;
        if (bits == ~u64(0))
            __atomic_store_n(&word, bits, __ATOMIC_RELAXED); // nothing that another thread sets is missing in it
        else
            __atomic_fetch_or(&word, bits, __ATOMIC_RELAXED);
    }
    void add_blocks(u32 count);

    static constexpr u32 direct_page_rows = 4096;
    /// By entity_idx. All bits set where there is no row. Two columns: loops read rows alone, and `has` ids alone.
    struct DirectPage {
        u32 rows[direct_page_rows];
        u32 ids[direct_page_rows]; ///< low halves of the owners' entity_ids
    };
    const DirectPage* direct_page(u32 entity_idx) const {
        const u32 page = entity_idx / direct_page_rows;
        return page < direct_pages_.size() ? direct_pages_.data()[page] : nullptr;
    }
    void set_direct(u32 entity_idx, u64 entity_id, u32 dense) {
        DirectPage& page = *direct_pages_.data()[entity_idx / direct_page_rows];
        page.rows[entity_idx % direct_page_rows] = dense;
        page.ids[entity_idx % direct_page_rows] = u32(entity_id);
    }
    void end_direct(u32 entity_idx) { set_direct(entity_idx, ~u64(0), no_row); }
    void move_direct(u32 entity_idx, u32 dense) {
        direct_pages_.data()[entity_idx / direct_page_rows]->rows[entity_idx % direct_page_rows] = dense;
    }
    void add_direct_pages(u64 slots);
    /// Ends the marks of rows [size_, end), which were removed.
    void drop_marks(u32 end);
    /// Destroys rows [begin, end), nothing else.
    void end_rows(u32 begin, u32 end);
    /// No rows, no marks, nothing in the direct index; the rows of `used` blocks are destroyed already.
    void forget_rows(u32 used);
    void set_changed(u32 dense, bool to);

    Array<std::byte*> blocks_;
    u32 size_ = 0;
    u32 mask_;
    u32 shift_;
    u32 stride_;
    u32 owners_offset_;
    u32 changes_offset_;
    u32 summary_offset_;
    u32 block_bytes_;
    u32 block_alignment_;
    mutable u32 iterating_ = 0;
    ComponentId component_;
    bool direct_;
    bool trivial_; ///< a copy of bytes moves a row
    u8 watch_ = 0;
    const ComponentOps* ops_;
    detail::ChangeStream* stream_ = nullptr;
    Array<DirectPage*> direct_pages_;
};

/// A PoolBase that knows its type. No members of its own.
template <class T>
class Pool : public PoolBase {
    static_assert(std::is_nothrow_move_constructible_v<T>, "a component is moved when another one is removed, which must not throw");
    static_assert(std::is_nothrow_destructible_v<T>);

public:
    T& operator[](u32 dense) { return element(rows(dense >> shift_), dense & mask_); }
    const T& operator[](u32 dense) const { return element(rows(dense >> shift_), dense & mask_); }
    T* rows(u32 block_index) { return reinterpret_cast<T*>(block(block_index)); }
    const T* rows(u32 block_index) const { return reinterpret_cast<const T*>(block(block_index)); }
    /// Row k of a column that starts at `first`: first[k], or *first for tags.
    template <class Row>
    static Row& element(Row* first, u32 k) {
        if constexpr (is_tag<T>)
            return *first;
        else
            return first[k];
    }
    /// Builds a T at next_row(), from constructor arguments or, for aggregates, from members. Not committed.
    template <class... A>
    T* build_next(A&&... args) {
        void* place = next_row();
        if constexpr (std::is_constructible_v<T, A...>)
            return ::new (place) T(std::forward<A>(args)...);
        else
            return ::new (place) T{std::forward<A>(args)...};
    }
    /// commit_row, which knows the type.
    u32 commit_next(u32 owner_idx, u64 entity_id) {
        if constexpr (direct_index<T>)
            return commit_row(owner_idx, entity_id);
        else
            return commit_unindexed(owner_idx);
    }

private:
    template <class U>
    friend void create_pool(void*, ComponentId, const Allocator&, u32);
    Pool(ComponentId id, const ComponentOps& ops, const Allocator& allocator, u32 block_rows) : PoolBase(id, ops, allocator, block_rows) {}
};

template <bool Direct, class End, class Move>
inline u32 PoolBase::take_out(u32 dense, End&& end, Move&& move) {
    // Everything is read from the pool once: the compiler cannot know that the row's bytes are no part of it.
    const u32 last = --size_;
    const u32 shift = shift_, mask = mask_;
    const u32 owners = owners_offset_, changes = changes_offset_, summary = summary_offset_;
    std::byte* const* const blocks = blocks_.data();
    std::byte* const from = blocks[last >> shift];
    if constexpr (Direct)
        end_direct(reinterpret_cast<const u32*>(blocks[dense >> shift] + owners)[dense & mask]);
    u64& from_word = reinterpret_cast<u64*>(from + changes)[(last & mask) >> 6];
    const u64 changed = from_word >> (last & 63) & 1;
    from_word &= ~(u64(1) << (last & 63));
    reinterpret_cast<BlockSummary*>(from + summary)->order = 0;
    if (dense == last) {
        end(from, last & mask);
        return no_row;
    }
    std::byte* const to = blocks[dense >> shift];
    const u32 k = dense & mask;
    u64& word = reinterpret_cast<u64*>(to + changes)[k >> 6];
    word = (word & ~(u64(1) << (k & 63))) | changed << (k & 63);
    BlockSummary& tail = *reinterpret_cast<BlockSummary*>(to + summary);
    tail.fresh |= u64(1) << (k >> 6);
    tail.order = 0;
    const u32 moved = reinterpret_cast<const u32*>(from + owners)[last & mask];
    reinterpret_cast<u32*>(to + owners)[k] = moved;
    if constexpr (Direct)
        move_direct(moved, dense);
    move(to, k, from, last & mask);
    return moved;
}

template <class T>
u32 erase_row(PoolBase& pool, u32 dense) {
    return pool.take_out<direct_index<T>>(
        dense,
        [](std::byte* rows, u32 place) {
            if constexpr (!std::is_trivially_destructible_v<T>)
                (reinterpret_cast<T*>(rows) + place)->~T();
        },
        [](std::byte* to, u32 place, std::byte* from, u32 row) {
            if constexpr (is_tag<T>) {
            } else if constexpr (std::is_trivially_copyable_v<T>) {
                std::memcpy(to + std::size_t(place) * sizeof(T), from + std::size_t(row) * sizeof(T), sizeof(T));
            } else {
                T* const hole = reinterpret_cast<T*>(to) + place;
                T* const survivor = reinterpret_cast<T*>(from) + row;
                hole->~T();
                ::new (static_cast<void*>(hole)) T(std::move(*survivor));
                survivor->~T();
            }
        });
}

// Types take turns in a destruction, so a call by a pointer from a table costs as much as the work behind it.
inline u32 PoolBase::erase_any(u32 dense) {
    if (direct_ | !trivial_) [[unlikely]]
        return ops_->erase(*this, dense);
    return take_out<false>(
        dense, [](std::byte*, u32) {},
        [stride = std::size_t(stride_)](std::byte* to, u32 place, const std::byte* from, u32 row) {
            detail::copy_row(to + place * stride, from + row * stride, stride);
        });
}

template <class T>
void erase_rows(PoolBase& pool, const u32* doomed, u32 count, const RowMove* moves, u32 move_count, u32* moved_owners) {
    constexpr u32 ahead = 12;
    const u32 end = pool.size_;
    if constexpr (!std::is_trivially_destructible_v<T>)
        for (u32 i = 0; i < count; ++i)
            static_cast<T*>(pool.row(doomed[i]))->~T();
    if constexpr (direct_index<T>)
        for (u32 i = 0; i < count; ++i)
            pool.end_direct(pool.owner(doomed[i]));
    const u32 shift = pool.shift_, mask = pool.mask_;
    const u32 owners = pool.owners_offset_, changes = pool.changes_offset_, summary = pool.summary_offset_;
    std::byte* const* const blocks = pool.blocks_.data();
    for (u32 i = 0; i < move_count; ++i) {
        if (i + ahead < move_count) {
            const u32 later = moves[i + ahead].hole;
            std::byte* const rows = blocks[later >> shift];
            detail::prefetch_write(rows + std::size_t(later & mask) * (is_tag<T> ? 0 : sizeof(T)));
            detail::prefetch_write(rows + owners + std::size_t(later & mask) * sizeof(u32));
        }
        const u32 from = moves[i].from, hole = moves[i].hole;
        std::byte* const source = blocks[from >> shift];
        std::byte* const target = blocks[hole >> shift];
        const u32 row = from & mask, k = hole & mask;
        const u32 owner = reinterpret_cast<const u32*>(source + owners)[row];
        reinterpret_cast<u32*>(target + owners)[k] = owner;
        moved_owners[i] = owner;
        if constexpr (direct_index<T>)
            pool.move_direct(owner, hole);
        const u64 changed = reinterpret_cast<const u64*>(source + changes)[row >> 6] >> (row & 63) & 1;
        u64& word = reinterpret_cast<u64*>(target + changes)[k >> 6];
        word = (word & ~(u64(1) << (k & 63))) | changed << (k & 63);
        BlockSummary& s = *reinterpret_cast<BlockSummary*>(target + summary);
        s.fresh |= u64(1) << (k >> 6);
        s.order = 0;
        if constexpr (is_tag<T>) {
        } else if constexpr (std::is_trivially_copyable_v<T>) {
            std::memcpy(target + std::size_t(k) * sizeof(T), source + std::size_t(row) * sizeof(T), sizeof(T));
        } else {
            T* const survivor = reinterpret_cast<T*>(source) + row;
            ::new (static_cast<void*>(reinterpret_cast<T*>(target) + k)) T(std::move(*survivor));
            survivor->~T();
        }
    }
    pool.size_ = end - count;
    pool.drop_marks(end);
    pool.end_orders(pool.size_, end);
}

namespace detail {
/// Destroys rows [0, built) of a column unless told that all went well.
template <class T>
struct BuiltRows {
    T* first;
    u32 built = 0;
    bool keep = false;
    ~BuiltRows() {
        if (!keep)
            while (built > 0)
                first[--built].~T();
    }
};
template <class T>
void construct_row(void* row) {
    ::new (row) T();
}
template <class T>
void destroy_rows(void* rows, u32 count) {
    for (u32 i = 0; i < count; ++i)
        static_cast<T*>(rows)[i].~T();
}
template <class T>
void relocate_row(void* to, void* from) {
    ::new (to) T(std::move(*static_cast<T*>(from)));
    static_cast<T*>(from)->~T();
}
template <class T>
void copy_rows(void* to, const void* from, u32 count) {
    if constexpr (is_tag<T>) {
    } else if constexpr (std::is_trivially_copyable_v<T>) {
        std::memcpy(to, from, std::size_t(count) * sizeof(T));
    } else {
        BuiltRows<T> rows{static_cast<T*>(to)};
        for (; rows.built < count; ++rows.built)
            ::new (static_cast<void*>(rows.first + rows.built)) T(static_cast<const T*>(from)[rows.built]);
        rows.keep = true;
    }
}
template <class T>
void fill_rows(void* to, const void* value, u32 count) {
    if constexpr (!is_tag<T>) {
        if constexpr (std::is_trivially_copyable_v<T>) {
            T* const rows = static_cast<T*>(to);
            const T copy = *static_cast<const T*>(value); // the compiler cannot know that no row is the value
            for (u32 i = 0; i < count; ++i)
                std::memcpy(static_cast<void*>(rows + i), &copy, sizeof(T));
        } else {
            BuiltRows<T> rows{static_cast<T*>(to)};
            for (; rows.built < count; ++rows.built)
                ::new (static_cast<void*>(rows.first + rows.built)) T(*static_cast<const T*>(value));
            rows.keep = true;
        }
    }
}
template <class T>
constexpr ComponentOps make_component_ops();
} // namespace detail

template <class T>
inline constexpr ComponentOps component_ops = detail::make_component_ops<T>();

template <class T>
void create_pool(void* memory, ComponentId id, const Allocator& allocator, u32 block_rows) {
    static_assert(sizeof(Pool<T>) == sizeof(PoolBase));
    ::new (memory) Pool<T>(id, component_ops<T>, allocator, block_rows);
}

template <class T>
constexpr ComponentOps detail::make_component_ops() {
    ComponentOps ops{};
    ops.size = static_cast<u32>(sizeof(T));
    ops.stride = is_tag<T> ? 0 : ops.size;
    ops.alignment = static_cast<u32>(alignof(T));
    ops.copyable = std::is_copy_constructible_v<T>;
    ops.direct = direct_index<T>;
    if constexpr (Relation<T>)
        ops.relation = &detail::relation_ops<T>;
    if constexpr (maps_entities<T>)
        ops.map_entities = [](void* row, const EntityMap& map) { static_cast<T*>(row)->map_entities(map); };
    ops.create_pool = &create_pool<T>;
    ops.erase = &erase_row<T>;
    ops.erase_rows = &erase_rows<T>;
    if constexpr (std::is_default_constructible_v<T>)
        ops.construct = &construct_row<T>;
    if constexpr (!std::is_trivially_destructible_v<T>)
        ops.destroy = &destroy_rows<T>;
    if constexpr (!std::is_trivially_copyable_v<T>)
        ops.relocate = &relocate_row<T>;
    if constexpr (std::is_copy_constructible_v<T>) {
        ops.copy = &copy_rows<T>;
        ops.fill = &fill_rows<T>;
    }
    return ops;
}

} // namespace throng
