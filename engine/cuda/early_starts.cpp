#include <sluice/engine/cuda/early_starts.h>
#include <sluice/engine/detail/static_tls.h>

namespace sluice::detail {

namespace {

SLUICE_STATIC_TLS thread_local constinit EarlyStarts* latest = nullptr;

bool is_kernel(cudaGraphNode_t node) noexcept {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  if (cudaGraphNodeGetType(node, &type) == cudaSuccess)
    return type == cudaGraphNodeTypeKernel;
  cudaGetLastError();
  return false;
}

/// Takes the edges of what `node` comes after, as far as they come from kernels, and gives them back programmatic.
bool start_early(cudaGraph_t graph, cudaGraphNode_t node) {
  std::size_t count = 0;
  if (cudaGraphNodeGetDependencies(node, nullptr, nullptr, &count) != cudaSuccess)
    return false;
  std::vector<cudaGraphNode_t> before(count);
  std::vector<cudaGraphEdgeData> edges(count);
  if (cudaGraphNodeGetDependencies(node, before.data(), edges.data(), &count) != cudaSuccess)
    return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (edges[i].type != cudaGraphDependencyTypeDefault || !is_kernel(before[i]))
      continue;
    cudaGraphEdgeData early{};
    early.from_port = cudaGraphKernelNodePortProgrammatic;
    early.type = cudaGraphDependencyTypeProgrammatic;
    if (cudaGraphRemoveDependencies(graph, &before[i], &node, &edges[i], 1) != cudaSuccess ||
        cudaGraphAddDependencies(graph, &before[i], &node, &early, 1) != cudaSuccess)
      return false;
  }
  return true;
}

}  // namespace

EarlyStarts::EarlyStarts(cudaStream_t captured) noexcept : captured_(captured), outer_(latest) {
  latest = this;
}

EarlyStarts::~EarlyStarts() {
  latest = outer_;
}

// A kernel that is not noted comes after the whole of what is before it, as any other.
void EarlyStarts::note() noexcept try {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  if (cudaStreamGetCaptureInfo(captured_, &status, nullptr, nullptr, &nodes, &edges, &count) != cudaSuccess)
    cudaGetLastError();
  else if (status == cudaStreamCaptureStatusActive && count == 1)
    waiting_.push_back(nodes[0]);
} catch (...) {
}

bool EarlyStarts::apply(cudaGraph_t graph) const noexcept try {
  for (const cudaGraphNode_t node : waiting_) {
    if (!start_early(graph, node)) {
      cudaGetLastError();
      return false;
    }
  }
  return true;
} catch (...) {
  return false;
}

EarlyStarts* EarlyStarts::on(cudaStream_t stream) noexcept {
  return latest != nullptr && latest->captured_ == stream ? latest : nullptr;
}

}  // namespace sluice::detail
