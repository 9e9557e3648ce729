#pragma once
// The loops over a column of 64 lanes that encode and decode spend their time in, compiled twice (x86-64-v2 and v3) and
// picked at run time. Both give the same results on every input; a test compares them.
//
// "Codes" are zigzag residuals of some lanes, packed together in lane order.
#include "throng/base.hpp"

namespace throng {

/// Room for the codes of a column: the kernels write whole vectors.
inline constexpr u32 code_capacity = 80;

struct Kernels {
    /// prediction[lane] = base[lane] + ((velocity[lane] * scale) >> 16), modulo 2^16.
    void (*predict16)(const i16* base, const i16* velocity, u32 scale, i16* prediction);
    /// Residuals of `lanes`. Differences are sign-extended from their low `difference_bits`. Returns the OR of the codes.
    /// Codes behind the last one are zero up to the next multiple of 16.
    u16 (*codes16)(const i16* current, const i16* prediction, u64 lanes, u32 difference_bits, u16* codes);
    u32 (*codes32)(const i32* current, const i32* prediction, u64 lanes, u32 difference_bits, u32* codes);
    /// Bit i: code i is not 0. Reads whole vectors: codes behind `count` must be zero up to the next multiple of 16.
    u64 (*nonzero16)(const u16* codes, u32 count);
    u64 (*nonzero32)(const u32* codes, u32 count);
    /// The inverse of codes: out[lane] = (prediction[lane] + difference) & value_mask for `lanes`; other elements are
    /// unspecified. Reads at most code_capacity codes.
    void (*apply16)(const u16* codes, const i16* prediction, u64 lanes, u16 value_mask, i16* out);
    void (*apply32)(const u32* codes, const i32* prediction, u64 lanes, u32 value_mask, i32* out);
    /// Whether all 64 elements are within [minimum, maximum].
    bool (*within16)(const i16* values, i16 minimum, i16 maximum);
    bool (*within32)(const i32* values, i32 minimum, i32 maximum);
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
