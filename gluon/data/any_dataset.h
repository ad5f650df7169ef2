#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/data/sample.h>
#include <sluice/gluon/data/sampler.h>
#include <sluice/gluon/data/transform.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice::gluon::data {

namespace detail {

using Indices = std::span<const std::int64_t>;
using Views = std::span<const TensorView>;

template <class D>
concept PairDataset = requires(const D& dataset, Indices indices, const TensorView& out) {
  { dataset.data_spec() } -> std::convertible_to<ArraySpec>;
  { dataset.label_spec() } -> std::convertible_to<ArraySpec>;
  dataset.read(indices, out, out);
};
template <class D>
concept ReadsIndices = requires(const D& dataset, Indices indices, Views out) {
  dataset.read(indices, out);
};
template <class D>
concept ReadsPicks = requires(const D& dataset, std::span<Pick> picks, Views out) {
  dataset.read(picks, out);
};
template <class D>
concept WritesSamples = requires(const D& dataset, std::int64_t i, Views batch_of_one) {
  dataset.write_sample(i, batch_of_one);
};
template <class D>
concept HasSpecs = requires(const D& dataset) {
  { dataset.specs() } -> std::convertible_to<std::vector<ArraySpec>>;
};
template <class D>
concept FixedDataset = PairDataset<D> ||(HasSpecs<D> && (ReadsIndices<D> || ReadsPicks<D>));
template <class D>
concept PlainSamples = requires(const D& dataset, std::int64_t i) {
  { dataset.sample_at(i) } -> std::convertible_to<Sample>;
};
template <class D>
concept RandomSamples = requires(const D& dataset, std::int64_t i, SampleRandom& random) {
  { dataset.sample_at(i, random) } -> std::convertible_to<Sample>;
};

/// A dataset of any type behind one interface, for the loader, its tasks and combinators.
class SLUICE_API DatasetNode {
 public:
  virtual ~DatasetNode() = default;
  virtual std::int64_t size() const = 0;
  /// Shapes and types of a sample's arrays; none where they are the samples' own.
  virtual std::optional<std::vector<ArraySpec>> specs() const = 0;
  /// The CPU arrays that are read, for the engine to order.
  virtual std::vector<NDArray> sources() const { return {}; }
  /// Whether samples depend on their random numbers.
  virtual bool is_random() const { return false; }
  virtual Sample sample_at(std::int64_t index, SampleRandom& random) const = 0;
  /// Writes samples one after the other into a view for each of their arrays. May change `picks`. Throws ShapeError or
  /// DTypeError for a sample that does not fit.
  virtual void read(std::span<Pick> picks, Views out) const;
};

/// Throws ShapeError and DTypeError unless array number `array` of a sample is as the batch has them.
SLUICE_API void check_fits(std::size_t array, const ArraySpec& found, const ArraySpec& wanted);
/// The same of how many arrays there are.
SLUICE_API void check_count(std::size_t found, std::size_t wanted);
/// Copies an array of a sample to its row of a batch; throws as check_fits().
SLUICE_API void write_array(std::size_t array, const HostArray& from, const TensorView& batch, std::size_t row = 0);
/// Calls `read` for each sample, with views of a batch of it alone, on idle workers too.
using ReadInto = std::function<void(Pick& pick, Views batch_of_one)>;
SLUICE_API void read_each(std::span<Pick> picks, Views out, const ReadInto& read);
/// The views of samples `first` .. `first + n - 1` of a batch.
std::vector<TensorView> part_of(Views batch, std::size_t first, std::size_t n);
/// Bytes that a sample takes in a batch.
std::size_t bytes_of_sample(Views batch);
/// One sample of a dataset of fixed shape, by its read().
SLUICE_API Sample sample_by_read(const DatasetNode& dataset, std::int64_t index, SampleRandom& random);

template <FixedDataset D>
std::vector<ArraySpec> specs_of(const D& dataset) {
  if constexpr (HasSpecs<D>) {
    return dataset.specs();
  } else {
    return {dataset.data_spec(), dataset.label_spec()};
  }
}
/// That of array i of a sample. Throws ShapeError where samples have no such array.
SLUICE_API const ArraySpec& spec_at(const std::vector<ArraySpec>& specs, std::size_t i);
SLUICE_API std::vector<std::int64_t> indices_of(std::span<const Pick> picks);
template <FixedDataset D>
void read_picks(const D& dataset, std::span<Pick> picks, Views out) {
  if constexpr (ReadsPicks<D>) {
    dataset.read(picks, out);
  } else if constexpr (ReadsIndices<D>) {
    dataset.read(Indices(indices_of(picks)), out);
  } else {
    dataset.read(Indices(indices_of(picks)), out[0], out[1]);
  }
}

template <class D>
class DatasetOf final : public DatasetNode {
 public:
  explicit DatasetOf(D dataset) : dataset_(std::move(dataset)) {}
  std::int64_t size() const override { return dataset_.size(); }
  std::optional<std::vector<ArraySpec>> specs() const override {
    if constexpr (FixedDataset<D>) {
      return specs_of(dataset_);
    } else {
      return {};
    }
  }
  std::vector<NDArray> sources() const override {
    if constexpr (requires { dataset_.sources(); }) {
      return dataset_.sources();
    } else {
      return {};
    }
  }
  bool is_random() const override {
    if constexpr (requires { dataset_.is_random(); }) {
      return dataset_.is_random();
    } else {
      return RandomSamples<D>;
    }
  }
  Sample sample_at(std::int64_t index, SampleRandom& random) const override {
    if constexpr (RandomSamples<D>) {
      return dataset_.sample_at(index, random);
    } else if constexpr (PlainSamples<D>) {
      return dataset_.sample_at(index);
    } else {
      return sample_by_read(*this, index, random);
    }
  }
  void read(std::span<Pick> picks, Views out) const override {
    if constexpr (FixedDataset<D>) {
      read_picks(dataset_, picks, out);
    } else if constexpr (WritesSamples<D>) {
      read_each(picks, out, [this](Pick& pick, Views to) { dataset_.write_sample(pick.index, to); });
    } else {
      DatasetNode::read(picks, out);
    }
  }

