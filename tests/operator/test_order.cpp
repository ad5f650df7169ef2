// sort, argsort, topk and searchsorted: what NumPy and PyTorch give, for every type and axis.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/operator/simd_targets.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using test::differences;
using test::random_array;

namespace {

using Index = std::int64_t;
constexpr double k_nan = std::numeric_limits<double>::quiet_NaN(), k_inf = std::numeric_limits<double>::infinity();

// A NaN is the largest.
bool comes_before(double a, double b) {
  return std::isnan(b) ? !std::isnan(a) : a < b;
}

// The first k entries in order and where they stand, equal ones as they stood.
Ordered ordered(const NDArray& x, int axis, Index k, bool descending) {
  const test::Dense from(x);
  Shape first = x.shape(), kept = x.shape();
  first[axis] = 1;
  kept[axis] = k;
  test::Dense values(kept, 0), indices(kept, 0);
  for (Index row = 0; row < first.size(); ++row) {
    auto index = test::unravel(first, row);
    Index& at = index[static_cast<std::size_t>(axis)];
    const auto value = [&](Index i) {
      at = i;
      return from.values[static_cast<std::size_t>(test::ravel(x.shape(), index))];
    };
    std::vector<Index> places(static_cast<std::size_t>(x.shape()[axis]));
    std::iota(places.begin(), places.end(), Index{0});
    std::stable_sort(places.begin(), places.end(), [&](Index a, Index b) {
      return descending ? comes_before(value(b), value(a)) : comes_before(value(a), value(b));
    });
    for (Index i = 0; i < k; ++i) {
      const Index place = places[static_cast<std::size_t>(i)];
      const double found = value(place);
      at = i;
      const auto to = static_cast<std::size_t>(test::ravel(kept, index));
      values.values[to] = found;
      indices.values[to] = static_cast<double>(place);
    }
  }
  return {values.array(), indices.array()};
}

void check_same(const Ordered& got, const Ordered& want, DType dtype) {
  CHECK(got.values.dtype() == dtype);
  CHECK(got.indices.dtype() == int64);
  CHECK(differences(got.values, want.values, {0, 0}) == "");
  CHECK(differences(got.indices, want.indices, {0, 0}) == "");
}

void check(const NDArray& x, int axis, const std::vector<Index>& kept) {
  CAPTURE(x.dtype(), x.shape(), x.strides(), axis);
  const NDArray here = x.to(cpu());
  const Index n = x.shape()[axis];
  for (const bool descending : {false, true}) {
    CAPTURE(descending);
    const Ordered all = ordered(here, axis, n, descending);
    check_same(sort_with_indices(x, axis, descending), all, x.dtype());
    check_same({sort(x, axis, descending), argsort(x, axis, descending)}, all, x.dtype());
    for (const Index k : kept) {
      CAPTURE(k);
      check_same(
          topk(x, k, axis, descending), {all.values.slice(axis, 0, k), all.indices.slice(axis, 0, k)}, x.dtype());
    }
  }
}

// With ties, of floating types with NaNs.
NDArray drawn(const Shape& shape, DType dtype, double span = 9) {
  const NDArray numbers = floor(random_array(shape, 11, -span, span, float64));
  const NDArray fit = is_unsigned(dtype) || dtype == bool_ ? abs(numbers) : numbers;
  if (!is_floating(dtype))
    return fit.astype(dtype);
  const NDArray holes = random_array(shape, 12, 0, 1, float64) < 0.05;
  return where(holes, full(shape, k_nan, {.dtype = float64}), fit).astype(dtype);
}

void check_layouts(DType dtype, Device device) {
  const auto at = [&](const Shape& shape) { return drawn(shape, dtype).to(device); };
  for (const int axis : {0, 1, 2}) {
    check(at({3, 11, 4}), axis, {0, 1, 2, 3});
    check(at({4, 11, 3}).T(), axis, {1});
    check(at({3, 9, 6}).slice(1, 7, 0, -2).slice(2, 1, 5), axis, {2});
    check(at({3, 1, 4}).broadcast_to({3, 5, 4}), axis, {3});
    check(at({1, 1, 1}), axis, {0, 1});
  }
  check(at({0, 3}), 1, {2});
  check(at({3, 0}), 1, {0});
}

// Places of values among sorted rows of n.
NDArray want_among(const NDArray& sorted, const NDArray& values, Index n, bool right) {
  const test::Dense among(sorted), of(values);
  test::Dense want(values.shape(), 0);
  const std::size_t each = of.values.size() / (among.values.size() / static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < of.values.size(); ++i) {
    const auto begin = among.values.begin() + static_cast<Index>(i / each) * n;
    const auto at = right ? std::upper_bound(begin, begin + n, of.values[i], comes_before)
                          : std::lower_bound(begin, begin + n, of.values[i], comes_before);
    want.values[i] = static_cast<double>(at - begin);
  }
  return want.array();
}

std::vector<Device> devices() {
  return num_gpus() > 0 ? std::vector<Device>{cpu(), gpu()} : std::vector<Device>{cpu()};
}

}  // namespace

