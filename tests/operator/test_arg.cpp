// argmax and argmin where vectors, blocks and pieces of work begin and end, against a plain search.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/operator/simd_targets.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace sluice::test {
namespace {

using simd::TargetScope;

// Whole numbers from -k_span to k_span, so that there are ties; of floating types some may be NaN.
NDArray coarse(const Shape& shape, DType dtype, bool with_nan) {
  constexpr double k_span = 60;
  const NDArray numbers = floor(random_array(shape, 11, -k_span, k_span, float64));
  const NDArray kept = is_unsigned(dtype) || dtype == DType::bool_ ? abs(numbers) : numbers;
  if (!with_nan)
    return kept.astype(dtype);
  const NDArray holes = random_array(shape, 12, 0, 1, float64) < 0.002;
  return where(holes, full(shape, std::numeric_limits<double>::quiet_NaN(), {.dtype = float64}), kept).astype(dtype);
}

// Along axis 1 of (outer, n, inner).
std::vector<std::int64_t> searched(const NDArray& x, bool largest) {
  const std::int64_t outer = x.shape()[0], n = x.shape()[1], inner = x.shape()[2];
  const std::vector<double> values = x.astype(float64).to_vector<double>();
  std::vector<std::int64_t> found;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t j = 0; j < inner; ++j) {
      const auto at = [&](std::int64_t i) { return values[static_cast<std::size_t>((o * n + i) * inner + j)]; };
      std::int64_t best = 0;
      for (std::int64_t i = 1; i < n && !std::isnan(at(best)); ++i)
        best = std::isnan(at(i)) || (largest ? at(i) > at(best) : at(i) < at(best)) ? i : best;
      found.push_back(best);
    }
  }
  return found;
}

void check(const NDArray& x) {
  CHECK(argmax(x, 1).to_vector<std::int64_t>() == searched(x, true));
  CHECK(argmin(x, 1).to_vector<std::int64_t>() == searched(x, false));
}

}  // namespace

TEST_CASE("argmax and argmin find the first of the best on every instruction set", "[operator][simd][reduce]") {
  for (const simd::Target target : simd_targets()) {
    const TargetScope scope(target);
    for (const DType dtype : all_dtypes()) {
      for (const bool with_nan : {false, true}) {
        if (with_nan && !is_floating(dtype))
          continue;
        CAPTURE(name_of(target), dtype, with_nan);
        for (const std::int64_t n : {1, 2, 15, 16, 17, 63, 64, 65, 100, 255, 2047, 2048, 2049, 4100}) {
          CAPTURE(n);
          check(coarse({3, n, 1}, dtype, with_nan));
          check(coarse({1, n, 3}, dtype, with_nan));
        }
        for (const std::int64_t columns : {4, 17, 64, 65, 1023, 1024, 1025, 1100}) {
          CAPTURE(columns);
          check(coarse({2, 5, columns}, dtype, with_nan));
        }
        check(coarse({2, 70000, 1}, dtype, with_nan));  // rows in pieces
        check(coarse({1, 1100, 20}, dtype, with_nan));  // and columns
        const NDArray wide = coarse({6, 70, 40}, dtype, with_nan);
        check(wide.transpose({2, 1, 0}));
        check(wide.slice(2, 1, 40, 3));
        check(wide.slice(1, 3, 70, 2));
      }
    }
  }
}

TEST_CASE("the best may stand in any lane, and the first NaN is the best", "[operator][simd][reduce]") {
  for (const simd::Target target : simd_targets()) {
    const TargetScope scope(target);
    for (const std::int64_t n : {70, 5000}) {
      for (std::int64_t at = 0; at < n; at += n == 70 ? 1 : 37) {
        std::vector<float> values(static_cast<std::size_t>(n), 1.0F);
        values[static_cast<std::size_t>(at)] = 2;
        CAPTURE(name_of(target), n, at);
        CHECK(argmax(array<float>(values, {n}), 0).item<std::int64_t>() == at);
        CHECK(argmin(-array<float>(values, {n}), 0).item<std::int64_t>() == at);
        values[static_cast<std::size_t>(at)] = values.back() = std::numeric_limits<float>::quiet_NaN();
        CHECK(argmax(array<float>(values, {n}), 0).item<std::int64_t>() == at);
        CHECK(argmin(array<float>(values, {n}), 0).item<std::int64_t>() == at);
      }
    }
  }
}

