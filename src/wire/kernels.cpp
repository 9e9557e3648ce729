#include "src/wire/kernels.hpp"

namespace throng {
namespace {
bool has_v3() {
#if defined(__x86_64__) && defined(THRONG_KERNELS_V3)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
#else
    return false;
#endif
}

const Kernels* table_of(KernelLevel level) {
#if defined(THRONG_KERNELS_V3)
    if (level == KernelLevel::v3)
        return &kernels_v3::table;
#endif
    (void)level;
    return &kernels_baseline::table;
}

const Kernels*& current() {
    static const Kernels* table = table_of(best_kernel_level());
    return table;
}
} // namespace

KernelLevel best_kernel_level() {
    static const KernelLevel level = has_v3() ? KernelLevel::v3 : KernelLevel::baseline;
    return level;
}

const Kernels& kernels() { return *current(); }

bool force_kernel_level(KernelLevel level) {
    if (level > best_kernel_level())
        return false;
    current() = table_of(level);
    return true;
}

} // namespace throng
