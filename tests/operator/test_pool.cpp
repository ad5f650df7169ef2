#include <cmath>

#include "tests/operator/heavy_reference.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Case {
  Shape x;
  PoolOptions options;
};

const std::vector<Case> k_cases = {
    {{2, 3, 6, 8}, {.kernel = {2, 2}, .stride = {2, 2}}},
    {{1, 1, 7, 7}, {.kernel = {3, 3}, .stride = {2, 2}}},
    {{2, 2, 7, 8}, {.kernel = {3, 2}, .stride = {1, 2}, .pad = {1, 1}}},
    {{2, 2, 7, 8}, {.kernel = {3, 2}, .stride = {1, 2}, .pad = {1, 1}, .count_include_pad = false}},
    {{1, 2, 7, 6}, {.kernel = {2, 3}, .stride = {2, 2}, .ceil_mode = true}},
    {{1, 2, 6, 5}, {.kernel = {3, 3}, .stride = {2, 3}, .pad = {1, 1}, .ceil_mode = true, .count_include_pad = false}},
    {{1, 2, 6, 5}, {.kernel = {3, 3}, .stride = {2, 3}, .pad = {1, 1}, .ceil_mode = true}},
    {{1, 1, 9, 9}, {.kernel = {2, 2}, .stride = {3, 4}}},
    {{2, 3, 4, 5}, {.kernel = {6, 7}, .stride = {6, 7}, .pad = {1, 1}}},  // a window of all, and of the edges
    {{2, 3, 4, 5}, {.kernel = {6, 7}, .stride = {6, 7}, .pad = {1, 1}, .count_include_pad = false}},
};

}  // namespace

TEST_CASE("Pooling agrees with plain loops for every type and attribute") {
  for (const Case& c : k_cases) {
    for (const DType dtype : k_heavy_dtypes) {
      CAPTURE(to_string(c.x), name_of(dtype));
      const NDArray x = random_array(c.x, 1, -1, 1, dtype);
      CHECK(differences(max_pool2d(x, c.options), reference_pool(x, c.options, true)) == "");
      CHECK(differences(avg_pool2d(x, c.options), reference_pool(x, c.options, false)) == "");
    }
  }
}

TEST_CASE("The stride of pooling is its kernel unless given; global pooling takes the whole plane") {
  const NDArray x = random_array({2, 3, 5, 7}, 1);
  CHECK(max_pool2d(x).shape() == Shape{2, 3, 2, 3});
  CHECK(max_pool2d(x, {.kernel = {3, 2}}).shape() == Shape{2, 3, 1, 3});
  CHECK(differences(max_pool2d(x, {.global = true}), max(x, {2, 3}, true)) == "");
  CHECK(differences(avg_pool2d(x, {.global = true}), mean(x, {2, 3}, true)) == "");
  CHECK(max_pool2d(zeros({0, 3, 4, 4})).shape() == Shape{0, 3, 2, 2});
}

TEST_CASE("The gradients of pooling agree with finite differences") {
  for (const Case& c : k_cases) {
    CAPTURE(to_string(c.x));
    const std::vector<NDArray> inputs{random_array(c.x, 1, -1, 1, float64)};
    CHECK(gradient_differences([&](const auto& v) { return max_pool2d(v[0], c.options); }, inputs) == "");
    CHECK(gradient_differences([&](const auto& v) { return avg_pool2d(v[0], c.options); }, inputs) == "");
  }
}

TEST_CASE("The gradients of pooling's gradients agree with finite differences") {
  for (const bool is_max : {true, false}) {
    const NDArray x = random_array({1, 2, 5, 5}, 1, -1, 1, float64);
    const PoolOptions options{.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}};
    const auto f = [&](const std::vector<NDArray>& v) {
      NDArray at = x.detach();
      at.attach_grad();
      const autograd::RecordScope record;
      const NDArray y = is_max ? max_pool2d(at, options) : avg_pool2d(at, options);
      const std::vector<NDArray> heads{y}, head_grads{v[0]}, variables{at};
      return autograd::grad(heads, variables, head_grads, {.create_graph = true})[0];
    };
    CHECK(gradient_differences(f, {random_array({1, 2, 3, 3}, 2, -1, 1, float64)}) == "");
  }
}

TEST_CASE("Of equal maxima the first gets the gradient, and a NaN wins") {
  NDArray x = array({1.f, 1.f, 0.f, 2.f, 1.f, 1.f, 2.f, 2.f}, {1, 1, 2, 4});
  x.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = max_pool2d(x);
  }
  y.backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{1, 0, 0, 1, 0, 0, 0, 0});
  const NDArray odd = array({1.f, NAN, NAN, 5.f}, {1, 1, 2, 2});
  CHECK(std::isnan(max_pool2d(odd).item<float>()));
  CHECK(max_pool2d(full({1, 1, 2, 2}, -INFINITY)).item<float>() == -INFINITY);
}

