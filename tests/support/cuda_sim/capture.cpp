// Stream capture.
#include <algorithm>

#include "tests/support/cuda_sim/world.h"

using namespace sluice::test::sim;

namespace sluice::test::sim {

void World::invalidate(Capture& capture) {
  capture.invalid = true;
}

Capture* World::capture_of(CUstream_st& stream) {
  if (stream.capture != nullptr && stream.capture->invalid)
    throw Refusal{cudaErrorStreamCaptureInvalidated};
  return stream.capture.get();
}

void World::refuse_capture(CUstream_st& stream) {
  Capture* const capture = capture_of(stream);
  if (capture == nullptr)
    return;
  invalidate(*capture);
  throw Refusal{cudaErrorStreamCaptureUnsupported};
}

void World::check_unsafe() {
  const cudaStreamCaptureMode mode = host().mode;
  if (mode == cudaStreamCaptureModeRelaxed)
    return;
  bool disturbed = false;
  for (const CaptureRef& capture : captures) {
    if (capture->ended)
      continue;
    const bool mine = capture->thread == std::this_thread::get_id();
    const bool guarded = mine ? capture->mode != cudaStreamCaptureModeRelaxed
                              : mode == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal;
    if (guarded) {
      invalidate(*capture);
      disturbed = true;
    }
  }
  if (disturbed)
    throw Refusal{cudaErrorStreamCaptureUnsupported};
}

void World::merge(std::vector<cudaGraphNode_t>& into, const std::vector<cudaGraphNode_t>& from) {
  for (cudaGraphNode_t node : from) {
    if (std::find(into.begin(), into.end(), node) == into.end())
      into.push_back(node);
  }
}

void World::add_node(CUstream_st& stream, Node node) {
  auto& nodes = stream.capture->graph->nodes;
  nodes.push_back(std::make_unique<CUgraphNode_st>());
  CUgraphNode_st& made = *nodes.back();
  made.index = nodes.size() - 1;
  made.graph = stream.capture->graph;
  made.node = std::move(node);
  made.node.device = stream.device;
  for (cudaGraphNode_t before : stream.frontier)
    made.node.before.push_back(before->index);
  std::sort(made.node.before.begin(), made.node.before.end());
  stream.frontier = {&made};
}

}  // namespace sluice::test::sim

namespace {

// Work of another stream that nothing of the origin comes after.
bool unjoined(const Capture& capture) {
  const auto& nodes = capture.graph->nodes;
  std::vector<bool> reached(nodes.size(), false);
  for (cudaGraphNode_t node : capture.origin->frontier)
    reached[node->index] = true;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (!reached[i])
      continue;
    for (std::size_t before : nodes[i]->node.before)
      reached[before] = true;
  }
  for (cudaStream_t member : capture.members) {
    for (cudaGraphNode_t node : member->frontier) {
      if (!reached[node->index])
        return true;
    }
  }
  return false;
}

void leave(World& all, const CaptureRef& capture) {
  capture->ended = true;
  for (cudaStream_t member : capture->members) {
    member->capture.reset();
    member->frontier.clear();
  }
  std::erase(all.captures, capture);
}

}  // namespace

