#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/nothing.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice::detail {

bool is_empty_beside_batch(const Shape& shape) noexcept {
  for (int axis = 1; axis < shape.ndim(); ++axis) {
    if (shape[axis] == 0)
      return true;
  }
  return false;
}

NDArray zeros_from(
    std::span<const NDArray> batches, std::span<const NDArray> others, Shape shape, SourceLocation site) {
  const DType dtype = batches[0].dtype();
  shape[0] = 1;
  NDArray made = zeros(shape, {.dtype = dtype, .device = batches[0].device()}, site);
  // Sums of none of their elements, which broadcast.
  const auto add_none_of = [&](const NDArray& x, int from) {
    Shape axes;
    for (int axis = from; axis < unseen_shape(x).ndim(); ++axis)
      axes.push_back(axis);
    made = add(made, sum(x.slice(from, 0, 0, 1, site), axes, from > 0, site).astype(dtype, site), site);
  };
  for (const NDArray& x : batches)
    add_none_of(x, 1);
  for (const NDArray& x : others)
    add_none_of(x, 0);
  return made;
}

}  // namespace sluice::detail
