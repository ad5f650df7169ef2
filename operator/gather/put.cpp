// Entries replaced and added to: operators of x, indices and values, which become x's type.
#include <sluice/ndarray/create.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/indexed.h>
#include <sluice/operator/gather/numbers.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/normalise.h>

namespace sluice {

namespace {

using detail::checked_axis;
using detail::GatherAttributes;
using detail::IndexKind;

// The axis counted from the front; values of x's type, broadcast to what is taken, and along an axis x and indices
// among themselves.
template <IndexKind kind>
bool normalise_put(const RawCall& call, NormalCall& normal) {
  bool changed = detail::normalise_beside<kind>(call, normal);
  const Attributes& attributes = changed ? normal.attributes : call.attributes;
  const std::span<const NDArray> inputs = changed ? std::span<const NDArray>(normal.inputs) : call.inputs;
  const NDArray &x = inputs[0], &indices = inputs[1];
  const char* const asked = attributes.as<GatherAttributes>().asked;
  const char* const name = asked != nullptr ? asked : call.op.name;
  const int axis = checked_axis(call.op, attributes);
  const Shape taken = detail::taken_shape(name, kind, {indices.shape(), indices.dtype()}, x.shape(), axis);
  const auto model = [&] { return detail::model_of_taken(x, indices, kind, axis, taken, name); };
  const NDArray values =
      detail::stretched_as(call.inputs[2].astype(x.dtype(), call.site), taken, name, call.site, model);
  if (values.same(call.inputs[2]))
    return changed;
  if (!changed)
    detail::as_given(call, normal);
  normal.inputs[2] = values;
  return true;
}

// x, indices, values
template <IndexKind kind>
Specs infer_put(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  detail::check_taken(
      op.name,
      inputs[2].shape,
      detail::taken_shape(op.name, kind, inputs[1], inputs[0].shape, checked_axis(op, attributes)));
  return {inputs[0]};
}

// indices, dy
template <IndexKind kind>
Specs infer_put_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  ArraySpec values = inputs[1];
  values.shape = detail::taken_shape(op.name, kind, inputs[0], inputs[1].shape, checked_axis(op, attributes));
  return {inputs[1], values};
}

// What replaces entries keeps the others of x and puts values: its gradient is these two for dy, and the gradient of
// those two is a replacement again.
template <const Operator& Backward>
Arrays put_gradient(const GradientCall& call) {
  const NDArray inputs[] = {call.inputs[1], call.output_grads[0]};
  const Arrays both = invoke(Backward, inputs, detail::for_gradient(call.attributes), {});
  return {both[0], NDArray(), both[1]};
}

template <const Operator& Forward, IndexKind kind>
Arrays put_backward_gradient(const GradientCall& call) {
  const ArraySpec& dy = call.input_specs[1];
  const auto given = [&](std::size_t i, const Shape& shape) {
    return call.output_grads[i].defined() ? call.output_grads[i] : zeros_like(shape_only({shape, dy.dtype, dy.device}));
  };
  const Shape taken =
      detail::taken_shape(call.op.name, kind, call.input_specs[0], dy.shape, checked_axis(call.op, call.attributes));
  return {
      {},
      invoke_one(
          Forward, {given(0, dy.shape), call.inputs[0], given(1, taken)}, detail::for_gradient(call.attributes), {})};
}

// -- Sums: added up among themselves first, integers in int64 -------------------------------------------------------
template <const Operator& Add, const Operator& Sum>
Arrays add_at(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  auto sum = attributes.as<GatherAttributes>();
  if (sum.asked == nullptr)
    sum.asked = Add.name;
  const NDArray& x = inputs[0];
  const DType type = x.dtype(), wide = is_floating(type) ? type : int64;
  const NDArray sums = invoke_one(Sum, {inputs[1], inputs[2].astype(wide, site), x}, Attributes::of(sum), site);
  return {add(x, sums.astype(type, site), site).astype(type, site)};
}

}  // namespace

#define SLUICE_PUT(constant, row, kind)                                                  \
  constinit const Operator constant = {                                                  \
      .name = row,                                                                       \
      .inputs = 3,                                                                       \
      .attributes = detail::k_gather_attributes<kind>,                                   \
      .normalise = normalise_put<kind>,                                                  \
      .infer = infer_put<kind>,                                                          \
      .kernels =                                                                         \
          {on_cpu(detail::run_as<detail::put_cpu, kind>),                                \
           on_gpu(SLUICE_GPU_KERNEL((detail::run_as<detail::put_gpu, kind>)))},          \
      .gradient = put_gradient<constant##_backward>,                                     \
      .saved_inputs = 0b010,                                                             \
  };                                                                                     \
  constinit const Operator constant##_backward = {                                       \
      .name = row "_backward",                                                           \
      .inputs = 2,                                                                       \
      .outputs = 2,                                                                      \
      .attributes = detail::k_gather_attributes<kind>,                                   \
      .normalise = detail::normalise_axis<GatherAttributes, 1>,                          \
      .infer = infer_put_backward<kind>,                                                 \
      .kernels =                                                                         \
          {on_cpu(detail::run_as<detail::put_backward_cpu, kind>),                       \
           on_gpu(SLUICE_GPU_KERNEL((detail::run_as<detail::put_backward_gpu, kind>)))}, \
      .gradient = put_backward_gradient<constant, kind>,                                 \
      .saved_inputs = 0b01,                                                              \
  };
SLUICE_PUT(k_index_update, "index_update", IndexKind::axis)
SLUICE_PUT(k_index_update_nd, "index_update_nd", IndexKind::tuple)
SLUICE_PUT(k_put_along_axis, "put_along_axis", IndexKind::along)
#undef SLUICE_PUT

#define SLUICE_ADD(constant, row, kind, sum)           \
  constinit const Operator constant = {                \
      .name = row,                                     \
      .inputs = 3,                                     \
      .attributes = detail::k_gather_attributes<kind>, \
      .normalise = normalise_put<kind>,                \
      .infer = infer_put<kind>,                        \
      .composition = add_at<constant, sum>,            \
  };
SLUICE_ADD(k_index_add, "index_add", IndexKind::axis, k_take_backward)
SLUICE_ADD(k_index_add_nd, "index_add_nd", IndexKind::tuple, k_gather_nd_backward)
SLUICE_ADD(k_add_along_axis, "add_along_axis", IndexKind::along, k_take_along_axis_backward)
#undef SLUICE_ADD

}  // namespace sluice
