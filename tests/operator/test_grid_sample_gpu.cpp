// Samples of planes on a GPU against those of a CPU: values and gradients of first and second order.
#include <functional>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/heavy_reference.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Function = std::function<NDArray(const std::vector<NDArray>&)>;

std::vector<NDArray> variables_on(const std::vector<NDArray>& inputs, Device device) {
  std::vector<NDArray> made;
  for (const NDArray& input : inputs) {
    made.push_back(input.to(device).detach());
    made.back().attach_grad();
  }
  return made;
}

/// f, its gradients, and with `twice` those of the sum of their squares.
std::vector<NDArray> results_of(const Function& f, const std::vector<NDArray>& inputs, Device device, bool twice) {
  const std::vector<NDArray> variables = variables_on(inputs, device);
  std::vector<NDArray> results;
  NDArray squares;
  {
    const autograd::RecordScope record;
    const NDArray y = f(variables), head = random_array(y.shape(), 7, -1, 1, y.dtype()).to(device);
    results.push_back(y.detach());
    const auto gradients = autograd::grad(std::vector{y}, variables, std::vector{head}, {.create_graph = twice});
    for (const NDArray& gradient : gradients) {
      results.push_back(gradient.detach());
      const NDArray square = sum(multiply(gradient, gradient));
      squares = squares.defined() ? squares + square : square;
    }
  }
  if (twice) {
    squares.backward();
    for (const NDArray& variable : variables)
      results.push_back(variable.grad());
  }
  for (NDArray& result : results)
    result = result.to(cpu());
  return results;
}

void check(const Function& f, const std::vector<NDArray>& inputs, bool twice, Tolerance tolerance) {
  const auto want = results_of(f, inputs, cpu(), twice), got = results_of(f, inputs, gpu(), twice);
  for (std::size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(differences(got[i], want[i], tolerance) == "");
  }
}

std::vector<GridSampleOptions> bilinear_options() {
  std::vector<GridSampleOptions> all;
  for (const SamplePadding padding : {SamplePadding::zeros, SamplePadding::border, SamplePadding::reflection})
    for (const bool corners : {false, true})
      all.push_back({SampleMode::bilinear, padding, corners});
  return all;
}

/// Planes that blocks copy and such that they do not, few points and many, more channels than a thread has.
struct Sizes {
  Shape x;
  std::int64_t rows, columns;
};
const std::vector<Sizes> k_sizes = {
    {{1, 1, 1, 1}, 1, 1}, {{2, 3, 4, 5}, 6, 7}, {{2, 19, 7, 3}, 9, 8}, {{1, 2, 60, 50}, 3, 3}, {{1, 3, 4, 4}, 70, 60}};

}  // namespace

TEST_CASE("Samples of planes on a GPU are those of a CPU, gradients of gradients too", "[grid_sample][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Sizes& size : k_sizes) {
    for (const DType dtype : {float32, float64}) {
      const std::vector<NDArray> inputs{
          random_array(size.x, 1, -1, 1, dtype),
          random_array({size.x[0], size.rows, size.columns, 2}, 2, -1.5, 1.5, dtype)};
      const Tolerance tolerance = dtype == float64 ? Tolerance{1e-9, 1e-9} : Tolerance{2e-3, 2e-3};
      for (const GridSampleOptions& o : bilinear_options()) {
        CAPTURE(to_string(size.x), name_of(dtype), o.padding, o.align_corners);
        check([&](const auto& v) { return grid_sample(v[0], v[1], o); }, inputs, dtype == float64, tolerance);
      }
      const auto nearest = [&](const auto& v) {
        return grid_sample(v[0], inputs[1].to(v[0].device()), {.mode = SampleMode::nearest});
      };
      check(nearest, {inputs[0]}, false, tolerance);
    }
  }
}

