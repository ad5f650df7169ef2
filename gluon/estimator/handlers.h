#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/estimator/batches.h>
#include <sluice/gluon/estimator/event_handler.h>
#include <sluice/gluon/parameter.h>

namespace sluice::gluon::estimator {

/// Of a StoppingHandler: what comes first counts.
struct StoppingOptions {
  std::optional<std::int64_t> max_epochs = {};  // epochs and batches of one fit, earlier processes included
  std::optional<std::int64_t> max_batches = {};
  std::function<bool()> stop_when = {};  // asked after each batch: a signal has come, time is up
};

/// Ends training (Gluon's StoppingHandler).
class SLUICE_API StoppingHandler : public EventHandler {
 public:
  /// Throws ValueError for negative numbers, and where nothing says when.
  explicit StoppingHandler(StoppingOptions options);

  std::string name() const override { return "StoppingHandler"; }
  void train_begin(Estimator& estimator) override { look(estimator); }
  void train_resumed(Estimator& estimator) override { look(estimator); }
  void batch_end(Estimator& estimator, const data::Batch& batch, const StepResult& result) override;
  void epoch_end(Estimator& estimator) override { look(estimator); }

 private:
  void look(Estimator& estimator) const;

  StoppingOptions options_;
};

/// Adds batches up in the training metrics and begins them anew with each epoch (Gluon's MetricHandler). One of this
/// very class has the step do the adding, within its plan where that can be; what derives from it does it itself.
class SLUICE_API MetricHandler : public EventHandler {
 public:
  int priority() const override { return -1000; }
  std::string name() const override { return "MetricHandler"; }
  void train_begin(Estimator& estimator) override;
  void epoch_begin(Estimator& estimator) override;
  void batch_end(Estimator& estimator, const data::Batch& batch, const StepResult& result) override;
};

/// Of a ValidationHandler.
struct ValidationOptions {
  std::int64_t every_epochs = 1;   // 0: not by epochs
  std::int64_t every_batches = 0;  // of all that were trained; 0: not by batches
};

/// Evaluates now and then (Gluon's ValidationHandler); figures and the estimator's validations() tell others.
class SLUICE_API ValidationHandler : public EventHandler {
 public:
  /// Throws ValueError for negative numbers and for two that are 0.
  explicit ValidationHandler(Batches batches, ValidationOptions options = {});

  int priority() const override { return -1000; }
  std::string name() const override { return "ValidationHandler"; }
  void train_begin(Estimator& estimator) override;
  void batch_end(Estimator& estimator, const data::Batch& batch, const StepResult& result) override;
  void epoch_end(Estimator& estimator) override;
  /// Where the batches stand, too, if they can go on from there (data::DataLoader).
  HandlerState state() const override;
  void load_state(const HandlerState& state) override;

  const Batches& batches() const noexcept { return batches_; }

 private:
  void validate(Estimator& estimator);

  Batches batches_;
  ValidationOptions options_;
  std::int64_t validated_at_ = -1;  // batch
};

/// Of a GradientUpdateHandler.
struct GradientUpdateOptions {
  std::int64_t every = 1;  // batches whose gradients make one step
  bool discard_partial =
      false;  // at the end of an epoch batches that are too few make no step; otherwise one of theirs
};

/// One step of the trainer for several batches, whose gradients are added up (Gluon's GradientUpdateHandler; gradient
/// accumulation): as one of all their samples. Steps are taken by hand; hybridize() the network for graphs. While it is
/// at work parameters that are trained have GradReq::add. Their gradients, also of those that had it before, are zeros
/// when training begins, behind each step and when it is over.
class SLUICE_API GradientUpdateHandler : public EventHandler {
 public:
  /// Throws ValueError for every < 1.
  explicit GradientUpdateHandler(GradientUpdateOptions options = {});

  int priority() const override { return -2000; }
  std::string name() const override { return "GradientUpdateHandler"; }
  void train_begin(Estimator& estimator) override;
  void train_resumed(Estimator& estimator) override;
  void batch_end(Estimator& estimator, const data::Batch& batch, const StepResult& result) override;
  void epoch_end(Estimator& estimator) override;
  void train_end(Estimator& estimator) override;
  /// Gradients and the number of samples of batches that wait for their step; behind the end of training those that
  /// waited then, until it begins anew.
  HandlerState state() const override;
  void load_state(const HandlerState& state) override;

  /// Batches that wait for their step.
  std::int64_t pending() const noexcept { return batches_; }

 private:
  struct Trained {
    std::string name;
    Parameter parameter;
    GradReq before;
  };
  void add_up(const Block& block);
  void step(Estimator& estimator);
  void forget();

  GradientUpdateOptions options_;
  std::vector<Trained> trained_;  // whose GradReq is ours
  std::int64_t batches_ = 0, samples_ = 0;
  HandlerState loaded_;  // gradients, until there is where to
  HandlerState left_;    // what waited at the end
};

}  // namespace sluice::gluon::estimator
