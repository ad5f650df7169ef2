#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reduction_rows.h"
#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

namespace sluice {
namespace {

using test::Dense;

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

using test::Reduce;
using test::reduction_cases;
using test::ReductionCase;
using Terms = std::vector<double>;

double added(const Terms& terms) {
  return std::accumulate(terms.begin(), terms.end(), 0.0);
}

double variance_of(const Terms& terms) {
  const double mean = added(terms) / static_cast<double>(terms.size());
  double total = 0;
  for (const double x : terms)
    total += (x - mean) * (x - mean);
  return total / static_cast<double>(terms.size());
}

template <class F>
double folded(const Terms& terms, const F& f) {
  return std::accumulate(terms.begin() + 1, terms.end(), terms.front(), f);
}

template <class F>
Terms each(Terms terms, const F& f) {
  std::transform(terms.begin(), terms.end(), terms.begin(), f);
  return terms;
}

// What each row is, worked out by other means than its own.
const std::map<std::string, double (*)(const Terms&)> k_expected = {
    {"sum", added},
    {"mean", [](const Terms& t) { return added(t) / static_cast<double>(t.size()); }},
    {"prod", [](const Terms& t) { return folded(t, [](double a, double b) { return a * b; }); }},
    {"max", [](const Terms& t) { return *std::max_element(t.begin(), t.end()); }},
    {"min", [](const Terms& t) { return *std::min_element(t.begin(), t.end()); }},
    {"variance", variance_of},
    {"standard_deviation", [](const Terms& t) { return std::sqrt(variance_of(t)); }},
    {"l1_norm", [](const Terms& t) { return added(each(t, [](double x) { return std::abs(x); })); }},
    {"l2_norm", [](const Terms& t) { return std::sqrt(added(each(t, [](double x) { return x * x; }))); }},
    {"max_norm",
     [](const Terms& t) {
       const Terms sizes = each(t, [](double x) { return std::abs(x); });
       return *std::max_element(sizes.begin(), sizes.end());
     }},
    {"logsumexp", [](const Terms& t) { return std::log(added(each(t, [](double x) { return std::exp(x); }))); }},
    {"nansum", added},
    {"any",
     [](const Terms& t) { return std::any_of(t.begin(), t.end(), [](double x) { return x != 0; }) ? 1.0 : 0.0; }},
    {"all",
     [](const Terms& t) { return std::all_of(t.begin(), t.end(), [](double x) { return x != 0; }) ? 1.0 : 0.0; }},
    {"count_nonzero",
     [](const Terms& t) {
       return static_cast<double>(t.size()) - static_cast<double>(std::count(t.begin(), t.end(), 0.0));
     }},
};

// Every non-empty set of axes.
std::vector<std::vector<int>> axis_sets(int ndim) {
  std::vector<std::vector<int>> sets;
  for (int bits = 1; bits < 1 << ndim; ++bits) {
    std::vector<int> axes;
    for (int axis = 0; axis < ndim; ++axis) {
      if (bits >> axis & 1)
        axes.push_back(axis);
    }
    sets.push_back(axes);
  }
  return sets;
}

Shape as_shape(const std::vector<int>& axes) {
  Shape shape;
  for (int axis : axes)
    shape.push_back(axis);
  return shape;
}

void check(const ReductionCase& row, const NDArray& x, const std::vector<int>& axes) {
  INFO(row.name << " of " << x.dtype() << " " << x.shape() << " over " << as_shape(axes));
  const auto known = k_expected.find(row.name);
  const Dense want = test::reduce_terms(Dense(x), axes, known != k_expected.end() ? known->second : row.of);
  const NDArray got = row.run(x, as_shape(axes), true);
  CHECK(got.dtype() == row.result_type(x.dtype()));
  CHECK(test::differences(got, want.array()) == "");
  const NDArray flat = row.run(x, as_shape(axes), false);
  CHECK(flat.ndim() == x.ndim() - static_cast<int>(axes.size()));
  CHECK(flat.to_vector<double>() == got.to_vector<double>());
}

TEST_CASE("reductions agree with plain loops for every type and set of axes") {
  for (DType dtype : test::all_dtypes()) {
    const NDArray x = test::random_array({2, 3, 4}, 5, -2, 2, dtype);
    for (const ReductionCase& reduction : reduction_cases()) {
      for (const auto& axes : axis_sets(3))
        check(reduction, x, axes);
    }
  }
}

TEST_CASE("reductions read strided arrays") {
  const NDArray x = test::random_array({6, 5, 8}, 6, -1, 1);
  for (const NDArray& view :
       {x.transpose(),
        x.transpose({1, 0, 2}),
        x.slice(2, 1, 8, 3),
        x.slice(0, 0, 6, 2),
        x[1].broadcast_to({3, 5, 8})}) {
    for (const ReductionCase& reduction : reduction_cases()) {
      for (const auto& axes : axis_sets(view.ndim()))
        check(reduction, view, axes);
    }
  }
}

TEST_CASE("reductions cross block limits") {
  const Shape shapes[] = {
      {1},
      {15},
      {16},
      {17},
      {255},
      {256},
      {257},
      {4097},
      {32768},
      {32769},
      {300001},
      {1000, 70},
      {20000, 3},
      {3, 513, 65},
      {2, 1030},
      {7, 4, 33, 31}};
  for (const Shape& shape : shapes) {
    const NDArray x = test::random_array(shape, 7, 0.5, shape.size() > 300 ? 0.9 : 1.5);  // products stay numbers
    for (const auto& axes : axis_sets(shape.ndim())) {
      for (const ReductionCase& row : reduction_cases()) {
        const bool is_short = x.size() < 10000 || row.name == "sum" || row.name == "max";
        if (is_short || row.name == "variance" || row.name == "logsumexp")
          check(row, x, axes);
      }
    }
  }
}

TEST_CASE("a sum of many float32 is as exact as a pairwise one") {
  const NDArray x = test::random_array({1 << 22}, 8, 0, 1);
  const auto values = x.to_vector<double>();
  double exact = 0;
  for (double value : values)
    exact += value;
  // Pairs of blocks: about log2(n) roundings of half a unit each; a running sum is off by 1e-4 here.
  CHECK(std::abs(sum(x).item<double>() - exact) < 5e-7 * exact);
  CHECK(std::abs(sum(x.reshape({1 << 16, 64}), {0}).to_vector<double>()[3] - exact / 64) < 1e-2 * exact / 64);
  const NDArray tenth = full({1 << 22}, 0.1f);
  CHECK(sum(tenth).item<float>() == Approx(0.1f * (1 << 22)).epsilon(1e-6));
}

TEST_CASE("narrow types add up in wider ones") {
  CHECK(sum(ones({100000}, {.dtype = float16}).slice(0, 0, 5000)).item<double>() == 5000);
  CHECK(mean(full({4000}, 60000, {.dtype = float16})).item<double>() == 60000);
  CHECK(sum(ones({300}, {.dtype = bfloat16})).item<double>() == 300);
  CHECK(sum(full({1000}, 127, {.dtype = int8})).item<std::int64_t>() == 127000);
  CHECK(sum(full({4}, 2147483647, {.dtype = int32})).item<std::int64_t>() == 4 * std::int64_t{2147483647});
  CHECK(sum(ones({77}, {.dtype = DType::bool_})).item<std::int64_t>() == 77);
  CHECK(mean(array<std::int64_t>({std::int64_t{1} << 40, (std::int64_t{1} << 40) + 2})).item<double>() == 0x1p40);
}

TEST_CASE("NaN wins, first of equals wins") {
  const NDArray x = array<double>({1, k_nan, 3, k_nan, -4, 3}, {2, 3});
  CHECK(test::differences(max(x, {1}), array<double>({k_nan, k_nan})) == "");
  CHECK(test::differences(min(x, {0}), array<double>({k_nan, k_nan, 3})) == "");
  CHECK(argmax(x, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0});
  CHECK(argmin(x, -1).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0});
  const NDArray ties = array<float>({2, 7, 7, 2, 7, 2}, {2, 3});
  CHECK(argmax(ties, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1});
  CHECK(argmin(ties, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 0});
  CHECK(argmax(ties, 0).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 0, 0});
}