 private:
  D dataset_;
};

/// A transform of any type behind one interface.
struct SLUICE_API TransformNode {
  virtual ~TransformNode() = default;
  virtual ArraySpec output_spec(const ArraySpec& in) const = 0;
  virtual void apply(const TensorView& in, const TensorView& out, SampleRandom& random) const = 0;
  virtual bool is_random() const = 0;
};
template <SampleTransform T>
struct TransformOf final : TransformNode {
  explicit TransformOf(T from) : transform(std::move(from)) {}
  ArraySpec output_spec(const ArraySpec& in) const override { return transform.output_spec(in); }
  void apply(const TensorView& in, const TensorView& out, SampleRandom& random) const override {
    apply_transform(transform, in, out, random);
  }
  bool is_random() const override { return RandomTransform<T>; }
  T transform;
};

/// What a function of the user's makes of something, with random numbers or without.
template <class In, class Out>
struct Mapping {
  std::function<Out(const In&, SampleRandom&)> call;
  bool is_random = false;
};
template <class In, class Out, class F>
concept Maps = std::is_invocable_r_v<Out, F, const In&> || std::is_invocable_r_v<Out, F, const In&, SampleRandom&>;
template <class In, class Out, class F>
Mapping<In, Out> mapping_of(F function) {
  if constexpr (std::is_invocable_r_v<Out, F, const In&, SampleRandom&>) {
    return {std::move(function), true};
  } else {
    return {[function = std::move(function)](const In& in, SampleRandom&) -> Out { return function(in); }, false};
  }
}

}  // namespace detail

/// A sequence of samples, read on worker threads: `size()` says how many, and either
///  - all have the same arrays: `specs()` gives shape and type of each, and `read(indices, out)` writes the samples
///    named by `indices` (all within [0, size())) one after the other into a contiguous view of host memory for each
///    array, `std::span<const TensorView> out`. For samples of data and label alone these may be `data_spec()`,
///    `label_spec()` and `read(indices, data, label)`;
///  - or each has arrays of its own: `sample_at(index)` gives a Sample; `sample_at(index, random)` if it draws random
///    numbers. A transform or batchify function brings such samples to one shape.
/// Reading is const and is done from several threads at once; what it throws surfaces where the batch is used. A
/// dataset is copied into its loader, so it should be a cheap handle on what it holds. It may also have `sources()`,
/// the CPU arrays that it reads, for the engine to order; and, beside `data_spec()`, `data_row(i)`, the address of a
/// sample's data where that lies in memory, with `read_labels(indices, label)`: this saves transforms a copy. Deriving
/// from Transformable gives it the members that Gluon's datasets have.
template <class D>
concept Dataset = std::copy_constructible<D> && requires(const D& dataset) {
  { dataset.size() } -> std::convertible_to<std::int64_t>;
} &&(detail::FixedDataset<D> || detail::PlainSamples<D> || detail::RandomSamples<D>);

