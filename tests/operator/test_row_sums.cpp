// Sums, sums of magnitudes and without NaNs, and products of rows, which vectors add up some blocks at a time.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/simd_targets.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity(), k_nan = std::numeric_limits<double>::quiet_NaN();

struct RowCase {
  const char* name;
  std::function<NDArray(const NDArray&)> f;
  std::function<long double(long double, long double)> with;
  double nothing = 0;
};

const std::vector<RowCase> k_cases = {
    {"sum", [](const NDArray& x) { return sum(x, {1}); }, [](auto a, auto x) { return a + x; }},
    {"l1_norm", [](const NDArray& x) { return l1_norm(x, {1}); }, [](auto a, auto x) { return a + std::abs(x); }},
    {"nansum",
     [](const NDArray& x) { return nansum(x, {1}); },
     [](auto a, auto x) { return std::isnan(x) ? a : a + x; }},
    {"prod", [](const NDArray& x) { return prod(x, {1}); }, [](auto a, auto x) { return a * x; }, 1},
    {"max",
     [](const NDArray& x) { return max(x, {1}); },
     [](auto a, auto x) { return a >= x || std::isnan(a) ? a : x; },
     -k_inf},
    {"min",
     [](const NDArray& x) { return min(x, {1}); },
     [](auto a, auto x) { return a <= x || std::isnan(a) ? a : x; },
     k_inf}};

NDArray reference(const RowCase& of, const NDArray& x) {
  const std::vector<double> values = x.to_vector<double>();
  const std::int64_t rows = x.shape()[0], n = x.shape()[1];
  std::vector<double> results;
  for (std::int64_t row = 0; row < rows; ++row) {
    long double result = of.nothing;
    for (std::int64_t i = 0; i < n; ++i)
      result = of.with(result, values[static_cast<std::size_t>(row * n + i)]);
    results.push_back(static_cast<double>(result));
  }
  return array(results, {rows}).astype(x.dtype());
}

Tolerance close(DType dtype, std::int64_t n) {
  const double unit = dtype == float64 ? 2e-16 : dtype == float32 ? 1e-7 : dtype == float16 ? 1e-3 : 8e-3;
  // Products round once a factor; sums of numbers of both signs lose what they cancel.
  return {
      unit * (dtype == float32 || dtype == float64 ? static_cast<double>(n) : 1), unit * static_cast<double>(n) / 2};
}

// Numbers whose products stay near 1.
NDArray terms(const RowCase& of, const Shape& shape, DType dtype) {
  const NDArray x = random_array(shape, 5, -1, 1, float64);
  return (of.nothing == 1 ? where(x < 0, x * 0.01 - 1, x * 0.01 + 1) : x).astype(dtype);
}

const std::vector<std::int64_t> k_widths = {0,   1,   15,  16,   17,   31,   63,   64,   65,   255,  256, 257,
                                            268, 271, 272, 1023, 1024, 1025, 4095, 4096, 4097, 4107, 8193};

void check_lengths(const RowCase& of) {
  for (const DType dtype : {float32, float64, float16, bfloat16}) {
    for (const std::int64_t n : k_widths) {
      CAPTURE(of.name, name_of(dtype), n);
      if (n == 0 && std::isinf(of.nothing))
        continue;  // refused
      const NDArray wide = terms(of, {3, 2 * n + 3}, dtype), x = wide.slice(1, 3, 3 + n);
      CHECK(differences(of.f(x.copy()), reference(of, x), close(dtype, n)) == "");
      CHECK(differences(of.f(x), reference(of, x), close(dtype, n)) == "");  // rows apart
      const NDArray other = wide.slice(1, 3, 3 + 2 * n, 2);
      CHECK(differences(of.f(other), reference(of, other), close(dtype, n)) == "");
      const NDArray same = wide.slice(1, 0, 1).broadcast_to({3, n});
      CHECK(differences(of.f(same), reference(of, same), close(dtype, n)) == "");
    }
  }
  CHECK(of.f(zeros({0, 300})).shape() == Shape{0});
}

void check_odd_numbers(const RowCase& of) {
  for (const std::int64_t n : {16, 64, 300, 1024, 4096, 4107, 5000}) {
    for (const std::int64_t at : {std::int64_t{0}, n / 3, n - 1}) {
      const NDArray here = one_hot(array(std::vector<std::int64_t>{at}, {1}), n);
      for (const double value : {k_nan, k_inf, -k_inf, 0.0}) {
        CAPTURE(of.name, n, at, value);
        const NDArray x = where(here > 0, value, terms(of, {1, n}, float32));
        CHECK(differences(of.f(x), reference(of, x), close(float32, n)) == "");
      }
    }
    CHECK(differences(of.f(full({1, n}, k_nan)), reference(of, full({1, n}, k_nan))) == "");
  }
}

}  // namespace

TEST_CASE("Sums and products of rows of any length are right, in all layouts", "[reduce][row_sums]") {
  for (const simd::Target target : simd_targets()) {
    CAPTURE(name_of(target));
    const simd::TargetScope scope(target);
    for (const RowCase& of : k_cases)
      check_lengths(of);
  }
}

TEST_CASE("Sums and products of rows with what is no number, infinite or zero are theirs", "[reduce][row_sums]") {
  for (const simd::Target target : simd_targets()) {
    CAPTURE(name_of(target));
    const simd::TargetScope scope(target);
    for (const RowCase& of : k_cases)
      check_odd_numbers(of);
  }
}

TEST_CASE("Sums of columns and means of planes of any width are right", "[reduce][row_sums]") {
  for (const simd::Target target : simd_targets()) {
    const simd::TargetScope scope(target);
    for (const DType dtype : {float32, float64, float16, bfloat16}) {
      for (const std::int64_t n : k_widths) {
        CAPTURE(name_of(target), name_of(dtype), n);
        for (const std::int64_t rows : {1, 3, 64, 65, 130}) {
          const NDArray x = terms(k_cases[0], {rows, n}, dtype);
          if (n < 600)
            CHECK(differences(sum(x, {0}), reference(k_cases[0], x.T()), close(dtype, rows)) == "");
          if (n > 0 && rows == 3) {
            const NDArray want = (sum(x.astype(float64), {1}) / static_cast<double>(n)).astype(dtype);
            const NDArray means = avg_pool2d(x.reshape({1, rows, 1, n}), {.global = true});
            CHECK(differences(means.reshape({rows}), want, close(dtype, 32)) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("Sums and products of rows have the same bits whatever the number of workers", "[reduce][row_sums]") {
  for (const RowCase& of : k_cases) {
    std::vector<std::vector<float>> all;
    for (const int workers : {1, 2, 4}) {
      Engine engine({.workers = workers});
      const EngineScope scope(engine);
      for (const Shape& shape : {Shape{1, 100003}, Shape{300, 1025}})
        all.push_back(of.f(terms(of, shape, float32)).to_vector<float>());
    }
    for (std::size_t i = 2; i < all.size(); ++i)
      CHECK((all[i] == all[i % 2]));
  }
}
