// Batch statistics of channels that are neighbours, on a GPU: what a thread gathers around a shift.
#include <cmath>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr std::int64_t k_kinds = 8;
constexpr std::int64_t k_constant = 2, k_zero = 4, k_nan = 6, k_infinity = 7;

// Channels of eight kinds in turn: around 0, a thousand deviations away, equal numbers, numbers with the first and last
// far off, zeros, small ones, and one that is not a number, or infinite, in some row.
NDArray channels(std::int64_t rows, std::int64_t count, DType dtype) {
  std::vector<double> x = random_array({rows, count}, 3, -1, 1, float64).to_vector<double>();
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t c = 0; c < count; ++c) {
      double& each = x[static_cast<std::size_t>(row * count + c)];
      const bool first_or_last = row == 0 || row + 1 == rows, middle = row == rows / 2 + c % 3;
      const double by_kind[k_kinds] = {
          each,
          each + 600,
          -3.1,
          first_or_last ? 1e4 : each,
          0,
          each * 1e-3 + 1e-2,
          middle ? nan : each,
          middle ? inf : each};
      each = by_kind[c % k_kinds];
    }
  }
  return array(x, {rows, count}).astype(dtype);
}

struct Moments {
  double mean = 0, var = 0;
};

Moments moments_of(const std::vector<double>& x, std::int64_t rows, std::int64_t count, std::int64_t c) {
  const auto each = [&](std::int64_t row) { return x[static_cast<std::size_t>(row * count + c)]; };
  Moments found;
  for (std::int64_t row = 0; row < rows; ++row)
    found.mean += each(row) / static_cast<double>(rows);
  for (std::int64_t row = 0; row < rows; ++row)
    found.var += (each(row) - found.mean) * (each(row) - found.mean) / static_cast<double>(rows);
  return found;
}

void check_statistics(std::int64_t rows, std::int64_t count, DType dtype) {
  CAPTURE(rows, count, dtype);
  const DType wide = dtype == float64 ? float64 : float32;
  const NDArray here = channels(rows, count, dtype), x = here.to(gpu());
  const ArrayOptions there{.dtype = wide, .device = gpu()};
  const NDArray one = ones({count}, there), zero = zeros({count}, there);
  const auto run = [&] {
    const NDArray mean = zeros({count}, there), var = ones({count}, there);
    const autograd::ModeScope training(false, true);
    batch_norm(x, one, zero, mean, var, {.momentum = 0});
    return std::pair(mean.astype(float64).to_vector<double>(), var.astype(float64).to_vector<double>());
  };
  const auto [mean, var] = run();
  const auto values = here.astype(float64).to_vector<double>();
  const double near = dtype == float64 ? 1e-13 : 2e-6, digits = dtype == float64 ? 2.3e-16 : 1.2e-7;
  for (std::int64_t c = 0; c < count; ++c) {
    CAPTURE(c);
    const Moments want = moments_of(values, rows, count, c);
    const auto at = static_cast<std::size_t>(c);
    const std::int64_t kind = c % k_kinds;
    if (!std::isfinite(want.mean)) {
      CHECK((kind == k_nan || kind == k_infinity));
      CHECK_FALSE(std::isfinite(mean[at]));
      CHECK((kind != k_nan || std::isnan(mean[at])));
      CHECK(std::isnan(var[at]));
    } else if (kind == k_constant || kind == k_zero || rows == 1) {
      CHECK(var[at] == 0);
      CHECK(std::abs(mean[at] - want.mean) <= near * std::abs(want.mean));
    } else {
      CHECK(std::abs(mean[at] - want.mean) <= near * (std::abs(want.mean) + std::sqrt(want.var)));
      // A mean has so many digits: what lies between two of them is off by as much.
      const double of_means = 2 * digits * std::abs(want.mean) * std::sqrt(want.var);
      CHECK(std::abs(var[at] - want.var) <= 4 * near * want.var + of_means);
    }
  }
  if (count % k_kinds == 0 && count <= 64) {
    const auto again = run();
    for (std::size_t c = 0; c < mean.size(); ++c) {
      CHECK((again.first[c] == mean[c] || std::isnan(mean[c])));
      CHECK((again.second[c] == var[c] || std::isnan(var[c])));
    }
  }
}

}  // namespace

TEST_CASE("Statistics of channels that are neighbours are exact on a GPU", "[norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, float16, bfloat16, float64}) {
    for (const std::int64_t rows : {1, 2, 3, 4, 5, 127, 515, 3001})
      check_statistics(rows, 24, dtype);
    check_statistics(700, 64, dtype);
  }
}

TEST_CASE("Statistics of channels that are neighbours are exact on a GPU over several rounds", "[norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_statistics(1500, 2048, float32);
  check_statistics(1100, 4096, bfloat16);
}

TEST_CASE("A variance of channels that are neighbours that does not fit is infinite on a GPU", "[norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = (random_array({300, 8}, 3, -1, 3, float32) * 1e20).to(gpu());
  const ArrayOptions there{.device = gpu()};
  const NDArray mean = zeros({8}, there), var = ones({8}, there);
  const autograd::ModeScope training(false, true);
  batch_norm(x, ones({8}, there), zeros({8}, there), mean, var, {.momentum = 0});
  for (const double each : mean.astype(float64).to_vector<double>())
    CHECK(std::isfinite(each));
  for (const double each : var.astype(float64).to_vector<double>())
    CHECK(std::isinf(each));
}
