#pragma once

// Kernels on the simulated CUDA runtime that report bad data.
#include <atomic>

#include <sluice/engine/task.h>

#include "tests/engine/sim_run.h"

namespace sluice::test {

/// What a kernel does that meets a bad index.
inline void report(ErrorWord* word, long long value, long long bound) {
  int free = 0;
  if (!std::atomic_ref<int>(word->reserved).compare_exchange_strong(free, 1))
    return;
  word->value = value;
  word->bound = bound;
  std::atomic_ref<int>(word->code).store(1, std::memory_order_release);
}

inline Task on_gpu(const TaskName& name, AccessList access, bool capturable, int index = 0) {
  return {.name = name, .device = gpu(index), .access = std::move(access), .capturable = capturable};
}

}  // namespace sluice::test