namespace {

// Into a new graph where none is given.
cudaError_t begin_capture(World& all, cudaStream_t handle, cudaStreamCaptureMode mode, cudaGraph_t into) {
  CUstream_st& stream = all.stream(handle);
  if (stream.owned_by_device)
    return cudaErrorStreamCaptureUnsupported;
  if (all.capture_of(stream) != nullptr)
    return cudaErrorIllegalState;
  stream.capture = std::make_shared<Capture>();
  stream.capture->id = all.next_id++;
  stream.capture->mode = mode;
  stream.capture->thread = std::this_thread::get_id();
  stream.capture->origin = &stream;
  stream.capture->graph = into == nullptr ? all.graphs.make() : into;
  stream.capture->of_side = into != nullptr;
  stream.capture->members.push_back(&stream);
  stream.frontier.clear();
  all.captures.push_back(stream.capture);
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", [&](World& all, Lock&) { return begin_capture(all, handle, mode, nullptr); });
}

cudaError_t cudaStreamBeginCaptureToGraph(
    cudaStream_t handle,
    cudaGraph_t graph,
    const cudaGraphNode_t*,
    const cudaGraphEdgeData*,
    size_t count,
    cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCaptureToGraph", [&](World& all, Lock&) {
    if (!all.graph(graph).is_side || !all.graph(graph).nodes.empty() || count != 0)
      return cudaErrorInvalidValue;  // what the engine has no use for
    return begin_capture(all, handle, mode, graph);
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return call("cudaStreamEndCapture", [&](World& all, Lock&) {
    *graph = nullptr;
    CUstream_st& stream = all.stream(handle);
    const CaptureRef capture = stream.capture;
    if (capture == nullptr)
      return cudaErrorIllegalState;
    if (capture->origin != &stream) {
      World::invalidate(*capture);
      return cudaErrorStreamCaptureUnmatched;
    }
    if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
      return cudaErrorStreamCaptureWrongThread;
    const cudaError_t status = capture->invalid     ? cudaErrorStreamCaptureInvalidated
                               : unjoined(*capture) ? cudaErrorStreamCaptureUnjoined
                                                    : cudaSuccess;
    leave(all, capture);
    if (status == cudaSuccess)
      *graph = capture->graph;
    else if (!capture->of_side)
      capture->graph->alive = false;
    return status;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return call("cudaStreamIsCapturing", [&](World& all, Lock&) {
    const Capture* const capture = all.stream(handle).capture.get();
    *status = capture == nullptr ? cudaStreamCaptureStatusNone
              : capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t handle,
    cudaStreamCaptureStatus* status,
    unsigned long long* id,
    cudaGraph_t* graph,
    const cudaGraphNode_t** dependencies,
    const cudaGraphEdgeData** edges,
    size_t* count) {
  return call("cudaStreamGetCaptureInfo", [&](World& all, Lock&) {
    CUstream_st& stream = all.stream(handle);
    const Capture* const capture = stream.capture.get();
    *status = capture == nullptr ? cudaStreamCaptureStatusNone
              : capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
    if (*status != cudaStreamCaptureStatusActive)
      return cudaSuccess;
    if (id != nullptr)
      *id = capture->id;
    if (graph != nullptr)
      *graph = capture->graph;
    if (dependencies != nullptr)
      *dependencies = stream.frontier.data();
    if (count != nullptr)
      *count = stream.frontier.size();
    if (edges != nullptr) {
      all.plain_edges.resize(std::max(all.plain_edges.size(), stream.frontier.size()));
      *edges = all.plain_edges.data();
    }
    return cudaSuccess;
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(
    cudaStream_t handle, cudaGraphNode_t* dependencies, const cudaGraphEdgeData*, size_t count, unsigned flags) {
  return call("cudaStreamUpdateCaptureDependencies", [&](World& all, Lock&) {
    CUstream_st& stream = all.stream(handle);
    const Capture* const capture = all.capture_of(stream);
    if (capture == nullptr)
      return cudaErrorIllegalState;
    if (flags != cudaStreamAddCaptureDependencies && flags != cudaStreamSetCaptureDependencies)
      return cudaErrorInvalidValue;
    std::vector<cudaGraphNode_t> wanted;
    for (size_t i = 0; i < count; ++i) {
      const auto& nodes = capture->graph->nodes;
      if (std::none_of(nodes.begin(), nodes.end(), [&](const auto& node) { return node.get() == dependencies[i]; }))
        return cudaErrorInvalidValue;
      if (std::find(wanted.begin(), wanted.end(), dependencies[i]) != wanted.end())
        return cudaErrorInvalidValue;  // what CUDA makes of a node named twice it does not say
      wanted.push_back(dependencies[i]);
    }
    if (flags == cudaStreamSetCaptureDependencies)
      stream.frontier.clear();
    World::merge(stream.frontier, wanted);
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call("cudaThreadExchangeStreamCaptureMode", [&](World& all, Lock&) {
    std::swap(*mode, all.host().mode);
    return cudaSuccess;
  });
}
