#pragma once

#include <sluice/ndarray/half.h>

namespace sluice::detail {

// a * b + c, not contracted to a fused multiply-add, which the GPU's compiler would do: host code is compiled without
// (meson.build).
SLUICE_HD inline float times_plus(float a, float b, float c) noexcept {
#ifdef __CUDA_ARCH__
  return __fadd_rn(__fmul_rn(a, b), c);
#else
  return a * b + c;
#endif
}
SLUICE_HD inline double times_plus(double a, double b, double c) noexcept {
#ifdef __CUDA_ARCH__
  return __dadd_rn(__dmul_rn(a, b), c);
#else
  return a * b + c;
#endif
}

// a - b and a + b, where one may end in a product that the GPU's compiler would join to that.
SLUICE_HD inline float minus(float a, float b) noexcept {
#ifdef __CUDA_ARCH__
  return __fsub_rn(a, b);
#else
  return a - b;
#endif
}
SLUICE_HD inline float plus(float a, float b) noexcept {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
SLUICE_HD inline double minus(double a, double b) noexcept {
#ifdef __CUDA_ARCH__
  return __dsub_rn(a, b);
#else
  return a - b;
#endif
}
SLUICE_HD inline double plus(double a, double b) noexcept {
#ifdef __CUDA_ARCH__
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}

}  // namespace sluice::detail
