// Elementwise rows at their kinks and beyond: NaN, infinities, signed zeros, ties, halves, the largest numbers; and
// their gradients there, from the fused kernels as from the recorded formulas.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/operator/elementwise_references.h"
#include "tests/operator/elementwise_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();
constexpr double k_inf = std::numeric_limits<double>::infinity();

std::vector<double> specials(DType dtype) {
  std::vector<double> values = {k_nan, 100, -100};
  const double largest = dtype == float16 ? 65504 : dtype == float64 ? 1.7e308 : 3.3e38;
  for (const double value : {k_inf, largest, 0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 2.5, 6.0, 40.0}) {
    values.push_back(value);
    values.push_back(-value);
  }
  return values;
}

template <class T>
NDArray line(const std::vector<T>& values) {
  return array(values, {static_cast<std::int64_t>(values.size())});
}

NDArray typed(const std::vector<double>& values, DType dtype, Device device = cpu()) {
  return line(values).astype(dtype).to(device);
}

// What differs, where zeros also need the sign that is expected.
std::string special_differences(const NDArray& got, const std::vector<double>& exact, DType dtype, bool signed_zeros) {
  const NDArray want = typed(exact, got.dtype());
  if (std::string found = differences(got, want, tolerance_of(dtype)); !found.empty())
    return found;
  const auto values = got.to_vector<double>();
  for (std::size_t i = 0; signed_zeros && i < values.size(); ++i) {
    if (exact[i] == 0 && std::signbit(values[i]) != std::signbit(exact[i]))
      return message("element ", i, " is a zero of the wrong sign");
  }
  return {};
}

double special_reference(const BinaryCase& row, double a, double b) {
  const std::string name = row.name;
  if (name == "mod") {
    if (b == 0 || std::isnan(a) || std::isnan(b) || std::isinf(a))
      return k_nan;
    const double rest = std::fmod(a, b);
    return rest == 0 ? std::copysign(0.0, b) : std::signbit(rest) != std::signbit(b) ? rest + b : rest;
  }
  if (name == "logaddexp" || name == "logaddexp2") {
    const double larger = std::isnan(a)   ? a
                          : std::isnan(b) ? b
                                          : std::max(a, b),
                 unit = name == "logaddexp2" ? std::log(2.0) : 1;
    return std::isinf(larger) ? larger : larger + std::log1p(std::exp(-std::fabs(a - b) * unit)) / unit;
  }
  return binary_reference(row, a, b);
}

void check_unary(Device device) {
  for (const UnaryCase& row : unary_cases()) {
    for (const DType dtype : k_floating_dtypes) {
      const NDArray x = typed(specials(dtype), dtype);
      std::vector<double> exact = x.to_vector<double>();
      for (double& value : exact)
        value = unary_reference(row, value);
      CAPTURE(row.name, dtype);
      CHECK(special_differences(row(x.to(device)), exact, dtype, true) == "");
    }
  }
}

void check_binary(Device device) {
  for (const BinaryCase& row : binary_cases()) {
    for (const DType dtype : k_floating_dtypes) {
      const NDArray x = typed(specials(dtype), dtype);
      const auto values = x.to_vector<double>();
      // Of two zeros either may be the larger one.
      const std::string name = row.name;
      const bool signed_zeros = name != "maximum" && name != "minimum" && name != "fmax" && name != "fmin";
      for (const double b : values) {
        std::vector<double> exact;
        for (const double a : values)
          exact.push_back(special_reference(row, a, b));
        CAPTURE(row.name, dtype, b);
        CHECK(special_differences(row(x.to(device), typed({b}, dtype, device)), exact, dtype, signed_zeros) == "");
        CHECK(special_differences(row(x.to(device), Scalar(b)), exact, dtype, signed_zeros) == "");
      }
    }
  }
}

struct Gradients {
  std::vector<double> a, b;
};

// Of the sum of f(a, b). `recorded`: by the formula in arrays, otherwise by the fused kernel.
Gradients gradients_at(
    const std::function<NDArray(const NDArray&, const NDArray&)>& f,
    const NDArray& at_a,
    const NDArray& at_b,
    bool recorded) {
  NDArray a = at_a.detach(), b = at_b.detach();
  a.attach_grad();
  b.attach_grad();
  const autograd::RecordScope record;
  const NDArray y = f(a, b), variables[] = {a, b};
  const auto grads = autograd::grad({&y, 1}, variables, {}, {.create_graph = recorded});
  return {grads[0].to_vector<double>(), grads[1].to_vector<double>()};
}

struct GradientCase {
  const char* row;
  double a, b, da, db;
};