TEST_CASE("argmax and argmin find the place of the extreme for every type, axis and stride") {
  for (DType dtype : test::all_dtypes()) {
    const NDArray base = test::random_array({5, 67, 6}, 9, -100, 100, dtype);
    for (const NDArray& x : {base, base.transpose(), base.slice(1, 3, 60, 2)}) {
      for (int axis = 0; axis < 3; ++axis) {
        INFO(dtype << " axis " << axis);
        const NDArray largest = argmax(x, axis), smallest = argmin(x, axis, true);
        CHECK(largest.dtype() == int64);
        CHECK(smallest.shape()[axis] == 1);
        CHECK(test::differences(pick(x, largest, axis), max(x, {axis})) == "");
        CHECK(test::differences(pick(x, smallest.squeeze(axis), axis), min(x, {axis})) == "");
      }
    }
  }
}

TEST_CASE("reductions of nothing, and of arrays without axes") {
  const NDArray nothing = zeros({0, 3});
  CHECK(sum(nothing).item<double>() == 0);
  CHECK(prod(nothing, {0}).to_vector<double>() == std::vector<double>{1, 1, 1});
  CHECK(std::isnan(mean(nothing).item<double>()));
  CHECK(sum(nothing, {1}).shape() == Shape{0});
  CHECK(max(nothing, {1}).size() == 0);
  CHECK_THROWS_AS(max(nothing, {0}), ValueError);
  CHECK_THROWS_AS(min(nothing), ValueError);
  CHECK_THROWS_AS(argmax(nothing, 0), ValueError);
  const NDArray scalar = full({}, 4.5);
  CHECK(sum(scalar).item<double>() == 4.5);
  CHECK(max(scalar).ndim() == 0);
  CHECK_THROWS_AS(argmax(scalar, 0), IndexError);
}

