// x with values where subscripts say, written in place where x is the destination.
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/gather/indexed.h>
#include <sluice/operator/gather/subscripted.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/normalise.h>

namespace sluice::detail {

namespace {

Attributes entries_of(const IndexAssignAttributes& attributes) {
  return Attributes::of(GatherAttributes{.axis = attributes.axis, .asked = attributes.asked});
}

// Values become x's type.
bool normalise_assign(const RawCall& call, NormalCall& normal) {
  if (call.inputs[1].dtype() == call.inputs[0].dtype())
    return false;
  normal.inputs.assign(call.inputs.begin(), call.inputs.end());
  normal.inputs[1] = call.inputs[1].astype(call.inputs[0].dtype(), call.site);
  normal.attributes = call.attributes;
  return true;
}

// x, values, numbers
Specs infer_assign(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<IndexAssignAttributes>();
  const Shape& whole = inputs[0].shape;
  const Shape part = placed_geometry(op.name, {whole, contiguous_strides(whole), 0}, a).shape;
  const int axis = normal_axis(a.axis, part.ndim(), op.name);
  check_taken(op.name, inputs[1].shape, taken_shape(op.name, IndexKind::tuple, inputs[2], part, axis));
  return {inputs[0]};
}

bool is_same(const NDArray& x, const NDArray& y) {
  const ArrayObject &a = *x.object(), &b = *y.object();
  return a.buffer == b.buffer && a.strides == b.strides && a.offset == b.offset;
}

void issue_assign(const IssueCall& call) {
  const NDArray &x = call.inputs[0], &y = call.outputs[0];
  const auto& a = call.attributes.as<IndexAssignAttributes>();
  // What is written over first may be what the values are, or the numbers.
  const auto apart = [&](const NDArray& input) { return overlaps(input, y) ? input.copy(call.site) : input; };
  const autograd::ModeScope unrecorded(false, autograd::is_training());
  const NDArray values = apart(call.inputs[1]), numbers = apart(call.inputs[2]);
  if (!is_same(x, y))
    push_copy(x, y, call.site);
  const Geometry at = placed_geometry(call.op.name, geometry_of(y), a);
  const NDArray inputs[] = {make_view(y, at.shape, at.strides, at.offset), values, numbers};
  invoke(k_put_entries, inputs, entries_of(a), call.site);
}

// dy without what was written over, and what of dy belongs to the values that stayed. Only where both are wanted is all
// that ranges leave copied.
Arrays assign_gradient(const GradientCall& call) {
  const auto& a = call.attributes.as<IndexAssignAttributes>();
  const NDArray &dy = call.output_grads[0], &numbers = call.inputs[2];
  const SourceLocation site = SourceLocation::current();
  Arrays gradients(3);
  if (!call.wanted[1]) {
    const NDArray zero = full({}, 0, {.dtype = dy.dtype(), .device = dy.device()});
    const NDArray none = invoke_one(k_broadcast_like, {zero, shape_only(call.input_specs[1])}, {}, site);
    gradients[0] = invoke_one(k_index_assign, {dy, none, numbers}, call.attributes, site);
    return gradients;
  }
  const NDArray inputs[] = {numbers, placed_view(dy, a, site)};
  const Arrays both = invoke(k_index_update_nd_backward, inputs, for_gradient(entries_of(a)), site);
  gradients[1] = both[1];
  if (!call.wanted[0])
    return gradients;
  const NDArray kept = put_back(both[0], a, site);
  gradients[0] =
      is_whole(a)
          ? kept
          : invoke_one(k_slice_assign, {dy, kept}, Attributes::of(static_cast<const SubscriptAttributes&>(a)), site);
  return gradients;
}

// -- put_entries: an array that is written, values, numbers ----------------------------------------------------------
Specs infer_put(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const int axis = checked_axis(op, attributes);
  check_taken(op.name, inputs[1].shape, taken_shape(op.name, IndexKind::tuple, inputs[2], inputs[0].shape, axis));
  return {};
}

// Of values one number for all, or row by row.
bool takes_strides(std::size_t i, const Shape& shape, const Shape& strides) {
  bool one = true;
  for (int axis = 0; axis < shape.ndim(); ++axis)
    one = one && (shape[axis] == 1 || strides[axis] == 0);
  return i == 0 || one;
}

}  // namespace

Geometry placed_geometry(const char* op, const Geometry& x, const IndexAssignAttributes& a) {
  const Geometry part = subscripted(op, x, a);
  Geometry placed{{}, {}, part.offset};
  std::uint32_t named = 0;
  for (const std::int64_t axis : a.order) {
    const bool fits = axis < part.shape.ndim() && (axis < 0 || (named >> axis & 1) == 0);
    require<ValueError>(fits, [&] { return message(op, ": no order of the axes of ", part.shape, ": ", a.order); });
    named |= axis < 0 ? 0 : 1u << axis;
    placed.shape.push_back(axis < 0 ? 1 : part.shape[static_cast<int>(axis)]);
    placed.strides.push_back(axis < 0 ? 1 : part.strides[static_cast<int>(axis)]);
  }
  require<ValueError>(named + 1 == 1u << part.shape.ndim(), [&] {
    return message(op, ": an order that leaves out axes of ", part.shape, ": ", a.order);
  });
  return placed;
}

const Operator k_index_assign{
    .name = "index_assign",
    .inputs = 3,
    .attributes = &attribute_type<IndexAssignAttributes>,
    .normalise = normalise_assign,
    .infer = infer_assign,
    .issue = issue_assign,
    .gradient = assign_gradient,
    .saved_inputs = 0b100,
    .strided_inputs = k_all,
    .strided_outputs = true};

constinit const Operator k_put_entries = {
    .name = "put_entries",
    .inputs = 3,
    .outputs = 0,
    .attributes = &attribute_type<GatherAttributes>,
    .normalise = normalise_axis<GatherAttributes>,
    .infer = infer_put,
    .kernels = {on_cpu(put_entries_cpu), on_gpu(SLUICE_GPU_KERNEL(put_entries_gpu))},
    .mutated_inputs = 0b001,
    .strided_inputs = 0b011,
    .takes_strides = takes_strides};

}  // namespace sluice::detail
