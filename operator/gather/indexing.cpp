// Indexing as programs call it: indices that are broadcast among themselves, values beside them, masks.
#include <algorithm>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/indexed.h>
#include <sluice/operator/gather/indexing.h>
#include <sluice/operator/gather/numbers.h>
#include <sluice/operator/gather/subscripted.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/order/select.h>
#include <sluice/operator/view/attributes.h>

namespace sluice {

namespace {

using detail::GatherAttributes;
using detail::IndexKind;
using detail::Indices;
using detail::joined;
using detail::stretched;

const Shape& shape_of(const NDArray& array, const char* name) {
  return detail::object_of(array, name).shape;
}

Attributes along(int axis, IndexMode mode, const char* asked = nullptr) {
  return Attributes::of(GatherAttributes{axis, static_cast<std::int64_t>(mode), asked});
}

NDArray update_with(
    const Operator& one,
    const Operator& many,
    const NDArray& x,
    const std::vector<NDArray>& indices,
    const NDArray& values,
    int axis,
    IndexMode mode,
    SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const Indices numbers = joined(one.name, indices, site);
    return invoke_one(
        numbers.kind == IndexKind::axis ? one : many, {x, numbers.array, values}, along(axis, mode, one.name), site);
  });
}

/// The mask with as many axes as x.
NDArray mask_over(const NDArray& mask, const NDArray& x, SourceLocation site) {
  const Shape &shape = shape_of(x, "masked_fill"), &over = shape_of(mask, "masked_fill");
  require<DTypeError>(
      mask.dtype() == bool_, [&] { return message("masked_fill: a mask is bool, not ", mask.dtype()); });
  bool fits = over.ndim() <= shape.ndim();
  for (int axis = 0; fits && axis < over.ndim(); ++axis)
    fits = shape[axis] == over[axis];
  require<ShapeError>(fits, [&] { return message("masked_fill: a mask of shape ", over, " over shape ", shape); });
  NDArray wide = mask;
  for (int axis = over.ndim(); axis < shape.ndim(); ++axis)
    wide = wide.expand_dims(axis, site);
  return wide;
}

}  // namespace

// Extents that stay as they are do not stand in the call: it is the same for other batches.
NDArray detail::stretched(const NDArray& array, const Shape& shape, const char* name, SourceLocation site) {
  const Shape& given = shape_of(array, name);
  if (given == shape)
    return array;
  NDArray within = array;
  Shape from = given;
  for (; from.ndim() > shape.ndim() && from[0] == 1; from.erase(0))
    within = within.squeeze(0, site);
  const int ahead = shape.ndim() - from.ndim();
  Shape to = shape;
  bool fits = ahead >= 0;
  for (int axis = 0; axis < from.ndim() && fits; ++axis) {
    fits = from[axis] == 1 || from[axis] == to[ahead + axis];
    if (from[axis] == to[ahead + axis])
      to[ahead + axis] = -1;
  }
  require<ShapeError>(
      fits, [&] { return message(name, ": an array of shape ", given, " does not broadcast to ", shape); });
  return from == shape ? within : within.broadcast_to(to, site);
}

detail::Indices detail::joined(const char* name, const std::vector<NDArray>& indices, SourceLocation site) {
  require<ValueError>(!indices.empty(), [&] { return message(name, ": no index arrays"); });
  Shape shape;
  for (const NDArray& each : indices) {
    require<DTypeError>(is_integer(detail::object_of(each, name).dtype), [&] {
      return message(name, ": indices are of an integer type, not ", each.dtype());
    });
    shape = broadcast_shape(shape, shape_of(each, name), name);
  }
  if (indices.size() == 1)
    return {indices[0], IndexKind::axis};
  const DType first = indices[0].dtype();
  const bool alike = std::all_of(indices.begin(), indices.end(), [&](const NDArray& i) { return i.dtype() == first; });
  std::vector<NDArray> all;
  for (const NDArray& each : indices)  // what promotion makes of them might be no integers
    all.push_back(stretched(alike ? each : each.astype(int64, site), shape, name, site));
  return {stack(all, 0, site), IndexKind::tuple};
}

