#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/library/channel.h>

namespace sluice::detail {
namespace {

void run(const KernelCall& call, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& data) {
  if (!convolution_onednn(call.queue, pass, g, data))
    convolution_own(call.queue, pass, g, data);
}

}  // namespace

void convolution_cpu(const KernelCall& call) {
  const void* bias = call.inputs.size() > 2 ? call.inputs[2].data : nullptr;
  run(call,
      ConvolutionPass::forward,
      forward_geometry(call),
      {call.inputs[0].data, call.inputs[1].data, call.outputs[0].data, bias});
}

void convolution_backward_data_cpu(const KernelCall& call) {
  run(call,
      ConvolutionPass::backward_data,
      backward_data_geometry(call),
      {call.outputs[0].data, call.inputs[1].data, call.inputs[0].data});
}

void convolution_backward_weights_cpu(const KernelCall& call) {
  const ConvolutionGeometry g = backward_weights_geometry(call);
  void* bias = call.outputs.size() > 1 ? call.outputs[1].data : nullptr;
  const ConvolutionData data{
      .x = call.inputs[0].data, .weight = call.outputs[0].data, .y = call.inputs[1].data, .bias_grad = bias};
  if (convolution_onednn(call.queue, ConvolutionPass::backward_weights, g, data))
    return;
  convolution_own(call.queue, ConvolutionPass::backward_weights, g, data);
  if (bias != nullptr)
    channel_sum_cpu({g.images, g.outputs, g.out_plane(), g.dtype}, data.y, bias);
}

}  // namespace sluice::detail
