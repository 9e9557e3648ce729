#pragma once
// The payload of a section: some lanes of one chunk, either in full (limbo section) or as changes against a baseline
// (delta section). docs/wire.md is normative; this is its only implementation in C++.
//
// Encoding writes what the server captured: misuse asserts. Decoding reads hostile bytes: every path returns an Error.
#include "src/registry/layout.hpp"
#include "throng/memory.hpp"
#include "throng/transport.hpp"

namespace throng {

class OpLog; // src/registry/op_log.hpp

/// Newest bytes of one opaque component of a chunk. The server's mirror owns them.
struct OpaqueLanes {
    const std::byte* data[lane_count]; // where the lane's bytes start
    u32 bytes[lane_count];
    Tick changed[lane_count];          // tick of the last change (insert included)
    OpLog* logs = nullptr;             // [lane], what made the bytes from earlier ones, of components with diffs; or null
};

/// The state of a chunk at one tick: the mirror's on the server, a ring version on the client. blocks[i] belongs to
/// Layout::components[i] and is null when no lane has that component.
struct ChunkState {
    const OccupantBlock* occupants = nullptr;
    const std::byte* const* blocks = nullptr;
};

/// A chunk now, as the server has it: a row (Layout::row_bytes) for each lane, one after another, and which lanes have each component.
struct RowState {
    const std::byte* rows = nullptr;
    const BlockHeader* headers = nullptr; // [component]

    const std::byte* row(const Layout& layout, u32 lane) const { return rows + lane * layout.row_bytes; }
};
/// Some lanes of a chunk at an earlier tick: where the row of each is.
struct PastRows {
    const std::byte* rows[lane_count];                         // by lane; set for the lanes asked for
    const BlockHeader* headers[Protocol::component_count_max]; // by component; never null
};

struct EncodeInput {
    const Layout* layout = nullptr;
    const OccupantBlock* occupants = nullptr;
    RowState current;
    const PastRows* baseline = nullptr;         // null: full
    const OpaqueLanes* const* opaque = nullptr; // [component], null entries where the component is not opaque or absent
    const u64* kept = nullptr; // [component], full only: lanes that lack it here, and yet keep what they have of it. Null: none
    u64 lanes = 0;             // non-zero; all alive; in a delta the same occupants in `baseline`
    Tick tick = 0;
    Tick baseline_tick = 0;
    bool spatial = false;                // the chunk belongs to a cell
    i32 origin[2] = {0, 0};              // of the cell, in spatial steps: multiples of cell_steps
    u32 cell_steps = 0;                  // edge of a cell in spatial steps, as the welcome says; 0: none
};

class ZstdEncoder;

/// Scratch of one worker: the zstd context and buffers. Make one per worker, reuse it for ever.
struct SectionScratch {
    /// The dictionary is kept by reference.
    SectionScratch(Bytes dictionary, Allocator allocator);
    ~SectionScratch();
    SectionScratch(const SectionScratch&) = delete;
    SectionScratch& operator=(const SectionScratch&) = delete;
    ZstdEncoder* zstd = nullptr;
    std::byte* wide = nullptr;           // section_bytes_max bytes each
    std::byte* packed = nullptr;
    std::byte* noise = nullptr;  // noise_bytes_max bytes
    GroupCodes* codes = nullptr; // Layout::group_count_max
    u32 component_bits[Protocol::component_count_max] = {}; // of the body that the last encode_section wrote, before zstd: packed if made
    Allocator allocator;
};

/// Upper bound of an encoded section and of what a compressed one may expand to.
inline constexpr u32 section_bytes_max = 1u << 17;
/// Of the noise bytes beside a frame: one for each lane and column, and for the net ids.
inline constexpr u32 noise_bytes_max = lane_count * (Layout::column_count_max + 1);

struct EncodeResult {
    u32 bytes = 0;   // 0: it does not fit `out`
    bool zstd = false;
    u32 packed_bytes = 0; // of the packed form, whatever was taken; 0: not made, or too large
};
/// Writes one section to `out`. Deterministic: the same input gives the same bytes on every machine, worker and
/// instruction level. Allocates: no.
EncodeResult encode_section(const EncodeInput& input, Compression compression, SectionScratch& scratch, std::span<std::byte> out);

/// What decode_section found before it needed a baseline.
struct SectionHead {
    bool full = false;
    u32 baseline_age = 0; // ticks before the message's tick; >= 1 in a delta
    bool keeps = false;   // it says which components are kept
};
/// Reads only the head, so that the caller can look up the baseline.
Error read_section_head(Bytes payload, SectionHead& head);

/// A decoded section. The blocks are those of DecodeBuffers, valid until its next use; only elements of `lanes` mean anything.
struct DecodedSection {
    bool full = false;
    u32 baseline_age = 0;
    u64 lanes = 0;
    bool spatial = false;
    i32 origin[2] = {0, 0};              // full sections only
    const OccupantBlock* occupants = nullptr; // full: from the wire; delta: the baseline's
    u32 kept = 0;                        // bit i: kept_lanes[i], lanes that keep what they have of component i, are valid; full only
    u64 kept_lanes[Protocol::component_count_max];
    u32 listed = 0;                      // bit i: component i is in the section. In a delta the others keep the baseline's value
    std::byte* blocks[Protocol::component_count_max] = {}; // of listed components: present, counters and column elements
    u64 opaque_carried[Protocol::component_count_max] = {};          // lanes whose opaque bytes are in this section
    Bytes opaque[Protocol::component_count_max][lane_count] = {};    // valid where carried
    u64 opaque_ops[Protocol::component_count_max] = {}; // of the lanes carried, those whose bytes are ops (OpReader)
};

/// Room for one decoded section and the zstd output. Make one per client (or per worker, shared by clients).
class DecodeBuffers {
public:
    /// Both are kept by reference.
    DecodeBuffers(const Layout& layout, Bytes dictionary, Allocator allocator);
    ~DecodeBuffers();
    DecodeBuffers(const DecodeBuffers&) = delete;
    DecodeBuffers& operator=(const DecodeBuffers&) = delete;
    struct Impl;
    Impl* impl;
};

/// Decodes one payload of the layout that `buffers` was made for. `cell_steps` is the welcome's. For a delta, `baseline` is
/// the state to decode onto and `baseline_lanes` the lanes of it that are held; a lane outside gives no_baseline (then out.lanes,
/// and nothing else of the section, is valid). Total: any bytes give an Error or a section. Time and memory are bounded by
/// payload size and section_bytes_max. After another Error, `out` means nothing. Allocates: no.
Error decode_section(Bytes payload, u32 cell_steps, const ChunkState& baseline, u64 baseline_lanes, DecodeBuffers& buffers,
                     DecodedSection& out);

} // namespace throng
