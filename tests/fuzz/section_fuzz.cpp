// Section payloads, full and delta, packed and zstd, against a fixed layout and baseline. What is accepted must encode, and
// decode again to the same bytes.
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/section_baseline.hpp"
#include "tests/support/encode_blocks.hpp"
#include <cstdlib>

using namespace section_test;

u64 throng::fuzz::accepted_count = 0;

namespace {

struct Target {
    TestLayout test = rich_layout();
    State baseline = section_baseline(test.layout);
    SectionScratch scratch{text_bytes(rich_dictionary), default_allocator()};
    DecodeBuffers buffers{test.layout, text_bytes(rich_dictionary), default_allocator()};
    DecodeBuffers second_buffers{test.layout, text_bytes(rich_dictionary), default_allocator()};
    DecodedSection decoded, again;
    std::byte out[section_bytes_max];
};

void require(bool condition) {
    if (!condition)
        std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const throng::u8* data, std::size_t size_bytes) {
    static Target target;
    static constexpr u32 cell_steps = section_cell_steps;
    const ChunkState base = target.baseline.view();
    DecodedSection& decoded = target.decoded;
    if (decode_section({reinterpret_cast<const std::byte*>(data), size_bytes}, cell_steps, base, target.baseline.occupants.alive,
                       target.buffers, decoded) != Error::none)
        return 0;
    ++throng::fuzz::accepted_count;

    const Layout& layout = target.test.layout;
    BlockInput input;
    input.layout = &layout;
    const std::byte* blocks[Protocol::component_count_max] = {};
    OpaqueLanes opaque[Protocol::component_count_max] = {};
    const OpaqueLanes* opaque_pointers[Protocol::component_count_max] = {};
    input.tick = 1000;
    input.baseline_tick = input.tick - decoded.baseline_age;
    for (u32 c = 0; c < layout.component_count; ++c) {
        blocks[c] = decoded.listed >> c & 1 ? decoded.blocks[c] : decoded.full ? nullptr : base.blocks[c];
        opaque_pointers[c] = &opaque[c];
        for (u32 lane = 0; lane < lane_count; ++lane) {
            const bool carried = decoded.opaque_carried[c] >> lane & 1;
            opaque[c].changed[lane] = carried ? input.tick : input.baseline_tick;
            if (carried) {
                opaque[c].data[lane] = decoded.opaque[c][lane].data();
                opaque[c].bytes[lane] = static_cast<u32>(decoded.opaque[c][lane].size());
            }
        }
    }
    input.current = {decoded.occupants, blocks};
    if (!decoded.full)
        input.baseline = base;
    input.opaque = opaque_pointers;
    input.lanes = decoded.lanes;
    input.spatial = decoded.spatial;
    input.origin[0] = decoded.origin[0];
    input.origin[1] = decoded.origin[1];
    input.cell_steps = cell_steps;
    const u32 bytes = encode_blocks(input, Compression::never, target.scratch, target.out).bytes;
    require(bytes != 0);
    require(decode_section({target.out, bytes}, cell_steps, base, target.baseline.occupants.alive, target.second_buffers, target.again) ==
            Error::none);
    require(target.again.lanes == decoded.lanes && target.again.full == decoded.full);
    return 0;
}
