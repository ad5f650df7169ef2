#include <type_traits>

#include <sluice/engine/parallel.h>
#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/masked.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/channel.h>

namespace sluice::detail {

void convolution_pass_cpu(
    const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& data) {
  const bool taken = convolution_onednn(queue, pass, g, data);
  if (!taken)
    convolution_own(queue, pass, g, data);
  if (data.relu && !(taken && g.dtype == DType::float32))  // not by oneDNN, which makes 0 of NaN
    channel_add_cpu({g.images, g.outputs, g.out_plane(), g.dtype}, data.y, nullptr, true);
}

void convolution_cpu(const KernelCall& call) {
  const void* bias = call.inputs.size() > 2 ? call.inputs[2].data : nullptr;
  const ConvolutionGeometry g = forward_geometry(call);
  convolution_pass_cpu(
      call.queue,
      ConvolutionPass::forward,
      g,
      {.x = call.inputs[0].data,
       .weight = call.inputs[1].data,
       .y = call.outputs[0].data,
       .bias = bias,
       .relu = &call.op == &convolution_relu_op});
}

void convolution_relu_backward_cpu(const KernelCall& call) {
  const TensorView& y = call.inputs[1];
  by_floating(y.dtype, [&]<class T>() {
    const T* const head = call.inputs[0].as<T>();
    const T* const values = y.as<T>();
    T* const masked = call.outputs[0].as<T>();
    parallel_for(y.size, 16 * 1024, [=](std::int64_t begin, std::int64_t end) {
      if constexpr (std::is_same_v<T, float>)
        return relu_floats_backward(head + begin, values + begin, end - begin, masked + begin);
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
  convolution_pass_cpu(
      call.queue,
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
  const ConvolutionGeometry g = relu_backward_weights_geometry(call);
  const ConvolutionData data{
      .x = call.inputs[0].data,
      .weight = call.outputs[0].data,
      .y = call.inputs[1].data,
      .bias_grad = call.outputs.size() > 1 ? call.outputs[1].data : nullptr};
  if (!masked_weights_onednn(call.queue, g, data, call.inputs[2].data))
    mask_then_weights(call, convolution_relu_backward_cpu, convolution_backward_weights_cpu);
}

}  // namespace sluice::detail
