#include <sluice/operator/memory_order.h>

namespace sluice::detail {

Shape ordered_strides(const Shape& shape, MemoryOrder order) {
  Shape strides = contiguous_strides(shape);
  if (order == MemoryOrder::row_major || shape.ndim() != 4 || shape[1] <= 1 || shape[2] * shape[3] <= 1)
    return strides;
  strides[1] = 1;
  strides[3] = shape[1];
  strides[2] = shape[3] * shape[1];
  return strides;
}

bool is_in_order(const Shape& shape, const Shape& strides, MemoryOrder order) {
  const Shape wanted = ordered_strides(shape, order);
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    if (shape[axis] > 1 && strides[axis] != wanted[axis])
      return false;
  }
  return true;
}

MemoryOrder order_of(const Shape& shape, const Shape& strides) {
  const bool last = shape.ndim() == 4 && shape[1] > 1 && strides[1] == 1 && shape.size() > 0 &&
                    is_in_order(shape, strides, MemoryOrder::channels_last) &&
                    !is_in_order(shape, strides, MemoryOrder::row_major);
  return last ? MemoryOrder::channels_last : MemoryOrder::row_major;
}

}  // namespace sluice::detail
