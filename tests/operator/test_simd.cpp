// The vector loops of the elementwise rows on every instruction set that this machine has, against references in double
// and against the plain loops: values far from the rows' usual domains, specials, tails, layouts, neighbours.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/ndarray/detail/simd_target.h>

#include "tests/operator/elementwise_references.h"
#include "tests/operator/elementwise_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace sluice::test {
namespace {

using simd::Target;
using simd::TargetScope;

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();
constexpr double k_inf = std::numeric_limits<double>::infinity();

std::vector<Target> targets() {
  std::vector<Target> all;
  for (const Target target : {Target::scalar, Target::neon, Target::avx2, Target::avx512}) {
    if (simd::is_available(target))
      all.push_back(target);
  }
  return all;
}

const char* name_of(Target target) {
  constexpr const char* k_names[] = {"scalar", "NEON", "AVX2", "AVX-512"};
  return k_names[static_cast<std::size_t>(target)];
}

NDArray line(const std::vector<double>& values) {
  return array(values, {static_cast<std::int64_t>(values.size())});
}

// Numbers of the row's domain, and of all magnitudes between 2^-30 and 2^15.
NDArray wide_values(std::uint64_t seed, double low, double high, DType dtype) {
  std::mt19937_64 generator(seed);
  std::vector<double> values;
  for (int i = 0; i < 700; ++i) {
    const double unit = static_cast<double>(generator() >> 11) * 0x1p-53;
    const double magnitude = std::exp2(-30 + 45 * static_cast<double>(generator() >> 11) * 0x1p-53);
    values.push_back(i % 2 == 0 ? low + (high - low) * unit : unit < 0.5 ? magnitude : -magnitude);
  }
  return line(values).astype(dtype);
}

Tolerance close_to(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return {2e-14, 1e-300};
    case DType::float32:
      return {1.2e-6, 1e-37};
    default:
      return tolerance_of(dtype);
  }
}

std::vector<double> specials(DType dtype) {
  const double largest = dtype == float16 ? 65504 : dtype == float64 ? 1.7e308 : 3.3e38;
  std::vector<double> values = {k_nan};
  for (const double value :
       {k_inf, largest, 0.0, 1e-39, 1e-5, 0.5, 1.0, 1.5, 2.0, 3.0, 88.5, 89.5, 103.9, 710.5, 4e4, 3e9})
    values.insert(values.end(), {value, -value});
  return values;
}

// Empty if all lanes agree in being NaN, in sign (of zeros too), and closely in value.
std::string unlike(const NDArray& got, const NDArray& want, Tolerance tolerance) {
  if (std::string found = differences(got, want, tolerance); !found.empty())
    return found;
  const auto a = got.to_vector<double>(), b = want.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isnan(a[i]) && std::signbit(a[i]) != std::signbit(b[i]))
      return message("element ", i, " is ", a[i], ", expected ", b[i]);
  }
  return {};
}

bool same_bits(const NDArray& a, const NDArray& b) {
  const auto u = a.to_vector<double>(), v = b.to_vector<double>();
  return u.size() == v.size() && (u.empty() || std::memcmp(u.data(), v.data(), u.size() * sizeof(double)) == 0);
}

using Function = std::function<NDArray(const NDArray&, const NDArray&)>;

// What f gives and its gradients, by the fused kernels, with a head that is not constant.
std::vector<NDArray> with_gradients(const Function& f, const NDArray& at_a, const NDArray& at_b, bool gradients) {
  NDArray a = at_a.detach(), b = at_b.detach();
  if (!gradients)
    return {f(a, b)};
  a.attach_grad();
  b.attach_grad();
  const autograd::RecordScope record;
  const NDArray y = f(a, b), variables[] = {a, b};
  const NDArray head = random_array(y.shape(), 3, 0.5, 2, y.dtype());
  std::vector<NDArray> results = autograd::grad({&y, 1}, variables, {&head, 1}, {});
  results.push_back(y);
  return results;
}

// Each row with the function that calls it, unary ones through `a` alone.
template <class Visit>
void for_each_row(Visit&& visit) {
  for (const UnaryCase& row : unary_cases())
    visit(row.name, row, [&](const NDArray& a, const NDArray&) { return row(a); });
  for (const BinaryCase& row : binary_cases())
    visit(row.name, row, [&](const NDArray& a, const NDArray& b) { return row(a, b); });
}

}  // namespace

