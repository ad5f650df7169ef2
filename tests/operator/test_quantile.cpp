// Quantiles of any axes, several at once, and of what is no NaN: NumPy's values, gradients, graphs, errors.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/by_name.h"
#include "tests/operator/reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN(), k_inf = std::numeric_limits<double>::infinity();
using Numbers = std::vector<double>;

// numpy.quantile of one row, by its definition.
double quantile_of(Numbers row, double q) {
  if (row.empty() || std::any_of(row.begin(), row.end(), [](double value) { return std::isnan(value); }))
    return k_nan;
  std::sort(row.begin(), row.end());
  const double place = q * static_cast<double>(row.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const double part = place - static_cast<double>(below);
  return part == 0 ? row[below] : row[below] + (row[below + 1] - row[below]) * part;
}

// Rows of the axes, one after the other, of an array of three axes.
std::vector<Numbers> rows_of(const NDArray& x, const std::vector<int>& axes) {
  Shape order;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end())
      order.push_back(axis);
  }
  std::int64_t each = 1;
  for (const int axis : axes) {
    order.push_back(axis);
    each *= x.shape()[axis];
  }
  const Numbers all = x.transpose(order).to_vector<double>();
  std::vector<Numbers> rows;
  for (std::size_t at = 0; at < all.size(); at += static_cast<std::size_t>(each))
    rows.emplace_back(
        all.begin() + static_cast<std::ptrdiff_t>(at), all.begin() + static_cast<std::ptrdiff_t>(at) + each);
  return rows;
}

Numbers wanted(const NDArray& x, const std::vector<int>& axes, double q, bool without_nan) {
  Numbers made;
  for (Numbers& row : rows_of(x, axes)) {
    if (without_nan)
      row.erase(std::remove_if(row.begin(), row.end(), [](double v) { return std::isnan(v); }), row.end());
    made.push_back(quantile_of(row, q));
  }
  return made;
}

NDArray holed(const NDArray& x) {
  return where(x > 0.6, k_nan, x);
}

std::vector<Device> devices() {
  return num_gpus() > 0 ? std::vector<Device>{cpu(), gpu()} : std::vector<Device>{cpu()};
}

}  // namespace

TEST_CASE("Quantiles are of any axes, which may be kept", "[operator][quantile][gpu]") {
  const std::vector<std::vector<int>> sets{{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}};
  for (const Device device : devices()) {
    const NDArray x = random_array({3, 4, 5}, 1, -1, 1, float64), lost = holed(x);
    for (const std::vector<int>& axes : sets) {
      const Shape shape(std::vector<std::int64_t>(axes.begin(), axes.end()));
      Shape kept = x.shape();
      for (const int axis : axes)
        kept[axis] = 1;
      for (const double q : {0.0, 0.3, 0.5, 1.0}) {
        CAPTURE(device, shape, q);
        const auto check = [&](const NDArray& got, const NDArray& of, bool without_nan) {
          const Numbers want = wanted(of, axes, q, without_nan);
          const NDArray flat = array(want, {static_cast<std::int64_t>(want.size())});
          CHECK(differences(got.reshape({-1}), flat, {1e-12, 1e-12}) == "");
        };
        check(quantile(x.to(device), q, shape), x, false);
        check(quantile(lost.to(device), q, shape), lost, false);
        check(nanquantile(lost.to(device), q, shape), lost, true);
        check(percentile(x.to(device), 100 * q, shape), x, false);
        CHECK(quantile(x.to(device), q, shape, true).shape() == kept);
        CHECK(nanquantile(lost.to(device), q, shape, true).shape() == kept);
      }
      CHECK(differences(median(x, shape, true), quantile(x, 0.5, shape, true), {0, 0}) == "");
      CHECK(differences(nanmedian(lost, shape), nanquantile(lost, 0.5, shape), {0, 0}) == "");
    }
    const NDArray turned = x.to(device).transpose({2, 0, 1});
    CHECK(differences(quantile(turned, 0.3, {1, 2}), quantile(x, 0.3, {0, 1}), {0, 0}) == "");
    CHECK(median(full({}, 3, {.device = device})).item<float>() == 3);
    CHECK(median(full({}, 3), {}, true).shape() == Shape{});
    CHECK(quantile(zeros({0, 3, 2}), 0.5, {1, 2}).shape() == Shape{0});
    CHECK(quantile(zeros({2, 0, 3}), 0.5, {2}).shape() == Shape{2, 0});
    CHECK(nanquantile(zeros({2, 0, 3}), 0.5, {0, 2}, true).shape() == Shape{1, 0, 1});
  }
}

