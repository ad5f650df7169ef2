#include <sluice/operator/conv/plan_cuda.h>
#include <sluice/operator/library/autotune.h>

namespace sluice::detail {
namespace {

// Sums of fewer terms than this many fill no tensor core: the library's own order there is off by a factor of ten.
constexpr std::int64_t k_least_depth = 32;

cudnnDataType_t computing_type(DType dtype) {
  return dtype == DType::float64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

CudnnDescriptor tensor(
    const ConvolutionProblem& p, std::int64_t id, const Shape& shape, cudnnDataType_t type, bool is_virtual) {
  // Of single channels and planes too, as the order would have them.
  Shape strides = contiguous_strides(shape);
  if (p.order == MemoryOrder::channels_last)
    strides = {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
  return cudnn_tensor(
      id, type, {shape.begin(), shape.end()}, {strides.begin(), strides.end()}, p.alignment, is_virtual);
}

CudnnDescriptor describe(const ConvolutionGeometry& g) {
  CudnnDescriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, computing_type(g.dtype));
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

// What of a graph must outlive its making, in the order in which it was made.
struct Graph {
  std::vector<CudnnDescriptor> parts;
  std::vector<CudnnDescriptor> operations;
  bool is_good = true;

  std::size_t add(CudnnDescriptor part) {
    parts.push_back(std::move(part));
    return parts.size() - 1;
  }
  void add_operation(CudnnDescriptor operation) {
    is_good = is_good && operation.try_finalize() == CUDNN_STATUS_SUCCESS;
    operations.push_back(std::move(operation));
  }
  /// `to` = mode(`from`, `other`); no other for functions of one operand.
  void add_pointwise(
      cudnnPointwiseMode_t mode, DType dtype, std::size_t from, std::optional<std::size_t> other, std::size_t to) {
    CudnnDescriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, mode);
    how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, computing_type(dtype));
    how.finalize("cudnnBackendFinalize (pointwise)");
    const std::size_t described = add(std::move(how));
    CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parts[described]);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, parts[from]);
    if (other.has_value())
      operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, parts[*other]);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, parts[to]);
    add_operation(std::move(operation));
  }
};

// The convolution, then the bias, then relu; what lies between is virtual.
Graph graph_of(const ConvolutionProblem& p) {
  const ConvolutionGeometry& g = p.geometry;
  const cudnnDataType_t type = cudnn_type(g.dtype), wide = computing_type(g.dtype);
  Graph graph;
  const bool fused = p.bias || p.relu;
  std::int64_t inside = 1;  // ids of what is virtual
  const std::size_t x = graph.add(tensor(p, 'x', g.x_shape(), type, false));
  const std::size_t weight = graph.add(tensor(p, 'w', g.weight_shape(), type, false));
  const std::size_t y = graph.add(tensor(p, 'y', g.y_shape(), type, false));
  const auto between = [&] { return graph.add(tensor(p, inside++, g.y_shape(), wide, true)); };
  std::size_t now = fused ? between() : y;
  const std::size_t described = graph.add(describe(g));
  const OperationNames names = names_of(p.pass);
  CudnnDescriptor operation(names.type);
  operation.set(names.convolution, graph.parts[described]);
  operation.set(names.x, graph.parts[x]);
  operation.set(names.weight, graph.parts[weight]);
  operation.set(names.y, graph.parts[now]);
  operation.set_scale(names.alpha, 1.0, g.dtype == DType::float64);
  operation.set_scale(names.beta, 0.0, g.dtype == DType::float64);
  graph.add_operation(std::move(operation));
  if (p.bias) {
    const std::size_t bias = graph.add(tensor(p, 'b', {1, g.outputs, 1, 1}, type, false));
    const std::size_t sum = p.relu ? between() : y;
    graph.add_pointwise(CUDNN_POINTWISE_ADD, g.dtype, now, bias, sum);
    now = sum;
  }
  if (p.relu)
    graph.add_pointwise(CUDNN_POINTWISE_RELU_FWD, g.dtype, now, {}, y);
  return graph;
}

void add_numbers(const ConvolutionProblem& p, CacheKey& key) {
  const ConvolutionGeometry& g = p.geometry;
  for (const std::int64_t number :
       {static_cast<std::int64_t>(p.pass),
        static_cast<std::int64_t>(g.dtype),
        std::int64_t{p.tf32},
        static_cast<std::int64_t>(p.order),
        std::int64_t{p.bias},
        std::int64_t{p.relu},
        p.alignment,
        g.images,
        g.inputs,
        g.outputs,
        g.groups})
    key.add(number);
  for (const auto* values : {&g.in, &g.kernel, &g.stride, &g.pad, &g.dilation}) {
    key.add((*values)[0]);
    key.add((*values)[1]);
  }
}

CudnnPlan make_plan(std::shared_ptr<const CudnnMaker> maker, const ConvolutionProblem& p) {
  Graph graph = graph_of(p);
  if (!graph.is_good)
    return {};
  const ConvolutionGeometry& g = p.geometry;
  const bool deep = g.group_inputs() * g.kernel[0] * g.kernel[1] >= k_least_depth;
  const bool narrow = g.dtype != DType::float32 || (p.tf32 && (deep || autotune() != Autotune::off));
  const std::size_t element = size_of(g.dtype);
  const auto bytes_of = [&](const Shape& shape) { return static_cast<std::size_t>(shape.size()) * element; };
  const std::size_t bytes[] = {
      bytes_of(g.x_shape()), bytes_of(g.weight_shape()), bytes_of(g.y_shape()), bytes_of({g.outputs})};
  const std::size_t arrays = p.bias ? 4 : 3;
  CacheKey key;
  add_numbers(p, key);
  return cudnn_plan(
      std::move(maker),
      std::move(graph.parts),
      std::move(graph.operations),
      {.tensor_cores = narrow, .ready_made = p.bias || p.relu, .keeps_nan = p.relu},
      {.ids = std::span(k_convolution_ids).first(arrays),
       .bytes = std::span(bytes).first(arrays),
       .key = "convolution" + key.text()});
}

}  // namespace

std::shared_ptr<const CudnnPlan> convolution_plan(const Queue& queue, const ConvolutionProblem& problem) {
  CudnnPlans& made = CudnnPlans::of(queue);
  CacheKey key = CacheKey::of(queue.device().index, static_cast<int>(autotune()));
  add_numbers(problem, key);
  return made.plans.get(key, [&] { return std::make_shared<const CudnnPlan>(make_plan(made.maker(queue), problem)); });
}

}  // namespace sluice::detail
