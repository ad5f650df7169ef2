// Numbers taken to pieces, against the C library, with every kind of number of each type; quotients and what they
// leave.
#include <cmath>
#include <cstdint>
#include <cstring>
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

std::vector<Device> devices() {
  return num_gpus() > 0 ? std::vector<Device>{cpu(), gpu()} : std::vector<Device>{cpu()};
}

template <class T>
NDArray line(const std::vector<T>& values) {
  return array(values, {static_cast<std::int64_t>(values.size())});
}

// Denormals and the largest numbers too, which casts may not keep.
template <class T>
std::vector<T> edges() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> all{0, 1, 0.75, 3, 1e-3, Limits::min(), Limits::denorm_min(), Limits::max(), Limits::infinity()};
  all.push_back(Limits::min() * 3);
  all.push_back(Limits::denorm_min() * 5);
  const std::size_t half = all.size();
  for (std::size_t i = 0; i < half; ++i)
    all.push_back(-all[i]);
  all.push_back(Limits::quiet_NaN());
  return all;
}

template <class T, class Bits>
bool same_bits(const std::vector<T>& got, const std::vector<T>& want) {
  bool same = got.size() == want.size();
  for (std::size_t i = 0; same && i < got.size(); ++i) {
    Bits a, b;
    std::memcpy(&a, &got[i], sizeof a);
    std::memcpy(&b, &want[i], sizeof b);
    same = a == b || (std::isnan(got[i]) && std::isnan(want[i]));
    CAPTURE(i, got[i], want[i]);
    CHECK(same);
  }
  return same;
}

template <class T, class Bits>
void check_edges(Device device) {
  const std::vector<T> all = edges<T>();
  std::vector<T> a, b, next, mantissas;
  std::vector<int> exponents;
  for (const T x : all) {
    for (const T y : all) {
      a.push_back(x);
      b.push_back(y);
      next.push_back(std::nextafter(x, y));
    }
    int exponent = 0;
    mantissas.push_back(std::frexp(x, &exponent));
    exponents.push_back(std::isfinite(x) ? exponent : 0);
  }
  CHECK(same_bits<T, Bits>(nextafter(line(a).to(device), line(b).to(device)).template to_vector<T>(), next));
  const MantissaAndExponent parts = frexp(line(all).to(device));
  CHECK(parts.exponent.dtype() == int32);
  CHECK(same_bits<T, Bits>(parts.mantissa.template to_vector<T>(), mantissas));
  CHECK(parts.exponent.template to_vector<int>() == exponents);
}

}  // namespace

TEST_CASE("nextafter and frexp are the C library's, of denormals too", "[operator][number_parts][gpu]") {
  for (const Device device : devices()) {
    CAPTURE(device);
    check_edges<float, std::uint32_t>(device);
    check_edges<double, std::uint64_t>(device);
  }
}

TEST_CASE("Half types have neighbours, mantissas and exponents of their own", "[operator][number_parts][gpu]") {
  for (const Device device : devices()) {
    for (const auto& [dtype, step] : {std::pair{float16, 0x1p-10}, {bfloat16, 0x1p-7}}) {
      CAPTURE(device, dtype);
      const NDArray one = array<double>({1, 1, 1, -1, 0}).astype(dtype).to(device);
      const NDArray to = array<double>({2, 0, 1, 5, -0.0}).astype(dtype).to(device);
      const NDArray y = nextafter(one, to);
      CHECK(y.dtype() == dtype);
      CHECK(y.to_vector<double>() == Numbers{1 + step, 1 - step / 2, 1, -1 + step / 2, 0});
      const MantissaAndExponent parts = frexp(array<double>({-6, 0.25, 0, k_inf}).astype(dtype).to(device));
      CHECK(parts.mantissa.dtype() == dtype);
      CHECK(parts.mantissa.to_vector<double>() == Numbers{-0.75, 0.5, 0, k_inf});
      CHECK(parts.exponent.to_vector<int>() == std::vector<int>{3, -1, 0, 0});
    }
    // The least denormal of float16, which is a number of float32, and the number beyond the largest one.
    const NDArray up = nextafter(
        array<double>({0, 65504}).astype(float16).to(device), full({}, k_inf, {.dtype = float16, .device = device}));
    CHECK(up.to_vector<double>() == Numbers{0x1p-24, k_inf});
    CHECK(nextafter(array<int>({1, 2}).to(device), array<float>({3}).to(device)).dtype() == float32);
    CHECK(nextafter(zeros({2, 1}, {.device = device}), ones({3}, {.device = device})).shape() == Shape{2, 3});
  }
  CHECK_THROWS_AS(nextafter(zeros({2}), zeros({3})), ShapeError);
  CHECK_THROWS_AS(nextafter(zeros({2}), NDArray()), ValueError);
  const NDArray x = random_array({3, 4}, 1, 0.3, 9, float64);
  CHECK(gradient_differences([](const auto& v) { return frexp(v[0]).mantissa; }, {x}) == "");
}

