#include <algorithm>
#include <utility>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/cuda/graph_capture.h>
#include <sluice/engine/error.h>

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

void GraphCapture::need_stream(int urgency) {
  if (stream() != nullptr)
    return;
  cudaStream_t made = nullptr;
  cuda_check(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, urgency), "cudaStreamCreateWithPriority");
  stream_ = cuda::StreamHandle(made);
}

void GraphCapture::begin(int urgency) {
  need_stream(urgency);
  // Relaxed: what other threads do, and what bodies ask of the driver besides, is none of the capture's business.
  cuda_check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  open_ = true;
}

void GraphCapture::begin_side(cudaGraph_t graph) {
  need_stream(0);
  cuda_check(
      cudaStreamBeginCaptureToGraph(stream(), graph, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed),
      "cudaStreamBeginCaptureToGraph");
  open_ = true;
}

cudaGraph_t GraphCapture::graph() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  cuda_check(
      cudaStreamGetCaptureInfo(stream(), &status, nullptr, &graph, nullptr, nullptr, nullptr),
      "cudaStreamGetCaptureInfo");
  return graph;
}

cudaGraphConditionalHandle GraphCapture::new_condition() {
  cudaGraphConditionalHandle made = 0;
  cuda_check(cudaGraphConditionalHandleCreate(&made, graph(), 0, 0), "cudaGraphConditionalHandleCreate");
  return made;
}

std::array<cudaGraph_t, 2> GraphCapture::add_branch(cudaGraphConditionalHandle condition, bool repeats) {
  CaptureEnds ends;
  if (!read(ends))
    throw CudaError("a capture was spoilt where a branch begins", cudaErrorStreamCaptureInvalidated);
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = condition;
  params.conditional.type = repeats ? cudaGraphCondTypeWhile : cudaGraphCondTypeIf;
  params.conditional.size = repeats ? 1 : 2;
  cudaGraphNode_t node = nullptr;
  cuda_check(
      cudaGraphAddNode(&node, graph(), ends.nodes_.data(), ends.edges_.data(), ends.nodes_.size(), &params),
      "cudaGraphAddNode");
  ends.nodes_.assign(1, node);
  ends.edges_.assign(1, cudaGraphEdgeData());
  restart_after(ends);
  return {params.conditional.phGraph_out[0], repeats ? nullptr : params.conditional.phGraph_out[1]};
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
cudaGraph_t GraphCapture::end_stream() noexcept {
  bool ended = !std::exchange(open_, false);
  cudaGraph_t graph = nullptr;
  for (int tries = 0; tries < 2 && !ended; ++tries) {
    ended = cudaStreamEndCapture(stream(), &graph) == cudaSuccess;
    if (!ended)
      cudaGetLastError();
  }
  return graph;
}

GraphHandle GraphCapture::end() noexcept {
  return GraphHandle(end_stream());
}

bool GraphCapture::end_side() noexcept {
  return end_stream() != nullptr;
}

}  // namespace sluice::detail