const GradientCase k_gradients[] = {
    {"relu", k_nan, 0, 1, 0},
    {"relu", 0, 0, 0, 0},
    {"relu", -0.0, 0, 0, 0},
    {"relu", k_inf, 0, 1, 0},
    {"relu", -k_inf, 0, 0, 0},
    {"abs", 0, 0, 0, 0},
    {"abs", k_nan, 0, k_nan, 0},
    {"log", 0, 0, k_inf, 0},
    {"sqrt", 0, 0, k_inf, 0},
    {"gelu", 60000, 0, 1, 0},
    {"maximum", 2, 2, 0.5, 0.5},
    {"maximum", 3, 2, 1, 0},
    {"maximum", 2, 3, 0, 1},
    {"maximum", k_inf, k_inf, 0.5, 0.5},
    {"maximum", k_nan, 2, 1, 1},
    {"maximum", 2, k_nan, 1, 1},
    {"minimum", 2, 2, 0.5, 0.5},
    {"minimum", 3, 2, 0, 1},
    {"minimum", 2, 3, 1, 0},
    {"minimum", k_nan, 2, 1, 1},
    {"minimum", 2, k_nan, 1, 1},
    {"hypot", 0, 0, 0, 0},
    {"hypot", 3, 4, 0.6, 0.8},
    {"hypot", -30000, 40000, -0.6, 0.8},
    {"logaddexp", 5, 5, 0.5, 0.5},
    {"logaddexp", -3000, -3000, 0.5, 0.5},
    {"logaddexp", 1, -1, 0.880797077977882444, 0.119202922022117556},
    {"logaddexp", k_inf, 2, 1, 0},
    {"logaddexp", 2, k_inf, 0, 1},
    {"logaddexp", -k_inf, 2, 0, 1},
    {"logaddexp", k_inf, k_inf, 0.5, 0.5},
    {"logaddexp", -k_inf, -k_inf, 0.5, 0.5},
    {"logaddexp", k_inf, -k_inf, 1, 0},
    {"logaddexp", k_nan, 2, k_nan, k_nan},
    {"mod", 7, 2, 1, -3},
    {"mod", -7, 2, 1, 4},
    {"mod", 6, 2, 1, -3},
    {"mod", 3, k_inf, 1, 0},
    {"mod", 0, k_inf, 1, 0},
    {"mod", -3, k_inf, 1, 1},
    {"mod", 3, -k_inf, 1, 1},
    {"mod", -3, -k_inf, 1, 0},
    {"mod", k_inf, k_inf, 1, k_nan},
    {"fmod", 7, 2, 1, -3},
    {"fmod", -7, 2, 1, 3},
    {"fmod", 3, k_inf, 1, 0},
    {"fmod", -3, k_inf, 1, 0},
    {"fmod", k_inf, 2, 1, k_nan},
    {"floor_divide", 7, 2, 0, 0},
    {"fmax", 2, 2, 0.5, 0.5},
    {"fmax", 2, 3, 0, 1},
    {"fmax", k_nan, 2, 0, 1},
    {"fmax", 2, k_nan, 1, 0},
    {"fmin", 2, 2, 0.5, 0.5},
    {"fmin", 3, 2, 0, 1},
    {"fmin", k_nan, 2, 0, 1},
    {"fmin", k_nan, k_nan, 1, 0},
    {"fmin", 2, k_nan, 1, 0},
    {"copysign", 3, -2, -1, 0},
    {"copysign", -3, -2, 1, 0},
    {"copysign", 0, -2, 0, 0},
    {"heaviside", 0, 3, 0, 1},
    {"heaviside", 2, 3, 0, 0},
    {"ldexp", 3, 2, 4, 8.31776616671934371},
    {"logaddexp2", 5, 5, 0.5, 0.5},
    {"logaddexp2", k_inf, 2, 1, 0},
    {"logaddexp2", -k_inf, -k_inf, 0.5, 0.5},
    {"xlogy", 0, 0, 0, k_nan},
    {"xlogy", 0, 2, 0.693147180559945309, 0},
    {"xlogy", 3, 0, -k_inf, k_inf},
    {"xlog1py", 0, -1, 0, k_nan},
    {"xlog1py", 0, 1, 0.693147180559945309, 0},
    {"prelu", 2, 0.25, 1, 0},
    {"prelu", 0, 0.25, 0.25, 0},
    {"prelu", -2, 0.25, 0.25, -2},
    {"prelu", k_nan, 0.25, 0.25, k_nan},
    {"hard_swish", 3, 0, 1, 0},
    {"hard_swish", -3, 0, 0, 0},
    {"hard_swish", k_inf, 0, 1, 0},
    {"hard_swish", k_nan, 0, k_nan, 0},
    {"relu6", 0, 0, 0, 0},
    {"relu6", 6, 0, 0, 0},
    {"relu6", k_nan, 0, 1, 0},
    {"hard_tanh", 1, 0, 0, 0},
    {"hard_tanh", 0.5, 0, 1, 0},
    {"softshrink", 0.5, 0, 0, 0},
    {"softshrink", -2, 0, 1, 0},
    {"hard_shrink", 0.5, 0, 0, 0},
    {"hard_shrink", -2, 0, 1, 0},
    {"smooth_l1", 0.5, 0, 0.5, 0},
    {"smooth_l1", -k_inf, 0, -1, 0},
    {"selu", 0, 0, 1.75809934084737686, 0},
    {"log_sigmoid", -k_inf, 0, 1, 0},
    {"log_sigmoid", k_inf, 0, 0, 0},
    {"gelu_tanh", 60000, 0, 1, 0},
    {"gelu_tanh", -60000, 0, 0, 0},
    {"sinc", 0, 0, 0, 0},
    {"sinc", 1, 0, -1, 0},
    {"arcsinh", k_inf, 0, 0, 0},
    {"arcsinh", 60000, 0, 1.66666666643518519e-05, 0},
    {"arccosh", 1, 0, k_inf, 0},
    {"arccosh", 0.5, 0, k_nan, 0},
    {"arctanh", 1, 0, k_inf, 0},
    {"erfinv", 1, 0, k_inf, 0},
    {"erfinv", 0, 0, 0.886226925452758014, 0},
    {"erfinv", 2, 0, k_nan, 0},
    {"logit", 0, 0, k_inf, 0},
    {"logit", -0.0, 0, k_inf, 0},
    {"logit", 2, 0, k_nan, 0},
    {"rcbrt", 0, 0, -k_inf, 0},
    {"gamma", 1, 0, -0.577215664901532861, 0},
    {"gamma", 0, 0, -k_inf, 0},
    {"gammaln", k_inf, 0, k_inf, 0},
    {"digamma", 1, 0, 1.64493406684822644, 0},
    {"digamma", k_inf, 0, 0, 0},
    {"polygamma", 1, 0, -2.40411380631918857, 0},
    {"power", 0, 0, 0, 0},
    {"power", 0, 2, 0, 0},
    {"power", 0, 1, 1, 0},
    {"power", 0, 0.5, k_inf, 0},
    {"power", 0, -1, -k_inf, -k_inf},
    {"power", 2, 0, 0, 0.693147180559945309},
    {"power", 0, k_nan, k_nan, k_nan},
    {"arctan2", 0, 1, 1, 0},
    {"arctan2", 3, 4, 0.16, -0.12},
    {"arctan2", 0, 0, 0, 0},
    {"arctan2", -0.0, 0, 0, 0},
    {"arctan2", k_nan, 0, k_nan, k_nan},
    {"arctan2", k_inf, 1, 0, k_nan},
};

