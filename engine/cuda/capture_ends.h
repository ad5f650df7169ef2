#pragma once

#include <boost/container/small_vector.hpp>
#include <cuda_runtime_api.h>

namespace sluice::detail {

/// False if no capture is under way on `stream`, or if something has spoilt it.
bool is_capturing(cudaStream_t stream) noexcept;

/// Nodes of a graph that is being captured, each with the kind of the edges that leave it: what comes next on the
/// capturing stream may have to come after them.
class CaptureEnds {
 public:
  /// Becomes those after which the capture on `stream` stands. False if it is spoilt.
  bool read(cudaStream_t stream);
  /// Adds those of `other` that are not among these.
  void add(const CaptureEnds& other);
  void clear() noexcept;
  /// What is enqueued on `stream` next comes after these; `how`: and after nothing else
  /// (cudaStreamSetCaptureDependencies), or besides (cudaStreamAddCaptureDependencies). Throws CudaError.
  void come_before(cudaStream_t stream, unsigned how);

 private:
  boost::container::small_vector<cudaGraphNode_t, 4> nodes_;
  boost::container::small_vector<cudaGraphEdgeData, 4> edges_;
};

}  // namespace sluice::detail
