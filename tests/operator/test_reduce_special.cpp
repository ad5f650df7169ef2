// Reductions at the edges of their domains: no terms, one, NaN, infinities, zeros, numbers whose squares do not fit.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reduction_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using List = std::vector<double>;

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

NDArray vector_of(const std::vector<double>& values, DType dtype = float32, Device device = cpu()) {
  return array(values, {static_cast<std::int64_t>(values.size())}).astype(dtype).to(device);
}

std::vector<double> gradient_of(NDArray x, const std::function<NDArray(const NDArray&)>& f) {
  x = x.detach();
  x.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = f(x);
  }
  y.backward();
  return x.grad().to_vector<double>();
}

const ReductionCase& row_of(const std::string& name) {
  for (const ReductionCase& row : reduction_cases()) {
    if (row.name == name)
      return row;
  }
  throw ValueError("no reduction " + name);
}

// The gradient of a row as a function that can be differentiated again.
NDArray recorded_gradient(const ReductionCase& row, const NDArray& at, const Shape& axes) {
  NDArray x = at;
  if (!autograd::on_tape(x)) {
    x = x.detach();
    x.attach_grad();
  }
  const autograd::RecordScope record;
  const NDArray y = row.run(x, axes, false);
  const NDArray head = random_array(y.shape(), 5, 0.5, 1.5, float64, x.device());
  return autograd::grad({&y, 1}, {&x, 1}, {&head, 1}, {.create_graph = true})[0];
}

void check_edges(Device device) {
  const auto of = [&](const std::vector<double>& values, DType dtype = float32) {
    return vector_of(values, dtype, device);
  };
  CHECK(variance(of({1, 2, 3, 4})).item<double>() == 1.25);
  CHECK(variance(of({1, 2, 3, 4}), {}, false, 1).item<double>() == Approx(5.0 / 3));
  CHECK(standard_deviation(of({1, 2, 3, 4}), {0}, true, 1).item<double>() == Approx(std::sqrt(5.0 / 3)));
  CHECK(variance(of({7})).item<double>() == 0);
  CHECK(std::isnan(variance(of({7}), {}, false, 1).item<double>()));
  CHECK(variance(of({7, 8}), {}, false, 3).item<double>() == k_inf);
  CHECK(std::isnan(variance(of({})).item<double>()));
  CHECK(std::isnan(variance(of({1, k_inf, 2})).item<double>()));
  CHECK(std::isnan(variance(of({k_inf})).item<double>()));
  // Sums of squares would cancel here.
  CHECK(variance(of({1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3})).item<double>() == 1.25);
  for (const DType dtype : {float32, float64}) {
    const double huge = dtype == float32 ? 1e37 : 1e307, tiny = dtype == float32 ? 1e-37 : 1e-307;
    CHECK(l2_norm(of({3 * huge, -4 * huge}, dtype)).item<double>() == Approx(5 * huge));
    CHECK(l2_norm(of({3 * tiny, -4 * tiny}, dtype)).item<double>() == Approx(5 * tiny));
    CHECK(l2_norm(of({3, tiny, -4}, dtype)).item<double>() == 5);
    CHECK(l2_norm(of({3 * huge, tiny, 1, -4 * huge}, dtype)).item<double>() == Approx(5 * huge));
  }
  CHECK(l2_norm(of({1, -k_inf})).item<double>() == k_inf);
  CHECK(l2_norm(of({0, 0})).item<double>() == 0);
  CHECK(l2_norm(of(std::vector<double>(4, 30000), float16)).item<double>() == 60000);
  CHECK(max_norm(of({1, -3, 2})).item<double>() == 3);
  CHECK(logsumexp(of({1000, 1000})).item<double>() == Approx(1000 + std::log(2)));
  CHECK(logsumexp(of({-1000, -1001})).item<double>() == Approx(-1000 + std::log1p(std::exp(-1.0))));
  CHECK(logsumexp(of({-k_inf, -k_inf})).item<double>() == -k_inf);
  CHECK(logsumexp(of({-k_inf, 2})).item<double>() == 2);
  CHECK(logsumexp(of({k_inf, 2, k_inf})).item<double>() == k_inf);
  CHECK(logsumexp(of({k_inf, -k_inf})).item<double>() == k_inf);
  CHECK(logsumexp(of({})).item<double>() == -k_inf);
  CHECK(any(of({0, k_nan})).item<bool>());
  CHECK_FALSE(any(of({0, -0.0})).item<bool>());
  CHECK(all(of({1, k_nan})).item<bool>());
  CHECK_FALSE(all(of({1, 0, 1})).item<bool>());
  CHECK_FALSE(any(of({})).item<bool>());
  CHECK(all(of({})).item<bool>());
  CHECK(count_nonzero(of({0, 3, k_nan, 0}, float16)).item<std::int64_t>() == 2);
  CHECK(l1_norm(of({-3, 4}, int32)).dtype() == float32);
  CHECK(max_norm(of({})).item<double>() == 0);
}

