// The list of policies: the one place.
#include <memory>
#include <optional>
#include <sched.h>
#include <string>
#include <vector>

#include <sluice/engine/detail/options.h>
#include <sluice/engine/detail/policy.h>
#include <sluice/engine/detail/policy_chaos.h>
#include <sluice/engine/detail/policy_pool.h>
#include <sluice/engine/detail/policy_serial.h>
#include <sluice/engine/device.h>
#include <sluice/engine/error.h>
#if SLUICE_CUDA
#include <sluice/engine/cuda/nvtx.h>
#include <sluice/engine/cuda/policy_stream.h>
#endif

namespace sluice::detail {

namespace {

// Cores that this process may use, which a container or taskset makes fewer than the machine has.
int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0)
    return 1;
  return CPU_COUNT(&set) < 1 ? 1 : CPU_COUNT(&set);
}

void check_cores(const std::vector<int>& cores) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0)
    return;
  for (int core : cores) {
    require(core >= 0 && core < CPU_SETSIZE && CPU_ISSET(static_cast<std::size_t>(core), &set), [&] {
      return message("Engine: core ", core, " is not one of the ", CPU_COUNT(&set), " that the process may use");
    });
  }
}

}  // namespace

std::unique_ptr<CpuPolicy> make_cpu_policy(Core& core, const EngineOptions& options) {
  const CpuMode mode = options.cpu_policy;
  if (options.executor) {
    require(mode == CpuMode::pool && options.workers == 0, [] {
      return std::string("Engine: with an executor of the application there are neither workers nor a cpu_policy");
    });
    return make_executor_policy(core, options.executor);
  }
  if (mode == CpuMode::serial)
    return std::make_unique<SerialPolicy>(core);
  if (mode == CpuMode::chaos)
    return std::make_unique<ChaosPolicy>(core, options.chaos_seed);
  check_cores(options.cores);
  require(options.workers <= PoolPolicy::k_max_threads, [&] {
    return message("Engine: workers = ", options.workers, ", at most ", PoolPolicy::k_max_threads, " can be had");
  });
  const int workers = options.workers == 0 ? usable_cores() : options.workers;
  return std::make_unique<PoolPolicy>(core, options, workers, mode == CpuMode::chaos_pool);
}

std::unique_ptr<GpuPolicy> make_gpu_policy([[maybe_unused]] Core& core, [[maybe_unused]] const EngineOptions& options) {
#if SLUICE_CUDA
  if (num_gpus() > 0) {
    tell_profilers();
    const CpuMode mode = options.cpu_policy;
    const bool serial = options.gpu_policy == GpuMode::serial, each = options.gpu_check == GpuCheck::each;
    const bool chaos = mode == CpuMode::chaos || mode == CpuMode::chaos_pool;
    const LaunchOptions launch{
        .batches = launch_of(options) == LaunchMode::batch && !serial && !each,
        .one_stream = serial,
        .waits = serial || each,
        .chaos = chaos ? std::optional(options.chaos_seed) : std::nullopt};
    return std::make_unique<StreamPolicy>(core, launch);
  }
#endif
  return nullptr;
}

}  // namespace sluice::detail

#if !SLUICE_CUDA
int sluice::num_gpus() noexcept {
  return 0;
}
#endif
