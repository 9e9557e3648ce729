#pragma once
// The loops over a column of 64 lanes that encode and decode spend their time in, compiled twice (x86-64-v2 and v3) and
// picked at run time. Both give the same results on every input; a test compares them.
//
// A code is the zigzag form of a value minus its prediction; arrays of codes are indexed by lane.
#include "throng/base.hpp"

namespace throng {

struct LaneCodes {
    u64 any = 0;     // OR of the codes
    u64 nonzero = 0; // lanes whose code is not 0
};

/// Every array has 64 elements, and none overlaps another.
struct Kernels {
    /// prediction[lane] = base[lane] + ((velocity[lane] * scale) >> 16), modulo 2^16.
    void (*predict16)(const i16* base, const i16* velocity, u32 scale, i16* prediction);
    /// The codes of `lanes`; the others become 0. Differences are sign-extended from their low `difference_bits`.
    LaneCodes (*codes16)(const i16* current, const i16* prediction, u64 lanes, u32 difference_bits, u16* codes);
    LaneCodes (*codes32)(const i32* current, const i32* prediction, u64 lanes, u32 difference_bits, u32* codes);
    /// The inverse: out[lane] = (prediction[lane] + difference) & value_mask.
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
