// Compiled for x86-64-v3 (see src/wire/meson.build); the same source as kernels_baseline.cpp.
#define KERNEL_NAMESPACE kernels_v3
#include "src/wire/kernels.inl"
