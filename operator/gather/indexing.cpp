// Indexing as programs call it: indices that are broadcast among themselves, values beside them, masks.
#include <algorithm>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/gather/indexed.h>
#include <sluice/operator/gather/indexing.h>
#include <sluice/operator/gather/numbers.h>
#include <sluice/operator/gather/subscripted.h>
#include <sluice/operator/order/select.h>

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

}  // namespace

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
  for (const NDArray& each : indices) {  // what promotion makes of them might be no integers
    const auto model = [&] { return model_among(indices, shape, name); };
    all.push_back(stretched_as(alike ? each : each.astype(int64, site), shape, name, site, model));
  }
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

}  // namespace sluice
