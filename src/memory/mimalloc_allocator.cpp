#include "throng/mimalloc.hpp"
#include <cstdlib>
#include <mimalloc.h>

namespace throng {

Allocator mimalloc_allocator() {
    return {[](void*, std::size_t bytes, std::size_t alignment) -> void* {
                // mimalloc gives null for 0 bytes with some alignments; the hook promises a block.
                void* memory = mi_malloc_aligned(bytes ? bytes : 1, alignment);
                if (!memory)
                    std::abort();
                return memory;
            },
            [](void*, void* memory, std::size_t, std::size_t alignment) { mi_free_aligned(memory, alignment); }, nullptr};
}

} // namespace throng
