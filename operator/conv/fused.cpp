#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/conv/fused.h>
#include <sluice/operator/conv/passes.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice {
namespace detail {
namespace {

constexpr const char* k_name = "convolution_fused";

void check_coefficients(const char* what, const ArraySpec& given, const ArraySpec& weight) {
  require<ShapeError>(given.shape == Shape{weight.shape[0]}, [&] {
    return message(
        k_name,
        ": weight of shape ",
        weight.shape,
        " needs a ",
        what,
        " of shape (",
        weight.shape[0],
        ",), not ",
        given.shape);
  });
  require<DTypeError>(given.dtype == wide_type(weight.dtype), [&] {
    return message(
        k_name, ": ", what, " is ", given.dtype, "; beside ", weight.dtype, " it is ", wide_type(weight.dtype));
  });
}

void check_residual(const ArraySpec& given, const ArraySpec& made) {
  require<ShapeError>(given.shape == made.shape, [&] {
    return message(k_name, ": residual of shape ", given.shape, " is not of the result's shape ", made.shape);
  });
  require<DTypeError>(given.dtype == made.dtype, [&] {
    return message(k_name, ": residual is ", given.dtype, ", the result ", made.dtype);
  });
}

// Where the inputs behind x and weight stand, as far as there are any.
struct Places {
  std::size_t scale = 0, shift = 0, residual = 0;

  explicit Places(const ConvolutionFusedAttributes& how) {
    std::size_t next = 2;
    for (const auto& [is_there, place] :
         {std::pair{how.scale, &scale}, {how.shift, &shift}, {how.residual, &residual}}) {
      if (is_there)
        *place = next++;
    }
  }
};

Specs fused_infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& how = attributes.as<ConvolutionFusedAttributes>();
  const std::size_t wanted = 2 + std::size_t{how.scale} + std::size_t{how.shift} + std::size_t{how.residual};
  require<ValueError>(inputs.size() == wanted, [&] {
    return message(k_name, ": takes ", wanted, " inputs with these attributes, was given ", inputs.size());
  });
  check_convolution_types(k_name, inputs.first(2));
  const ConvolutionGeometry g =
      convolution_geometry(k_name, inputs[0].shape, inputs[1].shape, inputs[0].dtype, how.convolution());
  const ArraySpec made{g.y_shape(), inputs[0].dtype, inputs[0].device};
  const Places at(how);
  if (how.scale)
    check_coefficients("scale", inputs[at.scale], inputs[1]);
  if (how.shift)
    check_coefficients("shift", inputs[at.shift], inputs[1]);
  if (how.residual)
    check_residual(inputs[at.residual], made);
  return {made};
}

// The gradients of x and weight read each other, that of the scale both, and all of them the scale.
Mask saved_for(Mask wanted, const Attributes& attributes) {
  const auto& how = attributes.as<ConvolutionFusedAttributes>();
  const bool x = (wanted & 0b01) != 0, weight = (wanted & 0b10) != 0, scale = how.scale && (wanted & 0b100) != 0;
  return (weight || scale ? 0b01 : 0) | (x || scale ? 0b10 : 0) | (how.scale && (x || weight) ? 0b100 : 0);
}
Mask saved_outputs_for(Mask, const Attributes& attributes) {
  return attributes.as<ConvolutionFusedAttributes>().relu ? k_all : k_none;
}

Arrays fused_gradient(const GradientCall& call) {
  const auto& how = call.attributes.as<ConvolutionFusedAttributes>();
  const Places at(how);
  Arrays grads(call.input_specs.size());
  if (!call.output_grads[0].defined())
    return grads;
  const SourceLocation site = SourceLocation::current();
  const NDArray &x = call.inputs[0], &weight = call.inputs[1];
  const NDArray head = how.relu ? relu_gradient(call.output_grads[0], call.outputs[0], site) : call.output_grads[0];
  const auto wants = [&](bool is_there, std::size_t place) { return is_there && call.wanted[place]; };
  if (wants(how.residual, at.residual))
    grads[at.residual] = head;
  const NDArray wide = how.scale || how.shift ? head.astype(wide_type(head.dtype()), site) : NDArray();
  if (wants(how.shift, at.shift))
    grads[at.shift] = sum(wide, {0, 2, 3});
  if (wants(how.scale, at.scale)) {
    const NDArray sums = convolution_forward(x, weight, {}, how.convolution());
    grads[at.scale] = sum(wide * sums.astype(wide.dtype(), site), {0, 2, 3});
  }
  if (!call.wanted[0] && !call.wanted[1])
    return grads;
  NDArray before = head;
  if (how.scale)
    before = (wide * call.inputs[at.scale].reshape({1, head.shape()[1], 1, 1})).astype(head.dtype(), site);
  if (call.wanted[0])
    grads[0] = convolution_backward_data(before, weight, how.convolution(), call.input_specs[0]);
  if (call.wanted[1])
    grads[1] = convolution_backward_weights(x, before, how.convolution(), call.input_specs[1], false)[0];
  return grads;
}

}  // namespace

ConvolutionFusedCall::ConvolutionFusedCall(const KernelCall& call) {
  const auto& how = call.attributes.as<ConvolutionFusedAttributes>();
  geometry =
      convolution_geometry(k_name, call.inputs[0].shape, call.inputs[1].shape, call.inputs[0].dtype, how.convolution());
  data = {.x = call.inputs[0].data, .weight = call.inputs[1].data, .y = call.outputs[0].data};
  const Places at(how);
  if (how.scale)
    then.scale = call.inputs[at.scale].data;
  if (how.shift)
    then.shift = call.inputs[at.shift].data;
  if (how.residual)
    then.residual = call.inputs[at.residual].data;
  then.relu = how.relu;
}

const Operator convolution_fused_op{
    .name = k_name,
    .inputs = -1,
    .attributes = &attribute_type<ConvolutionFusedAttributes>,
    .infer = fused_infer,
    .kernels = {on_cpu(convolution_fused_cpu), on_gpu(SLUICE_GPU_KERNEL(convolution_fused_gpu))},
    .gradient = fused_gradient,
    .saved_inputs = 0b111,
    .saved_outputs = k_all,
    .saved_for = saved_for,
    .order = SLUICE_GPU_KERNEL(convolution_fused_order),
    .saved_outputs_for = saved_outputs_for,
};

}  // namespace detail

NDArray convolution_fused(
    const NDArray& x,
    const NDArray& weight,
    const ConvolutionEpilogue& then,
    const ConvolutionOptions& options,
    SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const bool relu = options.activation == "relu";
    require<ValueError>(relu || options.activation.empty(), [&] {
      return message("convolution_fused: activation \"", options.activation, "\" is neither \"\" nor \"relu\"");
    });
    const detail::ConvolutionFusedAttributes how{
        .stride = options.stride,
        .pad = options.pad,
        .dilation = options.dilation,
        .groups = options.groups,
        .scale = then.scale.defined(),
        .shift = then.shift.defined(),
        .residual = then.residual.defined(),
        .relu = relu};
    Arrays inputs{x, weight};
    for (const NDArray* each : {&then.scale, &then.shift, &then.residual}) {
      if (each->defined())
        inputs.push_back(*each);
    }
    return invoke(detail::convolution_fused_op, inputs, Attributes::of(how), site)[0];
  });
}

}  // namespace sluice
