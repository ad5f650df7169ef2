#pragma once

namespace sluice::detail {

/// From here on NVIDIA's profilers are told of pushes and bodies (NVTX, domains "sluice push" and "sluice body"), if
/// the environment says SLUICE_NVTX=1. For the process; may be called again.
void tell_profilers() noexcept;

}  // namespace sluice::detail
