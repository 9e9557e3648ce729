#include "src/wire/shuffles.hpp"

namespace throng {
namespace {
constexpr u8 zero_byte = 0x80;

constexpr Shuffles make_shuffles(bool pack) {
    Shuffles result{};
    for (u32 mask = 0; mask < 256; ++mask) {
        for (u8& byte : result.bytes[mask])
            byte = zero_byte;
        u32 packed = 0;
        for (u32 element = 0; element < 8; ++element) {
            if ((mask >> element & 1) == 0)
                continue;
            const u32 to = pack ? packed : element;
            const u32 from = pack ? element : packed;
            result.bytes[mask][2 * to] = static_cast<u8>(2 * from);
            result.bytes[mask][2 * to + 1] = static_cast<u8>(2 * from + 1);
            ++packed;
        }
    }
    return result;
}
} // namespace

constinit const Shuffles pack16_shuffles = make_shuffles(true);
constinit const Shuffles unpack16_shuffles = make_shuffles(false);

} // namespace throng
