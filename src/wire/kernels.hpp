#pragma once
// The loops over a column of 64 lanes that encode and decode spend their time in, compiled twice (x86-64-v2 and v3) and
// picked at run time. Both give the same results on every input; a test compares them.
//
// A code is the zigzag form of a value minus its prediction; arrays of codes are indexed by lane.
#include "throng/wire.hpp"

namespace throng {

/// One column of a section: where the values of the listed lanes, and those they are predicted from, stand in rows.
struct ColumnInput {
    const std::byte* const* current = nullptr; // a row for each listed lane; up to a multiple of 8 the last one is repeated
    const std::byte* const* base = nullptr;    // the same of the baseline
    u32 count = 0;
    u32 offset_bytes = 0;
    u32 velocity_offset_bytes = 0; // of the velocity in the baseline's rows
    u32 velocity_bytes = 0;        // 2, 4 or 8; 0: not predicted. The prediction is base + ((velocity * velocity_scale) >> 16)
    u64 velocity_scale = 0;
    u32 difference_bits = 16;      // differences are sign-extended from these
    u32 width_bits = 5;            // of the width on the wire
};

/// Bits of the width of a column of 16 and of 32 bits.
inline constexpr u32 width_bits16 = 5, width_bits32 = 6;

/// Up to eight columns of 16 bits, or four of 32, that stand side by side in rows: 16 bytes of each row. Positions that no column of
/// the group has give codes that mean nothing.
struct ColumnGroup {
    u32 offset_bytes = 0;  // of position 0 in a row; the row has all 16 bytes
    u32 element_bytes = 2; // 2 or 4; with 4 nothing of the below is used
    // Per position. Differences are wrapped: ((difference + half) & mask) - half.
    alignas(16) u16 half[8] = {};
    alignas(16) u16 mask[8] = {};
    // The prediction is base + ((velocity * factor * age) >> 16), modulo 2^16, with the velocity of another position.
    alignas(16) u8 velocity[16] = {}; // which bytes of the 16 hold it; 0x80: none, and the factor is 0
    alignas(16) u16 factor_low[8] = {};
    alignas(16) u16 factor_high[8] = {};
};

/// The listed lanes of a chunk: rows that stand one after another, and the rows they are predicted from.
struct GroupRows {
    const std::byte* current = nullptr; // of lane 0
    u32 row_bytes = 0;
    const std::byte* const* base = nullptr; // [lane]; null: everything is predicted as 0
    u32 age = 0;                            // of the base, in ticks that count
    const u8* lanes = nullptr;              // up to a multiple of 8 the last one is repeated
    u32 count = 0;                          // 1..64
};

/// What find_codes makes of a group, per position and listed lane.
template <class Code>
struct CodesOf {
    static constexpr u32 positions = 16 / sizeof(Code);
    alignas(32) Code codes[positions][64]; // unset where all codes of a position are 0; beyond the last lane up to a multiple of 8: any
    alignas(16) Code any[positions];       // OR of the codes
};
struct GroupCodes {
    union {
        CodesOf<u16> narrow;
        CodesOf<u32> wide; // 32-bit elements
    };
    u16 differing; // bit i: byte i of the 16 differs between a lane's value and its base; without base, between lanes
};

/// A column of a group.
struct GroupColumn {
    i16 group = -1; // -1: the column is in no group
    u16 bytes = 0;  // which of the group's 16, as in GroupCodes::differing
    u8 position = 0;
    u8 element_bytes = 2;
};
/// Components whose columns are all in groups, one after another.
struct GroupComponents {
    const GroupColumn* columns = nullptr; // of all components
    u32 first_column = 0;                 // of the first one
    const u16* ends = nullptr;            // for each, where its columns end
    u32 count = 0;
};

/// Every array has 64 elements, and none overlaps another.
struct Kernels {
    /// Codes of all columns of a group at once.
    void (*find_codes)(const ColumnGroup& group, const GroupRows& rows, GroupCodes& out);
    /// Writes one column of a group, as put_column16 and put_column32 do.
    void (*put_codes)(BitWriter& writer, const GroupColumn& column, const GroupCodes* codes, u32 count);
    /// Writes components of a delta section of which all lanes have what they had at the baseline (docs/wire.md 2.2: values only), and
    /// how many bits each took.
    void (*put_values)(BitWriter& writer, const GroupComponents& components, const GroupCodes* codes, u32 count, u32* bits);
    /// The same of a full section: all lanes have the components, and counters of 0. Codes are of full rows (GroupRows::base null).
    void (*put_full)(BitWriter& writer, const GroupComponents& components, const GroupCodes* codes, u32 count, u32* bits);
    /// Writes a column (width, form and codes; docs/wire.md 2.2) of at least one lane.
    void (*put_column16)(BitWriter& writer, const ColumnInput& column);
    void (*put_column32)(BitWriter& writer, const ColumnInput& column);
    void (*put_column64)(BitWriter& writer, const ColumnInput& column);
    /// out[i] = quantise_range (quantise.hpp) of the float at offset_bytes of rows[i]; true if any was outside. Bounds in steps.
    bool (*quantise_f32)(const std::byte* const* rows, u32 offset_bytes, u32 count, double inverse_step, i32 minimum, i32 maximum,
                         i32* out);
    /// prediction[lane] = base[lane] + ((velocity[lane] * scale) >> 16), modulo 2^16.
    void (*predict16)(const i16* base, const i16* velocity, u32 scale, i16* prediction);
    /// From codes, by lane, to values: out[lane] = (prediction[lane] + difference) & value_mask.
    void (*apply16)(const u16* codes, const i16* prediction, u16 value_mask, i16* out);
    void (*apply32)(const u32* codes, const i32* prediction, u32 value_mask, i32* out);
    /// Whether the elements of `lanes` are within [minimum, maximum].
    bool (*within16)(const i16* values, u64 lanes, i16 minimum, i16 maximum);
    bool (*within32)(const i32* values, u64 lanes, i32 minimum, i32 maximum);
};

enum class KernelLevel : u8 { baseline, v3 };

/// The best level that this processor has; decided once.
KernelLevel best_kernel_level();
/// The kernels in use.
const Kernels& kernels();
/// For tests: uses `level` from now on, everywhere. Returns false, and changes nothing, if the processor or the build lacks
/// it. Thread rule: call while nothing else runs.
bool force_kernel_level(KernelLevel level);

namespace kernels_baseline {
extern const Kernels table;
}
namespace kernels_v3 {
extern const Kernels table;
}

} // namespace throng
