#include "throng/wire.hpp"

namespace throng::detail {

void store_le_bytes(std::byte* bytes, u64 word, u32 count) {
    for (u32 i = 0; i < count; ++i)
        bytes[i] = static_cast<std::byte>(word >> (8 * i));
}

} // namespace throng::detail
