#include <cmath>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/norm_reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr float k_inf = std::numeric_limits<float>::infinity();

NDArray masked(bool log, const NDArray& x, const NDArray& mask, int axis = -1, double temperature = 1) {
  return log ? masked_log_softmax(x, mask, axis, temperature) : masked_softmax(x, mask, axis, temperature);
}

// By plain loops in double, for a mask of x's shape.
Dense reference(const NDArray& x, const NDArray& mask, int axis, double temperature, bool log) {
  Dense y(x);
  const Dense counts(mask);
  const auto row_of = [&](std::size_t i) {
    auto index = unravel(y.shape, static_cast<std::int64_t>(i));
    index[static_cast<std::size_t>(axis)] = 0;
    return static_cast<std::size_t>(ravel(y.shape, index));
  };
  std::vector<double> total(y.values.size());
  for (std::size_t i = 0; i < total.size(); ++i)
    total[row_of(i)] += counts.values[i] != 0 ? std::exp(y.values[i] / temperature) : 0;
  for (std::size_t i = 0; i < total.size(); ++i) {
    const double value = y.values[i] / temperature - std::log(total[row_of(i)]);
    if (counts.values[i] == 0)
      y.values[i] = log ? -std::numeric_limits<double>::infinity() : 0;
    else
      y.values[i] = log ? value : std::exp(value);
  }
  return y;
}

}  // namespace

TEST_CASE("masked softmax and its logarithm agree with plain loops for every type and axis", "[masked_softmax]") {
  for (const DType dtype : floating_dtypes()) {
    const NDArray x = random_array({4, 5, 6}, 1, -3, 3, dtype);
    for (const DType mask_type : {bool_, uint8, float32}) {
      const NDArray mask = (random_array({4, 5, 6}, 2) > 0.0).astype(mask_type);
      for (int axis = 0; axis < 3; ++axis) {
        for (const bool log : {false, true}) {
          CAPTURE(dtype, mask_type, axis, log);
          const NDArray y = masked(log, x, mask, axis - 3, 1.5);
          CHECK(y.dtype() == dtype);
          CHECK(differences(y, reference(x, mask, axis, 1.5, log).array(dtype)) == "");
        }
      }
    }
  }
}

TEST_CASE("masked softmax takes masks that are broadcast, rows without an element, and nothing", "[masked_softmax]") {
  const NDArray x = array<float>({1, 2, 3, 4, 1, 1, 1, 1}, {2, 4});
  const NDArray last = array<int>({1, 1, 0, 0}).astype(bool_), rows = array<int>({1, 0}, {2, 1}).astype(bool_);
  const float part = 1 / (1 + std::exp(1.F));
  CHECK(differences(masked_softmax(x, last), array<float>({part, 1 - part, 0, 0, .5F, .5F, 0, 0}, {2, 4})) == "");
  CHECK(differences(masked_softmax(x, rows).slice(0, 1, 2), zeros({1, 4})) == "");
  CHECK(differences(masked_softmax(x, rows).slice(0, 0, 1), softmax(x.slice(0, 0, 1))) == "");
  CHECK(differences(masked_log_softmax(x, rows).slice(0, 1, 2), full({1, 4}, -k_inf)) == "");
  CHECK(masked_softmax(zeros({0, 4}), last).shape() == Shape{0, 4});
  CHECK(masked_softmax(zeros({3, 0}), zeros({3, 1})).shape() == Shape{3, 0});
  // What is masked does not count, whatever it is.
  const float nan = std::nanf("");
  const NDArray wild = array<float>({1, 2, nan, k_inf}, {1, 4});
  CHECK(differences(masked_softmax(wild, last), array<float>({part, 1 - part, 0, 0}, {1, 4})) == "");
}

TEST_CASE("masked softmax of half types divides by the temperature in float", "[masked_softmax]") {
  const NDArray mask = array<int>({1, 1, 0}).astype(bool_);
  for (const DType dtype : {float16, bfloat16}) {
    // Quotients that do not fit float16, and some whose rounding there would be all of the result.
    for (const auto& [first, temperature] : {std::pair{101.0, 0.001}, std::pair{10.0625, 0.007}}) {
      CAPTURE(dtype, first, temperature);
      const NDArray x = array<double>({first, std::floor(first), 5}).astype(dtype);
      const double apart = (first - std::floor(first)) / temperature, log = -std::log1p(std::exp(-apart));
      const NDArray want = array<double>({log, log - apart, -k_inf});
      CHECK(masked_softmax(x, mask, -1, temperature).dtype() == dtype);
      CHECK(differences(masked_softmax(x, mask, -1, temperature), exp(want).astype(dtype)) == "");
      CHECK(differences(masked_log_softmax(x, mask, -1, temperature), want.astype(dtype)) == "");
    }
  }
}

TEST_CASE(
    "The gradients of masked softmax agree with finite differences, twice, and are 0 behind the mask",
    "[masked_softmax]") {
  const NDArray x = random_array({3, 4}, 1, -2, 2, float64);
  const NDArray mask = array<int>({1, 1, 0, 1, 0, 0, 0, 0, 1, 1, 1, 1}, {3, 4}).astype(bool_);
  const auto f = [=](const auto& v) { return masked_softmax(v[0], mask, 1, 0.5); };
  const auto log = [=](const auto& v) { return where(mask, masked_log_softmax(v[0], mask, 1, 0.5), 0); };
  CHECK(gradient_differences(f, {x}) == "");
  CHECK(gradient_differences(log, {x}) == "");
  const auto gradient = [=](const std::vector<NDArray>& v) {
    NDArray variable = v[0].requires_grad() ? v[0] : v[0].detach();
    if (!variable.requires_grad())
      variable.attach_grad();
    const autograd::RecordScope record;
    const NDArray y = masked_softmax(variable, mask, 1, 0.5);
    const std::vector<NDArray> heads{y * y}, by{variable};
    return autograd::grad(heads, by, {}, {.create_graph = true})[0];
  };
  CHECK(gradient_differences(gradient, {x}) == "");
  const NDArray dx = with_gradients(f, {x}, random_array({3, 4}, 2, -1, 1, float64))[1];
  CHECK(dx.slice(0, 1, 2).to_vector<double>() == std::vector<double>(4, 0));
}

TEST_CASE("masked softmax refuses what does not fit, by name", "[masked_softmax]") {
  const NDArray x = zeros({2, 3}), mask = ones({2, 3});
  CHECK_THROWS_AS(masked_softmax(x, ones({2, 4})), ShapeError);
  CHECK_THROWS_AS(masked_softmax(x, ones({4, 2, 3})), ShapeError);
  CHECK_THROWS_AS(masked_softmax(zeros({1, 3}), mask), ShapeError);
  CHECK_THROWS_AS(masked_log_softmax(x, mask, 2), IndexError);
  CHECK_THROWS_AS(masked_softmax(x, mask, -1, 0), ValueError);
  CHECK_THROWS_AS(masked_softmax(x, mask, -1, std::nan("")), ValueError);
  CHECK_THROWS_AS(masked_log_softmax(x.astype(int32), mask), DTypeError);
  CHECK_THROWS_WITH(masked_log_softmax(zeros({1, 3}), mask), contains("masked_log_softmax") && contains("(1, 3)"));
}
