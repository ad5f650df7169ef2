#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/estimator/batches.h>
#include <sluice/gluon/estimator/estimator.h>

namespace sluice::gluon::estimator {

/// Of find_learning_rate().
struct LearningRateOptions {
  double first = 1e-7, last = 10;  // rates of the first and of the last step
  std::int64_t steps = 100;
  double smoothing = 0.9;  // of losses: the share that stays of the mean so far
  double stop_factor = 4;  // ends where the smoothed loss is that many times the least one; 0: never
};

/// What find_learning_rate() found.
struct LearningRateSweep {
  std::vector<double> rates = {}, losses = {}, smoothed = {};  // of each step
  /// The rate at which the smoothed loss falls fastest; none where it never falls.
  std::optional<double> suggestion = {};
};

/// Trains with rates that grow from step to step (Smith, "Cyclical learning rates", 2017), epochs anew as often as
/// needed, and restores everything afterwards, also where it fails: parameters, optimizer, its rate or schedule, random
/// numbers and the loader. Only parameters whose shape was not known yet stay initialised. Losses are read ten steps at
/// a time. Not within fit(). Throws ValueError unless 0 < first < last, steps >= 2, 0 <= smoothing < 1 and stop_factor
/// is 0 or more than 1, for batches of which there are none, and what the training throws.
SLUICE_API LearningRateSweep find_learning_rate(
    Estimator& estimator,
    Batches batches,
    LearningRateOptions options = {},
    SourceLocation site = SourceLocation::current());

}  // namespace sluice::gluon::estimator
