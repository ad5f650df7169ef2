// NaN, ties, huge offsets and numbers that do not fit, beyond the elementwise rows: reductions, losses, conversions,
// numbers written into arrays.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

namespace sluice {
namespace {

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();
constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr DType k_floating[] = {float16, bfloat16, float32, float64};

template <class T>
NDArray line(const std::vector<T>& values) {
  return array(values, {static_cast<std::int64_t>(values.size())});
}

std::vector<double> gradient_of(const test::Function& f, const NDArray& at) {
  NDArray x = at.detach();
  x.attach_grad();
  {
    const autograd::RecordScope record;
    f({x}).backward();
  }
  return x.grad().to_vector<double>();
}

void check_extremes_with_nan(Device device) {
  for (const DType dtype : k_floating) {
    for (const std::int64_t n : {1, 7, 33, 300, 70000}) {
      for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
        CAPTURE(dtype, n, at);
        const NDArray x = test::random_array({n}, 5, -3, 3, dtype);
        x.slice(0, at, at + 1).assign(k_nan);
        const NDArray there = x.to(device);
        CHECK(std::isnan(max(there).item<double>()));
        CHECK(std::isnan(min(there).item<double>()));
        // The same as a column of three, of which the others have none.
        const NDArray columns = test::random_array({n, 3}, 6, -3, 3, dtype);
        columns.slice(1, 1, 2).assign(x.reshape({n, 1}));
        for (const NDArray& found : {max(columns.to(device), {0}), min(columns.to(device), {0})}) {
          const auto values = found.to_vector<double>();
          CHECK(!std::isnan(values[0]));
          CHECK(std::isnan(values[1]));
          CHECK(!std::isnan(values[2]));
        }
      }
    }
    CHECK(max(array<double>({-k_inf, -k_inf}).astype(dtype).to(device)).item<double>() == -k_inf);
    CHECK(min(array<double>({k_inf, k_inf}).astype(dtype).to(device)).item<double>() == k_inf);
  }
}

TEST_CASE("max and min of anything with a NaN are NaN", "[operator][reduce][special]") {
  check_extremes_with_nan(cpu());
}

TEST_CASE("max and min with a NaN on a GPU", "[operator][reduce][special][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_extremes_with_nan(gpu());
}

TEST_CASE("the largest share the gradient of max, NaNs have it beside numbers", "[operator][reduce][special]") {
  const auto largest = [](const auto& in) { return max(in[0], {0}); };
  const auto smallest = [](const auto& in) { return min(in[0], {0}); };
  for (const DType dtype : k_floating) {
    CAPTURE(dtype);
    const auto of = [&](const std::vector<double>& values) { return line(values).astype(dtype); };
    using Numbers = std::vector<double>;
    CHECK(gradient_of(largest, of({1, 3, 3, 2})) == Numbers{0, 0.5, 0.5, 0});
    CHECK(gradient_of(smallest, of({1, 3, 1, 1, 1})) == Numbers{0.25, 0, 0.25, 0.25, 0.25});
    CHECK(gradient_of(largest, of({1, k_nan, 3, k_nan})) == Numbers{0, 0.5, 0, 0.5});
    CHECK(gradient_of(smallest, of({k_nan, 1, 3})) == Numbers{1, 0, 0});
    CHECK(gradient_of(largest, of({-k_inf, k_inf, 3})) == Numbers{0, 1, 0});
    // A gradient without bound stays where it belongs.
    CHECK(gradient_of([](const auto& in) { return max(in[0], {0}) * k_inf; }, of({1, 3, 2})) == Numbers{0, k_inf, 0});
  }
}

TEST_CASE("the gradient of a product can be differentiated where factors are zero", "[operator][reduce][special]") {
  const auto gradient = [](NDArray x, const Shape& axes) {
    if (!autograd::on_tape(x)) {
      x = x.detach();
      x.attach_grad();
    }
    const autograd::RecordScope record;
    const NDArray y = prod(x, axes);
    return autograd::grad({&y, 1}, {&x, 1}, {}, {.create_graph = true})[0];
  };
  // Of x0 x1 x2 at (0, 2, 5): what the gradient's elements weighted by 1, 10, 100 depend on.
  const NDArray weights = array<double>({1, 10, 100});
  const auto f = [&](const auto& in) { return gradient(in[0], {0}) * weights; };
  CHECK(gradient_of(f, array<double>({0, 2, 5})) == std::vector<double>{250, 5, 2});
  CHECK(gradient_of(f, array<double>({0, 0, 5})) == std::vector<double>{50, 5, 0});
  CHECK(gradient_of(f, array<double>({0, 0, 0})) == std::vector<double>{0, 0, 0});

  const NDArray x = test::random_array({2, 3, 5}, 8, -2, 2, float64);
  x.slice(2, 1, 2).assign(0);
  x.slice(0, 0, 1).slice(1, 0, 1).slice(2, 2, 3).assign(0);
  for (const Shape& axes : {Shape{0}, Shape{1}, Shape{2}, Shape{0, 2}, Shape{1, 2}, Shape{}}) {
    CAPTURE(axes);
    const test::Function by_x = [&](const auto& in) { return in[0] * gradient(in[0], axes); };
    CHECK(test::gradient_differences(by_x, {x}, {.tolerance = {2e-5, 1e-6}}) == "");
    const auto fused = gradient_of([&](const auto& in) { return prod(in[0], axes); }, x);
    CHECK(test::differences(gradient(x, axes), array(fused, x.shape())) == "");
  }
}

TEST_CASE("the mean of large whole numbers does not overflow", "[operator][reduce][special]") {
  const std::int64_t large = std::int64_t{1} << 62;
  CHECK(mean(full({4}, large, {.dtype = int64})).item<double>() == std::ldexp(1.0, 62));
  CHECK(
      mean(array<std::int64_t>({large, large, large, -large}, {2, 2}), {1}).to_vector<double>() ==
      std::vector<double>{std::ldexp(1.0, 62), 0});
  CHECK(mean(array<std::int64_t>({1, 2}), {0}).dtype() == float32);
}

// What the gradient of a row of logits is, in double.
std::vector<double> cross_entropy_gradient(const std::vector<double>& logits, std::size_t label) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double x : logits)
    sum += std::exp(x - largest);
  std::vector<double> gradient;
  for (std::size_t i = 0; i < logits.size(); ++i)
    gradient.push_back(std::exp(logits[i] - largest) / sum - (i == label ? 1 : 0));
  return gradient;
}

