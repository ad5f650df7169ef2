// Rows with parameters: what other numbers than the rows' own give, by function, by name, and recorded.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/elementwise_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;

namespace {

NDArray line(const std::vector<double>& values) {
  return array(values, {static_cast<std::int64_t>(values.size())});
}

const NDArray& points() {
  static const NDArray x = line({-3.0, -1.25, -0.5, 0.0, 0.25, 1.0, 2.5, 40.0, -40.0});
  return x;
}

template <class F>
NDArray expected(F f) {
  std::vector<double> values = points().to_vector<double>();
  for (double& value : values)
    value = f(value);
  return line(values);
}

NDArray by_name(const char* name, const NDArray& x, const char* text) {
  const Operator& op = *find_operator(name);
  return invoke_one(op, {x}, parse_attributes(op, text), {});
}

// dy/dx, and d2y/dx2 through what was recorded; zeros where nothing of that depends on x.
std::vector<std::vector<double>> slopes(const std::function<NDArray(const NDArray&)>& f, const NDArray& at) {
  NDArray x = at.copy();
  x.attach_grad();
  const autograd::RecordScope record;
  const NDArray y = f(x), head = ones_like(y);
  const NDArray first = autograd::grad({&y, 1}, {&x, 1}, {&head, 1}, {.create_graph = true})[0];
  const NDArray second =
      autograd::on_tape(first) ? autograd::grad({&first, 1}, {&x, 1}, {&head, 1}, {})[0] : zeros_like(x);
  return {first.to_vector<double>(), second.to_vector<double>()};
}

}  // namespace

TEST_CASE("Rows with parameters take any numbers", "[operator][elementwise]") {
  const NDArray& x = points();
  for (const DType dtype : {float64, float32}) {
    const NDArray of = x.astype(dtype);
    CHECK(test::differences(leaky_relu(of, 0.25), expected([](double v) { return v > 0 ? v : v / 4; })) == "");
    CHECK(test::differences(leaky_relu(of, -2), expected([](double v) { return v > 0 ? v : -2 * v; })) == "");
    CHECK(test::differences(elu(of, 1.5), expected([](double v) { return v > 0 ? v : 1.5 * std::expm1(v); })) == "");
    CHECK(test::differences(celu(of, 2), expected([](double v) { return v > 0 ? v : 2 * std::expm1(v / 2); })) == "");
    CHECK(test::differences(threshold(of, 0.25, -7), expected([](double v) { return v > 0.25 ? v : -7; })) == "");
    CHECK(test::differences(hard_sigmoid(of, 0.5, 0.25), expected([](double v) {
                              return std::fmin(std::fmax(0.5 * v + 0.25, 0), 1);
                            })) == "");
  }
}

TEST_CASE("Parameters are attributes of the call, by name and by type", "[operator][elementwise]") {
  const NDArray& x = points();
  CHECK(test::differences(by_name("leaky_relu", x, "slope=0.25"), leaky_relu(x, 0.25)) == "");
  CHECK(test::differences(by_name("leaky_relu", x, "slope=-2"), leaky_relu(x, -2)) == "");
  CHECK(test::differences(by_name("leaky_relu", x, ""), leaky_relu(x, 0.01)) == "");
  CHECK(test::differences(by_name("threshold", x, "value=3, limit=0.5"), threshold(x, 0.5, 3)) == "");
  CHECK(to_string(make_attributes(*find_operator("hard_sigmoid"), {})) == "alpha=0.2, beta=0.5");
  CHECK(to_string(make_attributes(*find_operator("clip"), {})) == "low=-1, high=1");
  CHECK_THROWS_AS(by_name("elu", x, "slope=1"), ValueError);
  CHECK_THROWS_AS(by_name("elu", x, "alpha=\"one\""), ValueError);
  CHECK_THROWS_AS(invoke_one(*find_operator("elu"), {x}, {}, {}), ValueError);
}

