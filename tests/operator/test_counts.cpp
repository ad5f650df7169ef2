// bincount, histogram, quantile and median; nonzero, boolean_mask and unique: what NumPy and PyTorch give.
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using test::differences;
using test::random_array;

namespace {

using Index = std::int64_t;
using Indices = std::vector<Index>;
constexpr double k_nan = std::numeric_limits<double>::quiet_NaN(), k_inf = std::numeric_limits<double>::infinity();

std::vector<Device> devices() {
  return num_gpus() > 0 ? std::vector<Device>{cpu(), gpu()} : std::vector<Device>{cpu()};
}

Indices whole(const NDArray& x) {
  return x.to_vector<Index>();
}
std::vector<double> numbers(const NDArray& x) {
  return x.to_vector<double>();
}

}  // namespace

TEST_CASE("bincount counts what has a bin, and nothing else", "[operator][counts][gpu]") {
  for (const Device device : devices()) {
    CAPTURE(device);
    for (const DType dtype : {uint8, int8, int32, int64, int16, uint64}) {
      const NDArray x = random_array({3, 7001}, 5, is_unsigned(dtype) ? 0 : -20, 120, dtype);
      for (const Index bins : {0, 1, 7, 100, 4096, 4097, 70000}) {
        CAPTURE(dtype, bins);
        Indices want(static_cast<std::size_t>(bins));
        for (const Index value : whole(x)) {
          if (value >= 0 && value < bins)
            ++want[static_cast<std::size_t>(value)];
        }
        const NDArray counts = bincount(x.to(device), bins);
        CHECK(counts.dtype() == int64);
        CHECK(whole(counts) == want);
        CHECK(whole(bincount(x.to(device).T().slice(0, 7000, 0, -1), bins)).size() == want.size());
      }
    }
    const NDArray ends = array<Index>({std::numeric_limits<Index>::min(), -1, 3, std::numeric_limits<Index>::max()});
    CHECK(whole(bincount(ends.to(device), 3)) == Indices{0, 0, 0});
    CHECK(whole(bincount(ends.to(device), 4)) == Indices{0, 0, 0, 1});
    CHECK(whole(bincount(zeros({0}, {.dtype = int32, .device = device}), 2)) == Indices{0, 0});
    CHECK(whole(bincount(full({}, 1, {.dtype = int32, .device = device}).broadcast_to({50, 2}), 2)) == Indices{0, 100});
  }
  CHECK_THROWS_AS(bincount(zeros({3}), 2), DTypeError);
  CHECK_THROWS_AS(bincount(zeros({3}, {.dtype = int32}), -1), ValueError);
}

TEST_CASE("A histogram's bins hold their lower edges, the last one both", "[operator][counts][gpu]") {
  for (const Device device : devices()) {
    CAPTURE(device);
    const NDArray x = array<double>({-0.1, 0.0, 0.25, 0.5, 0.74, 1.0, 1.0001, k_nan, k_inf, -k_inf}).to(device);
    const Histogram made = histogram(x, 4, 0, 1);
    CHECK(whole(made.counts) == Indices{1, 1, 2, 1});
    CHECK(numbers(made.edges) == std::vector<double>{0, 0.25, 0.5, 0.75, 1});
    CHECK(whole(histogram(array<int>({1, 2, 2, 3}).to(device), 2, 1, 3).counts) == Indices{1, 3});
    CHECK(whole(histogram(x.astype(float16), 1, -1, 2).counts) == Indices{7});
    const Histogram widest = histogram(x, 2, -1e308, 1e308);  // a range that is no number
    CHECK(numbers(widest.edges) == std::vector<double>{-1e308, 0, 1e308});
    CHECK(whole(widest.counts) == Indices{1, 6});
    CHECK(numbers(histogram(x, 100, -1e308, 1e308).edges)[99] == Approx(9.8e307));
    // Upper edges that have the least number behind them, and none.
    constexpr double k_most = std::numeric_limits<double>::max();
    const NDArray ends = array<double>({-1, -0.0, 0.0, 1e-300, std::nextafter(1.0, 2.0), 1, k_most, k_inf}).to(device);
    CHECK(whole(histogram(ends, 2, -2, 0).counts) == Indices{0, 3});
    CHECK(whole(histogram(ends, 2, -1, 1).counts) == Indices{1, 4});
    CHECK(whole(histogram(ends, 2, 0, k_most).counts) == Indices{5, 1});
  }
  CHECK_THROWS_AS(histogram(zeros({3}), 0, 0, 1), ValueError);
  CHECK_THROWS_AS(histogram(zeros({3}), 2, 1, 1), ValueError);
  CHECK_THROWS_AS(histogram(zeros({3}), 2, 0, k_nan), ValueError);
  CHECK_THROWS_AS(histogram(zeros({3}), 2, 0, k_inf), ValueError);
}

