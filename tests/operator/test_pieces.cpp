// What is cut into pieces on a CPU: just below, at and beyond where pieces end, with 1, 2 and 4 workers, beside plain
// loops.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using test::random_array;

namespace {

using Index = std::int64_t;
using Indices = std::vector<Index>;
constexpr double k_nan = std::numeric_limits<double>::quiet_NaN(), k_inf = std::numeric_limits<double>::infinity();

/// Checks that f of these arrays is `want` with any number of workers.
template <class T>
void with_workers(
    const std::vector<NDArray>& inputs,
    const std::function<NDArray(const std::vector<NDArray>&)>& f,
    const std::vector<T>& want) {
  for (const int workers : {1, 2, 4}) {
    CAPTURE(workers);
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    std::vector<NDArray> here;  // of this engine
    for (const NDArray& x : inputs) {
      here.push_back(
          is_floating(x.dtype()) ? array<double>(x.to_vector<double>(), x.shape()).astype(x.dtype())
                                 : array<Index>(x.to_vector<Index>(), x.shape()).astype(x.dtype()));
    }
    CHECK(f(here).to_vector<T>() == want);
  }
}

/// Whole numbers of all 64 bits, or of so many high and low ones alone.
Indices whole_numbers(Index n, int high, int low) {
  Indices numbers;
  std::uint64_t state = 7;
  for (Index i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const std::uint64_t top = high == 0 ? 0 : state >> (64 - high) << (64 - high);
    const std::uint64_t bottom = low == 0 ? 0 : (state >> 20) % (std::uint64_t{1} << low);
    numbers.push_back(static_cast<Index>(top + bottom));
  }
  return numbers;
}

/// dy times the products of the others of rows of n, `step` apart, one by one, in long double.
std::vector<double> products_of_others(
    const std::vector<double>& x, const std::vector<double>& dy, Index n, Index step) {
  std::vector<double> want(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Index at = static_cast<Index>(i), block = at / (n * step), column = at % step;
    long double product = dy[static_cast<std::size_t>(block * step + column)];
    for (Index k = 0; k < n; ++k) {
      if (const Index other = (block * n + k) * step + column; other != at)
        product *= x[static_cast<std::size_t>(other)];
    }
    want[i] = static_cast<double>(product);
  }
  return want;
}

NDArray product_gradient(const NDArray& x, const NDArray& dy, const Shape& axes) {
  NDArray v = x.copy();
  v.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = prod(v, axes);
  }
  y.backward(dy);
  return v.grad();
}

}  // namespace

TEST_CASE("Places of truths are found in pieces", "[operator][pieces]") {
  for (const Index n : {1, 32767, 32768, 32769, 100003}) {
    CAPTURE(n);
    const NDArray x = random_array({n}, 3, -1, 1, float32);
    const std::vector<double> values = x.to_vector<double>();
    Indices places;
    std::vector<double> chosen;
    for (Index i = 0; i < n; ++i) {
      if (values[static_cast<std::size_t>(i)] > 0.3) {
        places.push_back(i);
        chosen.push_back(values[static_cast<std::size_t>(i)]);
      }
    }
    with_workers(
        {x}, [](const auto& in) { return nonzero(in[0] > 0.3).reshape({-1}); }, places);
    with_workers(
        {x}, [](const auto& in) { return boolean_mask(in[0], in[0] > 0.3); }, chosen);
    Indices all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    with_workers(
        {x}, [](const auto& in) { return nonzero(in[0] < 2).reshape({-1}); }, all);
    with_workers(
        {x}, [](const auto& in) { return nonzero(in[0] > 2).reshape({-1}); }, Indices{});
  }
  const NDArray truths = array<bool>({true, false, true});
  const Operator& op = *find_operator("true_places");
  const auto call = [&](const NDArray& x, const char* count) {
    return invoke(op, std::span(&x, 1), parse_attributes(op, count), SourceLocation::current())[0].to_vector<Index>();
  };
  CHECK(call(truths, "count=2") == Indices{0, 2});
  CHECK_THROWS_AS(call(truths, "count=1"), ValueError);
  CHECK_THROWS_AS(call(truths, "count=3"), ValueError);
  CHECK_THROWS_AS(call(truths, "count=4"), ValueError);
  CHECK_THROWS_AS(call(truths.reshape({1, 3}), "count=2"), ShapeError);
  CHECK_THROWS_AS(call(truths.astype(int32), "count=2"), DTypeError);
}

