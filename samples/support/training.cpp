#include "samples/support/training.h"

#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include <sluice/operator/matmul/precision.h>

#include "samples/support/interrupt.h"
#include "samples/support/loss_watch.h"
#include "samples/support/progress.h"

namespace samples {

using namespace sluice;
using gluon::data::DataLoader;
using gluon::data::vision::FashionMNIST;
using gluon::data::vision::ToTensor;

namespace {

constexpr std::int64_t k_validation_batch = 250;
constexpr std::size_t k_batches_ahead = 2;

std::filesystem::path states_file(const std::filesystem::path& parameters) {
  return parameters.string() + ".states";
}

double validate(gluon::Block& net, DataLoader& loader) {
  gluon::metric::Accuracy accuracy;
  std::deque<NDArray> running;
  for (auto [x, y] : loader) {
    const NDArray predictions = net(x);
    accuracy.update(y, predictions);
    running.push_back(predictions);
    if (running.size() > k_batches_ahead) {
      running.front().wait_to_read();  // not all batches' memory at once
      running.pop_front();
    }
    if (interrupted())
      break;
  }
  return accuracy.get().second;
}

// The learning rate falls evenly over all steps.
class Schedule {
 public:
  Schedule(const TrainingOptions& options, const gluon::Trainer& trainer, std::int64_t steps)
      : first_(trainer.learning_rate()), share_(options.final_rate), steps_(steps) {}
  void step(gluon::Trainer& trainer) {
    const double passed = static_cast<double>(step_++) / static_cast<double>(std::max<std::int64_t>(steps_ - 1, 1));
    trainer.set_learning_rate(first_ * (1 - (1 - share_) * passed));
  }

 private:
  double first_, share_;
  std::int64_t steps_, step_ = 0;
};

// False if it was interrupted.
bool train_epoch(
    gluon::Block& net,
    const Loss& loss,
    DataLoader& loader,
    gluon::Trainer& trainer,
    Schedule& schedule,
    LossWatch& watch,
    Progress& progress) {
  watch.begin_epoch(loader.size());
  for (auto [x, y] : loader) {
    NDArray predictions, losses;
    {
      autograd::RecordScope record;
      predictions = net(x);
      losses = loss(predictions, y);
    }
    losses.backward();
    schedule.step(trainer);
    trainer.step(x.shape()[0]);
    watch.step(losses.detach(), y, predictions.detach(), progress);
    progress.step(x.shape()[0]);
    if (interrupted())
      break;
  }
  watch.finish(progress);
  progress.stop_clock();
  return !interrupted();
}

void save_all(const TrainingOptions& options, const gluon::Block& net, const gluon::Trainer& trainer) {
  if (options.save.empty())
    return;
  net.save_parameters(options.save);
  trainer.save_states(states_file(options.save));
  fmt::print("parameters saved to {}\n", options.save.string());
}

void load_all(const TrainingOptions& options, gluon::Block& net, gluon::Trainer& trainer) {
  if (options.load.empty())
    return;
  net.load_parameters(options.load, {.device = options.device});
  if (std::filesystem::exists(states_file(options.load)))
    trainer.load_states(states_file(options.load));
}

// Better now than after an hour.
void check_save(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  require<FileError>(folder.empty() || std::filesystem::is_directory(folder), [&] {
    return message("--save ", file.string(), ": there is no folder ", folder.string());
  });
}

}  // namespace

int train(
    const TrainingOptions& options, const std::function<gluon::nn::Sequential()>& make_network, const Loss& loss) {
  check_save(options.save);
  const FashionMNIST training({.root = options.data, .train = true}), testing({.root = options.data, .train = false});
  set_float32_precision(options.precision);
  Engine engine({.workers = options.threads, .seed = options.seed});
  EngineScope scope(engine);

  gluon::nn::Sequential net = make_network();
  net.initialize(gluon::init::Xavier(), options.device);
  gluon::Trainer trainer(net.collect_params(), options.make_optimizer());
  load_all(options, net, trainer);

  DataLoader train_loader(
      training.transform_first(ToTensor()),
      {.batch_size = options.batch_size, .shuffle = true, .device = options.device});
  DataLoader test_loader(
      testing.transform_first(ToTensor()), {.batch_size = k_validation_batch, .device = options.device});
  fmt::print("{} training and {} test images, on {}\n", training.size(), testing.size(), to_string(options.device));

  catch_interrupts();
  Schedule schedule(options, trainer, options.epochs * train_loader.size());
  LossWatch watch(options.device, options.losses);
  double accuracy = 0;
  for (int epoch = 1; epoch <= options.epochs && !interrupted(); ++epoch) {
    Progress progress(epoch, options.epochs, train_loader.size());
    const bool complete = train_epoch(net, loss, train_loader, trainer, schedule, watch, progress);
    if (complete)
      accuracy = validate(net, test_loader);
    progress.finish(complete && !interrupted() ? accuracy : -1);
  }
  save_all(options, net, trainer);
  if (interrupted()) {
    fmt::print("interrupted{}\n", options.save.empty() ? "; nothing was saved (--save FILE does)" : "");
    return 130;
  }
  fmt::print("test accuracy: {:.4f}\n", accuracy);
  return 0;
}

}  // namespace samples
