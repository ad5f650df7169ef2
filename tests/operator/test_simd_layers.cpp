// Pooling and batch norm on every instruction set that this machine has, against the float64 loops.
#include <cmath>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/reference.h"
#include "tests/operator/simd_targets.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace sluice::test {
namespace {

using simd::TargetScope;
using Arrays = std::vector<NDArray>;

const DType k_types[] = {float32, float16, bfloat16};

// Of few values, so that there are ties; some are NaN.
NDArray coarse(const Shape& shape, std::uint64_t seed, bool with_nan, DType dtype) {
  const NDArray steps = floor(random_array(shape, seed, -4, 4, float64)) / 4;
  const NDArray nothing = full(shape, std::numeric_limits<double>::quiet_NaN(), {.dtype = float64});
  const NDArray holes = random_array(shape, seed + 1, 0, 1, float64) < (with_nan ? 0.1 : -1.0);
  return where(holes, nothing, steps).astype(dtype);
}

template <class F>
Arrays with_gradient(const NDArray& at, F&& f) {
  NDArray x = at.detach();
  x.attach_grad();
  const autograd::RecordScope record;
  const NDArray y = f(x), head = random_array(y.shape(), 5, -1, 1, y.dtype());
  Arrays results = autograd::grad({&y, 1}, {&x, 1}, {&head, 1}, {});
  results.push_back(y);
  return results;
}

Tolerance close_to(DType dtype) {
  return dtype == float32 ? Tolerance{2e-6, 2e-6} : tolerance_of(dtype);
}

const PoolOptions k_pools[] = {
    {},
    {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}},
    {.kernel = {3, 2}, .stride = {1, 1}, .pad = {1, 0}},
    {.kernel = {2, 3}, .stride = {3, 3}, .pad = {0, 1}, .ceil_mode = true, .count_include_pad = false},
    {.kernel = {1, 5}, .stride = {1, 2}, .pad = {0, 2}, .ceil_mode = true}};

template <class F>
void check_pool(DType dtype, bool with_nan, F&& pool) {
  for (std::int64_t width = 5; width <= 71; width += width < 40 ? 1 : 31) {
    const NDArray x = coarse({1, 2, 6, width}, static_cast<std::uint64_t>(width), with_nan, dtype);
    const Arrays want = with_gradient(x.astype(float64), pool), got = with_gradient(x, pool);
    for (std::size_t i = 0; i < want.size(); ++i) {
      CAPTURE(width, i);
      CHECK(differences(got[i], want[i].astype(dtype), close_to(dtype)) == "");
    }
  }
}

}  // namespace

TEST_CASE("pooling is right for every width and window on every instruction set", "[operator][simd][pool]") {
  for (const simd::Target target : simd_targets()) {
    const TargetScope scope(target);
    for (const DType dtype : k_types) {
      for (std::size_t i = 0; i < std::size(k_pools); ++i) {
        CAPTURE(name_of(target), dtype, i);
        check_pool(dtype, false, [&](const NDArray& x) { return max_pool2d(x, k_pools[i]); });
        check_pool(dtype, true, [&](const NDArray& x) { return max_pool2d(x, k_pools[i]); });
        check_pool(dtype, false, [&](const NDArray& x) { return avg_pool2d(x, k_pools[i]); });
      }
      check_pool(dtype, false, [&](const NDArray& x) { return avg_pool2d(x, {.global = true}); });
    }
  }
}

