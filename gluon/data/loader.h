#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <sluice/engine/device.h>
#include <sluice/engine/engine.h>
#include <sluice/engine/error.h>
#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
#include <sluice/gluon/data/any_dataset.h>
#include <sluice/gluon/data/batchify.h>
#include <sluice/gluon/data/dataset.h>
#include <sluice/gluon/data/sampler.h>
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
  /// Of the shuffling, of a random sampler and of random transforms: same seed, same order and numbers in every epoch
  /// of the same number. Otherwise the engine's generator.
  std::optional<std::uint64_t> seed = {};
  /// Which samples an epoch has and in what order; not with `shuffle`, which is a RandomSampler.
  std::optional<Sampler> sampler = {};
  /// Which batches it has; not with batch_size, shuffle, sampler and last_batch.
  std::optional<BatchSampler> batch_sampler = {};
  /// Makes the arrays of a batch from samples that have no shape in common: batchify::Pad, say. Nobody knows their
  /// shapes beforehand, so `*iterator` waits for the batch, which was begun `prefetch` batches before.
  batchify::Function batchify = {};
  /// In the place of a sample that cannot be read stands the next sound one of the epoch's order (after the last the
  /// first), so that batches are full and nobody waits; figures() counts them, corrupt_samples() names them. Corrupt is
  /// what throws FileError, ValueError, ShapeError, DTypeError or std::runtime_error. An epoch is no longer a visit to
  /// each sample once. More than 1000 in a row are an error all the same.
  bool skip_corrupt = false;
  /// Seconds, 0 for as long as it takes. Otherwise `*iterator` waits for the batch to be made, so long at most: then it
  /// throws LoaderTimeout, and may be asked again; the iterator can be destroyed or go on, while the source hangs. Not
  /// within a task, which would keep the worker that is to make the batch.
  double timeout = 0;
};

/// A batch was not made within DataLoaderOptions::timeout.
class SLUICE_API LoaderTimeout : public Error {
 public:
  LoaderTimeout(std::string message, std::int64_t batch) : Error(std::move(message)), batch_(batch) {}
  /// Its place in the epoch, counted from 0.
  std::int64_t batch() const noexcept { return batch_; }

 private:
  std::int64_t batch_;
};

/// What a loader has done so far.
struct DataLoaderFigures {
  std::int64_t batches = 0, samples = 0;  // that iteration has reached
  double seconds = 0;  // within epochs, from begin() to the last ++, and until all that it reached was made
  /// In which a batch that iteration had reached was still being made: what the program lost if it used it at once.
  double waited_seconds = 0;
  double worked_seconds = 0;  // of the tasks that make batches, added up
  std::int64_t corrupt = 0;   // different samples that could not be read
  std::int64_t replaced = 0;  // places in batches that others stand in

  double samples_per_second() const noexcept { return seconds > 0 ? static_cast<double>(samples) / seconds : 0; }
};

/// A sample that could not be read.
struct CorruptSample {
  std::int64_t index = 0;
  std::string error = {};  // of the first 1000
};
namespace detail {
class Ledger;

/// Batches that an iterator has reached; a copy has what it had, however far the iterator goes.
class SharedPosition {
 public:
  SharedPosition() = default;
  explicit SharedPosition(std::shared_ptr<const std::int64_t> of) : of_(std::move(of)) {}
  SharedPosition(const SharedPosition& other)
      : of_(other.of_ == nullptr ? nullptr : std::make_shared<const std::int64_t>(*other.of_)) {}
  SharedPosition(SharedPosition&&) noexcept = default;
  SharedPosition& operator=(SharedPosition other) noexcept {
    of_ = std::move(other.of_);
    return *this;
  }

  std::optional<std::int64_t> get() const {
    return of_ == nullptr ? std::optional<std::int64_t>() : std::optional(*of_);
  }

 private:
  std::shared_ptr<const std::int64_t> of_;
};

}  // namespace detail

/// One batch: the samples' data (n, ...) and labels (n, ...), on the loader's device. `auto [x, y] = batch` takes these
/// two, and throws ValueError where there are more: all of those gives arrays(). Samples of one array have no label.
struct Batch {
  NDArray data = {};
  NDArray label = {};
  std::vector<NDArray> more = {};
  std::size_t count = 2;  // arrays

  /// Array i of the samples: 0 is data, 1 label. Throws IndexError.
  const NDArray& operator[](std::size_t i) const {
    require<IndexError>(i < count, [&] { return message("Batch: there is no array ", i, ", there are ", count); });
    return i == 0 ? data : i == 1 ? label : more[i - 2];
  }
  /// All of N arrays: `auto [x, y, z] = batch.arrays<3>()`. Throws ValueError if there are not N.
  template <std::size_t N>
  std::array<NDArray, N> arrays() const {
    require(N == count, [&] { return message("Batch: asked for ", N, " arrays, there are ", count); });
    std::array<NDArray, N> all;
    for (std::size_t i = 0; i < N; ++i)
      all[i] = (*this)[i];
    return all;
  }

