#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/device.h>
#include <sluice/engine/engine.h>
#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
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
  NDArray data = {};
  NDArray label = {};
};

/// Where a DataLoader stands: all that another loader of the same dataset and options needs to go on from there.
struct DataLoaderState {
  std::int64_t num_samples = 0, batch_size = 0;
  bool shuffle = false;
  std::string last_batch = {};
  std::int64_t epochs = 0;    // begun so far
  std::int64_t position = 0;  // batches of the last one that iteration has reached, the one it stands on included
  RandomBlock order = {};     // what its shuffling follows from
  std::vector<std::int64_t> carried = {};  // "rollover": the samples that it began with
};

/// Makes batches of a dataset: `for (auto [x, y] : loader)` is one epoch. Each batch is a task on a worker thread;
/// for a GPU it is assembled in page-locked memory and copied over on a copy stream, while the batch before it is
/// computed with. Iterating never waits: what a dataset or transform throws surfaces where the batch is used. An
/// epoch may be left early; what was prepared is dropped. Errors name the batch, its samples and the line on which the
/// loader was made.
class SLUICE_API DataLoader {
 public:
  /// Throws ValueError for options out of range and for an empty dataset.
  template <class D>
  requires(!std::same_as<D, DataLoader> && Dataset<D>)  // in this order: else copying a loader asks for itself
      explicit DataLoader(D dataset, DataLoaderOptions options = {}, SourceLocation site = SourceLocation::current())
      : DataLoader(
            std::shared_ptr<const detail::AnyDataset>(std::make_shared<detail::DatasetOf<D>>(std::move(dataset))),
            std::move(options),
            site) {}
  DataLoader(
      std::shared_ptr<const detail::AnyDataset> dataset,
      DataLoaderOptions options,
      SourceLocation site = SourceLocation::current());

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

  /// Batches of the next epoch; after load_state() in the midst of one, those that are left of it.
  std::int64_t size() const noexcept;
  /// Samples of the dataset.
  std::int64_t num_samples() const noexcept { return num_samples_; }

  /// Where the epoch stands that was begun last: to be asked in the loop over it or after it, not during `++`.
  DataLoaderState state() const;
  /// Goes on from state(): the next epoch consists of the batches that were left of that one, or is the one after it
  /// if none was. With the engine's random numbers where they were too (Engine::set_random_state) all later epochs
  /// are as they would have been. Throws ValueError, naming both values, for the state of a loader of another number
  /// of samples or other options, or one that cannot be.
  void load_state(const DataLoaderState& state);

 private:
  void check_options() const;
  void check_state(const DataLoaderState& state) const;
  std::vector<std::int64_t> order_of(const RandomBlock& random, std::vector<std::int64_t>& carried) const;

  std::shared_ptr<const detail::AnyDataset> dataset_;
  DataLoaderOptions options_;
  SourceLocation site_;  // where it was made
  std::int64_t num_samples_;
  std::int64_t epochs_ = 0;
  std::vector<std::int64_t> carried_;             // "rollover": what the last epoch left
  DataLoaderState begun_;                         // the last epoch as it began
  std::shared_ptr<const std::int64_t> position_;  // in it; shared with its iterators
  bool resumed_ = false;                          // begun_ is to be gone on with
};

}  // namespace sluice::gluon::data
