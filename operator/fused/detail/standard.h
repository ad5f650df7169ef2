#pragma once

// What the formulas of the rows need of the standard library, for kernels that NVRTC compiles on machines that have no
// standard headers: it stands there for <cmath>, <limits>, <type_traits> and the others (see embed.py). Nothing else
// includes it.
#ifdef __CUDACC_RTC__

namespace std {

using size_t = decltype(sizeof(0));
using ptrdiff_t = decltype(static_cast<char*>(nullptr) - static_cast<char*>(nullptr));
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long;
using uint64_t = unsigned long;
using uintptr_t = unsigned long;

// Declared in headers, never used by kernels.
class ostream;
class string_view;

// -- <type_traits> and <concepts> -----------------------------------------------------------------------------------
template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;

template <bool condition, class A, class B>
struct conditional {
  using type = A;
};
template <class A, class B>
struct conditional<false, A, B> {
  using type = B;
};
template <bool condition, class A, class B>
using conditional_t = typename conditional<condition, A, B>::type;

template <class T>
struct remove_cv {
  using type = T;
};
template <class T>
struct remove_cv<const T> {
  using type = T;
};

template <class A, class B>
struct common_type {
  using type = typename remove_cv<decltype(true ? A() : B())>::type;
};
template <class A, class B>
using common_type_t = typename common_type<A, B>::type;

template <class T, class... Others>
inline constexpr bool is_one_of = (is_same_v<T, Others> || ...);
template <class T>
inline constexpr bool is_floating_point_v = is_one_of<T, float, double>;
template <class T>
inline constexpr bool is_unsigned_v =
    is_one_of<T, bool, unsigned char, unsigned short, unsigned, unsigned long, unsigned long long>;
template <class T>
inline constexpr bool is_integral_v = is_unsigned_v<T> || is_one_of<T, char, signed char, short, int, long, long long>;
template <class T>
inline constexpr bool is_arithmetic_v = is_floating_point_v<T> || is_integral_v<T>;
template <class T>
inline constexpr bool is_trivially_copyable_v = __is_trivially_copyable(T);
template <class T>
inline constexpr bool is_signed_v = is_floating_point_v<T> || (is_integral_v<T> && !is_unsigned_v<T>);

template <class T>
struct make_unsigned {
  using type = T;
};
template <>
struct make_unsigned<signed char> {
  using type = unsigned char;
};
template <>
struct make_unsigned<short> {
  using type = unsigned short;
};
template <>
struct make_unsigned<int> {
  using type = unsigned;
};
template <>
struct make_unsigned<long> {
  using type = unsigned long;
};
template <class T>
using make_unsigned_t = typename make_unsigned<T>::type;

template <class A, class B>
concept same_as = is_same_v<A, B>;
template <class T>
concept floating_point = is_floating_point_v<T>;
template <class T>
concept integral = is_integral_v<T>;

// -- <bit> and <limits> ---------------------------------------------------------------------------------------------
template <class To, class From>
__device__ constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}

template <class T>
struct numeric_limits;
template <>
struct numeric_limits<float> {
  __device__ static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000u); }
};
template <>
struct numeric_limits<double> {
  __device__ static constexpr double infinity() { return __builtin_bit_cast(double, 0x7ff0000000000000ul); }
};
template <>
struct numeric_limits<int64_t> {
  __device__ static constexpr int64_t min() { return -0x7fffffffffffffff - 1; }
  __device__ static constexpr int64_t max() { return 0x7fffffffffffffff; }
};

// -- <cmath>: the names under which the CUDA compiler knows them for float and double -------------------------------
#define SLUICE_MATH(name, of_float, of_double) \
  __device__ inline float name(float x) {      \
    return ::of_float(x);                      \
  }                                            \
  __device__ inline double name(double x) {    \
    return ::of_double(x);                     \
  }
#define SLUICE_MATH_OF_TWO(name, of_float, of_double) \
  __device__ inline float name(float a, float b) {    \
    return ::of_float(a, b);                          \
  }                                                   \
  __device__ inline double name(double a, double b) { \
    return ::of_double(a, b);                         \
  }