TEST_CASE("Pooling refuses what does not fit, by name") {
  const NDArray x = zeros({1, 2, 5, 5});
  CHECK_THROWS_AS(max_pool2d(zeros({2, 5, 5})), ShapeError);
  CHECK_THROWS_AS(max_pool2d(x, {.kernel = {6, 2}}), ShapeError);
  CHECK_THROWS_AS(avg_pool2d(x, {.kernel = {0, 2}}), ValueError);
  CHECK_THROWS_AS(max_pool2d(x, {.kernel = {2, 2}, .stride = {0, 1}}), ValueError);
  CHECK_THROWS_AS(max_pool2d(x, {.kernel = {2, 2}, .pad = {2, 0}}), ValueError);
  CHECK_THROWS_AS(max_pool2d(x, {.kernel = {2}}), ValueError);
  CHECK_THROWS_AS(max_pool2d(x.astype(int32)), DTypeError);
  CHECK_THROWS_WITH(max_pool2d(x, {.kernel = {6, 2}}), contains("max_pool2d") && contains("(6, 2)"));
}

TEST_CASE("Gradients of pooling, called by name, refuse places that are not in the plane") {
  const Operator &backward = *find_operator("max_pool2d_backward"), &gather = *find_operator("max_pool2d_gather");
  const NDArray x = ones({1, 1, 4, 4});
  for (const bool apart : {true, false}) {
    const Attributes how =
        parse_attributes(backward, apart ? "kernel=(2, 2), stride=(2, 2)" : "kernel=(2, 2), stride=(1, 1)");
    const Shape y = apart ? Shape{1, 1, 2, 2} : Shape{1, 1, 3, 3};
    for (const double place : {-1.0, 16.0, 3e6, -2e6}) {
      CAPTURE(apart, place);
      const NDArray places = full(y, place, {.dtype = int32});
      CHECK_THROWS_AS(invoke_one(backward, {ones(y), places, x}, how, {}).to_vector<float>(), IndexError);
      CHECK_THROWS_AS(invoke_one(gather, {x, places}, how, {}).to_vector<float>(), IndexError);
    }
    const NDArray last = full(y, 15, {.dtype = int32});
    CHECK(invoke_one(backward, {ones(y), last, x}, how, {}).to_vector<float>().back() != 0);
    CHECK_THROWS_AS(invoke_one(backward, {ones(y), zeros(y, {.dtype = int64}), x}, how, {}), DTypeError);
  }
}

TEST_CASE("On a GPU a gradient of pooling that would read outside of the plane fails", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Operator& gather = *find_operator("max_pool2d_gather");
  const Attributes how = parse_attributes(gather, "kernel=(2, 2), stride=(2, 2)");
  const NDArray x = ones({1, 1, 4, 4}, {.device = gpu()});
  for (const double place : {-1.0, 16.0, 3e6}) {
    const NDArray places = full({1, 1, 2, 2}, place, {.dtype = int32, .device = gpu()});
    CHECK_THROWS_AS(invoke_one(gather, {x, places}, how, {}).to_vector<float>(), IndexError);
  }
}

TEST_CASE("Averages of whole planes on a GPU are those of a CPU, gradients of gradients too", "[pool][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Shape& shape :
       {Shape{2, 3, 1, 1}, Shape{3, 5, 7, 7}, Shape{2, 4, 8, 6}, Shape{1, 2, 70, 60}, Shape{0, 2, 3, 3}}) {
    for (const DType dtype : k_heavy_dtypes) {
      for (const bool last : {false, true}) {
        CAPTURE(to_string(shape), name_of(dtype), last);
        const auto on = [&](Device device) {
          const auto lying = [&](const NDArray& at) {
            return last ? at.transpose({0, 2, 3, 1}).copy().transpose({0, 3, 1, 2}) : at;
          };
          NDArray x = lying(random_array(shape, 1, -1, 1, dtype).to(device)).detach(), y, gradient;
          NDArray head = random_array({shape[0], shape[1], 1, 1}, 2, -1, 1, dtype).to(device);
          x.attach_grad();
          head.attach_grad();
          {
            const autograd::RecordScope record;
            y = avg_pool2d(x, {.global = true});
            gradient = autograd::grad(std::vector{y}, std::vector{x}, std::vector{head}, {.create_graph = true})[0];
          }
          gradient.backward(lying(random_array(shape, 3, -1, 1, dtype).to(device)));
          return std::vector{y.to(cpu()), gradient.detach().to(cpu()), head.grad().to(cpu())};
        };
        const auto want = on(cpu()), got = on(gpu());
        for (std::size_t i = 0; i < want.size(); ++i)
          CHECK(differences(got[i], want[i], sum_tolerance(dtype)) == "");
      }
    }
  }
}
