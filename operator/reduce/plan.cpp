#include <algorithm>

#include <sluice/operator/reduce/plan.h>

namespace sluice::detail {

namespace {
bool contains(const Shape& axes, int axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}
}  // namespace

Shape reduced_shape(const Shape& shape, const Shape& axes, bool keepdims) {
  Shape result;
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    if (!contains(axes, axis)) {
      result.push_back(shape[axis]);
    } else if (keepdims) {
      result.push_back(1);
    }
  }
  return result;
}

ReducePlan plan_reduce(const TensorView& x, const Shape& axes) {
  Shape kept, kept_strides, reduced, reduced_strides;
  for (int axis = 0; axis < x.shape.ndim(); ++axis) {
    const bool goes = contains(axes, axis);
    (goes ? reduced : kept).push_back(x.shape[axis]);
    (goes ? reduced_strides : kept_strides).push_back(x.strides[axis]);
  }
  const Shape output_strides = contiguous_strides(kept);
  return {
      plan_strided<2>(kept, {&output_strides, &kept_strides}),
      plan_strided<1>(reduced, {&reduced_strides}, AxisOrder::free)};
}

Split split_terms(std::int64_t units, std::int64_t terms, std::int64_t enough_units, std::int64_t smallest_chunk) {
  if (units >= enough_units || terms <= smallest_chunk)
    return {terms, 1};
  const std::int64_t wanted = (enough_units + units - 1) / units;
  const std::int64_t possible = (terms + smallest_chunk - 1) / smallest_chunk;
  const std::int64_t pieces = std::min(wanted, possible);
  const std::int64_t chunk = (terms + pieces - 1) / pieces;
  return {chunk, (terms + chunk - 1) / chunk};
}

}  // namespace sluice::detail