void check_cross_entropy(Device device) {
  for (const double offset : {0.0, 3000.0, -70000.0, 4194304.0}) {
    for (const DType dtype : {float32, float64}) {
      CAPTURE(offset, dtype);
      const NDArray row = array<double>({offset, offset + 0.5, offset - 1, offset + 0.5}).astype(dtype);
      const NDArray logits = row.reshape({1, 4}).broadcast_to({3, 4}).copy().to(device);
      const NDArray labels = full({3}, 1, {.dtype = int32, .device = device});
      const auto f = [&](const auto& in) { return softmax_cross_entropy(in[0], labels); };
      const auto want = cross_entropy_gradient(row.to_vector<double>(), 1);
      const NDArray found = array(gradient_of(f, logits), {3, 4}), exact = line(want).broadcast_to({3, 4});
      CHECK(test::differences(found, exact, {2e-6, 1e-7}) == "");
    }
  }
}

TEST_CASE("cross entropy's gradient keeps its digits under a large offset", "[operator][softmax][special]") {
  check_cross_entropy(cpu());
}

TEST_CASE("cross entropy's gradient under a large offset on a GPU", "[operator][softmax][special][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_cross_entropy(gpu());
}

// Whole numbers around the middle of two neighbours of a type that keeps `bits` bits.
std::vector<std::int64_t> halves(int bits, int top) {
  std::vector<std::int64_t> values;
  for (int width = bits + 2; width < top; ++width) {
    for (const std::int64_t odd : {std::int64_t{0}, std::int64_t{1}}) {
      const std::int64_t step = std::int64_t{1} << (width - bits);
      const std::int64_t middle = (std::int64_t{1} << (width - 1)) + odd * step + step / 2;
      for (const std::int64_t near : {middle - 1, middle, middle + 1}) {
        values.push_back(near);
        values.push_back(-near);
      }
    }
  }
  return values;
}

double rounded_to(std::int64_t value, int bits) {
  const std::int64_t magnitude = std::abs(value);
  int width = 0;
  while (magnitude >> width != 0)
    ++width;
  const std::int64_t step = std::int64_t{1} << std::max(0, width - bits);
  std::int64_t kept = magnitude / step;
  const std::int64_t rest = magnitude % step;
  kept += 2 * rest > step || (2 * rest == step && kept % 2 == 1) ? 1 : 0;
  return static_cast<double>(value < 0 ? -kept : kept) * static_cast<double>(step);
}

void check_whole_to_half(Device device) {
  for (const DType from : {int32, int64}) {
    const auto values = halves(8, from == int32 ? 31 : 62);
    std::vector<double> want;
    for (const std::int64_t value : values)
      want.push_back(rounded_to(value, 8));
    CAPTURE(from);
    CHECK(line(values).to(device).astype(from).astype(bfloat16).to_vector<double>() == want);
    const auto small = halves(11, 15);
    want.clear();
    for (const std::int64_t value : small)
      want.push_back(rounded_to(value, 11));
    CHECK(line(small).to(device).astype(from).astype(float16).to_vector<double>() == want);
  }
}

