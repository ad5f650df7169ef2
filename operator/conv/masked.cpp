#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/masked.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

ConvolutionGeometry relu_backward_weights_geometry(const KernelCall& call) {
  return convolution_geometry(
      "convolution_relu_backward_weights",
      call.inputs[0].shape,
      call.outputs[0].shape,
      call.inputs[0].dtype,
      call.attributes.as<ConvolutionAttributes>());
}

void mask_then_weights(const KernelCall& call, Kernel mask, Kernel weights) {
  const TensorView& result = call.inputs[2];
  const Workspace room(call.queue, static_cast<std::size_t>(result.size) * size_of(result.dtype));
  TensorView masked = result;
  masked.data = room.data();
  const TensorView heads[] = {call.inputs[1], result};
  TensorView first[] = {masked, call.outputs.back()};
  const bool bias = call.outputs.size() > 1;
  mask({convolution_relu_backward_op, call.queue, heads, std::span(first, bias ? 2 : 1), call.attributes});
  const TensorView operands[] = {call.inputs[0], masked, call.inputs[3]};
  weights({convolution_backward_weights_op, call.queue, operands, call.outputs.first(1), call.attributes});
}

}  // namespace sluice::detail
