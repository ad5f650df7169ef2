#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/plan_cuda.h>
#include <sluice/operator/library/channel.h>
#include <sluice/operator/library/shared_library.h>
#include <sluice/operator/matmul/precision.h>

namespace sluice::detail {
namespace {

bool is_tf32(DType dtype) {
  return dtype == DType::float32 && current_float32_precision() == Float32Precision::high;
}

// The alignment that all arrays have, at most 16 bytes.
std::int64_t alignment_of(const ConvolutionData& d) {
  const auto bits = reinterpret_cast<std::uintptr_t>(d.x) | reinterpret_cast<std::uintptr_t>(d.weight) |
                    reinterpret_cast<std::uintptr_t>(d.y) | 16;
  return std::int64_t{1} << std::countr_zero(bits);
}

ChannelView channels_of(const ConvolutionGeometry& g, MemoryOrder order) {
  if (order == MemoryOrder::channels_last)
    return {g.images * g.out_plane(), g.outputs, 1, g.dtype};
  return {g.images, g.outputs, g.out_plane(), g.dtype};
}

// A sum over nothing, if the pass is one; no other array of it has elements then.
bool ran_empty(const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& d) {
  const std::int64_t sizes[] = {g.x_shape().size(), g.weight_shape().size(), g.y_shape().size()};
  if (std::find(std::begin(sizes), std::end(sizes), 0) == std::end(sizes))
    return false;
  const int target = pass == ConvolutionPass::forward ? 2 : pass == ConvolutionPass::backward_data ? 0 : 1;
  void* const to = target == 2 ? d.y : target == 0 ? d.x : d.weight;
  if (sizes[target] > 0)
    cuda::cuda_check(
        cudaMemsetAsync(
            to,
            0,
            static_cast<std::size_t>(sizes[target]) * size_of(g.dtype),
            static_cast<cudaStream_t>(queue.stream())),
        "cudaMemsetAsync");
  return true;
}

// True once cuDNN has enqueued the problem; false where it has no plan.
bool run_plan(const Queue& queue, const ConvolutionProblem& problem, const ConvolutionData& d) {
  const auto plan = convolution_plan(queue, problem);
  if (plan->plan == nullptr)
    return false;
  const std::array<void*, 3> pointers{d.x, d.weight, d.y};
  cudnn_run(queue, *plan, k_convolution_ids, pointers);
  return true;
}

// The pass itself, without bias; its output is written whole.
void run(const Queue& queue, const ConvolutionProblem& problem, const ConvolutionData& d) {
  if (!run_plan(queue, problem, d))
    convolution_unfolded_gpu(queue, problem.pass, problem.geometry, d, problem.order);
}

ConvolutionProblem problem_of(
    ConvolutionPass pass, const ConvolutionGeometry& g, MemoryOrder order, const ConvolutionData& d) {
  return {.pass = pass, .geometry = g, .order = order, .alignment = alignment_of(d), .tf32 = is_tf32(g.dtype)};
}

// As the arrays lie, which was chosen when the call was pushed.
MemoryOrder order_in(const KernelCall& call) {
  const auto is_last = [](const TensorView& array) {
    return order_of(array.shape, array.strides) == MemoryOrder::channels_last;
  };
  bool last = std::any_of(call.outputs.begin(), call.outputs.end(), is_last);
  for (std::size_t i = 0; i < call.inputs.size(); ++i)  // of some only the shape counts
    last = last || ((call.op.shape_inputs >> i & 1) == 0 && is_last(call.inputs[i]));
  return last ? MemoryOrder::channels_last : MemoryOrder::row_major;
}

void run_pass(const KernelCall& call, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& d) {
  if (ran_empty(call.queue, pass, g, d))
    return;
  cudnn_library().require("convolution");
  run(call.queue, problem_of(pass, g, order_in(call), d), d);
}

// Whether tensor cores take the convolution; they want channels as neighbours, in whole vectors but for first layers.
// All else is quicker row by row.
MemoryOrder preferred_order(DType dtype, const Shape& weight, const ConvolutionAttributes& how, bool first_layer_too) {
  if (how.groups != 1 || !(dtype == DType::float16 || dtype == DType::bfloat16 || is_tf32(dtype)))
    return MemoryOrder::row_major;
  const std::int64_t vector = 16 / static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t inputs = weight[1];
  const bool fits = weight[0] % vector == 0 && (inputs % vector == 0 || (first_layer_too && inputs <= 4));
  return fits ? MemoryOrder::channels_last : MemoryOrder::row_major;
}

}  // namespace

MemoryOrder convolution_order(std::span<const NDArray> inputs, const Attributes& attributes) {
  return preferred_order(inputs[0].dtype(), inputs[1].shape(), attributes.as<ConvolutionAttributes>(), true);
}

// In float32 the gradient of a first layer's weights is far from filling tensor cores.
MemoryOrder convolution_weights_order(std::span<const NDArray> inputs, const Attributes& attributes) {
  const DType dtype = inputs[0].dtype();
  return preferred_order(dtype, inputs[2].shape(), attributes.as<ConvolutionAttributes>(), dtype != DType::float32);
}

void convolution_gpu(const KernelCall& call) {
  const ConvolutionGeometry g = forward_geometry(call);
  run_pass(call, ConvolutionPass::forward, g, {call.inputs[0].data, call.inputs[1].data, call.outputs[0].data});
  const void* const bias = call.inputs.size() > 2 ? call.inputs[2].data : nullptr;
  const bool relu = &call.op == &convolution_relu_op;
  if ((bias != nullptr || relu) && g.y_shape().size() > 0)
    channel_add_gpu(call.queue, channels_of(g, order_in(call)), call.outputs[0].data, bias, relu);
}

void convolution_backward_data_gpu(const KernelCall& call) {
  run_pass(
      call,
      ConvolutionPass::backward_data,
      backward_data_geometry(call),
      {call.outputs[0].data, call.inputs[1].data, call.inputs[0].data});
}

void convolution_backward_weights_gpu(const KernelCall& call) {
  const ConvolutionGeometry g = backward_weights_geometry(call);
  run_pass(
      call, ConvolutionPass::backward_weights, g, {call.inputs[0].data, call.outputs[0].data, call.inputs[1].data});
  if (call.outputs.size() > 1)
    channel_sum_gpu(call.queue, channels_of(g, order_in(call)), call.inputs[1].data, call.outputs[1].data);
}

}  // namespace sluice::detail
