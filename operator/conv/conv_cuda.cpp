#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/conv/conv.h>
#include <sluice/operator/conv/first_layer.h>
#include <sluice/operator/conv/fused.h>
#include <sluice/operator/conv/plan_cuda.h>
#include <sluice/operator/conv/shallow.h>
#include <sluice/operator/conv/strip_tiles.h>
#include <sluice/operator/conv/tensor_tiles.h>
#include <sluice/operator/conv/weight_tiles.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/library/nvrtc.h>
#include <sluice/operator/library/shared_library.h>

namespace sluice::detail {
namespace {

constexpr int k_measured_capability = 90;  // of the GPUs on which our kernels were measured beside cuDNN's

// The alignment that all arrays have, at most 16 bytes.
std::int64_t alignment_of(const ConvolutionData& d) {
  const auto bits = reinterpret_cast<std::uintptr_t>(d.x) | reinterpret_cast<std::uintptr_t>(d.weight) |
                    reinterpret_cast<std::uintptr_t>(d.y) | 16;
  return std::int64_t{1} << std::countr_zero(bits);
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
        cudaMemsetAsync(to, 0, static_cast<std::size_t>(sizes[target]) * size_of(g.dtype), stream_of(queue)),
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

bool is_measured(const Queue& queue) {
  return gpu_capability(queue.device().index) == k_measured_capability;
}

// Small ones of floats, by kernels of ours; false, and nothing done, where these take none.
bool ran_small(
    const Queue& queue,
    ConvolutionPass pass,
    const ConvolutionGeometry& g,
    MemoryOrder order,
    const ConvolutionData& d) {
  if (ran_by_strips(queue, pass, g, order, d, {}))
    return true;
  if (pass != ConvolutionPass::backward_weights || !is_measured(queue) || !is_weight_tiled(g, order, d))
    return false;
  weights_by_tiles_gpu(queue, g, d);
  return true;
}

void run_pass(
    const Queue& queue,
    ConvolutionPass pass,
    const ConvolutionGeometry& g,
    MemoryOrder order,
    const ConvolutionData& d) {
  if (ran_empty(queue, pass, g, d))
    return;
  if (is_first_layer(queue, pass, g, order, d.y))
    return pass == ConvolutionPass::forward ? first_layer_forward_gpu(queue, g, d, {})
                                            : first_layer_weights_gpu(queue, g, d);
  if (ran_small(queue, pass, g, order, d))
    return;
  cudnn_library().require("convolution");
  run(queue, problem_of(pass, g, order, d), d);
}
void run_pass(const KernelCall& call, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& d) {
  run_pass(call.queue, pass, g, order_in(call), d);
}

// In one kernel of ours with what follows it, rounded once; false, and nothing done, where none takes it. Measured on
// an H200, 256 images: half types take 0.56 to 1.04 of cuDNN's best and a pass behind it. In TF32 cuDNN's kernels with
// an epilogue take 0.87 to 1.61 of that, so that floats get the pass, but where strips take them.
bool with_epilogue(
    const KernelCall& call, const ConvolutionGeometry& g, const ConvolutionData& data, const ChannelEpilogue& then) {
  const MemoryOrder order = order_in(call);
  if (!is_measured(call.queue))
    return false;
  if (g.x_shape().size() == 0 || g.weight_shape().size() == 0 || g.y_shape().size() == 0)
    return false;
  if (is_first_layer(call.queue, ConvolutionPass::forward, g, order, data.y)) {
    first_layer_forward_gpu(call.queue, g, data, then);
    return true;
  }
  if (ran_by_strips(call.queue, ConvolutionPass::forward, g, order, data, then))
    return true;
  if (!is_tiled(call.queue, g, order, data, then))
    return false;
  convolution_by_tiles(call.queue, g, data, then);
  return true;
}

}  // namespace

bool ran_by_strips(
    const Queue& queue,
    ConvolutionPass pass,
    const ConvolutionGeometry& g,
    MemoryOrder order,
    const ConvolutionData& data,
    const ChannelEpilogue& then) {
  if (!is_strip_tiled(pass, g, order, data) || !is_aligned(then.residual) || !is_measured(queue))
    return false;
  convolution_by_strips(queue, pass, g, data, then);
  return true;
}

void convolution_sums_gpu(
    const Queue& queue, const ConvolutionGeometry& g, MemoryOrder order, const ConvolutionData& data) {
  run_pass(queue, ConvolutionPass::forward, g, order, data);
}

void convolution_gpu(const KernelCall& call) {
  const ConvolutionGeometry g = forward_geometry(call);
  const void* const bias = call.inputs.size() > 2 ? call.inputs[2].data : nullptr;
  const bool relu = &call.op == &convolution_relu_op;
  const ConvolutionData data{call.inputs[0].data, call.inputs[1].data, call.outputs[0].data, bias};
  if (is_shallow(g, ConvolutionPass::forward))
    return shallow_forward_gpu(call.queue, g, order_in(call), data, relu);
  if ((bias != nullptr || relu) && with_epilogue(call, g, data, {.relu = relu, .bias = bias}))
    return;
  run_pass(call, ConvolutionPass::forward, g, data);
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
  void* const bias = call.outputs.size() > 1 ? call.outputs[1].data : nullptr;
  const ConvolutionData data{
      .x = call.inputs[0].data, .weight = call.outputs[0].data, .y = call.inputs[1].data, .bias_grad = bias};
  if (is_shallow(g, ConvolutionPass::backward_weights))
    return shallow_weights_gpu(call.queue, g, order_in(call), data, nullptr);
  run_pass(call, ConvolutionPass::backward_weights, g, data);
  if (bias != nullptr)
    channel_sum_gpu(call.queue, channels_of(g, order_in(call)), data.y, bias);
}

}  // namespace sluice::detail
