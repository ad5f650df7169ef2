// What a forward of ResNet-50 in predict mode takes: by hand, as a graph, as a graph whose convolutions take batch
// norm, residuals and relu along, and that without keeping what comes of parameters alone.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include <sluice/sluice.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;
namespace nn = gluon::nn;

nn::Conv2D conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return nn::Conv2D(out, kernel, {.strides = stride, .padding = kernel / 2, .use_bias = false, .in_channels = in});
}

nn::Sequential body(std::int64_t in, std::int64_t width, std::int64_t stride) {
  nn::Sequential net;
  net.add(conv(in, width, 1, 1), nn::BatchNorm({.in_channels = width}), nn::Activation("relu"));
  net.add(conv(width, width, 3, stride), nn::BatchNorm({.in_channels = width}), nn::Activation("relu"));
  net.add(conv(width, 4 * width, 1, 1), nn::BatchNorm({.in_channels = 4 * width}));
  return net;
}

nn::Sequential shortcut(std::int64_t in, std::int64_t width, std::int64_t stride) {
  nn::Sequential net;
  if (stride != 1 || in != 4 * width)
    net.add(conv(in, 4 * width, 1, stride), nn::BatchNorm({.in_channels = 4 * width}));
  else
    net.add(nn::Lambda([](const NDArray& x) { return x; }));
  return net;
}

/// 1x1, 3x3 (which has the stride) and 1x1 to four times the width, beside a shortcut.
class Bottleneck : public gluon::Block {
 public:
  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride)
      : body_(child("body", body(in, width, stride))), shortcut_(child("shortcut", shortcut(in, width, stride))) {}

 protected:
  NDArray forward(const NDArray& x) const override { return relu(body_(x) + shortcut_(x)); }

 private:
  gluon::Child<nn::Sequential> body_, shortcut_;
};

nn::Sequential resnet50(const std::vector<int>& blocks) {
  nn::Sequential net;
  net.add(conv(3, 64, 7, 2), nn::BatchNorm({.in_channels = 64}), nn::Activation("relu"));
  net.add(nn::MaxPool2D(3, {.strides = 2, .padding = 1}));
  std::int64_t in = 64;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const std::int64_t width = std::int64_t{64} << stage;
    for (int i = 0; i < blocks[stage]; ++i) {
      net.add(Bottleneck(in, width, i == 0 && stage > 0 ? 2 : 1));
      in = 4 * width;
    }
  }
  net.add(nn::Lambda([](const NDArray& x) { return mean(x, {2, 3}); }), nn::Dense(1000, {.in_units = in}));
  return net;
}

struct Variant {
  const char* name;
  bool hybrid;
  graph::PlanOptions plan = {};
};
const Variant k_variants[] = {
    {"eager", false},
    {"hybrid", true},
    {"hybrid-unkept", true, {.keep_derived = false}},
    {"hybrid-once-kept", true, {.rounding = graph::Rounding::once}},
    {"hybrid-once-unkept", true, {.rounding = graph::Rounding::once, .keep_derived = false}},
};

// Statistics and scales that are not what they begin with.
void scatter(const nn::Sequential& net) {
  for (const auto& [name, parameter] : net.collect_params("gamma|beta|running_mean|running_var")) {
    const bool positive = name.ends_with("gamma") || name.ends_with("var");
    parameter.set_data(random::uniform(positive ? 0.5 : -0.2, positive ? 1.5 : 0.2, parameter.data().shape()));
  }
}

// The largest difference, of the largest value.
double difference(const NDArray& a, const NDArray& b) {
  const NDArray x = a.astype(float32), y = b.astype(float32);
  return max(abs(x - y)).item<double>() / max(abs(y)).item<double>();
}

void run(bench::Report& report, DType dtype, std::int64_t batch) {
  const Device device = report.options().device;
  const bool smoke = report.options().smoke;
  const std::string workload = "resnet50-" + std::string(name_of(dtype)) + "-b" + std::to_string(batch);
  if (std::none_of(std::begin(k_variants), std::end(k_variants), [&](const Variant& variant) {
        return report.wants(workload, variant.name);
      }))
    return;
  Engine::current().seed(7);
  nn::Sequential net = resnet50(smoke ? std::vector<int>{1, 1} : std::vector<int>{3, 4, 6, 3});
  net.initialize(gluon::init::Xavier(), device);
  scatter(net);
  net.cast(dtype);
  const std::int64_t side = smoke ? 32 : 224;
  const NDArray x = random::normal(0, 1, {batch, 3, side, side}, {.device = device}).astype(dtype);
  const NDArray wanted = net(x);
  for (const Variant& variant : k_variants) {
    if (!report.wants(workload, variant.name))
      continue;
    net.hybridize(variant.hybrid, {.plan = variant.plan});
    const double off = difference(net(x), wanted);
    const double bound = dtype == float32 ? 1e-4 : dtype == float16 ? 2e-2 : 1e-1;
    report.expect(
        variant.plan.rounding == graph::Rounding::once ? off < bound : off == 0,
        workload + " " + variant.name + " is off by " + std::to_string(off));
    NDArray y;
    const bench::Timing timing = report.time(
        device.is_gpu() ? 100 : 2, device.is_gpu() ? 30 : 1, [&] { y = net(x); }, [] { Engine::current().wait_all(); });
    report.add(workload, variant.name, "forward", timing.median * 1e6, "us", timing.min * 1e6);
    const bench::Timing alone = report.time(
        device.is_gpu() ? 50 : 1, 1, [&] { net(x).wait_to_read(); }, [] {});
    report.add(workload, variant.name, "awaited", alone.median * 1e6, "us", alone.min * 1e6);
    report.add(workload, variant.name, "difference", off, "of_max");
    if (const graph::Plan* const plan = net.hybrid_plan(); plan != nullptr && variant.hybrid)
      report.add(workload, variant.name, "nodes", static_cast<double>(plan->graph().nodes.size()), "nodes");
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_epilogues", "ResNet-50 in predict mode, with and without epilogues of convolutions");
  bool tuned = false;
  report.flags().add_flag("--autotune", tuned, "choose algorithms by trial");
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    if (tuned)
      set_autotune(Autotune::first_use);
    if (report.options().device.is_gpu()) {
      for (const std::int64_t batch : {1, 32})
        run(report, float16, batch);
      run(report, bfloat16, 1);
    }
    run(report, float32, 1);
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
