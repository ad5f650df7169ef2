// The rows of softmax and its losses on every instruction set that this machine has, against float64: every length up
// to some vectors, half types, what is not finite; and results that go past the caches, against the same in pieces.
#include <cmath>
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
using Arrays = std::vector<NDArray>;

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();
constexpr double k_inf = std::numeric_limits<double>::infinity();

Tolerance close_to(DType dtype) {
  return dtype == float32 ? Tolerance{6e-7, 6e-7} : tolerance_of(dtype);
}

// A function of rows and what its gradient is taken for.
struct RowCase {
  const char* name;
  std::function<NDArray(const NDArray& x, const NDArray& labels)> f;
};

const RowCase k_cases[] = {
    {"softmax", [](const NDArray& x, const NDArray&) { return softmax(x); }},
    {"log_softmax", [](const NDArray& x, const NDArray&) { return log_softmax(x); }},
    {"cross_entropy", [](const NDArray& x, const NDArray& labels) { return softmax_cross_entropy(x, labels); }}};

Arrays value_and_gradient(const RowCase& of, const NDArray& at, const NDArray& labels) {
  NDArray x = at.detach();
  x.attach_grad();
  const autograd::RecordScope record;
  const NDArray y = of.f(x, labels), head = random_array(y.shape(), 5, -1, 1, float16).astype(y.dtype());
  return {y, autograd::grad({&y, 1}, {&x, 1}, {&head, 1}, {})[0]};
}

void check_rows(const NDArray& x, const NDArray& labels, DType dtype) {
  for (const RowCase& of : k_cases) {
    const Arrays want = value_and_gradient(of, x.astype(float64), labels), got = value_and_gradient(of, x, labels);
    for (std::size_t i = 0; i < want.size(); ++i) {
      CAPTURE(of.name, i, x.shape());
      CHECK(differences(got[i], want[i].astype(dtype), close_to(dtype)) == "");
    }
  }
}

}  // namespace

TEST_CASE("rows of softmax are right at every length on every instruction set", "[operator][simd][softmax]") {
  for (const simd::Target target : simd_targets()) {
    const TargetScope scope(target);
    for (const DType dtype : {float32, float16, bfloat16}) {
      CAPTURE(name_of(target), dtype);
      for (std::int64_t n = 1; n <= 2600; n += n < 70 ? 1 : n < 130 ? 29 : 823) {
        const NDArray x = random_array({5, n}, static_cast<std::uint64_t>(n), -9, 6, dtype);
        const NDArray labels = array<int>({0, int(n - 1), int(n / 2), int(n / 3), 0});
        check_rows(x, labels, dtype);
      }
    }
  }
}

TEST_CASE("a power of e in softmax is off by two units in the last place at most", "[operator][simd][softmax]") {
  constexpr std::int64_t k_rows = 40000;
  // Rows of 0 and -x: the second result is e^-x / (1 + e^-x).
  NDArray x = zeros({k_rows, 2}, {.dtype = float64});
  x.slice(1, 1, 2).assign(random_array({k_rows, 1}, 3, -87.2, 0, float32).astype(float64));
  const auto exact = softmax(x).to_vector<double>();
  for (const simd::Target target : simd_targets()) {
    const TargetScope scope(target);
    CAPTURE(name_of(target));
    const auto got = softmax(x.astype(float32)).to_vector<double>();
    double most = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      most = std::max(most, std::abs(got[i] / exact[i] - 1));
    CHECK(most < 3.5 * 0x1p-24);  // the power's two, the sum's and the quotient's roundings
    // Where results would be denormal they are 0, and nothing else is.
    const auto edge = softmax(array<float>({0, -87.2F, 0, -87.4F, 0, -3e38F}, {3, 2})).to_vector<double>();
    CHECK(edge[1] > 0);
    CHECK((edge[3] == 0 && edge[5] == 0));
  }
}

TEST_CASE("what is not finite in a row of softmax is what the plain loops make of it", "[operator][simd][softmax]") {
  for (const std::int64_t n : {2, 15, 16, 17, 64, 65, 90}) {
    for (const double special : {k_nan, k_inf, -k_inf}) {
      for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
        NDArray x = random_array({2, n}, 4, -3, 3);
        x.slice(0, 0, 1).slice(1, at, at + 1).assign(special);
        const NDArray nothing = full({2, n}, -k_inf);
        for (const simd::Target target : simd_targets()) {
          CAPTURE(name_of(target), n, special, at);
          const auto outcome = [&](simd::Target on) {
            const TargetScope scope(on);
            return Arrays{softmax(x), log_softmax(x), softmax(nothing), log_softmax(nothing)};
          };
          const Arrays got = outcome(target), want = outcome(simd::Target::scalar);
          for (std::size_t i = 0; i < got.size(); ++i)
            CHECK(differences(got[i], want[i], {1e-6, 1e-6}) == "");
        }
      }
    }
  }
}

namespace {

// Is f of whole arrays, by bits, what it is of their rows, each of which a cache holds?
template <class F>
bool same_row_by_row(const F& f, const NDArray& a, const NDArray& b) {
  const NDArray all = f(a, b);
  bool same = true;
  for (std::int64_t row = 0; row < a.shape()[0]; row += 97) {
    const auto one = [&](const NDArray& x) { return x.shape()[0] == 1 ? x : x.slice(0, row, row + 1); };
    same = same && equal_bits(all.slice(0, row, row + 1), f(one(a).copy(), one(b).copy()));
  }
  return same;
}

}  // namespace

TEST_CASE("elementwise results that go past the caches have the bits of those in pieces", "[operator][simd]") {
  const auto power = [](const NDArray& x, const NDArray&) { return exp(x); };
  const auto sum = [](const NDArray& x, const NDArray& y) { return x + y; };
  const auto above = [](const NDArray& x, const NDArray& y) { return x > y; };
  const auto beside = [](const NDArray& x, const NDArray&) { return x * 3; };
  for (const simd::Target target : simd_targets()) {
    const TargetScope scope(target);
    // Rows that are no whole lines, so that beside a broadcast row, or of a slice, each begins within one.
    for (const DType dtype : {float32, float64}) {
      const NDArray x = random_array({1031, 4099}, 6, -3, 3, dtype), y = random_array({1031, 4099}, 7, -3, 3, dtype);
      const NDArray row = y.slice(0, 0, 1).copy();
      CAPTURE(name_of(target), dtype);
      CHECK(same_row_by_row(power, x, y));
      CHECK(same_row_by_row(sum, x, y));
      CHECK(same_row_by_row(sum, x, row));
      CHECK(same_row_by_row(beside, x, y));
      CHECK(same_row_by_row(sum, x.slice(1, 1, 4098), y.slice(1, 2, 4099)));
      // Written over: each element is read before.
      NDArray over = x.copy();
      over += y;
      CHECK(equal_bits(over, x + y));
    }
    const NDArray wide = random_array({4099, 4099}, 8, -3, 3);
    CHECK(same_row_by_row(above, wide, wide.slice(0, 9, 10).copy()));  // 16 MB of bytes
  }
}

}  // namespace sluice::test
