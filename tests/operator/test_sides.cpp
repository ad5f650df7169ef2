// Padding that differs from side to side: convolution and pooling as of an image that was padded by hand.
#include <limits>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// (top, left, bottom, right)
const std::vector<Shape>& all_sides() {
  static const std::vector<Shape> all{{0, 1, 2, 0}, {2, 0, 0, 1}, {0, 0, 1, 2}, {1, 2, 1, 2}, {2, 1, 0, 0}};
  return all;
}

// x (N, C, H, W) with `value` around it.
NDArray padded(const NDArray& x, const Shape& sides, double value) {
  NDArray whole = x;
  for (int axis = 0; axis < 2; ++axis) {
    const auto part = [&](std::int64_t extent) {
      Shape shape = whole.shape();
      shape[axis + 2] = extent;
      return full(shape, value, {.dtype = x.dtype(), .device = x.device()});
    };
    whole = concat({part(sides[axis]), whole, part(sides[axis + 2])}, axis + 2);
  }
  return whole;
}

struct Run {
  NDArray y;
  std::vector<NDArray> grads;
};

template <class F>
Run run(const F& f, const std::vector<NDArray>& drawn) {
  std::vector<NDArray> variables;
  for (const NDArray& array : drawn) {
    variables.push_back(array.copy());
    variables.back().attach_grad();
  }
  Run made;
  {
    const autograd::RecordScope record;
    made.y = f(variables);
    sum(made.y * random_array(made.y.shape(), 77, -1, 1, made.y.dtype()).to(made.y.device())).backward();
  }
  for (const NDArray& variable : variables)
    made.grads.push_back(variable.grad());
  return made;
}

template <class F, class G>
void check_same(const F& f, const G& g, const std::vector<NDArray>& drawn, const Tolerance& tolerance) {
  const Run one = run(f, drawn), other = run(g, drawn);
  CHECK(differences(one.y, other.y, tolerance) == "");
  for (std::size_t i = 0; i < drawn.size(); ++i)
    CHECK(differences(one.grads[i], other.grads[i], tolerance) == "");
}

void check_convolution(Device device, DType dtype, const Tolerance& tolerance) {
  const auto draw = [&](const Shape& shape, std::uint64_t seed) {
    return random_array(shape, seed, -1, 1, dtype).to(device);
  };
  for (const Shape& sides : all_sides()) {
    for (const std::int64_t stride : {1, 2}) {
      for (const std::int64_t groups : {1, 2}) {
        CAPTURE(sides, stride, groups, name_of(dtype));
        const auto with = [&](const Shape& pad) {
          return ConvolutionOptions{.stride = {stride, 1}, .pad = pad, .dilation = {1, stride}, .groups = groups};
        };
        check_same(
            [&](const auto& v) { return convolution(v[0], v[1], v[2], with(sides)); },
            [&](const auto& v) {
              return convolution(padded(v[0], sides, 0), v[1], v[2], with({0, 0}));
            },
            {draw({2, 4, 6, 7}, 1), draw({6, 4 / groups, 3, 2}, 2), draw({6}, 3)},
            tolerance);
      }
    }
    // Where the window is one element the padding alone makes a difference.
    check_same(
        [&](const auto& v) { return convolution(v[0], v[1], {}, {.pad = sides}); },
        [&](const auto& v) { return convolution(padded(v[0], sides, 0), v[1], {}, {}); },
        {draw({1, 3, 4, 5}, 4), draw({2, 3, 1, 1}, 5)},
        tolerance);
  }
}

void check_pooling(Device device, DType dtype, const Tolerance& tolerance) {
  for (const Shape& sides : all_sides()) {
    for (const std::int64_t stride : {1, 2, 3}) {
      CAPTURE(sides, stride, name_of(dtype));
      const std::vector<NDArray> x{random_array({2, 3, 8, 9}, 6, -1, 1, dtype).to(device)};
      const auto with = [&](const Shape& pad) {
        return PoolOptions{.kernel = {3, 4}, .stride = {stride, stride}, .pad = pad};
      };
      constexpr double lowest = -std::numeric_limits<double>::infinity();
      check_same(
          [&](const auto& v) { return max_pool2d(v[0], with(sides)); },
          [&](const auto& v) {
            return max_pool2d(padded(v[0], sides, lowest), with({0, 0}));
          },
          x,
          tolerance);
      check_same(
          [&](const auto& v) { return avg_pool2d(v[0], with(sides)); },
          [&](const auto& v) {
            return avg_pool2d(padded(v[0], sides, 0), with({0, 0}));
          },
          x,
          tolerance);
      check_same(
          [&](const auto& v) {
            PoolOptions options = with(sides);
            options.count_include_pad = false;
            return avg_pool2d(v[0], options);
          },
          [&](const auto& v) {
            const NDArray inside = padded(ones_like(v[0]), sides, 0);
            return avg_pool2d(padded(v[0], sides, 0), with({0, 0})) / avg_pool2d(inside, with({0, 0}));
          },
          x,
          tolerance);
    }
  }
}

