#pragma once

#include <cstddef>
#include <optional>

#include <sluice/engine/engine.h>
#include <sluice/engine/source_location.h>
#include <sluice/gluon/data/loader.h>
#include <sluice/gluon/estimator/batches.h>
#include <sluice/gluon/estimator/estimator.h>
#include <sluice/gluon/estimator/event_handler.h>
#include <sluice/gluon/estimator/training_state.h>

namespace sluice::gluon::estimator {

/// A fit under way.
struct Estimator::Run {
  BatchSource& source;
  Handlers handlers;  // in the order of their calls
  SourceLocation site;
  std::size_t begun = 0;  // handlers whose train_begin has returned
  std::optional<TrainingState> resume = {};
  bool is_done_elsewhere = false;  // `resume` is of a later fit
  bool epoch_is_open = false;      // to be gone on with
  bool source_is_open = false;
  bool nothing_left = false;  // of the epoch that is gone on with
  RandomBlock random_of_epoch = {};
  bool is_at_epoch_begin = false;  // the epoch has begun, no batch of it was trained
  std::optional<data::DataLoaderState> loader_of_epoch = {};
};

}  // namespace sluice::gluon::estimator