TEST_CASE("argmax and argmin on a GPU find the first of the best along rows, columns and all elements", "[gpu][arg]") {
  SLUICE_NEEDS_GPUS(1);
  const auto check_on_gpu = [](const NDArray& x) {
    const NDArray there = x.to(gpu());
    CAPTURE(x.dtype(), x.shape(), x.strides());
    CHECK(argmax(there, 1).to_vector<std::int64_t>() == searched(x, true));
    CHECK(argmin(there, 1).to_vector<std::int64_t>() == searched(x, false));
  };
  for (const DType dtype : all_dtypes()) {
    for (const bool with_nan : {false, true}) {
      if (with_nan && !is_floating(dtype))
        continue;
      CAPTURE(with_nan);
      for (const Shape& shape :
           {Shape{1, 50000, 1},  // all elements, in pieces
            Shape{2, 17001, 1},  // the same of rows that are not whole vectors
            Shape{1, 3000, 34},  // columns, in pieces
            Shape{1, 3000, 33},  // and of an odd number
            Shape{3, 37, 65},    // columns of several matrices
            Shape{40, 100, 1}}) {
        check_on_gpu(coarse(shape, dtype, with_nan));
      }
      const NDArray wide = coarse({6, 70, 40}, dtype, with_nan);
      const auto same = [&](const std::function<NDArray(const NDArray&)>& view) {
        CHECK(argmax(view(wide.to(gpu())), 1).to_vector<std::int64_t>() == searched(view(wide), true));
        CHECK(argmin(view(wide.to(gpu())), 1).to_vector<std::int64_t>() == searched(view(wide), false));
      };
      same([](const NDArray& x) { return x.transpose({2, 1, 0}); });
      same([](const NDArray& x) { return x.transpose({0, 2, 1}).slice(1, 1, 40, 2); });
      same([](const NDArray& x) { return x.slice(2, 1, 40, 3); });
      same([](const NDArray& x) { return x.slice(2, 1, 40); });
      same([](const NDArray& x) { return x.slice(1, 0, 1).broadcast_to({6, 70, 40}); });
    }
  }
}

TEST_CASE("On a GPU the best may stand in any piece, and what is as bad as can be is found first", "[gpu][arg]") {
  SLUICE_NEEDS_GPUS(1);
  constexpr float k_infinite = std::numeric_limits<float>::infinity();
  constexpr float k_none = std::numeric_limits<float>::quiet_NaN();
  const auto place = [](const std::vector<float>& values, const Shape& shape, bool largest) {
    const NDArray x = array<float>(values, shape).to(gpu());
    return (largest ? argmax(x, 0) : argmin(x, 0)).to_vector<std::int64_t>()[0];
  };
  // As one row of neighbours, and as the first of three columns.
  for (const std::int64_t columns : {1, 3}) {
    const std::int64_t n = columns == 1 ? 40000 : 2000;
    const Shape shape = columns == 1 ? Shape{n} : Shape{n, columns};
    CAPTURE(columns);
    const std::vector<float> low(static_cast<std::size_t>(n * columns), -k_infinite);
    CHECK(place(low, shape, true) == 0);
    const std::vector<float> high(low.size(), k_infinite);
    CHECK(place(high, shape, false) == 0);
    for (std::int64_t at = 0; at < n; at += n / 7 + 1) {
      CAPTURE(at);
      const auto index = static_cast<std::size_t>(at * columns), last = static_cast<std::size_t>((n - 1) * columns);
      std::vector<float> values = low;
      values[index] = values[last] = 2;
      CHECK(place(values, shape, true) == at);
      values[index] = values[last] = k_none;
      CHECK(place(values, shape, true) == at);
      CHECK(place(values, shape, false) == at);
    }
  }
  const NDArray least = full({30000}, std::numeric_limits<std::int64_t>::min(), {.dtype = int64, .device = gpu()});
  CHECK(argmax(least, 0).item<std::int64_t>() == 0);
  CHECK(argmin(least, 0).item<std::int64_t>() == 0);
}

