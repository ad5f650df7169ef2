#pragma once

#include <cstdint>

#include <sluice/ndarray/dtype.h>

namespace sluice::detail {

/// Entry i of an array of indices of any integer type. The switch is the same for every thread of a kernel, which is
/// cheaper than a kernel per index type.
SLUICE_HD inline std::int64_t load_index(const void* indices, DType dtype, std::int64_t i) noexcept {
  switch (dtype) {
    case DType::uint8:
      return static_cast<const std::uint8_t*>(indices)[i];
    case DType::int8:
      return static_cast<const std::int8_t*>(indices)[i];
    case DType::int32:
      return static_cast<const std::int32_t*>(indices)[i];
    default:
      return static_cast<const std::int64_t*>(indices)[i];
  }
}

}  // namespace sluice::detail
