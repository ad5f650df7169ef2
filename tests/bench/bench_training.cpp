// The time of a training step (forward, backward, update) of the three networks of the samples, on one batch that stays
// on the device, by hand ("eager") and as one graph ("hybrid"); with --autocast in a half type beside float32, and of a
// ResNet-18. The peers run the same: same layers, batch, optimizer and loss.
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/operator/graph/detail/plan_access.h>
#include <sluice/sluice.h>

#include "tests/bench/support/bench.h"
#include "tests/bench/support/rounds.h"

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

nn::Sequential make_resnet() {
  nn::Sequential net;
  net.add(gluon::model_zoo::vision::get_model("resnet18_v1", {.classes = 10}));
  return net;
}

struct Workload {
  const char* name;
  nn::Sequential (*make)();
  Shape images;
  double sgd_rate;  // momentum 0.9; 0 is Adam at 1e-3
  bool log_probs;   // the network ends in log-softmax
  int cpu_steps, gpu_steps;
};
const Workload k_workloads[] = {
    {"mlp-b256-sgd", make_mlp, {256, 1, 28, 28}, 0.1, false, 50, 300},
    {"cnn-torch-b64", make_cnn_torch, {64, 1, 28, 28}, 0, true, 3, 200},
    {"cnn-tf-b64", make_cnn_tf, {64, 1, 28, 28}, 0, false, 15, 200},
};
// With --autocast alone: its float32 step says nothing that bench_networks does not.
const Workload k_resnets[] = {
    {"resnet18-b8", make_resnet, {8, 3, 64, 64}, 0.01, false, 1, 50},
    {"resnet18-b16", make_resnet, {16, 3, 128, 128}, 0.01, false, 1, 50},
};

// A network with its trainer and one batch of random images.
class Session {
 public:
  Session(const Workload& workload, Device device, bool hybrid, std::optional<DType> autocast = {})
      : net_(workload.make()),
        loss_({.from_logits = workload.log_probs}),
        batch_(workload.images[0]),
        autocast_(autocast) {
    Engine::current().seed(7);
    images_ = random::normal(0, 1, workload.images, {.device = device});
    labels_ = random::randint(0, 10, {batch_}, {.dtype = int64, .device = device});
    net_.initialize(gluon::init::Xavier(), device);
    net_(images_);  // completes the shapes
    if (workload.sgd_rate > 0)
      trainer_ = std::make_unique<gluon::Trainer>(
          net_.collect_params(), gluon::optimizer::SGD({.learning_rate = workload.sgd_rate, .momentum = 0.9}));
    else
      trainer_ =
          std::make_unique<gluon::Trainer>(net_.collect_params(), gluon::optimizer::Adam({.learning_rate = 1e-3}));
    if (hybrid)
      hybrid_ = std::make_unique<gluon::TrainStep>(net_, loss_, *trainer_);
  }

  NDArray step() {
    NDArray loss;
    {
      const amp::AutocastScope cast(autocast_);
      if (hybrid_ != nullptr)
        return (*hybrid_)(images_, labels_).losses;
      autograd::RecordScope record;
      loss = loss_(net_(images_), labels_);
    }
    loss.backward();
    trainer_->step(batch_);
    return loss;
  }
  double mean_loss() { return mean(step()).item<double>(); }
  /// Seconds that the step's kernels take as one CUDA graph, without the engine; 0 where it is none.
  double kernels_alone(int launches) {
    for (int i = 0; i < 3; ++i)
      last_ = step();  // whose memory the launches write
    Engine::current().wait_all();
    return graph::PlanAccess::seconds_alone(*hybrid_->plan(), launches);
  }

 private:
  nn::Sequential net_;
  gluon::loss::SoftmaxCrossEntropyLoss loss_;
  std::int64_t batch_;
  std::optional<DType> autocast_;
  NDArray images_, labels_, last_;
  std::unique_ptr<gluon::Trainer> trainer_;
  std::unique_ptr<gluon::TrainStep> hybrid_;
};

