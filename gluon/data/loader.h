#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/device.h>
#include <sluice/engine/export.h>
#include <sluice/gluon/data/dataset.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::gluon::data {

/// How a DataLoader makes batches.
struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;
  /// What to do with samples that do not fill a batch: "keep" them as a smaller one, "discard" them, or let them
  /// "rollover" to the front of the next epoch.
  std::string last_batch = "keep";
  Device device = cpu();
  /// Batches that are being made while one is in use.
  int prefetch = 2;
  /// Of the shuffling: same seed, same order in every epoch of the same number. Otherwise the engine's generator.
  std::optional<std::uint64_t> seed = {};
};

/// One batch: the samples' data (n, ...) and labels (n, ...), on the loader's device.
struct Batch {
  NDArray data;
  NDArray label;
};

/// Makes batches of a dataset: `for (auto [x, y] : loader)` is one epoch. Each batch is a task on a worker thread;
/// for a GPU it is assembled in page-locked memory and copied over on a copy stream, while the batch before it is
/// computed with. Iterating never waits: what a dataset or transform throws surfaces where the batch is used. An
/// epoch may be left early; what was prepared is dropped.
class SLUICE_API DataLoader {
 public:
  /// Throws ValueError for options out of range and for an empty dataset.
  template <Dataset D>
  explicit DataLoader(D dataset, DataLoaderOptions options = {})
      : DataLoader(
            std::shared_ptr<const detail::AnyDataset>(std::make_shared<detail::DatasetOf<D>>(std::move(dataset))),
            std::move(options)) {}
  DataLoader(std::shared_ptr<const detail::AnyDataset> dataset, DataLoaderOptions options);

  class SLUICE_API Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    const Batch& operator*() const;
    Iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const noexcept;

   private:
    friend class DataLoader;
    struct Epoch;
    explicit Iterator(std::shared_ptr<Epoch> epoch) : epoch_(std::move(epoch)) {}
    std::shared_ptr<Epoch> epoch_;
  };

  /// Starts an epoch, on the current engine. Does not wait.
  Iterator begin();
  std::default_sentinel_t end() const noexcept { return {}; }

  /// Batches of the next epoch.
  std::int64_t size() const noexcept;
  /// Samples of the dataset.
  std::int64_t num_samples() const noexcept { return num_samples_; }

 private:
  std::vector<std::int64_t> next_order();

  std::shared_ptr<const detail::AnyDataset> dataset_;
  DataLoaderOptions options_;
  std::int64_t num_samples_;
  std::int64_t epochs_ = 0;
  std::vector<std::int64_t> carried_;  // "rollover": what the last epoch left
};

}  // namespace sluice::gluon::data
