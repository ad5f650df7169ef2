#pragma once

#include <array>

#include <boost/container/small_vector.hpp>
#include <cuda_runtime_api.h>

#include <sluice/engine/cuda/handle.h>

namespace sluice::detail {

using GraphHandle = cuda::Handle<cudaGraph_t, cudaGraphDestroy>;

/// Nodes of a graph that is being captured, each with the kind of the edges that leave it: what comes next may have to
/// come after them.
class CaptureEnds {
 public:
  /// Adds those of `other` that are not among these.
  void add(const CaptureEnds& other);

 private:
  friend class GraphCapture;
  boost::container::small_vector<cudaGraphNode_t, 4> nodes_;
  boost::container::small_vector<cudaGraphEdgeData, 4> edges_;
};

/// The one place that captures: what is enqueued on a CUDA stream of its own becomes a graph, whose edges are said
/// step by step. Batches, regions and whoever else replays use it. For one thread at a time; whoever has one owns it.
class GraphCapture {
 public:
  GraphCapture() = default;
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;
  ~GraphCapture() { end(); }

  /// `urgency` of the nodes, in the driver's terms: the first call makes the stream. Throws CudaError.
  void begin(int urgency);
  /// What is enqueued becomes part of `graph`, a side of a branch, which lives as long as the graph around it. Throws
  /// CudaError.
  void begin_side(cudaGraph_t graph);
  /// False if it was spoilt.
  bool end_side() noexcept;
  bool is_open() const noexcept { return open_; }
  /// Null before the first begin().
  cudaStream_t stream() const noexcept { return stream_.get(); }
  /// What is enqueued next comes after `ends` and nothing else. Throws CudaError.
  void restart_after(CaptureEnds& ends) { update(ends, cudaStreamSetCaptureDependencies); }
  /// It comes after those too. Throws CudaError.
  void also_after(CaptureEnds& ends) { update(ends, cudaStreamAddCaptureDependencies); }
  /// What the next branch or loop is chosen by. Throws CudaError.
  cudaGraphConditionalHandle new_condition();
  /// A branch, which comes after what was enqueued, and what is enqueued next after it. Its sides: for what is not
  /// zero, and for zero; of a loop what is repeated, and null. Throws CudaError.
  std::array<cudaGraph_t, 2> add_branch(cudaGraphConditionalHandle condition, bool repeats);
  /// `ends` become those after which the capture stands. False if it is spoilt. Throws std::bad_alloc.
  bool read(CaptureEnds& ends) const;
  /// False if something has spoilt it.
  bool intact() const noexcept;
  /// Null if it was spoilt, or none is open.
  GraphHandle end() noexcept;

 private:
  void need_stream(int urgency);
  void update(CaptureEnds& ends, unsigned how);
  cudaGraph_t graph() const;
  cudaGraph_t end_stream() noexcept;

  cuda::StreamHandle stream_;
  bool open_ = false;
};

}  // namespace sluice::detail
