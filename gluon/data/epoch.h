#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/engine/source_location.h>
#include <sluice/gluon/data/loader.h>

namespace sluice::gluon::data {

/// One epoch of a DataLoader: what was prepared of it and what is to come.
struct DataLoader::Iterator::Epoch {
  std::shared_ptr<const detail::DatasetNode> dataset;
  std::vector<ArraySpec> specs;
  DataLoaderOptions options;
  SourceLocation site;
  RandomBlock random;  // of its samples
  std::shared_ptr<const std::vector<std::int64_t>> order;
  std::size_t next = 0;  // the first index of `order` that no batch was made of yet
  std::shared_ptr<std::int64_t> position = std::make_shared<std::int64_t>(0);  // batches reached
  std::deque<Batch> ready;

  /// Pushes the task that makes the next batch, and its way to the device.
  void prepare();
  void fill() {
    while (next < order->size() && ready.size() <= static_cast<std::size_t>(options.prefetch))
      prepare();
  }
};

namespace detail {

/// Some samples of an epoch, which a task makes a batch of.
struct BatchPlan {
  std::shared_ptr<const DatasetNode> dataset;
  std::shared_ptr<const std::vector<std::int64_t>> order;
  RandomBlock random;
  std::size_t batch, first, n;  // the batch's number; its samples in `order`

  std::span<const std::int64_t> samples() const { return std::span(*order).subspan(first, n); }
  Pick pick(std::size_t i) const { return {(*order)[first + i], SampleRandom(random, first + i)}; }
};

/// Writes the samples of a batch. Errors name the batch and the first sample of it that cannot be read.
void read_batch(const BatchPlan& plan, Views out);

/// The shapes and types of a dataset's samples: of the first of 16 that can be read, where it does not say. Throws what
/// the first throws if none can.
std::vector<ArraySpec> specs_of_samples(const DatasetNode& dataset);

}  // namespace detail
}  // namespace sluice::gluon::data
