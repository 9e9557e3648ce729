#pragma once
// A hint to the system that a range of memory is used at random and should be mapped with huge pages. Without it, address translation
// costs more than the data for tables of tens of megabytes (docs/tuning.md has the figures).
#include "throng/base.hpp"

namespace throng {

inline constexpr std::size_t huge_page_bytes = std::size_t(2) << 20;

/// Only whole huge pages inside the range are affected. No-op where the system has no such hint.
void advise_huge_pages(void* memory, std::size_t bytes);

} // namespace throng