TEST_CASE("modf has the sign of x on both parts", "[operator][number_parts][gpu]") {
  for (const Device device : devices()) {
    for (const DType dtype : floating_dtypes()) {
      CAPTURE(device, dtype);
      const NDArray x = array<double>({2.75, -2.75, 3, -0.0, k_inf, -k_inf, k_nan}).astype(dtype).to(device);
      const FractionAndWhole parts = modf(x);
      CHECK(differences(parts.fraction, array<double>({0.75, -0.75, 0, 0, 0, 0, k_nan}), {0, 0}) == "");
      CHECK(differences(parts.whole, array<double>({2, -2, 3, 0, k_inf, -k_inf, k_nan}), {0, 0}) == "");
      const std::vector<bool> signs = signbit(parts.fraction.slice(0, 0, 6)).to_vector<bool>();
      CHECK(signs == std::vector<bool>{false, true, false, true, false, true});
      CHECK(signbit(parts.whole.slice(0, 0, 6)).to_vector<bool>() == signs);
    }
    CHECK(modf(array<int>({3}).to(device)).fraction.dtype() == float32);
  }
  const NDArray x = random_array({3, 4}, 1, 0.3, 9, float64);
  CHECK(gradient_differences([](const auto& v) { return modf(v[0]).fraction; }, {x}) == "");
  CHECK(traced_differences([](const auto& v) { return modf(v[0]).whole + modf(v[0]).fraction; }, {x}) == "");
}

TEST_CASE("divmod is floor_divide and mod, of arrays and numbers", "[operator][number_parts][gpu]") {
  for (const Device device : devices()) {
    for (const DType dtype : all_dtypes()) {
      if (dtype == bool_)
        continue;
      CAPTURE(device, dtype);
      const NDArray a = array<int>({7, 8, 9}).astype(dtype).to(device),
                    b = array<int>({2, 3, 4}).astype(dtype).to(device);
      const QuotientAndRest made = divmod(a, b);
      CHECK(made.quotient.dtype() == dtype);
      CHECK(made.quotient.to_vector<int>() == std::vector<int>{3, 2, 2});
      CHECK(made.rest.to_vector<int>() == std::vector<int>{1, 2, 1});
      CHECK(divmod(a, 4).quotient.to_vector<int>() == std::vector<int>{1, 2, 2});
      CHECK(divmod(20, b).rest.to_vector<int>() == std::vector<int>{0, 2, 0});
    }
    CHECK(divmod(array<double>({-7}).to(device), 2).rest.item<double>() == 1);  // the sign of b
  }
  const Arrays named = call_all("divmod", {array<int>({9})}, "number=4");
  CHECK((named[0].item<int>() == 2 && named[1].item<int>() == 1));
  CHECK(divmod(array<int>({9}), 0.5).quotient.dtype() == float32);
  const auto rest = [](const auto& v) { return divmod(v[0], 0.5).rest + divmod(0.5, v[0]).quotient; };
  CHECK(traced_differences(rest, {array<int>({9, -2})}) == "");
  CHECK_THROWS_AS(call("divmod", {array<int>({9})}), ValueError);
  CHECK_THROWS_AS(divmod(zeros({2}), zeros({3})), ShapeError);
}

TEST_CASE("positive copies, and bins hold their lower or their upper edges", "[operator][number_parts][gpu]") {
  for (const Device device : devices()) {
    NDArray x = array<float>({-1, 0, 2}).to(device);
    const NDArray y = positive(x);
    fill(x, 7);
    CHECK(y.to_vector<float>() == std::vector<float>{-1, 0, 2});
    CHECK(positive(array<int>({1}).astype(bool_)).dtype() == int64);
    const NDArray at = array<double>({-1, 0, 0.5, 1, 2, 3, k_nan}).to(device),
                  edges = array<double>({0, 1, 2}).to(device);
    CHECK(digitize(at, edges).to_vector<int>() == std::vector<int>{0, 1, 1, 2, 3, 3, 3});
    CHECK(digitize(at, edges, true).to_vector<int>() == std::vector<int>{0, 0, 1, 1, 2, 3, 3});
    CHECK(digitize(at.reshape({7, 1}), edges).shape() == Shape{7, 1});
    CHECK(digitize(array<int>({5}).to(device), array<float>({4.5F}).to(device)).item<int>() == 1);
  }
  CHECK_THROWS_WITH(digitize(zeros({2}), zeros({2, 2})), contains("digitize: edges") && contains("(2, 2)"));
}
