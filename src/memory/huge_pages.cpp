#include "src/memory/huge_pages.hpp"
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace throng {

void advise_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(memory) + huge_page_bytes - 1) & ~(huge_page_bytes - 1);
    const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) & ~(huge_page_bytes - 1);
    if (begin < end)
        (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE); // a refusal costs speed only
#endif
}

} // namespace throng
