#include <sluice/engine/parallel.h>
#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/masked.h>
#include <sluice/operator/floating.h>
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
  const ConvolutionGeometry g = forward_geometry(call);
  run(call, ConvolutionPass::forward, g, {call.inputs[0].data, call.inputs[1].data, call.outputs[0].data, bias});
  if (&call.op == &convolution_relu_op)  // not by oneDNN, which makes 0 of NaN
    channel_add_cpu({g.images, g.outputs, g.out_plane(), g.dtype}, call.outputs[0].data, nullptr, true);
}

void convolution_relu_backward_cpu(const KernelCall& call) {
  const TensorView& y = call.inputs[1];
  by_floating(y.dtype, [&]<class T>() {
    const T* const head = call.inputs[0].as<T>();
    const T* const values = y.as<T>();
    T* const masked = call.outputs[0].as<T>();
    parallel_for(y.size, 16 * 1024, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T grad = head[i];  // read in any case: a choice between numbers, not between ways to go
        masked[i] = static_cast<Compute<T>>(values[i]) <= Compute<T>{} ? T(Compute<T>{}) : grad;
      }
    });
  });
  if (call.outputs.size() > 1)
    channel_sum_cpu(
        {y.shape[0], y.shape[1], y.shape[2] * y.shape[3], y.dtype}, call.outputs[0].data, call.outputs[1].data);
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

void convolution_relu_backward_weights_cpu(const KernelCall& call) {
  mask_then_weights(call, convolution_relu_backward_cpu, convolution_backward_weights_cpu);
}

}  // namespace sluice::detail
