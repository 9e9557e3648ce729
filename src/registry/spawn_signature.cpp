#include "throng/spawn_signature.hpp"
#include <xxhash.h>

namespace throng::detail {

u64 signature_word(const void* bytes, std::size_t count) {
    return XXH3_64bits(bytes, count);
}

u64 signature_of_words(u64 salt, const u64* words, std::size_t count) { // little-endian hosts only
    const u64 hash = XXH3_64bits_withSeed(words, count * sizeof *words, salt);
    return hash ? hash : 1;
}

} // namespace throng::detail