TEST_CASE("Half types, views and places that are nowhere are sampled on a GPU as on a CPU", "[grid_sample][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float16, bfloat16}) {
    const std::vector<NDArray> inputs{
        random_array({2, 3, 6, 5}, 1, -1, 1, dtype), random_array({2, 4, 3, 2}, 2, -1.5, 1.5)};
    check([](const auto& v) { return grid_sample(v[0], v[1]); }, inputs, false, sum_tolerance(dtype));
  }
  const auto of_views = [](const auto& v) {
    return grid_sample(v[0].slice(1, 0, 4, 2).transpose({0, 1, 3, 2}), v[1].slice(2, 0, 6, 2));
  };
  const std::vector<NDArray> wide{
      random_array({2, 4, 6, 5}, 1, -1, 1, float64), random_array({2, 4, 6, 2}, 2, -1.5, 1.5, float64)};
  check(of_views, wide, true, {1e-9, 1e-9});
  const float odd = std::numeric_limits<float>::quiet_NaN(), far = std::numeric_limits<float>::infinity();
  const NDArray places = array(std::vector<float>{0.1f, 0.2f, odd, 0, 0, far, -far, odd, 9, 9, -1.1f, 0}, {1, 1, 6, 2});
  for (const GridSampleOptions& o : bilinear_options())
    check(
        [&](const auto& v) { return grid_sample(v[0], v[1], o); },
        {random_array({1, 2, 4, 4}, 1), places},
        false,
        {1e-5, 1e-5});
  for (const Shape& x : {Shape{0, 2, 3, 3}, Shape{2, 0, 3, 3}, Shape{2, 2, 3, 3}}) {
    const std::int64_t rows = x[0] == 0 || x[1] == 0 ? 4 : 0;
    check(
        [](const auto& v) { return grid_sample(v[0], v[1]); },
        {random_array(x, 1), random_array({x[0], rows, 5, 2}, 2)},
        false,
        {0, 0});
  }
}

TEST_CASE("All points at one place add up on a GPU, the same bits each time", "[grid_sample][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = random_array({2, 5, 6, 7}, 1);
  for (const double spread : {0.0, 1.2}) {
    const std::vector<NDArray> inputs{x, random_array({2, 40, 30, 2}, 2, -spread, spread + 1e-3)};
    const Function f = [](const auto& v) { return grid_sample(v[0], v[1], {.padding = SamplePadding::border}); };
    check(f, inputs, false, {1e-3, 2e-3});
    const auto once = results_of(f, inputs, gpu(), false), again = results_of(f, inputs, gpu(), false);
    for (std::size_t i = 0; i < once.size(); ++i)
      CHECK(differences(once[i], again[i], {0, 0}) == "");
  }
}

TEST_CASE(
    "Images too large for their gradients to be made together have each its own", "[grid_sample][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray grid = array<float>({-0.5f, -0.251f, -0.75f, -0.503f}, {2, 1, 1, 2});
  const auto gradient_on = [&](Device device) {
    NDArray x = zeros({2, 1, 4096, 8192}, {.device = device});
    x.attach_grad();
    const autograd::RecordScope record;
    grid_sample(x, grid.to(device)).backward();
    return x.grad();
  };
  const NDArray want = gradient_on(cpu()), got = gradient_on(gpu());
  CHECK(nonzero(got).to_vector<std::int64_t>() == nonzero(want).to_vector<std::int64_t>());
  CHECK(differences(boolean_mask(got, got != 0), boolean_mask(want, want != 0), {1e-4, 1e-4}) == "");
}

TEST_CASE("Convolutions with moved taps on a GPU are those of a CPU", "[deformable][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const std::vector<NDArray> inputs{
      random_array({2, 4, 6, 5}, 1, -1, 1, float64),
      random_array({2, 36, 6, 5}, 2, -2, 2, float64),
      random_array({3, 4, 3, 3}, 3, -1, 1, float64),
      random_array({2, 18, 6, 5}, 4, 0, 1, float64)};
  const auto f = [](const auto& v) {
    return deformable_convolution(v[0], v[1], v[2], {}, v[3], {.pad = {1, 1}, .deformable_groups = 2});
  };
  check(f, inputs, true, {1e-8, 1e-8});
}
