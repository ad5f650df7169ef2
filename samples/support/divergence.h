#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include <sluice/engine/error.h>

namespace samples {

/// Training that will not come to anything any more.
class Diverged : public sluice::Error {
  using Error::Error;
};

/// Looks at each step's mean loss and throws Diverged where one is not finite, or where the last 20 steps lie, on
/// average, ten times above where training began (or above guessing among ten classes, if that is more), and where
/// a validation loss is not finite.
class DivergenceWatch {
 public:
  /// `advice`: what to try, a sentence for the message. `first_loss`: of the run's first step; 0 = not known yet.
  explicit DivergenceWatch(std::string advice, double first_loss = 0)
      : advice_(std::move(advice)), first_loss_(first_loss) {}

  /// `step`: counted from 1.
  void look(std::int64_t step, double mean_loss);
  /// After an epoch: weights may be spoilt by its last step, which no training loss shows.
  void look_at_validation(std::size_t epoch, double mean_loss) const;
  double first_loss() const { return first_loss_; }

 private:
  std::string advice_;
  double first_loss_;
  std::deque<double> last_;
};

}  // namespace samples
