// Views with the axes of the array: transpose, slice, broadcast_to.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/view/attributes.h>

namespace sluice {

namespace {

using detail::ShapeAttribute;
using detail::SliceAttributes;

// -- transpose --------------------------------------------------------------------------------------------------
// No axes are those of the array the other way round.
Shape permutation(const Shape& axes, int ndim) {
  Shape reversed;
  for (int i = ndim; axes.empty() && i-- > 0;)
    reversed.push_back(i);
  if (axes.empty())
    return reversed;
  require<ShapeError>(
      axes.ndim() == ndim, [&] { return message("transpose: axes ", axes, " for an array with ", ndim, " axes"); });
  Shape normal;
  bool seen[k_max_ndim] = {};
  for (const std::int64_t axis : axes) {
    normal.push_back(normal_axis(axis, ndim, "transpose"));
    require<ValueError>(!std::exchange(seen[normal.back()], true), [&] {
      return message("transpose: axes ", axes, " name an axis twice");
    });
  }
  return normal;
}

Geometry transposed(const Operator&, const Geometry& input, const Shape*, const Attributes& attributes) {
  Geometry view{{}, {}, input.offset};
  for (const std::int64_t axis : permutation(attributes.as<ShapeAttribute>().shape, input.shape.ndim())) {
    view.shape.push_back(input.shape[static_cast<int>(axis)]);
    view.strides.push_back(input.strides[static_cast<int>(axis)]);
  }
  return view;
}

Arrays transpose_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return {NDArray()};
  const Shape axes = permutation(call.attributes.as<ShapeAttribute>().shape, detail::unseen_shape(dy).ndim());
  Shape back = axes;
  for (int i = 0; i < axes.ndim(); ++i)
    back[static_cast<int>(axes[i])] = i;
  return {dy.transpose(back)};
}

// -- slice ------------------------------------------------------------------------------------------------------
// NumPy's rules: negative ends count from the back, all are clipped, of a slice that runs backwards to the last element
// and to the place before the first.
std::int64_t clipped(std::int64_t at, std::int64_t extent, bool forwards) noexcept {
  const std::int64_t counted = at < 0 ? at + extent : at;
  return forwards ? std::clamp<std::int64_t>(counted, 0, extent) : std::clamp<std::int64_t>(counted, -1, extent - 1);
}

Geometry sliced(const Operator&, const Geometry& input, const Shape*, const Attributes& attributes) {
  const auto& a = attributes.as<SliceAttributes>();
  Geometry view = input;
  detail::slice_axis("slice", view, normal_axis(a.axis, input.shape.ndim(), "slice"), a.begin, a.end, a.step);
  return view;
}

// -- unslice, the gradient of slice: zeros of the second input's shape, with dy where the slice was ----------------
Specs infer_unslice(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  return detail::infer_unsliced(op, inputs, attributes, sliced);
}

void issue_unslice(const IssueCall& call) {
  detail::issue_unsliced(call, sliced);
}

Arrays unslice_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return Arrays(2);
  return {detail::invoke_view(detail::k_slice, dy, call.attributes, SourceLocation::current()), NDArray()};
}

}  // namespace

void detail::slice_axis(
    const char* op, Geometry& view, int axis, std::int64_t begin, std::int64_t end, std::int64_t step) {
  require<ValueError>(step != 0, [&] { return message(op, ": the step must not be 0"); });
  const std::int64_t extent = view.shape[axis], stride = view.strides[axis];
  const std::int64_t first = clipped(begin, extent, step > 0), last = clipped(end, extent, step > 0);
  if (step > 0)
    view.shape[axis] = last > first ? (last - first - 1) / step + 1 : 0;
  else
    view.shape[axis] = first > last ? 1 - (first - last - 1) / step : 0;
  // Of one element no step is taken, and it might be none that a stride can be.
  view.strides[axis] = view.shape[axis] > 1 ? stride * step : std::abs(stride);
  // An empty slice may begin behind the last element; it names none, so it stays at the first.
  if (view.shape[axis] > 0)
    view.offset += first * stride;
}

