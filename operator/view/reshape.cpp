// reshape and its like: flatten, and with the axes as they are expand_dims and squeeze.
#include <cstdlib>
#include <optional>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/view/attributes.h>
#include <sluice/operator/view/families.h>
#include <sluice/operator/view/triangles.h>

namespace sluice {

namespace {

using detail::AxisAttribute;
using detail::ShapeAttribute;

// Strides under which `array` has `shape` without a copy, if there are any. Both shapes are walked in groups of axes
// that hold the same elements; within a group the old axes must be one run.
std::optional<Shape> strides_for(const Geometry& array, const Shape& shape) {
  Shape old_shape, old_strides;
  for (int axis = 0; axis < array.shape.ndim(); ++axis) {
    if (array.shape[axis] == 0)
      return contiguous_strides(shape);
    if (array.shape[axis] == 1)
      continue;
    old_shape.push_back(array.shape[axis]);
    old_strides.push_back(array.strides[axis]);
  }
  if (old_strides == contiguous_strides(old_shape))
    return contiguous_strides(shape);
  Shape strides = Shape::filled(shape.ndim(), 1);
  int from = 0, to = 0;
  while (from < old_shape.ndim()) {
    int from_end = from + 1, to_end = to + 1;
    std::int64_t old_count = old_shape[from], new_count = shape[to];
    while (old_count != new_count) {
      if (old_count < new_count) {
        old_count *= old_shape[from_end++];
      } else {
        new_count *= shape[to_end++];
      }
    }
    for (int axis = from; axis + 1 < from_end; ++axis) {
      if (old_strides[axis] != old_strides[axis + 1] * old_shape[axis + 1])
        return std::nullopt;
    }
    strides[to_end - 1] = old_strides[from_end - 1];
    for (int axis = to_end - 1; axis > to; --axis)
      strides[axis - 1] = strides[axis] * shape[axis];
    for (int axis = to; axis < to_end; ++axis)
      strides[axis] = shape[axis] == 1 ? std::abs(strides[axis]) : strides[axis];
    from = from_end;
    to = to_end;
  }
  return strides;
}

// At most one extent is -1; it becomes what makes the sizes agree.
Shape resolved(const Shape& from, Shape shape) {
  const std::int64_t size = from.size();
  int unknown = -1;
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    require<ShapeError>(shape[axis] >= -1 && (shape[axis] >= 0 || unknown < 0), [&] {
      return message("reshape: ", shape, " may hold one -1 and no other negative extent");
    });
    if (shape[axis] < 0)
      unknown = axis;
  }
  Shape others = shape;
  if (unknown >= 0)
    others[unknown] = 1;
  const std::int64_t known = others.size();
  if (unknown >= 0 && known != 0 && size % known == 0)
    shape[unknown] = size / known;
  require<ShapeError>((unknown < 0 || shape[unknown] >= 0) && shape.size() == size, [&] {
    return message("reshape: ", from, " with ", size, " elements does not become ", shape);
  });
  return shape;
}

Geometry reshaped(const Operator&, const Geometry& input, const Shape*, const Attributes& attributes) {
  const Shape shape = resolved(input.shape, attributes.as<ShapeAttribute>().shape);
  const std::optional<Shape> strides = strides_for(input, shape);
  require<ShapeError>(strides.has_value(), [&] {
    return message(
        "reshape: an array of shape ", input.shape, " and strides ", input.strides, " has no view of ", shape);
  });
  return {shape, *strides, input.offset};
}

Arrays gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  return {dy.defined() ? dy.reshape(detail::with_open_rows(call.input_specs[0].shape)) : NDArray()};
}

// What a trace takes for a view is refused where it is none for another size, so that nobody needs to see that extents
// are asked for.
NDArray reshape_to(const NDArray& array, const Shape& shape, SourceLocation site) {
  const auto has_view = [&] {
    return strides_for(detail::geometry_of(array), resolved(detail::unseen_shape(array), shape)).has_value();
  };
  const bool is_view = array.is_contiguous() || has_view();
  return detail::invoke_view(
      detail::k_reshape, is_view ? array : array.copy(site), Attributes::of(ShapeAttribute{shape}), site);
}

