#pragma once

#include <vector>

#include <cuda_runtime_api.h>

namespace sluice::detail {

/// Programmatic dependent launch in graphs (CUDA Programming Guide, same name): kernels of the capture under way that
/// wait themselves for what comes before them. Their blocks may take their places while that still ends. One thread's
/// notes go to the latest of its captures, until the object's end.
class EarlyStarts {
 public:
  explicit EarlyStarts(cudaStream_t captured) noexcept;
  EarlyStarts(const EarlyStarts&) = delete;
  EarlyStarts& operator=(const EarlyStarts&) = delete;
  ~EarlyStarts();

  /// The edges from kernels to kernels that wait become programmatic. False if CUDA refuses: `graph` then has lost
  /// edges.
  bool apply(cudaGraph_t graph) const noexcept;

  /// The kernel launched last on the captured stream waits itself.
  void note() noexcept;

  /// Null where `stream` is not captured for a region by this thread.
  static EarlyStarts* on(cudaStream_t stream) noexcept;

 private:
  const cudaStream_t captured_;
  EarlyStarts* const outer_;
  std::vector<cudaGraphNode_t> waiting_;
};

}  // namespace sluice::detail
