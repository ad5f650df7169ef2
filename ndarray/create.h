#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/storage/chunk.h>

namespace sluice {

/// Where and of what type a new array is. `pinned` asks for page-locked host memory (CPU arrays only), from and to
/// which GPUs copy while the host goes on; without a GPU there is no such memory, and the array is an ordinary one.
/// `copied_into` says that a copy from another device writes the array first: a hint for the choice of its memory, so
/// that the copy does not wait for computations.
struct ArrayOptions {
  DType dtype = float32;
  Device device = cpu();
  bool pinned = false;
  bool copied_into = false;
};

/// An array whose elements are not set, in the current engine. Throws OutOfMemory, ShapeError for a negative extent,
/// DeviceError for a device that is not there, ValueError for pinned memory of a GPU.
SLUICE_API NDArray empty(const Shape& shape, const ArrayOptions& options = {});
/// Every element `value`. Throws ValueError for a number that an integer type does not hold: 300 in uint8, 2.5.
SLUICE_API NDArray full(
    const Shape& shape,
    Scalar value,
    const ArrayOptions& options = {},
    SourceLocation site = SourceLocation::current());
SLUICE_API NDArray
zeros(const Shape& shape, const ArrayOptions& options = {}, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray
ones(const Shape& shape, const ArrayOptions& options = {}, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray empty_like(const NDArray& array);
SLUICE_API NDArray zeros_like(const NDArray& array, SourceLocation site = SourceLocation::current());
SLUICE_API NDArray ones_like(const NDArray& array, SourceLocation site = SourceLocation::current());
/// full() of the array's shape, type and device.
SLUICE_API NDArray full_like(const NDArray& array, Scalar value, SourceLocation site = SourceLocation::current());
/// start, start + step, ... < stop (numpy.arange). Throws ValueError for a step of zero and for values that are not
/// finite.
SLUICE_API NDArray arange(
    double start,
    double stop,
    double step = 1,
    const ArrayOptions& options = {},
    SourceLocation site = SourceLocation::current());
/// 0, 1, ... < stop.
inline NDArray arange(double stop, const ArrayOptions& options = {}, SourceLocation site = SourceLocation::current()) {
  return arange(0, stop, 1, options, site);
}

/// Copies host values of type `from` (row-major) into a new array, cast to options.dtype. The values may go as soon
/// as the call returns. Throws ShapeError unless shape.size() == n.
SLUICE_API NDArray from_values(
    const void* values,
    DType from,
    std::int64_t n,
    const Shape& shape,
    const ArrayOptions& options,
    SourceLocation site = SourceLocation::current());

/// An array of T from C++ values.
template <class T>
NDArray array(
    std::span<const T> values,
    const Shape& shape,
    Device device = cpu(),
    SourceLocation site = SourceLocation::current()) {
  return from_values(
      values.data(),
      dtype_of<T>,
      static_cast<std::int64_t>(values.size()),
      shape,
      {.dtype = dtype_of<T>, .device = device},
      site);
}
template <class T>
NDArray array(
    const std::vector<T>& values,
    const Shape& shape,
    Device device = cpu(),
    SourceLocation site = SourceLocation::current()) {
  return array(std::span<const T>(values), shape, device, site);
}
template <class T>
NDArray array(
    std::initializer_list<T> values,
    const Shape& shape,
    Device device = cpu(),
    SourceLocation site = SourceLocation::current()) {
  return array(std::span<const T>(values.begin(), values.size()), shape, device, site);
}
/// std::vector<bool> has no bools to point at.
inline NDArray array(
    const std::vector<bool>& values,
    const Shape& shape,
    Device device = cpu(),
    SourceLocation site = SourceLocation::current()) {
  const std::vector<std::uint8_t> bytes(values.begin(), values.end());
  return from_values(
      bytes.data(),
      DType::uint8,
      static_cast<std::int64_t>(bytes.size()),
      shape,
      {.dtype = DType::bool_, .device = device},
      site);
}
/// One-dimensional.
template <class T>
NDArray array(std::initializer_list<T> values, Device device = cpu(), SourceLocation site = SourceLocation::current()) {
  return array(values, {static_cast<std::int64_t>(values.size())}, device, site);
}
template <class T>
NDArray array(
    const std::vector<T>& values,
    Subscript::Line line = Subscript::Line(SourceLocation::current())) {  // nothing that braces become: array(v, {})
  return array(values, {static_cast<std::int64_t>(values.size())}, cpu(), line.site());
}
/// Row by row: array({{1, 2, 3}, {4, 5, 6}}). Throws ShapeError for rows of other lengths than the first.
template <class T>
NDArray array(
    std::initializer_list<std::initializer_list<T>> rows,
    Device device = cpu(),
    SourceLocation site = SourceLocation::current()) {
  return detail::located(site, [&] {
    if (rows.size() == 0)  // array<float>({}) is a row
      return array(std::initializer_list<T>(), device, site);
    const std::size_t columns = rows.begin()->size();
    std::vector<T> values;
    values.reserve(rows.size() * columns);
    for (const auto& row : rows) {
      require<ShapeError>(row.size() == columns, [&] {
        return message("array: a row has ", row.size(), " values, the first one ", columns);
      });
      values.insert(values.end(), row.begin(), row.end());
    }
    return array(values, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)}, device, site);
  });
}

// -- Calls of operators ("copy", "fill"), off the tape -------------------------------------------------------------
/// Unrecorded copy of `from` into `to`: same shape, any strides, types and devices, also where the two overlap. The
/// basis of assign() and to(). Throws ShapeError for other shapes, ValueError for a `to` that names an element twice.
SLUICE_API void copy_into(const NDArray& from, const NDArray& to, SourceLocation site = SourceLocation::current());
/// Unrecorded fill. Throws ValueError for an array that names an element twice, and for a number that an integer type
/// does not hold.
SLUICE_API void fill(const NDArray& array, Scalar value, SourceLocation site = SourceLocation::current());

}  // namespace sluice
