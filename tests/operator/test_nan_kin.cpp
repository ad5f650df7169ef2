// Variances, places and scans of what is no NaN: NumPy's values, gradients, graphs.
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
using Places = std::vector<std::int64_t>;

std::vector<Device> devices() {
  return num_gpus() > 0 ? std::vector<Device>{cpu(), gpu()} : std::vector<Device>{cpu()};
}

NDArray holed(const NDArray& x) {
  return where(x > 0.6, k_nan, x);
}

}  // namespace

TEST_CASE("Variances leave NaNs out, and are NaN where too few numbers are left", "[operator][nan][gpu]") {
  for (const Device device : devices()) {
    for (const DType dtype : floating_dtypes()) {
      CAPTURE(device, dtype);
      const NDArray x = array<double>({1, k_nan, 4, 7, k_nan, k_nan, k_nan, 2, k_nan, k_nan, k_nan, k_nan}, {3, 4})
                            .astype(dtype)
                            .to(device);
      const NDArray of = nanvar(x, {1});
      CHECK(of.dtype() == dtype);
      CHECK(differences(of, array<double>({6, 0, k_nan}), tolerance_of(dtype)) == "");
      CHECK(differences(nanvar(x, {1}, true, 1), array<double>({9, k_nan, k_nan}, {3, 1}), tolerance_of(dtype)) == "");
      CHECK(differences(nanstd(x, {1}, false, 1), array<double>({3, k_nan, k_nan}), tolerance_of(dtype)) == "");
      CHECK(nanstd(x, {1}).to_vector<double>()[1] == 0);
      const NDArray whole = random_array({3, 4, 5}, 1, -1, 1, dtype).to(device);
      CHECK(differences(nanvar(whole, {0, 2}, false, 1), variance(whole, {0, 2}, false, 1), tolerance_of(dtype)) == "");
      CHECK(std::isnan(nanvar(zeros({0, 2}, {.dtype = dtype, .device = device}), {0}).to_vector<double>()[1]));
    }
    // Far from 0, where sums of squares would leave nothing of it.
    const NDArray far = array<float>({10001, 10002, static_cast<float>(k_nan), 10003}).to(device);
    CHECK(nanvar(far).item<double>() == Approx(2.0 / 3));
    CHECK(nanstd(array<int>({1, 3}).to(device)).item<float>() == 1);
  }
  NDArray alike = array<double>({2, 2, k_nan});
  alike.attach_grad();
  {
    const autograd::RecordScope record;
    nanstd(alike).backward();
  }
  CHECK(alike.grad().to_vector<double>() == Numbers{0, 0, 0});
  const NDArray x = random_array({3, 4}, 2, -1, 1, float64);
  CHECK(gradient_differences([](const auto& v) { return nanvar(holed(v[0]), {1}); }, {x}) == "");
  CHECK(gradient_differences([](const auto& v) { return nanstd(v[0], {0}, true, 1); }, {x}) == "");
  CHECK(traced_differences([](const auto& v) { return nanstd(holed(v[0]), {1}); }, {x}) == "");
  CHECK(difference(call("nanvar", {x}, "axes=(-1,), ddof=1"), nanvar(x, {1}, false, 1)) == "");
}

TEST_CASE("Places of extremes pass NaNs over, -1 where there is nothing else", "[operator][nan][gpu]") {
  for (const Device device : devices()) {
    for (const DType dtype : floating_dtypes()) {
      CAPTURE(device, dtype);
      const NDArray x =
          array<double>(
              {k_nan, 1, 3, 3, k_nan, -k_inf, k_nan, -k_inf, k_nan, k_nan, k_nan, k_nan, k_nan, k_inf, k_inf, k_nan},
              {4, 4})
              .astype(dtype)
              .to(device);
      CHECK(nanargmax(x, 1).to_vector<std::int64_t>() == Places{2, 1, -1, 1});
      CHECK(nanargmin(x, 1).to_vector<std::int64_t>() == Places{1, 1, -1, 1});
      CHECK(nanargmin(x, -1, true).shape() == Shape{4, 1});
      CHECK(nanargmax(x, 1).dtype() == int64);
    }
    CHECK(nanargmax(array<int>({4, 9, 9}).to(device), 0).item<int>() == 1);
    CHECK(call("nanargmax", {array<double>({k_nan, 1, 5, 2}, {2, 2}).to(device)}).item<int>() == 2);
  }
  CHECK_THROWS_AS(nanargmax(zeros({2, 0}), 1), ValueError);
  CHECK_THROWS_AS(nanargmin(zeros({2}), 1), IndexError);
}

TEST_CASE("Scans have 0 or 1 in place of NaNs", "[operator][nan][gpu]") {
  for (const Device device : devices()) {
    for (const DType dtype : floating_dtypes()) {
      CAPTURE(device, dtype);
      const NDArray x = array<double>({k_nan, 2, k_nan, 3, 4, k_nan}, {2, 3}).astype(dtype).to(device);
      CHECK(nancumsum(x, 1).to_vector<double>() == Numbers{0, 2, 2, 3, 7, 7});
      CHECK(nancumprod(x, 1).to_vector<double>() == Numbers{1, 2, 2, 3, 12, 12});
      CHECK(nancumprod(x, 0, true).to_vector<double>() == Numbers{3, 8, 1, 3, 4, 1});
      CHECK(nancumsum(x).shape() == Shape{6});
    }
    CHECK(nancumsum(array<int>({1, 2}).to(device)).dtype() == int64);
  }
  const NDArray x = random_array({3, 4}, 2, -1, 1, float64);
  CHECK(gradient_differences([](const auto& v) { return nancumprod(holed(v[0]), 1); }, {x}) == "");
  CHECK(gradient_differences([](const auto& v) { return nancumsum(holed(v[0]), 0, true); }, {x}) == "");
  CHECK(traced_differences([](const auto& v) { return nancumsum(holed(v[0])); }, {x}) == "");
  CHECK(difference(call("nancumsum", {x}), nancumsum(x)) == "");
}
