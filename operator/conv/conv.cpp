#include <array>

#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/conv/composed.h>
#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/fused.h>
#include <sluice/operator/conv/passes.h>
#include <sluice/operator/conv/pooled.h>
#include <sluice/operator/conv/row_windows.h>
#include <sluice/operator/conv/unpooled_relu.h>
#include <sluice/operator/conv/volume.h>
#include <sluice/operator/conv/windows.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sink.h>

namespace sluice {
namespace detail {

void check_convolution_types(const char* op, std::span<const ArraySpec> inputs) {
  require<DTypeError>(is_floating(inputs[0].dtype), [&] {
    return message(op, ": no kernel for ", inputs[0].dtype, " on ", inputs[0].device);
  });
  for (const ArraySpec& input : inputs) {
    require<DTypeError>(input.dtype == inputs[0].dtype, [&] {
      return message(op, ": operands of ", inputs[0].dtype, " and ", input.dtype);
    });
  }
}

void check_convolution_result(const char* op, const ConvolutionGeometry& g, const Shape& dy) {
  require<ShapeError>(dy == g.y_shape(), [&] {
    return message(op, ": gradient of shape ", dy, " is not that of a result of shape ", g.y_shape());
  });
}

NDArray convolution_forward(
    const NDArray& x, const NDArray& weight, const NDArray& bias, const ConvolutionAttributes& how) {
  const SourceLocation site = SourceLocation::current();
  if (bias.defined())
    return invoke_one(convolution_op, {x, weight, bias}, Attributes::of(how), site);
  return invoke_one(convolution_op, {x, weight}, Attributes::of(how), site);
}

NDArray convolution_backward_data(
    const NDArray& dy, const NDArray& weight, ConvolutionAttributes how, const ArraySpec& x) {
  how.bias = false;
  return invoke_one(
      convolution_backward_data_op, {dy, weight, shape_only(x)}, Attributes::of(how), SourceLocation::current());
}

Arrays convolution_backward_weights(
    const NDArray& x, const NDArray& dy, ConvolutionAttributes how, const ArraySpec& weight, bool bias) {
  how.bias = bias;
  const std::array<NDArray, 3> inputs{x, dy, shape_only(weight)};
  return invoke(convolution_backward_weights_op, inputs, Attributes::of(how), SourceLocation::current());
}

namespace {

Specs convolution_infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<ValueError>(inputs.size() == 2 || inputs.size() == 3, [&] {
    return message("convolution: takes x, weight and maybe a bias, was given ", inputs.size(), " inputs");
  });
  require<DTypeError>(is_floating(inputs[0].dtype) || !is_floating(inputs[1].dtype), [&] {
    return message(
        "convolution: x is ",
        inputs[0].dtype,
        ", weight is ",
        inputs[1].dtype,
        "; cast x: ToTensor() or x.astype(",
        inputs[1].dtype,
        ")");
  });
  check_convolution_types("convolution", inputs);
  const ConvolutionGeometry g = convolution_geometry(
      "convolution", inputs[0].shape, inputs[1].shape, inputs[0].dtype, attributes.as<ConvolutionAttributes>());
  require<ShapeError>(inputs.size() < 3 || inputs[2].shape == Shape{g.outputs}, [&] {
    return message(
        "convolution: weight of shape ",
        inputs[1].shape,
        " needs a bias of shape (",
        g.outputs,
        ",), not ",
        inputs[2].shape);
  });
  return {{g.y_shape(), inputs[0].dtype, inputs[0].device}};
}

// Inputs dy, weight, x (shape alone).
Specs backward_data_infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  constexpr const char* op = "convolution_backward_data";
  const auto& how = attributes.as<ConvolutionAttributes>();
  check_convolution_types(op, inputs);
  const Shape& x = inputs[2].shape;
  check_convolution_result(op, convolution_geometry(op, x, inputs[1].shape, inputs[0].dtype, how), inputs[0].shape);
  return {{x, inputs[0].dtype, inputs[0].device}};
}

// Inputs x, dy, weight (shape alone).
Specs backward_weights_infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  constexpr const char* op = "convolution_backward_weights";
  const auto& how = attributes.as<ConvolutionAttributes>();
  check_convolution_types(op, inputs);
  const Shape& weight = inputs[2].shape;
  const Shape& dy = inputs[1].shape;
  check_convolution_result(op, convolution_geometry(op, inputs[0].shape, weight, inputs[0].dtype, how), dy);
  Specs specs{{weight, inputs[0].dtype, inputs[0].device}};
  if (how.bias)
    specs.push_back({{dy[1]}, inputs[0].dtype, inputs[0].device});
  return specs;
}

Arrays convolution_gradient(const GradientCall& call) {
  const auto& how = call.attributes.as<ConvolutionAttributes>();
  Arrays grads(call.input_specs.size());
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return grads;
  if (call.wanted[0])
    grads[0] = convolution_backward_data(dy, call.inputs[1], how, call.input_specs[0]);
  const bool bias = grads.size() > 2 && call.wanted[2];
  if (call.wanted[1] || bias) {
    const Arrays both = convolution_backward_weights(call.inputs[0], dy, how, call.input_specs[1], bias);
    grads[1] = both[0];
    if (bias)
      grads[2] = both[1];
  }
  return grads;
}

