#pragma once

// How a kernel reports an index outside its axis without ending the CUDA context: its task fails, and whoever waits for
// what it wrote gets an IndexError.
#include <cstdint>

#include <cuda_runtime.h>

#include <sluice/engine/queue.h>

namespace sluice::detail {

/// The first thread that finds a fault describes it; `code` comes last, when the description can be read.
__device__ inline void report_index(ErrorWord* word, std::int64_t value, std::int64_t bound) {
  if (atomicCAS(&word->reserved, 0, 1) != 0)
    return;
  word->value = value;
  word->bound = bound;
  __threadfence_system();
  *static_cast<volatile int*>(&word->code) = 1;
}

}  // namespace sluice::detail