NDArray take(const NDArray& x, const std::vector<NDArray>& indices, int axis, IndexMode mode, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const Indices numbers = joined("take", indices, site);
    return invoke_one(
        numbers.kind == IndexKind::axis ? k_take : k_gather_nd, {x, numbers.array}, along(axis, mode, "take"), site);
  });
}

NDArray index_update(
    const NDArray& x,
    const std::vector<NDArray>& indices,
    const NDArray& values,
    int axis,
    IndexMode mode,
    SourceLocation site) {
  return update_with(k_index_update, k_index_update_nd, x, indices, values, axis, mode, site);
}

NDArray index_add(
    const NDArray& x,
    const std::vector<NDArray>& indices,
    const NDArray& values,
    int axis,
    IndexMode mode,
    SourceLocation site) {
  return update_with(k_index_add, k_index_add_nd, x, indices, values, axis, mode, site);
}

// Index arrays alone are a call that all know.
NDArray index_update(
    const NDArray& x, std::initializer_list<Subscript> at, const NDArray& values, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const auto parsed = detail::parse_subscripts("index_update", at, shape_of(x, "index_update"), site);
    if (parsed.names_first_axes())
      return index_update(x, parsed.arrays, values, 0, IndexMode::raise, site);
    return detail::put_at("index_update", x, parsed, values, site);
  });
}

NDArray index_add(const NDArray& x, std::initializer_list<Subscript> at, const NDArray& values, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const auto parsed = detail::parse_subscripts("index_add", at, shape_of(x, "index_add"), site);
    if (parsed.names_first_axes())
      return index_add(x, parsed.arrays, values, 0, IndexMode::raise, site);
    return detail::added_at(x, parsed, values, site);
  });
}

NDArray gather_nd(const NDArray& x, const NDArray& indices, IndexMode mode, SourceLocation site) {
  return invoke_one(k_gather_nd, {x, indices}, along(0, mode), site);
}

NDArray take_along_axis(const NDArray& x, const NDArray& indices, int axis, IndexMode mode, SourceLocation site) {
  return invoke_one(k_take_along_axis, {x, indices}, along(axis, mode), site);
}

NDArray put_along_axis(
    const NDArray& x, const NDArray& indices, const NDArray& values, int axis, IndexMode mode, SourceLocation site) {
  return invoke_one(k_put_along_axis, {x, indices, values}, along(axis, mode), site);
}

NDArray add_along_axis(
    const NDArray& x, const NDArray& indices, const NDArray& values, int axis, IndexMode mode, SourceLocation site) {
  return invoke_one(k_add_along_axis, {x, indices, values}, along(axis, mode), site);
}

NDArray put(const NDArray& x, const NDArray& indices, const NDArray& values, IndexMode mode, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const Shape shape = shape_of(x, "put");
    const NDArray flat = x.reshape({-1}, site);
    return invoke_one(k_index_update, {flat, indices, values}, along(0, mode, "put"), site)
        .reshape(detail::with_open_rows(shape), site);
  });
}

NDArray compress(const NDArray& condition, const NDArray& x, std::optional<int> axis, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const Shape& over = shape_of(condition, "compress");
    shape_of(x, "compress");
    require<ShapeError>(
        over.ndim() == 1, [&] { return message("compress: a condition has one axis, not shape ", over); });
    const NDArray places = nonzero(condition, site).reshape({-1}, site);
    return take(axis ? x : x.reshape({-1}, site), places, axis.value_or(0), IndexMode::raise, site);
  });
}

NDArray masked_fill(const NDArray& x, const NDArray& mask, const NDArray& value, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const Shape& shape = shape_of(x, "masked_fill");
    const NDArray wide = mask_over(mask, x, site);
    return where(wide, stretched(value, shape, "masked_fill", site).astype(x.dtype(), site), x, site);
  });
}

NDArray masked_fill(const NDArray& x, const NDArray& mask, Scalar value, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const NDArray wide = mask_over(mask, x, site);
    // Beside a real number integers would become floats, those that the mask leaves too.
    if (!is_floating(x.dtype()) && value.kind() == Scalar::Kind::real)
      return masked_fill(x, mask, full({}, value, {.dtype = float64, .device = x.device()}, site), site);
    return where(wide, value, x, site).astype(x.dtype(), site);
  });
}

}  // namespace sluice