TEST_CASE("Quantiles lie between entries in proportion, and are NaN where there is one", "[operator][counts][gpu]") {
  for (const Device device : devices()) {
    CAPTURE(device);
    const NDArray x = array<double>({3, 1, 2, 10, 7, 4}).reshape({2, 3}).to(device);
    CHECK(numbers(quantile(x, 0.5)) == std::vector<double>{3.5});
    CHECK(quantile(x, 0.5).shape() == Shape{});
    CHECK(quantile(x, 0.5, {}, true).shape() == Shape{1, 1});
    CHECK(numbers(median(x, 1)) == std::vector<double>{2, 7});
    CHECK(median(x, -1, true).shape() == Shape{2, 1});
    CHECK(numbers(median(x, 0)) == std::vector<double>{6.5, 4, 3});
    CHECK(numbers(quantile(x, 0, 1)) == std::vector<double>{1, 4});
    CHECK(numbers(quantile(x, 1, 1)) == std::vector<double>{3, 10});
    CHECK(differences(quantile(x, 0.9, 1), array<double>({2.8, 9.4}), {1e-12, 1e-12}) == "");
    CHECK(median(array<int>({1, 2}).to(device)).dtype() == float32);
    CHECK(numbers(median(array<double>({k_inf, k_inf, 1}).to(device))) == std::vector<double>{k_inf});
    CHECK(std::isnan(median(array<double>({1, k_nan, 2, 3}).to(device)).item<double>()));
    CHECK(numbers(median(x.T().slice(0, 2, 0, -1), 0)) == std::vector<double>{1.5, 5.5});
    // What lies on an entry is that entry, whatever comes next; and half way between two that are far apart lies 0.
    for (const DType dtype : test::floating_dtypes()) {
      const NDArray ends = array<double>({k_inf, 1, 2}).astype(dtype).to(device);
      CHECK(numbers(median(ends)) == std::vector<double>{2});
      CHECK(numbers(quantile(ends, 0)) == std::vector<double>{1});
      CHECK(numbers(quantile(ends, 0.75)) == std::vector<double>{k_inf});
      CHECK(numbers(quantile(ends * -1, 0.1)) == std::vector<double>{-k_inf});
      CHECK(numbers(quantile(ends * -1, 1)) == std::vector<double>{-1});
    }
    CHECK(numbers(median(array<float>({-3e38F, 3e38F}).to(device))) == std::vector<double>{0});
    CHECK(numbers(median(array<double>({-6e4, 6e4}).astype(float16).to(device))) == std::vector<double>{0});
  }
  const NDArray x = random_array({3, 5}, 2, -1, 1, float64);
  for (const double q : {0.0, 0.3, 0.5, 0.8, 1.0}) {
    CHECK(test::gradient_differences([=](const auto& v) { return quantile(v[0], q, 1); }, {x}) == "");
    CHECK(test::gradient_differences([=](const auto& v) { return quantile(v[0], q, 0, true); }, {x}) == "");
  }
  NDArray holed = array<double>({1, k_nan, 2, 5, 3, 4}, {2, 3});
  holed.attach_grad();
  {
    const autograd::RecordScope record;
    sum(median(holed, 1)).backward();
  }
  CHECK(numbers(holed.grad()) == std::vector<double>{0, 0, 0, 0, 0, 1});  // nothing to what a NaN hides
  CHECK_THROWS_AS(quantile(x, 1.01), ValueError);
  CHECK_THROWS_AS(quantile(x, k_nan), ValueError);
  CHECK_THROWS_AS(quantile(x, 0.5, 2), IndexError);
  CHECK_THROWS_AS(median(zeros({0, 3}), 0), ValueError);
}

TEST_CASE("nonzero gives indices row by row, and boolean_mask what stands there", "[operator][counts][gpu]") {
  for (const Device device : devices()) {
    CAPTURE(device);
    const NDArray x = array<int>({0, 3, 0, 0, 1, 2}).reshape({2, 3}).to(device);
    CHECK(nonzero(x).shape() == Shape{3, 2});
    CHECK(whole(nonzero(x)) == Indices{0, 1, 1, 1, 1, 2});
    CHECK(whole(nonzero(x.T())) == Indices{1, 0, 1, 1, 2, 1});
    CHECK(whole(nonzero(array<double>({0.0, -0.0, k_nan}).to(device))) == Indices{2});
    CHECK(nonzero(zeros({2, 3}, {.device = device})).shape() == Shape{0, 2});
    CHECK(nonzero(zeros({2, 0, 3}, {.device = device})).shape() == Shape{0, 3});
    CHECK(nonzero(full({}, 5, {.device = device})).shape() == Shape{1, 0});
    CHECK(nonzero(full({}, 0, {.device = device})).shape() == Shape{0, 0});
    const NDArray large = random_array({300, 70}, 3).to(device), chosen = large > 0.3;
    std::vector<double> want;
    for (const double value : numbers(large)) {
      if (static_cast<float>(value) > 0.3F)
        want.push_back(value);
    }
    CHECK(numbers(boolean_mask(large, chosen)) == want);
    CHECK(whole(boolean_mask(x, array<bool>({false, true}).to(device))) == Indices{0, 1, 2});
    CHECK(boolean_mask(x, zeros({2, 3}, {.dtype = bool_, .device = device})).shape() == Shape{0});
    CHECK(boolean_mask(x, zeros({2}, {.dtype = bool_, .device = device})).shape() == Shape{0, 3});
    NDArray v = full({2, 3}, 2, {.device = device});
    v.attach_grad();
    {
      const autograd::RecordScope record;
      square(boolean_mask(v, x != 0)).backward();
    }
    CHECK(numbers(v.grad()) == std::vector<double>{0, 4, 0, 0, 4, 4});
  }
  const NDArray x = zeros({2, 3});
  CHECK_THROWS_AS(boolean_mask(x, zeros({2})), DTypeError);
  CHECK_THROWS_AS(boolean_mask(x, zeros({3}, {.dtype = bool_})), ShapeError);
  CHECK_THROWS_AS(boolean_mask(x, zeros({2, 3, 1}, {.dtype = bool_})), ShapeError);
  CHECK_THROWS_AS(boolean_mask(x, zeros({}, {.dtype = bool_})), ShapeError);
}