// The batch never changes, so a few more steps must have learnt something of it.
void check_learnt(bench::Report& report, const Workload& workload, Session& session, double first) {
  for (int i = 0; i < 10; ++i)
    session.step();
  const double last = session.mean_loss();
  report.expect(
      std::isfinite(last) && last < first,
      std::string(workload.name) + ": loss " + std::to_string(first) + " became " + std::to_string(last));
}

void run_workload(bench::Report& report, const Workload& workload, const std::string& variant) {
  if (!report.wants(workload.name, variant))
    return;
  const Device device = report.options().device;
  Session session(workload, device, variant.starts_with("hybrid"));
  const int steps = device.is_gpu() ? workload.gpu_steps : workload.cpu_steps;
  const double first = session.mean_loss();
  const bench::Timing timing = report.time(
      steps, std::max(3, steps / 3), [&] { session.step(); }, [] { Engine::current().wait_all(); });
  check_learnt(report, workload, session, first);
  const auto images = static_cast<double>(workload.images[0]);
  report.add(workload.name, variant, "step", timing.median * 1e6, "us", timing.min * 1e6);
  if (device.is_gpu() && variant.starts_with("hybrid")) {
    const double alone = session.kernels_alone(steps);
    report.expect(alone > 0, std::string(workload.name) + ": the step is not one CUDA graph");
    report.add(workload.name, variant, "kernels alone", alone * 1e6, "us", alone * 1e6);
  }
  report.add(workload.name, variant, "throughput", images / timing.median, "img/s", images / timing.min);
}

// A step in float32 and the same under autocast(), in turns.
void compare_types(bench::Report& report, const Workload& workload, bool hybrid, DType low) {
  const std::string variant = hybrid ? "hybrid" : "eager";
  const Device device = report.options().device;
  const int steps = report.options().smoke ? 1 : device.is_gpu() ? workload.gpu_steps : workload.cpu_steps;
  std::vector<Session> sessions;
  std::vector<double> first;
  std::vector<bench::Contender> contenders;
  sessions.reserve(2);
  for (const std::optional<DType> type : {std::optional<DType>(), std::optional(low)}) {
    const std::string name = variant + "-" + std::string(name_of(type.value_or(float32)));
    if (!report.wants(workload.name, name))
      continue;
    Session& session = sessions.emplace_back(workload, device, hybrid, type);
    first.push_back(session.mean_loss());
    const auto push = [&session, steps] {
      for (int i = 0; i < steps; ++i)
        session.step();
    };
    contenders.push_back({name, push, [] { Engine::current().wait_all(); }});
  }
  bench::compare(report, workload.name, steps, "step", std::move(contenders));
  for (std::size_t i = 0; i < sessions.size(); ++i)
    check_learnt(report, workload, sessions[i], first[i]);
}

// Of a smoke run one of each kind.
void compare_all(bench::Report& report, DType low) {
  const bool smoke = report.options().smoke;
  for (const bool hybrid : {false, true}) {
    for (const Workload& workload : k_workloads) {
      if (!smoke || &workload == k_workloads)
        compare_types(report, workload, hybrid, low);
    }
    for (const Workload& workload : k_resnets) {
      if (!smoke)
        compare_types(report, workload, hybrid, low);
    }
  }
  if (smoke)
    compare_types(report, {"resnet18-b2", make_resnet, {2, 3, 32, 32}, 0.01, false, 1, 1}, true, low);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_training", "Training step of the samples' three networks");
  std::string autocast;
  report
      .flag("--autocast", autocast, "a half type: the steps, and those of a ResNet-18, in it and in float32, in turns")
      .one_of({"bfloat16", "float16"});
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    const bool gpu = report.options().device.is_gpu();
    if (!autocast.empty() || report.options().smoke)
      compare_all(report, autocast == "float16" ? float16 : bfloat16);
    for (const Workload& workload : k_workloads) {
      if (!autocast.empty())
        break;
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
