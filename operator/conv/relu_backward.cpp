#include <array>

#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/masked.h>
#include <sluice/operator/conv/passes.h>
#include <sluice/operator/conv/shallow.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/sink.h>

namespace sluice::detail {
namespace {

// Inputs: the gradient of a result of relu, and the result.
Specs relu_backward_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_convolution_types(op.name, inputs);
  const ArraySpec &dy = inputs[0], &y = inputs[1];
  require<ShapeError>(y.shape.ndim() == 4 && dy.shape == y.shape, [&] {
    return message(
        op.name, ": gradient of shape ", dy.shape, " is not that of a result (N, C, H, W) of shape ", y.shape);
  });
  Specs specs{{y.shape, y.dtype, y.device}};
  if (attributes.as<ReluBackwardAttributes>().bias)
    specs.push_back({{y.shape[1]}, y.dtype, y.device});
  return specs;
}

Arrays relu_backward(const NDArray& dy, const NDArray& y, bool bias) {
  const std::array<NDArray, 2> inputs{dy, y};
  return invoke(
      convolution_relu_backward_op,
      inputs,
      Attributes::of(ReluBackwardAttributes{.bias = bias}),
      SourceLocation::current());
}

Arrays relu_backward_gradient(const GradientCall& call) {
  Arrays grads(2);
  NDArray head = call.output_grads[0];
  if (call.output_grads.size() > 1 && call.output_grads[1].defined()) {
    const Shape& shape = call.input_specs[1].shape;
    const NDArray added = call.output_grads[1].reshape({1, shape[1], 1, 1});
    head = head.defined() ? head + added : added.broadcast_to(shape);
  }
  if (head.defined() && call.wanted[0])
    grads[0] = relu_backward(head, call.inputs[1], false)[0];
  return grads;
}

MemoryOrder relu_backward_order(std::span<const NDArray> inputs, const Attributes&) {
  return order_of(inputs[1].shape(), inputs[1].strides());
}

// Inputs x, dy, y (the result of relu), weight (shape alone).
Specs relu_weights_infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& how = attributes.as<ConvolutionAttributes>();
  check_convolution_types(op.name, inputs);
  const ArraySpec &x = inputs[0], &weight = inputs[3];
  const ConvolutionGeometry g = convolution_geometry(op.name, x.shape, weight.shape, x.dtype, how);
  check_convolution_result(op.name, g, inputs[1].shape);
  check_convolution_result(op.name, g, inputs[2].shape);
  Specs specs{{weight.shape, x.dtype, x.device}};
  if (how.bias)
    specs.push_back({{g.outputs}, x.dtype, x.device});
  return specs;
}

Arrays relu_weights_gradient(const GradientCall& call) {
  const auto& how = call.attributes.as<ConvolutionAttributes>();
  Arrays grads(4);
  const NDArray& weight = call.output_grads[0];
  const NDArray bias = call.output_grads.size() > 1 ? call.output_grads[1] : NDArray();
  const Shape& shape = call.input_specs[1].shape;
  if (weight.defined() && call.wanted[0]) {
    const NDArray masked = relu_backward(call.inputs[1], call.inputs[2], false)[0];
    grads[0] = convolution_backward_data(masked, weight, how, call.input_specs[0]);
  }
  if (!call.wanted[1] || !(weight.defined() || bias.defined()))
    return grads;
  const NDArray head = weight.defined() ? convolution_forward(call.inputs[0], weight, bias, how)
                                        : bias.reshape({1, shape[1], 1, 1}).broadcast_to(shape);
  grads[1] = relu_backward(head, call.inputs[2], false)[0];
  return grads;
}

// The gradient of x reads dy and y, that of dy x and y.
Mask relu_weights_saved_for(Mask wanted, const Attributes&) {
  return (wanted & 0b01 ? 0b110 : 0) | (wanted & 0b10 ? 0b101 : 0);
}

// Whether a kernel makes the mask along with the gradients of the weight, the only ones.
bool masks_along(const GradientCall& call, const ConvolutionAttributes& how) {
  const ArraySpec &x = call.input_specs[0], &weight = call.input_specs[1];
  if (call.wanted[0] || !call.wanted[1])
    return false;
  if (!x.device.is_gpu())
    return x.dtype == DType::float32;
  const ConvolutionGeometry g = convolution_geometry("convolution_relu", x.shape, weight.shape, x.dtype, how);
  return is_shallow(g, ConvolutionPass::backward_weights);
}

}  // namespace

Arrays convolution_relu_gradient(const GradientCall& call) {
  auto how = call.attributes.as<ConvolutionAttributes>();
  Arrays grads(call.input_specs.size());
  const NDArray &dy = call.output_grads[0], &y = call.outputs[0];
  if (!dy.defined())
    return grads;
  const bool bias = grads.size() > 2 && call.wanted[2];
  if (masks_along(call, how)) {
    how.bias = bias;
    const std::array<NDArray, 4> inputs{call.inputs[0], dy, y, shape_only(call.input_specs[1])};
    const Arrays both =
        invoke(convolution_relu_backward_weights_op, inputs, Attributes::of(how), SourceLocation::current());
    grads[1] = both[0];
    if (bias)
      grads[2] = both[1];
    return grads;
  }
  const Arrays masked = relu_backward(dy, y, bias);
  if (call.wanted[0])
    grads[0] = convolution_backward_data(masked[0], call.inputs[1], how, call.input_specs[0]);
  if (call.wanted[1])
    grads[1] = convolution_backward_weights(call.inputs[0], masked[0], how, call.input_specs[1], false)[0];
  if (bias)
    grads[2] = masked[1];
  return grads;
}

const Operator convolution_relu_backward_op{
    .name = "convolution_relu_backward",
    .inputs = 2,
    .outputs = -1,
    .attributes = &attribute_type<ReluBackwardAttributes>,
    .infer = relu_backward_infer,
    .kernels = {on_cpu(convolution_relu_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(convolution_relu_backward_gpu))},
    .gradient = relu_backward_gradient,
    .saved_inputs = 0b10,
    .order = relu_backward_order,
};
const Operator convolution_relu_backward_weights_op{
    .name = "convolution_relu_backward_weights",
    .inputs = 4,
    .outputs = -1,
    .attributes = &attribute_type<ConvolutionAttributes>,
    .infer = relu_weights_infer,
    .kernels =
        {on_cpu(convolution_relu_backward_weights_cpu),
         on_gpu(SLUICE_GPU_KERNEL(convolution_relu_backward_weights_gpu))},
    .gradient = relu_weights_gradient,
    .saved_inputs = 0b111,
    .saved_for = relu_weights_saved_for,
    .shape_inputs = 0b1000,
    .order = SLUICE_GPU_KERNEL(convolution_relu_weights_order),
};

}  // namespace sluice::detail