/// Any dataset behind one type: what the combinators give. Copies share it.
class SLUICE_API AnyDataset {
 public:
  template <class D>
  requires(!std::same_as<D, AnyDataset> && Dataset<D>)  // in this order: else copying asks for itself
      AnyDataset(D dataset)                             // NOLINT: every dataset is one
      : node_(std::make_shared<detail::DatasetOf<D>>(std::move(dataset))) {}
  /// Throws ValueError for null.
  explicit AnyDataset(std::shared_ptr<const detail::DatasetNode> node);

  std::int64_t size() const { return node_->size(); }
  /// Sample `index`, read by the caller, who waits for arrays that are still being written. Random transforms draw
  /// from `random`. Throws IndexError, and what reading throws.
  Sample operator[](std::int64_t index) const { return sample_at(index); }
  Sample sample_at(std::int64_t index, SampleRandom random) const;
  /// With random numbers that are the index's own.
  Sample sample_at(std::int64_t index) const {
    return sample_at(index, SampleRandom({}, static_cast<std::uint64_t>(index)));
  }

  /// The dataset with `transform` applied to the first array of each sample as it is read (Gluon's transform_first): a
  /// SampleTransform, or a function of a HostArray, or of that and a SampleRandom&, that gives a HostArray.
  template <class T>
  AnyDataset transform_first(T transform) const {
    if constexpr (SampleTransform<T>) {
      return with_first(std::make_shared<detail::TransformOf<T>>(std::move(transform)));
    } else {
      static_assert(detail::Maps<HostArray, HostArray, T>, "transform_first takes a HostArray and gives one");
      return with_first(detail::mapping_of<HostArray, HostArray>(std::move(transform)));
    }
  }
  /// The dataset with `function` applied to each sample as it is read: of a Sample, or of that and a SampleRandom&,
  /// that gives a Sample.
  template <class F>
  AnyDataset transform(F function) const {
    static_assert(detail::Maps<Sample, Sample, F>, "transform takes a Sample and gives one");
    return with_all(detail::mapping_of<Sample, Sample>(std::move(function)));
  }

  /// The first `count` samples, or all if there are not as many. Throws ValueError for a negative number.
  AnyDataset take(std::int64_t count) const;
  /// The part `index` of `num_shards` parts in a row, of equal size, the first ones one more where it does not come out
  /// even. Throws ValueError unless 0 <= index < num_shards.
  AnyDataset shard(std::int64_t num_shards, std::int64_t index) const;
  /// The samples of which `holds` is true; the caller reads all at once to find them, see FilterSampler.
  AnyDataset filter(const std::function<bool(const Sample&)>& holds) const;
  /// The samples that a sampler names, in its order, which is drawn once: from `seed`, or else by the engine's
  /// generator. Throws IndexError for one that there is not.
  AnyDataset sample(const Sampler& sampler, std::optional<std::uint64_t> seed = {}) const;

  const std::shared_ptr<const detail::DatasetNode>& node() const noexcept { return node_; }

 private:
  AnyDataset with_first(std::shared_ptr<const detail::TransformNode> transform) const;
  AnyDataset with_first(detail::Mapping<HostArray, HostArray> function) const;
  AnyDataset with_all(detail::Mapping<Sample, Sample> function) const;

  std::shared_ptr<const detail::DatasetNode> node_;
};

/// One dataset after another. Throws ValueError for none.
SLUICE_API AnyDataset concatenate(const std::vector<AnyDataset>& datasets);
/// The dataset in parts, one after the other: fractions, which add up to 1 (each is rounded down, and what is left goes
/// one each to the first ones), or numbers of samples, which add up to the dataset's. Throws ValueError for others.
SLUICE_API std::vector<AnyDataset> split(const AnyDataset& dataset, const std::vector<double>& parts);
/// The same of the samples in a random order, which follows from `seed` alone.
SLUICE_API std::vector<AnyDataset> random_split(
    const AnyDataset& dataset, const std::vector<double>& parts, std::uint64_t seed);

}  // namespace sluice::gluon::data
