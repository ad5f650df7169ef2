#pragma once

// What sources of kernels for NVRTC need of a compiler for the host, before any of them.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <sluice/ndarray/convert.h>
#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/elementwise/rows.h>

#include "tests/support/device_sim/compiled.h"

// Roundings are those of the host's compiler, which contracts nothing; what keeps NVRTC's from it is left out.
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dsub_rn(double a, double b) {
  return a - b;
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
#define asm(...) static_cast<void>(0)
#define __CUDACC_RTC__
