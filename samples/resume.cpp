// A training that may be killed at any point, the program with it, and goes on as if it had not been.
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/sluice.h>

#include "samples/support/flags.h"
#include "samples/support/interrupt.h"
#include "samples/support/run_main.h"
#include "samples/support/saving.h"

namespace {

using namespace sluice;
namespace nn = gluon::nn;
namespace est = gluon::estimator;
using gluon::data::DataLoader;

struct Options {
  Device device = num_gpus() > 0 ? gpu(0) : cpu();
  std::string folder;
  std::int64_t epochs = 30, save_every = 10, kill_after = 0;
  std::uint64_t seed = 1;
};

constexpr std::int64_t k_arms = 3, k_points = 200;  // of each arm

/// Points on the arms of a spiral; the arm is the label.
gluon::data::ArrayDataset spiral(double turn) {
  std::vector<float> points;
  std::vector<std::int32_t> arms;
  for (std::int64_t i = 0; i < k_arms * k_points; ++i) {
    const double along = (static_cast<double>(i % k_points) + turn) / k_points;
    const double angle = 2 * std::numbers::pi * (static_cast<double>(i / k_points) / k_arms + 0.7 * along);
    points.push_back(static_cast<float>(along * std::cos(angle)));
    points.push_back(static_cast<float>(along * std::sin(angle)));
    arms.push_back(static_cast<std::int32_t>(i / k_points));
  }
  return {array(points, {k_arms * k_points, 2}), array(arms, {k_arms * k_points})};
}

/// Ends the process as nothing can that it might see coming.
class Killer : public est::EventHandler {
 public:
  explicit Killer(std::int64_t batch) : batch_(batch) {}
  int priority() const override { return -3000; }  // nobody has saved this batch yet
  void batch_end(est::Estimator& estimator, const gluon::data::Batch&, const gluon::StepResult&) override {
    if (estimator.progress().batches == batch_)
      std::raise(SIGKILL);
  }

 private:
  std::int64_t batch_;
};

/// FNV-1a of all bits of the parameters.
std::uint64_t checksum(const gluon::Block& net) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (const auto& [name, parameter] : net.collect_params()) {
    for (const float value : parameter.data().to_vector<float>()) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      sum = (sum ^ bits) * 0x100000001b3u;
    }
  }
  return sum;
}

int run(const Options& options) {
  samples::catch_interrupts();
  random::seed(options.seed);
  nn::Sequential net;
  net.add(nn::Dense(64, {.activation = "relu", .in_units = 2}), nn::Dropout(0.1));
  net.add(nn::Dense(64, {.activation = "relu", .in_units = 64}), nn::Dense(k_arms, {.in_units = 64}));
  net.initialize(gluon::init::Xavier(), options.device);
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  DataLoader training(spiral(0), {.batch_size = 32, .shuffle = true, .device = options.device});
  DataLoader testing(spiral(0.5), {.batch_size = 100, .device = options.device});

  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::Adam());
  trainer.set_schedule(gluon::lr_scheduler::CosineScheduler(
      {.max_update = options.epochs * training.size(), .base_lr = 0.01, .final_lr = 1e-4}));
  est::Estimator estimator(
      net,
      loss,
      trainer,
      {.train_metrics = {std::make_shared<gluon::metric::Accuracy>()},
       .validation_metrics = {std::make_shared<gluon::metric::Accuracy>()}});
  est::Handlers handlers = est::handlers(
      est::CheckpointHandler(
          {.folder = options.folder,
           .prefix = "spiral",
           .every_batches = options.save_every,
           .keep_last = 3,
           .monitor = "validation accuracy",
           .existing = est::Existing::resume}),
      samples::stop_when_interrupted(),
      est::CSVLogger({.path = std::filesystem::path(options.folder) / "figures.csv"}));
  if (options.kill_after > 0)
    handlers.push_back(std::make_shared<Killer>(options.kill_after));
  estimator.fit(training, {.epochs = options.epochs, .validation = testing, .handlers = std::move(handlers)});
  samples::end_if_interrupted("the same command goes on");
  fmt::print("test accuracy: {:.4f}\n", estimator.evaluate(testing)[1].second);
  fmt::print("parameters: {:016x}\n", checksum(net));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  samples::CommandLine command(
      "A training that may be killed at any point and goes on, to the last bit, when it is started again.");
  command.add_device_flag(options.device);
  command.add_option("folder", options.folder, "Where checkpoints are, and figures.csv")
      .required()
      .check(samples::a_name());
  command.add_option("--epochs", options.epochs, "Epochs").check(samples::whole_within(1, 100'000));
  command.add_option("--save-every", options.save_every, "Batches between checkpoints; 0: one an epoch")
      .check(samples::whole_within(0, 1'000'000));
  command.add_option("--kill-after", options.kill_after, "Batch after which the process kills itself; 0: none")
      .check(samples::whole_within(0, 1'000'000'000));
  command.add_option("--seed", options.seed, "Of all random numbers").check(samples::whole_number());
  return samples::run_main(command, argc, argv, [&] { return run(options); });
}
