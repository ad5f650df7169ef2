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
  /// counts[label * classes + guess].
  std::vector<std::int64_t> confusion() const;
};

/// Runs `net` over the loader's images, in their order; stops early where the process was interrupted. The host waits.
Evaluation evaluate(
    const sluice::gluon::Block& net, const sluice::gluon::loss::Loss& loss, sluice::gluon::data::DataLoader& loader);

/// How well one class is told from the others.
struct ClassScore {
  std::int64_t label = 0;
  std::int64_t images = 0;                   // of this class; without any the scores mean nothing
  double precision = 0, recall = 0, f1 = 0;  // 0 where nothing was there to count
  std::int64_t taken_for = -1, times = 0;    // the class that it is taken for most often; -1 = none
};
/// Of all classes, the worst (by F1) first, those without an image last.
std::vector<ClassScore> class_scores(const Evaluation& evaluation);

/// The images that were guessed wrong, those with the greatest probability of the wrong class first; without those
/// whose probabilities are not finite.
std::vector<std::int64_t> confident_mistakes(const Evaluation& evaluation, std::size_t most);

}  // namespace samples