SLUICE_MATH(abs, fabsf, fabs)
SLUICE_MATH(acos, acosf, acos)
SLUICE_MATH(acosh, acoshf, acosh)
SLUICE_MATH(asin, asinf, asin)
SLUICE_MATH(asinh, asinhf, asinh)
SLUICE_MATH(atan, atanf, atan)
SLUICE_MATH(atanh, atanhf, atanh)
SLUICE_MATH(cbrt, cbrtf, cbrt)
SLUICE_MATH(ceil, ceilf, ceil)
SLUICE_MATH(cos, cosf, cos)
SLUICE_MATH(cosh, coshf, cosh)
SLUICE_MATH(erf, erff, erf)
SLUICE_MATH(erfc, erfcf, erfc)
SLUICE_MATH(exp, expf, exp)
SLUICE_MATH(exp2, exp2f, exp2)
SLUICE_MATH(expm1, expm1f, expm1)
SLUICE_MATH(floor, floorf, floor)
SLUICE_MATH(lgamma, lgammaf, lgamma)
SLUICE_MATH(log, logf, log)
SLUICE_MATH(log10, log10f, log10)
SLUICE_MATH(log1p, log1pf, log1p)
SLUICE_MATH(log2, log2f, log2)
SLUICE_MATH(rint, rintf, rint)
SLUICE_MATH(sin, sinf, sin)
SLUICE_MATH(sinh, sinhf, sinh)
SLUICE_MATH(sqrt, sqrtf, sqrt)
SLUICE_MATH(tan, tanf, tan)
SLUICE_MATH(tanh, tanhf, tanh)
SLUICE_MATH(tgamma, tgammaf, tgamma)
SLUICE_MATH(trunc, truncf, trunc)
SLUICE_MATH_OF_TWO(atan2, atan2f, atan2)
SLUICE_MATH_OF_TWO(copysign, copysignf, copysign)
SLUICE_MATH_OF_TWO(fmod, fmodf, fmod)
SLUICE_MATH_OF_TWO(hypot, hypotf, hypot)
SLUICE_MATH_OF_TWO(pow, powf, pow)
#undef SLUICE_MATH
#undef SLUICE_MATH_OF_TWO

}  // namespace std

// -- <cuda_fp16.h> and <cuda_bf16.h>: the conversions of half.h, by the instructions that the toolkit's headers use
// -----
struct SluiceHalfBits {
  unsigned short bits;
};
struct SluiceBFloatBits {
  unsigned short bits;
};

__device__ inline SluiceHalfBits __ushort_as_half(unsigned short bits) {
  return {bits};
}
__device__ inline unsigned short __half_as_ushort(SluiceHalfBits half) {
  return half.bits;
}
__device__ inline SluiceHalfBits __float2half_rn(float value) {
  SluiceHalfBits half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
  return half;
}
__device__ inline float __half2float(SluiceHalfBits half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half.bits));
  return value;
}

__device__ inline SluiceBFloatBits __ushort_as_bfloat16(unsigned short bits) {
  return {bits};
}
__device__ inline unsigned short __bfloat16_as_ushort(SluiceBFloatBits bfloat) {
  return bfloat.bits;
}
__device__ inline SluiceBFloatBits __float2bfloat16_rn(float value) {
#if __CUDA_ARCH__ >= 800
  SluiceBFloatBits bfloat;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bfloat.bits) : "f"(value));
  return bfloat;
#else
  const unsigned bits = __builtin_bit_cast(unsigned, value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return {0x7fff};
  return {static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
#endif
}
__device__ inline float __bfloat162float(SluiceBFloatBits bfloat) {
  float value;
#if __CUDA_ARCH__ >= 900
  asm("cvt.f32.bf16 %0, %1;" : "=f"(value) : "h"(bfloat.bits));
#else
  asm("mov.b32 %0, {0, %1};" : "=f"(value) : "h"(bfloat.bits));
#endif
  return value;
}

#endif
