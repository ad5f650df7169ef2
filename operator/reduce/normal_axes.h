#pragma once

#include <algorithm>

#include <boost/container/small_vector.hpp>

#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>

// The normal form of calls that reduce over axes.
namespace sluice::detail {

/// Counted from the front, in order, each once; none are all.
inline Shape normal_axes(const RawCall& call, const Shape& given) {
  const Shape& shape = call.inputs[0].shape();
  boost::container::small_vector<std::int64_t, k_max_ndim> sorted;
  for (const std::int64_t axis : given)
    sorted.push_back(normal_axis(axis, shape.ndim(), call.op.name));
  for (int axis = 0; given.empty() && axis < shape.ndim(); ++axis)
    sorted.push_back(axis);
  std::sort(sorted.begin(), sorted.end());
  require<ValueError>(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), [&] {
    return message(call.op.name, ": axes ", given, " name an axis of shape ", shape, " twice");
  });
  return Shape(std::span<const std::int64_t>(sorted.data(), sorted.size()));
}

/// Of attributes with `axes`; what is not real is cast first where `real` says so.
template <class A, bool real>
bool normalise_axes(const RawCall& call, NormalCall& normal) {
  const A& given = call.attributes.as<A>();
  const Shape axes = normal_axes(call, given.axes);
  const NDArray& x = call.inputs[0];
  const bool is_cast = real && !is_floating(x.dtype());
  if (axes == given.axes && !is_cast)
    return false;
  A counted = given;
  counted.axes = axes;
  with_attributes(call, counted, normal);
  if (is_cast)
    normal.inputs[0] = x.astype(float32, call.site);
  return true;
}

}  // namespace sluice::detail
