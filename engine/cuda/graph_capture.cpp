#include <algorithm>
#include <utility>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/cuda/graph_capture.h>

namespace sluice::detail {

using cuda::cuda_check;

void CaptureEnds::add(const CaptureEnds& other) {
  for (std::size_t i = 0; i < other.nodes_.size(); ++i) {
    if (std::find(nodes_.begin(), nodes_.end(), other.nodes_[i]) != nodes_.end())
      continue;
    nodes_.push_back(other.nodes_[i]);
    edges_.push_back(other.edges_[i]);
  }
}

void GraphCapture::begin(int urgency) {
  if (stream() == nullptr) {
    cudaStream_t made = nullptr;
    cuda_check(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, urgency), "cudaStreamCreateWithPriority");
    stream_ = cuda::StreamHandle(made);
  }
  // Relaxed: what other threads do, and what bodies ask of the driver besides, is none of the capture's business.
  cuda_check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  open_ = true;
}

void GraphCapture::update(CaptureEnds& ends, unsigned how) {
  cuda_check(
      cudaStreamUpdateCaptureDependencies(stream(), ends.nodes_.data(), ends.edges_.data(), ends.nodes_.size(), how),
      "cudaStreamUpdateCaptureDependencies");
}

bool GraphCapture::read(CaptureEnds& ends) const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  const cudaError_t result = cudaStreamGetCaptureInfo(stream(), &status, nullptr, nullptr, &nodes, &edges, &count);
  if (result != cudaSuccess || status != cudaStreamCaptureStatusActive) {
    cudaGetLastError();
    return false;
  }
  ends.nodes_.assign(nodes, nodes + count);
  ends.edges_.assign(count, cudaGraphEdgeData());
  if (edges != nullptr)
    std::copy(edges, edges + count, ends.edges_.begin());
  return true;
}

bool GraphCapture::intact() const noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (open_ && cudaStreamIsCapturing(stream(), &status) == cudaSuccess)
    return status == cudaStreamCaptureStatusActive;
  cudaGetLastError();
  return false;
}

// Tried twice: where the call itself fails, the stream would stay as it is, and no other capture could begin.
GraphHandle GraphCapture::end() noexcept {
  bool ended = !std::exchange(open_, false);
  for (int tries = 0; tries < 2 && !ended; ++tries) {
    cudaGraph_t graph = nullptr;
    ended = cudaStreamEndCapture(stream(), &graph) == cudaSuccess;
    GraphHandle made(graph);
    if (ended)
      return made;
    cudaGetLastError();
  }
  return {};
}

}  // namespace sluice::detail
