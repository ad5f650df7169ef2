#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/gluon/estimated.h"

// Trainings that leave checkpoints, for tests of what becomes of these.
namespace sluice::test {

using est::CheckpointOptions;
using est::Existing;

namespace fs = std::filesystem;

using Trail = std::vector<std::vector<float>>;

/// A training that leaves nothing out that has a state.
struct TrainingProgram {
  std::int64_t epochs = 4;
  std::optional<std::int64_t> stop_after = {};  // batches
  std::int64_t accumulate = 1;
  bool plain_range = false;  // batches of a range without a state
  bool schedule = true;
  std::optional<CheckpointOptions> checkpoints = {};
  fs::path csv = {};
  std::function<void(est::FitOptions&)> more = {};
};

struct TrainingOutcome {
  Trail trail;
  est::Progress progress = {};
  std::string reason = {};
};

inline std::vector<Batch> plain_batches() {
  return {small_batch(4, 0), small_batch(4, 1), small_batch(4, 2), small_batch(3, 3)};
}

inline TrainingOutcome run_training(const TrainingProgram& program) {
  Training training;
  const auto correlation = std::make_shared<gluon::metric::PearsonCorrelation>();
  const auto both = std::make_shared<gluon::metric::Composite>(std::vector<std::shared_ptr<gluon::metric::Metric>>{
      std::make_shared<gluon::metric::MSE>(), std::make_shared<gluon::metric::MAE>()});
  Trainer trainer(training.net.collect_params(), Adam({.learning_rate = 0.01}));
  if (program.schedule)
    trainer.set_schedule(gluon::lr_scheduler::FactorScheduler({.step = 3, .factor = 0.9, .base_lr = 0.02}));
  est::Estimator estimator(training.net, training.loss, trainer, {.train_metrics = {correlation, both}});
  est::FitOptions options{.epochs = program.epochs, .validation = training.validation, .log = false};
  options.batches = program.stop_after;
  options.handlers = est::handlers(
      est::EarlyStoppingHandler({.monitor = "training loss", .patience = 3}),
      est::ValidationHandler(training.validation, {.every_epochs = 1, .every_batches = 3}));
  if (program.accumulate > 1)
    options.handlers.push_back(
        std::make_shared<est::GradientUpdateHandler>(est::GradientUpdateOptions{.every = program.accumulate}));
  if (!program.csv.empty())
    options.handlers.push_back(
        std::make_shared<est::CSVLogger>(est::CSVLoggerOptions{.path = program.csv, .every_batches = 2}));
  if (program.checkpoints)
    options.handlers.push_back(std::make_shared<est::CheckpointHandler>(*program.checkpoints));
  if (program.more)
    program.more(options);
  if (program.plain_range)
    estimator.fit(plain_batches(), options);
  else
    estimator.fit(training.loader, options);
  return {training.trail(trainer), estimator.progress(), estimator.stop_reason()};
}

inline CheckpointOptions in(const TemporaryFolder& folder) {
  return {.folder = folder.path() / "checkpoints", .existing = Existing::resume};
}

inline std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void put_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

inline std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// Two layers, of which one is idle.
class Spare : public gluon::Block {
 public:
  Spare() : used_(child("used", gluon::nn::Dense(1))), spare_(child("spare", gluon::nn::Dense(2))) {}

 protected:
  NDArray forward(const NDArray& x) const override { return used_(x); }

 private:
  gluon::Child<gluon::nn::Dense> used_, spare_;
};

}  // namespace sluice::test
