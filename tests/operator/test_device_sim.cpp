// The simulated GPU's own: kernels see their places, barriers and exchanges order what they should, and a kernel
// without its barrier is found out.
#include <algorithm>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/operator/library/trial_cuda.h>

#include "tests/support/catch.h"
#include "tests/support/cuda_sim/sim.h"
#include "tests/support/device_sim/device.h"

namespace {

using device_sim::Config;
using device_sim::launch;

constexpr int k_threads = 96;

template <class Kernel, class... Values>
void run(const Config& config, Kernel kernel, const Values&... values) {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  launch(Config(config.grid, config.block, 0, stream), kernel, values...);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
}

// Each thread takes what another one left in shared memory.
template <bool waits>
void reverse(int* out) {
  __shared__ int kept[k_threads];
  kept[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (waits)
    __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
  if (waits)
    __syncthreads();
  kept[threadIdx.x] = -1;
}

template <bool waits>
int wrong_after_reverse() {
  constexpr int blocks = 7;
  std::vector<int> out(blocks * k_threads, -2);
  run(
      Config(blocks, k_threads), [](const auto&... values) { reverse<waits>(values...); }, out.data());
  int wrong = 0;
  for (int i = 0; i < blocks * k_threads; ++i)
    wrong += out[static_cast<std::size_t>(i)] != k_threads - 1 - i % k_threads;
  return wrong;
}

void sum_warps(int* out) {
  int value = static_cast<int>(threadIdx.x);
  for (int lanes = 16; lanes > 0; lanes /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, lanes);
  out[threadIdx.x] = value;
  int below = static_cast<int>(threadIdx.x % 32);
  for (int distance = 16; distance > 0; distance /= 2)
    below += __shfl_down_sync(0xffffffffu, below, distance);
  out[blockDim.x + threadIdx.x] = below;
}

}  // namespace

TEST_CASE("Every thread of a simulated grid runs once, at its place", "[gpu]") {
  std::vector<int> seen(3 * 2 * 2 * 8 * 4);
  run(
      Config(dim3(3, 2, 2), dim3(8, 4)),
      [](int* counts) {
        const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        counts[(block * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x] += 1;
      },
      seen.data());
  CHECK(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
}

TEST_CASE("A barrier of a simulated block orders its threads; a kernel without one is found out", "[gpu]") {
  CHECK(wrong_after_reverse<true>() == 0);
  CHECK(wrong_after_reverse<false>() > 0);
}

TEST_CASE("Lanes of a simulated warp exchange what they had when they met", "[gpu]") {
  std::vector<int> out(2 * k_threads);
  run(
      Config(1, k_threads), [](int* to) { sum_warps(to); }, out.data());
  for (int i = 0; i < k_threads; ++i)
    CHECK(out[static_cast<std::size_t>(i)] == 31 * 16 + 32 * 32 * (i / 32));
  CHECK(out[k_threads] == 31 * 16);  // of the first lane; the others take in themselves
}

TEST_CASE("A trial of what fails leaves no error to the body that asks for it", "[gpu]") {
  using sluice::detail::Trial;
  Trial trial({64});
  const auto fails = [&](void*) {  // as a library does: its own status, and CUDA's error is there still
    sluice::test::sim::fail_nth("cudaMemsetAsync", 1, cudaErrorInvalidValue);
    if (cudaMemsetAsync(trial.operand(0), 0, 64, trial.stream()) != cudaSuccess)
      throw sluice::UnsupportedError("refused");
  };
  CHECK_FALSE(trial.once(64, fails));
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK_FALSE(trial.seconds(64, fails));
  CHECK(cudaGetLastError() == cudaSuccess);
}