// A NaN anywhere is the result.
void check_nan(Device device) {
  for (const char* name :
       {"sum",
        "mean",
        "prod",
        "max",
        "min",
        "variance",
        "standard_deviation",
        "l1_norm",
        "l2_norm",
        "max_norm",
        "logsumexp"}) {
    for (const DType dtype : floating_dtypes()) {
      for (const std::vector<double>& values : {std::vector<double>{k_nan, 1, 2}, {1, k_nan, -1}, {k_inf, 2, k_nan}}) {
        INFO(name << " of " << dtype);
        CHECK(std::isnan(row_of(name).run(vector_of(values, dtype, device), {}, false).item<double>()));
      }
    }
  }
}

}  // namespace

TEST_CASE("Reductions of nothing, one term, NaN, infinities and numbers whose squares do not fit", "[reduce]") {
  check_edges(cpu());
  check_nan(cpu());
}

TEST_CASE("Reductions at the edges of their domains on a GPU", "[reduce][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_edges(gpu());
  check_nan(gpu());
}

TEST_CASE("Gradients of reductions where they have kinks", "[reduce]") {
  CHECK(gradient_of(vector_of({3, 3, 3}), [](auto& x) { return standard_deviation(x); }) == List{0, 0, 0});
  CHECK(gradient_of(vector_of({7}), [](auto& x) { return variance(x); }) == List{0});
  CHECK(std::isnan(gradient_of(vector_of({7}), [](auto& x) { return variance(x, {}, false, 1); })[0]));
  CHECK(gradient_of(vector_of({0, 0}), [](auto& x) { return l2_norm(x); }) == List{0, 0});
  CHECK(gradient_of(vector_of({0, -2}), [](auto& x) { return l1_norm(x); }) == List{0, -1});
  CHECK(gradient_of(vector_of({3, -3, 1}), [](auto& x) { return max_norm(x); }) == List{0.5, -0.5, 0});
  CHECK(gradient_of(vector_of({-k_inf, -k_inf}), [](auto& x) { return logsumexp(x); }) == List{0, 0});
  CHECK(gradient_of(vector_of({k_inf, 5}), [](auto& x) { return logsumexp(x); }) == List{1, 0});
  CHECK(gradient_of(vector_of({-k_inf, 5}), [](auto& x) { return logsumexp(x); }) == List{0, 1});
  CHECK(std::isnan(gradient_of(vector_of({k_nan, 5}), [](auto& x) { return logsumexp(x); })[1]));
  // The result, rounded to bfloat16, is half off.
  const List shares = gradient_of(vector_of({200, 200, 200, 199}, bfloat16), [](auto& x) { return logsumexp(x); });
  CHECK(shares[0] == Approx(1 / (3 + std::exp(-1.0))).epsilon(0.01));
}

TEST_CASE("Gradients of reductions of float32 numbers whose product or square does not fit", "[reduce]") {
  const auto of_product = [](const std::vector<double>& values, DType dtype = float32) {
    return gradient_of(vector_of(values, dtype), [](auto& x) { return prod(x); });
  };
  const auto near = [](double wanted) { return Approx(wanted).epsilon(1e-6); };
  const List over = of_product({1e30, 1e30, 1e-30}), under = of_product({1e-30, -1e-30, 1e25, 1e10});
  CHECK(over[0] == near(1));
  CHECK(over[1] == near(1));
  CHECK(over[2] == k_inf);
  CHECK(under[0] == near(-1e5));
  CHECK(under[1] == near(1e5));
  CHECK(of_product({1e-30, 1e-30, 1e30})[2] == 0);
  // Intermediate products beyond float64 too.
  std::vector<double> many(40, 1e30);
  many.resize(80, 1e-30);
  for (const double one : of_product(many))
    CHECK((one == near(1e30) || one == near(1e-30)));
  CHECK(of_product({2, 3, -4}) == List{-12, -8, 6});
  CHECK(of_product({2, 0, -4}) == List{0, -8, 0});
  CHECK(of_product({0, 3, 0}) == List{0, 0, 0});
  CHECK(of_product({2, 3, -4}, float64) == List{-12, -8, 6});
  CHECK(std::isnan(of_product({2, k_nan, 4})[0]));

  const auto of_norm = [](const std::vector<double>& values) {
    return gradient_of(vector_of(values), [](auto& x) { return l2_norm(x); });
  };
  CHECK(of_norm({3e38, 0}) == List{1, 0});
  CHECK(of_norm({3e38, 3e38}) == List{0, 0});
  CHECK(of_norm({-2e38, 1e38})[0] == near(-2 / std::sqrt(5.0)));
  CHECK(of_norm({3e-38, 4e-38})[1] == near(0.8));

  const auto of_exponentials = [](const std::vector<double>& values) {
    return gradient_of(vector_of(values), [](auto& x) { return logsumexp(x); });
  };
  CHECK(of_exponentials({k_inf, k_inf}) == List{0.5, 0.5});
  CHECK(of_exponentials({k_inf, 3, k_inf, -k_inf}) == List{0.5, 0, 0.5, 0});
}

