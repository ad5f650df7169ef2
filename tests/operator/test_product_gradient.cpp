// Gradients of products at the ends of their types, recorded and not: partial products that do not fit, zeros,
// infinities, NaN, heads that do not fit either.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/reduce/plan.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using List = std::vector<double>;

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

/// The product of all but x[a] and x[b], kept as number and exponent on the way.
double product_without(const List& x, std::size_t a, std::size_t b) {
  double number = 1;
  int exponent = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i == a || i == b)
      continue;
    int of_factor = 0, of_product = 0;
    number *= std::isfinite(x[i]) ? std::frexp(x[i], &of_factor) : x[i];
    number = std::isfinite(number) ? std::frexp(number, &of_product) : number;
    exponent += of_factor + of_product;
  }
  return std::ldexp(number, exponent);
}

List gradient_by_hand(const List& x) {
  List dx;
  for (std::size_t i = 0; i < x.size(); ++i)
    dx.push_back(product_without(x, i, i));
  return dx;
}

NDArray gradient_of(NDArray x, const Shape& axes, double head, bool recorded) {
  x = x.detach();
  x.attach_grad();
  const autograd::RecordScope record;
  const NDArray y = prod(x, axes);
  const NDArray heads[] = {full(y.shape(), head, {.dtype = y.dtype(), .device = y.device()})};
  return autograd::grad({&y, 1}, {&x, 1}, heads, {.create_graph = recorded})[0];
}

// By logarithms the error grows with these; otherwise a few roundings, and none in products of few whole numbers. What
// is found beside a NaN is NaN, at the NaN itself perhaps too.
void check_gradient(const List& x, Device device, DType dtype = float64) {
  const auto n = static_cast<std::int64_t>(x.size());
  const NDArray factors = array(x, {n}).astype(dtype).to(device);
  const List numbers = factors.to_vector<double>();
  double logs = 0;
  for (const double number : numbers)
    logs += number == 0 || !std::isfinite(number) ? 0 : std::abs(std::log2(number < 0 ? -number : number));
  const double error = dtype == float64 ? 2e-16 * (8 + static_cast<double>(n) + logs) : 2e-7;
  const NDArray want = array(gradient_by_hand(numbers), {n}).astype(dtype);
  for (const bool recorded : {false, true}) {
    CAPTURE(recorded, x, dtype);
    const NDArray got = gradient_of(factors, {}, 1, recorded).to(cpu());
    const bool may_be_nan = !recorded && isnan(sum(factors)).item<bool>();
    CHECK(differences(may_be_nan ? where(isnan(factors.to(cpu())), want, got) : got, want, {error, 0}) == "");
  }
}

List repeated(const List& values, int times) {
  List all;
  for (const double value : values)
    all.insert(all.end(), static_cast<std::size_t>(times), value);
  return all;
}

void check_partial_products(Device device) {
  const double e = 1e200;
  for (List x :
       {List{e, e, 1 / e, 1 / e, 3}, {1 / e, e, 7, 1 / e, e}, {e, e, 1 / e}, {-1 / e, 1 / e, e}, {e, e, e, 0}}) {
    check_gradient(x, device);
    std::reverse(x.begin(), x.end());
    check_gradient(x, device);
  }
  check_gradient({1e308, 1e308, 1e308, 1e308, 1e-307, 1e-307, 1e-307, 1e-307, 0}, device);
  check_gradient({3e38, 3e38, 1e-37, 1e-37, 2, -1, 3e38, 1e-37}, device, float32);
  check_gradient({60000, 60000, 0.0001, 0.0001, 2}, device, float16);
  check_gradient({3e38, 3e38, 1e-37, 1e-37, 2}, device, bfloat16);
  // Long ones, of numbers that no power of two brings near 1, large ones first; 3001 is no power of two either.
  check_gradient(repeated({e, 1 / e}, 300), device);
  check_gradient(repeated({1.4, 1 / 1.4}, 2500), device);
  check_gradient(repeated({-1.4, 0.7, 1.4, 0.7}, 3001), device);
  check_gradient(repeated({0.7, 1.4e300, 1.1e-300, -1.38}, 1000), device);
}

void check_special(Device device) {
  const double e = 1e200;
  for (const DType dtype : {float64, float32, float16}) {
    for (const List& x :
         {List{k_inf, 2, 3},
          {-k_inf, -2},
          {k_inf, 0, 2},
          {0, -k_inf},
          {k_inf, -k_inf, 2},
          {k_inf, k_inf, 0, 2, 3},
          {0, 0, k_inf},
          {k_nan, 2, -4},
          {k_nan, 0, 4},
          {k_nan, k_inf},
          {k_nan, k_nan, 2},
          {0, -5, 3},
          {0},
          {k_inf},
          {k_nan},
          {}})
      check_gradient(x, device, dtype);
  }
  check_gradient({e, e, 0}, device);
  check_gradient({e, e, 0, 1 / e, 1 / e, 1 / e}, device);
  check_gradient({e, e, k_inf, 1 / e, 1 / e, 1 / e}, device);
}

// float64 keeps its denormals.
void check_denormals(Device device) {
  check_gradient({5e-324, 3, 1e300}, device);
  check_gradient({1e-310, 1e-310, 1e300, 1e308, 2}, device);
  check_gradient({1.7e308, -1.7e308, 2.3e-308, 2.3e-308, 0.3, -0.7}, device);
}