TEST_CASE("Orders along each axis of every type and layout, equal entries as they stood", "[operator][order]") {
  for (const simd::Target target : test::simd_targets()) {
    const simd::TargetScope scope(target);
    for (const DType dtype : test::all_dtypes())
      check_layouts(dtype, cpu());
  }
}

TEST_CASE("Orders of rows of all lengths", "[operator][order]") {
  for (const simd::Target target : test::simd_targets()) {
    const simd::TargetScope scope(target);
    for (const DType dtype : {float32, float64, int8, int64}) {
      for (const Index n : {1, 2, 3, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 4100})
        check(drawn({3, n}, dtype, 60), 1, {1, n / 5, n / 4, n});
      check(drawn({40000}, dtype, 1e5), 0, {1, 30, 9999, 10001});
      check(drawn({3000, 3}, dtype, 60), 0, {5, 700});
    }
  }
}

// From 32768 entries on in buckets, by bits that say much, little or nothing, and these in smaller ones.
TEST_CASE("Long rows are in order, however their entries lie", "[operator][order]") {
  for (const simd::Target target : test::simd_targets()) {
    const simd::TargetScope scope(target);
    CAPTURE(test::name_of(target));
    for (const Index n : {32767, 32768, 32769}) {
      check(drawn({n}, float32, 1e6), 0, {n / 2});
      check(drawn({n}, int64, 1e12) * (Index{1} << 23), 0, {});
      check(drawn({n}, int32, 300), 0, {});  // a bit more than buckets
      check(drawn({n}, int64, 100), 0, {});  // fewer
    }
    const Index n = 40000;
    // Numbers that the reference's doubles hold.
    const NDArray all_bits = drawn({n}, int64, 1e12) * (Index{1} << 23), close = drawn({n}, int64, 1e6),
                  far = drawn({n}, int64, 2);
    check(all_bits, 0, {});
    check(where(all_bits > 0, close, close * (Index{1} << 40)), 0, {});  // most in one bucket
    check(far * (Index{1} << 50) + close, 0, {});                        // clusters
    check(full({n}, 7, {.dtype = int64}), 0, {n / 2});
    check(arange(n, 0, -1), 0, {});
    check(concat({full({n}, k_inf), full({1}, -k_inf), full({1}, k_nan)}), 0, {});
    const NDArray far_apart[] = {
        full({n}, std::numeric_limits<Index>::max(), {.dtype = int64}),
        full({3}, std::numeric_limits<Index>::min(), {.dtype = int64})};
    check(concat({far_apart[0], far_apart[1]}), 0, {});
  }
}

// 8 rows at least are sorted side by side, 64 at a time, of 2 to 32 entries; words of both a key and a place only where
// a type leaves room.
TEST_CASE("Short rows are in order, as many as there are", "[operator][order]") {
  for (const simd::Target target : test::simd_targets()) {
    const simd::TargetScope scope(target);
    CAPTURE(test::name_of(target));
    for (const DType dtype : {float32, float64, bfloat16, int8, int32, int64, uint16, uint64}) {
      for (Index n = 1; n <= 34; ++n)
        check(drawn({9, n}, dtype, 60), 1, {1, (n + 3) / 4, n - 1});
      for (const Index rows : {7, 8, 63, 64, 65, 129}) {
        check(drawn({rows, 5}, dtype, 60), 1, {2});
        check(drawn({2, 6, rows}, dtype, 60), 1, {1, 5});
        check(drawn({6, rows, 7}, dtype, 60).slice(2, 6, 0, -2), 0, {4});
      }
    }
    const NDArray zeros_of_both_signs = where(random_array({65, 7}, 3) < 0, full({65, 7}, -0.0), zeros({65, 7}));
    const Ordered got = sort_with_indices(zeros_of_both_signs, 1);
    CHECK(test::equal_bits(got.values, zeros_of_both_signs));
    CHECK(differences(got.indices, arange(0, 7).broadcast_to({65, 7}), {0, 0}) == "");
  }
}

