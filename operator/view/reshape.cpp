// reshape and the members that are reshapes: expand_dims, squeeze, flatten.
#include <optional>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/view/attributes.h>

namespace sluice {

namespace {

using detail::ArrayObject;
using detail::ShapeAttribute;

// Strides under which `object` has `shape` without a copy, if there are any. Both shapes are walked in groups of axes
// that hold the same elements; within a group the old axes must be one run.
std::optional<Shape> strides_for(const ArrayObject& object, const Shape& shape) {
  if (object.size == 0 || detail::is_contiguous(object))
    return contiguous_strides(shape);
  Shape old_shape, old_strides;
  for (int axis = 0; axis < object.shape.ndim(); ++axis) {
    if (object.shape[axis] == 1)
      continue;
    old_shape.push_back(object.shape[axis]);
    old_strides.push_back(object.strides[axis]);
  }
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
    from = from_end;
    to = to_end;
  }
  return strides;
}

NDArray view_of(const NDArray& input, const Attributes& attributes) {
  const Shape& shape = attributes.as<ShapeAttribute>().shape;
  const ArrayObject& object = *input.object();
  const std::optional<Shape> strides = shape.size() == object.size ? strides_for(object, shape) : std::nullopt;
  require<ShapeError>(strides.has_value(), [&] {
    return message("reshape: an array of shape ", object.shape, " has no view of shape ", shape);
  });
  return detail::make_view(input, shape, *strides, object.offset);
}

Arrays gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  return {dy.defined() ? dy.reshape(call.input_specs[0].shape) : NDArray()};
}

// At most one extent is -1; it becomes what makes the sizes agree.
Shape resolved(const ArrayObject& object, Shape shape) {
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
  if (unknown >= 0 && known != 0 && object.size % known == 0)
    shape[unknown] = object.size / known;
  require<ShapeError>((unknown < 0 || shape[unknown] >= 0) && shape.size() == object.size, [&] {
    return message("reshape: ", object.shape, " with ", object.size, " elements does not become ", shape);
  });
  return shape;
}

NDArray reshaped(const NDArray& array, const Shape& shape, SourceLocation site) {
  const bool is_view = strides_for(*array.object(), shape).has_value();
  return detail::invoke_view(
      detail::k_reshape, is_view ? array : array.copy(site), Attributes::of(ShapeAttribute{shape}), site);
}

}  // namespace

detail::OperatorList detail::view_operators() noexcept {
  static const Operator* const all[] = {
      &k_reshape, &k_transpose, &k_slice, &k_unslice, &k_broadcast_to, &k_cast, &k_to_device, &k_copy};
  return all;
}

const Operator detail::k_reshape{
    .name = "reshape", .attributes = &attribute_type<ShapeAttribute>, .view = view_of, .gradient = gradient};

NDArray detail::invoke_view(const Operator& op, const NDArray& input, Attributes attributes, SourceLocation site) {
  return invoke_one(op, {input}, std::move(attributes), site);
}

NDArray NDArray::reshape(const Shape& to, SourceLocation site) const {
  return detail::located(
      site, [&]() -> NDArray { return reshaped(*this, resolved(detail::object_of(*this, "reshape"), to), site); });
}

NDArray NDArray::expand_dims(int axis, SourceLocation site) const {
  return detail::located(site, [&]() -> NDArray {
    Shape to = detail::object_of(*this, "expand_dims").shape;
    to.insert(normal_axis(axis, to.ndim() + 1, "expand_dims"), 1);
    return reshaped(*this, to, site);
  });
}

NDArray NDArray::squeeze(int axis, SourceLocation site) const {
  return detail::located(site, [&]() -> NDArray {
    Shape to = detail::object_of(*this, "squeeze").shape;
    const int at = normal_axis(axis, to.ndim(), "squeeze");
    require<ShapeError>(
        to[at] == 1, [&] { return message("squeeze: axis ", axis, " of ", to, " has extent ", to[at], ", not 1"); });
    to.erase(at);
    return reshaped(*this, to, site);
  });
}

NDArray NDArray::flatten(SourceLocation site) const {
  return detail::located(site, [&]() -> NDArray {
    const Shape& from = detail::object_of(*this, "flatten").shape;
    require<ShapeError>(from.ndim() > 0, [] { return "flatten: an array without axes has no first axis to keep"; });
    std::int64_t rest = 1;
    for (int axis = 1; axis < from.ndim(); ++axis)
      rest *= from[axis];
    return reshaped(*this, {from[0], rest}, site);
  });
}

}  // namespace sluice