TEST_CASE("Long rows are ordered in buckets, by their highest bits first", "[operator][pieces]") {
  for (const Index n : {100, 32767, 32768, 70001}) {
    for (const auto& [high, low] : {std::pair{64, 0}, {0, 8}, {0, 9}, {0, 40}, {3, 5}, {10, 20}, {40, 4}}) {
      CAPTURE(n, high, low);
      const Indices numbers = whole_numbers(n, high, low);
      Indices sorted = numbers, places(numbers.size());
      std::sort(sorted.begin(), sorted.end());
      std::iota(places.begin(), places.end(), 0);
      std::stable_sort(places.begin(), places.end(), [&](Index a, Index b) {
        return numbers[static_cast<std::size_t>(a)] < numbers[static_cast<std::size_t>(b)];
      });
      const NDArray x = array<Index>(numbers, {n});
      with_workers(
          {x}, [](const auto& in) { return sort(in[0], 0); }, sorted);
      with_workers(
          {x}, [](const auto& in) { return argsort(in[0], 0); }, places);
    }
  }
}

TEST_CASE("Many values are found among few sorted ones", "[operator][pieces]") {
  const std::vector<double> sorted{-k_inf, -2, -0.5, 0, 0, 0.25, 3, k_inf, k_nan};
  for (Index n = 1; n <= static_cast<Index>(sorted.size()); ++n) {
    const std::vector<double> some(sorted.begin(), sorted.begin() + n);
    std::vector<double> values = random_array({3001}, 3, -4, 4, float64).to_vector<double>();
    values.insert(values.end(), sorted.begin(), sorted.end());
    for (const bool right : {false, true}) {
      CAPTURE(n, right);
      const auto before = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
      Indices want;
      for (const double value : values) {
        const auto at = right ? std::upper_bound(some.begin(), some.end(), value, before)
                              : std::lower_bound(some.begin(), some.end(), value, before);
        want.push_back(at - some.begin());
      }
      const auto count = static_cast<Index>(values.size());
      const NDArray row = array<double>(some, {n}), x = array<double>(values, {count});
      with_workers(
          {row, x}, [&](const auto& in) { return searchsorted(in[0], in[1], right); }, want);
      const NDArray rows = stack({row, row}, 0), twice = stack({x, x}, 0);
      want.insert(want.end(), want.begin(), want.begin() + count);
      with_workers(
          {rows, twice}, [&](const auto& in) { return searchsorted(in[0], in[1], right).reshape({-1}); }, want);
    }
  }
}

TEST_CASE("Numbers are looked up some at a time", "[operator][pieces]") {
  for (const Index count : {1, 511, 512, 513, 3000}) {
    for (const DType dtype : {int64, int32, int16}) {
      CAPTURE(count, dtype);
      const NDArray at = (random_array({count}, 3, -40, 40, float64)).astype(dtype);
      const Indices numbers = at.to_vector<Index>();
      std::vector<double> added(40), put_there(40), counts(40);
      const NDArray values = arange(1, static_cast<double>(count) + 1, 1, {.dtype = float64});
      for (Index i = 0; i < count; ++i) {
        const Index number = numbers[static_cast<std::size_t>(i)];
        const auto place = static_cast<std::size_t>(number < 0 ? number + 40 : number);
        added[place] += static_cast<double>(i + 1);
        put_there[place] = static_cast<double>(i + 1);
        counts[place] += number >= 0 ? 1 : 0;
      }
      const NDArray x = zeros({40}, {.dtype = float64});
      with_workers(
          {x, at, values}, [](const auto& in) { return index_add(in[0], std::vector{in[1]}, in[2]); }, added);
      with_workers(
          {x, at, values}, [](const auto& in) { return put(in[0], in[1], in[2]); }, put_there);
      with_workers(
          {at}, [](const auto& in) { return bincount(in[0], 40).astype(float64); }, counts);
      // One number more that names nothing.
      const NDArray wrong = concat({at, full({1}, 40, {.dtype = dtype})}, 0),
                    more = concat({values, ones({1}, {.dtype = float64})}, 0);
      CHECK_THROWS_WITH(put(x, wrong, more).to_vector<double>(), test::contains("index 40 is out of bounds"));
      CHECK_THROWS_WITH(
          index_add(x, std::vector{wrong}, more).to_vector<double>(), test::contains("index 40 is out of bounds"));
    }
  }
}