TEST_CASE("Short rows are in order on any number of workers", "[operator][order]") {
  std::vector<std::vector<double>> results;
  for (const int workers : {1, 3}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    for (const Shape& shape : {Shape{20011, 4}, Shape{3, 4, 7001}})
      results.push_back(argsort(drawn(shape, float32, 3), 1).to_vector<double>());
    engine.wait_all();
  }
  CHECK(results[0] == results[2]);
  CHECK(results[1] == results[3]);
  CHECK(results[0] == ordered(drawn({20011, 4}, float32, 3), 1, 4, false).indices.to_vector<double>());
}

TEST_CASE("Orders along each axis of every type and layout on a GPU", "[operator][order][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : test::all_dtypes())
    check_layouts(dtype, gpu());
}

TEST_CASE(
    "Orders of rows of all lengths on a GPU: tiles, merged runs, selected ones, radix", "[operator][order][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, float64, int8, bfloat16}) {
    for (const Index n : {7, 8, 9, 100, 1024, 1025, 2047, 2048})
      check(drawn({3, n}, dtype, 60).to(gpu()), 1, {1, n / 5, n});
    for (const Index n : {2049, 4096, 4097, 10007})
      check(drawn({2, n}, dtype, 60).to(gpu()), 1, {0, 1, 300, n / 4, n / 4 + 1});
    check(drawn({2, 9000}, dtype, 60).to(gpu()), 1, {2250});  // selected ones that fill more than a tile
    check(drawn({2500, 3}, dtype, 60).to(gpu()), 0, {5, 700});
  }
  check(drawn({131072}, float32, 1e4).to(gpu()), 0, {10});
  check(drawn({2, 131073}, int64, 1e4).to(gpu()), 1, {10});
  // Nothing but equal ones: the first of them.
  const NDArray same = full({70000}, 2, {.device = gpu()});
  CHECK(differences(topk(same, 300).indices, arange(0, 300, 1)) == "");
}

TEST_CASE(
    "The best of few long rows on a GPU are the first of equal ones, whatever their digits", "[operator][order][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  constexpr Index n = 131079;  // no whole number of loads
  const auto first = [](const NDArray& x, const std::vector<Index>& kept) {
    const NDArray there = x.to(gpu());
    const int axis = x.ndim() - 1;
    for (const bool descending : {false, true}) {
      const Ordered all = ordered(x, axis, kept.back(), descending);
      for (const Index k : kept) {
        CAPTURE(x.dtype(), x.shape(), descending, k);
        check_same(
            topk(there, k, axis, descending), {all.values.slice(axis, 0, k), all.indices.slice(axis, 0, k)}, x.dtype());
      }
    }
  };
  for (const DType dtype : {float32, float64, bfloat16, uint8, bool_})
    first(drawn({n}, dtype, 60), {1, 300, n / 4});                // tied, and NaNs
  first(drawn({2, n}, int64, 1e12) * (Index{1} << 23), {1, 70});  // all digits say something
  first(arange(n, 0, -1), {1, 2047, 2048, 2049});
  first(full({n}, -0.0), {5});
  first(where(arange(0, n) == n - 1, full({n}, 1), full({n}, 2)), {1, 2});  // equal ones up to an entry of many digits
  first(drawn({17, n}, float32, 1e6), {3});                                 // more rows than few
}

TEST_CASE("Places of rows are counted in 16 bits where they fit", "[operator][order][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Index n : {65534, 65535, 65536, 65537}) {
    check(drawn({2, n}, float16, 1e4).to(gpu()), 1, {1, 500});
    CHECK(differences(topk(full({n}, 3, {.dtype = uint8, .device = gpu()}), n).indices, arange(0, n)) == "");
  }
}

