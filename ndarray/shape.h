#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/engine/export.h>

namespace sluice {

inline constexpr int k_max_ndim = 8;

/// A short list of int64, in place: the extents of an array, its strides (in elements), or axes. At most k_max_ndim
/// entries; more throws ShapeError.
class SLUICE_API Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims);
  explicit Shape(const std::vector<std::int64_t>& dims) : Shape(std::span(dims)) {}
  /// `ndim` entries of `value`.
  static Shape filled(int ndim, std::int64_t value);

  int ndim() const noexcept { return ndim_; }
  bool empty() const noexcept { return ndim_ == 0; }
  /// Entry `axis`, which must be there: nothing is checked, and negative axes are not taken. at() does both.
  std::int64_t operator[](int axis) const noexcept { return dims_[axis]; }
  std::int64_t& operator[](int axis) noexcept { return dims_[axis]; }
  /// Entry `axis`, from the back where it is negative: at(-1) is NumPy's shape[-1]. Throws IndexError.
  std::int64_t at(int axis) const;
  const std::int64_t* begin() const noexcept { return dims_; }
  const std::int64_t* end() const noexcept { return dims_ + ndim_; }
  std::int64_t back() const noexcept { return dims_[ndim_ - 1]; }

  /// Product of the entries; 1 for none. Throws ShapeError on overflow.
  std::int64_t size() const {
    std::int64_t product = 1;
    bool overflows = false;
    for (int axis = 0; axis < ndim_; ++axis)
      overflows |= __builtin_mul_overflow(product, dims_[axis], &product);
    return overflows ? size_of_many() : product;
  }
  void push_back(std::int64_t dim);
  void insert(int axis, std::int64_t dim);
  void erase(int axis) noexcept;

  bool operator==(const Shape& other) const noexcept {
    bool same = ndim_ == other.ndim_;
    for (int axis = 0; same && axis < ndim_; ++axis)
      same = dims_[axis] == other.dims_[axis];
    return same;
  }

 private:
  std::int64_t size_of_many() const;

  std::int64_t dims_[k_max_ndim] = {};
  int ndim_ = 0;
};

/// "(2, 3)", "(4,)", "()", as NumPy prints a shape.
SLUICE_API std::ostream& operator<<(std::ostream& out, const Shape& shape);
SLUICE_API std::string to_string(const Shape& shape);

/// Strides, in elements, of a row-major array without gaps.
SLUICE_API Shape contiguous_strides(const Shape& shape);
/// NumPy's broadcasting: the shape that both stretch to. Throws ShapeError naming `op` and both shapes.
SLUICE_API Shape broadcast_shape(const Shape& a, const Shape& b, const char* op);
/// Strides of an array of `shape` and `strides` stretched to `target`: 0 along stretched axes. Throws ShapeError.
SLUICE_API Shape broadcast_strides(const Shape& shape, const Shape& strides, const Shape& target, const char* op);
/// -ndim <= axis < ndim becomes 0 <= axis < ndim. Throws IndexError naming `op`.
SLUICE_API int normal_axis(std::int64_t axis, int ndim, const char* op);

}  // namespace sluice
