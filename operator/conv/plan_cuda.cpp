#include <sluice/operator/conv/plan_cuda.h>
#include <sluice/operator/library/autotune.h>

namespace sluice::detail {
namespace {

cudnnDataType_t computing_type(DType dtype) {
  return dtype == DType::float64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
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

}  // namespace

Shape convolution_strides(const ConvolutionProblem& p, const Shape& shape) {
  // Of single channels and planes too, as the order would have them.
  if (p.order == MemoryOrder::channels_last)
    return {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
  return contiguous_strides(shape);
}

CudnnDescriptor convolution_array(const ConvolutionProblem& p, std::int64_t id, const Shape& shape) {
  const Shape strides = convolution_strides(p, shape);
  return cudnn_tensor(
      id, p.geometry.dtype, {shape.begin(), shape.end()}, {strides.begin(), strides.end()}, p.alignment);
}

CudnnDescriptor convolution_how(const ConvolutionGeometry& g) {
  CudnnDescriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, computing_type(g.dtype));
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, g.dilation);
  convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, g.stride);
  convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, g.pad);
  convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, g.pad_end);
  convolution.finalize("cudnnBackendFinalize (convolution)");
  return convolution;
}

CudnnDescriptor convolution_operation(
    const ConvolutionProblem& p,
    const CudnnDescriptor& how,
    const CudnnDescriptor& x,
    const CudnnDescriptor& weight,
    const CudnnDescriptor& y) {
  const OperationNames names = names_of(p.pass);
  CudnnDescriptor operation(names.type);
  operation.set(names.convolution, how);
  operation.set(names.x, x);
  operation.set(names.weight, weight);
  operation.set(names.y, y);
  operation.set_scale(names.alpha, 1.0, p.geometry.dtype == DType::float64);
  operation.set_scale(names.beta, 0.0, p.geometry.dtype == DType::float64);
  return operation;
}

CudnnLimits convolution_limits(const ConvolutionProblem& p) {
  const ConvolutionGeometry& g = p.geometry;
  const bool deep = g.depth() >= k_least_depth;
  return {.tensor_cores = g.dtype != DType::float32 || (p.tf32 && (deep || autotune() != Autotune::off))};
}

void add_numbers(const ConvolutionProblem& p, CacheKey& key) {
  const ConvolutionGeometry& g = p.geometry;
  for (const std::int64_t number :
       {static_cast<std::int64_t>(p.pass),
        static_cast<std::int64_t>(g.dtype),
        std::int64_t{p.tf32},
        static_cast<std::int64_t>(p.order),
        p.alignment,
        g.images,
        g.inputs,
        g.outputs,
        g.groups})
    key.add(number);
  for (const auto* values : {&g.in, &g.kernel, &g.stride, &g.pad, &g.pad_end, &g.dilation}) {
    key.add((*values)[0]);
    key.add((*values)[1]);
  }
}

namespace {

// The convolution alone. Bias and relu stay out: cuDNN's maximum of a number and NaN is the number, in some engines,
// and engines that promise otherwise took 40 times as long.
CudnnPlan make_plan(std::shared_ptr<const CudnnMaker> maker, const ConvolutionProblem& p) {
  const ConvolutionGeometry& g = p.geometry;
  std::vector<CudnnDescriptor> parts, operations;
  parts.push_back(convolution_how(g));
  parts.push_back(convolution_array(p, 'x', g.x_shape()));
  parts.push_back(convolution_array(p, 'w', g.weight_shape()));
  parts.push_back(convolution_array(p, 'y', g.y_shape()));
  operations.push_back(convolution_operation(p, parts[0], parts[1], parts[2], parts[3]));
  if (operations[0].try_finalize() != CUDNN_STATUS_SUCCESS)
    return {};
  const auto bytes_of = [&](const Shape& shape) { return static_cast<std::size_t>(shape.size()) * size_of(g.dtype); };
  const std::size_t bytes[] = {bytes_of(g.x_shape()), bytes_of(g.weight_shape()), bytes_of(g.y_shape())};
  CacheKey key;
  add_numbers(p, key);
  return cudnn_plan(
      std::move(maker),
      std::move(parts),
      std::move(operations),
      convolution_limits(p),
      {.ids = k_convolution_ids, .bytes = bytes, .key = "convolution" + key.text()});
}

}  // namespace

std::shared_ptr<const CudnnPlan> convolution_plan(const Queue& queue, const ConvolutionProblem& problem) {
  CudnnPlans& made = CudnnPlans::of(queue);
  CacheKey key = CacheKey::of(queue.device().index, static_cast<int>(autotune()));
  add_numbers(problem, key);
  return made.plans.get(key, [&] { return std::make_shared<const CudnnPlan>(make_plan(made.maker(queue), problem)); });
}

}  // namespace sluice::detail