TEST_CASE("Orders take extremes, infinities, signed zeros and NaNs of either sign", "[operator][order][gpu]") {
  constexpr Index low = std::numeric_limits<Index>::min(), high = std::numeric_limits<Index>::max();
  for (const Device device : devices()) {
    CAPTURE(device);
    const NDArray whole = array<Index>({3, high, low, high - 1, -1, low + 1}).to(device);
    CHECK(sort(whole).to_vector<Index>() == std::vector<Index>{low, low + 1, -1, 3, high - 1, high});
    CHECK(topk(whole, 2).values.to_vector<Index>() == std::vector<Index>{high, high - 1});
    CHECK(argsort(whole, 0, true).to_vector<Index>() == std::vector<Index>{1, 3, 0, 4, 5, 2});
    for (const DType dtype : test::floating_dtypes()) {
      CAPTURE(dtype);
      const std::vector<double> values{0.0, -k_nan, -0.0, k_inf, k_nan, -k_inf, 0.0, -1.0, 1e-7};
      const NDArray x = array<double>(values, {9}).astype(dtype).to(device);
      CHECK(argsort(x).to_vector<Index>() == std::vector<Index>{5, 7, 0, 2, 6, 8, 3, 1, 4});
      CHECK(argsort(x, 0, true).to_vector<Index>() == std::vector<Index>{1, 4, 3, 8, 0, 2, 6, 7, 5});
      check(x, 0, {0, 1, 2, 9});
      const std::vector<double> zeros = sort_with_indices(x).values.to_vector<double>();
      CHECK((!std::signbit(zeros[2]) && std::signbit(zeros[3]) && !std::signbit(zeros[4])));
    }
  }
}

TEST_CASE("A mask of the best entries, and what orders refuse", "[operator][order]") {
  const NDArray x = array<int>({5, 1, 9, 9, 2, 7}).reshape({2, 3});
  CHECK(topk_mask(x, 2).to_vector<bool>() == std::vector<bool>{true, false, true, true, false, true});
  CHECK(topk_mask(x, 1, 0, false).to_vector<bool>() == std::vector<bool>{true, true, false, false, false, true});
  CHECK(topk_mask(x, 0).dtype() == bool_);
  CHECK(sort(x, 0).to_vector<int>() == std::vector<int>{5, 1, 7, 9, 2, 9});
  CHECK(sort(x).to_vector<int>() == std::vector<int>{1, 5, 9, 2, 7, 9});
  CHECK_THROWS_AS(sort(x, 2), IndexError);
  CHECK_THROWS_AS(argsort(x, -3), IndexError);
  CHECK_THROWS_AS(sort(full({}, 1)), IndexError);
  CHECK_THROWS_AS(topk(x, 4), ValueError);
  CHECK_THROWS_AS(topk(x, -1), ValueError);
  CHECK_THROWS_WITH(topk(x, 4), test::contains("topk") && test::contains("4"));
  CHECK_THROWS_AS(topk_mask(x, 1, 2), IndexError);
  CHECK_THROWS_AS(sort(NDArray()), Error);
  // Places are counted in 32 bits; values alone may be more.
  const Operator& by = *find_operator("argsort");
  const ArraySpec long_row{{Index{1} << 32}, float32, cpu()}, longest{{(Index{1} << 32) - 1}, float32, cpu()};
  CHECK_THROWS_AS(infer(by, std::vector{long_row}, parse_attributes(by, "axis=0")), UnsupportedError);
  CHECK(infer(by, std::vector{longest}, parse_attributes(by, "axis=0"))[0].dtype == int64);
  const Operator& best = *find_operator("topk");
  CHECK_THROWS_AS(infer(best, std::vector{long_row}, parse_attributes(best, "axis=0, k=3")), UnsupportedError);
  CHECK(infer(best, std::vector{longest}, parse_attributes(best, "axis=0, k=3"))[0].shape == Shape{3});
}

TEST_CASE("Gradients of orders go back to where entries stood", "[operator][order][gpu]") {
  const NDArray x = random_array({2, 7, 3}, 8, -1, 1, float64);
  for (const Device device : devices()) {
    for (const int axis : {0, 1, 2}) {
      for (const bool down : {false, true}) {
        CAPTURE(device, axis, down);
        const auto agrees = [&](const test::Function& f) {
          CHECK(test::gradient_differences(f, {x.to(device)}) == "");
        };
        agrees([=](const auto& v) { return sort(v[0], axis, down); });
        agrees([=](const auto& v) { return topk(v[0], 2, axis, down).values; });
        agrees([=](const auto& v) {
          const Operator& op = *find_operator("sort");
          return invoke_one(op, {v[0]}, parse_attributes(op, message("axis=", axis)), {});
        });
      }
    }
  }
}

