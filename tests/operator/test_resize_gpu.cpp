// Resized planes on a GPU against those of a CPU: values and gradients of first and second order.
#include <functional>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/reference.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Function = std::function<NDArray(const NDArray&)>;

const std::vector<ResizeOptions> k_options = {
    {},
    {.mode = ResizeMode::bilinear},
    {.mode = ResizeMode::bilinear, .align_corners = true},
    {.mode = ResizeMode::bicubic},
    {.mode = ResizeMode::bicubic, .align_corners = true},
    {.mode = ResizeMode::bilinear, .antialias = true},
    {.mode = ResizeMode::bicubic, .antialias = true},
    {.mode = ResizeMode::bicubic, .align_corners = true, .antialias = true}};

struct Sizes {
  Shape from, to;
};
const std::vector<Sizes> k_sizes = {
    {{1, 1}, {1, 1}},
    {{1, 1}, {3, 5}},
    {{9, 7}, {1, 1}},
    {{5, 6}, {5, 6}},
    {{4, 5}, {8, 10}},
    {{3, 7}, {11, 4}},
    {{13, 2}, {4, 9}},
    {{2, 3}, {2, 40}}};

/// f(x), its gradient for a head of uneven numbers, and what the head's gradient is of the square of that.
std::vector<NDArray> results_of(const Function& f, const NDArray& x, Device device) {
  NDArray variable = x.to(device), y, gradient;
  variable.attach_grad();
  NDArray head = random_array(f(x).shape(), 7, -1, 1, x.dtype()).to(device);
  head.attach_grad();
  {
    const autograd::RecordScope record;
    y = f(variable);
    gradient = autograd::grad(std::vector{y}, std::vector{variable}, std::vector{head}, {.create_graph = true})[0];
  }
  gradient.backward(random_array(x.shape(), 8, -1, 1, x.dtype()).to(device));
  return {y.to(cpu()), gradient.detach().to(cpu()), head.grad().to(cpu())};
}

void check(const Function& f, const NDArray& x) {
  const auto want = results_of(f, x, cpu()), got = results_of(f, x, gpu());
  for (std::size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i].dtype() == x.dtype());
    CHECK(differences(got[i], want[i], sum_tolerance(x.dtype())) == "");
  }
}

}  // namespace

TEST_CASE("Resized planes on a GPU are those of a CPU, gradients of gradients too", "[resize][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Sizes& sizes : k_sizes) {
    for (const ResizeOptions& o : k_options) {
      for (const DType dtype : k_heavy_dtypes) {
        CAPTURE(to_string(sizes.from), to_string(sizes.to), o.mode, o.align_corners, o.antialias, name_of(dtype));
        const NDArray x = random_array({2, 3, sizes.from[0], sizes.from[1]}, 1, -1, 1, dtype);
        check([&](const NDArray& v) { return resize2d(v, sizes.to, o); }, x);
      }
    }
  }
}

TEST_CASE("Many planes are resized several a thread, whatever their number", "[resize][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const std::int64_t planes : {16, 37}) {
    for (const ResizeMode mode : {ResizeMode::nearest, ResizeMode::bilinear}) {
      CAPTURE(planes, mode);
      const NDArray x = random_array({1, planes, 40, 30}, 1);
      check([&](const NDArray& v) { return resize2d(v, {230, 260}, {.mode = mode}); }, x);
    }
  }
}

TEST_CASE("Lines so long that their places need more than 32 bits are resized by the nearest too", "[resize][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = arange(0, 90000).reshape({1, 1, 90000, 1}), line = x.reshape({1, 1, 1, 90000});
  CHECK(differences(resize2d(x.to(gpu()), {60000, 1}), resize2d(x, {60000, 1}), {0, 0}) == "");
  CHECK(differences(resize2d(line.to(gpu()), {1, 60000}), resize2d(line, {1, 60000}), {0, 0}) == "");
}

TEST_CASE("Views of planes on a GPU, planes of nothing and of other types are resized as on a CPU", "[resize][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray whole = random_array({2, 6, 7, 8}, 1);
  const auto of_view = [](const NDArray& v) {
    const NDArray turned = v.slice(1, 0, 6, 2).transpose({0, 1, 3, 2});
    return upsampling(turned, 3, {.mode = ResizeMode::bicubic}).slice(2, 1, 20, 3);
  };
  check(of_view, whole);
  check([](const NDArray& v) { return upsampling(v, 2); }, whole);
  for (const ResizeOptions& o : k_options) {
    CHECK(resize2d(zeros({0, 3, 4, 5}, {.device = gpu()}), {7, 3}, o).shape() == Shape{0, 3, 7, 3});
    CHECK(resize2d(zeros({2, 0, 4, 5}, {.device = gpu()}), {7, 3}, o).shape() == Shape{2, 0, 7, 3});
  }
  for (const DType dtype : all_dtypes()) {
    const NDArray x = arange(0, 2 * 3 * 5).reshape({1, 2, 3, 5}).astype(dtype);
    CAPTURE(name_of(dtype));
    CHECK(differences(resize2d(x.to(gpu()), {7, 4}).to(cpu()), resize2d(x, {7, 4}), {0, 0}) == "");
  }
}

TEST_CASE("Gradients of resized planes on a GPU have the same bits each time, infinite ones stay", "[resize][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = random_array({2, 5, 9, 11}, 1);
  const auto f = [](const NDArray& v) { return resize2d(v, {20, 7}, {.mode = ResizeMode::bicubic}); };
  const auto once = results_of(f, x, gpu()), again = results_of(f, x, gpu());
  for (std::size_t i = 0; i < once.size(); ++i)
    CHECK(differences(once[i], again[i], {0, 0}) == "");
  constexpr float infinite = std::numeric_limits<float>::infinity();
  NDArray pixels = ones({1, 2, 3, 4}, {.device = gpu()}), y;
  pixels.attach_grad();
  {
    const autograd::RecordScope record;
    y = resize2d(pixels, {2, 7});
  }
  y.backward(full(y.shape(), infinite, {.device = gpu()}));
  for (const float number : pixels.grad().to_vector<float>())
    CHECK((number == infinite || number == 0));
}
