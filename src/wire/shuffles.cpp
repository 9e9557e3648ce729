#include "src/wire/shuffles.hpp"

namespace throng {
namespace {
constexpr u8 zero_byte = 0x80;

constexpr Shuffles make_unpack16() {
    Shuffles result{};
    for (u32 mask = 0; mask < 256; ++mask) {
        for (u8& byte : result.bytes[mask])
            byte = zero_byte;
        u32 packed = 0;
        for (u32 element = 0; element < 8; ++element) {
            if ((mask >> element & 1) == 0)
                continue;
            result.bytes[mask][2 * element] = static_cast<u8>(2 * packed);
            result.bytes[mask][2 * element + 1] = static_cast<u8>(2 * packed + 1);
            ++packed;
        }
    }
    return result;
}
} // namespace

constinit const Shuffles unpack16_shuffles = make_unpack16();

} // namespace throng
