// Matrix products, convolutions, pooling and batch norm on a GPU against the CPU.
#include <functional>

#include <sluice/operator/conv/geometry.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/run_kernel.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Function = std::function<NDArray(const std::vector<NDArray>&)>;

// The result and all gradients of f on one device, from the same numbers.
std::vector<NDArray> run_on(Device device, const Function& f, const std::vector<NDArray>& inputs) {
  std::vector<NDArray> variables;
  for (const NDArray& input : inputs) {
    variables.push_back(input.to(device).detach());
    variables.back().attach_grad();
  }
  NDArray y;
  {
    const autograd::RecordScope record;
    y = f(variables);
  }
  y.backward(random_array(y.shape(), 99, -1, 1, y.dtype()).to(device));
  std::vector<NDArray> results{y};
  for (const NDArray& variable : variables)
    results.push_back(variable.grad());
  return results;
}

// Empty if GPU and CPU agree and a second GPU run gives the same bits.
std::string device_differences(const Function& f, const std::vector<NDArray>& inputs, Tolerance tolerance) {
  const auto want = run_on(cpu(), f, inputs), got = run_on(gpu(), f, inputs), again = run_on(gpu(), f, inputs);
  for (std::size_t i = 0; i < want.size(); ++i) {
    std::string found = differences(got[i].to(cpu()), want[i], tolerance);
    if (found.empty())
      found = differences(again[i].to(cpu()), got[i].to(cpu()), {0, 0});
    if (!found.empty())
      return message(i == 0 ? "result" : "gradient of input ", i == 0 ? "" : std::to_string(i - 1), ": ", found);
  }
  return {};
}

NDArray draw(const Shape& shape, std::uint64_t seed, DType dtype) {
  return random_array(shape, seed, -1, 1, dtype);
}

Tolerance gpu_tolerance(DType dtype) {
  const Tolerance t = sum_tolerance(dtype);
  return {4 * t.relative, 4 * t.absolute};
}

}  // namespace

TEST_CASE("matmul and its gradients are the same on a GPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{2, 3}, {3, 4}},
      {{5}, {5}},
      {{5}, {5, 3}},
      {{4, 5}, {5}},
      {{2, 4, 5}, {5, 3}},
      {{2, 1, 4, 5}, {3, 5, 6}},
      {{1, 3, 4, 5}, {2, 1, 5, 6}},
      {{37, 129}, {129, 65}},
      {{1, 70}, {70, 1}},
      {{40, 1}, {1, 30}},
      {{2, 0}, {0, 3}},
      {{0, 3}, {3, 2}}};
  for (const DType dtype : k_heavy_dtypes) {
    for (const auto& [a, b] : shapes) {
      CAPTURE(name_of(dtype), to_string(a), to_string(b));
      const Function f = [](const auto& v) { return matmul(v[0], v[1]); };
      CHECK(device_differences(f, {draw(a, 1, dtype), draw(b, 2, dtype)}, gpu_tolerance(dtype)) == "");
    }
    const Function transposed = [](const auto& v) { return matmul(v[0].T(), v[1].slice(1, 3, 40).T()); };
    CHECK(
        device_differences(transposed, {draw({37, 20}, 1, dtype), draw({9, 50}, 2, dtype)}, gpu_tolerance(dtype)) ==
        "");
    const Function strided = [](const auto& v) { return matmul(v[0].slice(1, 0, 40, 2), v[1]); };
    CHECK(device_differences(strided, {draw({7, 40}, 1, dtype), draw({20, 9}, 2, dtype)}, gpu_tolerance(dtype)) == "");
  }
  const ArrayOptions whole{.dtype = int32, .device = gpu()};
  CHECK(matmul(full({2, 3}, 2, whole), full({3, 2}, 5, whole)).to_vector<int>() == std::vector<int>(4, 30));
}

