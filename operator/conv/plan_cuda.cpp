#include <sluice/operator/conv/plan_cuda.h>
#include <sluice/operator/library/autotune.h>

namespace sluice::detail {
namespace {

// Sums of fewer terms than this many fill no tensor core: the library's own order there is off by a factor of ten.
constexpr std::int64_t k_least_depth = 32;

cudnnDataType_t computing_type(DType dtype) {
  return dtype == DType::float64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

CudnnDescriptor tensor(const ConvolutionProblem& p, std::int64_t id, const Shape& shape) {
  // Of single channels and planes too, as the order would have them.
  Shape strides = contiguous_strides(shape);
  if (p.order == MemoryOrder::channels_last)
    strides = {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
  return cudnn_tensor(
      id, p.geometry.dtype, {shape.begin(), shape.end()}, {strides.begin(), strides.end()}, p.alignment);
}

CudnnDescriptor describe(const ConvolutionGeometry& g) {
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

// The convolution alone. Bias and relu stay out: cuDNN's maximum of a number and NaN is the number, in some engines,
// and engines that promise otherwise took 40 times as long.
CudnnDescriptor operation_of(const ConvolutionProblem& p, std::vector<CudnnDescriptor>& parts) {
  const ConvolutionGeometry& g = p.geometry;
  parts.push_back(describe(g));
  parts.push_back(tensor(p, 'x', g.x_shape()));
  parts.push_back(tensor(p, 'w', g.weight_shape()));
  parts.push_back(tensor(p, 'y', g.y_shape()));
  const OperationNames names = names_of(p.pass);
  CudnnDescriptor operation(names.type);
  operation.set(names.convolution, parts[0]);
  operation.set(names.x, parts[1]);
  operation.set(names.weight, parts[2]);
  operation.set(names.y, parts[3]);
  operation.set_scale(names.alpha, 1.0, g.dtype == DType::float64);
  operation.set_scale(names.beta, 0.0, g.dtype == DType::float64);
  return operation;
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

CudnnPlan make_plan(std::shared_ptr<const CudnnMaker> maker, const ConvolutionProblem& p) {
  std::vector<CudnnDescriptor> parts;
  CudnnDescriptor operation = operation_of(p, parts);
  if (operation.try_finalize() != CUDNN_STATUS_SUCCESS)
    return {};
  const ConvolutionGeometry& g = p.geometry;
  const bool deep = g.group_inputs() * g.kernel[0] * g.kernel[1] >= k_least_depth;
  const bool narrow = g.dtype != DType::float32 || (p.tf32 && (deep || autotune() != Autotune::off));
  const auto bytes_of = [&](const Shape& shape) { return static_cast<std::size_t>(shape.size()) * size_of(g.dtype); };
  const std::size_t bytes[] = {bytes_of(g.x_shape()), bytes_of(g.weight_shape()), bytes_of(g.y_shape())};
  CacheKey key;
  add_numbers(p, key);
  return cudnn_plan(
      std::move(maker),
      std::move(parts),
      std::move(operation),
      {.tensor_cores = narrow},
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
