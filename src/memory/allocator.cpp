#include "throng/memory.hpp"
#include <new>

namespace throng {

Allocator default_allocator() {
    return {[](void*, std::size_t bytes, std::size_t alignment) { return ::operator new(bytes, std::align_val_t(alignment)); },
            [](void*, void* memory, std::size_t, std::size_t alignment) { ::operator delete(memory, std::align_val_t(alignment)); },
            nullptr};
}

} // namespace throng
