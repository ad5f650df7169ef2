// Functions that are made of rows: values, types, gradients, strides, by name and as graphs, and what they refuse.
#include <cmath>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;

namespace {

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();
constexpr double k_inf = std::numeric_limits<double>::infinity();

using Numbers = std::vector<double>;

template <class T>
NDArray line(const std::vector<T>& values) {
  return array(values, {static_cast<std::int64_t>(values.size())});
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

// What a graph of f gives.
NDArray traced(const test::Function& f, const std::vector<NDArray>& inputs) {
  graph::Tracer tracer;
  std::vector<NDArray> abstract;
  for (const NDArray& input : inputs)
    abstract.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
  return graph::evaluate(tracer.trace([&] { return Arrays{f(abstract)}; }), inputs)[0];
}

void check_values(Device device) {
  const NDArray odd = array<double>({k_nan, k_inf, -k_inf, 2.5, -0.0}).to(device);
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    CAPTURE(dtype);
    const NDArray x = odd.astype(dtype);
    const Numbers y = nan_to_num(x).to_vector<double>();
    CHECK(nan_to_num(x).dtype() == dtype);
    CHECK(y[0] == 0);
    CHECK(std::isfinite(y[1]));
    CHECK(std::isinf((nan_to_num(x) * 1.01).to_vector<double>()[1]));  // nothing is larger
    CHECK(y[2] == -y[1]);
    CHECK(y[3] == 2.5);
    CHECK(nan_to_num(x, 7, 8, -9).to_vector<double>() == Numbers{7, 8, -9, 2.5, 0});
    CHECK(nan_to_num(x, k_inf, {}, 1).to_vector<double>()[0] == k_inf);

    const NDArray a = array<double>({1, 2, 3}).astype(dtype).to(device),
                  b = array<double>({3, -2, 3}).astype(dtype).to(device);
    CHECK(lerp(a, b, 0.25).to_vector<double>() == Numbers{1.5, 1, 3});
    CHECK(lerp(a, b, 1).to_vector<double>() == b.to_vector<double>());
    CHECK(lerp(a, b, array<double>({0, 1, 0.75}).astype(dtype).to(device)).to_vector<double>() == Numbers{1, -2, 3});
    CHECK(addcmul(a, b, b, 0.5).to_vector<double>() == Numbers{5.5, 4, 7.5});
    CHECK(addcmul(a, b, a).to_vector<double>() == Numbers{4, -2, 12});
    // The product of two need not fit.
    CHECK(addcmul(a, b * 100, b * 100, 0.0078125).to_vector<double>()[0] == Approx(704).epsilon(0.01));
  }
}

}  // namespace

TEST_CASE("Functions made of rows give what NumPy and PyTorch do", "[operator][elementwise][composed]") {
  check_values(cpu());
}

TEST_CASE("Functions made of rows on a GPU", "[operator][elementwise][composed][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_values(gpu());
}

TEST_CASE("lerp meets both ends though their difference does not fit", "[operator][elementwise][composed]") {
  const float large = 3e38f;
  CHECK(lerp(array<float>({1, 1e8f}), array<float>({1e-8f, 3}), 1).to_vector<float>() == std::vector<float>{1e-8f, 3});
  CHECK(lerp(array<float>({large}), array<float>({large}), 0.5).item<float>() == large);
}

TEST_CASE("float_power and isclose of every type", "[operator][elementwise][composed]") {
  const NDArray whole = array<std::int32_t>({2, -3, 0});
  CHECK(float_power(whole, -1).dtype() == float32);
  CHECK(float_power(whole, -2).to_vector<double>()[0] == 0.25);
  CHECK(float_power(2, whole).to_vector<double>() == Numbers{4, 0.125, 1});
  CHECK(float_power(whole, array<double>({0.5, 2, 0})).dtype() == float64);
  CHECK(float_power(array<bool>({true}), array<std::uint8_t>({3})).item<double>() == 1);

  const auto close = [](const Numbers& a, const Numbers& b, const CloseOptions& how = {}) {
    return isclose(line(a), line(b), how).to_vector<int>();
  };
  CHECK(close({1, 1, 0, 0}, {1 + 1e-6, 1.1, 1e-9, 1e-7}) == std::vector<int>{1, 0, 1, 0});
  CHECK(close({k_inf, k_inf, 1, k_nan}, {k_inf, -k_inf, k_inf, k_nan}) == std::vector<int>{1, 0, 0, 0});
  CHECK(close({k_nan, k_nan}, {k_nan, 1}, {.equal_nan = true}) == std::vector<int>{1, 0});
  CHECK(close({100}, {101}, {.rtol = 0.01}) == std::vector<int>{1});
  const std::int64_t large = std::int64_t{1} << 62;
  CHECK(
      isclose(array<std::int64_t>({large, -large}), array<std::int64_t>({large, large})).to_vector<int>() ==
      std::vector<int>{1, 0});
  // Next to each other where float has one number for both.
  const NDArray next = array<int>({(1 << 24) + 1, 1 << 24}), whole_numbers = array<int>({1 << 24, 1 << 24});
  CHECK(isclose(next, whole_numbers, {.rtol = 0, .atol = 0.5}).to_vector<int>() == std::vector<int>{0, 1});
  CHECK(isclose(array<bool>({true, false}), array<bool>({true, true})).to_vector<int>() == std::vector<int>{1, 0});
}