TEST_CASE("whole numbers become half precision with one rounding", "[operator][special]") {
  check_whole_to_half(cpu());
  CHECK(full({}, (1 << 30) + (1 << 22) + 1, {.dtype = bfloat16}).item<double>() == (1 << 30) + (1 << 23));
}

TEST_CASE("whole numbers become half precision with one rounding on a GPU", "[operator][special][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_whole_to_half(gpu());
}

TEST_CASE("a comparison that expects an infinity or NaN takes nothing else for it", "[operator][special]") {
  const auto alike = [](double got, double want) {
    return test::all_close(full({2}, got), full({2}, want), {0.5, 0.5});
  };
  CHECK(alike(k_inf, k_inf));
  CHECK(alike(-k_inf, -k_inf));
  CHECK(alike(k_nan, k_nan));
  for (const double want : {k_inf, -k_inf, k_nan}) {
    CHECK_FALSE(alike(-69, want));
    CHECK_FALSE(alike(3e38, want));
    CHECK_FALSE(alike(want, 3e38));
    CHECK(alike(-want, want) == std::isnan(want));
  }
  CHECK_FALSE(alike(k_nan, k_inf));
  CHECK(alike(1, 1.2));
}

TEST_CASE("numbers that a type does not hold are not written into it", "[operator][special][errors]") {
  CHECK_THROWS_AS(full({2}, 300, {.dtype = uint8}), ValueError);
  CHECK_THROWS_WITH(full({2}, 300, {.dtype = uint8}), test::contains("full") && test::contains("300"));
  CHECK_THROWS_AS(full({2}, -1, {.dtype = uint8}), ValueError);
  CHECK_THROWS_AS(full({2}, -129, {.dtype = int8}), ValueError);
  CHECK_THROWS_AS(full({2}, 2.5, {.dtype = int32}), ValueError);
  CHECK_THROWS_AS(full({2}, k_nan, {.dtype = int64}), ValueError);
  CHECK_THROWS_AS(full({2}, 0x1p63, {.dtype = int64}), ValueError);
  CHECK(full({}, -0x1p63, {.dtype = int64}).item<std::int64_t>() == std::numeric_limits<std::int64_t>::min());
  CHECK(full({}, 255.0, {.dtype = uint8}).item<int>() == 255);
  CHECK(full({}, -128, {.dtype = int8}).item<int>() == -128);
  CHECK(full({}, 7, {.dtype = bool_}).item<int>() == 1);
  CHECK(full({}, 300, {.dtype = float16}).item<double>() == 300);

  const NDArray whole = array<std::int32_t>({1, 2});
  CHECK_THROWS_AS(whole.assign(2.7), ValueError);
  CHECK_THROWS_WITH(whole.assign(2.7), test::contains("assign") && test::contains("2.7") && test::contains("int32"));
  CHECK_THROWS_AS(whole.assign(std::int64_t{1} << 31), ValueError);
  CHECK_THROWS_AS(fill(whole, 0.5), ValueError);
  CHECK(whole.to_vector<int>() == std::vector<int>{1, 2});
  whole.assign(3.0);
  CHECK(whole.to_vector<int>() == std::vector<int>{3, 3});

  const std::uint64_t large = std::uint64_t{1} << 63;
  CHECK_THROWS_AS(Scalar(large), ValueError);
  CHECK_THROWS_WITH(whole + large, test::contains("9223372036854775808"));
  CHECK(Scalar(large - 1).as_int64() == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("axes are not cut to 32 bits", "[operator][special][errors]") {
  const NDArray x = ones({2, 3});
  const std::int64_t far = std::int64_t{1} << 32;
  CHECK_THROWS_AS(sum(x, {far}), IndexError);
  CHECK_THROWS_AS(max(x, {far + 1}), IndexError);
  CHECK_THROWS_AS(x.transpose({far + 1, 0}), IndexError);
  CHECK_THROWS_WITH(sum(x, {far}), test::contains("4294967296"));
}

TEST_CASE("errors name the operator, the user's line and the line of the forward pass", "[operator][special][errors]") {
  const std::string here = __FILE__;
  const NDArray nothing;
  CHECK_THROWS_WITH(sum(nothing), test::contains("sum") && test::contains("undefined") && !test::contains("shape"));
  CHECK_THROWS_WITH(mean(nothing), test::contains("mean") && test::contains("undefined"));
  CHECK_THROWS_WITH(nothing.T(), test::contains("undefined") && test::contains(here.substr(here.rfind('/') + 1)));
  CHECK_THROWS_WITH(argmax(nothing, 0), test::contains("argmax") && test::contains("undefined"));
}

}  // namespace
}  // namespace sluice