TEST_CASE("unique gives each value once, and where and how often it stands", "[operator][counts][gpu]") {
  for (const Device device : devices()) {
    for (const DType dtype : test::all_dtypes()) {
      CAPTURE(device, dtype);
      const NDArray x = random_array({3, 40}, 7, is_unsigned(dtype) ? 0 : -5, 5, int32).astype(dtype).to(device);
      std::map<double, Indices> stands;
      const std::vector<double> values = numbers(x);
      for (std::size_t i = 0; i < values.size(); ++i)
        stands[values[i]].push_back(static_cast<Index>(i));
      std::vector<double> want;
      Indices first, counts;
      for (const auto& [value, places] : stands) {
        want.push_back(value);
        first.push_back(places[0]);
        counts.push_back(static_cast<Index>(places.size()));
      }
      CHECK(numbers(unique(x)) == want);
      const Uniques all = unique_all(x);
      CHECK(numbers(all.values) == want);
      CHECK(whole(all.indices) == first);
      CHECK(whole(all.counts) == counts);
      CHECK(all.inverse.shape() == x.shape());
      CHECK(differences(take(all.values, all.inverse), x) == "");
      CHECK(unique(x).dtype() == dtype);
    }
    const NDArray x = array<double>({k_nan, 1, -k_nan, 0.0, -0.0, k_inf}).to(device);
    const Uniques all = unique_all(x);
    CHECK(all.values.shape() == Shape{4});
    CHECK(whole(all.counts) == Indices{2, 1, 1, 2});
    CHECK(whole(all.inverse) == Indices{3, 1, 3, 0, 0, 2});
    CHECK(unique(x).shape() == Shape{4});
    // Denormals of float are zeros to operators: one value, however they are told apart by an order.
    const Uniques low = unique_all(array<float>({1e-45F, 1, 0, -1e-40F, 1}).to(device));
    CHECK(low.values.shape() == Shape{2});
    CHECK(whole(low.counts) == Indices{3, 2});
    CHECK(whole(low.inverse) == Indices{0, 1, 0, 0, 1});
    CHECK(unique(zeros({0, 3}, {.device = device})).shape() == Shape{0});
    CHECK(unique_all(zeros({0, 3}, {.device = device})).inverse.shape() == Shape{0, 3});
  }
}

TEST_CASE("How many there are is not known while a program is traced, counts with bins are", "[operator][counts]") {
  const auto traced = [](const std::function<NDArray(const NDArray&)>& f, const NDArray& x) {
    graph::Tracer tracer;
    const NDArray input = tracer.input({x.shape(), x.dtype(), cpu()});
    return graph::evaluate(tracer.trace([&] { return Arrays{f(input)}; }), std::vector{x})[0];
  };
  const NDArray x = random_array({5, 9}, 3);
  CHECK_THROWS_AS(traced([](const NDArray& v) { return nonzero(v); }, x), ValueError);
  CHECK_THROWS_AS(traced([](const NDArray& v) { return unique(v); }, x), ValueError);
  CHECK_THROWS_AS(traced([](const NDArray& v) { return unique_all(v).counts; }, x), ValueError);
  CHECK_THROWS_WITH(
      traced([](const NDArray& v) { return boolean_mask(v, v > 0); }, x),
      test::contains("boolean_mask") && test::contains("traced"));
  const auto same = [&](const std::function<NDArray(const NDArray&)>& f) {
    CHECK(numbers(traced(f, x)) == numbers(f(x)));
  };
  same([](const NDArray& v) { return histogram(v, 7, -1, 1).counts; });
  same([](const NDArray& v) { return bincount(floor(v * 3).astype(int32), 3); });
  same([](const NDArray& v) { return quantile(v, 0.3, 1); });
}