TEST_CASE(
    "The gradient of a product is that of plain loops, in all layouts and with all magnitudes", "[operator][pieces]") {
  for (const Index n : {1, 2, 7, 8, 9, 300}) {
    for (const Index step : {Index{1}, Index{3}}) {
      for (const double size : {1e-300, 1e-20, 1.0, 1e20}) {
        CAPTURE(n, step, size);
        const NDArray x = random_array({2, n, step}, 3, -1.5, 1.5, float64);
        // Very large or small, but for one beside the others, which brings them back.
        NDArray scaled = x;
        if (size != 1 && n % 2 == 0)
          scaled = concat({x.slice(1, 0, n / 2) * size, x.slice(1, n / 2, n) / size}, 1);
        const NDArray dy = random_array({2, step}, 5, -1, 1, float64);
        const std::vector<double> want =
            products_of_others(scaled.to_vector<double>(), dy.to_vector<double>(), n, step);
        const std::vector<double> got = product_gradient(scaled, dy, {1}).to_vector<double>();
        for (std::size_t i = 0; i < want.size(); ++i) {
          if (std::isfinite(want[i]) && std::abs(want[i]) > std::numeric_limits<double>::min())
            CHECK(got[i] == Approx(want[i]).epsilon(1e-12));
        }
        with_workers(
            {scaled, dy}, [](const auto& in) { return product_gradient(in[0], in[1], {1}); }, got);
      }
    }
  }
  // More factors than are multiplied before they are brought near 1, of any magnitude.
  const NDArray many = concat({full({6000}, 1e200, {.dtype = float64}), full({6000}, 1e-200, {.dtype = float64})}, 0);
  const NDArray of_many = product_gradient(many, ones({}, {.dtype = float64}), {0});
  CHECK(of_many.slice(0, 0, 1).to_vector<double>()[0] == Approx(1e-200).epsilon(1e-10));
  CHECK(of_many.slice(0, 11999, 12000).to_vector<double>()[0] == Approx(1e200).epsilon(1e-10));
}

TEST_CASE("Rows of a product with zeros, infinities and NaNs are what the composition gives", "[operator][pieces]") {
  const std::vector<double> special{0, -0.0, k_inf, -k_inf, k_nan, -2, 3, 0.5};
  std::vector<double> values;
  for (const double a : special) {
    for (const double b : special) {
      for (const double c : special)
        values.insert(values.end(), {a, b, -2.0, c});
    }
  }
  const auto rows = static_cast<Index>(values.size() / 4);
  const NDArray x = array<double>(values, {rows, 4}), dy = random_array({rows, 1}, 3, -1, 1, float64);
  const Operator& op = *find_operator("prod_backward");
  const NDArray both[] = {x, dy};
  const Attributes axes = parse_attributes(op, "axes=(1)");
  const auto got = invoke(op, both, axes, SourceLocation::current())[0].to_vector<double>();
  const auto want =
      op.composition(std::span<const NDArray>(both), axes, SourceLocation::current())[0].to_vector<double>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i, values[i / 4 * 4], values[i / 4 * 4 + 1], values[i / 4 * 4 + 3]);
    if (std::isnan(want[i]))
      CHECK(std::isnan(got[i]));
    else
      CHECK(got[i] == want[i]);
  }
}

TEST_CASE("Columns of logarithms of sums are joined in vectors, tails and special numbers too", "[operator][pieces]") {
  for (const Index columns : {1, 3, 15, 16, 17, 33, 300}) {
    for (const Index rows : {2, 63, 64, 65, 700}) {
      CAPTURE(columns, rows);
      std::vector<float> values = random_array({rows, columns}, 3, -90, 90, float32).to_vector<float>();
      const auto put_in = [&](Index row, Index column, double value) {
        if (column < columns)
          values[static_cast<std::size_t>(row * columns + column)] = static_cast<float>(value);
      };
      for (Index row = 0; row < rows; ++row)
        put_in(row, 4, -k_inf);
      put_in(rows - 1, 1, k_inf);
      put_in(0, 2, k_nan);
      put_in(0, 5, -k_inf);
      put_in(0, 6, k_inf);
      put_in(1, 6, k_inf);
      const NDArray x = array<float>(values, {rows, columns});
      const std::vector<float> got = logsumexp(x, {0}).to_vector<float>();
      for (Index column = 0; column < columns; ++column) {
        double largest = -k_inf, total = 0;
        for (Index row = 0; row < rows; ++row)
          largest = std::max(largest, double{values[static_cast<std::size_t>(row * columns + column)]});
        for (Index row = 0; row < rows; ++row) {
          const double value = values[static_cast<std::size_t>(row * columns + column)];
          total += value == largest ? 1 : std::exp(value - largest);
        }
        const double want = largest + std::log(total);
        const float found = got[static_cast<std::size_t>(column)];
        CAPTURE(column, want, found);
        CHECK(
            (std::isnan(want) ? std::isnan(found) : found == want || std::abs(found - want) <= 1e-5 * std::abs(want)));
      }
      if (columns < 7)  // NaNs are not equal
        continue;
      with_workers(
          {x},
          [](const auto& in) { return nan_to_num(logsumexp(in[0], {0})); },
          nan_to_num(logsumexp(x, {0})).to_vector<float>());
    }
  }
}