TEST_CASE("Rows with parameters give integers and bool as float32, clip keeps them", "[operator][elementwise]") {
  const NDArray whole = array<std::int32_t>({-4, 0, 3}), flags = array<bool>({true, false, true});
  CHECK(leaky_relu(whole, 0.5).dtype() == float32);
  CHECK(leaky_relu(whole, 0.5).to_vector<double>() == std::vector<double>{-2, 0, 3});
  CHECK(elu(flags, 1).dtype() == float32);
  CHECK(clip(whole, -1, 2).dtype() == int32);
  CHECK(clip(whole, -1, 2).to_vector<double>() == std::vector<double>{-1, 0, 2});
  CHECK(clip(flags, 0, 5).dtype() == int64);
  CHECK(clip(whole.astype(int8), -1000, 2).to_vector<double>() == std::vector<double>{-4, 0, 2});
}

TEST_CASE("Rows that cut or move take any bounds that make sense, and say which do not", "[operator][elementwise]") {
  const NDArray& x = points();
  for (const DType dtype : {float64, float32, float16}) {
    const NDArray of = x.astype(dtype);
    CHECK(test::differences(hard_tanh(of, -2, 0.5), expected([](double v) {
                              return std::fmin(std::fmax(v, -2), 0.5);
                            })) == "");
    CHECK(test::differences(softshrink(of, 1), expected([](double v) {
                              return std::fmax(v - 1, 0) + std::fmin(v + 1, 0);
                            })) == "");
    CHECK(test::differences(softshrink(of, 0), of) == "");
    CHECK(test::differences(hard_shrink(of, 1), expected([](double v) { return std::fabs(v) > 1 ? v : 0; })) == "");
    CHECK(test::differences(smooth_l1(of, 2), expected([](double v) {
                              return std::fabs(v) < 0.25 ? 2 * v * v : std::fabs(v) - 0.125;
                            })) == "");
  }
  CHECK_THROWS_AS(hard_tanh(x, 1, 0.5), ValueError);
  CHECK_THROWS_WITH(hard_tanh(x, 1, NAN), test::contains("hard_tanh"));
  CHECK_THROWS_AS(softshrink(x, -1), ValueError);
  CHECK(by_name("hard_tanh", x, "low=0, high=0").to_vector<double>() == zeros({9}).to_vector<double>());
  CHECK(
      slopes([](const NDArray& v) { return smooth_l1(v, 2); }, line({0.125, 1, -1}))[0] ==
      std::vector<double>{0.5, 1, -1});
  CHECK(
      slopes([](const NDArray& v) { return hard_tanh(v, -1, 2); }, line({-1, 0, 2, 3}))[0] ==
      std::vector<double>{0, 1, 0, 0});
}

TEST_CASE("Gradients of rows with parameters, and theirs, at kinks and far from them", "[operator][elementwise]") {
  const NDArray x = line({-1.0, 0.0, 2.0, 1000.0, -1000.0});
  using Values = std::vector<std::vector<double>>;
  const double e = std::exp(-1), half = std::exp(-0.5);
  const Values leaky = slopes([](const NDArray& v) { return leaky_relu(v, 0.25); }, x);
  CHECK(leaky == Values{{0.25, 0.25, 1, 1, 0.25}, {0, 0, 0, 0, 0}});
  const Values elu_slopes = slopes([](const NDArray& v) { return elu(v, 3); }, x);
  CHECK(test::all_close(line(elu_slopes[0]), line({3 * e, 3, 1, 1, 0.0})));
  CHECK(test::all_close(line(elu_slopes[1]), line({3 * e, 3, 0, 0, 0.0})));
  const Values celu_slopes = slopes([](const NDArray& v) { return celu(v, 2); }, x);
  CHECK(test::all_close(line(celu_slopes[0]), line({half, 1, 1, 1, 0.0})));
  CHECK(test::all_close(line(celu_slopes[1]), line({half / 2, 0.5, 0, 0, 0.0})));
  CHECK(slopes([](const NDArray& v) { return threshold(v, 0, 9); }, x)[0] == std::vector<double>{0, 0, 1, 1, 0});
  CHECK(
      slopes([](const NDArray& v) { return hard_sigmoid(v, 0.25, 0.5); }, x)[0] ==
      std::vector<double>{0.25, 0.25, 0, 0, 0});
}