TEST_CASE("Functions made of rows have gradients, and theirs", "[operator][elementwise][composed][gradient]") {
  const NDArray a = test::random_array({3, 4}, 1, -2, 2, float64), b = test::random_array({4}, 2, -2, 2, float64);
  const NDArray w = test::random_array({3, 1}, 3, 0, 1, float64);
  CHECK(test::gradient_differences([](const auto& v) { return lerp(v[0], v[1], v[2]); }, {a, b, w}) == "");
  CHECK(test::gradient_differences([](const auto& v) { return lerp(v[0], v[1], 0.75); }, {a, b}) == "");
  CHECK(test::gradient_differences([](const auto& v) { return addcmul(v[0], v[1], v[2], 3); }, {a, b, w}) == "");
  CHECK(test::gradient_differences([](const auto& v) { return float_power(abs(v[0]) + 1, v[1]); }, {a, b}) == "");
  CHECK(
      gradient_of([](const auto& v) { return nan_to_num(v[0], 5); }, array<double>({k_nan, k_inf, -k_inf, 2})) ==
      Numbers{0, 0, 0, 1});
}

TEST_CASE("Functions made of rows take strides, nothing, and go through graphs", "[operator][elementwise][composed]") {
  const NDArray x = test::random_array({4, 6}, 4, -2, 2), y = test::random_array({6, 4}, 5, -2, 2).T();
  const NDArray part = x.slice(1, 1, 6, 2), other = y.slice(1, 0, 6, 2), stretched = ones({1, 3}).broadcast_to({4, 3});
  CHECK(test::differences(lerp(part, other, 0.25), lerp(part.copy(), other.copy(), 0.25)) == "");
  CHECK(test::differences(addcmul(stretched, part, other), part * other + 1) == "");
  CHECK(nan_to_num(zeros({0, 3})).shape() == Shape{0, 3});
  const NDArray whole = array<int>({1, 2});
  NDArray made = nan_to_num(whole);
  made += 1;  // an array of its own
  CHECK(whole.to_vector<int>() == std::vector<int>{1, 2});
  CHECK(lerp(zeros({0}), ones({1}), 0.5).shape() == Shape{0});
  for (const test::Function& f : std::vector<test::Function>{
           [](const auto& v) { return lerp(v[0], v[1], 0.25); },
           [](const auto& v) { return lerp(v[0], v[1], v[1]); },
           [](const auto& v) { return addcmul(v[0], v[1], v[0], 2); },
           [](const auto& v) { return nan_to_num(v[0] / (v[1] - v[1]), 3, 4, 5); },
           [](const auto& v) { return float_power(abs(v[0]), v[1]); },
           [](const auto& v) { return isclose(v[0], v[1], {.rtol = 0.5}); }})
    CHECK(test::differences(traced(f, {part, other}), f({part, other})) == "");
}

TEST_CASE(
    "Functions made of rows are operators by name and say what they refuse", "[operator][elementwise][composed]") {
  const NDArray x = array<float>({1, NAN});
  const auto by_name = [](const char* name, std::vector<NDArray> inputs, const char* text) {
    const Operator& op = *find_operator(name);
    return invoke(op, inputs, parse_attributes(op, text), {})[0];
  };
  CHECK(by_name("nan_to_num", {x}, "nan=3").to_vector<float>() == std::vector<float>{1, 3});
  CHECK(by_name("lerp", {x, x * 3, ones({2})}, "").to_vector<float>()[0] == 3);
  CHECK(by_name("lerp", {x, x * 3}, "number=0.5").to_vector<float>()[0] == 2);
  // A whole number leaves integers what they are, as is inferred, at either end.
  for (const char* const number : {"number=0", "number=1", "number=3"}) {
    const Operator& op = *find_operator("lerp");
    const NDArray a = array<int>({1, -5}), b = array<int>({3, 4});
    const NDArray y = by_name("lerp", {a, b}, number);
    CHECK(y.dtype() == infer(op, std::vector(2, ArraySpec{{2}, int32}), parse_attributes(op, number))[0].dtype);
    const int weight = number[7] - '0';
    CHECK(y.to_vector<int>() == std::vector<int>{1 + 2 * weight, -5 + 9 * weight});
  }
  CHECK(by_name("isclose", {x, x}, "equal_nan=true").to_vector<int>() == std::vector<int>{1, 1});
  CHECK_THROWS_AS(by_name("lerp", {x, x}, ""), ValueError);
  CHECK_THROWS_AS(by_name("float_power", {x, x}, "number=2"), ValueError);
  CHECK_THROWS_AS(lerp(ones({2}), ones({3}), 0.5), ShapeError);
  CHECK_THROWS_AS(addcmul(x, NDArray(), x), ValueError);
  CHECK_THROWS_WITH(nan_to_num(NDArray()), test::contains("nan_to_num") && test::contains("undefined"));
  // A second error while the first is handled leaves the next call as it was.
  try {
    (void)lerp(ones({2}), ones({3}), 0.5);
  } catch (const ShapeError&) {
    CHECK_THROWS_AS(float_power(ones({2}), ones({3})), ShapeError);
  }
  CHECK(lerp(ones({2}), zeros({2}), 0.5).to_vector<float>() == std::vector<float>{0.5f, 0.5f});
  const Operator& op = *find_operator("lerp");
  const Specs specs = infer(op, std::vector<ArraySpec>{{{2, 1}, int32}, {{3}, uint8}, {{}, float32}}, {});
  CHECK(specs[0].shape == Shape{2, 3});
  CHECK(specs[0].dtype == float32);
}