namespace {

struct Norm {
  NDArray x, gamma, beta, mean, var;
  int axis;
};

// y, the running statistics after, and the gradients of x, gamma and beta.
Arrays normalised(const Norm& at, DType dtype, bool training) {
  const DType parameters = dtype == float64 ? float64 : float32;
  NDArray x = at.x.astype(dtype).copy();
  NDArray gamma = at.gamma.astype(parameters).copy(), beta = at.beta.astype(parameters).copy();
  const NDArray mean = at.mean.astype(parameters).copy(), var = at.var.astype(parameters).copy();
  for (NDArray* variable : {&x, &gamma, &beta})
    variable->attach_grad();
  const autograd::ModeScope mode(true, training);
  const NDArray y = batch_norm(x, gamma, beta, mean, var, {.axis = at.axis});
  const NDArray head = random_array(y.shape(), 9, -1, 1, at.x.dtype()).astype(dtype), all[] = {x, gamma, beta};
  Arrays results = autograd::grad({&y, 1}, all, {&head, 1}, {});
  results.insert(results.end(), {y, mean, var});
  return results;
}

Norm norm_of(const Shape& shape, int axis, double low, double high, DType dtype) {
  const std::int64_t channels = shape[axis];
  return {
      random_array(shape, 1, low, high, dtype),
      random_array({channels}, 2, 0.5, 2),
      random_array({channels}, 3, -1, 1),
      random_array({channels}, 4, -1, 1),
      random_array({channels}, 5, 0.5, 2),
      axis};
}

void check_norm(const Norm& at, DType dtype, Tolerance tolerance) {
  for (const bool training : {true, false}) {
    const Arrays want = normalised(at, float64, training), got = normalised(at, dtype, training);
    for (std::size_t i = 0; i < want.size(); ++i) {
      CAPTURE(training, i, at.x.shape());
      CHECK(differences(got[i], want[i].astype(got[i].dtype()), tolerance) == "");
    }
  }
}

}  // namespace

TEST_CASE("batch norm is right for planes and columns on every instruction set", "[operator][simd][norm]") {
  struct Form {
    Shape shape;
    int axis;
  };
  const Form forms[] = {
      {{3, 2, 1, 5}, 1},
      {{2, 17, 7, 7}, 1},
      {{4, 20, 33}, 1},
      {{2, 3, 1500}, 1},
      {{9, 1}, 1},
      {{33, 35}, 1},
      {{5, 3, 2, 19}, 3},
      {{3, 1100}, 1},
      {{6, 4}, 0},
      {{1, 0, 3}, 2}};
  for (const simd::Target target : simd_targets()) {
    const TargetScope scope(target);
    for (const DType dtype : k_types) {
      for (const Form& form : forms) {
        CAPTURE(name_of(target), dtype);
        check_norm(
            norm_of(form.shape, form.axis, -1, 3, dtype),
            dtype,
            dtype == float32 ? Tolerance{2e-5, 2e-5} : sum_tolerance(dtype));
      }
    }
  }
}

TEST_CASE(
    "one pass over a batch keeps its variance far from zero and behind an outlying row", "[operator][simd][norm]") {
  for (const simd::Target target : simd_targets()) {
    const TargetScope scope(target);
    for (const int axis : {1, 3}) {
      CAPTURE(name_of(target), axis);
      const Shape shape = axis == 1 ? Shape{64, 3, 4, 5} : Shape{64, 4, 5, 3};
      // Steps of 2^-6 around a mean that a float holds with them.
      const NDArray steps = floor(random_array(shape, 7, -64, 64, float64)) / 64;
      Norm at = norm_of(shape, axis, 0, 1, float32);
      for (const double center : {100000.0, -1.0e6 / 64}) {
        at.x = (steps + center).astype(float32);
        const Arrays want = normalised(at, float64, true), got = normalised(at, float32, true);
        // The running variance: 0.9 of what was and 0.1 of the batch's.
        CHECK(differences(got[5], want[5].astype(float32), {1e-6, 0}) == "");
        CHECK(differences(got[4], want[4].astype(float32), {1e-6, 0}) == "");
      }
      at.x = steps.astype(float32);
      at.x.slice(0, 0, 1).assign(1e9);
      const Arrays want = normalised(at, float64, true), got = normalised(at, float32, true);
      CHECK(differences(got[5], want[5].astype(float32), {1e-6, 0}) == "");
      // Far behind in the data too.
      at.x = (steps + 3).astype(float32);
      at.x.slice(0, 40, 41).assign(-1e7);
      const Arrays far = normalised(at, float64, true), near = normalised(at, float32, true);
      CHECK(differences(near[5], far[5].astype(float32), {1e-6, 0}) == "");
    }
  }
}

