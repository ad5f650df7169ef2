#include <algorithm>
#include <array>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/error.h>
#include <sluice/operator/library/autotune.h>
#include <sluice/operator/library/cudnn_cuda.h>
#include <sluice/operator/library/kept_choices.h>
#include <sluice/operator/library/kept_plans_cuda.h>
#include <sluice/operator/library/trial_cuda.h>

namespace sluice::detail {
namespace {

// Not finalized.
CudnnDescriptor graph_of(const CudnnMaker& maker, std::span<const CudnnDescriptor> operations) {
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, maker.handle());
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  return graph;
}

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

// The engine of a configuration, to be asked.
CudnnDescriptor engine_of(const CudnnDescriptor& config) {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  std::int64_t count = 0;
  cudnn_check(
      cudnn_calls.cudnnBackendGetAttribute(
          config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
      "cudnnBackendGetAttribute (engine)");
  return engine;
}

// For first layers of float16, at half the time of all others. It notes that it may add up in less than float32; it
// does not: "Convolutions of half types add up in float32 on a GPU" takes it.
constexpr std::int64_t k_first_layer_engine = 63;

bool acceptable(const CudnnDescriptor& engine, CudnnLimits limits) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  std::int64_t count = 0;
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
  const bool adds_wide = engine.int64(CUDNN_ATTR_ENGINE_GLOBAL_INDEX) == k_first_layer_engine;
  return std::none_of(notes.begin(), end, [&](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
           (note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION && !adds_wide) ||
           (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && !limits.tensor_cores);
  });
}

// A configuration that is accepted, and how another process finds it again.
struct Candidate {
  CudnnDescriptor config;
  std::string name;  // heuristics, place among its answers, engine
};

std::vector<Candidate> candidates_of(const CudnnDescriptor& graph, CudnnLimits limits, cudnnBackendHeurMode_t mode) {
  std::vector<Candidate> candidates;
  std::vector<CudnnDescriptor> configs = engine_configs(graph, mode);
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const CudnnDescriptor engine = engine_of(configs[i]);
    if (!acceptable(engine, limits))
      continue;
    std::string name = message(
        mode == CUDNN_HEUR_MODE_A ? "A " : "fallback ", i, " engine ", engine.int64(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
    candidates.push_back({std::move(configs[i]), std::move(name)});
  }
  return candidates;
}

// Not success where the engine does not take the graph after all.
cudnnStatus_t make(const CudnnMaker& maker, const Candidate& candidate, CudnnPlan& made) {
  CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, maker.handle());
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, candidate.config);
  if (const cudnnStatus_t status = plan.try_finalize(); status != CUDNN_STATUS_SUCCESS)
    return status;
  made.workspace = static_cast<std::size_t>(plan.int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  made.plan = std::make_unique<CudnnDescriptor>(std::move(plan));
  return CUDNN_STATUS_SUCCESS;
}

// The same in every process, other than a lack of memory.
bool is_no_support(cudnnStatus_t status) {
  return status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000;
}

// The first one within the wanted workspace, else the one that needs least. False if another process might choose
// another.
bool take_first(
    const CudnnMaker& maker, std::vector<Candidate>& candidates, std::int64_t workspace_wanted, CudnnPlan& best) {
  bool firm = true;
  for (Candidate& candidate : candidates) {
    CudnnPlan made;
    const cudnnStatus_t status = make(maker, candidate, made);
    firm = firm && (status == CUDNN_STATUS_SUCCESS || is_no_support(status));
    if (status != CUDNN_STATUS_SUCCESS || (best.plan != nullptr && best.workspace <= made.workspace))
      continue;
    best.plan = std::move(made.plan);
    best.workspace = made.workspace;
    best.parts.push_back(std::move(candidate.config));
    if (best.workspace <= static_cast<std::size_t>(workspace_wanted))
      break;
  }
  return firm;
}

std::string kept_key(const CudnnTrial& trial, Autotune how) {
  int device = 0;
  cudaDeviceProp about{};
  cuda::cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  cuda::cuda_check(cudaGetDeviceProperties(&about, device), "cudaGetDeviceProperties");
  return message(
      "cudnn ",
      cudnn_calls.cudnnGetVersion(),
      " on ",
      about.name,
      how == Autotune::exhaustive ? ", all: " : ": ",
      trial.key);
}

// The quickest; its name is kept. Nothing where there is no room for a trial.
void take_quickest(
    const CudnnMaker& maker,
    std::vector<Candidate>& candidates,
    const CudnnTrial& trial,
    std::int64_t workspace_wanted,
    const std::string& key,
    CudnnPlan& best) try {
  Trial on({trial.bytes.begin(), trial.bytes.end()});
  const CudnnMaker runner;
  cudnn_check(cudnn_calls.cudnnSetStream(runner.handle(), on.stream()), "cudnnSetStream");
  std::vector<void*> pointers;
  for (std::size_t i = 0; i < trial.bytes.size(); ++i)
    pointers.push_back(on.operand(i));
  double least = 0;
  Candidate* chosen = nullptr;
  for (Candidate& candidate : candidates) {
    CudnnPlan made;
    if (make(maker, candidate, made) != CUDNN_STATUS_SUCCESS ||
        made.workspace > static_cast<std::size_t>(workspace_wanted))
      continue;
    const auto seconds = on.seconds(made.workspace, [&](void* scratch) {
      cudnn_execute(runner.handle(), *made.plan, trial.ids, pointers, scratch);
    });
    if (!seconds.has_value() || (chosen != nullptr && *seconds >= least))
      continue;
    least = *seconds;
    chosen = &candidate;
    best.plan = std::move(made.plan);
    best.workspace = made.workspace;
  }
  if (chosen == nullptr)
    return;
  KeptChoices::of_process().keep(key, chosen->name);
  best.parts.push_back(std::move(chosen->config));
} catch (const OutOfMemory&) {
  best.plan.reset();
}

// As a trial of this process or of another chose, or as one says now.
void take_tried(
    const CudnnMaker& maker,
    std::vector<Candidate>& candidates,
    const CudnnTrial& trial,
    std::int64_t workspace_wanted,
    Autotune how,
    CudnnPlan& best) {
  const std::string key = kept_key(trial, how);
  if (const auto kept = KeptChoices::of_process().find(key)) {
    const auto same = [&](const Candidate& candidate) { return candidate.name == *kept; };
    const auto found = std::find_if(candidates.begin(), candidates.end(), same);
    if (found != candidates.end() && make(maker, *found, best) == CUDNN_STATUS_SUCCESS) {
      best.parts.push_back(std::move(found->config));
      return;
    }
  }
  constexpr std::size_t few = 10;
  if (how == Autotune::first_use && candidates.size() > few)
    candidates.erase(candidates.begin() + few, candidates.end());
  take_quickest(maker, candidates, trial, workspace_wanted, key, best);
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

CudnnDescriptor cudnn_between(
    std::int64_t id,
    cudnnDataType_t type,
    std::span<const std::int64_t> extents,
    std::span<const std::int64_t> strides) {
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, extents);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.set_flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  tensor.finalize("cudnnBackendFinalize (tensor)");
  return tensor;
}

CudnnPlan cudnn_plan(
    std::shared_ptr<const CudnnMaker> maker,
    std::vector<CudnnDescriptor> parts,
    std::vector<CudnnDescriptor> operations,
    CudnnLimits limits,
    const CudnnTrial& trial) {
  const CudnnMaker& made_with = *maker;
  CudnnDescriptor graph = graph_of(made_with, operations);
  CudnnPlan best{.maker = std::move(maker), .parts = std::move(parts)};
  if (graph.try_finalize() != CUDNN_STATUS_SUCCESS)
    return best;
  const Autotune how = trial.tries ? autotune() : Autotune::off;
  const std::string kept = trial.compiles ? kept_plan_key(trial.key, limits, how) : "";
  const bool is_chosen = how == Autotune::off || KeptChoices::of_process().find(kept_key(trial, how)).has_value();
  if (trial.compiles && is_chosen && find_kept_plan(made_with, kept, best))
    return best;
  std::vector<Candidate> candidates = candidates_of(graph, limits, CUDNN_HEUR_MODE_A);
  if (how != Autotune::off) {
    for (Candidate& more : candidates_of(graph, limits, CUDNN_HEUR_MODE_FALLBACK))
      candidates.push_back(std::move(more));
    take_tried(made_with, candidates, trial, limits.workspace, how, best);
  }
  bool firm = best.plan != nullptr || how == Autotune::off;  // what stands in for a trial is not for other processes
  if (best.plan == nullptr)
    firm = take_first(made_with, candidates, limits.workspace, best) && firm;
  if (best.plan == nullptr) {
    candidates = candidates_of(graph, limits, CUDNN_HEUR_MODE_FALLBACK);
    firm = take_first(made_with, candidates, limits.workspace, best) && firm;
  }
  if (trial.compiles && firm)
    keep_plan(kept, best);
  best.parts.push_back(std::move(graph));
  for (CudnnDescriptor& operation : operations)
    best.parts.push_back(std::move(operation));
  return best;
}

bool cudnn_has_engine(const CudnnMaker& maker, std::span<const CudnnDescriptor> operations, CudnnLimits limits) {
  CudnnDescriptor graph = graph_of(maker, operations);
  return graph.try_finalize() == CUDNN_STATUS_SUCCESS &&
         (!candidates_of(graph, limits, CUDNN_HEUR_MODE_A).empty() ||
          !candidates_of(graph, limits, CUDNN_HEUR_MODE_FALLBACK).empty());
}

}  // namespace sluice::detail
