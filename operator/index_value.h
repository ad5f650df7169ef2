#pragma once

#include <cstdint>

#include <sluice/ndarray/dtype.h>

namespace sluice::detail {

inline constexpr std::uint64_t k_beyond = 0x7fff'ffff'ffff'ffff;  // of any axis

/// Entry i of an array of indices of any integer type; what int64 does not hold is beyond all
/// entries, not before the first one. The switch is the same for every thread of a kernel, which is
/// cheaper than a kernel per index type.
SLUICE_HD inline std::int64_t load_index(const void* indices, DType dtype, std::int64_t i) noexcept {
  switch (dtype) {
    case DType::uint8:
      return static_cast<const std::uint8_t*>(indices)[i];
    case DType::int8:
      return static_cast<const std::int8_t*>(indices)[i];
    case DType::int32:
      return static_cast<const std::int32_t*>(indices)[i];
    case DType::int16:
      return static_cast<const std::int16_t*>(indices)[i];
    case DType::uint16:
      return static_cast<const std::uint16_t*>(indices)[i];
    case DType::uint32:
      return static_cast<const std::uint32_t*>(indices)[i];
    case DType::uint64: {
      const std::uint64_t index = static_cast<const std::uint64_t*>(indices)[i];
      return static_cast<std::int64_t>(index < k_beyond ? index : k_beyond);
    }
    default:
      return static_cast<const std::int64_t*>(indices)[i];
  }
}

/// A label whose rows do not count, if there is one; it may be a class or none.
struct IgnoredLabel {
  std::int64_t label = 0;
  bool is_given = false;

  SLUICE_HD bool is(std::int64_t other) const noexcept { return is_given && other == label; }
};

}  // namespace sluice::detail
