#pragma once
// Where memory comes from. Everything the library owns is taken through an Allocator that the host passes in; the
// default one uses the aligned operator new. memory_pmr.hpp adapts a std::pmr::memory_resource (kept apart: that header
// alone is 43,000 preprocessed lines).
#include "throng/base.hpp"

namespace throng {

/// A pair of functions and a context, copied by value. Thread rule: allocate and free may be called from any worker,
/// also at the same time. allocate never returns null (it may throw or abort).
struct Allocator {
    void* (*allocate_fn)(void* context, std::size_t bytes, std::size_t alignment) = nullptr;
    void (*free_fn)(void* context, void* memory, std::size_t bytes, std::size_t alignment) = nullptr;
    void* context = nullptr;

    void* allocate(std::size_t bytes, std::size_t alignment) const { return allocate_fn(context, bytes, alignment); }
    void free(void* memory, std::size_t bytes, std::size_t alignment) const {
        if (memory)
            free_fn(context, memory, bytes, alignment);
    }
};

/// Aligned operator new and delete of the process.
Allocator default_allocator();

/// What the slabs of a SharedSlabs are made of.
enum class SlabPages : u8 {
    normal, ///< slabs of 256 KiB and more; blocks of up to 64 KiB come from them
    huge,   ///< slabs of whole 2 MiB pages, aligned to them and hinted as huge to the system (Linux; else no hint); blocks of up to 1 MiB
            ///< come from them, and those of 2 MiB and more are aligned and hinted themselves
};

/// One stock of memory for many owners that each grow and shrink a little, such as the clients of one process and their worlds: what
/// one gives back another takes, so that their sum, which is steady, decides what is taken from upstream, and not the peaks of each.
/// Blocks of up to 64 KiB come from slabs that grow with what is in use (by a quarter) and stay until the end; larger ones and those
/// aligned to more than 64 bytes go upstream. Sizes are rounded up, by an eighth at most beyond 1 KiB and to 64 bytes below.
/// With SlabPages::huge it backs one large world: blocks of its pools and slots then lie together in huge pages, which spares address
/// translation where rows are looked up at random in tens of megabytes. Must outlive the worlds, and their snapshots.
class SharedSlabs {
public:
    explicit SharedSlabs(Allocator upstream = default_allocator(), SlabPages pages = SlabPages::normal);
    /// Everything must have been given back.
    ~SharedSlabs();
    SharedSlabs(const SharedSlabs&) = delete;
    SharedSlabs& operator=(const SharedSlabs&) = delete;
    /// Valid as long as this. Any thread, also at the same time (a lock is held for some loads and stores).
    Allocator allocator();
    /// Of all slabs.
    std::size_t bytes() const;
    /// Of the blocks in them that are handed out, as rounded.
    std::size_t used_bytes() const;

private:
    struct Impl;
    Impl* impl_;
};

} // namespace throng