  template <std::size_t I>
  const NDArray& get() const& {
    check_pair();
    return I == 0 ? data : label;
  }
  template <std::size_t I>
  NDArray& get() & {
    check_pair();
    return I == 0 ? data : label;
  }
  template <std::size_t I>
  NDArray&& get() && {
    check_pair();
    return std::move(I == 0 ? data : label);
  }
  /// Throws ValueError where there is more than data and labels.
  void check_pair() const {
    require(count <= 2 && more.empty(), [&] {
      const std::size_t all = std::max(count, 2 + more.size());
      return message(
          "this batch has ", all, " arrays, and [x, y] are two; auto [x, .., y] = batch.arrays<", all, ">() takes all");
    });
  }
};

/// Where a DataLoader stands: all that another loader of the same dataset and options needs to go on from there.
struct DataLoaderState {
  std::int64_t num_samples = 0, batch_size = 0;
  bool shuffle = false;
  std::string last_batch = {};
  std::int64_t epochs = 0;    // begun so far
  std::int64_t position = 0;  // batches of the last one that iteration has reached, the one it stands on included
  RandomBlock order = {};     // what its shuffling and random transforms follow from
  std::vector<std::int64_t> carried = {};  // "rollover": the samples that it began with
};

/// Makes batches of a dataset: `for (auto [x, y] : loader)` is one epoch. Each batch is a task on a worker thread;
/// for a GPU it is assembled in page-locked memory and copied over on a copy stream, while the batch before it is
/// computed with. Iterating never waits (but see batchify and timeout of DataLoaderOptions): what a dataset or
/// transform throws surfaces where the batch is used. An epoch may be left early; what was prepared is dropped. Errors
/// name the batch, the sample and the line on which the loader was made. Same seed, same batches, with any number of
/// workers.
class SLUICE_API DataLoader {
 public:
  /// Where samples have shapes of their own (a dataset's sample_at(), functions as transforms) it reads the first one,
  /// waiting for the arrays that it is made of, to learn what shape all are to have; the first of 16 that can be read.
  /// Throws ValueError for options out of range and for an empty dataset, what reading those 16 throws.
  template <class D>
  requires(!std::same_as<D, DataLoader> && (std::same_as<D, AnyDataset> || Dataset<D>))  // in this order: else copying
      explicit DataLoader(D dataset, DataLoaderOptions options = {}, SourceLocation site = SourceLocation::current())
      : DataLoader(AnyDataset(std::move(dataset)).node(), std::move(options), site) {}  // a loader asks for itself
  DataLoader(
      std::shared_ptr<const detail::DatasetNode> dataset,
      DataLoaderOptions options,
      SourceLocation site = SourceLocation::current());

  class SLUICE_API Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    /// The batch. Waits for it where `batchify` makes it, and throws what making it threw; later batches are not
    /// touched by that. With a `timeout` it waits for any, and throws LoaderTimeout.
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

  /// What it has done so far; copies of a loader count together. Waits for nobody.
  DataLoaderFigures figures() const;
  /// The samples that could not be read, by index, where skip_corrupt lets them be.
  std::vector<CorruptSample> corrupt_samples() const;

  /// Where the epoch stands that was begun last: to be asked in the loop over it or after it, not during `++`.
  DataLoaderState state() const;
  /// Goes on from state(): the next epoch consists of the batches that were left of that one, or is the one after it
  /// if none was. With the engine's random numbers where they were too (Engine::set_random_state) all later epochs
  /// are as they would have been. Throws ValueError, naming both values, for the state of a loader of another number
  /// of samples or other options, or one that cannot be.
  void load_state(const DataLoaderState& state);

 private:
  void check_options();
  void check_state(const DataLoaderState& state) const;
  bool draws() const noexcept;

  std::shared_ptr<const detail::DatasetNode> dataset_;
  std::vector<ArraySpec> specs_;  // of a sample's arrays
  std::shared_ptr<detail::Ledger> ledger_;
  DataLoaderOptions options_;  // batch_sampler is there, whatever the user said
  SourceLocation site_;        // where it was made
  std::int64_t num_samples_;
  std::int64_t epochs_ = 0;
  std::vector<std::int64_t> carried_;  // "rollover": what the last epoch left
  DataLoaderState begun_;              // the last epoch as it began
  detail::SharedPosition position_;    // in it; shared with its iterators
  bool resumed_ = false;               // begun_ is to be gone on with
};

}  // namespace sluice::gluon::data

// A batch falls into data and label: `auto [x, y] = batch`.
template <>
struct std::tuple_size<sluice::gluon::data::Batch> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, sluice::gluon::data::Batch> {
  using type = sluice::NDArray;
};
