// The list of policies by name: the one place.
#include <sched.h>

#include <sluice/engine/detail/policy.h>
#include <sluice/engine/detail/policy_pool.h>
#include <sluice/engine/detail/policy_serial.h>
#include <sluice/engine/device.h>
#include <sluice/engine/error.h>
#if SLUICE_CUDA
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

}  // namespace

std::unique_ptr<CpuPolicy> make_cpu_policy(
    Core& core, std::string_view name, int workers, const std::string& thread_name) {
  if (name == "pool")
    return std::make_unique<PoolPolicy>(core, workers == 0 ? usable_cores() : workers, thread_name);
  if (name == "serial")
    return std::make_unique<SerialPolicy>(core);
  throw ValueError(message("Engine: cpu_policy \"", name, "\" is not one of pool, serial"));
}

std::unique_ptr<GpuPolicy> make_gpu_policy([[maybe_unused]] Core& core, [[maybe_unused]] std::string_view name) {
#if SLUICE_CUDA
  if (num_gpus() > 0)
    return std::make_unique<StreamPolicy>(core, name == "serial");
#endif
  return nullptr;
}

}  // namespace sluice::detail

#if !SLUICE_CUDA
int sluice::num_gpus() noexcept {
  return 0;
}
#endif
