#pragma once

// The sigmoid and its slope, for numbers: see math.h.
#include <cmath>

#include <sluice/operator/floating.h>

namespace sluice::math {

using std::abs;
using std::exp;

#ifdef __CUDA_ARCH__
/// 1 / x for x from 1 to 2. A quotient of single floats takes care of ranges that this never has, which costs more than
/// the rest of a sigmoid: the instruction for it and a step of Newton's are off by less than 2^-23.
__device__ inline float reciprocal_near_one(float x) {
  const float rough = __fdividef(1.0F, x);
  return __fmaf_rn(rough, __fmaf_rn(-x, rough, 1.0F), rough);
}
__device__ inline double reciprocal_near_one(double x) {
  return 1 / x;
}
/// e^-a for a >= 0, NaN of NaN; less than 2^-126 is 0. The instruction for powers of two is off by 2 units in the last
/// place, and what its argument loses when that is rounded is made good: six instructions, of which exp(), which has
/// numbers above 0 to look after, takes ten.
__device__ inline float exp_of_minus(float a) {
#if __CUDA_ARCH__ >= 800
  asm("min.ftz.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(128.0F));  // nothing is left of infinity less infinity
#else
  a = a > 128.0F ? 128.0F : a;
#endif
  const float twos = __fmul_rn(a, -1.442695040888963407F);
  const float left = __fmaf_rn(twos, 1.904654323e-9F, __fmaf_rn(twos, -0.693147182465F, -a));
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(twos));
  return __fmaf_rn(power, left, power);
}
__device__ inline double exp_of_minus(double a) {
  return exp(-a);
}
/// a * b that becomes no part of a fused multiply-add, whoever compiles it.
__device__ inline float product(float a, float b) {
  return __fmul_rn(a, b);
}
__device__ inline double product(double a, double b) {
  return __dmul_rn(a, b);
}
#endif

/// 1 / (1 + e^-x), without overflow for large negative x.
template <class T>
SLUICE_HD inline T sigmoid(T x) {
#ifdef __CUDA_ARCH__
  const T e = exp_of_minus(abs(x));
  const T near = reciprocal_near_one(T(1) + e);
  return x < 0 ? product(e, near) : near;
#else
  const T e = exp(-abs(x));
  return (x < 0 ? e : T(1)) / (T(1) + e);
#endif
}
/// sigmoid(x) * sigmoid(-x), its derivative.
template <class T>
SLUICE_HD inline T sigmoid_slope(T x) {
#ifdef __CUDA_ARCH__
  const T e = exp_of_minus(abs(x));
  const T near = reciprocal_near_one(T(1) + e);
  return product(product(e, near), near);
#else
  const T e = exp(-abs(x));
  return e / ((T(1) + e) * (T(1) + e));
#endif
}

}  // namespace sluice::math