// Squares of such numbers do not fit; what the gradient is does.
void check_far_angles(Device device) {
  for (const double at : {1e20, 1e36, 1e-20, 1e-25}) {
    for (const DType dtype : {bfloat16, float32, float64}) {
      for (const bool recorded : {false, true}) {
        CAPTURE(at, dtype, recorded);
        const NDArray a = typed({3 * at}, dtype, device), b = typed({4 * at}, dtype, device);
        const auto f = [](const NDArray& u, const NDArray& v) { return arctan2(u, v); };
        const Gradients got = gradients_at(f, a, b, recorded);
        const double close = 20 * tolerance_of(dtype).relative;
        CHECK(std::fabs(got.a[0] * at / 0.16 - 1) < close);
        CHECK(std::fabs(got.b[0] * at / -0.12 - 1) < close);
      }
    }
  }
}

void check_gradients(Device device) {
  for (const GradientCase& at : k_gradients) {
    for (const DType dtype : k_floating_dtypes) {
      for (const bool recorded : {false, true}) {
        CAPTURE(at.row, at.a, at.b, dtype, recorded);
        const NDArray a = typed({at.a}, dtype, device), b = typed({at.b}, dtype, device);
        Gradients got;
        for (const UnaryCase& row : unary_cases()) {
          if (std::string(row.name) == at.row)
            got = gradients_at([&](const NDArray& x, const NDArray&) { return row(x); }, a, b, recorded);
        }
        for (const BinaryCase& row : binary_cases()) {
          if (std::string(row.name) == at.row)
            got = gradients_at([&](const NDArray& x, const NDArray& y) { return row(x, y); }, a, b, recorded);
        }
        CHECK(special_differences(line(got.a), {at.da}, dtype, false) == "");
        CHECK(special_differences(line(got.b), {at.db}, dtype, false) == "");
      }
    }
  }
}

}  // namespace

