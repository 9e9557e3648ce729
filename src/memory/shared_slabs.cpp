#include "throng/assert.hpp"
#include "src/memory/huge_pages.hpp"
#include "throng/memory.hpp"
#include <bit>
#include <mutex>
#include <new>

namespace throng {
namespace {

constexpr std::size_t alignment_max = 64;
constexpr u32 small_classes = 16, classes_per_octave = 8, class_count = small_classes + 10 * classes_per_octave; // up to 1 MiB

struct SizeClass {
    u32 index;
    std::size_t bytes;
};

/// Multiples of 64 up to 1 KiB, then eight steps an octave.
SizeClass size_class(std::size_t bytes) {
    if (bytes <= small_classes * 64) {
        const std::size_t index = bytes == 0 ? 0 : (bytes - 1) / 64;
        return {static_cast<u32>(index), (index + 1) * 64};
    }
    const u32 octave = static_cast<u32>(std::bit_width(bytes - 1)) - 1; // 10 to 19
    const std::size_t step = (std::size_t(1) << octave) / classes_per_octave;
    const std::size_t above = (bytes - 1 - (std::size_t(1) << octave)) / step;
    return {small_classes + (octave - 10) * classes_per_octave + static_cast<u32>(above), (std::size_t(1) << octave) + (above + 1) * step};
}

} // namespace

struct SharedSlabs::Impl {
    Impl(Allocator a, SlabPages p) : upstream(a), pages(p) {}
    struct Free {
        Free* next;
    };
    struct Slab {
        Slab* next;
        std::size_t bytes;
    };
    Allocator upstream;
    const SlabPages pages;
    std::mutex mutex;
    Free* free[class_count] = {};
    Slab* slabs = nullptr;
    std::byte* next = nullptr;
    std::size_t left = 0, total = 0, used = 0;

    std::size_t block_bytes_max() const { return pages == SlabPages::huge ? std::size_t(1) << 20 : std::size_t(1) << 16; }
    std::size_t slab_unit() const { return pages == SlabPages::huge ? huge_page_bytes : std::size_t(1) << 18; }
    std::size_t slab_alignment() const { return pages == SlabPages::huge ? huge_page_bytes : alignment_max; }
    bool shared(std::size_t bytes, std::size_t alignment) const { return bytes <= block_bytes_max() && alignment <= alignment_max; }
    // Blocks too large to share take whole pages of their own.
    bool in_own_pages(std::size_t bytes) const { return pages == SlabPages::huge && bytes >= huge_page_bytes; }
    std::size_t own_alignment(std::size_t bytes, std::size_t alignment) const {
        return in_own_pages(bytes) && alignment < huge_page_bytes ? huge_page_bytes : alignment;
    }
    void* take_own(std::size_t bytes, std::size_t alignment) const {
        void* memory = upstream.allocate(bytes, own_alignment(bytes, alignment));
        if (in_own_pages(bytes))
            advise_huge_pages(memory, bytes);
        return memory;
    }
    void give_own(void* memory, std::size_t bytes, std::size_t alignment) const {
        upstream.free(memory, bytes, own_alignment(bytes, alignment));
    }

    void* take(std::size_t bytes) {
        const SizeClass wanted = size_class(bytes);
        const std::lock_guard lock(mutex);
        used += wanted.bytes;
        if (Free* block = free[wanted.index]) {
            free[wanted.index] = block->next;
            return block;
        }
        if (left < wanted.bytes)
            grow();
        std::byte* block = next;
        next += wanted.bytes;
        left -= wanted.bytes;
        return block;
    }
    void give(void* memory, std::size_t bytes) {
        const SizeClass given = size_class(bytes);
        const std::lock_guard lock(mutex);
        used -= given.bytes;
        free[given.index] = ::new (memory) Free{free[given.index]};
    }
    void grow() {
        const std::size_t quarter = (total / 4 + slab_unit() - 1) / slab_unit() * slab_unit();
        const std::size_t bytes = quarter < slab_unit() ? slab_unit() : quarter;
        auto* memory = static_cast<std::byte*>(upstream.allocate(bytes, slab_alignment()));
        if (pages == SlabPages::huge)
            advise_huge_pages(memory, bytes);
        slabs = ::new (memory) Slab{slabs, bytes};
        next = memory + alignment_max;
        left = bytes - alignment_max;
        total += bytes;
    }
};

SharedSlabs::SharedSlabs(Allocator upstream, SlabPages pages)
    : impl_(new (upstream.allocate(sizeof(Impl), alignof(Impl))) Impl(upstream, pages)) {}

SharedSlabs::~SharedSlabs() {
    THRONG_ASSERT(impl_->used == 0);
    const Allocator upstream = impl_->upstream;
    while (Impl::Slab* slab = impl_->slabs) {
        impl_->slabs = slab->next;
        upstream.free(slab, slab->bytes, impl_->slab_alignment());
    }
    impl_->~Impl();
    upstream.free(impl_, sizeof(Impl), alignof(Impl));
}

std::size_t SharedSlabs::bytes() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->total;
}

std::size_t SharedSlabs::used_bytes() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->used;
}

Allocator SharedSlabs::allocator() {
    const auto allocate = [](void* context, std::size_t bytes, std::size_t alignment) {
        auto* impl = static_cast<Impl*>(context);
        return impl->shared(bytes, alignment) ? impl->take(bytes) : impl->take_own(bytes, alignment);
    };
    const auto free = [](void* context, void* memory, std::size_t bytes, std::size_t alignment) {
        auto* impl = static_cast<Impl*>(context);
        if (impl->shared(bytes, alignment))
            impl->give(memory, bytes);
        else
            impl->give_own(memory, bytes, alignment);
    };
    return {allocate, free, impl_};
}

} // namespace throng
