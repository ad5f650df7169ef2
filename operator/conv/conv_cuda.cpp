#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/library/channel.h>
#include <sluice/operator/library/cudnn_cuda.h>
#include <sluice/operator/library/shared_library.h>
#include <sluice/operator/matmul/precision.h>

namespace sluice::detail {
namespace {

constexpr std::array<std::int64_t, 3> k_ids{'x', 'w', 'y'};

bool is_tf32_allowed() {
  return current_float32_precision() == Float32Precision::high;
}

// The alignment that all three arrays have, at most 16 bytes.
std::int64_t alignment_of(const ConvolutionData& d) {
  const auto bits = reinterpret_cast<std::uintptr_t>(d.x) | reinterpret_cast<std::uintptr_t>(d.weight) |
                    reinterpret_cast<std::uintptr_t>(d.y) | 16;
  return std::int64_t{1} << std::countr_zero(bits);
}

CudnnDescriptor tensor(std::int64_t id, const ConvolutionGeometry& g, const Shape& shape, std::int64_t alignment) {
  const Shape strides = contiguous_strides(shape);
  return cudnn_tensor(id, g.dtype, {shape.begin(), shape.end()}, {strides.begin(), strides.end()}, alignment);
}

CudnnDescriptor describe(const ConvolutionGeometry& g) {
  CudnnDescriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, g.dtype == DType::float64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, g.dilation);
  convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, g.stride);
  convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, g.pad);
  convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, g.pad);
  convolution.finalize("cudnnBackendFinalize (convolution)");
  return convolution;
}

// The names that one pass's operation has for its parts.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t convolution, x, weight, y, alpha, beta;
};

OperationNames names_of(ConvolutionPass pass) {
  if (pass == ConvolutionPass::forward)
    return {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  if (pass == ConvolutionPass::backward_data)
    return {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
  return {
      CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

CudnnPlan make_plan(
    std::shared_ptr<const CudnnMaker> maker,
    ConvolutionPass pass,
    const ConvolutionGeometry& g,
    std::int64_t alignment) {
  const OperationNames names = names_of(pass);
  const bool wide = g.dtype == DType::float64;
  std::vector<CudnnDescriptor> parts;
  parts.push_back(describe(g));
  parts.push_back(tensor(k_ids[0], g, g.x_shape(), alignment));
  parts.push_back(tensor(k_ids[1], g, g.weight_shape(), alignment));
  parts.push_back(tensor(k_ids[2], g, g.y_shape(), alignment));
  CudnnDescriptor operation(names.type);
  operation.set(names.convolution, parts[0]);
  operation.set(names.x, parts[1]);
  operation.set(names.weight, parts[2]);
  operation.set(names.y, parts[3]);
  operation.set_scale(names.alpha, 1.0, wide);
  operation.set_scale(names.beta, 0.0, wide);
  if (operation.try_finalize() != CUDNN_STATUS_SUCCESS)
    return {};
  CudnnPlan plan = cudnn_plan(
      std::move(maker), std::move(parts), operation, {.tensor_cores = g.dtype != DType::float32 || is_tf32_allowed()});
  plan.parts.push_back(std::move(operation));
  return plan;
}

CacheKey key_of(const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, std::int64_t alignment) {
  const bool tf32 = g.dtype == DType::float32 && is_tf32_allowed();
  CacheKey key = CacheKey::of(
      static_cast<int>(pass),
      queue.device().index,
      static_cast<int>(g.dtype),
      tf32,
      alignment,
      g.images,
      g.inputs,
      g.outputs,
      g.groups);
  for (const auto* values : {&g.in, &g.kernel, &g.stride, &g.pad, &g.dilation}) {
    key.add((*values)[0]);
    key.add((*values)[1]);
  }
  return key;
}

// The pass itself, without bias; its output is written whole.
void run(const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, const ConvolutionData& d) {
  const std::int64_t sizes[] = {g.x_shape().size(), g.weight_shape().size(), g.y_shape().size()};
  if (std::find(std::begin(sizes), std::end(sizes), 0) != std::end(sizes)) {  // sums over nothing
    const int target = pass == ConvolutionPass::forward ? 2 : pass == ConvolutionPass::backward_data ? 0 : 1;
    void* to = target == 2 ? d.y : target == 0 ? d.x : d.weight;
    if (sizes[target] > 0)
      cuda::cuda_check(
          cudaMemsetAsync(
              to,
              0,
              static_cast<std::size_t>(sizes[target]) * size_of(g.dtype),
              static_cast<cudaStream_t>(queue.stream())),
          "cudaMemsetAsync");
    return;
  }
  cudnn_library().require("convolution");
  const std::int64_t alignment = alignment_of(d);
  CudnnPlans& made = CudnnPlans::of(queue);
  const auto plan = made.plans.get(key_of(queue, pass, g, alignment), [&] {
    return std::make_shared<const CudnnPlan>(make_plan(made.maker(queue), pass, g, alignment));
  });
  if (plan->plan == nullptr)
    return convolution_unfolded_gpu(queue, pass, g, d);
  const std::array<void*, 3> pointers{d.x, d.weight, d.y};
  cudnn_run(queue, *plan, k_ids, pointers);
}

}  // namespace

void convolution_gpu(const KernelCall& call) {
  const ConvolutionGeometry g = forward_geometry(call);
  run(call.queue, ConvolutionPass::forward, g, {call.inputs[0].data, call.inputs[1].data, call.outputs[0].data});
  if (call.inputs.size() > 2)
    channel_add_gpu(
        call.queue, {g.images, g.outputs, g.out_plane(), g.dtype}, call.outputs[0].data, call.inputs[2].data, false);
}

void convolution_backward_data_gpu(const KernelCall& call) {
  run(call.queue,
      ConvolutionPass::backward_data,
      backward_data_geometry(call),
      {call.outputs[0].data, call.inputs[1].data, call.inputs[0].data});
}

void convolution_backward_weights_gpu(const KernelCall& call) {
  const ConvolutionGeometry g = backward_weights_geometry(call);
  run(call.queue,
      ConvolutionPass::backward_weights,
      g,
      {call.inputs[0].data, call.outputs[0].data, call.inputs[1].data});
  if (call.outputs.size() > 1)
    channel_sum_gpu(
        call.queue, {g.images, g.outputs, g.out_plane(), g.dtype}, call.inputs[1].data, call.outputs[1].data);
}

}  // namespace sluice::detail
