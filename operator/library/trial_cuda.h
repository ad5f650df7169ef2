#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include <cuda_runtime.h>

namespace sluice::detail {

/// How a candidate is timed.
struct TrialEffort {
  int runs = 4;         // in one graph, so that the host's time between kernels does not count
  int repeats = 4;      // of the graph
  bool middle = false;  // the middle of the repeats, not the least
  double limit = std::numeric_limits<double>::infinity();  // seconds a run; what takes longer is not repeated
};

/// Times candidates on the current GPU, on a stream and in memory of its own: what else the GPU does is neither ordered
/// nor disturbed, but for the time that it loses. The host waits.
class Trial {
 public:
  /// The operands hold small numbers of both signs, in every floating type. Throws CudaError, and OutOfMemory where the
  /// GPU has no room for the operands' bytes.
  explicit Trial(const std::vector<std::size_t>& operand_bytes);
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  ~Trial();

  cudaStream_t stream() const noexcept { return stream_; }
  void* operand(std::size_t i) const noexcept { return operands_[i]; }

  /// Enqueues on stream().
  using Run = std::function<void(void* scratch)>;

  /// Seconds that one run keeps the GPU; empty where it throws, cannot be captured, or there is no memory for the
  /// scratch.
  std::optional<double> seconds(std::size_t scratch_bytes, const Run& run, const TrialEffort& effort = {});
  /// Runs once and waits; false where it throws or there is no memory for the scratch.
  bool once(std::size_t scratch_bytes, const Run& run);
  /// Copies `bytes` of an operand, from the byte `at` on, to the host, and waits. Throws CudaError.
  void read(std::size_t i, std::size_t at, std::size_t bytes, void* to);

 private:
  template <class F>
  auto with_scratch(std::size_t bytes, F&& f) -> decltype(f(nullptr));
  std::optional<double> measure(void* scratch, const Run& run, const TrialEffort& effort);
  void fill(void* operand, std::size_t bytes, const std::vector<unsigned char>& numbers);
  void release() noexcept;

  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  std::vector<void*> operands_;
};

}  // namespace sluice::detail
