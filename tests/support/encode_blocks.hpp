#pragma once
// Encodes a section from the blocks of a ChunkState (as the client keeps them), where the server has rows.
#include "src/registry/section.hpp"
#include <bit>
#include <vector>

namespace throng {

struct BlockInput {
    const Layout* layout = nullptr;
    ChunkState current;
    ChunkState baseline; // blocks == nullptr: full
    const OpaqueLanes* const* opaque = nullptr;
    const u64* kept = nullptr;
    u64 lanes = 0;
    Tick tick = 0;
    Tick baseline_tick = 0;
    bool spatial = false;
    i32 origin[2] = {0, 0};
    u32 cell_steps = 0;
};

/// The rows of some lanes of a state.
class RowsOfBlocks {
public:
    RowsOfBlocks(const RowsOfBlocks&) = delete;
    RowsOfBlocks(const Layout& layout, const ChunkState& state, u64 lanes) : bytes_(std::size_t(layout.row_bytes) * lane_count / 8) {
        for (u32 c = 0; c < layout.component_count; ++c) {
            headers_[c] = state.blocks[c] ? header(state.blocks[c]) : BlockHeader{};
            past.headers[c] = &headers_[c];
        }
        now = {reinterpret_cast<const std::byte*>(bytes_.data()), headers_};
        for (; lanes; lanes &= lanes - 1) {
            const u32 lane = static_cast<u32>(std::countr_zero(lanes));
            std::byte* row = reinterpret_cast<std::byte*>(bytes_.data()) + std::size_t(lane) * layout.row_bytes;
            past.rows[lane] = row;
            for (u32 i = 0; i < layout.column_count; ++i) {
                const Column& column = layout.columns[i];
                if (const std::byte* block = state.blocks[column.component])
                    std::memcpy(row + column.row_offset_bytes, block + column.offset_bytes + lane * column.element_bytes,
                                column.element_bytes);
            }
        }
    }
    RowState now; // the same rows, seen both ways
    PastRows past;

private:
    std::vector<u64> bytes_;
    BlockHeader headers_[Protocol::component_count_max];
};

inline EncodeResult encode_blocks(const BlockInput& input, Compression compression, SectionScratch& scratch, std::span<std::byte> out) {
    const RowsOfBlocks current(*input.layout, input.current, input.lanes);
    const std::byte* no_blocks[Protocol::component_count_max] = {};
    const bool full = input.baseline.blocks == nullptr;
    const RowsOfBlocks baseline(*input.layout, full ? ChunkState{input.current.occupants, no_blocks} : input.baseline, input.lanes);
    EncodeInput rows;
    rows.layout = input.layout;
    rows.occupants = input.current.occupants;
    rows.current = current.now;
    rows.baseline = full ? nullptr : &baseline.past;
    rows.opaque = input.opaque;
    rows.kept = input.kept;
    rows.lanes = input.lanes;
    rows.tick = input.tick;
    rows.baseline_tick = input.baseline_tick;
    rows.spatial = input.spatial;
    rows.origin[0] = input.origin[0];
    rows.origin[1] = input.origin[1];
    rows.cell_steps = input.cell_steps;
    return encode_section(rows, compression, scratch, out);
}

} // namespace throng
