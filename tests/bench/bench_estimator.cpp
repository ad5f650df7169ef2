// What an Estimator costs beside the loop that it stands for: epochs of the sample mlp, batch 256, on batches that are
// there already, in turns; on a GPU also of ResNet-50 in bfloat16 by autocast. `loop` is steps alone, `loop-loss` adds
// up their losses as an Estimator always does, `estimator` is fit() with nothing beside. On the CPU the CPU time of the
// process, which others that share the machine do not add to; on a GPU wall time.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <exception>
#include <string>
#include <vector>

#include <sluice/sluice.h>

#include "tests/bench/networks/resnet.h"
#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;
namespace nn = gluon::nn;
using gluon::data::Batch;

constexpr std::int64_t k_batch = 256;

/// What is trained, on what, in how many steps an epoch.
struct Workload {
  std::string name;
  Batch batch;
  std::int64_t steps;
  bool is_resnet = false;
};

double seconds(bool of_process) {
  if (!of_process)
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The network in training, by one of the ways.
struct Training {
  nn::Sequential net;
  gluon::loss::SoftmaxCrossEntropyLoss loss;
  gluon::Trainer trainer;
  gluon::TrainStep step{net, loss, trainer};
  gluon::estimator::Estimator estimator{net, loss, trainer, {.steps = gluon::estimator::Steps::graph}};
  double mean_loss = 0;

  explicit Training(const Workload& of) : trainer(prepared(net, of), gluon::optimizer::Adam()) {}

  static gluon::ParameterDict prepared(nn::Sequential& net, const Workload& of) {
    Engine::current().seed(7);
    if (of.is_resnet)
      net.add(bench::resnet({.blocks = {3, 4, 6, 3}}));
    else
      net.add(nn::Dense(256, {.activation = "relu"}), nn::Dense(10));
    net.initialize(gluon::init::Xavier(), of.batch.data.device());
    net(of.batch.data);
    return net.collect_params();
  }

  void run(const std::string& variant, const std::vector<Batch>& batches) {
    if (variant == "estimator") {
      estimator.fit(batches, {.epochs = 1, .log = false});
      mean_loss = estimator.figure("training loss");
      return;
    }
    gluon::metric::Loss sum;
    NDArray losses;
    for (const auto& [x, y] : batches) {
      losses = step(x, y).losses;
      if (variant == "loop-loss")
        sum.update(losses);
    }
    mean_loss = variant == "loop-loss" ? sum.get().second : mean(losses.astype(float64)).item<double>();
    Engine::current().wait_all();
  }
};

void compare(bench::Report& report, const Workload& of) {
  const std::vector<Batch> batches(static_cast<std::size_t>(of.steps), of.batch);
  const bool is_cpu = of.batch.data.device().is_cpu();
  const std::array<std::string, 3> variants = {"loop", "loop-loss", "estimator"};
  std::array<Training, 3> trained{Training(of), Training(of), Training(of)};
  std::array<std::vector<double>, 3> times;
  const int rounds = report.options().smoke ? 1 : std::max(report.options().repeats, 1);
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const double begun = seconds(is_cpu);
      trained[i].run(variants[i], batches);
      if (round >= 0)
        times[i].push_back((seconds(is_cpu) - begun) / static_cast<double>(of.steps));
    }
  }
  const auto weight = [](const Training& one) {
    return one.net.collect_params("weight$").begin()->second.data().to_vector<float>();
  };
  for (std::size_t i = 0; i < variants.size(); ++i) {
    report.expect(std::isfinite(trained[i].mean_loss), variants[i] + ": the loss is finite");
    report.expect(weight(trained[i]) == weight(trained[0]), variants[i] + " trains as the loop does");
    std::sort(times[i].begin(), times[i].end());
    report.add(of.name, variants[i], "step", times[i][times[i].size() / 2] * 1e6, "us", times[i].front() * 1e6);
  }
}

void compare_all(bench::Report& report) {
  const Device device = report.options().device;
  const bool smoke = report.options().smoke;
  const auto labels = [&](std::int64_t classes) {
    return random::randint(0, classes, {k_batch}, {.dtype = int64, .device = device});
  };
  if (report.wants("mlp-b256", ""))
    compare(
        report, {"mlp-b256", {random::normal(0, 1, {k_batch, 784}, {.device = device}), labels(10)}, smoke ? 2 : 60});
  if (!device.is_gpu() || !report.wants("resnet50-b256", ""))
    return;
  const auto cast = amp::autocast(bfloat16);
  const NDArray images = random::normal(0, 1, {k_batch, 3, 224, 224}, {.device = device});
  compare(report, {"resnet50-b256", {images, labels(1000)}, smoke ? 2 : 20, true});
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_estimator", "An Estimator beside the loop that it stands for");
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    compare_all(report);
  } catch (const std::exception& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
