#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <sluice/ndarray/dtype.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/random/draws.h>
#include <sluice/operator/random/kernels.h>

namespace sluice {

extern const Operator k_random_exponential, k_random_laplace, k_random_gumbel, k_random_truncated_normal,
    k_random_gamma, k_random_beta, k_random_poisson, k_sample_gamma, k_sample_poisson, k_sample_categorical;
/// Made of others.
extern const Operator k_random_permutation, k_random_choice, k_sample_multinomial;

namespace detail {

/// Attributes of a distribution of up to four numbers.
struct DistributionAttributes {
  Shape shape;
  DType dtype = DType::float32;
  Device device = cpu();
  double first = 0;
  double second = 1;
  double third = 0;
  double fourth = 0;

  template <class V>
  void visit(V&& v) {
    v.field("shape", shape);
    v.field("dtype", dtype);
    v.field("device", device);
    v.field("first", first);
    v.field("second", second);
    v.field("third", third);
    v.field("fourth", fourth);
  }
};

/// Of a distribution whose first number stands in an array.
struct SampleAttributes {
  DType dtype = DType::float32;

  template <class V>
  void visit(V&& v) {
    v.field("dtype", dtype);
  }
};

/// Of draws of categories.
struct CategoricalAttributes {
  std::int64_t draws = 1;

  template <class V>
  void visit(V&& v) {
    v.field("draws", draws);
  }
};

/// A number as an array's type has it. Denormals of what is rounded to are 0, whatever a device does of its own.
template <class T>
SLUICE_HD inline T drawn_as(double value) noexcept {
  if constexpr (std::is_integral_v<T>) {
    constexpr double k_most = static_cast<double>(std::numeric_limits<T>::max());
    if (!(value >= 0))
      return std::is_signed_v<T> ? static_cast<T>(-1) : T{0};
    return value >= k_most ? std::numeric_limits<T>::max() : static_cast<T>(value);
  } else {
    constexpr double k_least = std::is_same_v<T, double> ? 0x1p-1022 : 0x1p-126;
    const double kept = value < k_least && value > -k_least ? 0 : value;
    if constexpr (std::is_same_v<T, double>)
      return kept;
    else
      return static_cast<T>(static_cast<float>(kept));
  }
}

SLUICE_HD inline void store_drawn(DType dtype, void* to, std::int64_t i, double value) noexcept {
  switch (dtype) {
    case DType::uint8:
      static_cast<std::uint8_t*>(to)[i] = drawn_as<std::uint8_t>(value);
      break;
    case DType::int8:
      static_cast<std::int8_t*>(to)[i] = drawn_as<std::int8_t>(value);
      break;
    case DType::int32:
      static_cast<std::int32_t*>(to)[i] = drawn_as<std::int32_t>(value);
      break;
    case DType::int64:
      static_cast<std::int64_t*>(to)[i] = drawn_as<std::int64_t>(value);
      break;
    case DType::int16:
      static_cast<std::int16_t*>(to)[i] = drawn_as<std::int16_t>(value);
      break;
    case DType::uint16:
      static_cast<std::uint16_t*>(to)[i] = drawn_as<std::uint16_t>(value);
      break;
    case DType::uint32:
      static_cast<std::uint32_t*>(to)[i] = drawn_as<std::uint32_t>(value);
      break;
    case DType::uint64:
      static_cast<std::uint64_t*>(to)[i] = drawn_as<std::uint64_t>(value);
      break;
    case DType::float16:
      static_cast<Half*>(to)[i] = drawn_as<Half>(value);
      break;
    case DType::bfloat16:
      static_cast<BFloat16*>(to)[i] = drawn_as<BFloat16>(value);
      break;
    case DType::float64:
      static_cast<double*>(to)[i] = drawn_as<double>(value);
      break;
    default:
      static_cast<float*>(to)[i] = drawn_as<float>(value);
  }
}

/// n of them, neighbours.
inline void store_all_drawn(DType dtype, void* to, std::int64_t first, const double* drawn, std::int64_t n) noexcept {
  if (dtype == DType::float32) {
    float* const at = static_cast<float*>(to) + first;
    for (std::int64_t i = 0; i < n; ++i)
      at[i] = drawn_as<float>(drawn[i]);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i)
    store_drawn(dtype, to, first + i, drawn[i]);
}

/// Parameters of a call, of numbers or with an array.
DrawParameters draw_parameters(const KernelCall& call);

template <class Draw>
void draw_cpu(const KernelCall& call);
template <class Draw>
void draw_gpu(const KernelCall& call);

/// Rows of weights, and what is drawn of each.
struct CategoricalWork {
  const double* weights = nullptr;
  std::int64_t* to = nullptr;
  std::int64_t rows = 0, categories = 0, draws = 0;
};
CategoricalWork categorical_work(const KernelCall& call);

/// `sums` of one row's weights, each with those before it: of smaller ones of the same ratios where they would not fit.
SLUICE_HD inline void add_up_weights(const double* weights, std::int64_t n, double* sums) noexcept {
  constexpr double k_most = std::numeric_limits<double>::max();
  double sum = 0;
  for (const double scale : {1.0, 0x1p-64}) {
    sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double weight = weights[i];
      sum += weight > 0 && weight <= k_most ? weight * scale : 0;
      sums[i] = sum;
    }
    if (sum <= k_most)
      return;
  }
}

/// The first whose sum is above u times all, which may round to all; -1 where there is nothing to draw. As many steps
/// for each u, and none of them a branch.
SLUICE_HD inline std::int64_t find_category(const double* sums, std::int64_t n, Exact u) noexcept {
  const double all = sums[n - 1], target = (u * all).value;
  if (!(all > 0))
    return -1;
  std::int64_t first = 0;  // it is one of `left` from here on
  for (std::int64_t left = n; left > 1;) {
    const std::int64_t half = left / 2;
    const double sum = sums[first + half - 1];
    first += half * static_cast<std::int64_t>((sum <= target) & (sum < all));
    left -= half;
  }
  return first;
}

void categorical_cpu(const KernelCall& call);
void categorical_gpu(const KernelCall& call);

}  // namespace detail
}  // namespace sluice
