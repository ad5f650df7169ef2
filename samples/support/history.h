#pragma once

#include <cstdint>
#include <vector>

namespace samples {

/// Losses and hits of some images, added up.
struct Sums {
  double loss = 0;
  std::int64_t hits = 0, images = 0;
  double mean_loss() const { return images > 0 ? loss / static_cast<double>(images) : 0; }
  double accuracy() const { return images > 0 ? static_cast<double>(hits) / static_cast<double>(images) : 0; }
};

/// One epoch over all its steps; training figures are of the weights as they were at each step.
struct EpochRecord {
  double learning_rate = 0;  // of the last step
  double loss = 0, accuracy = 0;
  double validation_loss = 0, validation_accuracy = 0;
  double seconds = 0;  // of training alone
  double images_per_second = 0;
};

using History = std::vector<EpochRecord>;

}  // namespace samples