TEST_CASE("Small products on a GPU are right around the edges of tiles and of stretches of their sums", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  struct Extents {
    std::int64_t m, n, k;
  };
  const Extents cases[] = {
      {1, 1, 1},
      {31, 33, 15},
      {32, 32, 16},
      {33, 31, 17},
      {64, 5, 63},
      {5, 65, 64},
      {34, 34, 65},
      {7, 8, 16},
      {16, 33, 3},
      {9, 17, 17},
      {17, 10, 256},
      {8, 9, 257},
      {160, 110, 33},
      {3, 2, 1024},
      {2, 3, 1025}};
  for (const DType dtype : k_heavy_dtypes) {
    for (const auto& [m, n, k] : cases) {
      CAPTURE(name_of(dtype), m, n, k);
      const double scale = 1 / std::sqrt(static_cast<double>(k));
      const auto drawn = [&](const Shape& shape, std::uint64_t seed) {
        return (draw(shape, seed, float32) * scale).astype(dtype);
      };
      for (const bool turned : {false, true}) {
        const Function f = [turned](const auto& v) { return turned ? matmul(v[0].T(), v[1].T()) : matmul(v[0], v[1]); };
        const NDArray a = drawn(turned ? Shape{k, m} : Shape{m, k}, 1),
                      b = drawn(turned ? Shape{n, k} : Shape{k, n}, 2);
        CHECK(device_differences(f, {a, b}, gpu_tolerance(dtype)) == "");
      }
    }
  }
  // Few tiles and many: of the latter each has more rows. Of few terms a thread has all.
  const Function batches = [](const auto& v) { return matmul(v[0], v[1].swapaxes(-1, -2)); };
  for (const DType dtype : {float32, float64}) {
    for (const std::int64_t count : {3, 270}) {
      for (const std::int64_t k : {8, 24}) {
        const NDArray a = draw({count, 9, k}, 1, dtype), b = draw({count, 5, k}, 2, dtype);
        CHECK(device_differences(batches, {a, b}, gpu_tolerance(dtype)) == "");
      }
    }
  }
}

TEST_CASE("dense and its gradients are the same on a GPU, with and without bias and relu", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : k_heavy_dtypes) {
    for (const char* activation : {"", "relu"}) {
      for (const auto& [x, units] : std::vector<std::pair<Shape, std::int64_t>>{
               {{6, 5, 4}, 7},
               {{64, 128}, 10},
               {{1, 33}, 1},
               {{18, 60}, 300},
               {{270, 24}, 8},
               {{256, 784}, 256},
               {{0, 4}, 3}}) {
        // With many results one is so close to 0 that devices may disagree on its sign, and with it on its mask.
        if (*activation != 0 && x[0] * units > 1000)
          continue;
        CAPTURE(name_of(dtype), activation, to_string(x), units);
        Shape rest = x;
        rest.erase(0);
        const double scale = 8.0 / std::sqrt(static_cast<double>(rest.size()) + 64);
        const std::vector<NDArray> inputs{
            draw(x, 1, dtype), (draw({units, rest.size()}, 2, float32) * scale).astype(dtype), draw({units}, 3, dtype)};
        const DenseOptions options{.activation = activation};
        const Function f = [&](const auto& v) { return dense(v[0], v[1], v[2], options); };
        CHECK(device_differences(f, inputs, gpu_tolerance(dtype)) == "");
        const Function without = [&](const auto& v) { return dense(v[0], v[1], {}, options); };
        CHECK(device_differences(without, {inputs[0], inputs[1]}, gpu_tolerance(dtype)) == "");
      }
    }
  }
}

TEST_CASE("TF32 is off on a GPU unless the precision is set to high", "[gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray a = draw({512, 512}, 1, float32), b = draw({512, 512}, 2, float32);
  const NDArray x = draw({8, 64, 16, 16}, 3, float32), w = draw({64, 64, 3, 3}, 4, float32);
  const NDArray product = matmul(a.astype(float64), b.astype(float64));
  const NDArray convolved = convolution(x.astype(float64), w.astype(float64), {}, {.pad = {1, 1}});
  const auto on_gpu = [&] {
    return std::pair{
        matmul(a.to(gpu()), b.to(gpu())).to(cpu()),
        convolution(x.to(gpu()), w.to(gpu()), {}, {.pad = {1, 1}}).to(cpu())};
  };
  // Sums of 512 and 576 products of numbers below 1: float32 is off by about 1e-5, TF32 by about 1e-2.
  const Tolerance exact{0, 2e-4}, loose{0, 5e-2};
  const auto highest = on_gpu();
  CHECK(differences(highest.first, product, exact) == "");
  CHECK(differences(highest.second, convolved, exact) == "");
  set_float32_precision("high");
  const auto high = on_gpu();
  Engine::current().wait_all();
  set_float32_precision("highest");
  CHECK(differences(high.first, product, exact) != "");
  CHECK(differences(high.first, product, loose) == "");
  CHECK(differences(high.second, convolved, loose) == "");
}

