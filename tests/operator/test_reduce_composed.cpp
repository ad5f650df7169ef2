// Reductions without NaNs and norms of any order: values of every type, gradients, axes, strides, graphs, errors.
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;

namespace {

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();
constexpr double k_inf = std::numeric_limits<double>::infinity();
const std::vector<DType> k_floating = {float16, bfloat16, float32, float64};

using Numbers = std::vector<double>;

bool same(const NDArray& got, const Numbers& want) {
  return test::differences(
             got.reshape({-1}), array(want, {static_cast<std::int64_t>(want.size())}), test::tolerance_of(got.dtype()))
      .empty();
}

Numbers gradient_of(const test::Function& f, const NDArray& at) {
  NDArray x = at.detach();
  x.attach_grad();
  {
    const autograd::RecordScope record;
    f({x}).backward();
  }
  return x.grad().to_vector<double>();
}

void check_values(Device device) {
  for (const DType dtype : k_floating) {
    CAPTURE(dtype);
    const NDArray x = array<double>({1, k_nan, 4, k_nan, k_nan, k_nan, -2, 3, -k_inf}, {3, 3}).astype(dtype).to(device);
    CHECK(same(nansum(x, {1}), {5, 0, -k_inf}));
    CHECK(same(nanprod(x, {-1}), {4, 1, k_inf}));
    CHECK(same(nanmean(x, {1}), {2.5, k_nan, -k_inf}));
    CHECK(same(nanmax(x, {1}), {4, k_nan, 3}));
    CHECK(same(nanmin(x, {1}, true), {1, k_nan, -k_inf}));
    CHECK(same(nanmax(x), {4}));
    CHECK(nanmean(x, {0, 1}, true).shape() == Shape{1, 1});
    CHECK(nanmean(x).dtype() == dtype);

    const NDArray y = array<double>({3, -4, 0, 0, 0, 0}, {2, 3}).astype(dtype).to(device);
    CHECK(same(norm(y, 2, {1}), {5, 0}));
    CHECK(same(norm(y, 1, {1}), {7, 0}));
    CHECK(same(norm(y, k_inf, {-1}), {4, 0}));
    CHECK(same(norm(y, -k_inf, {1}), {0, 0}));
    CHECK(same(norm(y, 0, {1}), {2, 0}));
    CHECK(same(norm(y, 3, {1}), {std::cbrt(91.0), 0}));
    CHECK(same(norm(y, 0.5, {1}), {std::pow(std::sqrt(3.0) + 2, 2), 0}));
    CHECK(same(norm(y, -1, {1}), {0, 0}));
    CHECK(same(norm(y.slice(1, 0, 2).slice(0, 0, 1), -1), {1 / (1.0 / 3 + 0.25)}));
    CHECK(norm(y, 3, {0}, true).shape() == Shape{1, 3});
    CHECK(norm(y, 3).dtype() == dtype);
  }
  // Neither the powers nor their sum fit.
  CHECK(same(norm(full({4}, 1e30, {.device = device}), 4), {std::sqrt(2.0) * 1e30}));
  CHECK(norm(full({4}, 1e-30, {.device = device}), 4).item<double>() == Approx(std::sqrt(2.0) * 1e-30));
  CHECK(same(norm(full({4}, 1e30, {.device = device}), -4), {1e30 / std::sqrt(2.0)}));
  CHECK(norm(full({4}, 1e-30, {.device = device}), -4).item<double>() == Approx(1e-30 / std::sqrt(2.0)));
  CHECK(same(norm(array<float>({2, INFINITY, -2, 0}, {2, 2}).to(device), -3, {1}), {2, 0}));
  CHECK(same(norm(array<float>({INFINITY, INFINITY}).to(device), -3), {k_inf}));
  CHECK(std::isnan(norm(array<float>({0, NAN}).to(device), -3).item<double>()));
  CHECK(same(norm(array<float>({1, INFINITY}).to(device), 3), {k_inf}));
  CHECK(std::isnan(norm(array<float>({1, NAN}).to(device), 3).item<double>()));
  CHECK(same(nanmean(full({3000}, 60000, {.dtype = float16, .device = device})), {60000}));
}

}  // namespace

