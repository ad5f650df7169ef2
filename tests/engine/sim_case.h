#pragma once

// Test cases on the simulated CUDA runtime.
#include <mutex>
#include <vector>

#include <sluice/engine/detail/test_faults.h>

#include "tests/engine/expect.h"
#include "tests/support/cuda_sim/sim.h"
#include "tests/support/gate.h"

namespace sluice::test {

/// The simulated runtime for one test case, with two GPUs unless told otherwise. Declare it first: when it goes,
/// nothing undefined may have been done, and every handle must be destroyed.
class Sim {
 public:
  explicit Sim(sim::Options options = {.devices = 2}) {
    sim::reset({.devices = 2});
    REQUIRE(num_gpus() == 2);  // which stays the answer: it is asked here, where no call fails
    sim::reset(options);
  }
  Sim(const Sim&) = delete;
  Sim& operator=(const Sim&) = delete;
  ~Sim() {
    detail::test_faults().keep_batches_open = false;
    detail::test_faults().kernels_unnamed = false;
    CHECK(sim::violations() == "");
    if (checks_leftovers_)
      CHECK(sim::leftovers() == "");
  }
  /// Batches are launched when they are full or somebody waits, not because this machine is slow.
  void keep_batches_open() { detail::test_faults().keep_batches_open = true; }
  void leave_kernels_unnamed() { detail::test_faults().kernels_unnamed = true; }
  /// For cases in which destroying itself fails.
  void tolerate_leftovers() { checks_leftovers_ = false; }

 private:
  bool checks_leftovers_ = true;
};

/// With that seed.
inline sim::Options seeded(std::uint64_t seed) {
  return {.devices = 2, .seed = seed};
}

struct SimStream {
  SimStream() { REQUIRE(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking) == cudaSuccess); }
  SimStream(const SimStream&) = delete;
  SimStream& operator=(const SimStream&) = delete;
  ~SimStream() { CHECK(cudaStreamDestroy(handle) == cudaSuccess); }
  operator cudaStream_t() const { return handle; }
  cudaStream_t handle = nullptr;
};

struct SimEvent {
  explicit SimEvent(unsigned flags = cudaEventDisableTiming) {
    REQUIRE(cudaEventCreateWithFlags(&handle, flags) == cudaSuccess);
  }
  SimEvent(const SimEvent&) = delete;
  SimEvent& operator=(const SimEvent&) = delete;
  ~SimEvent() { CHECK(cudaEventDestroy(handle) == cudaSuccess); }
  operator cudaEvent_t() const { return handle; }
  cudaEvent_t handle = nullptr;
};

/// Numbers in the order in which they came.
class Log {
 public:
  void add(int number) {
    const std::lock_guard hold(mutex_);
    numbers_.push_back(number);
  }
  std::vector<int> numbers() const {
    const std::lock_guard hold(mutex_);
    return numbers_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<int> numbers_;
};

}  // namespace sluice::test
