#pragma once

#include <chrono>
#include <cstdint>

namespace sluice::detail {

/// A clock that costs a few nanoseconds and that all cores agree on; its unit is a third to half of a nanosecond or
/// so. Good for order, and for ratios.
inline std::uint64_t clock_ticks() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

}  // namespace sluice::detail
