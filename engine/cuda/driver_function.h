#pragma once

#include <cuda_runtime_api.h>

namespace sluice::detail {

/// A function of the driver, found when the program runs: it need not be linked with the driver. Null where the driver
/// has none of that name.
template <class Function>
Function* driver_function(const char* name) noexcept {
  constexpr unsigned version = 12000;
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &result);
  if (status == cudaSuccess && result == cudaDriverEntryPointSuccess)
    return reinterpret_cast<Function*>(entry);
  cudaGetLastError();
  return nullptr;
}

}  // namespace sluice::detail