TEST_CASE("Reductions without NaNs and norms of any order", "[operator][reduce][composed]") {
  check_values(cpu());
}

TEST_CASE("Reductions without NaNs and norms of any order on a GPU", "[operator][reduce][composed][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_values(gpu());
}

TEST_CASE("Reductions of integers have no NaNs, norms of them are float32", "[operator][reduce][composed]") {
  for (const DType dtype : {bool_, uint8, int8, int32, int64, int16, uint16, uint32, uint64}) {
    CAPTURE(dtype);
    const NDArray x = array<int>({1, 0, 1, 1}).astype(dtype);
    CHECK(nansum(x).dtype() == (dtype == uint64 ? uint64 : int64));
    CHECK(nansum(x).item<int>() == 3);
    CHECK(nanprod(x).item<int>() == 0);
    CHECK(nanmean(x).item<double>() == 0.75);
    CHECK(nanmax(x).dtype() == dtype);
    CHECK(nanmin(x).item<int>() == 0);
    CHECK(norm(x, 0).dtype() == float32);
    CHECK(norm(x, 3).item<double>() == Approx(std::cbrt(3.0)));
  }
  CHECK(norm(array<std::int8_t>({-128, 0}), 3).item<double>() == Approx(128));
}

TEST_CASE("Gradients go past NaNs, and are 0 at the norm of zeros", "[operator][reduce][composed][gradient]") {
  const NDArray x = array<double>({1, k_nan, 4, 2});
  CHECK(gradient_of([](const auto& v) { return nansum(v[0]); }, x) == Numbers{1, 0, 1, 1});
  CHECK(gradient_of([](const auto& v) { return nanprod(v[0]); }, x) == Numbers{8, 0, 2, 4});
  CHECK(gradient_of([](const auto& v) { return nanmax(v[0]); }, x) == Numbers{0, 0, 1, 0});
  CHECK(gradient_of([](const auto& v) { return nanmin(v[0]); }, x) == Numbers{1, 0, 0, 0});
  for (const double share : gradient_of([](const auto& v) { return nanmean(v[0]); }, array<double>({1, k_nan, 4})))
    CHECK((share == 0.5 || share == 0));
  for (const double order : {0.5, 1.0, 1.5, 2.0, 3.0, k_inf}) {
    CAPTURE(order);
    CHECK(gradient_of([&](const auto& v) { return norm(v[0], order); }, zeros({3})) == Numbers{0, 0, 0});
    const NDArray some = test::random_array({3, 4}, 7, 0.2, 2, float64);
    CHECK(test::gradient_differences([&](const auto& v) { return norm(v[0], order, {1}); }, {some}) == "");
    CHECK(test::gradient_differences([&](const auto& v) { return norm(-v[0], order, {0, 1}); }, {some}) == "");
  }
  const NDArray some = test::random_array({3, 4}, 8, 0.2, 2, float64);
  CHECK(test::gradient_differences([](const auto& v) { return norm(v[0], -2, {0}); }, {some}) == "");
  CHECK(gradient_of([](const auto& v) { return norm(v[0], 3); }, array<double>({0, -2})) == Numbers{0, -1});
  for (const double order : {-0.5, -1.0, -2.0})
    CHECK(gradient_of([&](const auto& v) { return norm(v[0], order); }, array<double>({0, -2})) == Numbers{0, 0});
}