namespace {

// More than 4 MB: they go past the caches, but for the lines that rows share.
void check_large_rows(std::int64_t width) {
  const NDArray x = random_array({(1126400 + width - 1) / width, width}, 3, -30, 10);
  const NDArray head = random_array(x.shape(), 4, -1, 1);
  const auto run = [&](const NDArray& at, const NDArray& dy, bool log) {
    NDArray v = at.detach();
    v.attach_grad();
    const autograd::RecordScope record;
    const NDArray y = log ? log_softmax(v, 1) : softmax(v, 1);
    return Arrays{y, autograd::grad({&y, 1}, {&v, 1}, {&dy, 1}, {})[0]};
  };
  for (const simd::Target target : simd_targets()) {
    const TargetScope scope(target);
    for (const bool log : {false, true}) {
      CAPTURE(name_of(target), log, width);
      const Arrays all = run(x, head, log);
      for (const std::int64_t row : {std::int64_t{0}, std::int64_t{1}, std::int64_t{547}, x.shape()[0] - 1}) {
        const auto one = [&](const NDArray& array) { return array.slice(0, row, row + 1).copy(); };
        const Arrays alone = run(one(x), one(head), log);
        CHECK((equal_bits(one(all[0]), alone[0]) && equal_bits(one(all[1]), alone[1])));
      }
    }
  }
}

}  // namespace

TEST_CASE("rows of a large softmax have the bits of each row alone", "[operator][simd][softmax]") {
  for (const std::int64_t width : {1024, 1001, 255})
    check_large_rows(width);
}

TEST_CASE("where chooses each element on every instruction set", "[operator][simd]") {
  constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();
  for (const simd::Target target : simd_targets()) {
    const TargetScope scope(target);
    for (const DType dtype : all_dtypes()) {
      CAPTURE(name_of(target), dtype);
      std::vector<double> left, right;
      for (int i = 0; i < 140; ++i) {
        left.push_back(is_floating(dtype) && i % 5 == 0 ? k_nan : i % 100);
        right.push_back(is_floating(dtype) && i % 7 == 0 ? -0.0 : (i + 50) % 120);
      }
      const auto line = [](const std::vector<double>& values) {
        return array(values, {static_cast<std::int64_t>(values.size())});
      };
      const NDArray a = line(left).astype(dtype), b = line(right).astype(dtype);
      const NDArray condition = random_array({140}, 8, -1, 1) > 0;
      const auto chosen = condition.to_vector<double>(), as = a.to_vector<double>(), bs = b.to_vector<double>();
      int wrong = 0;
      const auto check = [&](const NDArray& got, std::int64_t from, std::int64_t step, bool one) {
        const auto values = got.to_vector<double>();
        for (std::size_t i = 0; i < values.size(); ++i) {
          const auto at = static_cast<std::size_t>(from) + i * static_cast<std::size_t>(step);
          const double want = chosen[at] != 0 ? as[at] : bs[one ? 3 : at];
          wrong += std::isnan(want) ? !std::isnan(values[i])
                                    : values[i] != want || std::signbit(values[i]) != std::signbit(want);
        }
      };
      for (std::int64_t n = 0; n <= 70; ++n) {
        const auto part = [&](const NDArray& x) { return x.slice(0, n, 2 * n); };
        check(where(part(condition), part(a), part(b)), n, 1, false);
      }
      const auto half = [](const NDArray& x) { return x.reshape({70, 2}).slice(1, 1, 2).reshape({70}); };
      check(where(half(condition), half(a), half(b)), 1, 2, false);
      check(where(condition, a, b.slice(0, 3, 4)), 0, 1, true);
      CHECK(wrong == 0);
    }
  }
}

}  // namespace sluice::test
