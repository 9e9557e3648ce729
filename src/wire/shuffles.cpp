#include "src/wire/shuffles.hpp"

namespace throng {
namespace {
constexpr u8 zero_byte = 0x80;

template <u32 Masks>
constexpr Shuffles<Masks> make_shuffles(u32 elements, bool pack) {
    Shuffles<Masks> result{};
    const u32 element_bytes = 16 / elements;
    for (u32 mask = 0; mask < Masks; ++mask) {
        for (u8& byte : result.bytes[mask])
            byte = zero_byte;
        u32 packed = 0;
        for (u32 element = 0; element < elements; ++element) {
            if ((mask >> element & 1) == 0)
                continue;
            for (u32 i = 0; i < element_bytes; ++i) {
                const u32 to = pack ? packed : element;
                const u32 from = pack ? element : packed;
                result.bytes[mask][to * element_bytes + i] = static_cast<u8>(from * element_bytes + i);
            }
            ++packed;
        }
    }
    return result;
}
} // namespace

constinit const Shuffles<256> pack16_shuffles = make_shuffles<256>(8, true);
constinit const Shuffles<256> unpack16_shuffles = make_shuffles<256>(8, false);
constinit const Shuffles<16> pack32_shuffles = make_shuffles<16>(4, true);
constinit const Shuffles<16> unpack32_shuffles = make_shuffles<16>(4, false);

} // namespace throng
