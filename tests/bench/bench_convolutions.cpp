// The time of ResNet-50's convolutions, forward and both gradients: arrays and weights whose channels are neighbours,
// as layers on tensor cores pass them on. The peer, peers/torch_convolutions.py, gets the same layout and tries
// algorithms. And of first layers with bias and relu, whose data needs no gradient.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;

struct Layer {
  const char* name;
  std::int64_t inputs, size, outputs, kernel, stride;
};
constexpr Layer k_layers[] = {
    {"3-64-7s2", 3, 224, 64, 7, 2},      {"64-64-1", 64, 56, 64, 1, 1},       {"64-64-3", 64, 56, 64, 3, 1},
    {"64-256-1", 64, 56, 256, 1, 1},     {"256-64-1", 256, 56, 64, 1, 1},     {"256-128-1", 256, 56, 128, 1, 1},
    {"128-128-3s2", 128, 56, 128, 3, 2}, {"128-512-1", 128, 28, 512, 1, 1},   {"256-512-1s2", 256, 56, 512, 1, 2},
    {"512-128-1", 512, 28, 128, 1, 1},   {"128-128-3", 128, 28, 128, 3, 1},   {"512-256-1", 512, 28, 256, 1, 1},
    {"256-256-3s2", 256, 28, 256, 3, 2}, {"256-1024-1", 256, 14, 1024, 1, 1}, {"512-1024-1s2", 512, 28, 1024, 1, 2},
    {"1024-256-1", 1024, 14, 256, 1, 1}, {"256-256-3", 256, 14, 256, 3, 1},   {"512-512-3s2", 512, 14, 512, 3, 2},
    {"512-2048-1", 512, 7, 2048, 1, 1},  {"512-512-3", 512, 7, 512, 3, 1},
};

// Images, their channels and size, filters.
struct FirstLayer {
  const char* name;
  std::int64_t images, inputs, size, outputs, kernel;
};
constexpr FirstLayer k_first_layers[] = {
    {"first-1-32-3-28px-64", 64, 1, 28, 32, 3},
    {"first-1-6-5-28px-256", 256, 1, 28, 6, 5},
    {"first-3-32-3-32px-128", 128, 3, 32, 32, 3},
    {"first-3-64-3-64px-128", 128, 3, 64, 64, 3},
    {"first-3-64-3-224px-16", 16, 3, 224, 64, 3},
};

NDArray channels_last(const NDArray& x) {
  return x.transpose({0, 2, 3, 1}).copy().transpose({0, 3, 1, 2});
}

void run_layer(bench::Report& report, const Layer& layer, DType dtype, const std::string& tuning) {
  const Device device = report.options().device;
  const bool small = report.options().smoke || device.is_cpu();
  const std::int64_t images = small ? 1 : 256, size = small ? std::min<std::int64_t>(layer.size, 14) : layer.size;
  random::seed(3);
  const auto drawn = [&](const Shape& shape) {
    return channels_last(random::uniform(-0.1, 0.1, shape, {.device = device}).astype(dtype));
  };
  const NDArray x = drawn({images, layer.inputs, size, size});
  const NDArray weight = drawn({layer.outputs, layer.inputs, layer.kernel, layer.kernel});
  const std::int64_t stride = layer.stride, pad = layer.kernel / 2;
  const std::string how = message("stride=(", stride, ", ", stride, "), pad=(", pad, ", ", pad, ")");
  const auto call = [&](const char* name, const std::vector<NDArray>& inputs) {
    const Operator& op = *find_operator(name);
    return invoke(op, inputs, parse_attributes(op, how), SourceLocation::current())[0];
  };
  const NDArray y = call("convolution", {x, weight});
  const NDArray dy = y * 0.5;  // lies as y does
  const auto time = [&](const char* pass, const std::function<NDArray()>& run) {
    const std::string variant = message(pass, "-", dtype, tuning);
    if (!report.wants(layer.name, variant))
      return;
    NDArray result;
    const bench::Timing timing = report.time(
        device.is_gpu() ? 40 : 1, 2, [&] { result = run(); }, [] { Engine::current().wait_all(); });
    report.add(layer.name, variant, "time", timing.median * 1e6, "us", timing.min * 1e6);
    report.expect(std::isfinite(sum(result.astype(float32)).item<double>()), layer.name);
  };
  time("forward", [&] { return call("convolution", {x, weight}); });
  time("data", [&] { return call("convolution_backward_data", {dy, weight, x}); });
  time("weights", [&] { return call("convolution_backward_weights", {x, dy, weight}); });
}

void run_first_layer(bench::Report& report, const FirstLayer& layer, DType dtype, const std::string& precision) {
  const Device device = report.options().device;
  const bool small = report.options().smoke || device.is_cpu();
  const std::int64_t images = small ? 1 : layer.images, size = small ? 14 : layer.size;
  random::seed(3);
  const auto drawn = [&](const Shape& shape) {
    return random::uniform(-0.1, 0.1, shape, {.device = device}).astype(dtype);
  };
  const NDArray x = drawn({images, layer.inputs, size, size}), bias = drawn({layer.outputs});
  const NDArray weight = drawn({layer.outputs, layer.inputs, layer.kernel, layer.kernel});
  const auto call = [&](const char* name, const std::vector<NDArray>& inputs, const char* how) {
    const Operator& op = *find_operator(name);
    return invoke(op, inputs, parse_attributes(op, how), SourceLocation::current());
  };
  const NDArray y = call("convolution_relu", {x, weight, bias}, "")[0];
  const NDArray dy = y * 0.5;  // lies as y does
  const auto time = [&](const char* pass, const std::function<NDArray()>& run) {
    const std::string variant = message(pass, "-", dtype, precision);
    if (!report.wants(layer.name, variant))
      return;
    NDArray result;
    const bench::Timing timing = report.time(
        device.is_gpu() ? 200 : 1, 2, [&] { result = run(); }, [] { Engine::current().wait_all(); });
    report.add(layer.name, variant, "time", timing.median * 1e6, "us", timing.min * 1e6);
    report.expect(std::isfinite(sum(result.astype(float32)).item<double>()), layer.name);
  };
  time("forward", [&] { return call("convolution_relu", {x, weight, bias}, "")[0]; });
  time("weights", [&] { return call("convolution_relu_backward_weights", {x, dy, y, weight}, "bias=true")[0]; });
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_convolutions", "ResNet-50's convolutions, forward and gradients, batch 256 on a GPU");
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    const bool gpu = report.options().device.is_gpu();
    set_autotune(Autotune::off);
    for (const FirstLayer& layer : k_first_layers) {
      run_first_layer(report, layer, float32, "");
      if (!gpu)
        continue;
      set_float32_precision("high");
      run_first_layer(report, layer, float32, "-tf32");
      set_float32_precision("highest");
      run_first_layer(report, layer, bfloat16, "");
    }
    for (const DType dtype : gpu ? std::vector<DType>{bfloat16, float16} : std::vector<DType>{float32}) {
      for (const Layer& layer : k_layers) {
        for (const Autotune how : {Autotune::off, Autotune::first_use}) {
          set_autotune(how);
          run_layer(report, layer, dtype, how == Autotune::off ? "" : "-tuned");
          if (!gpu)
            break;
        }
      }
    }
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
