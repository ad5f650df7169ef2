// Roots of sums of squares, which vectors add up some blocks at a time, against sums of long doubles.
#include <cmath>
#include <cstdint>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/simd_targets.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

NDArray reference(const NDArray& x) {
  const std::vector<double> values = x.to_vector<double>();
  const std::int64_t rows = x.shape()[0], n = x.shape()[1];
  std::vector<double> norms;
  for (std::int64_t row = 0; row < rows; ++row) {
    long double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const long double value = values[static_cast<std::size_t>(row * n + i)];
      sum += value * value;
    }
    norms.push_back(static_cast<double>(std::sqrt(sum)));
  }
  return array(norms, {rows});
}

double close(DType dtype) {
  return dtype == float64 ? 1e-15 : dtype == float32 ? 1e-6 : dtype == float16 ? 2e-3 : 1e-2;
}

const std::vector<std::int64_t> k_widths = {1,   15,  16,  17,   31,   32,   33,   63,   64,   65,   255,
                                            256, 257, 511, 1023, 1024, 1025, 4095, 4096, 4097, 8191, 8193};

void check_lengths() {
  for (const DType dtype : {float32, float64, float16, bfloat16}) {
    for (const std::int64_t n : k_widths) {
      CAPTURE(name_of(dtype), n);
      const NDArray wide = random_array({3, 2 * n + 3}, 5, -1, 1, dtype), x = wide.slice(1, 3, 3 + n);
      CHECK(differences(l2_norm(x.copy(), {1}), reference(x), {close(dtype), 0}) == "");
      CHECK(differences(l2_norm(x, {1}), reference(x), {close(dtype), 0}) == "");  // rows apart
      const NDArray other = wide.slice(1, 3, 3 + 2 * n, 2);
      CHECK(differences(l2_norm(other, {1}), reference(other), {close(dtype), 0}) == "");
      const NDArray same = x.slice(1, 0, 1).broadcast_to({3, n});
      CHECK(differences(l2_norm(same, {1}), reference(same), {close(dtype), 0}) == "");
      CHECK(l2_norm(zeros({2, n}, {.dtype = dtype}), {1}).to_vector<double>() == std::vector<double>(2, 0));
    }
  }
  CHECK(l2_norm(zeros({2, 0}), {1}).to_vector<float>() == std::vector<float>(2, 0));
}

void check_odd_numbers() {
  for (const std::int64_t n : {64, 300, 1024, 4096, 5000}) {
    for (const std::int64_t at : {std::int64_t{0}, n / 3, n - 1}) {
      CAPTURE(n, at);
      const NDArray here = one_hot(array(std::vector<std::int64_t>{at}, {1}), n);
      for (const double value : {1e30, 1e-30, 3e38, 0.0}) {
        const NDArray x = where(here > 0, value, random_array({1, n}, 2));
        CHECK(differences(l2_norm(x, {1}), reference(x), {1e-6, 0}) == "");
        const NDArray tiny = where(here > 0, value, random_array({1, n}, 2) * 1e-30);
        CHECK(differences(l2_norm(tiny, {1}), reference(tiny), {1e-6, 0}) == "");
      }
      CHECK(std::isnan(l2_norm(where(here > 0, NAN, zeros({1, n})), {1}).item<float>()));
      CHECK(l2_norm(where(here > 0, -INFINITY, ones({1, n})), {1}).item<float>() == INFINITY);
    }
  }
}

}  // namespace

TEST_CASE("Norms of rows of any length are the roots of their sums of squares, in all layouts", "[reduce][norm_rows]") {
  for (const simd::Target target : simd_targets()) {
    const simd::TargetScope scope(target);
    check_lengths();
  }
}

TEST_CASE("One number too large or too small to be squared changes no other block of a norm", "[reduce][norm_rows]") {
  for (const simd::Target target : simd_targets()) {
    const simd::TargetScope scope(target);
    check_odd_numbers();
  }
}