TEST_CASE("Second gradients of reductions agree with finite differences", "[reduce]") {
  const NDArray x = random_array({3, 4, 2}, 21, 0.5, 2, float64);
  for (const char* name : {"prod", "variance", "standard_deviation", "l2_norm", "logsumexp"}) {
    for (const Shape& axes : {Shape{}, Shape{1}, Shape{0, 2}}) {
      INFO(name << " over " << axes);
      const auto f = [&](const std::vector<NDArray>& in) { return recorded_gradient(row_of(name), in[0], axes); };
      CHECK(gradient_differences(f, {x}, {.tolerance = {1e-4, 1e-6}}) == "");
    }
  }
}

TEST_CASE("A reduction called by name promotes as the function does", "[reduce]") {
  const NDArray whole = array<std::int64_t>({1, 2, 4});
  for (const ReductionCase& row : reduction_cases()) {
    const Operator& op = *find_operator(row.name);
    const NDArray by_name = invoke_one(op, {whole}, parse_attributes(op, "axes=(-1,)"), {});
    INFO(row.name);
    CHECK(by_name.dtype() == row.run(whole, {}, false).dtype());
    CHECK(by_name.item<double>() == row.run(whole, {}, false).item<double>());
  }
  CHECK(mean(array<std::int32_t>({1 << 30, (1 << 30) + 256})).item<double>() == (1 << 30) + 128);
}

namespace {

// Of what lies far from 0, in rows, stepped rows and columns, against float64 of the same numbers.
void check_variance_far_from_zero(Device device) {
  for (const double centre : {255.0, 1e4, 1e6}) {
    for (const std::int64_t n : {4, 15, 16, 100, 3000}) {
      const NDArray near = test::random_array({6, n}, static_cast<std::uint64_t>(n), -2, 2, float32);
      const NDArray rows = (near + centre).to(device), columns = rows.T().copy();
      const NDArray stepped = repeat(rows, 2, 1).slice(1, 0, 2 * n, 2);
      const List wanted = variance(rows.astype(float64), {1}).to_vector<double>();
      const List got[] = {
          variance(rows, {1}).to_vector<double>(),
          variance(columns, {0}).to_vector<double>(),
          variance(stepped, {1}).to_vector<double>()};
      for (std::size_t way = 0; way < std::size(got); ++way) {
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          CAPTURE(centre, n, way, i);
          CHECK(got[way][i] == Approx(wanted[i]).epsilon(2e-6));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("The variance of numbers far from 0 keeps its digits, however they lie") {
  check_variance_far_from_zero(cpu());
}

TEST_CASE("The variance of numbers far from 0 keeps its digits on a GPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_variance_far_from_zero(gpu(0));
}

TEST_CASE("what is constant has no variance, however it lies and however large it is") {
  for (const std::int64_t n : {2, 15, 16, 50, 300, 5000}) {
    for (const double value : {0.1, 1000.1, 1e38}) {
      CAPTURE(n, value);
      const NDArray row = full({n}, value), wide = full({n, 2}, value);
      CHECK(variance(row).item<double>() == 0);
      CHECK(standard_deviation(row).item<double>() == 0);
      CHECK(variance(wide.slice(1, 0, 1).reshape({n})).item<double>() == 0);
      CHECK(variance(wide, {0}).to_vector<double>() == List{0, 0});
      const List slopes = gradient_of(row, [](auto& x) { return standard_deviation(x); });
      CHECK(slopes == List(static_cast<std::size_t>(n), 0));
    }
  }
  const NDArray apart = array<float>({3e38f, -3e38f}).broadcast_to({20, 2}).copy().reshape({40});
  CHECK(std::isinf(variance(apart).item<float>()));
}
