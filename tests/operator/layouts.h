#pragma once

// The ways in which an array may lie in memory, as views of a larger or smaller one.
#include <utility>

#include <sluice/ndarray/api.h>

namespace sluice::test {

enum class Layout { dense, repeated, repeated_rows, repeated_columns, transposed, sliced, stepped, backwards };

inline constexpr std::pair<Layout, const char*> k_layouts[] = {
    {Layout::dense, "dense"},
    {Layout::repeated, "repeated"},
    {Layout::repeated_rows, "repeated rows"},
    {Layout::repeated_columns, "repeated columns"},
    {Layout::transposed, "transposed"},
    {Layout::sliced, "sliced"},
    {Layout::stepped, "stepped"},
    {Layout::backwards, "backwards"},
};

/// What an array of `shape` in that layout is a view of.
inline Shape base_shape(Layout layout, const Shape& shape) {
  Shape base = shape;
  const int last = shape.ndim() - 1;
  for (int axis = 0; axis <= last; ++axis) {
    if (layout == Layout::repeated || (layout == Layout::repeated_rows && axis == 0) ||
        (layout == Layout::repeated_columns && axis == last))
      base[axis] = 1;
    if (layout == Layout::transposed)
      base[axis] = shape[last - axis];
    if (layout == Layout::sliced || layout == Layout::backwards)
      base[axis] = shape[axis] + 2;
    if (layout == Layout::stepped)
      base[axis] = 2 * shape[axis] + 1;
  }
  return base;
}

inline NDArray view_of(Layout layout, const NDArray& base, const Shape& shape) {
  NDArray view = base;
  switch (layout) {
    case Layout::dense:
      break;
    case Layout::repeated:
    case Layout::repeated_rows:
    case Layout::repeated_columns:
      return base.broadcast_to(shape);
    case Layout::transposed:
      return base.transpose();
    case Layout::sliced:
      for (int axis = 0; axis < shape.ndim(); ++axis)
        view = view.slice(axis, 1, 1 + shape[axis]);
      break;
    case Layout::stepped:
      for (int axis = 0; axis < shape.ndim(); ++axis)
        view = view.slice(axis, 1, 1 + 2 * shape[axis], 2);
      break;
    case Layout::backwards:
      for (int axis = 0; axis < shape.ndim(); ++axis)
        view = view.slice(axis, -2, 0, -1);
      break;
  }
  return view;
}

}  // namespace sluice::test
