#define KERNEL_NAMESPACE kernels_baseline
#include "src/wire/kernels.inl"
