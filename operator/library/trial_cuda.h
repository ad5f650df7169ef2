#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include <cuda_runtime.h>

namespace sluice::detail {

/// Times candidates on the current GPU, on a stream and in memory of its own: what else the GPU does is neither ordered
/// nor disturbed, but for the time that it loses. The host waits.
class Trial {
 public:
  /// Throws CudaError, and OutOfMemory where the GPU has no room for the operands' bytes.
  explicit Trial(const std::vector<std::size_t>& operand_bytes);
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  ~Trial();

  cudaStream_t stream() const noexcept { return stream_; }
  void* operand(std::size_t i) const noexcept { return operands_[i]; }

  /// Seconds that one `run(scratch)` keeps the GPU, the least of a few; empty where it throws, cannot be captured, or
  /// there is no memory for the scratch. `run` enqueues on stream().
  std::optional<double> seconds(std::size_t scratch_bytes, const std::function<void(void* scratch)>& run);

 private:
  std::optional<double> measure(void* scratch, const std::function<void(void* scratch)>& run);
  void release() noexcept;

  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  std::vector<void*> operands_;
};

}  // namespace sluice::detail