TEST_CASE("searchsorted finds places as NumPy and PyTorch do", "[operator][order][gpu]") {
  for (const Device device : devices()) {
    CAPTURE(device);
    for (const DType dtype : test::all_dtypes()) {
      CAPTURE(dtype);
      const NDArray sorted = sort(drawn({2, 37}, dtype).to(device)), values = drawn({2, 50}, dtype).to(device);
      for (const bool right : {false, true}) {
        CHECK(differences(searchsorted(sorted, values, right), want_among(sorted, values, 37, right), {0, 0}) == "");
      }
    }
    const NDArray row = array<double>({-1.0, 0.0, 0.0, 2.0, k_nan}).to(device);
    const NDArray asked = array<double>({-0.0, k_nan, k_inf, -5.0}).to(device);
    CHECK(searchsorted(row, asked).to_vector<int>() == std::vector<int>{1, 4, 4, 0});
    CHECK(searchsorted(row, asked, true).to_vector<int>() == std::vector<int>{3, 5, 4, 0});
    CHECK(searchsorted(row, full({}, 1, {.device = device})).shape() == Shape{});
    CHECK(searchsorted(row.slice(0, 0, 0), asked).to_vector<int>() == std::vector<int>{0, 0, 0, 0});
    CHECK(searchsorted(row.slice(0, 3, 0, -1).slice(0, 2, 0, -1), asked.slice(0, 0, 4, 2)).shape() == Shape{2});
    CHECK(searchsorted(row, zeros({0, 3}, {.device = device})).shape() == Shape{0, 3});
  }
  for (const Index n : {1, 2, 2048, 2049, 4096, 4097, 30000}) {  // keys of 4 and 8 bytes, in shared memory and not
    for (const DType dtype : {float32, float64, int16}) {
      CAPTURE(n, dtype);
      const NDArray sorted = sort(drawn({n}, dtype, 2e4)), values = drawn({1 << 10, 1027}, dtype, 3e4);
      const NDArray want = want_among(sorted, values, n, n % 2 == 0);
      for (const Device device : devices())
        CHECK(differences(searchsorted(sorted.to(device), values.to(device), n % 2 == 0), want, {0, 0}) == "");
    }
  }
  const NDArray half = array<float>({0.5F, 1.5F});
  CHECK(searchsorted(array<int>({0, 1, 2}), half).to_vector<int>() == std::vector<int>{1, 2});
  CHECK_THROWS_AS(searchsorted(zeros({2, 3}), zeros({3, 3})), ShapeError);
  CHECK_THROWS_AS(searchsorted(zeros({2, 3}), zeros({3})), ShapeError);
  CHECK_THROWS_AS(searchsorted(full({}, 1), zeros({3})), ShapeError);
}

TEST_CASE("Orders give the same with any number of workers, and as a graph", "[operator][order]") {
  const auto orders = [](const Arrays& in) -> Arrays {
    return {
        sort(in[0]),
        argsort(in[0], 0, true).astype(float32),
        topk(in[0], 20, 1).values,
        topk_mask(in[0], 2, 0).astype(float32),
        searchsorted(sort(in[0], 1), in[0]).astype(float32)};
  };
  std::vector<std::vector<float>> first;
  for (const int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    const NDArray x = floor(random_array({40, 3000}, 4, -500, 500));
    const Arrays by_hand = orders({x});
    graph::Tracer tracer;
    const NDArray input = tracer.input({{40, 3000}, float32, cpu()});
    const Arrays traced = graph::evaluate(tracer.trace([&] { return orders({input}); }), std::vector{x});
    for (std::size_t i = 0; i < by_hand.size(); ++i) {
      const std::vector<float> values = by_hand[i].to_vector<float>();
      CHECK(traced[i].to_vector<float>() == values);
      if (workers == 1)
        first.push_back(values);
      else
        CHECK(first[i] == values);
    }
    engine.wait_all();
  }
}
