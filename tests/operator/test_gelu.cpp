// gelu and its slope, which vectors look up in tables, against long doubles over the whole range.
#include <algorithm>
#include <cmath>
#include <cstdint>
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

struct Exact {
  double value, slope;
  double terms;  // of which the slope is the sum: it is 0 somewhere
};

Exact exact(double x) {
  const long double below = std::erfc(-static_cast<long double>(x) * 0.70710678118654752440L) / 2;
  const long double rest = x * std::exp(-static_cast<long double>(x) * x / 2) * 0.398942280401432677939946L;
  return {
      static_cast<double>(x * below), static_cast<double>(below + rest), static_cast<double>(below + std::abs(rest))};
}

/// Every interval of both tables from its first to its last number, and what lies beyond.
NDArray everywhere() {
  std::vector<float> x{0, -0.0F};
  const auto around = [&](double at) {
    const auto here = static_cast<float>(at);
    x.insert(x.end(), {here, std::nextafter(here, 20.0F), std::nextafter(here, -20.0F)});
  };
  for (int sixteenth = 0; sixteenth < 16 * 15; ++sixteenth) {
    for (const double part : {0.0, 0.25, 0.5, 0.8125})
      around((sixteenth + part) / 16);
  }
  for (double small = 0x1p-100; small < 1; small *= 1.5)
    x.push_back(static_cast<float>(small));
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i)
    x.push_back(-x[i]);
  return array(x, {static_cast<std::int64_t>(x.size())});
}

std::vector<NDArray> value_and_slope(const NDArray& at) {
  NDArray x = at.detach();
  x.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = gelu(x);
  }
  y.backward(ones(y.shape(), {.dtype = y.dtype()}));
  return {y, x.grad()};
}

double unit_at(double value, int digits, double least) {
  int exponent = 0;
  std::frexp(std::max(std::abs(value), least), &exponent);
  return std::ldexp(1.0, exponent - digits);
}

/// The largest errors of the numbers above `from`, in units in the last place.
void check_errors(const NDArray& x, double from, int digits, double least, double of_values, double of_slopes) {
  const std::vector<double> at = x.to_vector<double>();
  const std::vector<NDArray> got = value_and_slope(x);
  const std::vector<double> values = got[0].to_vector<double>(), slopes = got[1].to_vector<double>();
  double value_error = 0, slope_error = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const Exact want = exact(at[i]);
    if (at[i] < from)
      continue;
    value_error = std::max(value_error, std::abs(values[i] - want.value) / unit_at(want.value, digits, least));
    slope_error = std::max(slope_error, std::abs(slopes[i] - want.slope) / unit_at(want.terms, digits, least));
  }
  CHECK(value_error < of_values);
  CHECK(slope_error < of_slopes);
}

}  // namespace

TEST_CASE("gelu and its slope are right to a few units in the last place everywhere", "[elementwise][gelu]") {
  for (const simd::Target target : simd_targets()) {
    CAPTURE(name_of(target));
    const simd::TargetScope scope(target);
    const bool has_tables = target == simd::Target::avx512;
    constexpr double k_least = std::numeric_limits<float>::min();
    check_errors(everywhere(), -3, 24, k_least, has_tables ? 2.5 : 16, has_tables ? 1.5 : 8);
    check_errors(everywhere(), -8, 24, k_least, has_tables ? 5 : 100, has_tables ? 3 : 40);
    check_errors(everywhere(), -12.5, 24, k_least, has_tables ? 10 : 250, has_tables ? 5 : 100);
    check_errors(everywhere().astype(float16), -15, 11, 0x1p-14, 0.51, 0.51);
    check_errors(everywhere().astype(bfloat16), -12, 8, k_least, 0.51, 0.53);
  }
}

TEST_CASE(
    "gelu of what is no number, infinite, huge, lost or zero is that of numbers one by one", "[elementwise][gelu]") {
  const std::vector<double> odd = {
      k_nan, k_inf, -k_inf, 3e38, -3e38, 14.5, -14.5, -15, 0.0, -0.0, 1e-38, 3.9375, -3.9375};
  for (const simd::Target target : simd_targets()) {
    const simd::TargetScope scope(target);
    for (std::size_t i = 0; i < odd.size(); ++i) {
      for (const std::int64_t n : {1, 15, 16, 17, 33}) {
        CAPTURE(name_of(target), odd[i], n);
        // Its neighbours are what they are beside others, to the last bit.
        const NDArray beside = random_array({n}, 3, -6, 6), here = equal(arange(0, static_cast<double>(n)), n - 1);
        const NDArray x = where(here, odd[i], beside);
        const std::vector<NDArray> got = value_and_slope(x), alone = value_and_slope(full({1}, odd[i]));
        const std::vector<NDArray> others = value_and_slope(beside);
        for (int k = 0; k < 2; ++k) {
          CHECK(equal_bits(got[k].slice(0, 0, n - 1), others[k].slice(0, 0, n - 1)));
          CHECK(equal_bits(got[k].slice(0, n - 1, n), alone[k]));
        }
        const float value = alone[0].item<float>(), slope = alone[1].item<float>();
        if (std::isfinite(odd[i])) {
          const Exact want = exact(odd[i]);
          CHECK(value == Approx(want.value).margin(1e-37));
          CHECK(std::signbit(value) == std::signbit(odd[i]));
          CHECK(slope == Approx(want.slope).margin(1e-37));
        } else {
          CHECK((odd[i] > 0 ? value == k_inf : std::isnan(value)));
          CHECK(std::isnan(slope));
        }
      }
    }
  }
}
