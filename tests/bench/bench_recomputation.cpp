// Training steps of deep networks within budgets of memory: what results take as planned, and what a step then takes.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include <sluice/sluice.h>

#include "tests/bench/networks/layers.h"
#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;
namespace nn = gluon::nn;

struct Workload {
  std::string name;
  std::function<nn::Sequential()> network;
  Shape x;
};

Workload deep_mlp(bool smoke) {
  const std::int64_t width = smoke ? 16 : 512;
  const int layers = smoke ? 8 : 32;
  return {
      message("mlp-", layers, "x", width),
      [=] {
        nn::Sequential net;
        for (int i = 0; i < layers; ++i)
          net.add(nn::Dense(width, {.activation = "relu"}));
        net.add(nn::Dense(10));
        return net;
      },
      {width, width}};
}

Workload deep_cnn(bool smoke) {
  const std::int64_t channels = smoke ? 4 : 32, side = smoke ? 8 : 64;
  const int layers = smoke ? 6 : 16;
  return {
      message("cnn-", layers, "x", channels),
      [=] {
        nn::Sequential net;
        for (int i = 0; i < layers; ++i)
          net.add(bench::conv_norm(i == 0 ? 3 : channels, channels, {.kernel = 3}));
        net.add(nn::Lambda([](const NDArray& x) { return mean(x, {2, 3}); }), bench::Linear(channels, 10));
        return net;
      },
      {16, 3, side, side}};
}

/// One training: its plan's memory, and the losses of its first steps.
struct Run {
  graph::PlanMemory memory = {};
  std::vector<float> losses = {};
};

Run run(bench::Report& report, const Workload& what, const std::string& variant, std::size_t budget) {
  const Device device = report.options().device;
  Engine::current().seed(7);
  nn::Sequential net = what.network();
  net.initialize(gluon::init::Xavier(), device);
  const NDArray x = random::normal(0, 1, what.x, {.device = device});
  const NDArray y = random::randint(0, 10, {what.x[0]}, {.dtype = int64, .device = device});
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::SGD({.learning_rate = 0.01, .momentum = 0.9}));
  gluon::TrainStep step(net, loss, trainer, {.plan = {.memory_budget = budget}});
  (void)net(x);  // which completes shapes
  const auto start = std::chrono::steady_clock::now();
  Run made;
  made.losses = step(x, y).losses.to_vector<float>();
  const double first = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (int i = 0; i < 2; ++i)
    made.losses = step(x, y).losses.to_vector<float>();
  int steps = 0;
  const std::clock_t before = std::clock();
  const bench::Timing timing = report.time(
      device.is_gpu() ? 20 : 2, 1, [&] { step(x, y), ++steps; }, [] { Engine::current().wait_all(); });
  const double of_cpus = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;  // whoever else works there
  made.memory = step.plan()->memory();
  report.add(what.name, variant, "planned", static_cast<double>(made.memory.bytes) / (1 << 20), "MiB");
  report.add(what.name, variant, "step", timing.median * 1e3, "ms", timing.min * 1e3);
  report.add(what.name, variant, "cpu", of_cpus / steps * 1e3, "ms");
  report.add(what.name, variant, "first", first * 1e3, "ms");
  report.add(what.name, variant, "nodes", static_cast<double>(step.plan()->graph().nodes.size()), "nodes");
  return made;
}

void run_all(bench::Report& report, const Workload& what) {
  if (!report.wants(what.name))
    return;
  const Run whole = run(report, what, "whole", 0);
  for (const int percent : {75, 50, 35, 25, 0}) {
    const std::string variant = percent == 0 ? "least" : message(percent, "%");
    const std::size_t budget = std::max<std::size_t>(whole.memory.bytes * static_cast<std::size_t>(percent) / 100, 1);
    const Run less = run(report, what, variant, budget);
    report.expect(less.losses == whole.losses, what.name + " " + variant + ": other losses");
    report.expect(less.memory.bytes <= whole.memory.bytes, what.name + " " + variant + ": more memory");
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_recomputation", "Training steps within budgets of memory");
  if (!report.parse(argc, argv))
    return report.exit_code();
  const bool smoke = report.options().smoke;
  run_all(report, deep_mlp(smoke));
  run_all(report, deep_cnn(smoke));
  return report.finish();
}