// Each pass is linear in both of its inputs, so that their gradients are the other passes.
Arrays backward_data_gradient(const GradientCall& call) {
  const auto& how = call.attributes.as<ConvolutionAttributes>();
  Arrays grads(3);
  const NDArray& dx = call.output_grads[0];
  if (!dx.defined())
    return grads;
  if (call.wanted[0])
    grads[0] = convolution_forward(dx, call.inputs[1], {}, how);
  if (call.wanted[1])
    grads[1] = convolution_backward_weights(dx, call.inputs[0], how, call.input_specs[1], false)[0];
  return grads;
}

Arrays backward_weights_gradient(const GradientCall& call) {
  const auto& how = call.attributes.as<ConvolutionAttributes>();
  Arrays grads(3);
  const NDArray& weight = call.output_grads[0];
  const NDArray bias = call.output_grads.size() > 1 ? call.output_grads[1] : NDArray();
  const Shape& dy = call.input_specs[1].shape;
  if (weight.defined() && call.wanted[0])
    grads[0] = convolution_backward_data(call.inputs[1], weight, how, call.input_specs[0]);
  if (weight.defined() && call.wanted[1])
    grads[1] = convolution_forward(call.inputs[0], weight, bias, how);
  if (!weight.defined() && bias.defined() && call.wanted[1])
    grads[1] = bias.reshape({1, dy[1], 1, 1}).broadcast_to(dy);
  return grads;
}

// The gradient of x reads the weight, those of weight and bias read x.
Mask saved_for(Mask wanted, const Attributes&) {
  return (wanted & 0b001 ? 0b10 : 0) | (wanted & 0b110 ? 0b01 : 0);
}

constexpr Operator convolution_with(const char* name, Gradient gradient, Mask saved_outputs) {
  return {
      .name = name,
      .inputs = -1,
      .attributes = &attribute_type<ConvolutionAttributes>,
      .infer = convolution_infer,
      .kernels = {on_cpu(convolution_cpu), on_gpu(SLUICE_GPU_KERNEL(convolution_gpu))},
      .gradient = gradient,
      .saved_inputs = 0b11,
      .saved_outputs = saved_outputs,
      .saved_for = saved_for,
      .order = SLUICE_GPU_KERNEL(convolution_order),
  };
}

}  // namespace

const Operator convolution_op = convolution_with("convolution", convolution_gradient, k_none);
const Operator convolution_relu_op = convolution_with("convolution_relu", convolution_relu_gradient, k_all);
const Operator convolution_backward_data_op{
    .name = "convolution_backward_data",
    .inputs = 3,
    .attributes = &attribute_type<ConvolutionAttributes>,
    .infer = backward_data_infer,
    .kernels = {on_cpu(convolution_backward_data_cpu), on_gpu(SLUICE_GPU_KERNEL(convolution_backward_data_gpu))},
    .gradient = backward_data_gradient,
    .saved_inputs = 0b11,
    .shape_inputs = 0b100,
    .order = SLUICE_GPU_KERNEL(convolution_order),
};
const Operator convolution_backward_weights_op{
    .name = "convolution_backward_weights",
    .inputs = 3,
    .outputs = -1,
    .attributes = &attribute_type<ConvolutionAttributes>,
    .infer = backward_weights_infer,
    .kernels = {on_cpu(convolution_backward_weights_cpu), on_gpu(SLUICE_GPU_KERNEL(convolution_backward_weights_gpu))},
    .gradient = backward_weights_gradient,
    .saved_inputs = 0b11,
    .shape_inputs = 0b100,
    .order = SLUICE_GPU_KERNEL(convolution_weights_order),
};

OperatorList conv_operators() noexcept {
  static constexpr const Operator* list[] = {
      &convolution_op,
      &convolution_relu_op,
      &convolution_fused_op,
      &convolution_relu_backward_op,
      &convolution_relu_backward_weights_op,
      &convolution_relu_pool_op,
      &convolution_relu_pool_backward_op,
      &max_pool2d_relu_backward_op,
      &convolution_backward_data_op,
      &convolution_backward_weights_op,
      &k_convolution1d,
      &k_deconvolution,
      &k_deconvolution1d,
      &k_convolution3d,
      &k_deconvolution3d,
      &k_im2col,
      &k_col2im,
      &k_unfold_rows,
      &k_fold_rows};
  return list;
}

}  // namespace detail

NDArray convolution(
    const NDArray& x,
    const NDArray& weight,
    const NDArray& bias,
    const ConvolutionOptions& options,
    SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const bool relu = options.activation == "relu";
    require<ValueError>(relu || options.activation.empty(), [&] {
      return message("convolution: activation \"", options.activation, "\" is neither \"\" nor \"relu\"");
    });
    const Operator& op = relu ? detail::convolution_relu_op : detail::convolution_op;
    auto attributes = Attributes::of(detail::ConvolutionAttributes{
        .stride = options.stride, .pad = options.pad, .dilation = options.dilation, .groups = options.groups});
    if (bias.defined())
      return invoke_one(op, {x, weight, bias}, std::move(attributes), site);
    return invoke_one(op, {x, weight}, std::move(attributes), site);
  });
}

}  // namespace sluice
