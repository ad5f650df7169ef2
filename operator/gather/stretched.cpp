// Operands broadcast to what others say. A call that holds an extent is one for arrays of that extent alone, so a trace
// is given calls without those of the batch, the first ones: they are taken from an array that has them.
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/gather/numbers.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::detail {

namespace {

// Without axes of extent 1 in front that are too many.
NDArray within(const NDArray& array, const Shape& shape, SourceLocation site) {
  NDArray fitting = array;
  for (int more = array.object()->shape.ndim() - shape.ndim(); more > 0; --more)
    fitting = fitting.squeeze(0, site);
  return fitting;
}

}  // namespace

void check_stretches(const Shape& given, const Shape& shape, const char* name) {
  bool fits = true;
  for (int axis = 0; axis < given.ndim(); ++axis) {
    const int at = shape.ndim() - given.ndim() + axis;
    fits = fits && (given[axis] == 1 || (at >= 0 && given[axis] == shape[at]));
  }
  require<ShapeError>(
      fits, [&] { return message(name, ": an array of shape ", given, " does not broadcast to ", shape); });
}

// Extents that stay as they are do not stand in the call: it is the same for other batches.
NDArray stretched(const NDArray& array, const Shape& shape, const char* name, SourceLocation site) {
  const Shape& given = object_of(array, name).shape;
  if (given == shape)
    return array;
  check_stretches(given, shape, name);
  const NDArray fitting = within(array, shape, site);
  const Shape& from = fitting.object()->shape;
  const int ahead = shape.ndim() - from.ndim();
  Shape to = shape;
  for (int axis = 0; axis < from.ndim(); ++axis) {
    if (from[axis] == to[ahead + axis])
      to[ahead + axis] = -1;
  }
  return from == shape ? fitting : fitting.broadcast_to(to, site);
}

bool stretches_batch(const NDArray& array, const Shape& shape, const char* name) {
  if (sink_here() == nullptr || shape.empty())
    return false;
  const Shape& given = object_of(array, name).shape;
  return given.ndim() < shape.ndim() || given[given.ndim() - shape.ndim()] != shape[0];
}

NDArray stretched_like(
    const NDArray& array, const NDArray& model, const Shape& shape, const char* name, SourceLocation site) {
  check_stretches(array.object()->shape, shape, name);
  return invoke_one(k_broadcast_like, {within(array, shape, site), model}, {}, site);
}

NDArray model_among(std::span<const NDArray> arrays, const Shape& shape, const char* name) {
  for (const NDArray& array : arrays) {
    if (const Shape& own = array.object()->shape; own.ndim() == shape.ndim() && own[0] == shape[0])
      return stretched(array, shape, name, {});
  }
  return {};
}

NDArray model_along(const NDArray& other, int axis, const Shape& shape, const char* name) {
  if (axis == 0 || other.object()->shape[axis] == 0)
    return {};
  return stretched(other.slice(axis, 0, 1), shape, name, {});
}

NDArray model_of_taken(
    const NDArray& x, const NDArray& indices, IndexKind kind, int axis, const Shape& taken, const char* name) {
  if (kind == IndexKind::along)
    return indices;
  NDArray numbers = indices;
  int axes = 1;
  if (kind == IndexKind::tuple) {
    axes = static_cast<int>(indices.object()->shape[0]);
    numbers = indices.slice(0, 0, 1).squeeze(0);
  }
  const int named = numbers.object()->shape.ndim();
  if (axis == 0) {
    while (numbers.object()->shape.ndim() < taken.ndim())
      numbers = numbers.expand_dims(numbers.object()->shape.ndim());
    return stretched(numbers, taken, name, {});
  }
  NDArray beside = x;
  for (int i = 0; i < axes; ++i) {
    if (beside.object()->shape[axis] == 0)
      return {};
    beside = beside.slice(axis, 0, 1).squeeze(axis);
  }
  for (int i = 0; i < named; ++i)
    beside = beside.expand_dims(axis);
  return stretched(beside, taken, name, {});
}

}  // namespace sluice::detail