// -- expand_dims, squeeze ---------------------------------------------------------------------------------------
// Negative axes count from the back of the longer shape.
Geometry expanded(const Operator&, const Geometry& input, const Shape*, const Attributes& attributes) {
  Geometry view = input;
  const int axis = normal_axis(attributes.as<AxisAttribute>().axis, input.shape.ndim() + 1, "expand_dims");
  view.strides.insert(axis, axis < input.shape.ndim() ? std::abs(input.shape[axis] * input.strides[axis]) : 1);
  view.shape.insert(axis, 1);
  return view;
}

Geometry squeezed(const Operator&, const Geometry& input, const Shape*, const Attributes& attributes) {
  Geometry view = input;
  const Shape& from = input.shape;
  const std::int64_t axis = attributes.as<AxisAttribute>().axis;
  const int at = normal_axis(axis, from.ndim(), "squeeze");
  require<ShapeError>(from[at] == 1, [&] {
    return message("squeeze: axis ", axis, " of ", from, " has extent ", from[at], ", not 1");
  });
  view.shape.erase(at);
  view.strides.erase(at);
  return view;
}

template <const Operator& Back>
Arrays axis_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  return {dy.defined() ? detail::invoke_view(Back, dy, call.attributes, SourceLocation::current()) : NDArray()};
}

NDArray along_axis(const Operator& op, const NDArray& array, int axis, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(array, op.name);
    return detail::invoke_view(op, array, Attributes::of(AxisAttribute{axis}), site);
  });
}

}  // namespace

detail::OperatorList detail::view_operators() noexcept {
  static const Operator* const all[] = {
      &k_reshape,    &k_expand_dims,   &k_squeeze,      &k_detach,       &k_transpose,      &k_slice, &k_unslice,
      &k_slice_axes, &k_unslice_axes,  &k_slice_assign, &k_broadcast_to, &k_broadcast_like, &k_cast,  &k_to_device,
      &k_copy,       &k_channels_last, &k_fill,         &k_full,         &k_arange,         &k_eye,   &k_linspace,
      &k_meshgrid,   &k_tril,          &k_triu,         &k_moveaxis,     &k_rot90};
  return all;
}

const Operator detail::k_reshape{
    .name = "reshape", .attributes = &attribute_type<ShapeAttribute>, .view = reshaped, .gradient = gradient};
const Operator detail::k_expand_dims{
    .name = "expand_dims",
    .attributes = &attribute_type<AxisAttribute>,
    .view = expanded,
    .gradient = axis_gradient<detail::k_squeeze>};
const Operator detail::k_squeeze{
    .name = "squeeze",
    .attributes = &attribute_type<AxisAttribute>,
    .view = squeezed,
    .gradient = axis_gradient<detail::k_expand_dims>};

// What detach() is in a graph that is to be differentiated.
const Operator detail::k_detach{
    .name = "detach",
    .view = [](const Operator&, const Geometry& input, const Shape*, const Attributes&) { return input; }};

NDArray detail::invoke_view(const Operator& op, const NDArray& input, Attributes attributes, SourceLocation site) {
  return invoke_one(op, {input}, std::move(attributes), site);
}

NDArray NDArray::reshape(const Shape& to, SourceLocation site) const {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(*this, "reshape");
    return reshape_to(*this, to, site);
  });
}

NDArray NDArray::expand_dims(int axis, SourceLocation site) const {
  return along_axis(detail::k_expand_dims, *this, axis, site);
}

NDArray NDArray::squeeze(int axis, SourceLocation site) const {
  return along_axis(detail::k_squeeze, *this, axis, site);
}

NDArray NDArray::flatten(SourceLocation site) const {
  return detail::located(site, [&]() -> NDArray {
    Shape rest = detail::object_of(*this, "flatten").shape;
    require<ShapeError>(rest.ndim() > 0, [] { return "flatten: an array without axes has no first axis to keep"; });
    const std::int64_t first = rest[0];
    rest.erase(0);
    return reshape_to(*this, detail::with_open_rows({first, rest.size()}), site);
  });
}

}  // namespace sluice
