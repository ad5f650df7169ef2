#include <algorithm>

#include <sluice/engine/cuda/capture_ends.h>
#include <sluice/engine/cuda/check.h>

namespace sluice::detail {

bool is_capturing(cudaStream_t stream) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) == cudaSuccess)
    return status == cudaStreamCaptureStatusActive;
  cudaGetLastError();
  return false;
}

bool CaptureEnds::read(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  const cudaError_t result = cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count);
  if (result != cudaSuccess || status != cudaStreamCaptureStatusActive) {
    cudaGetLastError();
    clear();
    return false;
  }
  nodes_.assign(nodes, nodes + count);
  edges_.assign(count, cudaGraphEdgeData());
  if (edges != nullptr)
    std::copy(edges, edges + count, edges_.begin());
  return true;
}

void CaptureEnds::add(const CaptureEnds& other) {
  for (std::size_t i = 0; i < other.nodes_.size(); ++i) {
    if (std::find(nodes_.begin(), nodes_.end(), other.nodes_[i]) != nodes_.end())
      continue;
    nodes_.push_back(other.nodes_[i]);
    edges_.push_back(other.edges_[i]);
  }
}

void CaptureEnds::clear() noexcept {
  nodes_.clear();
  edges_.clear();
}

void CaptureEnds::come_before(cudaStream_t stream, unsigned how) {
  cuda::cuda_check(
      cudaStreamUpdateCaptureDependencies(stream, nodes_.data(), edges_.data(), nodes_.size(), how),
      "cudaStreamUpdateCaptureDependencies");
}

}  // namespace sluice::detail