void check_all(Device device) {
  for (const DType dtype : {float32, float64}) {
    check_convolution(device, dtype, {1e-4, 1e-5});
    check_pooling(device, dtype, {1e-5, 1e-6});
  }
  check_convolution(device, bfloat16, {0.05, 0.05});
  check_pooling(device, float16, {0.01, 0.01});
}

}  // namespace

TEST_CASE("Convolution and pooling pad each side as they are told") {
  check_all(cpu());
}

TEST_CASE("Convolution and pooling on a GPU pad each side as they are told", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_all(gpu());
}

TEST_CASE("Gradients of convolution and pooling with padding of each side agree with finite differences") {
  const NDArray x = random_array({1, 2, 4, 5}, 8, -1, 1, float64), w = random_array({2, 2, 2, 3}, 9, -1, 1, float64);
  const Shape sides{1, 0, 0, 2};
  const auto convolved = [&](const std::vector<NDArray>& v) { return convolution(v[0], v[1], {}, {.pad = sides}); };
  CHECK(gradient_differences(convolved, {x, w}) == "");
  for (const bool counted : {true, false}) {
    const auto pooled = [&](const std::vector<NDArray>& v) {
      const PoolOptions how{.kernel = {2, 3}, .stride = {1, 2}, .pad = sides, .count_include_pad = counted};
      return avg_pool2d(v[0], how);
    };
    CHECK(gradient_differences(pooled, {x}) == "");
  }
}

TEST_CASE("Pads are read from text in both forms, and others are refused") {
  const NDArray x = random_array({1, 2, 5, 5}, 10), w = random_array({3, 2, 2, 2}, 11);
  const Operator &conv = *find_operator("convolution"), &pool = *find_operator("avg_pool2d");
  const auto convolved = [&](const char* text) { return invoke_one(conv, {x, w}, parse_attributes(conv, text), {}); };
  const auto pooled = [&](const char* text) { return invoke_one(pool, {x}, parse_attributes(pool, text), {}); };
  CHECK(convolved("pad=(1, 0)").shape() == Shape{1, 3, 6, 4});
  CHECK(convolved("pad=(1, 0, 2, 1)").shape() == Shape{1, 3, 7, 5});
  CHECK(differences(convolved("pad=(1, 0)"), convolved("pad=(1, 0, 1, 0)")) == "");
  CHECK(pooled("kernel=(2, 2), stride=(1, 1), pad=(0, 1)").shape() == Shape{1, 2, 4, 6});
  CHECK(pooled("kernel=(2, 2), stride=(1, 1), pad=(0, 1, 1, 0)").shape() == Shape{1, 2, 5, 5});
  for (const char* text : {"pad=(1,)", "pad=(1, 0, 1)", "pad=(0, 0, 0, -1)", "pad=()", "pad=(1, 1, 1, 1, 1)"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(convolved(text), ValueError);
    CHECK_THROWS_AS(pooled(text), ValueError);
  }
  CHECK_THROWS_AS(pooled("kernel=(2, 2), pad=(0, 0, 2, 0)"), ValueError);  // a window of padding alone
  // The last window of ceil_mode starts on the image or the padding before it.
  const Attributes ceil = parse_attributes(pool, "kernel=(2, 2), stride=(2, 2), pad=(1, 0, 0, 1), ceil_mode=true");
  CHECK(invoke_one(pool, {x}, ceil, {}).shape() == Shape{1, 2, 3, 3});
}

TEST_CASE("Numbers of windows that no image has are refused, and named") {
  const NDArray x = random_array({1, 2, 5, 5}, 10), w = random_array({3, 2, 2, 2}, 11);
  const Operator &conv = *find_operator("convolution"), &pool = *find_operator("max_pool2d");
  const std::string most = "9223372036854775807", over = "2147483648", far = "stride=(2147483647, 2147483647)";
  for (const std::string& number : {most, over}) {
    for (const std::string& pad : {"(" + number + ", 0)", "(0, 0, 0, " + number + ")", "(0, " + number + ", 1, 1)"}) {
      CAPTURE(pad);
      const auto convolved = [&] { invoke_one(conv, {x, w}, parse_attributes(conv, far + ", pad=" + pad), {}); };
      CHECK_THROWS_AS(convolved(), ValueError);
      CHECK_THROWS_WITH(convolved(), test::contains("convolution: ") && test::contains(number));
      const std::string kernel = "kernel=(" + most + ", " + most + "), pad=";
      const auto pooled = [&] { invoke_one(pool, {x}, parse_attributes(pool, kernel + pad), {}); };
      CHECK_THROWS_AS(pooled(), ValueError);
      CHECK_THROWS_WITH(pooled(), test::contains("max_pool2d: ") && test::contains(most));
    }
  }
  const auto dilated = [&] { invoke_one(conv, {x, w}, parse_attributes(conv, "dilation=(1, " + most + ")"), {}); };
  CHECK_THROWS_AS(dilated(), ValueError);
  const std::string last = "kernel=(2, 2), ceil_mode=true, stride=(1, " + most + ")";
  CHECK_THROWS_AS(invoke_one(pool, {x}, parse_attributes(pool, last), {}), ValueError);
}