TEST_CASE("reductions refuse wrong axes and name themselves") {
  const NDArray x = zeros({2, 3});
  CHECK_THROWS_AS(sum(x, {2}), IndexError);
  CHECK_THROWS_AS(sum(x, {-3}), IndexError);
  CHECK_THROWS_WITH(mean(x, {1, -1}), sluice::test::contains("mean") && sluice::test::contains("twice"));
  CHECK_THROWS_WITH(max(zeros({2, 0}), {1}), sluice::test::contains("max") && sluice::test::contains("(2, 0)"));
}

TEST_CASE("gradients of reductions agree with finite differences") {
  const NDArray x = test::random_array({3, 4, 5}, 10, -2, 2, float64);
  for (const ReductionCase& reduction : reduction_cases()) {
    if (!reduction.has_gradient())
      continue;
    for (const Shape& axes : {Shape{}, Shape{0}, Shape{-1}, Shape{0, 2}, Shape{1}}) {
      for (bool keepdims : {false, true}) {
        INFO(reduction.name << " over " << axes);
        const auto f = [&](const std::vector<NDArray>& in) { return reduction.run(in[0], axes, keepdims); };
        CHECK(test::gradient_differences(f, {x}, {.tolerance = {1e-4, 1e-6}}) == "");
      }
    }
  }
}

NDArray gradient_of(NDArray x, Reduce reduce, const Shape& axes) {
  x.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = reduce(x, axes, false, SourceLocation::current());
  }
  y.backward();
  return x.grad();
}

TEST_CASE("ties share the gradient of a maximum, zeros have theirs in a product") {
  const NDArray x = array<float>({1, 5, 5, 2, 2, 0}, {2, 3});
  CHECK(gradient_of(x, max, {1}).to_vector<float>() == std::vector<float>{0, 0.5, 0.5, 0.5, 0.5, 0});
  CHECK(gradient_of(x, min, {0}).to_vector<float>() == std::vector<float>{1, 0, 0, 0, 1, 1});
  const NDArray factors = array<float>({2, 0, 3, 0, 0, 4}, {2, 3});
  CHECK(gradient_of(factors, prod, {1}).to_vector<float>() == std::vector<float>{0, 6, 0, 0, 0, 0});
  const NDArray half = full({2}, 300, {.dtype = float16});  // whose product is none
  CHECK(gradient_of(half, prod, {}).to_vector<float>() == std::vector<float>{300, 300});
}

TEST_CASE("a reduction gives the same bits on any number of workers") {
  for (const ReductionCase& row : reduction_cases()) {
    for (const Shape& shape : {Shape{300007}, Shape{5000, 37}, Shape{3, 40000}}) {
      CAPTURE(row.name, shape.ndim());
      std::vector<std::vector<double>> results;
      for (int workers : {1, 2, 5}) {
        Engine engine({.workers = workers});
        const EngineScope scope(engine);
        const NDArray x = test::random_array(shape, 11, 0.99, 1.01);
        results.push_back(row.run(x, {0}, false).to_vector<double>());
      }
      CHECK(results[0] == results[1]);
      CHECK(results[0] == results[2]);
    }
  }
}

