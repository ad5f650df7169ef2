// A convolution and what follows it as one graph of cuDNN's.
#include <bit>
#include <cstdint>
#include <optional>

#include <sluice/operator/conv/fused.h>
#include <sluice/operator/conv/plan_cuda.h>
#include <sluice/operator/library/autotune.h>
#include <sluice/operator/library/shared_library.h>

namespace sluice::detail {
namespace {

// Raised with every change of what FusedGraph makes of the same numbers: plans are kept on disk.
constexpr int k_graph = 1;
// The names of arrays in plans, beside those of the convolution.
constexpr std::int64_t k_scale = 's', k_shift = 'b', k_residual = 'r', k_first_between = 1000;

// Numbers of one stand between the operations in float32, and the last one alone rounds.
class FusedGraph {
 public:
  FusedGraph(const ConvolutionProblem& problem, const ChannelEpilogue& then) : p_(problem), then_(then) {}

  /// False where cuDNN refuses an operation.
  bool build() {
    const ConvolutionGeometry& g = p_.geometry;
    left_ = (then_.scale != nullptr ? 1 : 0) + (then_.shift != nullptr ? 1 : 0) + (then_.residual != nullptr ? 1 : 0) +
            (then_.relu ? 1 : 0);
    const std::size_t how = keep(convolution_how(g));
    const std::size_t x = outside('x', g.x_shape()), weight = outside('w', g.weight_shape());
    std::size_t value = result();
    if (!add(convolution_operation(p_, parts[how], parts[x], parts[weight], parts[value])))
      return false;
    if (then_.scale != nullptr && !with_operand(CUDNN_POINTWISE_MUL, value, coefficient(k_scale)))
      return false;
    if (then_.shift != nullptr && !with_operand(CUDNN_POINTWISE_ADD, value, coefficient(k_shift)))
      return false;
    if (then_.residual != nullptr && !with_operand(CUDNN_POINTWISE_ADD, value, outside(k_residual, g.y_shape())))
      return false;
    return !then_.relu || with_relu(value);
  }

  std::vector<CudnnDescriptor> parts, operations;

 private:
  std::size_t keep(CudnnDescriptor part) {
    parts.push_back(std::move(part));
    return parts.size() - 1;
  }
  std::size_t outside(std::int64_t id, const Shape& shape) { return keep(convolution_array(p_, id, shape)); }
  std::size_t coefficient(std::int64_t id) {
    const std::int64_t c = p_.geometry.outputs;
    return keep(cudnn_tensor(
        id,
        DType::float32,
        std::array{std::int64_t{1}, c, std::int64_t{1}, std::int64_t{1}},
        std::array{c, std::int64_t{1}, c, c},
        p_.alignment));
  }
  std::size_t between(cudnnDataType_t type) {
    const Shape shape = p_.geometry.y_shape(), strides = convolution_strides(p_, shape);
    const auto id = k_first_between + static_cast<std::int64_t>(parts.size());
    return keep(cudnn_between(id, type, {shape.begin(), shape.end()}, {strides.begin(), strides.end()}));
  }
  // Where the next of the steps leaves its value.
  std::size_t result() { return left_-- == 0 ? outside('y', p_.geometry.y_shape()) : between(CUDNN_DATA_FLOAT); }

  bool add(CudnnDescriptor operation) {
    operations.push_back(std::move(operation));
    return operations.back().try_finalize() == CUDNN_STATUS_SUCCESS;
  }
  bool pointwise(
      cudnnPointwiseMode_t mode,
      std::size_t x,
      std::optional<std::size_t> b,
      std::optional<std::size_t> chosen_by,
      std::size_t y) {
    CudnnDescriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, mode);
    how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    if (how.try_finalize() != CUDNN_STATUS_SUCCESS)
      return false;
    CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parts[keep(std::move(how))]);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, parts[x]);
    if (b)
      operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, parts[*b]);
    if (chosen_by)
      operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, parts[*chosen_by]);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, parts[y]);
    return add(std::move(operation));
  }
  bool with_operand(cudnnPointwiseMode_t mode, std::size_t& value, std::size_t operand) {
    const std::size_t from = value;
    value = result();
    return pointwise(mode, from, operand, {}, value);
  }
  // cuDNN's relu of NaN may be 0. Of a number v <= relu(v) holds, of NaN nothing does: then v itself is taken.
  bool with_relu(std::size_t& value) {
    const std::size_t from = value, cut = between(CUDNN_DATA_FLOAT), is_number = between(CUDNN_DATA_BOOLEAN);
    value = result();
    return pointwise(CUDNN_POINTWISE_RELU_FWD, from, {}, {}, cut) &&
           pointwise(CUDNN_POINTWISE_CMP_LE, from, cut, {}, is_number) &&
           pointwise(CUDNN_POINTWISE_BINARY_SELECT, cut, from, is_number, value);
  }

  const ConvolutionProblem& p_;
  const ChannelEpilogue& then_;
  int left_ = 0;  // steps behind the next result
};

