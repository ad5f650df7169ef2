#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/gluon/data/any_dataset.h>
#include <sluice/gluon/data/batchify.h>
#include <sluice/gluon/data/ledger.h>
#include <sluice/gluon/data/sampler.h>

namespace sluice::gluon::data::detail {

/// Some samples of an epoch, which a task makes a batch of.
struct BatchPlan {
  std::shared_ptr<const DatasetNode> dataset;
  std::shared_ptr<const Batches> batches;
  std::shared_ptr<Ledger> ledger;
  RandomBlock random;
  std::size_t batch;  // its number
  bool skip_corrupt;

  std::size_t first() const { return batches->starts[batch]; }
  std::size_t n() const { return batches->starts[batch + 1] - first(); }
  std::span<const std::int64_t> samples() const { return std::span(batches->order).subspan(first(), n()); }
  /// Sample i of the batch; or the one `ahead` places further on in the epoch, for the same place.
  Pick pick(std::size_t i, std::size_t ahead = 0) const {
    const std::size_t place = first() + i, from = (place + ahead) % batches->order.size();
    return {batches->order[from], SampleRandom(random, place)};
  }
};

/// Writes the samples of a batch. Errors name the batch and the first sample of it that cannot be read; with
/// skip_corrupt the next sound ones of the epoch stand in for those.
void read_batch(const BatchPlan& plan, Views out);
/// The same one by one, of samples that have shapes of their own.
std::vector<Sample> read_samples(const BatchPlan& plan);

/// The arrays that a function of the loader's makes of a batch's samples. Errors name the batch.
std::vector<HostArray> batchified(
    const BatchPlan& plan, const batchify::Function& function, const std::vector<Sample>& samples);

/// The shapes and types of a dataset's samples: of the first of `tries` that can be read, where it does not say. Throws
/// what the first throws if none can.
std::vector<ArraySpec> specs_of_samples(const DatasetNode& dataset, std::int64_t tries);

}  // namespace sluice::gluon::data::detail