// One row of factors in need of care beside some that are not, along an axis in the middle.
void check_rows(Device device) {
  const double e = 1e200;
  const List rows[] = {{e, e, 1 / e, 1 / e}, {2, 3, -4, 5}, {k_inf, 2, 3, 4}, {0, 6, 7, 0}};
  List values, want;
  for (const List& row : rows) {
    const List dx = gradient_by_hand(row);
    for (std::size_t i = 0; i < row.size(); ++i) {
      values.insert(values.end(), {row[i], 1.5});
      want.insert(want.end(), {-2 * dx[i], -2 * 1.5 * 1.5 * 1.5});
    }
  }
  const NDArray x = array(values, {4, 4, 2}).to(device), turned = x.transpose({2, 1, 0});
  for (const bool recorded : {false, true}) {
    CAPTURE(recorded);
    CHECK(differences(gradient_of(x, {1}, -2, recorded).to(cpu()), array(want, {4, 4, 2}), {2e-13, 0}) == "");
    const NDArray back = gradient_of(turned, {-2}, -2, recorded).transpose({2, 1, 0});
    CHECK(differences(back.to(cpu()), array(want, {4, 4, 2}), {2e-13, 0}) == "");
  }
}

void check_heads(Device device) {
  const auto of = [&](const List& x, double head, bool recorded) {
    const NDArray factors = array(x, {static_cast<std::int64_t>(x.size())}).to(device);
    return gradient_of(factors, {}, head, recorded).to_vector<double>();
  };
  for (const bool recorded : {false, true}) {
    CAPTURE(recorded);
    const List small = of({1e200, 1e100, 1e-250}, 1e-300, recorded), of_none = of({1e200, 1e200, 3}, 0, recorded);
    CHECK(small[2] == Approx(1).epsilon(1e-12));
    CHECK(small[0] == 0);
    CHECK(of_none[0] == 0);
    CHECK(std::isnan(of_none[2]));  // 0 times what does not fit
    CHECK(of({2, 3}, k_inf, recorded) == List{k_inf, k_inf});
    CHECK(std::isnan(of({2, 0}, k_inf, recorded)[0]));
  }
}

// What the head gradients of dx reach: of each pair the product of all others.
void check_second(const List& values, Device device) {
  const auto n = static_cast<std::int64_t>(values.size());
  NDArray x = array(values, {n}).to(device);
  x.attach_grad();
  for (std::int64_t i = 0; i < n; ++i) {
    NDArray dx;
    const autograd::RecordScope record;
    const NDArray y = prod(x);
    dx = autograd::grad({&y, 1}, {&x, 1}, {}, {.create_graph = true})[0].slice(0, i, i + 1);
    const List got = autograd::grad({&dx, 1}, {&x, 1}, {})[0].to_vector<double>();
    for (std::int64_t j = 0; j < n; ++j) {
      const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
      CAPTURE(values, i, j);
      CHECK(got[b] == Approx(i == j ? 0 : product_without(values, a, b)).epsilon(1e-14));
    }
  }
}

}  // namespace

TEST_CASE("The gradient of a product is that of the others where partial products do not fit", "[reduce][product]") {
  check_partial_products(cpu());
}

TEST_CASE("The gradient of a product beside zeros, infinities and NaN is that of the others", "[reduce][product]") {
  check_special(cpu());
  check_denormals(cpu());
  check_rows(cpu());
  check_heads(cpu());
}

TEST_CASE("Second gradients of products whose partial products do not fit", "[reduce][product]") {
  for (const List& x :
       {List{1e100, 1e-100, 1e100, 1e-100, 3}, {2, 0, 5, 0}, {1e200, 0, 1e-150, 2}, {2, 3, -4, 5, 6, 7, 8}})
    check_second(x, cpu());
}

TEST_CASE("Gradients of products at the ends of their types on a GPU", "[reduce][product][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_partial_products(gpu());
  check_special(gpu());
  check_rows(gpu());
  check_heads(gpu());
  check_second({1e100, 1e-100, 1e100, 1e-100, 3}, gpu());
}

TEST_CASE("Gradients of products of denormals on a GPU", "[reduce][product][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  check_denormals(gpu());
}

TEST_CASE(
    "Rows of a product of any length, and columns, have on a GPU the gradient that a CPU gives", "[reduce][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Operator& op = *find_operator("prod_backward");
  for (const DType dtype : {float32, float64, bfloat16}) {
    for (const auto& [shape, axes] : std::vector<std::pair<Shape, const char*>>{
             {{3, 1}, "axes=(1)"},
             {{5, 31}, "axes=(1)"},
             {{5, 64}, "axes=(1)"},
             {{3, 1025}, "axes=(1)"},
             {{1, 40000}, "axes=(1)"},
             {{40001}, "axes=(0)"},
             {{70, 3}, "axes=(0)"},
             {{1000, 33}, "axes=(0)"},
             {{7, 5, 9}, "axes=(0, 2)"},
             {{2, 90, 70}, "axes=(1)"},
             {{3, 2, 40000}, "axes=(0, 2)"},
             {{2, 3}, "axes=(0, 1)"}}) {
      CAPTURE(dtype, shape, axes);
      NDArray x = random_array(shape, 3, 0.5, 1.5, dtype);
      const NDArray y = prod(x, parse_attributes(op, axes).as<detail::TermsAttributes>().axes, true);
      const NDArray dy = random_array(y.shape(), 4, -1, 1, dtype);
      for (const double odd : {1.0, 0.0, k_inf, k_nan}) {
        const NDArray first = arange(0, static_cast<double>(x.size()), 1, {.dtype = int64}).reshape(shape) == 0;
        const NDArray both[] = {where(first, odd, x).astype(dtype), dy};
        const NDArray there[] = {both[0].to(gpu()), dy.to(gpu())};
        const auto gradient = [&](std::span<const NDArray> in) {
          return invoke(op, in, parse_attributes(op, axes), SourceLocation::current())[0].to(cpu());
        };
        CHECK(differences(gradient(there), gradient(both), {dtype == float64 ? 1e-12 : 1e-6, 0}) == "");
      }
    }
  }
}