/// The arrays that a plan takes.
struct Operands {
  std::vector<std::int64_t> ids;
  std::vector<std::size_t> bytes;
  std::vector<void*> pointers;

  Operands(const ConvolutionGeometry& g, const ConvolutionData& d, const ChannelEpilogue& then) {
    const std::size_t wide = sizeof(float) * static_cast<std::size_t>(g.outputs);
    const auto bytes_of = [&](const Shape& shape) { return static_cast<std::size_t>(shape.size()) * size_of(g.dtype); };
    add('x', bytes_of(g.x_shape()), d.x);
    add('w', bytes_of(g.weight_shape()), d.weight);
    add('y', bytes_of(g.y_shape()), d.y);
    add(k_scale, wide, then.scale);
    add(k_shift, wide, then.shift);
    add(k_residual, bytes_of(g.y_shape()), then.residual);
  }
  std::int64_t alignment() const {
    std::uintptr_t bits = 16;
    for (const void* pointer : pointers)
      bits |= reinterpret_cast<std::uintptr_t>(pointer);
    return std::int64_t{1} << std::countr_zero(bits);
  }

 private:
  void add(std::int64_t id, std::size_t size, const void* pointer) {
    if (pointer == nullptr)
      return;
    ids.push_back(id);
    bytes.push_back(size);
    pointers.push_back(const_cast<void*>(pointer));
  }
};

CudnnPlan make_plan(
    std::shared_ptr<const CudnnMaker> maker,
    const ConvolutionProblem& problem,
    const ChannelEpilogue& then,
    const Operands& operands,
    const CacheKey& key) {
  FusedGraph graph(problem, then);
  if (!graph.build())
    return {};
  return cudnn_plan(
      std::move(maker),
      std::move(graph.parts),
      std::move(graph.operations),
      convolution_limits(problem),
      {.ids = operands.ids,
       .bytes = operands.bytes,
       .key = message("convolution_fused ", k_graph, key.text()),
       .compiles = true});
}

std::int64_t bits_of(const ChannelEpilogue& then) {
  return 1 | (then.scale != nullptr ? 2 : 0) | (then.shift != nullptr ? 4 : 0) | (then.residual != nullptr ? 8 : 0) |
         (then.relu ? 16 : 0);
}

}  // namespace

bool convolution_fused_by_plan(
    const Queue& queue,
    const ConvolutionGeometry& g,
    MemoryOrder order,
    const ConvolutionData& data,
    const ChannelEpilogue& then) {
  cudnn_library().require("convolution_fused");
  // Without tensor cores, and in float64, there is no such engine.
  if (g.dtype == DType::float64 || order != MemoryOrder::channels_last)
    return false;
  const Operands operands(g, data, then);
  const ConvolutionProblem problem{
      .geometry = g, .order = order, .alignment = operands.alignment(), .tf32 = is_tf32(g.dtype)};
  CudnnPlans& made = CudnnPlans::of(queue);
  CacheKey numbers = CacheKey::of(bits_of(then));
  add_numbers(problem, numbers);
  CacheKey key = CacheKey::of(queue.device().index, static_cast<int>(autotune()), bits_of(then));
  add_numbers(problem, key);
  const auto plan = made.plans.get(key, [&] {
    return std::make_shared<const CudnnPlan>(make_plan(made.maker(queue), problem, then, operands, numbers));
  });
  if (plan->plan == nullptr)
    return false;
  cudnn_run(queue, *plan, operands.ids, operands.pointers);
  return true;
}

}  // namespace sluice::detail
