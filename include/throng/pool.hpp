#pragma once
// A pool stores all components of one type. Blocks of block_rows rows; a block is one allocation:
//
//   T rows[block_rows] | u32 owner[block_rows] | u64 changed[block_rows / 64] | u64 summary
//
// with each column on cache lines of its own. The change words of two blocks never share a line, so that jobs that own whole
// blocks never write the same line. Rows are dense: removing one moves the last row into the hole, and that is the only time a
// row moves. Blocks never move and are kept until the pool ends.
#include "throng/array.hpp"
#include "throng/entity.hpp"

namespace throng {

class PoolBase;

/// An empty trivial type, such as `struct Replicated {};`: it has rows, but no bytes. All its rows share one address.
template <class T>
inline constexpr bool is_tag = std::is_empty_v<T> && std::is_trivially_copyable_v<T> && std::is_trivially_default_constructible_v<T>;

/// What a pool does with rows whose type it does not know. One constant table per type.
struct ComponentOps {
    u32 size;
    u32 stride; ///< bytes from row to row: size, or 0 for tags
    u32 alignment;
    bool copyable; ///< copy and fill are there
    /// Builds a Pool<T> in `memory`, which has the size and alignment of a PoolBase.
    void (*create_pool)(void* memory, ComponentId id, const Allocator& allocator, u32 block_rows);
    /// Value-initialises a row. Null when T has no default constructor.
    void (*construct)(void* row);
    /// Destroys rows. Null when there is nothing to do.
    void (*destroy)(void* rows, u32 count);
    /// Removes a row; returns the owner of the row that moved into its place, or no_row.
    u32 (*erase)(PoolBase& pool, u32 dense);
    /// Copy-construct `count` rows, from as many or from one; if one throws, those already built are destroyed.
    void (*copy)(void* to, const void* from, u32 count);
    void (*fill)(void* to, const void* value, u32 count);
};

/// The parts of a pool that do not depend on the type. Not virtual: one table pointer per pool, no pointer per row. Thread rule:
/// reading from any number of threads; marking only where this says so; all else alone.
class alignas(64) PoolBase {
public:
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
    const u64* change_words(u32 block_index) const {
        return reinterpret_cast<const u64*>(block(block_index) + changes_offset_);
    }
    /// Bit w: word w may be non-zero. Never 0 where a word is not.
    u64& change_summary(u32 block_index) { return *reinterpret_cast<u64*>(block(block_index) + summary_offset_); }
    u64 change_summary(u32 block_index) const {
        return *reinterpret_cast<const u64*>(block(block_index) + summary_offset_);
    }
    bool changed(u32 dense) const {
        const u32 k = dense & mask_;
        return (change_words(dense >> shift_)[k >> 6] >> (k & 63) & 1) != 0;
    }
    void mark_changed(u32 dense) {
        const u32 k = dense & mask_;
        change_words(dense >> shift_)[k >> 6] |= u64(1) << (k & 63);
        change_summary(dense >> shift_) |= u64(1) << (k >> 6);
    }
    /// The same, from several threads at once, any rows.
    void mark_changed_shared(u32 dense) {
        const u32 k = dense & mask_;
        or_shared(change_words(dense >> shift_)[k >> 6], u64(1) << (k & 63));
        or_shared(change_summary(dense >> shift_), u64(1) << (k >> 6));
    }
    /// Marks rows [begin, end), end <= size().
    void mark_range(u32 begin, u32 end);
    /// Marks rows from several threads. exclusive_words: no other thread marks rows of the same 64.
    void mark_range_shared(u32 begin, u32 end, bool exclusive_words);
    /// Clears all change bits; costs a load a block where nothing changed.
    void clear_changes();

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
    void begin_iteration() const { __atomic_fetch_add(&iterating_, 1u, __ATOMIC_RELAXED); }
    void end_iteration() const { __atomic_fetch_sub(&iterating_, 1u, __ATOMIC_RELAXED); }
    /// Place of the row after the last one; reserve_rows came before.
    void* next_row() { return block(size_ >> shift_) + std::size_t(size_ & mask_) * stride_; }
    /// Makes the row built at next_row() a row: owner set, marked changed. Returns its number.
    u32 commit_row(u32 owner_idx) {
        const u32 dense = size_++;
        mutable_owners(dense >> shift_)[dense & mask_] = owner_idx;
        mark_changed(dense);
        return dense;
    }
    u32* mutable_owners(u32 block_index) { return reinterpret_cast<u32*>(block(block_index) + owners_offset_); }
    /// Copies `value` into the rows after the last one, uncommitted; if a copy throws, none is left.
    void build_copies(const void* value, u32 count);
    /// Destroys `count` uncommitted rows after the last one.
    void drop_uncommitted(u32 count);
    /// Makes `count` built rows rows, marked changed; their owners are set by the caller afterwards.
    void commit_rows(u32 count);
    /// Destroys all rows.
    void clear_rows();
    /// Same rows, owners and change bits as `other`, a pool of the same type and shape. If a copy throws, the pool is empty.
    void copy_from(const PoolBase& other);

protected:
    PoolBase(ComponentId id, const ComponentOps& ops, const Allocator& allocator, u32 block_rows);
    template <class T>
    friend u32 erase_row(PoolBase& pool, u32 dense);

