#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/softmax/kernels.h>
#include <sluice/operator/softmax/softmax.h>

namespace sluice {

namespace {

using detail::axis_of;
using detail::SoftmaxAttributes;

Specs infer_softmax(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  require<DTypeError>(
      is_floating(inputs[0].dtype), [&] { return message(op.name, ": takes floating types, not ", inputs[0].dtype); });
  return {inputs[0]};
}

Specs infer_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<ShapeError>(inputs[0].shape == inputs[1].shape, [&] {
    return message(op.name, ": a gradient of shape ", inputs[1].shape, " of a result of shape ", inputs[0].shape);
  });
  require<DTypeError>(inputs[0].dtype == inputs[1].dtype, [&] {
    return message(op.name, ": a gradient of ", inputs[1].dtype, " of a result of ", inputs[0].dtype);
  });
  return infer_softmax(op, inputs, attributes);
}

Arrays softmax_gradient(const GradientCall& call) {
  return {invoke_one(k_softmax_backward, {call.outputs[0], call.output_grads[0]}, call.attributes, {})};
}

Arrays log_softmax_gradient(const GradientCall& call) {
  return {invoke_one(k_log_softmax_backward, {call.outputs[0], call.output_grads[0]}, call.attributes, {})};
}

// Of dx = y * (dy - sum(y * dy)).
Arrays softmax_backward_gradient(const GradientCall& call) {
  const NDArray &y = call.inputs[0], &dy = call.inputs[1], &g = call.output_grads[0];
  const Shape axis{axis_of<SoftmaxAttributes>(call.attributes)};
  Arrays grads(2);
  if (call.wanted[0])
    grads[0] = g * (dy - sum(y * dy, axis, true)) - dy * sum(g * y, axis, true);
  if (call.wanted[1])
    grads[1] = invoke_one(k_softmax_backward, {y, g}, call.attributes, {});
  return grads;
}

// Of dx = dy - exp(y) * sum(dy).
Arrays log_softmax_backward_gradient(const GradientCall& call) {
  const NDArray &y = call.inputs[0], &dy = call.inputs[1], &g = call.output_grads[0];
  const Shape axis{axis_of<SoftmaxAttributes>(call.attributes)};
  const NDArray weighted = g * exp(y);
  Arrays grads(2);
  if (call.wanted[0])
    grads[0] = -(weighted * sum(dy, axis, true));
  if (call.wanted[1])
    grads[1] = g - sum(weighted, axis, true);
  return grads;
}

NDArray along_axis(const Operator& op, const NDArray& x, int axis, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, op.name);
    return invoke_one(op, {x}, Attributes::of(SoftmaxAttributes{axis}), site);
  });
}

}  // namespace

constinit const Operator k_softmax = {
    .name = "softmax",
    .attributes = &attribute_type<SoftmaxAttributes>,
    .normalise = detail::normalise_axis<SoftmaxAttributes>,
    .infer = infer_softmax,
    .kernels = {on_cpu(detail::softmax_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::softmax_gpu))},
    .gradient = softmax_gradient,
    .saved_outputs = k_all,
    .prompt = true,
};
constinit const Operator k_softmax_backward = {
    .name = "softmax_backward",
    .inputs = 2,
    .attributes = &attribute_type<SoftmaxAttributes>,
    .normalise = detail::normalise_axis<SoftmaxAttributes>,
    .infer = infer_backward,
    .kernels = {on_cpu(detail::softmax_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::softmax_backward_gpu))},
    .gradient = softmax_backward_gradient,
    .saved_inputs = k_all,
    .prompt = true,
};
constinit const Operator k_log_softmax = {
    .name = "log_softmax",
    .attributes = &attribute_type<SoftmaxAttributes>,
    .normalise = detail::normalise_axis<SoftmaxAttributes>,
    .infer = infer_softmax,
    .kernels = {on_cpu(detail::log_softmax_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::log_softmax_gpu))},
    .gradient = log_softmax_gradient,
    .saved_outputs = k_all,
    .prompt = true,
};
constinit const Operator k_log_softmax_backward = {
    .name = "log_softmax_backward",
    .inputs = 2,
    .attributes = &attribute_type<SoftmaxAttributes>,
    .normalise = detail::normalise_axis<SoftmaxAttributes>,
    .infer = infer_backward,
    .kernels = {on_cpu(detail::log_softmax_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::log_softmax_backward_gpu))},
    .gradient = log_softmax_backward_gradient,
    .saved_inputs = k_all,
    .prompt = true,
};

NDArray softmax(const NDArray& x, int axis, SourceLocation site) {
  return along_axis(k_softmax, x, axis, site);
}

NDArray log_softmax(const NDArray& x, int axis, SourceLocation site) {
  return along_axis(k_log_softmax, x, axis, site);
}

}  // namespace sluice
