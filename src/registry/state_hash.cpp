#include "src/registry/state_hash.hpp"
#include "src/registry/section.hpp"
#include "throng/assert.hpp"
#include <bit>
#include <xxhash.h>

namespace throng {
namespace {
/// Component index of the term that stands for the lane itself.
constexpr u8 occupancy_index = 255;
constexpr u32 head_bytes = 4 + 1 + 1 + 8;
constexpr u32 term_bytes_max = head_bytes + ComponentInfo::fields_max * 8;

template <class T>
std::byte* put(std::byte* out, T value) {
    for (u32 i = 0; i < sizeof(T); ++i)
        *out++ = static_cast<std::byte>(static_cast<u64>(value) >> (8 * i));
    return out;
}

i64 element(const std::byte* block, const Column& column, u32 lane) {
    switch (column.element_bytes) {
    case 2: return column_data<i16>(block, column)[lane];
    case 4: return column_data<i32>(block, column)[lane];
    default: return column_data<i64>(block, column)[lane];
    }
}
} // namespace

u64 state_hash_lanes(const Layout& layout, u32 chunk, const ChunkState& state, u64 lanes, const u64* const* opaque_hashes) {
    THRONG_ASSERT((lanes & ~state.occupants->alive) == 0);
    u64 sum = 0;
    std::byte term[term_bytes_max];
    for (u64 m = lanes; m; m &= m - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(m));
        const auto head = [&](u8 component) {
            return put(put(put(put(term, chunk), static_cast<u8>(lane)), component), state.occupants->net_id[lane].value);
        };
        sum += XXH3_64bits(term, static_cast<std::size_t>(head(occupancy_index) - term));
        for (u32 c = 0; c < layout.component_count; ++c) {
            const std::byte* block = state.blocks[c];
            if (!block || !(header(block).present >> lane & 1))
                continue;
            const LayoutComponent& component = layout.components[c];
            std::byte* end = head(static_cast<u8>(c));
            if (component.opaque)
                end = put(end, opaque_hashes[c][lane]);
            for (u32 i = 0; i < component.column_count; ++i)
                end = put(end, element(block, layout.columns[component.first_column + i], lane));
            sum += XXH3_64bits(term, static_cast<std::size_t>(end - term));
        }
    }
    return sum;
}

u64 opaque_hash(const std::byte* bytes, std::size_t count) { return XXH3_64bits(bytes, count); }

} // namespace throng