TEST_CASE("unary rows are right far from their domains on every instruction set", "[operator][simd]") {
  for (const Target target : targets()) {
    const TargetScope scope(target);
    for (const UnaryCase& row : unary_cases()) {
      for (const DType dtype : k_floating_dtypes) {
        const NDArray x = wide_values(7, row.low, row.high, dtype);
        std::vector<double> exact = x.to_vector<double>();
        const std::string name = row.name;
        for (double& value : exact)
          value = name == "erf" ? std::erf(value) : unary_reference(row, value);
        CAPTURE(name_of(target), name, dtype);
        // gelu is as exact as its argument's square allows: far below zero that is an exponent.
        // Where hard_sigmoid's product and number cancel, digits are lost.
        const Tolerance close = close_to(dtype);
        const NDArray y = row(x);
        CHECK(
            differences(
                y,
                line(exact).astype(y.dtype()),
                {name == "gelu" || name == "gelu_tanh" ? 50 * close.relative : close.relative,
                 name == "hard_sigmoid" ? close.relative / 2 : close.absolute}) == "");
      }
    }
  }
}

TEST_CASE("binary rows are right far from their domains on every instruction set", "[operator][simd]") {
  for (const Target target : targets()) {
    const TargetScope scope(target);
    for (const BinaryCase& row : binary_cases()) {
      for (const DType dtype : k_floating_dtypes) {
        // What mod and logaddexp give is small beside their operands: no element is expected closer than those allow.
        const std::string name = row.name;
        const NDArray a = wide_values(8, row.low, row.high, dtype);
        const bool is_small = name == "mod" || name == "logaddexp" || name == "logaddexp2";
        const NDArray b =
            is_small ? random_array(a.shape(), 9, row.low, row.high, dtype) : wide_values(10, row.low, row.high, dtype);
        const auto left = a.to_vector<double>(), right = b.to_vector<double>();
        std::vector<double> exact;
        for (std::size_t i = 0; i < left.size(); ++i) {
          const double larger = std::max(left[i], right[i]);
          exact.push_back(
              name == "mod"          ? std::fmod(left[i], right[i]) + (std::fmod(left[i], right[i]) < 0 ? right[i] : 0)
              : name == "logaddexp"  ? larger + std::log1p(std::exp(-std::fabs(left[i] - right[i])))
              : name == "logaddexp2" ? larger + std::log1p(std::exp2(-std::fabs(left[i] - right[i]))) / std::log(2.0)
                                     : binary_reference(row, left[i], right[i]));
        }
        CAPTURE(name_of(target), row.name, dtype);
        const NDArray y = row(a, b);
        // Where the logarithm is about as large as the larger operand, but of the other sign, digits are lost.
        Tolerance close = close_to(dtype);
        if (name == "logaddexp" || name == "logaddexp2")
          close.absolute = std::max(close.absolute, close.relative / 4);
        CHECK(differences(y, line(exact).astype(y.dtype()), close) == "");
      }
    }
  }
}

TEST_CASE("rows and gradients agree with the plain loops at special values", "[operator][simd][special]") {
  for (const DType dtype : k_floating_dtypes) {
    const auto values = specials(dtype);
    const auto n = static_cast<std::int64_t>(values.size());
    const NDArray all = line(values).astype(dtype);
    const NDArray a = all.reshape({n, 1}).broadcast_to({n, n}).copy(), b = all.broadcast_to({n, n}).copy();
    for_each_row([&](const char* name, const auto& row, const Function& f) {
      const auto on = [&](Target target) {
        const TargetScope scope(target);
        const auto results = with_gradients(f, a, b, row.has_gradient());
        Engine::current().wait_all();
        return results;
      };
      const auto want = on(Target::scalar);
      for (const Target target : targets()) {
        const auto got = on(target);
        for (std::size_t i = 0; i < got.size(); ++i) {
          CAPTURE(name_of(target), name, dtype, i);
          const Tolerance close = close_to(dtype);
          CHECK(unlike(got[i], want[i], {20 * close.relative, dtype == float64 ? 1e-300 : 1.2e-38}) == "");
        }
      }
    });
  }
}