TEST_CASE("convolution and its gradients are the same on a GPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  struct Case {
    Shape x, weight;
    ConvolutionOptions options = {};
  };
  const std::vector<Case> cases = {
      {{2, 3, 7, 6}, {4, 3, 3, 3}},
      {{1, 1, 28, 28}, {32, 1, 3, 3}},
      {{4, 32, 13, 13}, {64, 32, 3, 3}, {.pad = {1, 1}}},
      {{2, 4, 9, 8}, {6, 4, 3, 2}, {.stride = {2, 3}, .pad = {1, 2}}},
      {{1, 2, 11, 9}, {3, 2, 3, 3}, {.stride = {1, 2}, .pad = {2, 0}, .dilation = {2, 3}}},
      {{3, 4, 6, 6}, {6, 2, 3, 3}, {.pad = {1, 1}, .groups = 2}},
      {{2, 6, 7, 5}, {6, 1, 3, 3}, {.stride = {2, 1}, .pad = {1, 1}, .groups = 6}},
      {{2, 8, 5, 5}, {4, 8, 1, 1}},
      {{0, 3, 7, 6}, {4, 3, 3, 3}}};
  for (const DType dtype : k_heavy_dtypes) {
    for (const Case& c : cases) {
      CAPTURE(name_of(dtype), to_string(c.x), to_string(c.weight));
      const Tolerance t = gpu_tolerance(dtype);
      const std::vector<NDArray> inputs{
          draw(c.x, 1, dtype), (draw(c.weight, 2, float32) * 0.25).astype(dtype), draw({c.weight[0]}, 3, dtype)};
      const Function f = [&](const auto& v) { return convolution(v[0], v[1], v[2], c.options); };
      CHECK(device_differences(f, inputs, {t.relative, 4 * t.absolute}) == "");
    }
  }
}

TEST_CASE("Convolution by unfolding on a GPU agrees with the CPU in all three passes", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
#if SLUICE_CUDA
  using sluice::detail::ConvolutionPass;
  const sluice::detail::ConvolutionAttributes how{.stride = {2, 1}, .pad = {1, 2}, .dilation = {1, 2}, .groups = 2};
  // The gradient of the weight of the larger adds up so many terms that it is a product of a few rows.
  for (const auto& [dtype, in] :
       {std::pair(float32, Shape{2, 4, 7, 9}),
        {float64, {2, 4, 7, 9}},
        {float32, {2, 4, 64, 33}},
        {float64, {2, 4, 64, 33}}}) {
    const auto g = sluice::detail::convolution_geometry("test", in, {6, 2, 3, 3}, dtype, how);
    for (const auto pass :
         {ConvolutionPass::forward, ConvolutionPass::backward_data, ConvolutionPass::backward_weights}) {
      std::vector<NDArray> results;
      for (const auto& [device, last] : {std::pair(cpu(), false), std::pair(gpu(), false), std::pair(gpu(), true)}) {
        const auto drawn = [&, last = last](const Shape& shape, std::uint64_t seed) {
          const NDArray rows = draw(shape, seed, dtype);
          return last ? rows.transpose({0, 2, 3, 1}).copy() : rows;
        };
        const NDArray x = drawn(g.x_shape(), 1).to(device), w = drawn(g.weight_shape(), 2).to(device);
        const NDArray y = drawn(g.y_shape(), 3).to(device);
        const sluice::detail::ConvolutionData data{data_of(x), data_of(w), data_of(y)};
        const auto order = last ? sluice::MemoryOrder::channels_last : sluice::MemoryOrder::row_major;
        run_kernel({x, w, y}, [=](const Queue& queue) {
          if (queue.device().is_gpu()) {
            sluice::detail::convolution_unfolded_gpu(queue, pass, g, data, order);
          } else {
            sluice::detail::convolution_own(queue, pass, g, data);
          }
        });
        const NDArray result = (pass == ConvolutionPass::forward         ? y
                                : pass == ConvolutionPass::backward_data ? x
                                                                         : w)
                                   .to(cpu());
        results.push_back(last ? result.transpose({0, 3, 1, 2}) : result);
      }
      for (std::size_t i = 1; i < results.size(); ++i)
        CHECK(differences(results[i], results[0], gpu_tolerance(dtype)) == "");
    }
  }
#endif
}