TEST_CASE("Composed reductions take strides, nothing, and go through graphs", "[operator][reduce][composed]") {
  const NDArray x = test::random_array({6, 5, 4}, 9, -2, 2).transpose({2, 0, 1}), part = x.slice(1, 1, 6, 2);
  part.slice(2, 0, 1).assign(k_nan);
  const NDArray flat = part.copy();
  for (const Shape& axes : {Shape{}, Shape{0}, Shape{1, 2}, Shape{-1}}) {
    CAPTURE(axes);
    CHECK(test::differences(nansum(part, axes), nansum(flat, axes)) == "");
    CHECK(test::differences(nanmean(part, axes), nanmean(flat, axes)) == "");
    CHECK(test::differences(nanmin(part, axes), nanmin(flat, axes)) == "");
    CHECK(test::differences(norm(nan_to_num(part), 3, axes), norm(nan_to_num(flat), 3, axes)) == "");
  }
  const NDArray one = ones({1, 4}).broadcast_to({3, 4});
  CHECK(same(norm(one, 4), {std::pow(12.0, 0.25)}));
  CHECK(same(nansum(zeros({0, 2}), {0}), {0, 0}));
  CHECK(same(norm(zeros({0, 2}), 3, {0}), {0, 0}));
  CHECK(same(norm(zeros({0, 2}), k_inf, {0}), {0, 0}));
  CHECK(same(norm(zeros({0, 2}), -2, {0}), {k_inf, k_inf}));  // 0^(-1/2), as NumPy
  CHECK(std::isnan(nanmean(zeros({0})).item<double>()));
  graph::Tracer tracer;
  const NDArray input = tracer.input({flat.shape(), flat.dtype(), flat.device()});
  const auto program = [](const NDArray& v) { return Arrays{nanmean(v, {1}), norm(nan_to_num(v), 3, {0})}; };
  const Arrays got = graph::evaluate(tracer.trace([&] { return program(input); }), {&flat, 1}), want = program(flat);
  for (std::size_t i = 0; i < want.size(); ++i)
    CHECK(test::differences(got[i], want[i]) == "");
}

TEST_CASE("Composed reductions are operators by name and say what they refuse", "[operator][reduce][composed]") {
  const NDArray x = array<float>({3, NAN, 4});
  const Operator& op = *find_operator("norm");
  CHECK(invoke_one(op, {nan_to_num(x)}, parse_attributes(op, "order=1"), {}).item<float>() == 7);
  CHECK(
      invoke_one(*find_operator("nansum"), {x}, make_attributes(*find_operator("nansum"), {}), {}).item<float>() == 7);
  CHECK_THROWS_AS(norm(x, k_nan), ValueError);
  CHECK_THROWS_AS(norm(x, 2, {1}), IndexError);
  CHECK_THROWS_WITH(nansum(x, {0, -1}), test::contains("nansum") && test::contains("twice"));
  CHECK_THROWS_AS(nanmax(zeros({0})), ValueError);
  CHECK_THROWS_AS(norm(zeros({0}), -k_inf), ValueError);
  CHECK_THROWS_WITH(nanmean(NDArray()), test::contains("nanmean") && test::contains("undefined"));
  try {
    (void)norm(x, 2, {5});
  } catch (const IndexError&) {
    CHECK_THROWS_AS(nanmax(x, {7}), IndexError);
  }
  CHECK(nanmax(x).item<float>() == 4);
}

TEST_CASE(
    "Norms of many numbers whose squares do not fit are those of others, times what they are larger by", "[reduce]") {
  const NDArray x = test::random_array({3, 700}, 7, -1, 1, float64);
  for (const auto& [dtype, large] : {std::pair{float32, 0x1p100}, {float64, 0x1p900}}) {
    for (const double by : {large, 1 / large}) {
      CAPTURE(dtype, by);
      for (const Shape& axes : {Shape{1}, Shape{0}, Shape{}}) {
        const NDArray got = norm((x * by).astype(dtype), 2, axes).astype(float64) / by;
        CHECK(test::differences(got, norm(x, 2, axes), {1e-5, 0}) == "");
      }
    }
  }
}
