#pragma once
// What a fuzz target defines and the replay program calls.
//
//     throng::u64 throng::fuzz::accepted_count = 0;
//     extern "C" int LLVMFuzzerTestOneInput(const throng::u8* data, std::size_t size_bytes) {
//         if (decode({data, size_bytes}) == throng::Error::none)
//             ++throng::fuzz::accepted_count;
//         return 0;
//     }
#include "throng/base.hpp"

namespace throng::fuzz {

/// Inputs that the decoder under test took as good. A corpus that never gets past the first check tests nothing, so the
/// replay fails while this is 0.
extern u64 accepted_count;

} // namespace throng::fuzz

extern "C" int LLVMFuzzerTestOneInput(const throng::u8* data, std::size_t size_bytes);
