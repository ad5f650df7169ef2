// A recurrent network learns to add up two marked numbers of a sequence, far apart (Hochreiter and Schmidhuber, 1997).
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sluice/sluice.h>

#include "samples/support/flags.h"
#include "samples/support/mixed_precision.h"
#include "samples/support/run_main.h"
#include "samples/support/saving.h"

namespace {

using namespace sluice;
namespace nn = gluon::nn;
namespace est = gluon::estimator;
using gluon::data::DataLoader;

struct Options {
  Device device = num_gpus() > 0 ? gpu(0) : cpu();
  std::int64_t length = 20, hidden = 32, samples = 4000, epochs = 12;
  double learning_rate = 0.01;
  std::uint64_t seed = 1;
  samples::MixedPrecision mixed = {};
  samples::Saving saving = {};
};

/// Sequences of numbers from 0 to 1, each with a mark, 1 at a place of the first half and one of the second, else 0;
/// the label is the sum of the two.
gluon::data::ArrayDataset sequences(const Options& options, std::int64_t count, std::uint64_t stream) {
  std::mt19937_64 draw(options.seed * 2 + stream);
  const auto length = static_cast<std::size_t>(options.length);
  std::vector<float> numbers, sums;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t first = draw() % (length / 2), second = length / 2 + draw() % (length - length / 2);
    float sum = 0;
    for (std::size_t step = 0; step < length; ++step) {
      const float number = static_cast<float>(draw() >> 40) * 0x1p-24f;
      const bool is_marked = step == first || step == second;
      numbers.push_back(number);
      numbers.push_back(is_marked ? 1.0f : 0.0f);
      sum += is_marked ? number : 0.0f;
    }
    sums.push_back(sum);
  }
  return {array(numbers, {count, options.length, 2}), array(sums, {count, 1})};
}

/// What the last step of an LSTM says.
class Adder : public gluon::Block {
 public:
  explicit Adder(std::int64_t hidden)
      : lstm_(child("lstm", gluon::rnn::LSTM(hidden, {.layout = gluon::rnn::Layout::NTC, .input_size = 2}))),
        out_(child("out", nn::Dense(1, {.in_units = hidden}))) {}

 protected:
  NDArray forward(const NDArray& x) const override {
    const NDArray states = lstm_(x);  // (N, T, H)
    const std::int64_t last = states.shape()[1] - 1;
    return out_(states.slice(1, last, last + 1));
  }

 private:
  gluon::Child<gluon::rnn::LSTM> lstm_;
  gluon::Child<nn::Dense> out_;
};

int run(const Options& options) {
  options.saving.begin();
  random::seed(options.seed);
  Adder net(options.hidden);
  net.initialize(gluon::init::Xavier(), options.device);
  const gluon::loss::L2Loss loss;
  DataLoader training(
      sequences(options, options.samples, 0), {.batch_size = 50, .shuffle = true, .device = options.device});
  DataLoader testing(sequences(options, 500, 1), {.batch_size = 100, .device = options.device});
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::Adam());
  trainer.set_schedule(gluon::lr_scheduler::OneCycleScheduler(
      {.total_steps = options.epochs * training.size() + 1, .max_lr = options.learning_rate}));
  trainer.guard_gradients({.max_norm = 1});
  options.mixed.prepare(trainer);
  const amp::AutocastScope cast = options.mixed.autocast();
  est::Estimator estimator(net, loss, trainer, {.validation_metrics = {std::make_shared<gluon::metric::MSE>()}});
  estimator.fit(training, {.epochs = options.epochs, .validation = testing, .handlers = options.saving.handlers()});
  options.saving.end_if_interrupted();
  // Who says 1 each time errs by the variance of two numbers.
  fmt::print("test error: {:.5f} (without looking {:.5f})\n", estimator.evaluate(testing)[1].second, 1.0 / 6);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  samples::CommandLine command("An LSTM learns to add up two marked numbers of a sequence.");
  command.add_device_flag(options.device);
  command.add_option("--length", options.length, "Steps of a sequence").check(samples::whole_within(2, 10'000));
  command.add_option("--hidden", options.hidden, "Size of the state").check(samples::whole_within(1, 4096));
  command.add_option("--samples", options.samples, "Sequences to train on").check(samples::whole_within(1, 10'000'000));
  command.add_option("--epochs", options.epochs, "Epochs").check(samples::whole_within(1, 100'000));
  command.add_option("--lr", options.learning_rate, "Largest learning rate")
      .check(samples::finite_within({.low = 0, .high = 1}));
  command.add_option("--seed", options.seed, "Of all random numbers").check(samples::whole_number());
  options.mixed.add_to(command);
  options.saving.add_to(command);
  return samples::run_main(command, argc, argv, [&] { return run(options); });
}
