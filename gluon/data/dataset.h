#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/data/any_dataset.h>
#include <sluice/gluon/data/sample.h>
#include <sluice/gluon/data/sampler.h>
#include <sluice/gluon/data/transform.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

/// Datasets, transforms and the loader that makes batches of them on worker threads.
namespace sluice::gluon::data {

template <class D, class T>
class Transformed;

/// Gives a dataset `D` what Gluon's datasets have.
template <class D>
class Transformable {
 public:
  /// This dataset with `transform` applied to the first array, the data, of each sample as it is read (Gluon's
  /// transform_first): a SampleTransform, or a function as AnyDataset::transform_first() takes it. Throws what the
  /// transform says of the dataset's shape or type, where all samples have the same.
  template <class T>
  auto transform_first(T transform) const {
    if constexpr (detail::FixedDataset<D> && SampleTransform<T>) {
      return Transformed<D, T>(self(), std::move(transform));
    } else {
      return AnyDataset(self()).transform_first(std::move(transform));
    }
  }
  /// See AnyDataset::transform().
  template <class F>
  AnyDataset transform(F function) const {
    return AnyDataset(self()).transform(std::move(function));
  }
  /// See AnyDataset::take(), shard(), filter() and sample().
  AnyDataset take(std::int64_t count) const { return AnyDataset(self()).take(count); }
  AnyDataset shard(std::int64_t num_shards, std::int64_t index) const {
    return AnyDataset(self()).shard(num_shards, index);
  }
  AnyDataset filter(const std::function<bool(const Sample&)>& holds) const { return AnyDataset(self()).filter(holds); }
  AnyDataset sample(const Sampler& sampler, std::optional<std::uint64_t> seed = {}) const {
    return AnyDataset(self()).sample(sampler, seed);
  }

 private:
  const D& self() const { return static_cast<const D&>(*this); }
};

/// A dataset of samples of one shape whose data goes through a transform.
template <class D, class T>
class Transformed : public Transformable<Transformed<D, T>> {
 public:
  Transformed(D dataset, T transform)
      : dataset_(std::move(dataset)), transform_(std::move(transform)), specs_(detail::specs_of(dataset_)) {
    in_ = detail::spec_at(specs_, 0);
    specs_[0] = transform_.output_spec(in_);
  }

  std::int64_t size() const { return dataset_.size(); }
  std::vector<ArraySpec> specs() const { return specs_; }
  ArraySpec data_spec() const { return specs_[0]; }
  ArraySpec label_spec() const { return detail::spec_at(specs_, 1); }
  std::vector<NDArray> sources() const {
    if constexpr (requires { dataset_.sources(); }) {
      return dataset_.sources();
    } else {
      return {};
    }
  }
  bool is_random() const {
    if constexpr (requires { dataset_.is_random(); }) {
      return RandomTransform<T> || dataset_.is_random();
    } else {
      return RandomTransform<T>;
    }
  }

  void read(std::span<Pick> picks, std::span<const TensorView> out) const {
    const std::size_t row_bytes = detail::bytes_of(in_);
    std::vector<std::byte> scratch;
    std::vector<const void*> rows(picks.size());
    if constexpr (detail::PairDataset<D> && requires(std::int64_t i) { dataset_.data_row(i); }) {
      for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i] = dataset_.data_row(picks[i].index);
      dataset_.read_labels(detail::indices_of(picks), out[1]);
    } else {
      scratch.resize(picks.size() * row_bytes);
      std::vector<TensorView> between(out.begin(), out.end());
      between[0] = detail::batch_view(scratch.data(), picks.size(), in_);
      detail::read_picks(dataset_, picks, between);
      for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i] = scratch.data() + i * row_bytes;
    }
    apply_to_batch(transform_, rows, in_, out[0], picks);
  }

 private:
  D dataset_;
  T transform_;
  std::vector<ArraySpec> specs_;  // of the samples that it gives
  ArraySpec in_;                  // of the data that the transform takes
};

/// Samples that are the slices of arrays along their first axis (Gluon's ArrayDataset): one array, data and label, or
/// more. Arrays on a GPU are copied to the host once; others are shared, and later writes to them are seen in order.
/// Nothing waits.
class SLUICE_API ArrayDataset : public Transformable<ArrayDataset> {
 public:
  /// Throws ShapeError unless both have a first axis of one extent.
  ArrayDataset(const NDArray& data, const NDArray& label) : ArrayDataset(std::vector<NDArray>{data, label}) {}
  /// The same of any number of arrays. Throws ValueError for none.
  explicit ArrayDataset(const std::vector<NDArray>& arrays);
  ArrayDataset(std::initializer_list<NDArray> arrays) : ArrayDataset(std::vector<NDArray>(arrays)) {}

  std::int64_t size() const { return arrays_[0].shape()[0]; }
  std::vector<ArraySpec> specs() const;
  ArraySpec data_spec() const { return specs()[0]; }
  /// Throws ValueError where there is one array only.
  ArraySpec label_spec() const;
  std::vector<NDArray> sources() const { return arrays_; }
  void read(std::span<const std::int64_t> indices, std::span<const TensorView> out) const;

 private:
  std::vector<NDArray> arrays_;  // contiguous, on the CPU
};

}  // namespace sluice::gluon::data