TEST_CASE("unary rows at special values are those of the C++ library", "[operator][elementwise][special]") {
  check_unary(cpu());
}

TEST_CASE("binary rows at special values are those of the C++ library", "[operator][elementwise][special]") {
  check_binary(cpu());
}

TEST_CASE("gradients of rows at ties, zeros, infinities and NaN", "[operator][elementwise][gradient][special]") {
  check_gradients(cpu());
  check_far_angles(cpu());
}

TEST_CASE("rows at special values on a GPU", "[operator][elementwise][gradient][special][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_unary(gpu());
  check_binary(gpu());
  check_gradients(gpu());
  check_far_angles(gpu());
}

TEST_CASE("gelu and its gradient keep their digits far below zero", "[operator][elementwise][special]") {
  const NDArray x = array<float>({-6, -5, -4, -3});
  const Gradients got = gradients_at([](const NDArray& v, const NDArray&) { return gelu(v); }, x, x, false);
  const auto y = gelu(x).to_vector<double>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double v = i - 6.0, cdf = 0.5 * std::erfc(-v / std::sqrt(2.0));
    CHECK(y[i] == Approx(v * cdf).epsilon(1e-5));
    CHECK(got.a[i] == Approx(cdf + v * std::exp(-v * v / 2) / std::sqrt(2 * 3.14159265358979323846)).epsilon(1e-5));
  }
}

TEST_CASE("the gradient of rcbrt is finite as far as it is a number", "[operator][elementwise][special]") {
  for (const double x : {1e-28, -1e-29, 1e-10, 1.0, 1e25}) {
    CAPTURE(x);
    NDArray at = array({static_cast<float>(x)});
    at.attach_grad();
    for (const bool create_graph : {false, true}) {
      {
        const autograd::RecordScope record;
        rcbrt(at).backward(ones({1}), {.create_graph = create_graph});
      }
      const double y = 1 / std::cbrt(static_cast<double>(static_cast<float>(x)));
      CHECK(at.grad().item<double>() == Approx(-y * y * y * y / 3).epsilon(1e-5));
    }
  }
}

TEST_CASE("the gradient of mod counts whole divisors as mod does", "[operator][elementwise][gradient][special]") {
  std::vector<float> a, b;
  std::vector<double> want;
  for (int k = 1; k < 400; ++k) {
    const float divisor = 0.1f + 0.013f * static_cast<float>(k % 37);
    const float product = static_cast<float>(k) * divisor;
    for (const float dividend : {product, std::nextafter(product, 0.0f), std::nextafter(product, 1e9f)}) {
      a.push_back(dividend);
      b.push_back(divisor);
      // Exact: the quotient of two floats is no nearer to a whole number than doubles tell apart.
      want.push_back(-std::floor(static_cast<double>(dividend) / static_cast<double>(divisor)));
    }
  }
  const auto f = [](const NDArray& x, const NDArray& y) { return mod(x, y); };
  CHECK(gradients_at(f, line(a), line(b), false).b == want);
  CHECK(gradients_at(f, line(a), line(b), true).b == want);
}

TEST_CASE("recorded gradients of half precision are those of the fused kernels", "[operator][elementwise][gradient]") {
  for (const DType dtype : {float16, bfloat16}) {
    const NDArray a = typed({0.0117, 0.5, 3, 300, 1000}, dtype), b = typed({2, 0.7, 300, 0.25, 1000}, dtype);
    const auto check = [&](const auto& f) {
      const Gradients fused = gradients_at(f, a, b, false), recorded = gradients_at(f, a, b, true);
      const Tolerance t = tolerance_of(dtype);
      CHECK(differences(typed(recorded.a, dtype), typed(fused.a, dtype), {t.relative, 1e-7}) == "");
      CHECK(differences(typed(recorded.b, dtype), typed(fused.b, dtype), {t.relative, 1e-7}) == "");
    };
    for (const UnaryCase& row : unary_cases()) {
      CAPTURE(row.name, dtype);
      if (row.has_gradient())
        check([&](const NDArray& x, const NDArray&) { return row(x); });
    }
    for (const BinaryCase& row : binary_cases()) {
      CAPTURE(row.name, dtype);
      if (row.has_gradient())
        check([&](const NDArray& x, const NDArray& y) { return row(x, y); });
      if (row.has_gradient())
        check([&](const NDArray& x, const NDArray& y) { return row(x, 300) + row(0.0117, y); });
    }
  }
}
