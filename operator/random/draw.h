#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <sluice/operator/floating.h>
#include <sluice/operator/random/philox.h>
#include <sluice/operator/times_plus.h>

// How the words of a Philox block become numbers: one arithmetic for CPU and GPU. Every `Draw` makes `k_count`
// neighbouring elements from one block, so element i depends on block i / k_count alone.
namespace sluice::detail {

SLUICE_HD inline std::uint64_t join_words(std::uint32_t low, std::uint32_t high) noexcept {
  return std::uint64_t{high} << 32 | low;
}

/// Elements of T that one block makes: four of 32 bits, two of 64.
template <class T>
inline constexpr int k_per_block = sizeof(T) == 8 ? 2 : 4;

/// [0, 1), all multiples of 2^-24 (float) or 2^-53 (double).
template <class C>
SLUICE_HD inline C unit_number(const PhiloxBlock& block, int i) noexcept {
  if constexpr (sizeof(C) == 8) {
    return static_cast<C>(join_words(block.word[2 * i], block.word[2 * i + 1]) >> 11) * C{0x1p-53};
  } else {
    return static_cast<C>(block.word[i] >> 8) * C{0x1p-24};
  }
}

/// The number of T before one that is not denormal; before 0 the nearest that is not.
template <class T>
T number_before(T value) noexcept {
  if constexpr (sizeof(T) == 2) {
    const auto bits = std::bit_cast<std::uint16_t>(value);
    const float least_normal = static_cast<float>(static_cast<T>(0x1p-126f)) == 0 ? 0x1p-14f : 0x1p-126f;
    const auto least = std::bit_cast<std::uint16_t>(static_cast<T>(-least_normal));
    const bool negative = bits >= 0x8000u, zero = (bits & 0x7fffu) == 0;
    return std::bit_cast<T>(static_cast<std::uint16_t>(zero ? least : negative ? bits + 1 : bits - 1));
  } else {
    return value == 0 ? -std::numeric_limits<T>::min() : std::nextafter(value, -std::numeric_limits<T>::infinity());
  }
}

/// The largest number of T below `high`, but not less than `low`.
template <class T>
T number_below(double high, double low) noexcept {
  using C = Compute<T>;
  T value = static_cast<T>(static_cast<C>(high));
  if (!(static_cast<C>(value) < static_cast<C>(high)))
    value = number_before(value);
  return static_cast<C>(value) < static_cast<C>(low) ? static_cast<T>(static_cast<C>(low)) : value;
}

template <class T>
struct UniformDraw {
  using C = Compute<T>;
  using Element = T;
  static constexpr int k_count = k_per_block<C>;
  // Rounding, to T above all, may reach the open end: it is then the largest number of T before it, `last`.
  C high;
  T last;
  // Halves and the scale 2 where the range does not fit the type. `below` is the last number of C.
  C scale = 1, low, span, below;

  UniformDraw(double from, double to) : high(static_cast<C>(to)), last(number_below<T>(to, from)) {
    if (!std::isfinite(static_cast<C>(to - from)))
      scale = 2;
    const double part = 1.0 / static_cast<double>(scale);
    low = static_cast<C>(from * part);
    span = static_cast<C>(to * part - from * part);
    below = number_below<C>(to * part, from * part);
  }
  SLUICE_HD void operator()(const PhiloxBlock& block, T* to) const noexcept {
    for (int i = 0; i < k_count; ++i) {
      const T value = static_cast<T>(scale * times_plus(unit_number<C>(block, i), span, low));
      to[i] = static_cast<C>(value) < high ? value : last;
    }
  }
};

/// Box and Muller, "A note on the generation of random normal deviates", 1958: two numbers from two.
template <class T>
struct NormalDraw {
  using C = Compute<T>;
  using Element = T;
  static constexpr int k_count = k_per_block<C>;
  C mean, deviation;