TEST_CASE("Pooling and its gradients are the same on a GPU, ties and NaN included", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : k_heavy_dtypes) {
    for (const PoolOptions& o : pool_options()) {
      CAPTURE(name_of(dtype), to_string(o.kernel));
      // Few different values, so that many tie.
      const NDArray x = random_array({2, 3, 9, 8}, 1, 0, 3, int32).astype(dtype);
      CHECK(device_differences([&](const auto& v) { return max_pool2d(v[0], o); }, {x}, tolerance_of(dtype)) == "");
      CHECK(device_differences([&](const auto& v) { return avg_pool2d(v[0], o); }, {x}, tolerance_of(dtype)) == "");
    }
  }
  const NDArray odd = array({1.f, NAN, NAN, 5.f}, {1, 1, 2, 2}, gpu());
  CHECK(std::isnan(max_pool2d(odd).item<float>()));
}

TEST_CASE("batch_norm, its gradients and running statistics are the same on a GPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : k_heavy_dtypes) {
    const DType parameters = dtype == float64 ? float64 : float32;
    for (const auto& [shape, axis] : std::vector<std::pair<Shape, int>>{
             {{4, 3, 5, 6}, 1},
             {{64, 32, 26, 26}, 1},
             {{257, 70}, 1},
             {{2, 3, 4, 5}, 3},
             {{3, 1000}, 0},
             {{5, 7, 3}, 1},
             {{0, 3, 2}, 1}}) {
      for (const bool global : {false, true}) {
        CAPTURE(name_of(dtype), to_string(shape), axis, global);
        const std::int64_t channels = shape[axis];
        const std::vector<NDArray> inputs{
            random_array(shape, 1, -1, 3, dtype),
            random_array({channels}, 2, 0.5, 2, parameters),
            random_array({channels}, 3, -1, 1, parameters)};
        std::vector<NDArray> running;
        const Function f = [&](const std::vector<NDArray>& v) {
          const Device device = v[0].device();
          const NDArray mean = random_array({channels}, 4, -1, 1, parameters).to(device);
          const NDArray var = random_array({channels}, 5, 0.5, 2, parameters).to(device);
          const NDArray y = batch_norm(v[0], v[1], v[2], mean, var, {.axis = axis, .use_global_stats = global});
          running.push_back(mean.to(cpu()));
          running.push_back(var.to(cpu()));
          return y;
        };
        // The gradients of gamma and beta are sums over thousands of elements.
        const Tolerance t = gpu_tolerance(dtype);
        const double many = std::sqrt(static_cast<double>(inputs[0].size()));
        CHECK(device_differences(f, inputs, {t.relative, t.absolute * std::max(1.0, many / 8)}) == "");
        CHECK(differences(running[2], running[0], tolerance_of(parameters)) == "");
        CHECK(differences(running[3], running[1], tolerance_of(parameters)) == "");
      }
    }
  }
}

TEST_CASE("A product of more rows than a grid has places is computed", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray a = ones({1'100'000, 2}, {.device = gpu()}), b = full({2, 1}, 3, {.device = gpu()});
  CHECK(sum(matmul(a, b)).item<float>() == 6'600'000);
}
