#pragma once

#include <cstdint>
#include <cstring>

#include <sluice/operator/library/tensor_core.cuh>

namespace sluice::detail {

/// Rounded to the nearest number of TF32, where the product alone would cut off.
__device__ inline std::uint32_t as_tf32(float value) {
  std::uint32_t bits;
#if SLUICE_TENSOR_CORES
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
#else
  std::memcpy(&bits, &value, sizeof(bits));
#endif
  return bits;
}

}  // namespace sluice::detail
