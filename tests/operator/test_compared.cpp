// Gradients that comparing every operator with another library found wrong or missing (tests/compare).
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Range {
  DType dtype;
  double smallest, largest;  // normal numbers, rounded to the type
};
const Range k_ranges[] = {
    {bfloat16, 0x1p-126, 0x1.fep127},
    {float32, 0x1p-126, 0x1.fffffep127},
    {float64, 0x1p-1022, 0x1.fffffffffffffp1023}};

NDArray number(double value, DType dtype, Device device) {
  NDArray made = array(std::vector<double>{value}, {1}).astype(dtype).to(device);
  made.attach_grad();
  return made;
}

// f's gradients for a head, from the fused kernels or from the recorded formulas.
template <class F>
std::vector<double> gradients_at(const F& f, const std::vector<NDArray>& at, double head, bool recorded) {
  const autograd::RecordScope record;
  const NDArray y = f(at), heads[] = {number(head, y.dtype(), y.device())};
  std::vector<double> made;
  for (const NDArray& gradient : autograd::grad({&y, 1}, at, heads, {.create_graph = recorded}))
    made.push_back(gradient.to_vector<double>()[0]);
  return made;
}

// What the gradient is fits the type; the product of its first two factors does not.
void check_ranges(Device device) {
  for (const Range& range : k_ranges) {
    for (const bool recorded : {false, true}) {
      CAPTURE(range.dtype, recorded);
      const double close = 8 * tolerance_of(range.dtype).relative;
      const auto at = [&](double value) { return number(value, range.dtype, device); };
      const auto ratio = [](const std::vector<NDArray>& in) { return in[0] / in[1]; };
      CHECK(
          gradients_at(ratio, {at(range.largest), at(2)}, 3, recorded)[1] / range.largest ==
          Approx(-0.75).epsilon(close));
      const auto raised = [](const std::vector<NDArray>& in) { return power(in[0], in[1]); };
      const double infinity = std::numeric_limits<double>::infinity();
      CHECK(gradients_at(raised, {at(infinity), at(-range.largest)}, 2, recorded)[0] == 0);
      const auto logarithm = [](const std::vector<NDArray>& in) { return log2(in[0]); };
      const double slope = gradients_at(logarithm, {at(range.smallest)}, 0.5, recorded)[0];
      CHECK(slope * range.smallest == Approx(0.5 / std::log(2.0)).epsilon(close));
    }
  }
}

NDArray called(const char* name, const std::vector<NDArray>& inputs, const std::string& attributes) {
  const Operator* const op = find_operator(name);
  REQUIRE(op != nullptr);
  return invoke(*op, inputs, parse_attributes(*op, attributes), SourceLocation())[0];
}

}  // namespace

TEST_CASE("a gradient fits where factors of its formula do not", "[operator][gradient][special]") {
  check_ranges(cpu());
}

TEST_CASE("a gradient fits where factors of its formula do not, on a GPU", "[operator][gradient][special][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_ranges(gpu());
}

TEST_CASE("a dense layer with a relu has gradients by its name", "[operator][gradient][dense]") {
  for (const bool bias : {false, true}) {
    CAPTURE(bias);
    std::vector<NDArray> in = {
        array(std::vector<float>{1, -2, 3, 0.5, 4, -1}, {2, 3}),
        array(std::vector<float>{1, 2, -1, 0.5, -3, 2}, {2, 3})};
    if (bias)
      in.push_back(array<float>({0.5, -0.25}));
    for (NDArray& one : in)
      one.attach_grad();
    const autograd::RecordScope record;
    const NDArray by_name = called("dense", in, "relu=true");
    const NDArray by_function = dense(in[0], in[1], bias ? in[2] : NDArray(), {.activation = "relu"});
    CHECK(by_name.to_vector<float>() == by_function.to_vector<float>());
    const auto got = autograd::grad({&by_name, 1}, in, {}, {.create_graph = true});
    const auto want = autograd::grad({&by_function, 1}, in, {}, {.create_graph = true});
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(got[i].to_vector<float>() == want[i].to_vector<float>());
    const auto twice = autograd::grad({got.data(), 1}, {in.data() + 1, 1});
    CHECK(twice[0].to_vector<float>() == autograd::grad({want.data(), 1}, {in.data() + 1, 1})[0].to_vector<float>());
  }
}

TEST_CASE("gradients of what moves no elements are on the tape", "[operator][gradient][walk]") {
  struct Case {
    const char* op;
    Shape shape;
    const char* attributes;
  };
  for (const Case& at : {
           Case{"flip", {2, 0, 3}, "axis=1"},
           Case{"flip", {2, 0, 3}, "axis=2"},
           Case{"roll", {0, 3}, "axis=1, shift=1"},
           Case{"tile", {2, 0}, "axis=0, repeats=3"},
           Case{"tile", {0, 2}, "axis=0, repeats=3"},
           Case{"repeat", {2, 0, 3}, "axis=2, repeats=2"},
           Case{"repeat", {2, 0, 3}, "axis=2, repeats=0"},
           Case{"pad", {3, 0}, "axis=1, before=2, after=1"},
           Case{"pad", {3, 0}, "axis=0, before=2, after=1"},
       }) {
    CAPTURE(at.op, at.shape, at.attributes);
    NDArray x = zeros(at.shape);
    x.attach_grad();
    const autograd::RecordScope record;
    const NDArray y = called(at.op, {x}, at.attributes);
    NDArray head = ones_like(y);
    head.attach_grad();
    const auto first = autograd::grad({&y, 1}, {&x, 1}, {&head, 1}, {.create_graph = true});
    REQUIRE(first[0].shape() == x.shape());
    const auto second = autograd::grad(first, {&head, 1});
    REQUIRE(second[0].shape() == y.shape());
    CHECK(second[0].to_vector<float>() == std::vector<float>(static_cast<std::size_t>(y.size()), 0.0f));
  }
}

TEST_CASE("nothing has no share in the gradient of a mean", "[operator][gradient][reduce]") {
  for (const char* const op : {"mean", "variance"}) {
    CAPTURE(op);
    NDArray x = zeros({2, 0}), head = array<float>({1, 2});
    x.attach_grad();
    head.attach_grad();
    const autograd::RecordScope record;
    const NDArray y = called(op, {x}, "axes=(1,)");
    const auto first = autograd::grad({&y, 1}, {&x, 1}, {&head, 1}, {.create_graph = true});
    CHECK(first[0].shape() == Shape{2, 0});
    CHECK(autograd::grad(first, {&head, 1})[0].to_vector<float>() == std::vector<float>{0, 0});
  }
}
