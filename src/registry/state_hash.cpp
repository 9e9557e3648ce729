#include "src/registry/state_hash.hpp"
#include "src/registry/section.hpp"
#include "throng/assert.hpp"
#include <bit>
#include <cstring>
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

template <class T>
i64 load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}
i64 element(const std::byte* from, u32 bytes) { return bytes == 2 ? load<i16>(from) : bytes == 4 ? load<i32>(from) : load<i64>(from); }

/// has(component, lane); value(component, column, lane).
template <class Has, class Value>
u64 sum_of_terms(const Layout& layout, u32 chunk, const OccupantBlock& occupants, u64 lanes, const u64* const* opaque_hashes, Has&& has,
                 Value&& value) {
    THRONG_ASSERT((lanes & ~occupants.alive) == 0);
    u64 sum = 0;
    std::byte term[term_bytes_max];
    for (u64 m = lanes; m; m &= m - 1) {
        const u32 lane = static_cast<u32>(std::countr_zero(m));
        const auto head = [&](u8 component) {
            return put(put(put(put(term, chunk), static_cast<u8>(lane)), component), occupants.net_id[lane].value);
        };
        sum += XXH3_64bits(term, static_cast<std::size_t>(head(occupancy_index) - term));
        for (u32 c = 0; c < layout.component_count; ++c) {
            if (!has(c, lane))
                continue;
            const LayoutComponent& component = layout.components[c];
            std::byte* end = head(static_cast<u8>(c));
            if (component.opaque)
                end = put(end, opaque_hashes[c][lane]);
            for (u32 i = 0; i < component.column_count; ++i)
                end = put(end, value(c, layout.columns[component.first_column + i], lane));
            sum += XXH3_64bits(term, static_cast<std::size_t>(end - term));
        }
    }
    return sum;
}
} // namespace

u64 state_hash_lanes(const Layout& layout, u32 chunk, const ChunkState& state, u64 lanes, const u64* const* opaque_hashes) {
    return sum_of_terms(
        layout, chunk, *state.occupants, lanes, opaque_hashes,
        [&](u32 c, u32 lane) { return state.blocks[c] && (header(state.blocks[c]).present >> lane & 1) != 0; },
        [&](u32 c, const Column& column, u32 lane) {
            return element(state.blocks[c] + column.offset_bytes + lane * column.element_bytes, column.element_bytes);
        });
}

u64 state_hash_lanes(const Layout& layout, u32 chunk, const OccupantBlock& occupants, const RowState& state, u64 lanes,
                     const u64* const* opaque_hashes) {
    return sum_of_terms(
        layout, chunk, occupants, lanes, opaque_hashes, [&](u32 c, u32 lane) { return (state.headers[c].present >> lane & 1) != 0; },
        [&](u32, const Column& column, u32 lane) { return row_element(state.row(layout, lane), column); });
}

u64 opaque_hash(const std::byte* bytes, std::size_t count) { return XXH3_64bits(bytes, count); }

} // namespace throng
