#include "samples/support/divergence.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace samples {

namespace {
constexpr std::size_t k_window = 20;
constexpr double k_too_far = 10;
constexpr double k_guessing = 2.302585;  // log(10)
}  // namespace

void DivergenceWatch::look(std::int64_t step, double mean_loss) {
  if (!std::isfinite(mean_loss)) {
    throw Diverged(fmt::format(
        "step {}: the loss is {}{}. Training was stopped. {}",
        step,
        mean_loss,
        step > 1 ? fmt::format(" (it began at {:.4g})", first_loss_) : "",
        advice_));
  }
  if (first_loss_ == 0)
    first_loss_ = mean_loss;
  last_.push_back(mean_loss);
  if (last_.size() < k_window)
    return;
  if (last_.size() > k_window)
    last_.pop_front();
  const double mean = std::accumulate(last_.begin(), last_.end(), 0.0) / static_cast<double>(k_window);
  if (mean > k_too_far * std::max(first_loss_, k_guessing)) {
    throw Diverged(fmt::format(
        "step {}: training diverges: the loss of the last {} steps is {:.4g} on average, it began at {:.4g}. Training "
        "was stopped. {}",
        step,
        k_window,
        mean,
        first_loss_,
        advice_));
  }
}

void DivergenceWatch::look_at_validation(std::size_t epoch, double mean_loss) const {
  if (!std::isfinite(mean_loss))
    throw Diverged(
        fmt::format("epoch {}: the validation loss is {}. Training was stopped. {}", epoch, mean_loss, advice_));
}

}  // namespace samples
