// Which GPUs this build serves, asked once for each.
#include <array>
#include <atomic>

#include <sluice/engine/error.h>
#include <sluice/ndarray/detail/gpu_build.h>
#include <sluice/ndarray/gpu_support.h>

namespace sluice {
namespace detail {
namespace {

std::string version(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

std::string versions(const GpuBuild& build) {
  std::string text;
  for (const int capability : build.capabilities)
    text += (text.empty() ? "" : ", ") + version(capability);
  if (build.ptx != 0)
    text += (text.empty() ? "" : ", and ") + std::string("PTX for ") + version(build.ptx) + " and later";
  return text;
}

}  // namespace

bool has_code_for(const GpuBuild& build, int capability) noexcept {
  if (build.ptx != 0 && capability >= build.ptx)
    return true;
  for (const int built : build.capabilities) {
    if (built / 10 == capability / 10 && built <= capability)
      return true;
  }
  return false;
}

std::string describe_refusal(Device device, const GpuFacts& gpu, const GpuBuild& build) {
  if (gpu.refusal.empty())
    return "";
  const std::string what = message(
      device, " is a ", gpu.name, " of compute capability ", version(gpu.capability), ", and this build of Sluice ");
  constexpr int k_oldest = 75;  // that CUDA 13 and cuDNN 9 serve
  if (gpu.capability < k_oldest)
    return message(what, "needs 7.5 at least (it has code for ", versions(build), "): use cpu()");
  const std::string remedy =
      message("configure it with -Dgpu_arch=", gpu.capability, ", or with -Dgpu_arch=auto on this machine");
  if (has_code_for(build, gpu.capability))
    return message(
        what,
        "has code for ",
        versions(build),
        ", which the driver refuses (",
        gpu.refusal,
        "): update it, or ",
        remedy);
  return message(what, "has code for ", versions(build), " only: ", remedy);
}

namespace {

#ifdef SLUICE_CUDA
constexpr int k_most_gpus = 64;
std::array<std::atomic<bool>, k_most_gpus> is_served{};

std::string ask(Device device) {
  if (device.index < k_most_gpus && is_served[device.index].load(std::memory_order_relaxed))
    return "";
  const std::string why = describe_refusal(device, probe_gpu(device.index), gpu_build());
  if (why.empty() && device.index < k_most_gpus)
    is_served[device.index].store(true, std::memory_order_relaxed);
  return why;
}
#else
std::string ask(Device) {
  return "";
}
#endif

}  // namespace

void require_served(Device device) {
#ifdef SLUICE_CUDA
  if (device.index >= 0 && device.index < num_gpus()) {  // the pool names one that is not there
    const std::string why = ask(device);
    if (!why.empty())
      throw DeviceError(why);
  }
#else
  (void)device;
#endif
}

}  // namespace detail

std::string why_unusable(Device device) {
  if (device.is_cpu())
    return device.index == 0 ? "" : message("there is no ", device, "; the one CPU device is ", cpu());
  if (device.index < 0 || device.index >= num_gpus())
    return message("there is no ", device, ": this process sees ", num_gpus(), " GPU(s)");
  return detail::ask(device);
}

}  // namespace sluice
