#include <algorithm>
#include <array>

#include <sluice/engine/error.h>
#include <sluice/operator/library/cudnn_cuda.h>

namespace sluice::detail {
namespace {

constexpr std::int64_t k_workspace_wanted = std::int64_t{1} << 30;  // plans that need more are a last resort

std::vector<CudnnDescriptor> engine_configs(const CudnnDescriptor& graph, cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  std::vector<CudnnDescriptor> configs;
  if (heuristics.try_finalize() != CUDNN_STATUS_SUCCESS)
    return configs;
  std::int64_t count = 0;
  cudnn_check(
      cudnn_calls.cudnnBackendGetAttribute(
          heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
      "cudnnBackendGetAttribute (number of engines)");
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i)
    raw.push_back(configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  if (count == 0)
    return configs;
  std::int64_t returned = 0;
  cudnn_check(
      cudnn_calls.cudnnBackendGetAttribute(
          heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &returned, raw.data()),
      "cudnnBackendGetAttribute (engines)");
  configs.erase(configs.begin() + std::min(returned, count), configs.end());
  return configs;
}

bool acceptable(const CudnnDescriptor& config, CudnnLimits limits) {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  std::int64_t count = 0;
  cudnn_check(
      cudnn_calls.cudnnBackendGetAttribute(
          config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
      "cudnnBackendGetAttribute (engine)");
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  cudnn_check(
      cudnn_calls.cudnnBackendGetAttribute(
          engine.get(),
          CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
          CUDNN_TYPE_NUMERICAL_NOTE,
          static_cast<std::int64_t>(notes.size()),
          &count,
          notes.data()),
      "cudnnBackendGetAttribute (numerical notes)");
  const auto end = notes.begin() + std::clamp<std::int64_t>(count, 0, static_cast<std::int64_t>(notes.size()));
  return std::none_of(notes.begin(), end, [&](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
           (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && !limits.tensor_cores);
  });
}

// Tries the engines in the order of the heuristics; true once a plan within the wanted workspace stands.
bool try_engines(cudnnHandle_t handle, std::vector<CudnnDescriptor> configs, CudnnLimits limits, CudnnPlan& best) {
  for (CudnnDescriptor& config : configs) {
    if (!acceptable(config, limits))
      continue;
    CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (plan.try_finalize() != CUDNN_STATUS_SUCCESS)
      continue;
    const auto bytes = static_cast<std::size_t>(plan.int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    if (best.plan != nullptr && best.workspace <= bytes)
      continue;
    best.plan = std::make_unique<CudnnDescriptor>(std::move(plan));
    best.workspace = bytes;
    best.parts.push_back(std::move(config));
    if (bytes <= static_cast<std::size_t>(k_workspace_wanted))
      return true;
  }
  return false;
}

}  // namespace

cudnnDataType_t cudnn_type(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return CUDNN_DATA_HALF;
    case DType::bfloat16:
      return CUDNN_DATA_BFLOAT16;
    case DType::float32:
      return CUDNN_DATA_FLOAT;
    case DType::float64:
      return CUDNN_DATA_DOUBLE;
    default:
      throw UnsupportedError(message("cuDNN: no kernel for ", dtype));
  }
}

CudnnDescriptor cudnn_tensor(
    std::int64_t id,
    DType dtype,
    std::span<const std::int64_t> extents,
    std::span<const std::int64_t> strides,
    std::int64_t alignment) {
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, cudnn_type(dtype));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, extents);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.finalize("cudnnBackendFinalize (tensor)");
  return tensor;
}

CudnnPlan cudnn_plan(
    std::shared_ptr<const CudnnMaker> maker,
    std::vector<CudnnDescriptor> parts,
    const CudnnDescriptor& operation,
    CudnnLimits limits) {
  const cudnnHandle_t handle = maker->handle();
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  CudnnPlan best{.maker = std::move(maker), .parts = std::move(parts)};
  if (graph.try_finalize() != CUDNN_STATUS_SUCCESS)
    return best;
  if (!try_engines(handle, engine_configs(graph, CUDNN_HEUR_MODE_A), limits, best))
    try_engines(handle, engine_configs(graph, CUDNN_HEUR_MODE_FALLBACK), limits, best);
  best.parts.push_back(std::move(graph));
  return best;
}

}  // namespace sluice::detail