TEST_CASE("Several quantiles stand along a new first axis", "[operator][quantile]") {
  const NDArray x = random_array({3, 4, 5}, 2, -1, 1, float64);
  const NDArray all = quantile(x, {0.1, 0.5, 0.9}, {0, 2}, true);
  CHECK(all.shape() == Shape{3, 1, 4, 1});
  CHECK(differences(all[1], median(x, {0, 2}, true), {0, 0}) == "");
  CHECK(differences(all[2], quantile(x, 0.9, {0, 2}, true), {0, 0}) == "");
  CHECK(percentile(x, std::vector<double>{25}, {1}).shape() == Shape{1, 3, 5});
  CHECK(difference(call("quantile", {x}, "qs=(0.25, 0.5), axes=(-1,)"), quantile(x, {0.25, 0.5}, {2})) == "");
  CHECK(difference(call("percentile", {x}), median(x)) == "");
  CHECK(difference(call("nanpercentile", {x}, "q=20, axes=(0,)"), quantile(x, 0.2, 0)) == "");
  CHECK_THROWS_AS(quantile(x, std::vector<double>{}), ValueError);
}

TEST_CASE("Quantiles without NaNs are NaN of NaNs alone, and have their entries' gradients", "[operator][quantile]") {
  for (const DType dtype : floating_dtypes()) {
    CAPTURE(dtype);
    const NDArray x = array<double>({k_nan, k_nan, k_nan, 3, k_nan, 1, k_inf, 2, k_nan}, {3, 3}).astype(dtype);
    CHECK(nanmedian(x, {1}).dtype() == dtype);
    const Numbers made = nanmedian(x, {1}).to_vector<double>();
    CHECK(std::isnan(made[0]));
    CHECK((made[1] == 2 && made[2] == k_inf));
    CHECK(nanquantile(x, 0, {1}).to_vector<double>()[2] == 2);  // whatever comes next
  }
  CHECK(nanmedian(array<int>({1, 2})).item<float>() == 1.5F);
  NDArray x = array<double>({4, k_nan, 1, 3, 5, k_nan, k_nan, k_nan}, {2, 4});
  x.attach_grad();
  {
    const autograd::RecordScope record;
    sum(nanmedian(x, {1})).backward();
  }
  CHECK(x.grad().to_vector<double>() == Numbers{0, 0, 0, 1, 1, 0, 0, 0});
  const NDArray wide = random_array({3, 4, 5}, 3, -1, 1, float64);
  for (const Shape& axes : {Shape{1}, Shape{0, 2}, Shape{}}) {
    CAPTURE(axes);
    CHECK(gradient_differences([=](const auto& v) { return quantile(v[0], 0.3, axes); }, {wide}) == "");
    CHECK(gradient_differences([=](const auto& v) { return nanquantile(v[0], 0.3, axes, true); }, {wide}) == "");
    CHECK(gradient_differences([=](const auto& v) { return percentile(v[0], {20, 70}, axes); }, {wide}) == "");
  }
}

TEST_CASE("Entries that tie share the gradient; half types are rounded once", "[operator][quantile]") {
  NDArray x = array<double>({0, 2, 2, 7, k_nan});
  x.attach_grad();
  const auto gradient_of = [&](const auto& f) {
    {
      const autograd::RecordScope record;
      f().backward();
    }
    return x.grad().template to_vector<double>();
  };
  CHECK(gradient_of([&] { return nanmedian(x); }) == Numbers{0, 0.5, 0.5, 0, 0});
  CHECK(gradient_of([&] { return median(x.slice(0, 0, 4)); }) == Numbers{0, 0.5, 0.5, 0, 0});
  CHECK(median(array<float>({-1.0000001F, 1})).item<float>() == -0x1p-24F);
  for (const DType dtype : {float16, bfloat16}) {
    const NDArray halves = random_array({200, 2}, 5, -2, 2, dtype);
    const NDArray wanted = median(halves.astype(float64), {1}).astype(dtype);
    CHECK(median(halves, {1}).astype(float64).to_vector<double>() == wanted.astype(float64).to_vector<double>());
    CHECK(nanmedian(halves, {1}).astype(float64).to_vector<double>() == wanted.astype(float64).to_vector<double>());
  }
}

TEST_CASE("Quantiles are in graphs what they are by hand, and refuse what has no entries", "[operator][quantile]") {
  const NDArray x = random_array({3, 4, 5}, 4);
  for (const Shape& axes : {Shape{1}, Shape{1, 2}, Shape{0, 1}, Shape{}}) {
    CAPTURE(axes);
    CHECK(traced_differences([=](const auto& v) { return quantile(v[0], {0.2, 0.7}, axes, true); }, {x}) == "");
    CHECK(traced_differences([=](const auto& v) { return nanmedian(holed(v[0]), axes); }, {x}) == "");
  }
  CHECK_THROWS_WITH(quantile(x, 1.5), contains("quantile: q is 1.5"));
  CHECK_THROWS_WITH(percentile(x, 101), contains("percentile: q is 101"));
  CHECK_THROWS_AS(nanpercentile(x, -1), ValueError);
  CHECK_THROWS_AS(median(x, {0, 0}), ValueError);
  CHECK_THROWS_AS(median(x, {3}), IndexError);
  CHECK_THROWS_WITH(median(zeros({2, 0}), {1}), contains("median: no entries along axis 1 of (2, 0)"));
  CHECK_THROWS_AS(nanmedian(zeros({0})), ValueError);
  CHECK_THROWS_AS(median(NDArray()), ValueError);
}