    std::byte* block(u32 index) const { return blocks_.data()[index]; }
    static void or_shared(u64& word, u64 bits) {
        // Testing first keeps the line shared between the threads when the bits are set already.
        if ((__atomic_load_n(&word, __ATOMIC_RELAXED) & bits) != bits)
            __atomic_fetch_or(&word, bits, __ATOMIC_RELAXED);
    }
    void add_blocks(u32 count);
    /// Bookkeeping of a removal, after the bytes of row size()-1 went to `dense`. Returns what ComponentOps::erase returns.
    u32 erase_bookkeeping(u32 dense) {
        const u32 last = --size_;
        const u32 last_k = last & mask_;
        u64& last_word = change_words(last >> shift_)[last_k >> 6];
        const u64 bit = last_word >> (last_k & 63) & 1;
        last_word &= ~(u64(1) << (last_k & 63));
        if (dense == last)
            return no_row;
        const u32 k = dense & mask_;
        u64& word = change_words(dense >> shift_)[k >> 6];
        word = (word & ~(u64(1) << (k & 63))) | bit << (k & 63);
        change_summary(dense >> shift_) |= bit << (k >> 6);
        const u32 moved = owner(last);
        mutable_owners(dense >> shift_)[k] = moved;
        return moved;
    }

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
    const ComponentOps* ops_;
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

private:
    template <class U>
    friend void create_pool(void*, ComponentId, const Allocator&, u32);
    Pool(ComponentId id, const ComponentOps& ops, const Allocator& allocator, u32 block_rows) : PoolBase(id, ops, allocator, block_rows) {}
};

template <class T>
u32 erase_row(PoolBase& pool, u32 dense) {
    const u32 last = pool.size_ - 1;
    if constexpr (is_tag<T>) {
    } else if constexpr (std::is_trivially_copyable_v<T>) {
        if (dense != last)
            std::memcpy(pool.row(dense), pool.row(last), sizeof(T));
    } else {
        T* const hole = static_cast<T*>(pool.row(dense));
        T* const tail = static_cast<T*>(pool.row(last));
        hole->~T();
        if (dense != last) {
            ::new (static_cast<void*>(hole)) T(std::move(*tail));
            tail->~T();
        }
    }
    return pool.erase_bookkeeping(dense);
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
        BuiltRows<T> rows{static_cast<T*>(to)};
        for (; rows.built < count; ++rows.built)
            ::new (static_cast<void*>(rows.first + rows.built)) T(*static_cast<const T*>(value));
        rows.keep = true;
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
    ops.create_pool = &create_pool<T>;
    ops.erase = &erase_row<T>;
    if constexpr (std::is_default_constructible_v<T>)
        ops.construct = &construct_row<T>;
    if constexpr (!std::is_trivially_destructible_v<T>)
        ops.destroy = &destroy_rows<T>;
    if constexpr (std::is_copy_constructible_v<T>) {
        ops.copy = &copy_rows<T>;
        ops.fill = &fill_rows<T>;
    }
    return ops;
}

} // namespace throng
