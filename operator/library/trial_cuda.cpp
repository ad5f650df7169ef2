#include <algorithm>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/error.h>
#include <sluice/operator/library/trial_cuda.h>

namespace sluice::detail {

namespace {

constexpr int k_runs = 4;     // in one graph, so that the host's time between kernels does not count
constexpr int k_repeats = 4;  // of the graph

}  // namespace

Trial::Trial(const std::vector<std::size_t>& operand_bytes) {
  try {
    cuda::cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    cuda::cuda_check(cudaEventCreate(&begin_), "cudaEventCreate");
    cuda::cuda_check(cudaEventCreate(&end_), "cudaEventCreate");
    for (const std::size_t bytes : operand_bytes) {
      cuda::cuda_check(cudaMallocAsync(&operands_.emplace_back(nullptr), bytes, stream_), "cudaMallocAsync (trial)");
      // Small numbers in every floating type: zeros would cost less power than data do.
      cuda::cuda_check(cudaMemsetAsync(operands_.back(), 0x2c, bytes, stream_), "cudaMemsetAsync (trial)");
    }
  } catch (...) {
    release();
    throw;
  }
}

Trial::~Trial() {
  release();
}

void Trial::release() noexcept {
  for (void* const operand : operands_) {
    if (operand != nullptr)
      cudaFreeAsync(operand, stream_);
  }
  if (begin_ != nullptr)
    cudaEventDestroy(begin_);
  if (end_ != nullptr)
    cudaEventDestroy(end_);
  if (stream_ != nullptr) {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
}

std::optional<double> Trial::seconds(std::size_t scratch_bytes, const std::function<void(void* scratch)>& run) {
  void* scratch = nullptr;
  if (scratch_bytes > 0 && cudaMallocAsync(&scratch, scratch_bytes, stream_) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  const auto result = measure(scratch, run);
  if (scratch != nullptr)
    cudaFreeAsync(scratch, stream_);
  return result;
}

std::optional<double> Trial::measure(void* scratch, const std::function<void(void* scratch)>& run) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  bool good = true;
  try {
    run(scratch);  // loads what it needs
  } catch (const Error&) {
    return {};
  }
  if (cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed) != cudaSuccess)
    return {};
  try {
    for (int i = 0; i < k_runs; ++i)
      run(scratch);
  } catch (const Error&) {
    good = false;
  }
  good = cudaStreamEndCapture(stream_, &graph) == cudaSuccess && good;
  good = good && cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess;
  double least = 0;
  for (int repeat = 0; good && repeat < k_repeats; ++repeat) {
    float milliseconds = 0;
    good = cudaEventRecord(begin_, stream_) == cudaSuccess && cudaGraphLaunch(executable, stream_) == cudaSuccess &&
           cudaEventRecord(end_, stream_) == cudaSuccess && cudaEventSynchronize(end_) == cudaSuccess &&
           cudaEventElapsedTime(&milliseconds, begin_, end_) == cudaSuccess;
    const double seconds = static_cast<double>(milliseconds) * 1e-3 / k_runs;
    least = repeat == 0 ? seconds : std::min(least, seconds);
  }
  if (executable != nullptr)
    cudaGraphExecDestroy(executable);
  if (graph != nullptr)
    cudaGraphDestroy(graph);
  if (!good) {
    cudaGetLastError();
    return {};
  }
  return least;
}

}  // namespace sluice::detail
