// The time of a training step (forward, backward, update) of the three networks of the samples, on one batch that stays
// on the device, by hand ("eager") and as one graph ("hybrid"). The peers run the same: same layers, batch, optimizer
// and loss.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sluice/sluice.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;
namespace nn = gluon::nn;

nn::Sequential make_mlp() {
  nn::Sequential net;
  net.add(nn::Dense(256, {.activation = "relu"}), nn::Dense(10));
  return net;
}

nn::Sequential make_cnn_torch() {
  nn::Sequential net;
  net.add(nn::Conv2D(32, 3, {.activation = "relu"}), nn::Conv2D(64, 3, {.activation = "relu"}), nn::MaxPool2D(2));
  net.add(nn::Dropout(0.25), nn::Flatten(), nn::Dense(128, {.activation = "relu"}), nn::Dropout(0.5), nn::Dense(10));
  net.add(nn::Lambda([](const NDArray& x) { return log_softmax(x); }));
  return net;
}

nn::Sequential make_cnn_tf() {
  nn::Sequential net;
  net.add(nn::Conv2D(32, 3, {.activation = "relu"}), nn::MaxPool2D(2), nn::Flatten());
  net.add(nn::Dense(64, {.activation = "relu"}), nn::Dense(10));
  return net;
}

struct Workload {
  const char* name;
  nn::Sequential (*make)();
  std::int64_t batch;
  bool sgd;        // momentum 0.9 at 0.1; otherwise Adam at 1e-3
  bool log_probs;  // the network ends in log-softmax
  int cpu_steps, gpu_steps;
};
constexpr Workload k_workloads[] = {
    {"mlp-b256-sgd", make_mlp, 256, true, false, 50, 300},
    {"cnn-torch-b64", make_cnn_torch, 64, false, true, 3, 200},
    {"cnn-tf-b64", make_cnn_tf, 64, false, false, 15, 200},
};

// A network with its trainer and one batch of random images.
class Session {
 public:
  Session(const Workload& workload, Device device, bool hybrid)
      : net_(workload.make()), loss_({.from_logits = workload.log_probs}), batch_(workload.batch) {
    Engine::current().seed(7);
    images_ = random::normal(0, 1, {batch_, 1, 28, 28}, {.device = device});
    labels_ = random::randint(0, 10, {batch_}, {.dtype = int64, .device = device});
    net_.initialize(gluon::init::Xavier(), device);
    net_(images_);  // completes the shapes
    if (workload.sgd)
      trainer_ = std::make_unique<gluon::Trainer>(
          net_.collect_params(), gluon::optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9}));
    else
      trainer_ =
          std::make_unique<gluon::Trainer>(net_.collect_params(), gluon::optimizer::Adam({.learning_rate = 1e-3}));
    if (hybrid)
      hybrid_ = std::make_unique<gluon::TrainStep>(net_, loss_, *trainer_);
  }

  NDArray step() {
    if (hybrid_ != nullptr)
      return (*hybrid_)(images_, labels_).losses;
    NDArray loss;
    {
      autograd::RecordScope record;
      loss = loss_(net_(images_), labels_);
    }
    loss.backward();
    trainer_->step(batch_);
    return loss;
  }

 private:
  nn::Sequential net_;
  gluon::loss::SoftmaxCrossEntropyLoss loss_;
  std::int64_t batch_;
  NDArray images_, labels_;
  std::unique_ptr<gluon::Trainer> trainer_;
  std::unique_ptr<gluon::TrainStep> hybrid_;
};

void run_workload(bench::Report& report, const Workload& workload, const std::string& variant) {
  if (!report.wants(workload.name, variant))
    return;
  const Device device = report.options().device;
  Session session(workload, device, variant.starts_with("hybrid"));
  const int steps = device.is_gpu() ? workload.gpu_steps : workload.cpu_steps;
  const double first = mean(session.step()).item<double>();
  const bench::Timing timing = report.time(
      steps, std::max(3, steps / 3), [&] { session.step(); }, [] { Engine::current().wait_all(); });
  // The batch never changes, so a few more steps must have learnt something of it.
  for (int i = 0; i < 10; ++i)
    session.step();
  const double last = mean(session.step()).item<double>();
  report.expect(
      std::isfinite(last) && last < first,
      std::string(workload.name) + ": loss " + std::to_string(first) + " became " + std::to_string(last));
  report.add(workload.name, variant, "step", timing.median * 1e6, "us", timing.min * 1e6);
  report.add(
      workload.name,
      variant,
      "throughput",
      static_cast<double>(workload.batch) / timing.median,
      "img/s",
      static_cast<double>(workload.batch) / timing.min);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_training", "Training step of the samples' three networks");
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    const bool gpu = report.options().device.is_gpu();
    for (const Workload& workload : k_workloads) {
      run_workload(report, workload, "eager");
      run_workload(report, workload, "hybrid");
      if (!gpu)
        continue;
      set_float32_precision("high");
      run_workload(report, workload, "eager-tf32");
      run_workload(report, workload, "hybrid-tf32");
      set_autotune(Autotune::first_use);
      run_workload(report, workload, "eager-tf32-tuned");
      run_workload(report, workload, "hybrid-tf32-tuned");
      set_autotune(Autotune::off);
      set_float32_precision("highest");
    }
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
