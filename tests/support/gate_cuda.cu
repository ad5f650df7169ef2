#include <array>
#include <atomic>
#include <new>
#include <utility>

#include <cuda_runtime.h>

#include <sluice/engine/error.h>

#include "tests/support/gate.h"
#include "tests/support/gate_cuda.h"

namespace sluice::test {

namespace {

constexpr int k_holds = 64;
constexpr unsigned long long k_limit_ns = 15'000'000'000ull;

/// In mapped host memory: the host writes `open`, each waiting kernel writes its own words.
struct Flags {
  volatile int open;
  volatile int entered[k_holds];
  volatile int left[k_holds];
  volatile int gave_up[k_holds];
};

__device__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void wait_at_gate(Flags* flags, int hold) {
  flags->entered[hold] = 1;
  __threadfence_system();
  const unsigned long long begin = nanoseconds();
  while (flags->open == 0) {
    if (nanoseconds() - begin > k_limit_ns) {
      flags->gave_up[hold] = 1;
      break;
    }
    __nanosleep(200);
  }
  __threadfence_system();
  flags->left[hold] = 1;
}

}  // namespace

struct GpuGate::State {
  Flags* flags = nullptr;
  std::atomic<int> holds{0};

  State() {
    void* memory = nullptr;
    const cudaError_t status = cudaHostAlloc(&memory, sizeof(Flags), cudaHostAllocMapped | cudaHostAllocPortable);
    if (status != cudaSuccess)
      throw CudaError("a test's gate: cudaHostAlloc failed", status);
    flags = ::new (memory) Flags{};
    cudaFuncAttributes loaded;  // a kernel that is loaded while another one waits for the host would wait for that one
    cudaFuncGetAttributes(&loaded, wait_at_gate);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    flags->open = 1;
    const int n = holds.load();
    const bool all_left = eventually([&] {
      for (int i = 0; i < n; ++i) {
        if (flags->left[i] == 0)
          return false;
      }
      return true;
    });
    if (all_left)  // otherwise a kernel may still look: keep the memory
      cudaFreeHost(flags);
  }
};

GpuGate::GpuGate() : state_(std::make_shared<State>()) {}

void GpuGate::hold(void* stream) const {
  const int hold = state_->holds.load();
  if (hold >= k_holds)
    throw ValueError("a test's gate holds at most 64 streams");
  wait_at_gate<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(state_->flags, hold);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess)
    throw CudaError("a test's gate could not be launched", status);
  state_->holds.store(hold + 1);
}

void GpuGate::open() const noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  state_->flags->open = 1;
}

bool GpuGate::is_open() const noexcept {
  return state_->flags->open != 0;
}

bool GpuGate::reached() const {
  return eventually([this] { return state_->flags->entered[0] != 0; });
}

bool GpuGate::gave_up() const noexcept {
  for (int i = 0; i < k_holds; ++i) {
    if (state_->flags->gave_up[i] != 0)
      return true;
  }
  return false;
}

}  // namespace sluice::test
