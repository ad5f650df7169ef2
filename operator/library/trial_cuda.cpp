#include <algorithm>
#include <random>
#include <utility>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/error.h>
#include <sluice/operator/library/trial_cuda.h>

namespace sluice::detail {

namespace {

// Numbers of 1e-12 (in float16 0.1) in whichever floating type they are read. Equal ones would cost less power than
// data do, run quicker, and hide what a candidate puts in the wrong place.
std::vector<unsigned char> drawn_numbers() {
  constexpr std::size_t count = 8 * 125003;  // of which no extent is a multiple
  std::minstd_rand engine(3);
  std::vector<unsigned char> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto drawn = static_cast<unsigned char>(engine() >> 8);
    numbers[i] = i % 2 == 0 ? drawn : static_cast<unsigned char>(0x2c | (drawn & 0x80));
  }
  return numbers;
}

}  // namespace

Trial::Trial(const std::vector<std::size_t>& operand_bytes) {
  try {
    cuda::cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    cuda::cuda_check(cudaEventCreate(&begin_), "cudaEventCreate");
    cuda::cuda_check(cudaEventCreate(&end_), "cudaEventCreate");
    const std::vector<unsigned char> numbers = drawn_numbers();
    for (const std::size_t bytes : operand_bytes) {
      cuda::cuda_check(cudaMallocAsync(&operands_.emplace_back(nullptr), bytes, stream_), "cudaMallocAsync (trial)");
      fill(operands_.back(), bytes, numbers);
    }
    cuda::cuda_check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize (trial)");  // it reads `numbers`
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

// The numbers again and again, twice as many with each copy.
void Trial::fill(void* operand, std::size_t bytes, const std::vector<unsigned char>& numbers) {
  auto* const to = static_cast<unsigned char*>(operand);
  std::size_t done = std::min(bytes, numbers.size());
  cuda::cuda_check(
      cudaMemcpyAsync(to, numbers.data(), done, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync (trial)");
  while (done < bytes) {
    const std::size_t more = std::min(done, bytes - done);
    cuda::cuda_check(
        cudaMemcpyAsync(to + done, to, more, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync (trial)");
    done += more;
  }
}

template <class F>
auto Trial::with_scratch(std::size_t bytes, F&& f) -> decltype(f(nullptr)) {
  void* scratch = nullptr;
  if (bytes > 0 && cudaMallocAsync(&scratch, bytes, stream_) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  const auto result = f(scratch);
  if (scratch != nullptr)
    cudaFreeAsync(scratch, stream_);
  if (!result)
    cudaGetLastError();  // which would be the error of the body that asks for the trial
  return result;
}

std::optional<double> Trial::seconds(std::size_t scratch_bytes, const Run& run, const TrialEffort& effort) {
  return with_scratch(scratch_bytes, [&](void* scratch) { return measure(scratch, run, effort); });
}

bool Trial::once(std::size_t scratch_bytes, const Run& run) {
  return with_scratch(scratch_bytes, [&](void* scratch) {
    try {
      run(scratch);
    } catch (const Error&) {
      return false;
    }
    return cudaStreamSynchronize(stream_) == cudaSuccess;
  });
}

void Trial::read(std::size_t i, std::size_t at, std::size_t bytes, void* to) {
  const auto* const from = static_cast<const unsigned char*>(operands_[i]) + at;
  cuda::cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync (trial)");
  cuda::cuda_check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize (trial)");
}

std::optional<double> Trial::measure(void* scratch, const Run& run, const TrialEffort& effort) {
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
    for (int i = 0; i < effort.runs; ++i)
      run(scratch);
  } catch (const Error&) {
    good = false;
  }
  good = cudaStreamEndCapture(stream_, &graph) == cudaSuccess && good;
  good = good && cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess;
  std::vector<double> seconds;
  while (good && std::cmp_less(seconds.size(), effort.repeats) && (seconds.empty() || seconds.back() <= effort.limit)) {
    float milliseconds = 0;
    good = cudaEventRecord(begin_, stream_) == cudaSuccess && cudaGraphLaunch(executable, stream_) == cudaSuccess &&
           cudaEventRecord(end_, stream_) == cudaSuccess && cudaEventSynchronize(end_) == cudaSuccess &&
           cudaEventElapsedTime(&milliseconds, begin_, end_) == cudaSuccess;
    seconds.push_back(static_cast<double>(milliseconds) * 1e-3 / effort.runs);
  }
  if (executable != nullptr)
    cudaGraphExecDestroy(executable);
  if (graph != nullptr)
    cudaGraphDestroy(graph);
  if (!good)
    return {};
  std::sort(seconds.begin(), seconds.end());
  return effort.middle ? seconds[seconds.size() / 2] : seconds.front();
}

}  // namespace sluice::detail
