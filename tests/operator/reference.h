#pragma once

// Arrays as doubles with plain loops: what kernels are compared with.
#include <cstdint>
#include <functional>
#include <vector>

#include <sluice/ndarray/api.h>

namespace sluice::test {

inline const std::vector<DType>& all_dtypes() {
  static const std::vector<DType> types = {
      DType::bool_, uint8, int8, int32, int64, float16, bfloat16, float32, float64, int16, uint16, uint32, uint64};
  return types;
}

inline const std::vector<DType>& floating_dtypes() {
  static const std::vector<DType> types = {float16, bfloat16, float32, float64};
  return types;
}

/// Row-major doubles.
struct Dense {
  Shape shape;
  std::vector<double> values;

  explicit Dense(const NDArray& array) : shape(array.shape()), values(array.to_vector<double>()) {}
  Dense(const Shape& extents, double value) : shape(extents), values(static_cast<std::size_t>(extents.size()), value) {}

  NDArray array(DType dtype = float64, Device device = cpu()) const {
    return from_values(
        values.data(), float64, static_cast<std::int64_t>(values.size()), shape, {.dtype = dtype, .device = device});
  }
};

/// The index of row-major element `linear` of `shape`.
inline std::vector<std::int64_t> unravel(const Shape& shape, std::int64_t linear) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.ndim()));
  for (int axis = shape.ndim() - 1; axis >= 0; --axis) {
    index[static_cast<std::size_t>(axis)] = linear % shape[axis];
    linear /= shape[axis];
  }
  return index;
}

inline std::int64_t ravel(const Shape& shape, const std::vector<std::int64_t>& index) {
  std::int64_t linear = 0;
  for (int axis = 0; axis < shape.ndim(); ++axis)
    linear = linear * shape[axis] + index[static_cast<std::size_t>(axis)];
  return linear;
}

/// Folds x over `axes` (not negative), keeping them as 1: join(so far, element).
inline Dense fold(
    const Dense& x, const std::vector<int>& axes, double start, const std::function<double(double, double)>& join) {
  Shape kept = x.shape;
  for (int axis : axes)
    kept[axis] = 1;
  Dense result(kept, start);
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    auto index = unravel(x.shape, static_cast<std::int64_t>(i));
    for (int axis : axes)
      index[static_cast<std::size_t>(axis)] = 0;
    double& total = result.values[static_cast<std::size_t>(ravel(kept, index))];
    total = join(total, x.values[i]);
  }
  return result;
}

}  // namespace sluice::test
