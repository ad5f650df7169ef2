#pragma once

#include <cstdint>
#include <vector>

#include <sluice/sluice.h>

namespace samples {

/// What a network says of every image of a dataset.
struct Evaluation {
  std::vector<std::int32_t> labels = {};
  std::vector<float> predictions = {};  // a row of `classes` values an image, as the network gives them
  std::int64_t classes = 0;
  double loss = 0;        // mean
  bool complete = false;  // false: interrupted

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  std::int32_t guess(std::int64_t image) const;
  /// Of each class by softmax, the same for logits and for log-probabilities.
  std::vector<double> probabilities(std::int64_t image) const;
  std::int64_t hits() const;
  double accuracy() const;
  /// How often which label was taken for which class.
  sluice::gluon::estimator::ConfusionCounts confusions() const;
};

/// Runs `net` over the loader's images, in their order; stops early where the process was interrupted. The host waits.
Evaluation evaluate(
    const sluice::gluon::Block& net, const sluice::gluon::loss::Loss& loss, sluice::gluon::data::DataLoader& loader);

/// The images that were guessed wrong, those with the greatest probability of the wrong class first; without those
/// whose probabilities are not finite.
std::vector<std::int64_t> confident_mistakes(const Evaluation& evaluation, std::size_t most);

}  // namespace samples
