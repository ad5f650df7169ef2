#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/engine/error.h>
#include <sluice/engine/export.h>
#include <sluice/ndarray/dtype.h>
#include <sluice/ndarray/shape.h>
#include <sluice/operator/operator.h>

namespace sluice::gluon::data {

/// One array of a sample: row by row in host memory, which its copies share.
class SLUICE_API HostArray {
 public:
  /// No array: shape (0), no memory.
  HostArray() = default;
  /// New memory, not set. Throws ShapeError for extents that cannot be.
  explicit HostArray(ArraySpec spec);
  /// What lies at `data`, only to be read; a shared_ptr of whoever owns it with the address of the first element.
  /// Throws ValueError for no memory where there are elements.
  HostArray(ArraySpec spec, std::shared_ptr<const void> data);
  /// A copy of values. Throws ShapeError unless shape.size() is their number.
  template <class T>
  HostArray(const std::vector<T>& values, Shape shape) : HostArray(ArraySpec{.shape = shape, .dtype = dtype_of<T>}) {
    require<ShapeError>(static_cast<std::int64_t>(values.size()) == shape.size(), [&] {
      return sluice::message("HostArray: ", values.size(), " values do not fill ", shape);
    });
    std::copy(values.begin(), values.end(), writable<T>());
  }
  /// One value, of shape ().
  template <class T>
  static HostArray scalar(T value) {
    return HostArray(std::vector<T>{value}, {});
  }

  const ArraySpec& spec() const noexcept { return spec_; }
  const Shape& shape() const noexcept { return spec_.shape; }
  DType dtype() const noexcept { return spec_.dtype; }
  std::int64_t size() const noexcept { return spec_.shape.size(); }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(size()) * size_of(spec_.dtype); }
  const void* data() const noexcept { return data_.get(); }

  /// The elements. Throws DTypeError if they are not of type T.
  template <class T>
  const T* as() const {
    check_type(dtype_of<T>);
    return static_cast<const T*>(data_.get());
  }
  /// The same to be written to: a copy first, if others have this memory too. Throws DTypeError.
  template <class T>
  T* writable() {
    check_type(dtype_of<T>);
    return static_cast<T*>(own());
  }
  /// The only element. Throws DTypeError, and ShapeError if there are more or none.
  template <class T>
  T item() const {
    require<ShapeError>(size() == 1, [&] { return sluice::message("HostArray: item of shape ", shape()); });
    return *as<T>();
  }
  /// As transforms take it. Writing through the view of an array that was made with memory of its own is allowed while
  /// nobody else has it.
  TensorView view() const;

 private:
  void check_type(DType asked) const;
  void* own();

  ArraySpec spec_ = {.shape = {0}};
  std::shared_ptr<const void> data_;
  bool made_ = false;  // of new memory, which may be written
};

/// What a dataset has under one index: data and label, or one array, or more than two.
using Sample = std::vector<HostArray>;

/// The random numbers of one sample in one epoch: a stream of Philox4x32-10 of its own. They follow from the loader's
/// seed (or the engine's generator), the epoch and the sample's place in it alone: not from who makes the sample, nor
/// from what was made before. A chain of transforms draws from one of these in turn.
class SLUICE_API SampleRandom {
 public:
  /// Of the sample at `place` of the epoch that `epoch` stands for.
  explicit SampleRandom(const RandomBlock& epoch = {}, std::uint64_t place = 0) noexcept;

  std::uint64_t bits() noexcept;
  /// [0, 1), multiples of 2^-53.
  double uniform() noexcept;
  /// [low, high); low if they are equal.
  double uniform(double low, double high) noexcept;
  /// Of mean 0 and deviation 1.
  double normal() noexcept;
  /// One of low .. high - 1. Throws ValueError unless low < high.
  std::int64_t integer(std::int64_t low, std::int64_t high);
  /// True with probability p.
  bool chance(double p) noexcept { return uniform() < p; }

 private:
  std::uint64_t key_, place_, taken_ = 0;
};

/// A sample to be read, and the random numbers for it. Whoever reads may change both.
struct Pick {
  std::int64_t index = 0;
  SampleRandom random = SampleRandom();
};

}  // namespace sluice::gluon::data