std::vector<NDArray> views_of(const NDArray& x) {
  std::vector<NDArray> views = {x};
  if (x.ndim() > 1)
    views.push_back(x.transpose());
  if (x.ndim() > 0)
    views.push_back(x.slice(x.ndim() - 1, 1, 1 << 30, 2));
  return views;
}

void compare_devices(const NDArray& on_cpu, const NDArray& on_gpu) {
  for (const auto& axes : axis_sets(on_cpu.ndim())) {
    for (const ReductionCase& reduction : reduction_cases()) {
      if (on_cpu.size() == 0 && !reduction.takes_nothing)
        continue;
      // Of many elements only some: the ways that kernels cut them are everybody's.
      const bool is_told = reduction.name == "sum" || reduction.name == "variance";
      if (on_cpu.size() > 100000 && !is_told)
        continue;
      if (on_cpu.size() > 5000 && !is_told && reduction.name != "max" && reduction.name != "logsumexp")
        continue;
      INFO(reduction.name << " of " << on_cpu.dtype() << " " << on_cpu.shape() << " over " << as_shape(axes));
      const NDArray want = reduction.run(on_cpu, as_shape(axes), false);
      const NDArray got = reduction.run(on_gpu, as_shape(axes), false);
      // Sums of both signs: rounding is relative to the terms.
      test::Tolerance tolerance = test::tolerance_of(want.dtype());
      if (is_floating(on_cpu.dtype()) && on_cpu.dtype() != float64)
        tolerance.absolute = std::max(tolerance.absolute, 1e-6 * std::sqrt(static_cast<double>(on_cpu.size())));
      CHECK(test::differences(got.to(cpu()), want, tolerance) == "");
    }
  }
}

TEST_CASE("reductions on a GPU agree with the CPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Shape shapes[] = {
      {},
      {1},
      {31},
      {1025},
      {33001},   // three pieces
      {600000},  // more of them than a warp joins at once
      {33, 100},
      {100, 33},
      {5, 2049},
      {3, 20000},
      {9000, 3},
      {2, 3, 4},
      {3, 2, 33, 31},
      {20, 32, 24},
      {0, 3}};
  for (DType dtype : test::all_dtypes()) {
    for (const Shape& shape : shapes) {
      // What is cut is so by the size of elements.
      const bool has_its_size = dtype == int8 || dtype == bfloat16 || dtype == float32 || dtype == float64;
      if (shape.size() > 5000 && !has_its_size)
        continue;
      if (shape.size() > 100000 && dtype != float32 && dtype != int8)
        continue;
      const NDArray x = test::random_array(shape, 12, -1, 1, dtype);
      const auto on_gpu = views_of(x.to(gpu()));
      const auto on_cpu = views_of(x);
      for (std::size_t i = 0; i < on_cpu.size(); ++i)
        compare_devices(on_cpu[i], on_gpu[i]);
    }
  }
}

TEST_CASE("argmax and argmin on a GPU agree with the CPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (DType dtype : test::all_dtypes()) {
    for (const Shape& shape : {Shape{50, 10}, Shape{3, 3000}, Shape{4, 65, 37}, Shape{100000}}) {
      const NDArray x = test::random_array(shape, 13, -30, 30, dtype);
      for (int axis = 0; axis < shape.ndim(); ++axis) {
        INFO(dtype << " " << shape << " axis " << axis);
        CHECK(test::differences(argmax(x.to(gpu()), axis).to(cpu()), argmax(x, axis)) == "");
        CHECK(test::differences(argmin(x.to(gpu()).transpose(), axis).to(cpu()), argmin(x.transpose(), axis)) == "");
      }
    }
  }
  const NDArray x = array<float>({1, static_cast<float>(k_nan), 3, static_cast<float>(k_nan)});
  CHECK(argmax(x.to(gpu()), 0).item<std::int64_t>() == 1);
}

TEST_CASE("a reduction on a GPU gives the same bits every time", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = test::random_array({3000, 700}, 14).to(gpu());
  for (const Shape& axes : {Shape{}, Shape{0}, Shape{1}}) {
    const auto first = sum(x, axes).to_vector<float>();
    for (int i = 0; i < 5; ++i)
      CHECK(sum(x, axes).to_vector<float>() == first);
  }
}

}  // namespace
}  // namespace sluice
