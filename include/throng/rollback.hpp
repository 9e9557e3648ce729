#pragma once
// What a rollback ring keeps: copies of runs, 64 rows of a pool or 64 entity slots each. Part of throng/world.hpp; the ring itself is
// BasicRollbackRing in world_rollback.hpp.
#include "throng/array.hpp"
#include "throng/entity.hpp"
#include <concepts>

namespace throng {

/// What snapshots of any kind may hold.
template <class T>
concept SnapshotComponent = std::is_copy_constructible_v<T>;

namespace detail {

/// A run as it was once: `count` rows, slots or links from its first on. Null memory: it was not there.
struct RunCopy {
    std::byte* memory = nullptr;
    u32 count = 0;
};

/// Memory for copies of one size, from slabs that are kept until the end.
class CopyStock {
public:
    explicit CopyStock(const Allocator& allocator) : slabs_(allocator) {}
    CopyStock(CopyStock&&) noexcept = default;
    CopyStock& operator=(CopyStock&&) = delete;
    ~CopyStock();
    /// Once, before take: multiples of `alignment`, which is 64 at least.
    void set_shape(u32 copy_bytes, u32 alignment);
    u32 copy_bytes() const { return copy_bytes_; }
    /// May throw what the allocator throws.
    std::byte* take();
    void give(std::byte* copy) noexcept;
    u64 memory_bytes() const { return u64(slabs_.size()) * copies_a_slab_ * copy_bytes_ + u64(slabs_.capacity()) * sizeof(std::byte*); }

private:
    Array<std::byte*> slabs_;
    std::byte* free_ = nullptr; // chained through their first bytes
    u32 copy_bytes_ = 0;
    u32 alignment_ = 0;
    u32 copies_a_slab_ = 0;
};

/// The runs of one store, a pool, the slots or the links of a relation, in the state that the ring stands at.
struct RollbackColumn {
    explicit RollbackColumn(const Allocator& allocator) : stock(allocator), runs(allocator), stale(allocator) {}
    CopyStock stock;
    Array<RunCopy> runs;
    Array<u64> stale; // during a restore: runs in which the world may differ, one bit each
    void set_stale(u32 run) { stale[run / 64] |= u64(1) << (run % 64); }
    bool is_stale(u32 run) const { return (stale[run / 64] >> (run % 64) & 1) != 0; }
    u64 memory_bytes() const { return stock.memory_bytes() + u64(runs.capacity()) * sizeof(RunCopy) + u64(stale.capacity()) * sizeof(u64); }
};

/// A run that two frames that follow each other have differently, and its copy in that one of them at which the ring does not stand.
struct RollbackChange {
    u32 column;
    u32 run;
    RunCopy copy;
};

} // namespace detail
} // namespace throng
