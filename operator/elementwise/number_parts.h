#pragma once

#include <cstdint>

#include <sluice/ndarray/half.h>
#include <sluice/operator/operator.h>

// Numbers of floating types taken to pieces by their bits, denormals too: the same on CPU and GPU.
namespace sluice::detail {

/// Where the parts of a number of a type stand in its bits, as wide as U.
template <class U>
struct NumberLayout {
  int digits = 0;        // bits of the mantissa
  U sign = 0, ones = 0;  // the sign's bit, and the exponent of what is no number, at its place
  std::int32_t bias = 0;

  explicit NumberLayout(DType dtype) noexcept {
    const int bits = static_cast<int>(8 * size_of(dtype));
    digits = dtype == DType::float16 ? 10 : dtype == DType::bfloat16 ? 7 : bits == 32 ? 23 : 52;
    sign = static_cast<U>(U{1} << (bits - 1));
    ones = static_cast<U>(static_cast<U>(sign - 1) >> digits << digits);
    bias = static_cast<std::int32_t>(ones >> digits >> 1);
  }

  SLUICE_HD bool is_nan(U x) const noexcept { return static_cast<U>(x & ~sign) > ones; }

  /// The number next to x on the way to y.
  SLUICE_HD U next(U x, U y) const noexcept {
    if (is_nan(x))
      return x;
    if (is_nan(y))
      return y;
    const U x_size = static_cast<U>(x & ~sign), y_size = static_cast<U>(y & ~sign);
    if (x == y || (x_size == 0 && y_size == 0))
      return y;
    if (x_size == 0)
      return static_cast<U>((y & sign) | 1);
    const bool grows = ((x ^ y) & sign) == 0 && y_size > x_size;
    return static_cast<U>(grows ? x + 1 : x - 1);
  }

  /// x as mantissa times 2^exponent, the mantissa at least a half and below 1; 0 and what is no number as it is.
  SLUICE_HD U split(U x, std::int32_t& exponent) const noexcept {
    U size = static_cast<U>(x & ~sign);
    exponent = 0;
    if (size == 0 || size >= ones)
      return x;
    std::int32_t at = static_cast<std::int32_t>(size >> digits);
    if (at == 0) {  // a denormal: its first digit goes where the others have theirs
      for (at = 1; (size >> digits) == 0; --at)
        size = static_cast<U>(size << 1);
    }
    exponent = at - (bias - 1);
    const U fraction = static_cast<U>(size & ((U{1} << digits) - 1));
    return static_cast<U>((x & sign) | (static_cast<U>(bias - 1) << digits) | fraction);
  }
};

// a, b of one shape -> y
void nextafter_cpu(const KernelCall& call);
void nextafter_gpu(const KernelCall& call);
// x -> mantissas, exponents (int32)
void frexp_cpu(const KernelCall& call);
void frexp_gpu(const KernelCall& call);

/// Calls f.operator()<U>() with the unsigned type that holds the bits of a floating type.
template <class F>
void by_number_bits(DType dtype, const F& f) {
  switch (size_of(dtype)) {
    case 2:
      return f.template operator()<std::uint16_t>();
    case 4:
      return f.template operator()<std::uint32_t>();
    default:
      return f.template operator()<std::uint64_t>();
  }
}

extern const Operator k_nextafter, k_frexp, k_modf, k_divmod, k_positive;

}  // namespace sluice::detail
