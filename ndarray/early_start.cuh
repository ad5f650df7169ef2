#pragma once

// Kernels whose blocks take their places while the kernel before them still ends, in graphs of plans (programmatic
// dependent launch): each begins with start_early(), and each launch of it is followed by check_early_launch() or
// note_early_launch().
#include <cuda_runtime.h>

#include <sluice/engine/cuda/early_starts.h>
#include <sluice/ndarray/detail/gpu_build.h>
#include <sluice/ndarray/start_early.cuh>
#include <sluice/ndarray/strided.cuh>

namespace sluice::detail {

/// What was launched last on `stream` begins with start_early().
inline void note_early_launch(cudaStream_t stream) {
  if (EarlyStarts* const starts = EarlyStarts::on(stream); starts != nullptr && kernels_wait_themselves()) [[unlikely]]
    starts->note();
}

/// check_launch() of a kernel that begins with start_early().
inline void check_early_launch(const char* kernel, cudaStream_t stream) {
  check_launch(kernel);
  note_early_launch(stream);
}

}  // namespace sluice::detail
