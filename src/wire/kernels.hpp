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

/// Every array has 64 elements, and none overlaps another.
struct Kernels {
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
