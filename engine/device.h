#pragma once

#include <compare>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include <sluice/engine/export.h>

namespace sluice {

enum class DeviceKind : std::uint8_t { cpu, gpu };
inline constexpr int k_device_kinds = 2;

/// A place where tasks run and arrays live. Pinned memory is a property of memory, not a device.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::int16_t index = 0;

  constexpr bool is_cpu() const noexcept { return kind == DeviceKind::cpu; }
  constexpr bool is_gpu() const noexcept { return kind == DeviceKind::gpu; }
  constexpr auto operator<=>(const Device&) const = default;
};

constexpr Device cpu(int index = 0) noexcept {
  return {DeviceKind::cpu, static_cast<std::int16_t>(index)};
}
constexpr Device gpu(int index = 0) noexcept {
  return {DeviceKind::gpu, static_cast<std::int16_t>(index)};
}

/// Number of CUDA devices that this process can use; 0 without a driver, without a GPU, or in a build without CUDA.
/// Never throws.
SLUICE_API int num_gpus() noexcept;

/// "cpu(0)", "gpu(1)"; "device_2(0)" of a kind that the engine does not know.
SLUICE_API std::string to_string(Device device);
SLUICE_API std::ostream& operator<<(std::ostream& out, Device device);

/// Reads "cpu", "gpu", "cpu:0", "gpu:1" and the forms that to_string() writes. Throws ValueError on anything else
/// and DeviceError for a GPU that is not there.
SLUICE_API Device parse_device(std::string_view text);

}  // namespace sluice
