#pragma once

// Random arrays from a seed, and all-close of arrays, for tests.
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <sluice/ndarray/api.h>

namespace sluice::test {

/// Values uniform in [low, high), the same for a seed on every device; integer types get whole numbers, bool gets
/// both values.
inline NDArray random_array(
    const Shape& shape,
    std::uint64_t seed,
    double low = -1,
    double high = 1,
    DType dtype = float32,
    Device device = cpu()) {
  std::mt19937_64 generator(seed);
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (double& value : values) {
    // Not std::uniform_real_distribution: its numbers differ between libraries.
    const double unit = static_cast<double>(generator() >> 11) * 0x1p-53;
    value = low + unit * (high - low);
    if (is_integer(dtype))
      value = std::floor(value + 0.5);
    if (is_unsigned(dtype) && !is_computed(dtype))
      value = std::fabs(value);  // one that wrapped might be none that a double tells from its neighbours
    if (dtype == DType::bool_)
      value = unit < 0.5 ? 0 : 1;
  }
  return from_values(
      values.data(), float64, static_cast<std::int64_t>(values.size()), shape, {.dtype = dtype, .device = device});
}

/// Tolerances that fit a type: relative, and absolute near zero.
struct Tolerance {
  double relative = 1e-5;
  double absolute = 1e-6;
};

inline Tolerance tolerance_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::float64:
      return {1e-12, 1e-13};
    case DType::float16:
      return {2e-3, 1e-3};
    case DType::bfloat16:
      return {1.6e-2, 1e-2};
    default:
      return {1e-5, 1e-6};
  }
}

/// Empty if every element of `got` is close to that of `want`, NaN and infinities included; otherwise a text that
/// names what differs: `CHECK(differences(got, want) == "")`.
inline std::string differences(const NDArray& got, const NDArray& want, Tolerance tolerance) {
  if (got.shape() != want.shape())
    return message("shape ", got.shape(), ", expected ", want.shape());
  const auto a = got.to_vector<double>(), b = want.to_vector<double>();
  std::size_t count = 0, first = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    // Beside an infinity every number would be within the relative tolerance.
    const bool finite = std::isfinite(a[i]) && std::isfinite(b[i]);
    const bool close = (std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i] ||
                       (finite && std::abs(a[i] - b[i]) <= tolerance.absolute + tolerance.relative * std::abs(b[i]));
    if (!close && count++ == 0)
      first = i;
  }
  if (count == 0)
    return {};
  return message(count, " of ", a.size(), " differ; element ", first, " is ", a[first], ", expected ", b[first]);
}

/// With the tolerance that fits the less precise type of the two.
inline std::string differences(const NDArray& got, const NDArray& want) {
  const Tolerance a = tolerance_of(got.dtype()), b = tolerance_of(want.dtype());
  return differences(got, want, a.relative > b.relative ? a : b);
}

inline bool all_close(const NDArray& got, const NDArray& want, Tolerance tolerance) {
  return differences(got, want, tolerance).empty();
}
inline bool all_close(const NDArray& got, const NDArray& want) {
  return differences(got, want).empty();
}

}  // namespace sluice::test
