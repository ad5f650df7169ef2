// Views with the axes of the array: transpose, slice, broadcast_to.
#include <algorithm>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/view/attributes.h>

namespace sluice {

namespace {

using detail::ArrayObject;
using detail::ShapeAttribute;
using detail::SliceAttributes;

// -- transpose --------------------------------------------------------------------------------------------------
NDArray transposed(const NDArray& input, const Attributes& attributes) {
  const ArrayObject& object = *input.object();
  const Shape& axes = attributes.as<ShapeAttribute>().shape;
  Shape shape, strides;
  for (const std::int64_t axis : axes) {
    shape.push_back(object.shape[static_cast<int>(axis)]);
    strides.push_back(object.strides[static_cast<int>(axis)]);
  }
  return detail::make_view(input, shape, strides, object.offset);
}

Arrays transpose_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return {NDArray()};
  const Shape& axes = call.attributes.as<ShapeAttribute>().shape;
  Shape back = axes;
  for (int i = 0; i < axes.ndim(); ++i)
    back[static_cast<int>(axes[i])] = i;
  return {dy.transpose(back)};
}

Shape permutation(const Shape& axes, int ndim) {
  require<ShapeError>(
      axes.ndim() == ndim, [&] { return message("transpose: axes ", axes, " for an array with ", ndim, " axes"); });
  Shape normal = axes;
  bool seen[k_max_ndim] = {};
  for (std::int64_t& axis : std::span(const_cast<std::int64_t*>(normal.begin()), static_cast<std::size_t>(ndim))) {
    axis = normal_axis(axis, ndim, "transpose");
    require<ValueError>(
        !std::exchange(seen[axis], true), [&] { return message("transpose: axes ", axes, " name an axis twice"); });
  }
  return normal;
}

// -- slice ------------------------------------------------------------------------------------------------------
NDArray sliced(const NDArray& input, const Attributes& attributes) {
  const ArrayObject& object = *input.object();
  const auto& a = attributes.as<SliceAttributes>();
  const int axis = static_cast<int>(a.axis);
  Shape shape = object.shape, strides = object.strides;
  shape[axis] = a.count;
  strides[axis] *= a.step;
  // An empty slice may begin behind the last element; it names none, so it stays at the first.
  const std::int64_t begin = a.count == 0 ? 0 : a.begin;
  return detail::make_view(input, shape, strides, object.offset + begin * object.strides[axis]);
}

// The gradient of a slice: zeros, with dy where the slice was.
struct UnsliceAttributes {
  SliceAttributes slice;
  Shape shape;

  template <class V>
  void visit(V&& v) {
    slice.visit(v);
    v.field("shape", shape);
  }
};

Arrays unslice(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto& a = attributes.as<UnsliceAttributes>();
  const NDArray whole = zeros(a.shape, {.dtype = inputs[0].dtype(), .device = inputs[0].device()}, site);
  copy_into(inputs[0], sliced(whole, Attributes::of(a.slice)), site);
  return {whole};
}

Arrays unslice_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return {NDArray()};
  return {detail::invoke_view(
      detail::k_slice, dy, Attributes::of(call.attributes.as<UnsliceAttributes>().slice), SourceLocation::current())};
}

}  // namespace

const Operator detail::k_unslice{
    .name = "unslice",
    .attributes = &attribute_type<UnsliceAttributes>,
    .composition = unslice,
    .gradient = unslice_gradient};

namespace {

Arrays slice_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return {NDArray()};
  const UnsliceAttributes back{call.attributes.as<SliceAttributes>(), call.input_specs[0].shape};
  return {invoke_one(detail::k_unslice, {dy}, Attributes::of(back), SourceLocation::current())};
}

// -- broadcast_to -----------------------------------------------------------------------------------------------
NDArray broadcast(const NDArray& input, const Attributes& attributes) {
  const ArrayObject& object = *input.object();
  const Shape& shape = attributes.as<ShapeAttribute>().shape;
  return detail::make_view(
      input, shape, broadcast_strides(object.shape, object.strides, shape, "broadcast_to"), object.offset);
}

Arrays broadcast_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  return {dy.defined() ? sum_to_shape(dy, call.input_specs[0].shape) : NDArray()};
}

// NumPy's rules: negative ends count from the back, all are clipped.
std::int64_t clipped(std::int64_t at, std::int64_t extent) noexcept {
  return std::clamp<std::int64_t>(at < 0 ? at + extent : at, 0, extent);
}

}  // namespace

const Operator detail::k_transpose{
    .name = "transpose",
    .attributes = &attribute_type<ShapeAttribute>,
    .view = transposed,
    .gradient = transpose_gradient};
const Operator detail::k_slice{
    .name = "slice", .attributes = &attribute_type<SliceAttributes>, .view = sliced, .gradient = slice_gradient};
const Operator detail::k_broadcast_to{
    .name = "broadcast_to",
    .attributes = &attribute_type<ShapeAttribute>,
    .view = broadcast,
    .gradient = broadcast_gradient};

NDArray NDArray::transpose(const Shape& axes, SourceLocation site) const {
  return detail::located(site, [&]() -> NDArray {
    const int n = detail::object_of(*this, "transpose").shape.ndim();
    Shape order = axes;
    for (int i = 0; axes.empty() && i < n; ++i)
      order.push_back(n - 1 - i);
    return detail::invoke_view(detail::k_transpose, *this, Attributes::of(ShapeAttribute{permutation(order, n)}), site);
  });
}

NDArray NDArray::swapaxes(int a, int b, SourceLocation site) const {
  return detail::located(site, [&]() -> NDArray {
    const int n = detail::object_of(*this, "swapaxes").shape.ndim();
    Shape order = Shape::filled(n, 0);
    for (int i = 0; i < n; ++i)
      order[i] = i;
    std::swap(order[normal_axis(a, n, "swapaxes")], order[normal_axis(b, n, "swapaxes")]);
    return detail::invoke_view(detail::k_transpose, *this, Attributes::of(ShapeAttribute{order}), site);
  });
}

NDArray NDArray::slice(int axis, std::int64_t begin, std::int64_t end, std::int64_t step, SourceLocation site) const {
  return detail::located(site, [&]() -> NDArray {
    const Shape& from = detail::object_of(*this, "slice").shape;
    require<ValueError>(step > 0, [&] { return message("slice: the step must be positive, not ", step); });
    const int at = normal_axis(axis, from.ndim(), "slice");
    const std::int64_t first = clipped(begin, from[at]), last = clipped(end, from[at]);
    const std::int64_t count = last > first ? (last - first - 1) / step + 1 : 0;
    return detail::invoke_view(detail::k_slice, *this, Attributes::of(SliceAttributes{at, first, count, step}), site);
  });
}

NDArray NDArray::operator[](std::int64_t index) const {
  const Shape& from = detail::object_of(*this, "operator[]").shape;
  require<IndexError>(from.ndim() > 0 && index >= -from[0] && index < from[0], [&] {
    return message("operator[]: index ", index, " of an array of shape ", from);
  });
  const std::int64_t at = index < 0 ? index + from[0] : index;
  return slice(0, at, at + 1).squeeze(0);
}

NDArray NDArray::broadcast_to(const Shape& to, SourceLocation site) const {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(*this, "broadcast_to");
    return detail::invoke_view(detail::k_broadcast_to, *this, Attributes::of(ShapeAttribute{to}), site);
  });
}

}  // namespace sluice