Specs detail::infer_unsliced(
    const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes, ViewOf view) {
  const ArraySpec &dy = inputs[0], &whole = inputs[1];
  const Shape part = view(op, {whole.shape, contiguous_strides(whole.shape), 0}, nullptr, attributes).shape;
  require<ShapeError>(dy.shape == part, [&] {
    return message(op.name, ": ", dy.shape, " is not the slice of shape ", part, " of ", whole.shape);
  });
  return {{whole.shape, dy.dtype, dy.device}};
}

void detail::issue_unsliced(const IssueCall& call, ViewOf view) {
  const NDArray& whole = call.outputs[0];
  // The slice may lie in the memory of the destination.
  const NDArray part = overlaps(call.inputs[0], whole) ? call.inputs[0].copy(call.site) : call.inputs[0];
  push_fill(whole, 0, call.site);
  const Geometry at = view(call.op, geometry_of(whole), nullptr, call.attributes);
  push_copy(part, make_view(whole, at.shape, at.strides, at.offset), call.site);
}

const Operator detail::k_unslice{
    .name = "unslice",
    .inputs = 2,
    .attributes = &attribute_type<SliceAttributes>,
    .infer = infer_unslice,
    .issue = issue_unslice,
    .gradient = unslice_gradient,
    .strided_inputs = k_all,
    .strided_outputs = true,
    .shape_inputs = 0b10};

namespace {

Arrays slice_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return {NDArray()};
  const NDArray whole = shape_only(call.input_specs[0]);
  return {invoke_one(detail::k_unslice, {dy, whole}, call.attributes, SourceLocation::current())};
}

// -- broadcast_to -----------------------------------------------------------------------------------------------
Geometry broadcast(const Operator&, const Geometry& input, const Shape*, const Attributes& attributes) {
  // -1: as it is.
  Shape shape = attributes.as<ShapeAttribute>().shape;
  const int ahead = shape.ndim() - input.shape.ndim();
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    require<ShapeError>(shape[axis] >= 0 || (shape[axis] == -1 && axis >= ahead), [&] {
      return message("broadcast_to: ", shape, " is no shape for an array of shape ", input.shape);
    });
    if (shape[axis] == -1)
      shape[axis] = input.shape[axis - ahead];
  }
  return {shape, broadcast_strides(input.shape, input.strides, shape, "broadcast_to"), input.offset};
}

// To the shape of the second input: no extent stands in the call, which may serve other batch sizes.
Geometry broadcast_as(const Operator& op, const Geometry& input, const Shape* like, const Attributes&) {
  return {*like, broadcast_strides(input.shape, input.strides, *like, op.name), input.offset};
}

Arrays broadcast_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  Arrays gradients(call.input_specs.size());
  if (dy.defined())
    gradients[0] = sum_to_shape(dy, call.input_specs[0].shape);
  return gradients;
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
const Operator detail::k_broadcast_like{
    .name = "broadcast_like", .inputs = 2, .view = broadcast_as, .gradient = broadcast_gradient, .shape_inputs = 0b10};

NDArray NDArray::transpose(const Shape& axes, SourceLocation site) const {
  return detail::invoke_view(detail::k_transpose, *this, Attributes::of(ShapeAttribute{axes}), site);
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
    detail::object_of(*this, "slice");
    return detail::invoke_view(detail::k_slice, *this, Attributes::of(SliceAttributes{axis, begin, end, step}), site);
  });
}

NDArray NDArray::broadcast_to(const Shape& to, SourceLocation site) const {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(*this, "broadcast_to");
    return detail::invoke_view(detail::k_broadcast_to, *this, Attributes::of(ShapeAttribute{to}), site);
  });
}

}  // namespace sluice
