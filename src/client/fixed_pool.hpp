#pragma once
// Elements of one size from slabs that start small and grow, so that thousands of clients in one process cost little
// while they see little. Memory goes back to the allocator when the pool dies.
#include "throng/assert.hpp"
#include "throng/memory.hpp"
#include <new>

namespace throng {

class FixedPool {
public:
    static constexpr u32 alignment_bytes = 64;
    static constexpr u32 slab_elements_min = 4;
    static constexpr u32 slab_elements_max = 64;

    FixedPool() = default;
    FixedPool(const FixedPool&) = delete;
    FixedPool& operator=(const FixedPool&) = delete;
    ~FixedPool() { release_all(); }

    void init(Allocator allocator, std::size_t element_bytes) {
        THRONG_ASSERT(!slabs_);
        allocator_ = allocator;
        element_bytes_ = (element_bytes + alignment_bytes - 1) & ~std::size_t(alignment_bytes - 1);
    }
    std::size_t element_bytes() const { return element_bytes_; }
    /// Bytes of the elements taken.
    std::size_t used_bytes() const { return used_ * element_bytes_; }

    /// Not initialised. Allocates when no element is free.
    void* take() {
        if (!free_)
            grow();
        Node* node = free_;
        free_ = node->next;
        ++used_;
        return node;
    }
    void give(void* element) {
        --used_;
        chain(element);
    }
    /// Frees all slabs; every element taken is gone.
    void release_all() {
        while (slabs_) {
            Slab* slab = slabs_;
            slabs_ = slab->next;
            allocator_.free(slab, slab->bytes, alignment_bytes);
        }
        free_ = nullptr;
        used_ = 0;
        slab_elements_ = slab_elements_min;
    }

private:
    struct Node {
        Node* next;
    };
    struct Slab {
        Slab* next;
        std::size_t bytes;
    };

    void chain(void* element) { free_ = ::new (element) Node{free_}; }
    void grow() {
        const std::size_t bytes = alignment_bytes + element_bytes_ * slab_elements_;
        auto* memory = static_cast<std::byte*>(allocator_.allocate(bytes, alignment_bytes));
        slabs_ = ::new (memory) Slab{slabs_, bytes};
        for (u32 i = slab_elements_; i-- > 0;)
            chain(memory + alignment_bytes + i * element_bytes_);
        slab_elements_ = slab_elements_ * 2 < slab_elements_max ? slab_elements_ * 2 : slab_elements_max;
    }

    Allocator allocator_{};
    std::size_t element_bytes_ = 0, used_ = 0;
    Node* free_ = nullptr;
    Slab* slabs_ = nullptr;
    u32 slab_elements_ = slab_elements_min;
};

} // namespace throng
