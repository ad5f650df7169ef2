#pragma once

#include <cuda_runtime.h>

#include <sluice/engine/queue.h>

namespace sluice::detail {

inline cudaStream_t stream_of(const Queue& queue) noexcept {
  return static_cast<cudaStream_t>(queue.stream());
}

}  // namespace sluice::detail