TEST_CASE("functions that are x near 0 give the least numbers back", "[operator][simd][special]") {
  for (const DType dtype : {float32, float64}) {
    const double least = dtype == float32 ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
    for (const double value : {least, -least, 3 * least, 0x1p40 * least}) {
      const NDArray x = full({67}, value, {.dtype = dtype});
      for (const char* name :
           {"sinh",
            "tanh",
            "expm1",
            "log1p",
            "sin",
            "tan",
            "arcsin",
            "arctan",
            "arcsinh",
            "arctanh",
            "softsign",
            "relu"}) {
        CAPTURE(name_of(dtype), value, name);
        const Operator& op = *find_operator(name);
        const NDArray y = invoke_one(op, {x}, parse_attributes(op, ""), SourceLocation::current());
        const double want = std::string_view(name) == "relu" ? std::max(value, 0.0) : value;
        const double ulps = 4 * (dtype == float32 ? 0x1p-23 : 0x1p-52);
        // The quotient of two least numbers is exact where their difference would be flushed.
        for (const double got : y.to_vector<double>())
          CHECK((got == want || std::abs(got / want - 1) <= ulps));
      }
    }
  }
}

TEST_CASE("an element's result does not depend on its neighbours, its place or its layout", "[operator][simd]") {
  for (const Target target : targets()) {
    const TargetScope scope(target);
    for (const DType dtype : {float32, float64, float16}) {
      for_each_row([&](const char* name, const auto& row, const Function& f) {
        CAPTURE(name_of(target), name, dtype);
        const NDArray a = wide_values(11, row.low, row.high, dtype), b = wide_values(12, row.low, row.high, dtype);
        const NDArray y = f(a, b);
        // Every length up to two vectors of any set and one more, at odd beginnings.
        int wrong = 0;
        for (std::int64_t n = 0; n <= 33; ++n) {
          const std::int64_t from = 3 * n + 1;
          wrong += !same_bits(f(a.slice(0, from, from + n), b.slice(0, from, from + n)), y.slice(0, from, from + n));
        }
        CHECK(wrong == 0);
        const auto every_other = [](const NDArray& x) { return x.reshape({350, 2}).slice(1, 1, 2).reshape({350}); };
        CHECK(same_bits(f(every_other(a), every_other(b)), every_other(y)));
        const NDArray one = b.slice(0, 5, 6), many = one.broadcast_to({700});
        CHECK(same_bits(f(a, one), f(a, many.copy())));
        if (std::is_same_v<decltype(row), const BinaryCase&>)
          CHECK(same_bits(f(one, a), f(many.copy(), a)));
      });
    }
  }
}

TEST_CASE("softmax and its like agree with doubles on every instruction set", "[operator][simd][softmax]") {
  for (const Target target : targets()) {
    const TargetScope scope(target);
    for (const DType dtype : {float32, float16, bfloat16}) {
      for (const std::int64_t n : {1, 2, 7, 15, 16, 17, 31, 32, 33, 100, 1000}) {
        CAPTURE(name_of(target), dtype, n);
        const NDArray x = random_array({3, n}, static_cast<std::uint64_t>(n), -20, 20, dtype), wide = x.astype(float64);
        const NDArray labels = full({3}, n - 1, {.dtype = int32}), head = random_array({3, n}, 4, -1, 1, dtype);
        const auto with_gradient = [&](const NDArray& at, auto&& f) {
          NDArray v = at.detach();
          v.attach_grad();
          const autograd::RecordScope record;
          const NDArray y = f(v);
          const NDArray dy = y.ndim() == 1 ? ones({3}, {.dtype = at.dtype()}) : head.astype(at.dtype());
          return std::vector<NDArray>{autograd::grad({&y, 1}, {&v, 1}, {&dy, 1}, {})[0], y};
        };
        const auto check = [&](const char* what, auto&& f) {
          const auto got = with_gradient(x, f), want = with_gradient(wide, f);
          CAPTURE(what);
          for (std::size_t i = 0; i < got.size(); ++i)
            CHECK(
                differences(
                    got[i],
                    want[i],
                    {dtype == float32 ? 4e-6 : tolerance_of(dtype).relative, tolerance_of(dtype).absolute}) == "");
        };
        check("softmax", [](const NDArray& v) { return softmax(v, 1); });
        check("log_softmax", [](const NDArray& v) { return log_softmax(v, 1); });
        check("cross entropy", [&](const NDArray& v) { return softmax_cross_entropy(v, labels); });
      }
      const NDArray some = line({1, k_nan, 3, -k_inf}).astype(dtype).reshape({1, 4});
      for (const double value : softmax(some, 1).to_vector<double>())
        CHECK(std::isnan(value));
      const NDArray masked = line({1, -k_inf, 1, -k_inf}).astype(dtype).reshape({1, 4});
      CHECK(softmax(masked, 1).to_vector<double>() == std::vector<double>{0.5, 0, 0.5, 0});
    }
  }
}

}  // namespace sluice::test