  NormalDraw(double center, double width) : mean(static_cast<C>(center)), deviation(static_cast<C>(width)) {}
  SLUICE_HD void operator()(const PhiloxBlock& block, T* to) const noexcept {
    for (int i = 0; i < k_count; i += 2) {
      const C radius = std::sqrt(C{-2} * std::log(positive_number(block, i)));
      const C angle = static_cast<C>(6.283185307179586) * unit_number<C>(block, i + 1);
      to[i] = static_cast<T>(times_plus(radius * std::cos(angle), deviation, mean));
      to[i + 1] = static_cast<T>(times_plus(radius * std::sin(angle), deviation, mean));
    }
  }

 private:
  // (0, 1], with all bits of the words near 0, where the logarithm needs them.
  SLUICE_HD static C positive_number(const PhiloxBlock& block, int i) noexcept {
    if constexpr (sizeof(C) == 8) {
      return static_cast<C>((join_words(block.word[2 * i], block.word[2 * i + 1]) >> 11) + 1) * C{0x1p-53};
    } else {
      return static_cast<C>(block.word[i]) * C{0x1p-32} + C{0x1p-33};
    }
  }
};

/// The upper half of a product.
SLUICE_HD inline std::uint64_t upper_product(std::uint64_t a, std::uint64_t b) noexcept {
#ifdef __CUDA_ARCH__
  return __umul64hi(a, b);
#else
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(a) * b >> 64);
#endif
}

/// 64 random bits modulo the range: uneven by at most range / 2^64.
template <class T>
struct IntegerDraw {
  using Element = T;
  static constexpr int k_count = 2;
  std::int64_t low;
  std::uint64_t range;
  std::uint64_t inverse;  // the largest whole number below 2^64 / range

  IntegerDraw(std::int64_t from, std::int64_t to)
      : low(from),
        range(static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from)),
        inverse(~std::uint64_t{0} / range) {}
  /// bits % range: the product's upper half is the quotient or one less, for the inverse lacks at most 1.
  SLUICE_HD std::uint64_t rest(std::uint64_t bits) const noexcept {
    const std::uint64_t left = bits - upper_product(bits, inverse) * range;
    return left >= range ? left - range : left;
  }
  SLUICE_HD void operator()(const PhiloxBlock& block, T* to) const noexcept {
    for (int i = 0; i < k_count; ++i) {
      const std::uint64_t bits = join_words(block.word[2 * i], block.word[2 * i + 1]);
      to[i] = static_cast<T>(static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + rest(bits)));
    }
  }
};

/// Calls f.operator()<T>() with a type as which elements of `dtype` are drawn: a signed one for stored types, whose
/// bits are the same.
template <class F>
void by_drawn_bits(DType dtype, F&& f) {
  switch (dtype) {
    case DType::int16:
    case DType::uint16:
      return f.template operator()<std::int16_t>();
    case DType::uint32:
      return f.template operator()<std::int32_t>();
    case DType::uint64:
      return f.template operator()<std::int64_t>();
    default:
      by_dtype(dtype, f);
  }
}

/// A 32-bit word is below this with probability p.
inline std::uint64_t probability_threshold(double p) noexcept {
  return static_cast<std::uint64_t>(std::llround(p * 0x1p32));
}

template <class T>
struct BernoulliDraw {
  using Element = T;
  static constexpr int k_count = 4;
  std::uint64_t threshold;

  explicit BernoulliDraw(double p) : threshold(probability_threshold(p)) {}
  SLUICE_HD void operator()(const PhiloxBlock& block, T* to) const noexcept {
    for (int i = 0; i < k_count; ++i)
      to[i] = static_cast<T>(block.word[i] < threshold ? 1.0f : 0.0f);
  }
  /// The same of n words.
  void each(const std::uint32_t* word, std::int64_t n, T* to) const noexcept {
    const T chances[] = {static_cast<T>(0.0f), static_cast<T>(1.0f)};
    for (std::int64_t i = 0; i < n; ++i)
      to[i] = chances[word[i] < threshold];
  }
};

}  // namespace sluice::detail
