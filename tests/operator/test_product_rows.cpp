// Gradients of products of rows of floats, which vectors take some factors at a time, against those of doubles.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/simd_targets.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity(), k_nan = std::numeric_limits<double>::quiet_NaN();

NDArray product_gradient(const NDArray& x, const NDArray& dy, const std::string& axes) {
  const Operator& op = *find_operator("prod_backward");
  return invoke_one(op, {x, dy}, parse_attributes(op, "axes=" + axes), SourceLocation::current());
}

/// Those of float64 go one by one.
void check_same(const NDArray& x, const NDArray& dy, const std::string& axes) {
  const NDArray want = product_gradient(x.astype(float64), dy.astype(float64), axes).astype(x.dtype());
  CHECK(differences(product_gradient(x, dy, axes), want, {x.dtype() == float32 ? 2e-7 : 1e-2, 0}) == "");
}

NDArray factors(const Shape& shape, DType dtype, double from, double to) {
  const NDArray size = exp2(random_array(shape, 3, from, to, float64));
  return where(random_array(shape, 4) < 0, -size, size).astype(dtype);
}

const std::vector<std::int64_t> k_widths = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1023, 1025};

void check_lengths() {
  for (const DType dtype : {float32, float16, bfloat16}) {
    for (const std::int64_t n : k_widths) {
      CAPTURE(name_of(dtype), n);
      check_same(factors({3, n}, dtype, -0.1, 0.1), random_array({3}, 5, -1, 1, dtype), "(1)");
      check_same(factors({n, 3}, dtype, -0.1, 0.1), random_array({3}, 5, -1, 1, dtype), "(0)");
      check_same(factors({2, n, 3}, dtype, -0.1, 0.1), random_array({2, 3}, 5, -1, 1, dtype), "(1)");
      check_same(factors({2, 3, n}, dtype, -0.1, 0.1), random_array({3}, 5, -1, 1, dtype), "(0, 2)");
    }
  }
}

// Factors whose partial products leave doubles, of which those of the others come back.
void check_far_apart() {
  for (const std::int64_t n : {8, 40, 64, 200}) {
    CAPTURE(n);
    const auto count = static_cast<double>(n);
    const NDArray power = where(arange(0, count) < count / 2, 120, -120);
    const NDArray x = exp2(power.reshape({1, n}) + random_array({2, n}, 6, -0.1, 0.1));
    check_same(x, array<float>({1, -2}, {2}), "(1)");
    check_same(full({2, n}, 3e38), array<float>({1, 0x1p-100F}, {2}), "(1)");
    check_same(full({2, n}, -1e-37), array<float>({1, 0x1p100F}, {2}), "(1)");
  }
  // Of the largest numbers there are no more at once than doubles hold, whatever is there from those before.
  const NDArray large = full({}, std::numeric_limits<float>::max()), small = full({}, 0x1p-100);
  check_same(where(arange(0, 285) < 125, large, small).reshape({1, 285}), array<float>({16}, {1}), "(1)");
}

void check_odd_numbers() {
  for (const std::int64_t n : {1, 8, 9, 33, 100}) {
    for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
      const NDArray here = one_hot(array(std::vector<std::int64_t>{at}, {1}), n);
      for (const double value : {k_nan, k_inf, -k_inf, 0.0, -0.0}) {
        CAPTURE(n, at, value);
        check_same(where(here > 0, value, factors({2, n}, float32, -0.1, 0.1)), array<float>({3, 0}, {2}), "(1)");
      }
      for (const double head : {k_nan, k_inf, 0.0})
        check_same(factors({1, n}, float32, -0.1, 0.1), full({1}, head), "(1)");
    }
  }
}

}  // namespace

TEST_CASE("Gradients of products of rows of any length are those of doubles, rounded", "[reduce][product]") {
  for (const simd::Target target : simd_targets()) {
    CAPTURE(name_of(target));
    const simd::TargetScope scope(target);
    check_lengths();
    check_far_apart();
    check_odd_numbers();
  }
}

TEST_CASE("Gradients of products of nothing are nothing, and have the same bits on all workers", "[reduce][product]") {
  CHECK(product_gradient(zeros({3, 0}), zeros({3}), "(1)").shape() == Shape{3, 0});
  CHECK(product_gradient(zeros({0, 3}), zeros({0}), "(1)").shape() == Shape{0, 3});
  std::vector<std::vector<float>> all;
  for (const int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    const NDArray x = factors({700, 130}, float32, -0.2, 0.2);
    all.push_back(product_gradient(x, random_array({700}, 2), "(1)").to_vector<float>());
  }
  CHECK((all[0] == all[1]));
  CHECK((all[0] == all[2]));
}