TEST_CASE("argmax and argmin of all elements count them row by row", "[operator][reduce][arg]") {
  const NDArray x = coarse({3, 5, 4}, DType::float32, false);
  for (const NDArray& seen : {x, x.transpose({2, 0, 1})}) {
    CHECK(argmax(seen).item<std::int64_t>() == argmax(seen.reshape({-1}), 0).item<std::int64_t>());
    CHECK(argmin(seen).item<std::int64_t>() == argmin(seen.reshape({-1}), 0).item<std::int64_t>());
  }
  CHECK(argmax(zeros({2, 2})).shape() == Shape{});
  CHECK_THROWS_AS(argmax(zeros({0, 2})), ValueError);
}

TEST_CASE("argmax and argmin by name count several axes row by row", "[operator][reduce][arg]") {
  const auto found = [](const char* name, const NDArray& x, const char* attributes) {
    const Operator& op = *find_operator(name);
    return invoke_one(op, {x}, parse_attributes(op, attributes), {});
  };
  using Places = std::vector<std::int64_t>;
  const auto places = [](const NDArray& y) { return y.to_vector<std::int64_t>(); };
  const NDArray x = coarse({3, 5, 4}, DType::float32, false);
  for (const char* name : {"argmax", "argmin"}) {
    const bool largest = name == std::string("argmax");
    // (what is looked through, axes, the same with one axis in the middle, shapes of the results)
    struct Case {
      NDArray x;
      const char* axes;
      NDArray joined;
      Shape shape, kept;
    };
    const NDArray back = x.T(), middle = x.transpose({1, 0, 2});
    const std::vector<Case> cases{
        {x, "axes=()", x.reshape({1, 60, 1}), {}, {1, 1, 1}},
        {x, "axes=(2, 0, 1)", x.reshape({1, 60, 1}), {}, {1, 1, 1}},
        {back, "axes=()", back.copy().reshape({1, 60, 1}), {}, {1, 1, 1}},
        {x, "axes=(0, 1)", x.reshape({1, 15, 4}), {4}, {1, 1, 4}},
        {x, "axes=(-1, 1)", x.reshape({3, 20, 1}), {3}, {3, 1, 1}},
        {x, "axes=(0, 2)", middle.copy().reshape({5, 12, 1}), {5}, {1, 5, 1}},
        {middle, "axes=(1, 2)", middle.copy().reshape({5, 12, 1}), {5}, {5, 1, 1}},
        {middle, "axes=(0, 2)", x.reshape({3, 20, 1}), {3}, {1, 3, 1}},
    };
    for (const Case& given : cases) {
      CAPTURE(name, given.axes, given.x.shape());
      const NDArray y = found(name, given.x, given.axes);
      CHECK(y.shape() == given.shape);
      CHECK(places(y) == searched(given.joined, largest));
      const NDArray kept = found(name, given.x, (std::string(given.axes) + ", keepdims=true").c_str());
      CHECK(kept.shape() == given.kept);
      CHECK(places(kept) == places(y));
    }
    CHECK(places(found(name, full({}, 3), "axes=()")) == Places{0});
    CHECK_THROWS_AS(found(name, zeros({0, 3}), "axes=()"), ValueError);
    CHECK_THROWS_AS(found(name, x, "axes=(1, 1)"), ValueError);
    CHECK(found(name, zeros({0, 3, 2}), "axes=(1, 2)").shape() == Shape{0});
  }
}

}  // namespace sluice::test
