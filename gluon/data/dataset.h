#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/engine/export.h>
#include <sluice/gluon/data/transform.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

/// Datasets, transforms and the loader that makes batches of them on worker threads.
namespace sluice::gluon::data {

/// A sequence of samples, each a data array and a label array of fixed shape and type, read on worker threads:
///  - `size()`: how many samples;
///  - `data_spec()`, `label_spec()`: shape and type of one sample's data and label;
///  - `read(indices, data, label)`: writes the samples named by `indices` (all within [0, size())) one after the
///    other into contiguous host memory; const, callable from several threads at once; what it throws surfaces
///    where the batch is used.
/// A dataset is copied into its loader, so it should be a cheap handle on what it holds. It may also have
/// `sources()`, the CPU arrays that read() reads, for the engine to order; and `data_row(i)`, the address of a
/// sample's data where that lies in memory, with `read_labels(indices, label)`: this saves transforms a copy.
template <class D>
concept Dataset = std::copy_constructible<D> &&
    requires(const D& dataset, std::span<const std::int64_t> indices, const TensorView& out) {
  { dataset.size() } -> std::convertible_to<std::int64_t>;
  { dataset.data_spec() } -> std::convertible_to<ArraySpec>;
  { dataset.label_spec() } -> std::convertible_to<ArraySpec>;
  dataset.read(indices, out, out);
};

template <class D, class T>
class Transformed;

/// Gives a dataset `D` the member transform_first().
template <class D>
class Transformable {
 public:
  /// This dataset with `transform` applied to the data of each sample as it is read (Gluon's transform_first).
  /// Throws what the transform says of the dataset's shape or type.
  template <SampleTransform T>
  Transformed<D, T> transform_first(T transform) const {
    return Transformed<D, T>(static_cast<const D&>(*this), std::move(transform));
  }
};

/// A dataset whose data goes through a transform.
template <class D, class T>
class Transformed : public Transformable<Transformed<D, T>> {
 public:
  Transformed(D dataset, T transform)
      : dataset_(std::move(dataset)),
        transform_(std::move(transform)),
        in_(dataset_.data_spec()),
        out_(transform_.output_spec(in_)) {}

  std::int64_t size() const { return dataset_.size(); }
  ArraySpec data_spec() const { return out_; }
  ArraySpec label_spec() const { return dataset_.label_spec(); }
  std::vector<NDArray> sources() const {
    if constexpr (requires { dataset_.sources(); }) {
      return dataset_.sources();
    } else {
      return {};
    }
  }

  void read(std::span<const std::int64_t> indices, const TensorView& data, const TensorView& label) const {
    const std::size_t row_bytes = detail::bytes_of(in_);
    std::vector<std::byte> scratch;
    std::vector<const void*> rows(indices.size());
    if constexpr (requires(std::int64_t i) { dataset_.data_row(i); }) {
      for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i] = dataset_.data_row(indices[i]);
      dataset_.read_labels(indices, label);
    } else {
      scratch.resize(indices.size() * row_bytes);
      dataset_.read(indices, detail::batch_view(scratch.data(), indices.size(), in_), label);
      for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i] = scratch.data() + i * row_bytes;
    }
    apply_to_batch(transform_, rows, in_, data);
  }

 private:
  D dataset_;
  T transform_;
  ArraySpec in_, out_;
};

/// Samples that are the slices of two arrays along their first axis (Gluon's ArrayDataset). Arrays on a GPU are
/// copied to the host once; others are shared, and later writes to them are seen in order. Nothing waits.
class SLUICE_API ArrayDataset : public Transformable<ArrayDataset> {
 public:
  /// Throws ShapeError unless both have a first axis of one extent.
  ArrayDataset(const NDArray& data, const NDArray& label);

  std::int64_t size() const { return data_.shape()[0]; }
  ArraySpec data_spec() const;
  ArraySpec label_spec() const;
  std::vector<NDArray> sources() const { return {data_, label_}; }
  void read(std::span<const std::int64_t> indices, const TensorView& data, const TensorView& label) const;

 private:
  NDArray data_, label_;  // contiguous, on the CPU
};

namespace detail {

/// A dataset of any type behind one interface, for the loader and its tasks.
class SLUICE_API AnyDataset {
 public:
  virtual ~AnyDataset() = default;
  virtual std::int64_t size() const = 0;
  virtual ArraySpec data_spec() const = 0;
  virtual ArraySpec label_spec() const = 0;
  virtual std::vector<NDArray> sources() const = 0;
  virtual void read(std::span<const std::int64_t> indices, const TensorView& data, const TensorView& label) const = 0;
};

template <Dataset D>
class DatasetOf final : public AnyDataset {
 public:
  explicit DatasetOf(D dataset) : dataset_(std::move(dataset)) {}
  std::int64_t size() const override { return dataset_.size(); }
  ArraySpec data_spec() const override { return dataset_.data_spec(); }
  ArraySpec label_spec() const override { return dataset_.label_spec(); }
  std::vector<NDArray> sources() const override {
    if constexpr (requires { dataset_.sources(); }) {
      return dataset_.sources();
    } else {
      return {};
    }
  }
  void read(std::span<const std::int64_t> indices, const TensorView& data, const TensorView& label) const override {
    dataset_.read(indices, data, label);
  }

 private:
  D dataset_;
};

}  // namespace detail
}  // namespace sluice::gluon::data
