#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/data/loader.h>
#include <sluice/gluon/train_step.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::gluon::estimator {

class Estimator;

/// What a handler remembers, by name: part of checkpoints.
using HandlerState = std::map<std::string, NDArray>;

/// Something to be done beside training (Gluon's event handlers): override the events that matter. At each event
/// handlers are called by ascending priority, those of the same in the order in which fit() was given them. What one
/// throws ends the training, with the events train_end of all whose train_begin had returned, and reaches the caller.
/// Events of batches should read no values, which makes the host wait.
class SLUICE_API EventHandler {
 public:
  virtual ~EventHandler();

  /// Lower comes first. GradientUpdateHandler -2000, MetricHandler and ValidationHandler -1000, loggers 1000,
  /// CheckpointHandler 2000.
  virtual int priority() const { return 0; }
  /// For messages, and what its state is called in checkpoints.
  virtual std::string name() const;

  virtual void train_begin(Estimator& /*estimator*/) {}
  /// After train_begin of all: training goes on from a checkpoint, from which all states have been restored.
  virtual void train_resumed(Estimator& /*estimator*/) {}
  /// Also where the training failed: Estimator::failed() says so.
  virtual void train_end(Estimator& /*estimator*/) {}
  /// Also where an epoch is gone on with: Progress::batch_in_epoch is not 0 then.
  virtual void epoch_begin(Estimator& /*estimator*/) {}
  /// Of epochs that came to their end.
  virtual void epoch_end(Estimator& /*estimator*/) {}
  virtual void batch_begin(Estimator& /*estimator*/, const data::Batch& /*batch*/) {}
  /// What the batch gave need not have been computed yet.
  virtual void batch_end(Estimator& /*estimator*/, const data::Batch& /*batch*/, const StepResult& /*result*/) {}

  /// What training needs to go on exactly; empty for a handler that remembers nothing.
  virtual HandlerState state() const { return {}; }
  /// Goes on from state(), between train_begin and train_resumed. Throws ValueError, and changes nothing, for one that
  /// cannot be.
  virtual void load_state(const HandlerState& /*state*/) {}

 protected:
  EventHandler() = default;
  EventHandler(const EventHandler&) = default;
  EventHandler& operator=(const EventHandler&) = default;
};

using Handlers = std::vector<std::shared_ptr<EventHandler>>;

/// `handlers(EarlyStoppingHandler({.patience = 3}), CSVLogger({..}))`: as fit() takes them.
template <class... H>
Handlers handlers(H&&... each) {
  return {std::make_shared<std::remove_cvref_t<H>>(std::forward<H>(each))...};
}

}  // namespace sluice::gluon::estimator
