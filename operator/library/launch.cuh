#pragma once

#include <cuda_runtime.h>

#include <sluice/engine/queue.h>

namespace sluice::detail {

/// Throws what Queue::stream() throws: there the engine orders the task, and finds that an input has failed.
inline cudaStream_t stream_of(const Queue& queue) {
  return static_cast<cudaStream_t>(queue.stream());
}

}  // namespace sluice::detail
