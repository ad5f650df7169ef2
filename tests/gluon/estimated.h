#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/gluon/support.h"

// A small training, the same each time, that estimators are tested on.
namespace sluice::test {

namespace est = gluon::estimator;
using gluon::data::Batch;
using gluon::data::DataLoader;

inline constexpr std::int64_t k_samples = 20, k_features = 3;

/// Samples of which the sum of the features, and a little more, is the label.
inline gluon::data::ArrayDataset small_dataset(int start = 0) {
  const NDArray x = pattern_array({k_samples, k_features}, start);
  return {x, (sum(x, {1}) * 0.5 + 0.25).reshape({k_samples, 1})};
}

inline DataLoader small_loader(std::int64_t batch_size = 4, bool shuffle = true, int start = 0) {
  return DataLoader(small_dataset(start), {.batch_size = batch_size, .shuffle = shuffle});
}

/// An engine of its own, on which a network trains: all is as the seed says.
struct Training {
  Engine engine{{.workers = 2, .seed = 5}};
  EngineScope here{engine};
  gluon::nn::Sequential net;
  L2Loss loss;
  DataLoader loader, validation;

  explicit Training(double dropout = 0.2, std::int64_t batch_size = 4)
      : loader(small_loader(batch_size)), validation(small_loader(5, false, 7)) {
    net.add(
        gluon::nn::Dense(8, {.activation = "relu", .in_units = k_features}),
        gluon::nn::BatchNorm({.in_channels = 8}),
        gluon::nn::Dropout(dropout));
    net.add(gluon::nn::Dense(1, {.in_units = 8}));
    net.initialize(gluon::init::Xavier());
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// All that training leaves: parameters, what the optimizer keeps, where random numbers stand.
  std::vector<std::vector<float>> trail(const Trainer& trainer) const {
    std::vector<std::vector<float>> all;
    for (const auto& [name, parameter] : net.collect_params())
      all.push_back(values(parameter.data()));
    for (const auto& [name, state] : trainer.optimizer().states())
      all.push_back(values(state.astype(float32)));
    const RandomBlock random = engine.random_state();
    all.push_back({static_cast<float>(random.seed), static_cast<float>(random.offset)});
    return all;
  }
};

/// A batch at hand.
inline Batch small_batch(std::int64_t n = 4, int start = 0) {
  const NDArray x = pattern_array({n, k_features}, start);
  return {x, (sum(x, {1}) * 0.5).reshape({n, 1})};
}

/// Notes which events came.
class Recorder : public est::EventHandler {
 public:
  explicit Recorder(std::string name = "r", int priority = 0, std::vector<std::string>* to = nullptr)
      : name_(std::move(name)), priority_(priority), own_(std::make_shared<std::vector<std::string>>()), to_(to) {}

  int priority() const override { return priority_; }
  std::string name() const override { return name_; }
  void train_begin(est::Estimator& e) override { event(e, "train_begin"); }
  void train_resumed(est::Estimator& e) override { event(e, "train_resumed"); }
  void train_end(est::Estimator& e) override { event(e, e.failed() ? "train_end failed" : "train_end"); }
  void epoch_begin(est::Estimator& e) override { event(e, "epoch_begin"); }
  void epoch_end(est::Estimator& e) override { event(e, "epoch_end"); }
  void batch_begin(est::Estimator& e, const Batch&) override { event(e, "batch_begin"); }
  void batch_end(est::Estimator& e, const Batch&, const gluon::StepResult&) override { event(e, "batch_end"); }

  const std::vector<std::string>& events() const { return to_ != nullptr ? *to_ : *own_; }
  /// Called at each event.
  std::function<void(est::Estimator&, const std::string&)> then = {};

 private:
  void event(est::Estimator& estimator, const std::string& what) {
    (to_ != nullptr ? *to_ : *own_).push_back(name_ + ' ' + what);
    if (then)
      then(estimator, what);
  }

  std::string name_;
  int priority_;
  std::shared_ptr<std::vector<std::string>> own_;
  std::vector<std::string>* to_;
};

}  // namespace sluice::test
